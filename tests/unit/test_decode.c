/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "decode.h"

static const struct {
	unsigned int kind;
	size_t size;
	const char *name;
} kinds[] = {
#define X(number, NAME, type) { number, sizeof(struct type), #NAME },
	DLP_EVENT_KINDS(X)
#undef X
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* In a heap block of exactly `bytes`, so that ASan sees a read beyond. */
static int check(unsigned int kind, size_t size, size_t bytes, size_t shift)
{
	unsigned char *block = calloc(1, bytes + shift + 1);
	struct dlp_ev_hdr hdr = { .size = (uint16_t)size, .kind = (uint16_t)kind, .tid = 77 };
	const struct dlp_ev_hdr *got;
	union dlp_event_room room;
	unsigned char *exact;
	int err;

	assert_non_null(block);
	block = realloc(block, bytes + shift ? bytes + shift : 1);
	exact = block + shift;
	memcpy(exact, &hdr, bytes < sizeof(hdr) ? bytes : sizeof(hdr));
	err = dlp_event_check(exact, bytes, &room, &got);
	if (!err || err == -ENOENT) {
		assert_non_null(got);
		assert_int_equal(got->tid, 77);
		assert_int_equal(got->kind, kind);
		if (!shift)
			assert_ptr_equal(got, exact);
	} else {
		assert_null(got);
	}
	free(block);
	return err;
}

static void test_sizes(void **unused)
{
	(void)unused;
	for (size_t i = 0; i < KINDS; i++) {
		unsigned int kind = kinds[i].kind;
		size_t size = kinds[i].size;

		assert_int_equal(check(kind, size, size, 0), 0);
		assert_int_equal(check(kind, size, size, 3), 0);
		/* a longer record of a newer version */
		assert_int_equal(check(kind, size + 8, size + 8, 0), 0);
		assert_int_equal(check(kind, size + 800, size + 800, 1), 0);
		/* more readable than the record has */
		assert_int_equal(check(kind, size, size + 100, 0), 0);
		assert_int_equal(check(kind, size - 1, size, 0), -EBADMSG);
		assert_int_equal(check(kind, size, size - 1, 0), -EBADMSG);
		assert_int_equal(check(kind, 0, size, 0), -EBADMSG);
		assert_int_equal(check(kind, 65535, size, 0), -EBADMSG);
		assert_int_equal(dlp_event_kind_size(kind), size);
		assert_string_equal(dlp_event_kind_name(kind), kinds[i].name);
	}
	for (size_t bytes = 0; bytes < sizeof(struct dlp_ev_hdr); bytes++)
		assert_int_equal(check(DLP_EV_SCOPE, 24, bytes, 0), -EBADMSG);
}

static void test_unknown(void **unused)
{
	static const unsigned int unknown[] = { 0, 5, 19, 63, 250, 255, 4096, 65535 };

	(void)unused;
	for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
		assert_int_equal(check(unknown[i], 24, 24, 0), -ENOENT);
		assert_int_equal(check(unknown[i], 23, 24, 0), -EBADMSG);
		assert_int_equal(check(unknown[i], 25, 24, 0), -EBADMSG);
		assert_null(dlp_event_kind_name(unknown[i]));
		assert_int_equal(dlp_event_kind_size(unknown[i]), 0);
	}
	assert_null(dlp_state_name(DLP_ST_MAX));
	assert_string_equal(dlp_state_name(DLP_ST_RUN), "run");
	assert_string_equal(dlp_state_name(DLP_ST_OTHER), "other");
}

static char *print(const void *event)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	assert_non_null(out);
	dlp_event_print(out, event);
	assert_int_equal(fclose(out), 0);
	/* one line, whatever is in it */
	assert_true(size > 1 && text[size - 1] == '\n');
	assert_ptr_equal(strchr(text, '\n'), text + size - 1);
	return text;
}

static void assert_has(char *text, const char *what)
{
	if (!strstr(text, what))
		fail_msg("no \"%s\" in %s", what, text);
	free(text);
}

static void test_print(void **unused)
{
	struct dlp_ev_scope scope = { .hdr = { .size = sizeof(scope), .kind = DLP_EV_SCOPE,
					       .flags = DLP_SCOPE_GETNEXT, .ts_ns = 900,
					       .tgid = 5, .tid = 6 },
				      .start_ns = 800, .label = 3, .child_ns = 44,
				      .weight = 8 };
	struct dlp_ev_label label = { .hdr = { .size = sizeof(label), .kind = DLP_EV_LABEL } };
	struct dlp_ev_msg msg = { .hdr = { .size = sizeof(msg), .kind = DLP_EV_MSG },
				  .dir = DLP_MSG_RECV, .prefix_len = 255, .bytes = 321 };
	struct dlp_ev_clock clock = { .hdr = { .size = sizeof(clock), .kind = DLP_EV_CLOCK },
				      .state = 77, .syscall = -1 };

	(void)unused;
	scope.split.ns[DLP_ST_RUN] = 11;
	scope.split.ns[DLP_ST_OTHER] = 22;
	assert_has(print(&scope), "ts=900\tkind=SCOPE\ttgid=5\ttid=6\tcpu=0\tstart=800\tlabel=3"
				  "\tdepth=0\tgetnext=1\touter=0\tbegun=0\tchild=44\tweight=8"
				  "\tturn=0\tsplit=run=11,runq=0,disk=0,");
	scope.clock.ns[DLP_ST_OTHER] = 33;
	assert_has(print(&scope), ",idle=0,other=22\tclock=run=0,");
	assert_has(print(&scope), ",idle=0,other=33\n");
	/* untrusted text: control characters and a label that fills its field */
	memset(label.text, 'x', sizeof(label.text));
	memcpy(label.text, "a\tb\n\033[2J", 8);
	assert_has(print(&label), "text=a?b??[2Jxxx");
	memcpy(clock.comm, "\tpt_data_worker\n", 16);
	assert_has(print(&clock), "\tcomm=?pt_data_worker?\t");
	assert_has(print(&clock), "\tstate=77\t");
	assert_has(print(&clock), "\tsyscall=-1\t");
	memcpy(msg.prefix, "\x80\4M\x2c\1]", 6);
	assert_has(print(&msg), "dir=recv\tinode=0\tbytes=321\ttype=index\tidx=300\t");
	msg.prefix[1] = 9;
	assert_has(print(&msg), "type=other\tidx=-1\tprefix=8009");
	memcpy(msg.prefix, "\x80\4K\5\x8c\x0ctorch._utils\x94\x8c\x10", 21);
	msg.clock.ns[DLP_ST_RUN] = 55;
	assert_has(print(&msg), "type=error\tidx=5\tclock=run=55,");
}

