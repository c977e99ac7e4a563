/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Recording beside a model, and replaying: the same document, and honest ends. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "diagnose.h"
#include "record.h"
#include "record_make.h"
#include "replay.h"
#include "util.h"

#define S DLP_NS_PER_S

/* A sink that can be held, as a disk that does not answer. */
struct sink {
	struct memory memory;
	pthread_mutex_t gate;
};

static int slow_write(void *ctx, const void *data, size_t bytes, uint64_t offset)
{
	struct sink *sink = ctx;
	const struct dlp_record_io io = memory_io(&sink->memory);
	int err;

	pthread_mutex_lock(&sink->gate);
	err = io.write_at(io.ctx, data, bytes, offset);
	pthread_mutex_unlock(&sink->gate);
	return err;
}

static int slow_truncate(void *ctx, uint64_t bytes)
{
	struct sink *sink = ctx;
	const struct dlp_record_io io = memory_io(&sink->memory);

	return io.truncate(io.ctx, bytes);
}

struct live {
	struct sink sink;
	struct dlp_model *model;
	struct dlp_record *record;
	/* without a thread: a block for every window event */
	struct dlp_record_file *file;
	struct event_list block;
	uint8_t *frames;
	struct dlp_target target;
	struct dlp_missing missing;
	struct dlp_summary_facts facts;
};

static const char *disk_name(uint32_t dev, char *buf, size_t size)
{
	(void)snprintf(buf, size, "disk%u", dev & 0xff);
	return buf;
}

static void live_start(struct live *live)
{
	const struct dlp_rec_header header = { .monotonic_ns = 1, .realtime_ns = 2 };
	const struct dlp_record_io io = { slow_write, slow_truncate, &live->sink };

	memset(live, 0, sizeof(*live));
	pthread_mutex_init(&live->sink.gate, NULL);
	live->target.pid = 100;
	(void)snprintf(live->target.cmdline, sizeof(live->target.cmdline), "python \"train\".py");
	(void)snprintf(live->target.python.text, sizeof(live->target.python.text), "3.11.7");
	(void)snprintf(live->target.container, sizeof(live->target.container), "abc");
	live->missing = (struct dlp_missing){ "task storage", true };
	live->facts = (struct dlp_summary_facts){
		.version = "1", .target = &live->target, .scope_rung = "pair A",
		.clock_rung = "hash", .block_seen = true, .waits_seen = true, .missing = &live->missing,
		.missing_cnt = 1, .cpus = 4, .cpus_allowed = 2, .launched_ns = 77,
		.device_name = disk_name,
	};
	assert_int_equal(dlp_model_new(&live->model), 0);
	assert_int_equal(dlp_record_start(&io, &header, 0, disk_name, &live->record), 0);
	dlp_record_facts(live->record, &live->facts);
}

static void give(struct live *live, const void *event, size_t bytes)
{
	if (live->file)
		events_add(&live->block, event, bytes);
	else
		dlp_record_event(live->record, event, bytes);
	(void)dlp_model_apply(live->model, event, bytes);
}

static void window(struct live *live, uint64_t ts_ns, uint32_t phase)
{
	const struct dlp_ev_window event = {
		.hdr = { .size = sizeof(event), .kind = DLP_EV_WINDOW, .ts_ns = ts_ns, .tgid = 100 },
		.realtime_ns = 5 * S + ts_ns, .phase = phase,
	};

	give(live, &event, sizeof(event));
	if (live->file) {
		struct dlp_rec_batch batch = { .frames = live->frames };

		batch.bytes = frames_make(live->block.data, live->block.bytes, live->frames,
					  &batch.items);
		assert_int_equal(dlp_record_file_events(live->file, &batch), 0);
		live->block.bytes = live->block.cnt = 0;
	}
}

static void counters(struct live *live, uint64_t ts_ns, uint64_t deep)
{
	struct dlp_ev_counters event = {
		.hdr = { .size = sizeof(event), .kind = DLP_EV_COUNTERS, .ts_ns = ts_ns },
		.prog_run_cnt = deep, .daemon_rss_bytes = 1 << 20,
	};

	event.value[DLP_CNT_SCOPE_DEEP] = deep;
	if (live->record)
		event.value[DLP_CNT_RECORDING_LOST] = dlp_record_lost(live->record);
	give(live, &event, sizeof(event));
}

