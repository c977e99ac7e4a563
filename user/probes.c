/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "probes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "elf_method.h"
#include "elf_sym.h"
#include "insn.h"
#include "util.h"
#include "version.h"

/*
 * Prefixes of mangled names: the rest differs by release and by std::string ABI.
 * enter_new takes the label as std::string const& in the second argument register; toCustomClass
 * is what the boxed wrapper of _record_function_exit calls, once per exit.
 */
#define ENTER_NEW "_ZN5torch8autograd8profiler25record_function_enter_newE"
#define TO_CUSTOM_CLASS                                                                            \
	"_ZNO3c106IValue13toCustomClassIN5torch8autograd8profiler20PythonRecordFunctionEEE"
#define OP_VECTOR "_ZN5torch3jit37_get_operation_for_overload_or_packetERKSt6vector"
#define OP_ARRAYREF "_ZN5torch3jit37_get_operation_for_overload_or_packetEN3c108ArrayRef"
/* 1.8 to 1.11 only: from 1.12 on Python calls other operators */
#define ENTER_OLD "_ZN5torch8autograd8profiler21record_function_enterE"
#define EXIT_OLD "_ZN5torch8autograd8profiler20record_function_exitE"
/* An operator of 2.0 whose C++ entry every build exports */
#define SINCE_2_0 "_ZN2at4_ops28scaled_dot_product_attention4callE"

/*
 * op's vector form is 0x1d2 to 0xbb8 bytes where it does the work, 0x3f where it forwards, 0x6c with
 * a stack protector, whose end is a second call.
 */
#define FORWARDER_BYTES_MAX 0x80
#define FORWARDER_CALLS_MAX 4
/* endbr64 and the beginning of a push fit. */
#define BEGIN_BYTES 8

/* Which argument register holds the Python tuple: see dlp_config.op_args_param. */
#define OP_VECTOR_ARGS 4
#define OP_ARRAYREF_ARGS 5

static int __attribute__((format(printf, 3, 4)))
refuse(struct dlp_probe_sources *sources, int err, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(sources->why, sizeof(sources->why), format, args);
	va_end(args);
	return err;
}

static const char *shown(const struct dlp_mapped *mapped, char *buf, size_t size)
{
	const char *base = mapped->map ? dlp_mapped_base(mapped->map->path) : "";

	return dlp_sanitise(buf, size, base, strlen(base));
}

/* Explains a failed look-up; err passes through. */
static int refuse_symbol(struct dlp_probe_sources *sources, const struct dlp_mapped *mapped,
			 const char *what, int err)
{
	char name[64];

	shown(mapped, name, sizeof(name));
	if (err == -ENOENT)
		return refuse(sources, err, "%s has no symbol for %s", name, what);
	if (err == -ENOTUNIQ)
		return refuse(sources, err, "%s has several functions that could be %s", name,
			      what);
	return refuse(sources, err, "%s in %s can't be looked up: %s", what, name,
		      err == -EBADMSG ? "the file is damaged" : strerror(-err));
}

/*
 * Adds a probe at the function at file offset `offset`, moved to its first instruction that is
 * cheap to probe, after comparing with the target's memory.
 */
static int add_probe(struct dlp_probe_sources *sources, struct dlp_target *target,
		     enum dlp_probe_id id, const struct dlp_mapped *mapped, uint64_t offset,
		     const char *symbol)
{
	uint8_t code[DLP_INSN_ENTRY_BYTES];
	uint64_t left = mapped->elf->bytes - offset;
	size_t bytes = left < sizeof(code) ? (size_t)left : sizeof(code);
	struct dlp_insn_entry entry;
	struct dlp_probe *probe;
	char name[64];
	int err;

	shown(mapped, name, sizeof(name));
	if (target->probe_cnt == DLP_PROBES_MAX)
		return refuse(sources, -ENOSPC, "too many probe points");
	err = dlp_elf_read(mapped->elf, offset, code, bytes);
	if (!err)
		err = dlp_insn_entry(mapped->elf->machine, code, bytes, &entry);
	if (err)
		return refuse(sources, err, "%s has no code to probe at 0x%" PRIx64, name, offset);
	offset += entry.skip;
	err = dlp_mapped_check(&sources->view, mapped, offset);
	if (err == -ENODEV)
		return refuse(sources, err, "%s is loaded without the part at 0x%" PRIx64, name,
			      offset);
	if (err)
		return refuse(sources, err,
			      "%s in memory differs from the file at 0x%" PRIx64
			      ": patched, or replaced on disk",
			      name, offset);
	probe = &target->probe[target->probe_cnt++];
	*probe = (struct dlp_probe){
		.id = id,
		.offset = offset,
		.insn = entry.insn,
		.slow = entry.slow,
	};
	memcpy(probe->path, mapped->path, sizeof(probe->path));
	dlp_sanitise(probe->shown, sizeof(probe->shown), mapped->map->path,
		     strlen(mapped->map->path));
	dlp_sanitise(probe->symbol, sizeof(probe->symbol), symbol, strlen(symbol));
	return 0;
}

