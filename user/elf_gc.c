/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "elf_gc.h"

#include <errno.h>
#include <string.h>

#include "elf_code.h"
#include "elf_sym.h"
#include "util.h"

/* Before neighbours are merged. */
#define FOUND_MAX 2048
/* An interpreter's names are 0.3 to 2 MB; held in memory, since all of them are looked at. */
#define NAMES_BYTES_MAX (16u << 20)
/* PyTypeObject.tp_traverse, the same in every 64-bit CPython from 3.8 to 3.14. */
#define TP_TRAVERSE_OFFSET 184
/* Static types that an interpreter exports: about 110. */
#define TYPES_MAX 256

/* From PyGC_Collect on: 3.11 with link-time optimisation calls 17 functions within three steps. */
#define WALK_MAX 128
#define WALK_DEPTH_MAX 4
/* The collector with all that is inlined into it is 5 kB. */
#define WALK_BYTES_MAX (32u << 10)
/* What a collector takes the addresses of: visit_decref, visit_reachable, visit_move */
#define TAKEN_MAX 16
/* Those have 0x50 to 0xe0 bytes. */
#define VISIT_BYTES_MAX 0x400
/* subtype_traverse has 0x197 bytes, or 0x770 with what is inlined into it. */
#define SUBTYPE_BYTES_MAX 0x1000

struct found {
	struct dlp_gc_range range[FOUND_MAX];
	size_t cnt;
	bool has_collector; /* the others alone see a part of its time only */
};

/* What does not fit is not counted as collecting: the share comes out smaller, never larger. */
static void add(struct found *found, uint64_t addr, uint64_t bytes)
{
	if (found->cnt == FOUND_MAX || !bytes || bytes > UINT32_MAX || addr > UINT32_MAX - bytes)
		return;
	found->range[found->cnt++] =
		(struct dlp_gc_range){ (uint32_t)addr, (uint32_t)(addr + bytes) };
}

/* Most of the time is in whichever of these the compiler left as a function of its own. */
static const char *const collectors[] = {
	"gc_collect_main",
	"collect",
	"gc_collect_region",
	"deduce_unreachable",
};

/* From Modules/gcmodule.c, Python/gc.c (3.8 to 3.14), and what traverse functions call. */
static const char *const helpers[] = {
	"update_refs",
	"subtract_refs",
	"move_unreachable",
	"visit_decref",
	"visit_reachable",
	"visit_move",
	"untrack_tuples",
	"untrack_dicts",
	"clear_unreachable_mask",
	"move_legacy_finalizers",
	"move_legacy_finalizer_reachable",
	"handle_weakrefs",
	"finalize_garbage",
	"delete_garbage",
	"handle_resurrected_objects",
	"gc_collect_young",
	"gc_collect_increment",
	"gc_collect_full",
	"gc_collect_generations",
	"mark_at_start",
	"mark_stacks",
	"mark_global_roots",
	"mark_all_reachable",
	"expand_region_transitively_reachable",
	"visit_add_to_container",
	"gc_list_merge",
	"gc_list_size",
	"_PyDict_MaybeUntrack",
	"_PyTuple_MaybeUntrack",
	"PyObject_IS_GC",
	"_PyObject_VisitInstanceAttributes",
	"_PyObject_VisitManagedDict",
	"PyObject_VisitManagedDict",
	"_PyFrame_Traverse",
};

static bool is_one_of(const char *name, size_t len, const char *const *names, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++) {
		if (strlen(names[i]) == len && !memcmp(names[i], name, len))
			return true;
	}
	return false;
}

/* dict_traverse, tupletraverse */
static bool is_traverse(const char *name, size_t len)
{
	static const char tail[] = "traverse";

	return len >= sizeof(tail) - 1 &&
	       !memcmp(name + len - (sizeof(tail) - 1), tail, sizeof(tail) - 1);
}