static void test_print_made_here(void **unused)
{
	struct dlp_ev_sem sem = { .hdr = { .size = sizeof(sem), .kind = DLP_EV_SEM } };
	struct dlp_ev_system system = { .hdr = { .size = sizeof(system), .kind = DLP_EV_SYSTEM },
					.known = DLP_SYS_QUOTA | DLP_SYS_SHM, .cpus = 8,
					.cpus_allowed = 6, .quota_us = 150000, .period_us = 100000,
					.throttled_periods = 12, .steal_ns = 13, .oom_kills = 14,
					.psi_memory_us = 15, .shm_total = 17, .shm_free = 16 };
	struct dlp_ev_govern govern = { .hdr = { .size = sizeof(govern), .kind = DLP_EV_GOVERN,
						 .tgid = 3 },
					.limit_ppm = 10000, .measured_ppm = 25000, .active = 5,
					.unmet = 1, .probe_ns = 25, .job_ns = 1000 };
	struct dlp_ev_other other = { .hdr = { .size = sizeof(other), .kind = DLP_EV_OTHER,
					       .tgid = 99 },
				      .cpu_ns = 5, .samples = 6 };
	struct dlp_ev_gc gc = { .hdr = { .size = sizeof(gc), .kind = DLP_EV_GC, .tgid = 9,
					 .tid = 10 },
				.samples = 4, .gc_samples = 3, .inside = 2, .gc_inside = 1 };
	struct dlp_ev_proc proc = { .hdr = { .size = sizeof(proc), .kind = DLP_EV_PROC },
				    .cpus = 2, .threads = 3, .ended = 1, .minflt = 7 };

	(void)unused;
	assert_has(print(&govern), "kind=GOVERN\ttgid=3\ttid=0\tcpu=0\tlimit_ppm=10000"
				   "\tmeasured_ppm=25000\tactive=0x5\tunmet=1\tprobe_ns=25"
				   "\tjob_ns=1000\n");
	sem.clock.ns[DLP_ST_RUN] = 21;
	assert_has(print(&sem), "kind=SEM\ttgid=0\ttid=0\tcpu=0\tclock=run=21,runq=0,");
	assert_has(print(&system), "kind=SYSTEM\ttgid=0\ttid=0\tcpu=0\tknown=0x41\tcpus=8"
				   "\tcpus_allowed=6\tquota_us=150000\tperiod_us=100000"
				   "\tperiods=0\tthrottled_periods=12\t");
	assert_has(print(&system), "\tsteal_ns=13\t");
	assert_has(print(&system), "\toom_kills=14\t");
	assert_has(print(&system), "\tpsi_memory_us=15\tshm_total=17\tshm_free=16\n");
	memcpy(other.comm, "neighbour\n\tjob 1", 16);
	assert_has(print(&other), "kind=OTHER\ttgid=99\ttid=0\tcpu=0\tcomm=neighbour??job 1"
				  "\tcpu_time=5\tsamples=6\n");
	assert_has(print(&gc), "kind=GC\ttgid=9\ttid=10\tcpu=0\tsamples=4\tgc_samples=3\tinside=2"
			       "\tgc_inside=1\n");
	assert_has(print(&proc), "\tcpus=2\t");
	assert_has(print(&proc), "\tthreads=3\tended=1\tminflt=7\n");
}

/* Any content prints as one line. */
static void test_print_noise(void **unused)
{
	union dlp_event_room room;
	uint64_t seed = 5;

	(void)unused;
	for (int round = 0; round < 2000; round++) {
		unsigned char *bytes = (unsigned char *)&room;

		for (size_t i = 0; i < sizeof(room); i++) {
			seed = seed * 6364136223846793005ull + 1442695040888963407ull;
			bytes[i] = (unsigned char)(seed >> 33);
		}
		room.hdr.kind = (uint16_t)kinds[(size_t)round % KINDS].kind;
		room.hdr.size = (uint16_t)kinds[(size_t)round % KINDS].size;
		free(print(&room));
	}
	room.hdr.kind = 9999;
	assert_has(print(&room), "kind=UNKNOWN\tnumber=9999");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_print),
		cmocka_unit_test(test_print_made_here),
		cmocka_unit_test(test_print_noise),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