/* `seconds` of 100 batches and 100 reads each, an interval a second. */
static void job(struct live *live, uint64_t from_s, uint64_t seconds)
{
	static const struct dlp_ev_label label = {
		.hdr = { .size = sizeof(label), .kind = DLP_EV_LABEL, .tgid = 100, .tid = 100 },
		.label = 1, .flags = DLP_SCOPE_GETNEXT,
		.text = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
	};

	if (!from_s) {
		give(live, &label, sizeof(label));
		window(live, 1, 0);
	}
	for (uint64_t ts = from_s * S + S / 100; ts <= (from_s + seconds) * S; ts += S / 100) {
		struct dlp_ev_scope scope = {
			.hdr = { .size = sizeof(scope), .kind = DLP_EV_SCOPE,
				 .flags = DLP_SCOPE_GETNEXT | DLP_SCOPE_OUTER,
				 .tgid = 100, .tid = 100, .ts_ns = ts },
			.start_ns = ts - S / 400 - ts % 977, .label = 1,
		};
		const struct dlp_ev_block block = {
			.hdr = { .size = sizeof(block), .kind = DLP_EV_BLOCK, .ts_ns = ts },
			.queued_ns = ts - 30000, .bytes = 4096, .dev = 8u << 20 | ts / S % 3,
			.sector = ts * 0x9e3779b97f4a7c15ull,
		};

		scope.split.ns[DLP_ST_DISK] = ts - scope.start_ns;
		give(live, &scope, sizeof(scope));
		give(live, &block, sizeof(block));
		if (ts % S == 0) {
			counters(live, ts, ts / S);
			window(live, ts, 1);
		}
	}
}

static int live_close(struct live *live)
{
	char error[200];

	return dlp_record_close(live->record, 20 * S, error, sizeof(error));
}

static void live_free(struct live *live)
{
	dlp_model_free(live->model);
	memory_free(&live->sink.memory);
	pthread_mutex_destroy(&live->sink.gate);
}

static char *document(const struct dlp_model *model, const struct dlp_summary_facts *facts)
{
	struct dlp_verdict verdict;
	char *text;

	dlp_diagnose(model, NULL, &verdict);
	assert_int_equal(dlp_summary_format(model, &verdict, facts, &text), 0);
	return text;
}

static const struct dlp_replay *current;

static const char *replay_name(uint32_t dev, char *buf, size_t size)
{
	return dlp_replay_device(current, dev, buf, size);
}

/* Zeroed, filled, with a model to be freed; the reader's header in *ret_header. */
static void replay_memory(const struct memory *memory, struct dlp_replay *replay,
			  struct dlp_rec_header *ret_header)
{
	const struct dlp_record_source source = memory_source(memory);
	struct dlp_reader *reader;
	char error[200];

	memset(replay, 0, sizeof(*replay));
	assert_int_equal(dlp_model_new(&replay->model), 0);
	assert_int_equal(dlp_reader_open(&source, &reader, error, sizeof(error)), 0);
	assert_int_equal(dlp_replay_run(replay, reader), 0);
	*ret_header = *dlp_reader_header(reader);
	dlp_reader_free(reader);
	replay->facts.facts.version = "1";
	replay->facts.facts.device_name = replay_name;
	current = replay;
}

static void test_same_document(void **unused)
{
	struct dlp_rec_header header;
	struct dlp_replay replay;
	char *wanted, *got, said[300];
	struct live live;

	(void)unused;
	live_start(&live);
	job(&live, 0, 12);
	/* what programs never send is counted all the same */
	give(&live, "\x10\x00\x00\x00 and more of it ...", 20);
	give(&live, &(struct dlp_ev_hdr){ .size = 24, .kind = 99 }, 24);
	live.facts.cpus_allowed = 3;
	dlp_record_facts(live.record, &live.facts);
	window(&live, 12 * S + 5, 2);
	wanted = document(live.model, &live.facts);
	assert_int_equal(live_close(&live), 0);
	replay_memory(&live.sink.memory, &replay, &header);
	got = document(replay.model, &replay.facts.facts);
	assert_string_equal(got, wanted);
	assert_non_null(strstr(got, "\"disk2\""));
	assert_non_null(strstr(got, "\"cpus_allowed\": 3"));
	assert_non_null(strstr(got, "\"malformed_events\": 1"));
	assert_string_equal(dlp_replay_say(&replay, &header, said, sizeof(said)), "");
	dlp_model_free(replay.model);
	live_free(&live);
	free(wanted);
	free(got);
}

