/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The wire structs as the BPF compiler laid them out (BTF of the linked object) against the same
 * structs as this compiler does: two compilers, two targets, one format. Also forbids implicit
 * padding, and asks that every kind of event.h is listed here with all its fields.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <bpf/btf.h>

#include "dlprof/event.h"

struct field {
	const char *type;
	const char *name;
	size_t off;
	size_t size;
};

struct record {
	const char *type;
	size_t size;
};

#define FIELD(type, name) { #type, #name, offsetof(struct type, name), sizeof(((struct type *)0)->name) }

/* In the order of the struct: check_padding() relies on it. */
static const struct field fields[] = {
	FIELD(dlp_ev_hdr, size),
	FIELD(dlp_ev_hdr, kind),
	FIELD(dlp_ev_hdr, flags),
	FIELD(dlp_ev_hdr, cpu),
	FIELD(dlp_ev_hdr, ts_ns),
	FIELD(dlp_ev_hdr, tgid),
	FIELD(dlp_ev_hdr, tid),
	FIELD(dlp_clock, ns),
	FIELD(dlp_thread_counts, getnext_cnt),
	FIELD(dlp_thread_counts, getnext_ns),
	FIELD(dlp_thread_counts, getnext_split),
	FIELD(dlp_thread_counts, send_cnt),
	FIELD(dlp_thread_counts, recv_cnt),
	FIELD(dlp_thread_counts, switch_cnt),
	FIELD(dlp_ev_scope, hdr),
	FIELD(dlp_ev_scope, start_ns),
	FIELD(dlp_ev_scope, label),
	FIELD(dlp_ev_scope, depth),
	FIELD(dlp_ev_scope, rsvd),
	FIELD(dlp_ev_scope, split),
	FIELD(dlp_ev_scope, child_ns),
	FIELD(dlp_ev_scope, weight),
	FIELD(dlp_ev_scope, turn),
	FIELD(dlp_ev_scope, clock),
	FIELD(dlp_ev_label, hdr),
	FIELD(dlp_ev_label, label),
	FIELD(dlp_ev_label, flags),
	FIELD(dlp_ev_label, text),
	FIELD(dlp_ev_msg, hdr),
	FIELD(dlp_ev_msg, inode),
	FIELD(dlp_ev_msg, bytes),
	FIELD(dlp_ev_msg, dir),
	FIELD(dlp_ev_msg, prefix_len),
	FIELD(dlp_ev_msg, rsvd),
	FIELD(dlp_ev_msg, rsvd2),
	FIELD(dlp_ev_msg, prefix),
	FIELD(dlp_ev_msg, clock),
	FIELD(dlp_ev_msg, minflt),
	FIELD(dlp_ev_msg, utime_ns),
	FIELD(dlp_ev_msg, stime_ns),
	FIELD(dlp_ev_sem, hdr),
	FIELD(dlp_ev_sem, clock),
	FIELD(dlp_ev_wait, hdr),
	FIELD(dlp_ev_wait, start_ns),
	FIELD(dlp_ev_wait, wake_ns),
	FIELD(dlp_ev_wait, object),
	FIELD(dlp_ev_wait, syscall),
	FIELD(dlp_ev_wait, state),
	FIELD(dlp_ev_wait, dev),
	FIELD(dlp_ev_wait, fs_magic),
	FIELD(dlp_ev_wait, waker_tid),
	FIELD(dlp_ev_wait, rsvd),
	FIELD(dlp_ev_clock, hdr),
	FIELD(dlp_ev_clock, clock),
	FIELD(dlp_ev_clock, counts),
	FIELD(dlp_ev_clock, traced_ns),
	FIELD(dlp_ev_clock, since_ns),
	FIELD(dlp_ev_clock, getnext_since_ns),
	FIELD(dlp_ev_clock, getnext_now),
	FIELD(dlp_ev_clock, object),
	FIELD(dlp_ev_clock, cpu_ns),
	FIELD(dlp_ev_clock, state),
	FIELD(dlp_ev_clock, syscall),
	FIELD(dlp_ev_clock, dev),
	FIELD(dlp_ev_clock, fs_magic),
	FIELD(dlp_ev_clock, comm),
	FIELD(dlp_ev_clock, minflt),
	FIELD(dlp_ev_clock, majflt),
	FIELD(dlp_ev_clock, utime_ns),
	FIELD(dlp_ev_clock, stime_ns),
	FIELD(dlp_ev_block, hdr),
	FIELD(dlp_ev_block, queued_ns),
	FIELD(dlp_ev_block, issued_ns),
	FIELD(dlp_ev_block, sector),
	FIELD(dlp_ev_block, bytes),
	FIELD(dlp_ev_block, dev),
	FIELD(dlp_ev_block, op),
	FIELD(dlp_ev_block, error),
	FIELD(dlp_ev_fork, hdr),
	FIELD(dlp_ev_fork, child_tgid),
	FIELD(dlp_ev_fork, child_tid),
	FIELD(dlp_ev_exec, hdr),
	FIELD(dlp_ev_exec, comm),
	FIELD(dlp_ev_exit, hdr),
	FIELD(dlp_ev_exit, clock),
	FIELD(dlp_ev_exit, counts),
	FIELD(dlp_ev_exit, traced_ns),
	FIELD(dlp_ev_exit, cpu_ns),
	FIELD(dlp_ev_exit, exit_code),
	FIELD(dlp_ev_exit, rsvd),
	FIELD(dlp_ev_exit, minflt),
	FIELD(dlp_ev_exit, utime_ns),
	FIELD(dlp_ev_exit, stime_ns),
	FIELD(dlp_ev_window, hdr),
	FIELD(dlp_ev_window, realtime_ns),
	FIELD(dlp_ev_window, phase),
	FIELD(dlp_ev_window, rsvd),
	FIELD(dlp_ev_counters, hdr),
	FIELD(dlp_ev_counters, value),
	FIELD(dlp_ev_counters, recursion_misses),
	FIELD(dlp_ev_counters, prog_run_cnt),
	FIELD(dlp_ev_counters, prog_run_ns),
	FIELD(dlp_ev_counters, prog_sampled_ns),
	FIELD(dlp_ev_counters, daemon_cpu_ns),
	FIELD(dlp_ev_counters, daemon_rss_bytes),
	FIELD(dlp_ev_proc, hdr),
	FIELD(dlp_ev_proc, born_ns),
	FIELD(dlp_ev_proc, role),
	FIELD(dlp_ev_proc, ppid),
	FIELD(dlp_ev_proc, cpus),
	FIELD(dlp_ev_proc, rsvd),
	FIELD(dlp_ev_proc, read_bytes),
	FIELD(dlp_ev_proc, majflt),
	FIELD(dlp_ev_proc, utime_ns),
	FIELD(dlp_ev_proc, stime_ns),
	FIELD(dlp_ev_proc, threads),
	FIELD(dlp_ev_proc, ended),
	FIELD(dlp_ev_proc, minflt),
	FIELD(dlp_ev_system, hdr),
	FIELD(dlp_ev_system, known),
	FIELD(dlp_ev_system, cpus),
	FIELD(dlp_ev_system, cpus_allowed),
	FIELD(dlp_ev_system, rsvd),
	FIELD(dlp_ev_system, quota_us),
	FIELD(dlp_ev_system, period_us),
	FIELD(dlp_ev_system, periods),
	FIELD(dlp_ev_system, throttled_periods),
	FIELD(dlp_ev_system, throttled_ns),
	FIELD(dlp_ev_system, busy_ns),
	FIELD(dlp_ev_system, idle_ns),
	FIELD(dlp_ev_system, steal_ns),
	FIELD(dlp_ev_system, mem_total),
	FIELD(dlp_ev_system, mem_available),
	FIELD(dlp_ev_system, swap_total),
	FIELD(dlp_ev_system, swap_free),
	FIELD(dlp_ev_system, reclaim_pages),
	FIELD(dlp_ev_system, swap_in_pages),
	FIELD(dlp_ev_system, oom_kills),
	FIELD(dlp_ev_system, group_limit),
	FIELD(dlp_ev_system, group_used),
	FIELD(dlp_ev_system, psi_cpu_us),
	FIELD(dlp_ev_system, psi_io_us),
	FIELD(dlp_ev_system, psi_memory_us),
	FIELD(dlp_ev_system, shm_total),
	FIELD(dlp_ev_system, shm_free),
	FIELD(dlp_ev_other, hdr),
	FIELD(dlp_ev_other, cpu_ns),
	FIELD(dlp_ev_other, samples),
	FIELD(dlp_ev_other, comm),
	FIELD(dlp_ev_gc, hdr),
	FIELD(dlp_ev_gc, samples),
	FIELD(dlp_ev_gc, gc_samples),
	FIELD(dlp_ev_gc, inside),
	FIELD(dlp_ev_gc, gc_inside),
	FIELD(dlp_ev_govern, hdr),
	FIELD(dlp_ev_govern, limit_ppm),
	FIELD(dlp_ev_govern, measured_ppm),
	FIELD(dlp_ev_govern, active),
	FIELD(dlp_ev_govern, unmet),
	FIELD(dlp_ev_govern, probe_ns),
	FIELD(dlp_ev_govern, job_ns),
};

