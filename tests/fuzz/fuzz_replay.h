/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef DLP_FUZZ_REPLAY_H
#define DLP_FUZZ_REPLAY_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t max_bytes, unsigned int seed);
/* libFuzzer's own. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t bytes, size_t max_bytes);

#endif /* DLP_FUZZ_REPLAY_H */
