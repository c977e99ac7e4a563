/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * C functions that Python calls by name, found through CPython's method tables
 * (struct PyMethodDef, slotdefs), for builds without their symbols. Knows nothing of processes.
 */
#ifndef DLP_ELF_METHOD_H
#define DLP_ELF_METHOD_H

#include "elf_sym.h"

/* METH_FASTCALL | METH_KEYWORDS: f(module, args, nargs, kwnames) */
#define DLP_METH_FASTCALL_KEYWORDS 0x82

struct dlp_elf_method {
	const char *name;     /* ml_name */
	uint32_t flags;	      /* ml_flags */
	const char *previous; /* ml_name of the entry before it: tells tables apart */
};

/*
 * The method's C function. ret->size is 0: not known. 0, -ENOENT, -ENOTUNIQ, -EBADMSG.
 */
int dlp_elf_find_method(const struct dlp_elf *elf, const struct dlp_elf_method *method,
			struct dlp_elf_sym *ret);

/*
 * slot_tp_iternext, which every `for` and next() over an object of a Python class goes through: by
 * its name in .symtab, else by the entry of "__next__" in typeobject.c's slotdefs.
 */
int dlp_elf_find_next_slot(const struct dlp_elf *elf, struct dlp_elf_sym *ret);

/*
 * pickle.loads as C: _pickle_loads in .symtab, else by its method table.
 */
int dlp_elf_find_pickle_loads(const struct dlp_elf *elf, struct dlp_elf_sym *ret);

#endif /* DLP_ELF_METHOD_H */
