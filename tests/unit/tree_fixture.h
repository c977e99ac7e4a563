/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The fixture of tests that need nothing but a made-up tree: one for each test. */
#ifndef TREE_FIXTURE_H
#define TREE_FIXTURE_H

#include "tree.h"

static struct tree tree;

static inline int start(void **state)
{
	(void)state;
	tree_init(&tree);
	return 0;
}

static inline int end(void **state)
{
	(void)state;
	tree_fini(&tree);
	return 0;
}

#endif /* TREE_FIXTURE_H */