static int add_function(struct dlp_probe_sources *sources, struct dlp_target *target,
			enum dlp_probe_id id, const struct dlp_mapped *mapped,
			enum dlp_elf_match match, const char *name, const char *what)
{
	struct dlp_elf_sym sym;
	int err;

	err = dlp_elf_find(mapped->elf, DLP_ELF_FUNC, match, name, &sym);
	if (err)
		return refuse_symbol(sources, mapped, what, err);
	return add_probe(sources, target, id, mapped, sym.offset, sym.name);
}

/* A, torch 2.0 and later. */
static int select_new(struct dlp_probe_sources *sources, struct dlp_target *target)
{
	int err;

	err = add_function(sources, target, DLP_PROBE_SCOPE_ENTER, &sources->torch_cpu,
			   DLP_ELF_PREFIX, ENTER_NEW, "record_function_enter_new");
	if (err)
		return err;
	/*
	 * The exit's caller is in libtorch_cpu; the dynamic linker binds its call to one of the
	 * two exported copies. Never both, so both are probed.
	 */
	err = add_function(sources, target, DLP_PROBE_SCOPE_EXIT, &sources->torch_cpu,
			   DLP_ELF_PREFIX, TO_CUSTOM_CLASS, "toCustomClass<PythonRecordFunction>");
	if (err)
		return err;
	err = add_function(sources, target, DLP_PROBE_SCOPE_EXIT, &sources->torch_python,
			   DLP_ELF_PREFIX, TO_CUSTOM_CLASS, "toCustomClass<PythonRecordFunction>");
	/* without a copy of its own it can't take the call from libtorch_cpu's */
	if (err && err != -ENOENT)
		return err;
	target->scope_kind = DLP_SCOPE_KIND_A;
	return 0;
}

/* Neither an entry of the PLT (__stack_chk_fail's) nor what some e8 byte points to by chance. */
static bool begins_function(const struct dlp_elf *elf, uint64_t addr)
{
	uint8_t begin[BEGIN_BYTES];

	return !dlp_elf_read_addr(elf, addr, begin, sizeof(begin)) &&
	       dlp_insn_is_prologue(elf->machine, begin, sizeof(begin));
}

/* The function that a stripped forwarder calls, as a file offset. */
static int follow_forwarder(const struct dlp_elf *elf, const struct dlp_elf_sym *forwarder,
			    uint64_t *ret)
{
	const Elf64_Phdr *text = dlp_elf_segment(elf, forwarder->addr, PF_X);
	uint64_t called[FORWARDER_CALLS_MAX], addr = 0;
	uint8_t code[FORWARDER_BYTES_MAX];
	int cnt, err;

	if (!text || !forwarder->size || forwarder->size > sizeof(code))
		return -EBADMSG;
	err = dlp_elf_read(elf, forwarder->offset, code, forwarder->size);
	if (err)
		return err;
	cnt = dlp_insn_calls(elf->machine, code, forwarder->size, forwarder->addr, text->p_vaddr,
			     text->p_vaddr + text->p_filesz, called, DLP_ARRAY_SIZE(called));
	for (int i = 0; i < cnt; i++) {
		if (!begins_function(elf, called[i]))
			continue;
		if (addr)
			return -ENOTUNIQ;
		addr = called[i];
	}
	if (cnt < 0)
		return cnt == -E2BIG ? -ENOTUNIQ : cnt;
	return addr ? dlp_elf_addr_to_off(elf, addr, PF_X, ret) : -ENOENT;
}

/* B, 1.12 and 1.13, and later builds that hide what A needs. */
static int select_op(struct dlp_probe_sources *sources, struct dlp_target *target, bool new_ops)
{
	const struct dlp_mapped *mapped = &sources->torch_python;
	static const char what[] = "_get_operation_for_overload_or_packet";
	struct dlp_elf_sym vector, local;
	int err;

	if (sources->is_free_threaded)
		return refuse(sources, -ENOTSUP,
			      "a free-threaded Python lays out its objects "
			      "differently");
	target->op_exit_delta = new_ops ? 1 : 2;
	target->str_data_off = dlp_version_at_least(&target->python, 3, 12) ? 40 : 48;
	target->tuple_item_off = dlp_version_at_least(&target->python, 3, 14) ? 32 : 24;
	err = dlp_elf_find(mapped->elf, DLP_ELF_FUNC, DLP_ELF_PREFIX, OP_VECTOR, &vector);
	if (err)
		return refuse_symbol(sources, mapped, what, err);
	if (vector.size >= FORWARDER_BYTES_MAX) {
		target->op_args_param = OP_VECTOR_ARGS;
		err = add_probe(sources, target, DLP_PROBE_SCOPE_OP, mapped, vector.offset,
				vector.name);
	} else {
		/* exits go past the forwarder, straight to the local overload */
		target->op_args_param = OP_ARRAYREF_ARGS;
		err = dlp_elf_find_in(mapped->elf, DLP_ELF_SYMTAB, DLP_ELF_FUNC, DLP_ELF_PREFIX,
				      OP_ARRAYREF, &local);
		if (err == -ENOENT) {
			err = follow_forwarder(mapped->elf, &vector, &local.offset);
			(void)snprintf(local.name, sizeof(local.name), "%s (by its caller)", what);
		}
		if (err)
			return refuse_symbol(sources, mapped, what, err);
		err = add_probe(sources, target, DLP_PROBE_SCOPE_OP, mapped, local.offset,
				local.name);
	}
	if (!err)
		target->scope_kind = DLP_SCOPE_KIND_B;
	return err;
}

