/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The JSON document, read back: every field of the contract, null where nothing was measured. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <sys/stat.h>

#include "summary_check.h"

/* The document of the contract, path by path. */
static const char contract[] =
	"schema tool.name tool.version target.pid target.cmdline target.python target.torch "
	"target.workers_seen target.container window.start_ns window.end_ns window.wall_s "
	"window.clock_realtime_at_start verdict.bottleneck verdict.exposed_wait_ratio "
	"verdict.startup_ratio verdict.severity verdict.cause verdict.where "
	"verdict.confidence verdict.text verdict.evidence.0.metric verdict.evidence.0.value "
	"verdict.evidence.0.unit verdict.evidence.0.text verdict.advice.0.text "
	"verdict.advice.0.counter_check verdict.candidates.0.cause "
	"verdict.candidates.0.share loaders.0.id loaders.0.iterator_type "
	"loaders.0.num_workers loaders.0.pin_memory loaders.0.prefetch loaders.0.inits "
	"loaders.0.iterators.0.start_ns loaders.0.iterators.0.end_ns "
	"loaders.0.iterators.0.init_us loaders.0.iterators.0.workers.1 "
	"loaders.0.iterators.0.getnext_count loaders.0.iterators.0.exposed_wait_ratio "
	"loaders.0.iterator_init.count loaders.0.iterator_init.median_us "
	"loaders.0.iterator_init.max_us loaders.0.iterator_init.outliers "
	"loaders.0.getnext.count loaders.0.getnext.total_us loaders.0.getnext.median_us "
	"loaders.0.getnext.p95_us loaders.0.getnext.p99_us loaders.0.getnext.max_us "
	"loaders.0.getnext.blocked_us loaders.0.getnext.handover_us "
	"loaders.0.getnext.cpu_us loaders.0.getnext.runq_us "
	"loaders.0.getnext.outliers.0.start_ns loaders.0.getnext.outliers.0.end_ns "
	"loaders.0.getnext.outliers.0.duration_us loaders.0.getnext.outliers.0.batch "
	"loaders.0.getnext.outliers.0.worker_pid loaders.0.batch_time.count "
	"loaders.0.batch_time.median_us loaders.0.batch_time.max_us "
	"loaders.0.batch_time.outliers loaders.0.batch_size loaders.0.queue.mean_ready "
	"loaders.0.queue.empty_fraction loaders.0.queue.full_fraction loaders.0.verdict.cause "
	"loaders.0.verdict.share loaders.0.verdict.exposed_wait_ratio "
	"loaders.0.verdict.confidence loaders.0.verdict.text workers.0.pid "
	"workers.0.loader workers.0.born_ns workers.0.died_ns workers.0.exit "
	"workers.0.batches workers.0.produce.median_us workers.0.produce.max_us "
	"workers.0.produce.outliers workers.0.states.run_us workers.0.states.other_us "
	"workers.0.affinity_cpus workers.0.native_threads_max workers.0.read_bytes "
	"workers.0.major_faults workers.0.cpu_user_us workers.0.cpu_system_us "
	"main.inside.run_us main.outside.idle_us stages waits block_io system.cpus "
	"system.cpus_allowed system.cgroup system.steal_by_others system.memory system.shm "
	"system.others_cpu_us system.hypervisor_steal_us phases "
	"overhead.probe_hits overhead.probe_cpu_us overhead.daemon_cpu_us "
	"overhead.daemon_rss_bytes overhead.target_slowdown_ratio loss.events_lost "
	"loss.bytes_lost loss.by_reason loss.complete";

static void test_every_field(void **state)
{
	char paths[sizeof(contract)], *save = NULL;

	(void)state;
	load();
	memcpy(paths, contract, sizeof(paths));
	for (char *path = strtok_r(paths, " ", &save); path; path = strtok_r(NULL, " ", &save))
		assert_non_null(at(path));
}