/* A killed writer: the window ends with the newest event that came to the file. */
static void test_killed(void **unused)
{
	struct dlp_rec_header header;
	struct dlp_replay replay;
	struct memory cut;
	struct live live;
	char said[300];

	(void)unused;
	live_start(&live);
	job(&live, 0, 20);
	assert_int_equal(live_close(&live), 0);
	cut = live.sink.memory;
	memset(cut.data + offsetof(struct dlp_rec_header, closing), 0,
	       sizeof(struct dlp_rec_closing));
	cut.bytes = cut.bytes * 2 / 3;
	replay_memory(&cut, &replay, &header);
	dlp_replay_say(&replay, &header, said, sizeof(said));
	assert_non_null(strstr(said, "is cut at byte "));
	assert_non_null(strstr(said, "replayed up to "));
	assert_true(replay.model->closed);
	assert_int_equal(replay.model->end_ns, replay.last_ns);
	assert_true(replay.last_ns > 5 * S && replay.last_ns < 20 * S);
	assert_int_equal(replay.model->loaders[0].getnext.cnt, replay.last_ns / (S / 100));
	dlp_model_free(replay.model);
	live_free(&live);
}

/* A disk that hangs: nobody waits, whole blocks are dropped, file and counters say how many. */
static void test_slow_disk(void **unused)
{
	struct event_list got = { 0 };
	struct dlp_rec_ending ending;
	struct dlp_rec_header header;
	struct dlp_replay replay;
	uint64_t begin, lost;
	struct live live;
	char *text;

	(void)unused;
	live_start(&live);
	pthread_mutex_lock(&live.sink.gate);
	begin = dlp_now_ns();
	job(&live, 0, 1500);
	/* it takes milliseconds; a wait for the disk would last for ever */
	assert_true(dlp_now_ns() - begin < 60 * S);
	lost = dlp_record_lost(live.record);
	assert_true(lost > 10000);
	pthread_mutex_unlock(&live.sink.gate);
	job(&live, 1500, 1);
	window(&live, 1501 * S, 2);
	assert_int_equal(live_close(&live), -ENOBUFS);
	assert_int_equal(recording_read(&live.sink.memory, &got, &ending), 0);
	assert_int_equal(ending.how, DLP_REC_END_WHOLE);
	assert_true(ending.lost_events >= lost);
	assert_int_equal(got.cnt + ending.lost_events, 2 + 1501 * 202 + 1);
	replay_memory(&live.sink.memory, &replay, &header);
	text = document(replay.model, &replay.facts.facts);
	assert_non_null(strstr(text, "\"recording_lost\": "));
	assert_non_null(strstr(text, "\"complete\": false"));
	assert_int_equal(replay.model->counters.value[DLP_CNT_RECORDING_LOST], ending.lost_events);
	free(text);
	dlp_model_free(replay.model);
	events_free(&got);
	live_free(&live);
}

/* A disk that never answers: closing gives up, and says how much is missing. */
static void test_hanging_disk(void **unused)
{
	static struct live live; /* its writer outlives the test */
	char error[200] = "";

	(void)unused;
	live_start(&live);
	pthread_mutex_lock(&live.sink.gate);
	job(&live, 0, 3);
	assert_int_equal(dlp_record_close(live.record, S / 10, error, sizeof(error)), -ETIMEDOUT);
	assert_non_null(strstr(error, "lacks 608 events"));
	dlp_model_free(live.model);
}

static void test_broken_disk(void **unused)
{
	struct live live;
	char error[200] = "";

	(void)unused;
	live_start(&live);
	pthread_mutex_lock(&live.sink.gate);
	live.sink.memory.broken = true;
	pthread_mutex_unlock(&live.sink.gate);
	job(&live, 0, 3);
	assert_int_equal(dlp_record_close(live.record, 20 * S, error, sizeof(error)), -EIO);
	assert_non_null(strstr(error, "lacks 608 events: Input/output error"));
	live_free(&live);
}

