/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* libFuzzer target: the first bytes of a message of a DataLoader's queue. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "msg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	int64_t index = 0;
	enum dlp_msg_type type = dlp_msg_parse(data, bytes, &index);
	bool numbered = type == DLP_MSG_INDEX || type == DLP_MSG_ERROR || type == DLP_MSG_END;

	if (numbered ? index < 0 : index != -1)
		abort();
	return 0;
}