static void test_values(void **state)
{
	(void)state;
	job.loader[0].getnext_longest.item[0].batch = 0;
	load();
	assert_text("schema", "dlprof.summary/1");
	assert_text("tool.name", "dlprof-bpf");
	assert_text("tool.capture.queue", "uprobe");
	assert_integer("target.pid", JOB_PID);
	assert_text("target.torch", "2.13.0+cpu");
	assert_null_at("target.container");
	assert_null_at("target.launched_ns");
	assert_integer("window.start_ns", (json_int_t)JOB_START_NS);
	assert_number("window.wall_s", 12, 1e-9);
	assert_text("verdict.cause", "worker_cpu");
	assert_number("verdict.exposed_wait_ratio", 0.63, 1e-6);
	assert_integer("loaders.0.getnext.count", 150);
	assert_number("loaders.0.getnext.median_us", 51000, 400);
	assert_number("loaders.0.getnext.cpu_us", 500000, 0.1);
	assert_number("loaders.0.getnext.blocked_us", 7000000, 0.1);
	/* 3 of 150 calls took 200 ms, the rest about 51 */
	assert_int_equal(json_array_size(at("loaders.0.getnext.outliers")), 3);
	assert_number("loaders.0.getnext.outliers.0.duration_us", 200000, 0.1);
	assert_integer("loaders.0.getnext.outliers.0.batch", 0);
	assert_int_equal(json_array_size(at("loaders.0.batch_time.outliers")), 0);
	assert_number("loaders.0.queue.mean_ready", 0.2, 1e-6);
	assert_number("loaders.0.queue.empty_fraction", 0.8, 1e-6);
	assert_number("loaders.0.iterators.0.exposed_wait_ratio", 0.63, 1e-6);
	assert_integer("workers.1.pid", JOB_PID + 2);
	assert_integer("workers.0.batches", 75);
	assert_number("workers.0.states.run_us", 10200000, 0.1);
	assert_integer("workers.0.major_faults", 7);
	assert_number("workers.0.cpu_system_us", 0, 0);
	assert_number("main.inside.pipe_us", 7560000, 0.1);
	assert_integer("system.cpus_allowed", 2);
	assert_integer("overhead.daemon_rss_bytes", 14 << 20);
	assert_true(json_is_true(at("loss.complete")));
	assert_int_equal(json_object_size(at("loss.by_reason")), 0);
}

static void test_unmeasured_is_null(void **state)
{
	static const char *const paths[] = {
		"target.cmdline",
		"target.python",
		"verdict.exposed_wait_ratio",
		"loaders.0.num_workers",
		"loaders.0.pin_memory",
		"loaders.0.prefetch",
		"loaders.0.getnext.median_us",
		"loaders.0.getnext.max_us",
		"loaders.0.queue.mean_ready",
		"loaders.0.batch_time.median_us",
		"loaders.0.verdict",
		"workers.0.states",
		"workers.0.loader",
		"workers.0.born_ns",
		"workers.0.batches",
		"workers.0.produce.median_us",
		"workers.0.affinity_cpus",
		"workers.0.native_threads_max",
		"workers.0.read_bytes",
		"workers.0.cpu_user_us",
		"main.inside",
		"main.outside",
		"stages",
		"waits",
		"block_io",
		"system.cpus",
		"system.cpus_allowed",
		"system.cgroup",
		"system.memory",
		"system.shm",
		"system.hypervisor_steal_us",
		"system.others_cpu_us",
		"system.steal_by_others",
		"overhead.probe_hits",
		"overhead.daemon_cpu_us",
		"loss.events_lost",
		"loss.bytes_lost",
		"tool.capture.queue",
	};
	struct dlp_worker *worker = &job.worker[0];
	struct dlp_loader *loader = &job.loader[0];

	(void)state;
	memset(&facts, 0, sizeof(facts));
	memset(worker, 0, sizeof(*worker));
	worker->pid = 9;
	*loader = (struct dlp_loader){ .id = 1, .num_workers = -1, .pin_memory = -1 };
	job.model.main_valid = false;
	memset(&job.model.counters, 0, sizeof(job.model.counters));
	load();
	for (size_t i = 0; i < DLP_ARRAY_SIZE(paths); i++)
		assert_null_at(paths[i]);
	assert_integer("loaders.0.getnext.count", 0);
	assert_true(json_is_false(at("loss.complete")));
	/* calls that were seen, but no state clocks */
	job_init(&job);
	memset(&loader->getnext_split, 0, sizeof(loader->getnext_split));
	load();
	assert_null_at("loaders.0.getnext.cpu_us");
	assert_null_at("loaders.0.getnext.blocked_us");
	/* a silent worker has made nothing, if messages would have been seen */
	job.worker[0].proven = false;
	job.worker[0].batch_cnt = 0;
	load();
	assert_null_at("workers.0.batches");
	facts.queue_rung = "uprobe";
	load();
	assert_integer("workers.0.batches", 0);
}