/* `name` may lack its end: the table is untrusted. */
static void consider_name(struct found *found, const char *name, size_t left, const Elf64_Sym *sym)
{
	const char *end = memchr(name, '\0', left);
	size_t len = 0;

	if (!end)
		return;
	/* .lto_priv.0, .constprop.0, .isra.0, .cold: the compiler's pieces and copies of it */
	while (name + len < end && name[len] != '.' && name[len] != '@')
		len++;
	if (is_one_of(name, len, collectors, DLP_ARRAY_SIZE(collectors)))
		found->has_collector = true;
	else if (!is_traverse(name, len) && !is_one_of(name, len, helpers, DLP_ARRAY_SIZE(helpers)))
		return;
	add(found, sym->st_value, sym->st_size);
}

typedef void (*sym_fn)(void *ctx, const char *name, size_t left, const Elf64_Sym *sym);

/* Tells of every defined symbol of that type. */
static int each_symbol(const struct dlp_elf *elf, const struct dlp_elf_syms *syms,
		       unsigned int type, sym_fn fn, void *ctx)
{
	_cleanup_free_ char *names = NULL;
	_cleanup_free_ Elf64_Sym *chunk = NULL;
	const uint64_t chunk_cnt = DLP_ELF_CHUNK_BYTES / sizeof(*chunk);
	int err;

	if (!syms->cnt || !syms->str_bytes)
		return 0;
	if (syms->str_bytes > NAMES_BYTES_MAX)
		return -EBADMSG;
	names = malloc(syms->str_bytes);
	chunk = malloc(DLP_ELF_CHUNK_BYTES);
	if (!names || !chunk)
		return -ENOMEM;
	err = dlp_elf_read(elf, syms->str_off, names, syms->str_bytes);
	for (uint64_t base = 0; base < syms->cnt && !err; base += chunk_cnt) {
		uint64_t cnt = syms->cnt - base < chunk_cnt ? syms->cnt - base : chunk_cnt;

		err = dlp_elf_read(elf, syms->off + base * sizeof(*chunk), chunk,
				   cnt * sizeof(*chunk));
		for (uint64_t i = 0; i < cnt && !err; i++) {
			if (ELF64_ST_TYPE(chunk[i].st_info) == type && chunk[i].st_value &&
			    chunk[i].st_shndx != SHN_UNDEF && chunk[i].st_name < syms->str_bytes)
				fn(ctx, names + chunk[i].st_name,
				   syms->str_bytes - chunk[i].st_name, &chunk[i]);
		}
	}
	return err;
}

static void on_function(void *ctx, const char *name, size_t left, const Elf64_Sym *sym)
{
	consider_name(ctx, name, left, sym);
}

/* The tp_traverse slots of the types that the file exports, and what they hold. */
struct types {
	struct slot {
		uint64_t addr, traverse;
	} slot[TYPES_MAX];
	size_t cnt;
};

static void on_object(void *ctx, const char *name, size_t left, const Elf64_Sym *sym)
{
	static const char tail[] = "_Type";
	struct types *types = ctx;
	size_t len = strnlen(name, left);

	if (types->cnt == TYPES_MAX || len < sizeof(tail) ||
	    sym->st_size < TP_TRAVERSE_OFFSET + 8 ||
	    memcmp(name + len - (sizeof(tail) - 1), tail, sizeof(tail) - 1))
		return;
	types->slot[types->cnt++].addr = sym->st_value + TP_TRAVERSE_OFFSET;
}

static int on_relocation(void *ctx, const Elf64_Rela *rela)
{
	struct types *types = ctx;

	for (size_t i = 0; i < types->cnt; i++) {
		if (types->slot[i].addr == rela->r_offset)
			types->slot[i].traverse = (uint64_t)rela->r_addend;
	}
	return 0;
}