/* The newest only: the window begins at the first interval whose end is there. */
static void test_flight(void **unused)
{
	const struct dlp_rec_header head = { .monotonic_ns = 1, .realtime_ns = 2 };
	const struct dlp_rec_info info = { .python = "3.11.7" };
	struct dlp_rec_header header;
	const struct dlp_loader *loader;
	struct dlp_replay replay;
	struct live live = { 0 };
	const struct dlp_record_io io = memory_io(&live.sink.memory);

	(void)unused;
	live.frames = aligned_alloc(8, DLP_REC_RAW_MAX);
	assert_non_null(live.frames);
	assert_int_equal(dlp_model_new(&live.model), 0);
	assert_int_equal(dlp_record_file_new(&io, &head, DLP_REC_MAX_LEAST, disk_name, &live.file),
			 0);
	assert_int_equal(dlp_record_file_info(live.file, &info), 0);
	job(&live, 0, 9000);
	window(&live, 9000 * S + 5, 2);
	assert_int_equal(dlp_record_file_close(live.file), 0);
	dlp_record_file_free(live.file);
	assert_true(live.sink.memory.bytes <= DLP_REC_MAX_LEAST);
	replay_memory(&live.sink.memory, &replay, &header);
	assert_true(replay.ending.from_middle);
	assert_int_equal(replay.ending.how, DLP_REC_END_WHOLE);
	assert_int_equal(replay.model->end_ns, 9000 * S + 5);
	assert_int_equal(replay.model->start_ns % S, 0);
	assert_true(replay.model->start_ns > 1000 * S && replay.model->start_ns < 8000 * S);
	loader = &replay.model->loaders[0];
	assert_string_equal(loader->type, "_SingleProcessDataLoaderIter");
	assert_int_equal(loader->getnext.cnt,
			 (replay.model->end_ns - replay.model->start_ns) / (S / 100));
	/* totals since the window opened */
	assert_int_equal(replay.model->counters.value[DLP_CNT_SCOPE_DEEP],
			 9000 - replay.model->start_ns / S);
	assert_string_equal(replay.facts.target.python.text, "3.11.7");
	dlp_model_free(replay.model);
	events_free(&live.block);
	free(live.frames);
	dlp_model_free(live.model);
	memory_free(&live.sink.memory);
}

/* Texts of an untrusted info end inside their fields; short ones come from older versions. */
static void test_info(void **unused)
{
	struct dlp_replay_facts facts;
	struct dlp_rec_info info;

	(void)unused;
	memset(&info, 'x', sizeof(info));
	assert_int_equal(dlp_info_unpack(&info, sizeof(info), &facts), -EBADMSG);
	info.pid = 5;
	info.missing_cnt = DLP_REC_MISSING_MAX;
	assert_int_equal(dlp_info_unpack(&info, sizeof(info), &facts), 0);
	assert_int_equal(strlen(facts.facts.target->cmdline), sizeof(info.cmdline) - 1);
	assert_int_equal(strlen(facts.facts.scope_rung), sizeof(info.scope_rung) - 1);
	assert_int_equal(strlen(facts.facts.missing[DLP_REC_MISSING_MAX - 1].name),
			 sizeof(info.missing[0].name) - 1);
	info.missing_cnt = DLP_REC_MISSING_MAX + 1;
	assert_int_equal(dlp_info_unpack(&info, sizeof(info), &facts), -EBADMSG);
	info.missing_cnt = 0;
	assert_int_equal(dlp_info_unpack(&info, offsetof(struct dlp_rec_info, comm), &facts), 0);
	assert_string_equal(facts.facts.target->cmdline, "");
	assert_null(facts.facts.scope_rung);
	assert_int_equal(dlp_info_unpack(&info, 8, &facts), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same_document), cmocka_unit_test(test_killed),
		cmocka_unit_test(test_slow_disk),     cmocka_unit_test(test_broken_disk),
		cmocka_unit_test(test_flight),	      cmocka_unit_test(test_info),
		cmocka_unit_test(test_hanging_disk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