static void test_worker_lives(void **state)
{
	struct dlp_worker *worker = &job.worker[0];

	(void)state;
	worker->died_ns = JOB_START_NS + SECOND;
	worker->exit_code = 9;
	job.worker[1].died_ns = JOB_START_NS + SECOND;
	job.worker[1].exit_code = 3 << 8;
	worker->proc_first.majflt = 5;
	load();
	assert_text("workers.0.exit", "killed by signal 9");
	assert_text("workers.1.exit", "exit 3");
	assert_integer("workers.0.died_ns", (json_int_t)(JOB_START_NS + SECOND));
	assert_integer("workers.0.major_faults", 2);
	/* born inside the window: all of it counts, whenever it was first read */
	worker->born_ns = JOB_START_NS + 1;
	load();
	assert_integer("workers.0.major_faults", 7);
	/* a counter that went back (another process's, say) is not billions */
	worker->born_ns = 0;
	worker->proc_first.majflt = 8;
	load();
	assert_integer("workers.0.major_faults", 0);
}

static void test_losses(void **state)
{
	static const struct {
		enum dlp_counter counter;
		const char *id;
		bool complete;
	} cases[] = {
		{ DLP_CNT_RING_FULL, "ring_full", false },
		{ DLP_CNT_STORAGE, "thread_storage", false },
		{ DLP_CNT_LABEL_FAULT, "label_fault", false },
		{ DLP_CNT_MSG_FAULT, "message_fault", false },
		{ DLP_CNT_SCOPE_UNPAIRED, "scope_unpaired", true },
		{ DLP_CNT_CLASSIFY_FAULT, "classify_fault", true },
	};
	static const struct dlp_missing detail[] = { { "waits", false } };
	static const struct dlp_missing needed[] = { { "waits", false },
						     { "task iterator", true } };

	(void)state;
	for (size_t i = 0; i < DLP_ARRAY_SIZE(cases); i++) {
		job_init(&job);
		job.model.counters.value[cases[i].counter] = 5;
		job.model.counters.value[DLP_CNT_RING_BYTES] = 640;
		job.model.counters.value[DLP_CNT_SYSCALL_SEEN] = 1000;
		load();
		assert_int_equal(json_is_true(at("loss.complete")), cases[i].complete);
		assert_int_equal(json_object_size(at("loss.by_reason")), 1);
		assert_int_equal(
			json_integer_value(json_object_get(at("loss.by_reason"), cases[i].id)), 5);
		assert_integer("loss.bytes_lost", 640);
	}
	job_init(&job);
	job.model.counters.recursion_misses = 2;
	job.model.malformed_cnt = 3;
	job.model.unknown_cnt = 4;
	job.model.dropped_cnt = 5;
	load();
	assert_integer("loss.by_reason.recursion_misses", 2);
	assert_integer("loss.by_reason.malformed_events", 3);
	assert_integer("loss.by_reason.unknown_kinds", 4);
	assert_integer("loss.by_reason.model_full", 5);
	assert_true(json_is_false(at("loss.complete")));
	job_init(&job);
	facts.missing = detail;
	facts.missing_cnt = 1;
	load();
	assert_true(json_is_true(at("loss.complete")));
	facts.missing = needed;
	facts.missing_cnt = 2;
	load();
	assert_true(json_is_false(at("loss.complete")));
	assert_text("tool.capture.missing.1", "task iterator");
}

static const char *name_device(uint32_t dev, char *buf, size_t size)
{
	if (dev >> 20 != 259)
		return NULL;
	(void)snprintf(buf, size, "nvme0n%u", dev & 0xfffff);
	return buf;
}

