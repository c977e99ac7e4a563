/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The table of causes: the state that shows each, how it is said, what to do about it. */
#include "diagnose_priv.h"

#include "util.h"

#define NO_STATE DLP_ST_MAX

static const struct dlp_cause_info causes[DLP_CAUSE_MAX] = {
	[DLP_CAUSE_NONE] = {
		.state = NO_STATE,
		.where = DLP_WHERE_MAIN,
		.advice = {
			{ "Look at the training step itself; a faster loader would not be noticed.",
			  "If the exposed wait rises once the step is faster, the loader is "
			  "next." },
		},
	},
	[DLP_CAUSE_WORKER_CPU] = {
		.state = DLP_ST_RUN, .doing = "on a CPU", .where = DLP_WHERE_WORKERS,
		.advice = {
			{ "Make a sample cheaper: a faster decoder, fewer or vectorised "
			  "transforms, or decode and resize once, offline.",
			  "Return one prepared sample from __getitem__: if training still waits "
			  "as much, the work per sample is not the cause." },
			{ "Raise num_workers while CPUs are free.",
			  "If the workers' runq share grows or batches/s stays, there was no "
			  "CPU left." },
		},
	},
	[DLP_CAUSE_DISK_READ] = {
		.state = DLP_ST_DISK, .doing = "waiting for reads from a disk", .where = DLP_WHERE_WORKERS,
		.advice = {
			{ "Read less often and larger pieces: pack the samples into shards and "
			  "read them in order, or move the data to a faster disk or into RAM.",
			  "Run an epoch whose files are in the page cache: if training waits as "
			  "much, the disk is not the cause." },
			{ "If the data fits into RAM, read it once before training; if not, store "
			  "it smaller.",
			  "If later epochs read as many bytes as the first, it does not fit." },
		},
	},
	[DLP_CAUSE_PAGE_FAULT_READ] = {
		.state = DLP_ST_FAULT, .doing = "waiting for page faults that read from a disk",
		.where = DLP_WHERE_WORKERS,
		.advice = {
			{ "Shuffle in chunks so that neighbouring records are read together, or "
			  "read with pread in larger pieces instead of through a memory map.",
			  "Read the mapped file once (cat FILE >/dev/null) so that it is "
			  "cached: if training waits as much, page faults are not the cause." },
			{ "Let the mapped file fit into RAM, or move it to a faster disk.",
			  "If the workers' fault share stays high with the file cached, the "
			  "faults are not reads." },
		},
	},
	[DLP_CAUSE_SLEEP] = {
		.state = DLP_ST_SLEEP, .doing = "in deliberate sleeps", .where = DLP_WHERE_WORKERS,
		.advice = {
			{ "Find the sleep in the dataset's code: retries, back-off, rate limits, "
			  "polling loops; fix what is retried or shorten the pause.",
			  "Set the pause to zero: if training waits as much, what it was "
			  "waiting for is the cause." },
			{ "Where the pause cannot go, let more workers wait side by side.",
			  "If batches/s does not grow with num_workers, they share one limit." },
		},
	},
	[DLP_CAUSE_MAIN_PROCESS] = {
		.state = DLP_ST_RUN, .doing = "on a CPU", .where = DLP_WHERE_MAIN,
		.advice = {
			{ "Set num_workers to 1 or more, so that batches are made while training "
			  "computes.",
			  "If the time per step stays, there is no free CPU or the work is in "
			  "the sampler." },
			{ "Make a sample, the sampler or collate_fn cheaper.",
			  "Return one prepared batch: if training still waits, the work is "
			  "elsewhere." },
		},
	},
	[DLP_CAUSE_CPU_OVERSUBSCRIPTION] = {
		.state = NO_STATE, .where = DLP_WHERE_WORKERS,
		.advice = {
			{ "Let each worker use one native thread: OMP_NUM_THREADS=1, "
			  "torch.set_num_threads(1), cv2.setNumThreads(0), and no thread pool of more "
			  "threads than CPUs per worker.",
			  "If batches/s stays and the runq share with it, the threads were not in each "
			  "other's way." },
			{ "Or use fewer workers: threads times workers should not exceed the CPUs.",
			  "If fewer workers make fewer batches/s, the CPUs were well used." },
		},
	},
	[DLP_CAUSE_CPU_AFFINITY] = {
		.state = NO_STATE, .where = DLP_WHERE_SYSTEM,
		.advice = {
			{ "Give the workers all CPUs: os.sched_setaffinity(0, range(os.cpu_count())) in "
			  "worker_init_fn when a library set the mask after the fork, or a wider "
			  "taskset, --cpus-per-task or cpuset of the job.",
			  "If the runq share stays with the wider mask, these CPUs are busy too." },
			{ "Look for what sets the mask: OpenMP (KMP_AFFINITY, OMP_PROC_BIND), srun "
			  "--cpu-bind, numactl.",
			  "If the mask is as narrow without them, the job was started with it." },
		},
	},
	[DLP_CAUSE_CPU_QUOTA] = {
		.state = NO_STATE, .where = DLP_WHERE_SYSTEM,
		.advice = {
			{ "Raise the CPU limit of the container or control group (cpu.max, "
			  "resources.limits.cpu).",
			  "If the throttled periods go to 0 and training waits as much, the work itself "
			  "is the cause." },
			{ "Where it cannot be raised: no more workers and native threads than the "
			  "quota has CPUs (os.cpu_count() does not know of it).",
			  "If batches/s falls with fewer workers, the quota was not spent on "
			  "switching." },
		},
	},
	[DLP_CAUSE_CPU_CONTENTION] = {
		.state = NO_STATE, .where = DLP_WHERE_SYSTEM,
		.advice = {
			{ "Stop, move or renice what else uses the CPUs (system.steal_by_others lists "
			  "it): another job, workers left over from one that died, monitoring.",
			  "If the runq share stays when they are gone, the job itself is short of "
			  "CPUs." },
			{ "Keep CPUs of its own for the job: a cpuset, an exclusive allocation.",
			  "If others still show up on these CPUs, the cpuset is not exclusive." },
		},
	},
	[DLP_CAUSE_FILESYSTEM_WAIT] = {
		.state = DLP_ST_FS, .doing = "waiting for a network or user-space file system",
		.where = DLP_WHERE_WORKERS,
		.advice = {
			{ "Copy the data to a local disk, or pack it into shards so that few "
			  "files are opened.",
			  "If training waits as much with a local copy, the file system is not "
			  "the cause." },
		},
	},
	[DLP_CAUSE_NETWORK_WAIT] = {
		.state = DLP_ST_NET, .doing = "waiting for the network",
		.where = DLP_WHERE_WORKERS,
		.advice = {
			{ "Ask for more at a time or for several things at once, or keep a local "
			  "copy.",
			  "If training waits as much with local data, the network is not the "
			  "cause." },
		},
	},
	[DLP_CAUSE_LOCK_WAIT] = {
		.state = DLP_ST_LOCK, .doing = "waiting for locks",
		.where = DLP_WHERE_WORKERS,
		.advice = {
			{ "Open files and connections in each worker, read-only and without "
			  "locking, so that workers do not queue for one lock.",
			  "If one worker alone is as slow, the lock is not shared between "
			  "workers." },
		},
	},
	[DLP_CAUSE_GIL_CONTENTION] = {
		.state = DLP_ST_GIL, .doing = "waiting for Python's global interpreter lock",
		.where = DLP_WHERE_WORKERS,
		.advice = {
			{ "Move Python work out of threads: worker processes instead of threads, "
			  "or native code that releases the lock.",
			  "If the gil share stays with those threads switched off, another "
			  "thread holds it." },
		},
	},
	[DLP_CAUSE_BATCH_TRANSFER] = {
		.state = DLP_ST_PIPE, .doing = "waiting on pipes between the job's processes",
		.where = DLP_WHERE_MAIN,
		.advice = {
			{ "Send less per batch: few contiguous tensors instead of many objects, "
			  "smaller types, collate in the worker.",
			  "If training waits as much with a tiny batch, the transfer is not the "
			  "cause." },
		},
	},
	[DLP_CAUSE_WORKER_STARTUP] = {
		.state = NO_STATE, .where = DLP_WHERE_MAIN,
		.advice = {
			{ "Keep the workers: persistent_workers=True, and make the iterator once, not in "
			  "every step or epoch.",
			  "If the first batch of an epoch takes as long with persistent workers, it is "
			  "the batch that is slow." },
			{ "Make starting cheaper: fewer workers, fork or forkserver instead of spawn, a "
			  "dataset that is small to pickle (arrays or a file that each worker opens, not "
			  "lists of objects).",
			  "Start one worker with an empty dataset: if that takes as long, imports are "
			  "the cost." },
		},
	},
	[DLP_CAUSE_SLOW_BATCH] = {
		.state = NO_STATE, .where = DLP_WHERE_WORKERS,
		.advice = {
			{ "Do not hold ready batches back: in_order=False (torch 2.6 and later).",
			  "If training waits as much, the batches were not slow one by one but all." },
			{ "Even the items out: bucket by size, cut the largest ones, smaller batches, a "
			  "larger prefetch_factor.",
			  "If the slowest production times (workers[].produce) stay, it is not the "
			  "items' size." },
		},
	},
	[DLP_CAUSE_IDLE_WORKERS] = {
		.state = NO_STATE, .where = DLP_WHERE_WORKERS,
		.advice = {
			{ "Give every worker a share: as many shards (files) as workers or more, split by "
			  "get_worker_info() in the dataset's __iter__.",
			  "If workers[].batches is still 0 for some, they find their share empty." },
			{ "Or use only as many workers as there are shards.",
			  "If batches/s falls with fewer workers, the idle ones were not idle." },
		},
	},
	[DLP_CAUSE_MEMORY_PRESSURE] = {
		.state = NO_STATE, .where = DLP_WHERE_SYSTEM,
		.advice = {
			{ "Keep what the workers share out of Python objects: numpy or torch arrays, "
			  "Arrow, one string buffer with offsets; reading an object writes its "
			  "reference count, which copies the page after a fork.",
			  "If page faults per ms stay with arrays, the workers clear new memory instead: "
			  "reuse buffers." },
			{ "Where memory is short: fewer workers, a smaller prefetch_factor.",
			  "If system.memory shows no reclaim and no pressure, it is not short." },
		},
	},
	[DLP_CAUSE_SHM_EXHAUSTED] = {
		.state = NO_STATE, .where = DLP_WHERE_SYSTEM,
		.advice = {
			{ "Enlarge /dev/shm (docker run --shm-size or --ipc=host, an emptyDir with medium "
			  "Memory in Kubernetes).",
			  "If it fills as fast whatever its size, the job keeps its batches." },
			{ "Keep fewer batches: num_workers x prefetch_factor of them live there, and every "
			  "one the training loop still refers to.",
			  "If system.shm stays full when no batch is kept, another process fills it." },
		},
	},
	[DLP_CAUSE_WORKER_DIED] = {
		.state = NO_STATE, .where = DLP_WHERE_WORKERS,
		.advice = {
			{ "Read the job's own error output, and the kernel's (dmesg): SIGKILL is usually "
			  "the out-of-memory killer, SIGBUS a full /dev/shm, SIGSEGV a native library "
			  "that does not survive a fork.",
			  "If it dies at the same batch again with num_workers=0, it is that sample." },
		},
	},
	[DLP_CAUSE_GC_PAUSE] = {
		.state = NO_STATE, .where = DLP_WHERE_WORKERS,
		.advice = {
			{ "Take what is there for good out of the collector's sight: gc.collect() and "
			  "gc.freeze() once the dataset and the model are set up, before the workers "
			  "are started.",
			  "Call gc.disable() first thing (in worker_init_fn, too): if the time per step "
			  "stays, it is not the collector." },
			{ "Or collect more rarely: gc.set_threshold(100000, 50, 100), or gc.disable() and "
			  "gc.collect() every so many steps.",
			  "If memory grows without end, there are reference cycles that need it." },
			{ "Keep fewer Python objects: numpy or torch arrays, Arrow, one buffer with "
			  "offsets, instead of lists and dicts of objects.",
			  "If len(gc.get_objects()) falls and the collector's share does not, something "
			  "calls gc.collect() itself." },
		},
	},
	[DLP_CAUSE_STRAGGLER_RANK] = {
		.state = NO_STATE, .where = DLP_WHERE_SYSTEM,
		.advice = {
			{ "Look at the rank whose loader is slow: the others wait for it.",
			  "If the ranks change places, they share what is slow." },
		},
	},
	[DLP_CAUSE_WORKER_STUCK] = {
		.state = NO_STATE,
		.where = DLP_WHERE_WORKERS,
		.advice = {
			{ "Look at what the sleeping workers wait for (py-spy dump --pid WORKER): "
			  "a lock held when they were forked, or a dead mount, are usual.",
			  "If the job goes on by itself, it was only slow: observe it longer." },
		},
	},
};

