/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A program that is no Python and runs one: embed LIBPYTHON PYTHON ARGS... is PYTHON ARGS..., in the
 * interpreter of that library. PYTHON only tells where its packages are.
 */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	int (*run)(int argc, char **argv) = NULL;
	void *library;

	if (argc < 3) {
		fprintf(stderr, "usage: embed LIBPYTHON PYTHON [ARGUMENT]...\n");
		return 2;
	}
	/* extension modules take the interpreter's functions from whoever has them */
	library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
	if (library)
		*(void **)&run = dlsym(library, "Py_BytesMain");
	if (!run) {
		fprintf(stderr, "embed: %s\n", dlerror());
		return 1;
	}
	return run(argc - 2, argv + 2);
}