static const struct record records[] = {
	{ "dlp_ev_hdr", sizeof(struct dlp_ev_hdr) },
	{ "dlp_clock", sizeof(struct dlp_clock) },
	{ "dlp_thread_counts", sizeof(struct dlp_thread_counts) },
#define X(number, NAME, type) { #type, sizeof(struct type) },
	DLP_EVENT_KINDS(X)
#undef X
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct btf *btf;

static int open_btf(void **state)
{
	const char *path = getenv("DLP_BPF_OBJECT");

	(void)state;
	path = path ? path : "build/bpf/dlprof.bpf.o";
	btf = btf__parse(path, NULL);
	if (!btf)
		print_error("cannot read BTF of \"%s\"; run from the top folder, after make\n", path);
	return btf ? 0 : -1;
}

static int close_btf(void **state)
{
	(void)state;
	btf__free(btf);
	return 0;
}

static const struct btf_type *find_struct(const char *name)
{
	int id = btf__find_by_name_kind(btf, name, BTF_KIND_STRUCT);

	if (id < 0)
		fail_msg("struct %s is not in the object's BTF; has it an anchor in core.bpf.c?", name);
	return btf__type_by_id(btf, (uint32_t)id);
}

static void sizes_agree(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(records); i++) {
		const struct btf_type *type = find_struct(records[i].type);

		if (type->size != records[i].size)
			fail_msg("struct %s: %u bytes in BPF, %zu here", records[i].type, type->size,
				 records[i].size);
	}
}

