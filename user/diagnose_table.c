/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The table of causes: the state that shows each, how it is said, what to do about it. */
#include "diagnose_priv.h"

#include "util.h"

#define NO_STATE DLP_ST_MAX

static const struct dlp_cause_info causes[DLP_CAUSE_MAX] = {
	[DLP_CAUSE_NONE] = {
		.state = NO_STATE,
		.advice = {
			{ "Look at the training step itself; a faster loader would not be noticed.",
			  "If the exposed wait rises once the step is faster, the loader is "
			  "next." },
		},
	},
	[DLP_CAUSE_WORKER_CPU] = {
		.state = DLP_ST_RUN, .doing = "on a CPU", .plain = true,
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
		.state = DLP_ST_DISK, .doing = "waiting for reads from a disk", .plain = true,
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
		.plain = true,
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
		.state = DLP_ST_SLEEP, .doing = "in deliberate sleeps", .plain = true,
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
		.state = DLP_ST_RUN, .doing = "on a CPU", .plain = true,
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
	[DLP_CAUSE_CPU_CONTENTION] = {
		.state = DLP_ST_RUNQ, .doing = "waiting for a CPU",
		.advice = {
			{ "Look for what takes the CPUs: other jobs, a CPU limit or mask of this "
			  "one, or thread pools in every worker (OMP_NUM_THREADS=1).",
			  "If the runq share stays on an otherwise empty machine, the job "
			  "itself is short of CPUs." },
		},
	},
	[DLP_CAUSE_FILESYSTEM_WAIT] = {
		.state = DLP_ST_FS, .doing = "waiting for a network or user-space file system",
		.advice = {
			{ "Copy the data to a local disk, or pack it into shards so that few "
			  "files are opened.",
			  "If training waits as much with a local copy, the file system is not "
			  "the cause." },
		},
	},
	[DLP_CAUSE_NETWORK_WAIT] = {
		.state = DLP_ST_NET, .doing = "waiting for the network",
		.advice = {
			{ "Ask for more at a time or for several things at once, or keep a local "
			  "copy.",
			  "If training waits as much with local data, the network is not the "
			  "cause." },
		},
	},
	[DLP_CAUSE_LOCK_WAIT] = {
		.state = DLP_ST_LOCK, .doing = "waiting for locks",
		.advice = {
			{ "Open files and connections in each worker, read-only and without "
			  "locking, so that workers do not queue for one lock.",
			  "If one worker alone is as slow, the lock is not shared between "
			  "workers." },
		},
	},
	[DLP_CAUSE_GIL_CONTENTION] = {
		.state = DLP_ST_GIL, .doing = "waiting for Python's global interpreter lock",
		.advice = {
			{ "Move Python work out of threads: worker processes instead of threads, "
			  "or native code that releases the lock.",
			  "If the gil share stays with those threads switched off, another "
			  "thread holds it." },
		},
	},
	[DLP_CAUSE_BATCH_TRANSFER] = {
		.state = DLP_ST_PIPE, .doing = "waiting on pipes between the job's processes",
		.advice = {
			{ "Send less per batch: few contiguous tensors instead of many objects, "
			  "smaller types, collate in the worker.",
			  "If training waits as much with a tiny batch, the transfer is not the "
			  "cause." },
		},
	},
	[DLP_CAUSE_WORKER_STUCK] = {
		.state = NO_STATE,
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

	/* causes that are only named by later rules have no row yet */
	if (cause >= DLP_CAUSE_MAX || (!causes[cause].doing && !causes[cause].advice[0].text))
		return &untold;
	return &causes[cause];
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
