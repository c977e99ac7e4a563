/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Every threshold of the diagnosis: NAME, value, and why it is that. Shares are 0..1. */
#ifndef DLP_DIAGNOSE_LIMITS_H
#define DLP_DIAGNOSE_LIMITS_H

#define DLP_LIMITS(X)                                                                              \
	X(EXPOSED_LOW, 0.05, "contract: from here on it is the bottleneck")                        \
	X(EXPOSED_MODERATE, 0.10, "contract")                                                      \
	X(EXPOSED_HIGH, 0.20, "contract")                                                          \
	X(EXPOSED_NEAR, 0.20, "a few calls more would turn the verdict")                           \
	X(CALLS_MIN, 5, "these may all be the first of an epoch and prefetched ones")              \
	X(CALLS_LIVE, 2, "a live line of a slow job: better a weak word than none")                \
	X(CALLS_SURE, 20, "one odd call in 20 moves the ratio by a twentieth")                     \
	X(WINDOW_MIN_S, 0.9, "in shorter ones scheduling noise decides; intervals are 1 s")        \
	X(WINDOW_SURE_S, 3, "several rounds over all workers at 5 batches/s")                      \
	X(STARTUP_MIN_S, 1, "so long a start needs no GetNext to be judged")                       \
	X(STEPS_UNFED, 10, "optimizers of one model may take as many steps on a batch")            \
	X(MAJORITY, 0.60, "more than all others together, with room for error")                    \
	X(PLURALITY, 0.35, "below, most time stays when the cause is gone")                        \
	X(RIVAL, 0.60, "a second cause so large may be first next time")                           \
	X(RIVAL_EQUAL, 0.85, "the two largest cannot be told apart")                               \
	X(CANDIDATE, 0.03, "smaller ones are within the error at the edges")                       \
	X(NAMEABLE, 0.10, "whose end would not be felt is no answer to what is slow")              \
	X(HELD, 0.50, "most of the wait passed with later batches ready")                          \
	X(HELD_BACK, 0.05, "as for exposed wait: a rank waits so much for another's loader")       \
	X(STEP_APART, 2, "steps at the edges of a window that ranks in step may differ by")        \
	X(STEP_RATE, 0.02, "of all steps: the same, for clocks are read at different times")       \
	X(HELD_BUSY, 0.75, "workers so busy limit the rate in any order")                          \
	X(BARREN, 0.20, "one worker in five makes nothing")                                        \
	X(BARREN_S, 3, "a worker at work has made a batch by then")                                \
	X(BARREN_BATCHES, 10, "and its brothers so many")                                          \
	X(UNPICKLE_NS, 60, "a byte of plain Python objects; measured: lists of ints 15 ns a byte") \
	X(UNPICKLE_BATCH_NS, 500000, "and a batch: rebuilding its tensors, measured 0.3 to 0.6 ms")  \
	X(HANDED_OVER, 0.15, "blocked so much behind a message it is a row of hand-overs")         \
	X(POOL_WORK, 0.50, "the pool's work explains at least half the waits for it")              \
	X(POOL_SHARE, 0.30, "of the wish for CPUs that is the workers' other threads'")            \
	X(RUNNABLE, 1.5, "threads wanting each CPU: half of them wait")                            \
	X(THROTTLED, 0.10, "cases: 10 % of the periods; idle quotas show 0")                       \
	X(OTHERS_CPUS, 0.10, "of the machine; less is what any system does")                       \
	X(OTHERS_LACK, 0.25, "of the job's time without a CPU")                                    \
	X(TRAINING_LACK, 0.10, "of the wall time: worth a word beside an acquittal")               \
	X(STEAL, 0.10, "of all CPUs, taken by the hypervisor")                                     \
	X(SYSTEM_TIME, 0.40, "a decoder's own allocations reach 20 %, copy-on-write 75 %")         \
	X(FAULTS_PER_MS, 30, "a fault every 33 us of CPU time; each costs 1 to 3 us")              \
	X(RECLAIM, 0.10, "of the window some task stalled for memory (reclaim, swap)")             \
	X(GC_SAMPLES, 40, "a share of one half is known to 16 points (two standard errors)")       \
	X(GC_LEAST, 0.05, "collections that any Python program has take 1 to 3 % of its CPU time") \
	X(GC_TRAINING, 0.05, "of the wall time: from there on the loader would be the bottleneck") \
	X(NARROW, 0.50, "of the workers have a mask smaller than the machine")                     \
	X(STALL_S, 10, "contract: stuck workers are noticed within 10 s")                          \
	X(STALL_WINDOW_S, 5, "a whole window; torch itself polls every 5 s")                       \
	X(ASLEEP_S, 2, "no wait of a worker at work is so long")                                   \
	X(ASLEEP_RUN, 0.02, "poll loops of a waiting process run less")                            \
	X(AFTER_DEATH_S, 1, "batches made before a death are delivered within that time")          \
	X(GROUP_DEATH_S, 0.1, "who kills the whole job does not take longer")                      \
	X(SHM_LOW, 0.25, "free; looked at ten times a second, batches are large")

enum dlp_limit {
#define X(NAME, value, reason) DLP_LIMIT_##NAME,
	DLP_LIMITS(X)
#undef X
	DLP_LIMIT_MAX,
};

extern const double dlp_limits[DLP_LIMIT_MAX];

#define LIMIT(NAME) (dlp_limits[DLP_LIMIT_##NAME])

#endif /* DLP_DIAGNOSE_LIMITS_H */