static void test_devices_and_cost(void **state)
{
	(void)state;
	job.device[0].dev = 259u << 20 | 1;
	job.device[0].reads = 3;
	job.device[0].read_bytes = 12288;
	job.device[0].reader[0] = (struct dlp_reader){
		.pid = JOB_PID + 2, .reads = 1, .read_bytes = 4096, .timed = 1,
		.wait_ns = 2 * DLP_NS_PER_MS,
	};
	job.device[0].reader[1] = (struct dlp_reader){
		.pid = JOB_PID + 1, .reads = 1, .read_bytes = 8000,
	};
	job.device[0].reader_cnt = 2;
	job.device[0].other_readers = (struct dlp_reader){ .reads = 1, .read_bytes = 192 };
	dlp_hist_add(&job.device[0].latency, 2 * DLP_NS_PER_MS);
	dlp_hist_add(&job.device[0].latency, 16 * DLP_NS_PER_S);
	job.model.device_cnt = 1;
	/* seen in a third of the window's 12 s */
	job.model.counters.prog_run_cnt = 1000;
	job.model.counters.prog_run_ns = 3 * DLP_NS_PER_MS;
	job.model.counters.prog_sampled_ns = 4 * DLP_NS_PER_S;
	load();
	assert_text("block_io.0.device", "259:1");
	assert_integer("block_io.0.reads", 3);
	assert_number("block_io.0.latency.max_us", 16e6, 0.1);
	assert_number("block_io.0.mean_read_bytes", 4096, 1e-6);
	/* 16.002 s of latency in a window of 12 s */
	assert_number("block_io.0.mean_depth", 1.3335, 1e-6);
	assert_int_equal(json_array_size(at("block_io.0.by_worker")), 3);
	assert_integer("block_io.0.by_worker.0.pid", JOB_PID + 1);
	assert_null_at("block_io.0.by_worker.0.wait_us");
	assert_integer("block_io.0.by_worker.1.pid", JOB_PID + 2);
	assert_integer("block_io.0.by_worker.1.reads", 1);
	assert_integer("block_io.0.by_worker.1.read_bytes", 4096);
	assert_number("block_io.0.by_worker.1.wait_us", 2000, 0.1);
	assert_null_at("block_io.0.by_worker.2.pid");
	assert_integer("block_io.0.by_worker.2.read_bytes", 192);
	assert_integer("overhead.probe_hits", 3000);
	assert_number("overhead.probe_cpu_us", 9000, 0.1);
	assert_text("overhead.probe_cpu_how", "kernel's BPF run-time statistics, sampled");
	facts.device_name = name_device;
	load();
	assert_text("block_io.0.device", "nvme0n1");
	job.device[0].dev = 8u << 20;
	memset(&job.device[0].latency, 0, sizeof(job.device[0].latency));
	load();
	assert_text("block_io.0.device", "8:0");
	assert_null_at("block_io.0.mean_depth");
	/* nothing was read: that is known */
	job.device[0].reads = 0;
	load();
	assert_number("block_io.0.mean_depth", 0, 0);
	assert_null_at("block_io.0.mean_read_bytes");
}

static struct dlp_stage_sum stage_sum(uint64_t cnt, double total_s, double exclusive_s)
{
	struct dlp_stage_sum sum = {
		.cnt = cnt,
		.total_ns = (uint64_t)(total_s * 1e9),
		.exclusive_ns = (uint64_t)(exclusive_s * 1e9),
		.max_ns = 70 * DLP_NS_PER_MS,
	};

	sum.split.ns[DLP_ST_RUN] = sum.total_ns;
	return sum;
}

static void test_stages(void **state)
{
	static struct dlp_stage stages[3];

	(void)state;
	strcpy(stages[0].label, "step\033[2J\n\xff");
	stages[0].sum = stage_sum(150, 3, 1.2);
	strcpy(stages[1].label, "decode");
	stages[1].worker = true;
	stages[1].sum = stage_sum(1000, 12, 5.7);
	stages[1].sum.sampled = true;
	for (int i = 0; i < 5; i++)
		dlp_hist_add(&stages[1].duration, 12 * DLP_NS_PER_MS);
	stages[2].sum = stage_sum(1, 0.1, 0.1);
	memset(&stages[2].sum.split, 0, sizeof(stages[2].sum.split));
	job.model.stages = stages;
	job.model.stage_cnt = 3;
	job.model.other_stages[1] = stage_sum(7, 2, 2);
	load();
	assert_int_equal(json_array_size(at("stages")), 4);
	assert_text("stages.0.label", "decode");
	assert_text("stages.0.kind", "record_function");
	assert_text("stages.0.where", "workers");
	assert_integer("stages.0.count", 1000);
	assert_number("stages.0.total_us", 12e6, 0.1);
	assert_number("stages.0.median_us", 12000, 100);
	assert_number("stages.0.max_us", 70000, 0.1);
	assert_number("stages.0.exclusive_us", 5.7e6, 0.1);
	/* two workers, 11.4 s without their idle time each */
	assert_number("stages.0.share_of_production", 0.25, 1e-6);
	assert_true(json_is_true(at("stages.0.sampled")));
	assert_number("stages.0.states.run_us", 12e6, 0.1);
	assert_text("stages.1.label", "(other labels)");
	assert_text("stages.1.where", "workers");
	assert_null_at("stages.1.median_us");
	assert_text("stages.2.label", "step?[2J??");
	assert_text("stages.2.where", "main");
	assert_number("stages.2.share_of_wall", 0.1, 1e-6);
	assert_true(json_is_false(at("stages.2.sampled")));
	assert_null_at("stages.3.label");
	assert_null_at("stages.3.states");
	/* no clock of any worker */
	for (size_t i = 0; i < JOB_WORKERS; i++)
		job.worker[i].clock_valid = false;
	load();
	assert_null_at("stages.0.share_of_production");
}