static int add_types(struct found *found, const struct dlp_elf *elf,
		     const struct dlp_elf_starts *starts)
{
	_cleanup_free_ struct types *types = calloc(1, sizeof(*types));
	int err;

	if (!types)
		return -ENOMEM;
	err = each_symbol(elf, &elf->dynsym, STT_OBJECT, on_object, types);
	for (size_t i = 0; i < types->cnt && !err; i++)
		/* unreadable: stays 0, where no function begins */
		(void)dlp_elf_read_addr(elf, types->slot[i].addr, &types->slot[i].traverse, 8);
	if (!err)
		err = dlp_elf_each_relative(elf, on_relocation, types);
	for (size_t i = 0; i < types->cnt && !err; i++)
		add(found, types->slot[i].traverse,
		    dlp_elf_room(elf, starts, types->slot[i].traverse));
	return err;
}

/* One function on the way from PyGC_Collect. */
struct node {
	uint64_t addr;
	size_t parent; /* itself: none */
	unsigned int depth;
	unsigned int fields; /* it uses tp_traverse so often */
	uint64_t taken[TAKEN_MAX];
	size_t taken_cnt;
	bool collects;
};

struct walk {
	const struct dlp_elf *elf;
	const struct dlp_elf_starts *starts;
	struct node node[WALK_MAX];
	size_t cnt, at;
};

static void take_address(struct node *node, uint64_t target)
{
	for (size_t i = 0; i < node->taken_cnt; i++) {
		if (node->taken[i] == target)
			return;
	}
	if (node->taken_cnt < TAKEN_MAX)
		node->taken[node->taken_cnt++] = target;
}

static void on_ref(void *ctx, enum dlp_elf_ref ref, uint64_t target)
{
	struct walk *walk = ctx;
	struct node *node = &walk->node[walk->at];

	switch (ref) {
	case DLP_ELF_FIELD:
		node->fields++;
		return;
	case DLP_ELF_ADDRESS:
		take_address(node, target);
		return;
	case DLP_ELF_CALL:
		break;
	}
	if (walk->cnt == WALK_MAX || node->depth == WALK_DEPTH_MAX)
		return;
	for (size_t i = 0; i < walk->cnt; i++) {
		if (walk->node[i].addr == target)
			return;
	}
	walk->node[walk->cnt++] =
		(struct node){ .addr = target, .parent = walk->at, .depth = node->depth + 1 };
}

/*
 * A collector calls tp_traverse of each object, several times over, with one of its own functions
 * as argument: no other function near does both. What it calls may do so once (move_unreachable).
 */
static bool collects(const struct walk *walk, const struct node *node)
{
	if (node->fields >= 2 && node->taken_cnt >= 2)
		return true;
	return node->fields && node->taken_cnt && walk->node[node->parent].collects;
}

static void add_collector(struct found *found, const struct walk *walk, size_t at)
{
	for (;; at = walk->node[at].parent) {
		const struct node *node = &walk->node[at];

		add(found, node->addr, dlp_elf_room(walk->elf, walk->starts, node->addr));
		for (size_t i = 0; i < node->taken_cnt; i++) {
			uint64_t room = dlp_elf_room(walk->elf, walk->starts, node->taken[i]);

			if (room <= VISIT_BYTES_MAX)
				add(found, node->taken[i], room);
		}
		if (node->parent == at)
			break;
	}
	found->has_collector = true;
}

static int add_collectors(struct found *found, const struct dlp_elf *elf,
			  const struct dlp_elf_starts *starts)
{
	static const struct dlp_elf_question question = { .bytes_max = WALK_BYTES_MAX,
							  .field = TP_TRAVERSE_OFFSET };
	_cleanup_free_ struct walk *walk = calloc(1, sizeof(*walk));
	struct dlp_elf_sym root;
	int err;

	if (!walk)
		return -ENOMEM;
	err = dlp_elf_find_in(elf, DLP_ELF_DYNSYM, DLP_ELF_FUNC, DLP_ELF_EXACT, "PyGC_Collect",
			      &root);
	if (err)
		return err;
	walk->elf = elf;
	walk->starts = starts;
	walk->node[walk->cnt++].addr = root.addr;
	for (walk->at = 0; walk->at < walk->cnt; walk->at++) {
		struct node *node = &walk->node[walk->at];

		/* too large, or not code: it is none of those looked for */
		(void)dlp_elf_refs(elf, starts, node->addr, &question, on_ref, walk);
		node->collects = collects(walk, node);
		if (node->collects)
			add_collector(found, walk, walk->at);
	}
	return 0;
}