const struct dlp_cause_info *dlp_cause_info(enum dlp_cause cause)
{
	static const struct dlp_cause_info untold = { .state = NO_STATE };

	return cause < DLP_CAUSE_MAX ? &causes[cause] : &untold;
}

enum dlp_cause dlp_cause_of_state(unsigned int state, bool main_makes)
{
	if (state == DLP_ST_RUN)
		return main_makes ? DLP_CAUSE_MAIN_PROCESS : DLP_CAUSE_WORKER_CPU;
	for (unsigned int i = 0; i < DLP_CAUSE_MAX; i++) {
		if (causes[i].doing && causes[i].state == state)
			return i;
	}
	return DLP_CAUSE_NONE;
}

const char *dlp_state_doing(unsigned int state)
{
	enum dlp_cause cause = dlp_cause_of_state(state, false);

	if (state == DLP_ST_IDLE)
		return "idle";
	if (state == DLP_ST_RUNQ)
		return "waiting for a CPU";
	return cause == DLP_CAUSE_NONE ? "in waits of other kinds" : causes[cause].doing;
}

const char *dlp_cause_id(enum dlp_cause cause)
{
	static const char *const ids[DLP_CAUSE_MAX] = {
#define X(NAME, id) [DLP_CAUSE_##NAME] = id,
		DLP_CAUSES(X)
#undef X
	};

	return cause < DLP_CAUSE_MAX ? ids[cause] : "unknown";
}

const char *dlp_bottleneck_id(enum dlp_bottleneck bottleneck)
{
	switch (bottleneck) {
	case DLP_BN_INSUFFICIENT:
		return "insufficient_data";
	case DLP_BN_NOT_DATA_LOADING:
		return "not_data_loading";
	case DLP_BN_DATA_LOADING:
		return "data_loading";
	case DLP_BN_STALLED:
		return "stalled";
	}
	return "unknown";
}

const char *dlp_severity_id(enum dlp_severity severity)
{
	static const char *const ids[] = { "none", "low", "moderate", "high" };

	return (size_t)severity < DLP_ARRAY_SIZE(ids) ? ids[severity] : "unknown";
}

const char *dlp_confidence_id(enum dlp_confidence confidence)
{
	static const char *const ids[] = { "low", "medium", "high" };

	return (size_t)confidence < DLP_ARRAY_SIZE(ids) ? ids[confidence] : "unknown";
}

const char *dlp_where_id(enum dlp_where where)
{
	static const char *const ids[] = { "workers", "main", "system" };

	return (size_t)where < DLP_ARRAY_SIZE(ids) ? ids[where] : "unknown";
}