static const struct btf_member *find_member(const struct btf_type *type, const char *name,
					    uint32_t *ret_bit_off)
{
	const struct btf_member *member = btf_members(type);

	for (uint32_t i = 0; i < btf_vlen(type); i++, member++) {
		if (strcmp(btf__name_by_offset(btf, member->name_off), name))
			continue;
		*ret_bit_off = btf_member_bit_offset(type, i);
		return member;
	}
	return NULL;
}

static void offsets_agree(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(fields); i++) {
		const struct field *field = &fields[i];
		const struct btf_member *member;
		uint32_t bit_off;
		int64_t size;

		member = find_member(find_struct(field->type), field->name, &bit_off);
		if (!member) {
			fail_msg("%s.%s is not in the object's BTF", field->type, field->name);
			return;
		}
		size = btf__resolve_size(btf, member->type);
		if (bit_off != field->off * 8 || size != (int64_t)field->size)
			fail_msg("%s.%s: %lld bytes at bit %u in BPF, %zu bytes at byte %zu here",
				 field->type, field->name, (long long)size, bit_off, field->size,
				 field->off);
	}
}

static void every_field_is_listed(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(records); i++) {
		const struct btf_type *type = find_struct(records[i].type);
		size_t listed = 0;

		for (size_t k = 0; k < COUNT(fields); k++)
			listed += !strcmp(fields[k].type, records[i].type);
		if (listed != btf_vlen(type))
			fail_msg("struct %s has %u fields, %zu are listed in this test",
				 records[i].type, btf_vlen(type), listed);
	}
}

/* Bytes between fields would carry whatever the kernel's stack held. */
static void no_implicit_padding(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(records); i++) {
		size_t end = 0;

		for (size_t k = 0; k < COUNT(fields); k++) {
			if (strcmp(fields[k].type, records[i].type))
				continue;
			if (fields[k].off != end)
				fail_msg("padding before %s.%s", fields[k].type, fields[k].name);
			end = fields[k].off + fields[k].size;
		}
		if (end != records[i].size)
			fail_msg("padding at the end of struct %s", records[i].type);
	}
}

/* A record must fit the header's 16-bit size, and the ring rounds up to 8 bytes anyway. */
static void sizes_fit_the_header(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(records); i++) {
		assert_in_range(records[i].size, 1, UINT16_MAX);
		assert_int_equal(records[i].size % 8, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_agree),
		cmocka_unit_test(offsets_agree),
		cmocka_unit_test(every_field_is_listed),
		cmocka_unit_test(no_implicit_padding),
		cmocka_unit_test(sizes_fit_the_header),
	};

	return cmocka_run_group_tests_name("layout", tests, open_btf, close_btf);
}
