/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Libraries of made-up trainers, mapped by the made-up processes of tree.h. */
#ifndef FAKE_TORCH_H
#define FAKE_TORCH_H

#include "elf_build.h"
#include "tree.h"

/* Names as releases have them. */
#define SYM_ENTER_NEW_1_13                                                                         \
	"_ZN5torch8autograd8profiler25record_function_enter_newERKSsRKN3c108optionalISsEE"
#define SYM_ENTER_NEW_2_13                                                                         \
	"_ZN5torch8autograd8profiler25record_function_enter_newERKNSt7__cxx1112basic_stri"         \
	"ngIcSt11char_traitsIcESaIcEEERKSt8optionalIS7_E"
#define SYM_TO_CUSTOM_CLASS                                                                        \
	"_ZNO3c106IValue13toCustomClassIN5torch8autograd8profiler20PythonRecordFunctionEE"         \
	"ENS_13intrusive_ptrIT_NS_6detail34intrusive_target_default_null_typeIS7_EEEEv"
#define SYM_OP_VECTOR                                                                              \
	"_ZN5torch3jit37_get_operation_for_overload_or_packetERKSt6vectorISt10shared_ptrI"         \
	"NS0_8OperatorEESaIS4_EEN3c106SymbolERKN8pybind114argsERKNSB_6kwargsEbSt8optional"         \
	"INS9_11DispatchKeyEE"
#define SYM_OP_ARRAYREF                                                                            \
	"_ZN5torch3jit37_get_operation_for_overload_or_packetEN3c108ArrayRefISt10shared_p"         \
	"trINS0_8OperatorEEEENS1_6SymbolERKN8pybind114argsERKNS8_6kwargsEbSt8optionalINS1"         \
	"_11DispatchKeyEE"
#define SYM_ENTER_OLD "_ZN5torch8autograd8profiler21record_function_enterERKSs"
#define SYM_EXIT_OLD "_ZN5torch8autograd8profiler20record_function_exitERKN2at6TensorE"
#define SYM_SINCE_2_0 "_ZN2at4_ops28scaled_dot_product_attention4callERKNS_6TensorES4_S4_"

#define FAKE_FUNC(sym_name, sym_off, sym_size, dynamic)                                            \
	{                                                                                          \
		.name = sym_name, .where = ELF_IN_TEXT, .off = sym_off, .size = sym_size,          \
		.bind = STB_GLOBAL, .type = STT_FUNC, .is_dynamic = dynamic                        \
	}

/* Where torch and Python lie in the target's own view. */
#define FAKE_PACKAGE "/opt/venv/lib/python3.11/site-packages/torch"
#define FAKE_TORCH_CPU FAKE_PACKAGE "/lib/libtorch_cpu.so"
#define FAKE_TORCH_PYTHON FAKE_PACKAGE "/lib/libtorch_python.so"
#define FAKE_LIBPYTHON "/usr/lib/libpython3.11.so.1.0"
#define FAKE_LIBC "/usr/lib/x86_64-linux-gnu/libc.so.6"
#define FAKE_PICKLE "/usr/lib/python3.11/lib-dynload/_pickle.cpython-311-x86_64-linux-gnu.so"

/* How a file is mapped, beside honestly and reachable by path only. */
#define FAKE_BY_MAP_FILES (1u << 0) /* proc/PID/map_files leads to it */
#define FAKE_OTHER_INODE (1u << 1)  /* the path now names another file */
#define FAKE_DELETED (1u << 2)	    /* the path names nothing */
#define FAKE_NO_CODE (1u << 3)	    /* its code is not mapped for execution */
#define FAKE_CHROOTED (1u << 4)	    /* the path is as we see it, outside of the target's root */

/* The first byte of a fake's functions: of a push or, on arm64, a nop. None of it runs. */
#define FAKE_INSN (DLP_ARCH_MACHINE == EM_AARCH64 ? 0x1f : 0x55)
void fake_code(struct elf_build *build);

/*
 * Builds a library of these symbols into the target's root and maps it at `addr`, code first.
 * `build` may hold code and data already, and keeps the image: elf_build_fini when done.
 */
void fake_map(const struct tree *tree, int pid, struct elf_build *build,
	      const struct elf_build_sym *sym, size_t cnt, const char *path, uint64_t addr,
	      unsigned int flags);

/* The process's memory at an address. Sparse: addresses below some terabytes only. */
void fake_memory(const struct tree *tree, int pid, uint64_t addr, const void *data, size_t bytes);

#endif /* FAKE_TORCH_H */