/* C, 1.8 to 1.11: in .symtab only. */
static int select_old(struct dlp_probe_sources *sources, struct dlp_target *target)
{
	int err;

	err = add_function(sources, target, DLP_PROBE_SCOPE_ENTER, &sources->torch_cpu,
			   DLP_ELF_PREFIX, ENTER_OLD, "record_function_enter");
	if (!err)
		err = add_function(sources, target, DLP_PROBE_SCOPE_EXIT, &sources->torch_cpu,
				   DLP_ELF_PREFIX, EXIT_OLD, "record_function_exit");
	if (!err)
		target->scope_kind = DLP_SCOPE_KIND_C;
	return err;
}

/*
 * Does Python call the operators of 2.0 (enter_new and an exit by class)? In 1.12 and 1.13 all
 * names of A are there, and never called.
 */
static bool calls_new_operators(const struct dlp_probe_sources *sources,
				const struct dlp_target *target)
{
	_cleanup_free_ char *text = NULL;
	const size_t size = 256u << 10;
	struct dlp_elf_sym sym;
	char path[600];
	size_t bytes;

	if (dlp_version_at_least(&target->torch, 2, 0))
		return true;
	if (target->torch.major && !dlp_version_at_least(&target->torch, 1, 14))
		return false;
	/* 1.14.0a0, of some vendors' containers, is a nightly on the way to 2.0: ask its Python */
	text = sources->torch_package[0] ? malloc(size) : NULL;
	(void)snprintf(path, sizeof(path), "%s/autograd/profiler.py", sources->torch_package);
	if (text && !dlp_mapped_read_text(&sources->view, path, text, size, &bytes))
		return strstr(text, "_record_function_enter_new(");
	/*
	 * No version: tell by an operator that came with 2.0. A nightly between may be told
	 * wrong; then no scope is seen, which is said where scopes are missed.
	 */
	return dlp_elf_find_in(sources->torch_cpu.elf, DLP_ELF_DYNSYM, DLP_ELF_FUNC, DLP_ELF_PREFIX,
			       SINCE_2_0, &sym) != -ENOENT;
}

/* Before 1.13 what is needed is in .symtab only. */
static bool lost_its_symbols(const struct dlp_probe_sources *sources,
			     const struct dlp_target *target, int err)
{
	return err == -ENOENT && target->torch.major &&
	       !dlp_version_at_least(&target->torch, 1, 13) && !sources->torch_cpu.elf->symtab.cnt;
}

static int fail_scope(const struct dlp_probe_sources *sources, const struct dlp_target *target,
		      const char *first_why, int err, struct dlp_target_failure *failure)
{
	failure->err = err == -ESTALE || err == -EIO ? DLP_TARGET_IO : DLP_TARGET_NO_PROBE;
	(void)snprintf(failure->text, sizeof(failure->text),
		       "no usable probe point in torch %s: %s%s%s%s",
		       target->torch.major ? target->torch.text : "(version unknown)", first_why,
		       first_why[0] ? "; " : "", sources->why,
		       lost_its_symbols(sources, target, err) ?
			       ": it is stripped; use its wheel, or torch 1.13 or later" :
			       "");
	return -1;
}

/* What serves a torch whose Python does not call the pair of 2.0, or that hides it. */
static int select_fallback(struct dlp_probe_sources *sources, struct dlp_target *target,
			   bool new_ops)
{
	const struct dlp_version *torch = &target->torch;
	int err = -ENOENT;

	if (!torch->major || dlp_version_at_least(torch, 1, 12))
		err = select_op(sources, target, new_ops);
	/* that function came with 1.12: an unknown version without it may be older */
	if (err == -ENOENT && !new_ops && !dlp_version_at_least(torch, 1, 12))
		err = select_old(sources, target);
	return err;
}

