/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Unpacks what tests/torch/fixture.py has made of the libraries of torch releases. */
#ifndef FIXTURE_H
#define FIXTURE_H

#include "tree.h"

#define FIXTURE_FOLDER "tests/data/torch/"

/* The library with its original size and offsets, nearly all of it a hole. */
void fixture_unpack(const struct tree *tree, const char *name, const char *path);

/* File offset of a function as binutils see the original; 0: it is not there. */
uint64_t fixture_expected(const char *release, const char *library, const char *function);

#endif /* FIXTURE_H */