/*
 * subtype_traverse, for instances of classes that are written in Python, is not in any static type.
 * It looks for the first base whose tp_traverse is another one: it reads that field of its type and,
 * in a loop, of the bases, and compares with itself.
 */
struct self {
	uint64_t addr;
	unsigned int fields;
	bool taken;
};

static void on_own_ref(void *ctx, enum dlp_elf_ref ref, uint64_t target)
{
	struct self *self = ctx;

	self->fields += ref == DLP_ELF_FIELD;
	self->taken |= ref == DLP_ELF_ADDRESS && target == self->addr;
}

static void add_subtype(struct found *found, const struct dlp_elf *elf,
			const struct dlp_elf_starts *starts)
{
	static const struct dlp_elf_question question = { .bytes_max = SUBTYPE_BYTES_MAX,
							  .field = TP_TRAVERSE_OFFSET,
							  .own = true };
	uint64_t only = 0;

	for (size_t i = 0; i < starts->cnt; i++) {
		struct self self = { .addr = starts->addr[i] };

		(void)dlp_elf_refs(elf, starts, self.addr, &question, on_own_ref, &self);
		if (self.fields < 2 || !self.taken)
			continue;
		/* several: then it is not what is looked for here */
		if (only)
			return;
		only = self.addr;
	}
	if (only)
		add(found, only, dlp_elf_room(elf, starts, only));
}

static int find_stripped(struct found *found, const struct dlp_elf *elf)
{
	struct dlp_elf_starts starts;
	int err;

	err = dlp_elf_starts_read(elf, &starts);
	if (err)
		return err;
	err = add_collectors(found, elf, &starts);
	if (!err && found->has_collector) {
		add_subtype(found, elf, &starts);
		err = add_types(found, elf, &starts);
	}
	dlp_elf_starts_fini(&starts);
	return err;
}

static int lower_first(const void *a, const void *b)
{
	const struct dlp_gc_range *x = a, *y = b;

	return (x->lo > y->lo) - (x->lo < y->lo);
}

static void merge(struct found *found, struct dlp_gc_code *ret)
{
	memset(ret, 0, sizeof(*ret));
	qsort(found->range, found->cnt, sizeof(*found->range), lower_first);
	for (size_t i = 0; i < found->cnt; i++) {
		struct dlp_gc_range *last = ret->cnt ? &ret->range[ret->cnt - 1] : NULL;
		const struct dlp_gc_range *range = &found->range[i];

		/* up to 15 bytes between them are padding */
		if (last && range->lo <= last->hi + 15)
			last->hi = range->hi > last->hi ? range->hi : last->hi;
		else if (ret->cnt < DLP_GC_RANGES_MAX)
			ret->range[ret->cnt++] = *range;
	}
}

int dlp_elf_find_gc(const struct dlp_elf *elf, struct dlp_gc_code *ret)
{
	_cleanup_free_ struct found *found = calloc(1, sizeof(*found));
	int err;

	*ret = (struct dlp_gc_code){ 0 };
	if (!found)
		return -ENOMEM;
	err = each_symbol(elf, &elf->symtab, STT_FUNC, on_function, found);
	if (!err && !found->has_collector) {
		found->cnt = 0;
		err = each_symbol(elf, &elf->dynsym, STT_FUNC, on_function, found);
		if (!err)
			err = find_stripped(found, elf);
	}
	if (err)
		return err;
	if (!found->has_collector)
		return -ENOENT;
	merge(found, ret);
	return 0;
}