static void test_waits(void **state)
{
	(void)state;
	job.model.waits[0] = (struct dlp_wait_group){
		.state = DLP_ST_PIPE, .cnt = 3, .total_ns = 9 * DLP_NS_PER_MS,
		.max_ns = 4 * DLP_NS_PER_MS,
	};
	job.model.waits[1] = (struct dlp_wait_group){
		.state = DLP_ST_DISK, .worker = true, .dev = 259u << 20 | 1, .fs_magic = 0xef53,
		.cnt = 30, .total_ns = 90 * DLP_NS_PER_MS, .max_ns = 5 * DLP_NS_PER_MS,
	};
	job.model.waits[2] = (struct dlp_wait_group){
		.state = DLP_ST_FS, .worker = true, .dev = 44, .fs_magic = 0x1234567,
		.cnt = 1, .total_ns = DLP_NS_PER_MS, .max_ns = DLP_NS_PER_MS,
	};
	job.model.wait_cnt = 3;
	job.model.other_waits[1] = (struct dlp_wait_group){ .cnt = 2, .total_ns = 2, .max_ns = 1 };
	facts.device_name = name_device;
	load();
	assert_int_equal(json_array_size(at("waits")), 4);
	assert_text("waits.0.where", "workers");
	assert_text("waits.0.state", "disk");
	assert_text("waits.0.filesystem", "ext4");
	assert_text("waits.0.device", "nvme0n1");
	assert_integer("waits.0.count", 30);
	assert_number("waits.0.total_us", 90000, 0.1);
	assert_number("waits.0.max_us", 5000, 0.1);
	assert_text("waits.1.where", "main");
	assert_text("waits.1.state", "pipe");
	assert_null_at("waits.1.filesystem");
	assert_null_at("waits.1.device");
	assert_text("waits.2.filesystem", "0x1234567");
	assert_text("waits.2.device", "0:44");
	assert_text("waits.3.where", "workers");
	assert_null_at("waits.3.state");
	facts.waits_seen = false;
	load();
	assert_null_at("waits");
}

static void test_hostile_text(void **state)
{
	(void)state;
	strcpy(job.target.cmdline, "a\033[0m\xff\xc3x\xe2\x80\xae.py");
	strcpy(job.loader[0].type, "Iter\n\"\\");
	load();
	assert_text("target.cmdline", "a?[0m??x?.py");
	assert_text("loaders.0.iterator_type", "Iter?\"\\");
}

static void test_command(void **state)
{
	(void)state;
	facts.launched_ns = 4711;
	/* of which nothing was seen */
	job.model.trainer_pid = 0;
	job.target.pid = 42;
	load();
	assert_integer("target.launched_ns", 4711);
	assert_integer("target.pid", 42);
	facts.target = NULL;
	load();
	assert_null_at("target.pid");
}

static size_t entries(const char *folder)
{
	DIR *dir = opendir(folder);
	size_t cnt = 0;

	assert_non_null(dir);
	for (struct dirent *entry; (entry = readdir(dir));)
		cnt += entry->d_name[0] != '.';
	closedir(dir);
	return cnt;
}