int dlp_probes_scope(struct dlp_probe_sources *sources, struct dlp_target *target,
		     struct dlp_target_failure *failure)
{
	const struct dlp_version *torch = &target->torch;
	bool new_ops = calls_new_operators(sources, target);
	char first_why[sizeof(sources->why)] = "";
	const size_t before = target->probe_cnt;
	int err;

	if (torch->major && !dlp_version_at_least(torch, 1, 8)) {
		failure->err = DLP_TARGET_TORCH_OLD;
		(void)snprintf(failure->text, sizeof(failure->text),
			       "torch %s has no record_function around its loader; 1.8 or later is "
			       "needed",
			       torch->text);
		return -1;
	}
	if (new_ops) {
		err = select_new(sources, target);
		if (!err)
			return 0;
		target->probe_cnt = before;
		/* a library that is not what its file says is no case for the next best function */
		if (err == -ESTALE)
			return fail_scope(sources, target, "", err, failure);
		memcpy(first_why, sources->why, sizeof(first_why));
	}
	err = select_fallback(sources, target, new_ops);
	if (!err)
		return 0;
	target->probe_cnt = before;
	return fail_scope(sources, target, first_why, err, failure);
}

static int add_receive(struct dlp_probe_sources *sources, struct dlp_target *target)
{
	const struct dlp_mapped *mapped = sources->pickle.elf ? &sources->pickle : &sources->python;
	struct dlp_elf_sym sym;
	int err;

	if (sources->is_free_threaded)
		return refuse(sources, -ENOTSUP,
			      "a free-threaded Python lays out its objects "
			      "differently");
	if (!mapped->elf)
		return refuse(sources, -ENOENT, "Python's own file can't be read");
	err = dlp_elf_find_pickle_loads(mapped->elf, &sym);
	if (err)
		return refuse_symbol(sources, mapped, "pickle.loads", err);
	return add_probe(sources, target, DLP_PROBE_QUEUE_RECV, mapped, sym.offset, sym.name);
}

static int add_send(struct dlp_probe_sources *sources, struct dlp_target *target)
{
	if (!sources->python.elf)
		return refuse(sources, -ENOENT, "Python's own file can't be read");
	return add_function(sources, target, DLP_PROBE_QUEUE_SEND, &sources->python, DLP_ELF_EXACT,
			    "_Py_write", "_Py_write");
}

void dlp_probes_queue(struct dlp_probe_sources *sources, struct dlp_target *target)
{
	target->queue_note[0] = '\0';
	if (add_send(sources, target))
		(void)snprintf(target->queue_note, sizeof(target->queue_note),
			       "messages sent are not seen: %.150s", sources->why);
	if (!add_receive(sources, target))
		return;
	if (target->queue_note[0])
		(void)snprintf(target->queue_note, sizeof(target->queue_note),
			       "messages are not seen: %.150s", sources->why);
	else
		(void)snprintf(target->queue_note, sizeof(target->queue_note),
			       "messages received are not seen: %.150s", sources->why);
}

void dlp_probes_next(struct dlp_probe_sources *sources, struct dlp_target *target)
{
	struct dlp_elf_sym sym;

	if (!sources->python.elf || sources->is_free_threaded ||
	    dlp_elf_find_next_slot(sources->python.elf, &sym))
		return;
	(void)add_probe(sources, target, DLP_PROBE_NEXT, &sources->python, sym.offset, sym.name);
	sources->why[0] = '\0';
}

static int add_sem_open(struct dlp_probe_sources *sources, struct dlp_target *target,
			enum dlp_mapped_name name)
{
	const struct dlp_proc_map *map = dlp_mapped_find(sources->view.maps, name);
	struct dlp_mapped mapped;
	int err;

	if (!map)
		return refuse(sources, -ENOENT, "no C library is loaded");
	err = dlp_mapped_open(&sources->view, map, &mapped);
	if (err)
		return refuse(sources, err, "the C library can't be read: %s", strerror(-err));
	err = add_function(sources, target, DLP_PROBE_SEM_OPEN, &mapped, DLP_ELF_EXACT, "sem_open",
			   "sem_open");
	dlp_mapped_fini(&mapped);
	return err;
}

void dlp_probes_iterator(struct dlp_probe_sources *sources, struct dlp_target *target)
{
	int err;

	target->iterator_note[0] = '\0';
	err = add_sem_open(sources, target, DLP_MAPPED_LIBC);
	if (err == -ENOENT && dlp_mapped_find(sources->view.maps, DLP_MAPPED_LIBPTHREAD))
		err = add_sem_open(sources, target, DLP_MAPPED_LIBPTHREAD);
	if (err)
		(void)snprintf(target->iterator_note, sizeof(target->iterator_note),
			       "the start of iterators is not seen: %.150s", sources->why);
}
