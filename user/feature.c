/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "feature.h"

#include <string.h>

#include "util.h"

static const struct {
	const char *name;
	const char *loss;
} features[] = {
#define X(NAME, name, loss) [DLP_FEATURE_##NAME] = { name, loss },
	DLP_FEATURES(X)
#undef X
};

const char *dlp_feature_name(enum dlp_feature feature)
{
	return features[feature].name;
}

const char *dlp_feature_loss(enum dlp_feature feature)
{
	return features[feature].loss;
}

int dlp_feature_find(const char *name)
{
	for (size_t i = 0; i < DLP_ARRAY_SIZE(features); i++) {
		if (!strcmp(features[i].name, name))
			return (int)i;
	}
	return -1;
}