static void test_write(void **state)
{
	char folder[] = "/tmp/dlp_summary.XXXXXX", path[64], error[256] = "";
	struct stat st;
	json_error_t why;
	mode_t mask;

	(void)state;
	assert_non_null(mkdtemp(folder));
	(void)snprintf(path, sizeof(path), "%s/summary.json", folder);
	dlp_diagnose(&job.model, NULL, &verdict);
	mask = umask(022);
	assert_int_equal(
		dlp_summary_write(path, -1, &job.model, &verdict, &facts, error, sizeof(error)), 0);
	/* again: over the old one */
	assert_int_equal(
		dlp_summary_write(path, -1, &job.model, &verdict, &facts, error, sizeof(error)), 0);
	(void)umask(mask);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0644);
	assert_int_equal(entries(folder), 1);
	root = json_load_file(path, 0, &why);
	assert_non_null(root);
	assert_text("schema", "dlprof.summary/1");
	assert_int_equal(unlink(path), 0);
	/* a folder stands where the file should be: nothing is left beside it */
	assert_int_equal(mkdir(path, 0700), 0);
	assert_true(dlp_summary_write(path, -1, &job.model, &verdict, &facts, error, sizeof(error)) <
		    0);
	assert_non_null(strstr(error, path));
	assert_null(strchr(error, '\n'));
	assert_int_equal(entries(folder), 1);
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(rmdir(folder), 0);
	assert_int_equal(dlp_summary_write(path, -1, &job.model, &verdict, &facts, error,
					   sizeof(error)),
			 -ENOENT);
	assert_non_null(strstr(error, "No such file"));
}

static void test_write_special(void **state)
{
	char error[256] = "";

	(void)state;
	dlp_diagnose(&job.model, NULL, &verdict);
	assert_int_equal(dlp_summary_write("/dev/null", -1, &job.model, &verdict, &facts, error,
					   sizeof(error)),
			 0);
	assert_int_equal(dlp_summary_write("/dev/full", -1, &job.model, &verdict, &facts, error,
					   sizeof(error)),
			 -ENOSPC);
	assert_non_null(strstr(error, "/dev/full"));
}

static size_t allocations_left;

static void *failing_malloc(size_t bytes)
{
	if (!allocations_left)
		return NULL;
	allocations_left--;
	return malloc(bytes);
}

static void test_out_of_memory(void **state)
{
	size_t allowed = 0;
	int err;

	(void)state;
	dlp_diagnose(&job.model, NULL, &verdict);
	json_set_alloc_funcs(failing_malloc, free);
	do {
		char *text = NULL;

		allocations_left = allowed;
		err = dlp_summary_format(&job.model, &verdict, &facts, &text);
		assert_true(err == 0 || err == -ENOMEM);
		assert_true(!err == !!text);
		free(text);
		/* each of the first ones, then a sample: there are thousands */
		allowed += allowed < 40 ? 1 : 23;
	} while (err);
	json_set_alloc_funcs(malloc, free);
	assert_true(allowed > 500);
}

static void test_empty_model(void **state)
{
	static struct dlp_model empty;
	struct dlp_model kept = job.model;

	(void)state;
	job.model = empty;
	load();
	assert_text("verdict.bottleneck", "insufficient_data");
	assert_null_at("verdict.startup_ratio");
	assert_int_equal(json_array_size(at("loaders")), 0);
	assert_int_equal(json_array_size(at("workers")), 0);
	job.model = kept;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_every_field, setup, teardown),
		cmocka_unit_test_setup_teardown(test_values, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unmeasured_is_null, setup, teardown),
		cmocka_unit_test_setup_teardown(test_worker_lives, setup, teardown),
		cmocka_unit_test_setup_teardown(test_losses, setup, teardown),
		cmocka_unit_test_setup_teardown(test_devices_and_cost, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stages, setup, teardown),
		cmocka_unit_test_setup_teardown(test_waits, setup, teardown),
		cmocka_unit_test_setup_teardown(test_command, setup, teardown),
		cmocka_unit_test_setup_teardown(test_hostile_text, setup, teardown),
		cmocka_unit_test_setup_teardown(test_write, setup, teardown),
		cmocka_unit_test_setup_teardown(test_write_special, setup, teardown),
		cmocka_unit_test_setup_teardown(test_out_of_memory, setup, teardown),
		cmocka_unit_test_setup_teardown(test_empty_model, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
