/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "ranks.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>

#include "log.h"
#include "ranks_priv.h"
#include "util.h"

/*
 * How often a command's family is looked at: while ranks are missing as often as for the first one
 * (profile_command.c), later only for those that a launcher starts anew.
 */
#define LOOK_NS (50 * DLP_NS_PER_MS)
#define LOOK_LATER_NS (2 * DLP_NS_PER_S)
/* Launchers start all ranks anew when one has failed; they import torch first, for seconds. */
#define LONELY_NS (15 * DLP_NS_PER_S)

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static bool is_known(const struct dlp_ranks *ranks, pid_t pid)
{
	for (size_t i = 0; i < ranks->cnt; i++) {
		if (ranks->rank[i]->run.target.pid == pid)
			return true;
	}
	return false;
}

static size_t open_cnt(const struct dlp_ranks *ranks)
{
	size_t cnt = 0;

	for (size_t i = 0; i < ranks->cnt; i++)
		cnt += ranks->rank[i]->is_open;
	return cnt;
}

/* Is it another rank, or a worker of one? They are no strangers to this one. */
static bool is_kin(void *ctx, uint32_t tgid)
{
	const struct dlp_rank *self = ctx;
	const struct dlp_ranks *ranks = self->ranks;

	for (size_t i = 0; i < ranks->cnt; i++) {
		const struct dlp_run *run = &ranks->rank[i]->run;

		if (ranks->rank[i] != self && ((uint32_t)run->target.pid == tgid ||
					       dlp_model_worker(run->observation.model, tgid)))
			return true;
	}
	return false;
}

/* ---- one rank -------------------------------------------------------------------------------- */

static void detach(struct dlp_rank *rank)
{
	if (!rank->is_attached)
		return;
	dlp_run_close(&rank->run);
	dlp_loop_fini(&rank->loop);
	rank->is_attached = rank->is_open = false;
}

static void free_rank(struct dlp_rank *rank)
{
	if (rank->loop.screen)
		dlp_screen_remove(rank->loop.screen, rank->run.observation.model);
	detach(rank);
	dlp_run_end(&rank->run);
	free(rank->record);
	free(rank);
}

/* What has happened to it is said; its figures so far stay. */
static void fail(struct dlp_rank *rank, int err)
{
	char error[200];

	(void)dlp_loop_failed(&rank->loop, err, error, sizeof(error));
	dlp_complain("%s: %s", rank->who, error);
	rank->is_open = rank->is_common = false;
}

static void gather_all(struct dlp_ranks *ranks)
{
	for (size_t i = 0; i < ranks->cnt; i++) {
		struct dlp_rank *rank = ranks->rank[i];
		int err = rank->is_open ? dlp_loop_gather(&rank->loop) : 0;

		if (err)
			fail(rank, err);
	}
}

/* A rank has come: what there was is compared, and from now on all are. */
static void begin_common(struct dlp_ranks *ranks)
{
	gather_all(ranks);
	dlp_ranks_compare(ranks);
	for (size_t i = 0; i < ranks->cnt; i++) {
		struct dlp_rank *rank = ranks->rank[i];

		rank->is_common = rank->is_open;
		dlp_sums_take(rank->run.observation.model, &rank->common);
		rank->interval = rank->common;
	}
}

/* Best effort: one that is not on the screen is in the report. */
static void show(const struct dlp_ranks *ranks, struct dlp_rank *rank)
{
	const struct dlp_screen_job job = { .model = rank->run.observation.model,
					    .facts = &rank->run.facts,
					    .pid = (uint32_t)rank->run.target.pid,
					    .name = rank->name,
					    .number = rank->is_named ? rank->env.rank : -1 };

	rank->loop.screen = ranks->screen;
	if (dlp_screen_add(ranks->screen, &job))
		dlp_complain("%s is not on the screen: out of memory", rank->who);
}

/* DLP_EXIT_OK, or why it is not observed, which has been said. */
static enum dlp_exit start(struct dlp_ranks *ranks, struct dlp_rank *rank)
{
	struct epoll_event event = { .events = EPOLLIN };
	char error[512] = "";
	enum dlp_exit ret;

	if (dlp_run_open(&rank->run, rank->record))
		return DLP_EXIT_FAILURE;
	rank->is_attached = true;
	ret = dlp_loop_start(&rank->loop, error, sizeof(error));
	if (ret == DLP_EXIT_OK &&
	    epoll_ctl(ranks->epoll_fd, EPOLL_CTL_ADD, rank->loop.epoll_fd, &event))
		ret = dlp_loop_failed(&rank->loop, -errno, error, sizeof(error));
	if (ret != DLP_EXIT_OK)
		dlp_complain("%s", error);
	return ret;
}

static enum dlp_exit open_rank(struct dlp_ranks *ranks, const struct dlp_target *target)
{
	struct dlp_rank *rank;
	enum dlp_exit ret = DLP_EXIT_FAILURE;

	if (ranks->cnt == DLP_RANKS_MAX) {
		if (!ranks->full_told)
			dlp_complain(
				"no more than %d ranks are observed: pid %d and later ones are "
				"left out",
				DLP_RANKS_MAX, (int)target->pid);
		ranks->full_told = true;
		return DLP_EXIT_OK;
	}
	rank = calloc(1, sizeof(*rank));
	if (!rank) {
		dlp_complain("out of memory");
		return ret;
	}
	rank->run.target = *target;
	rank->run.observation = (struct dlp_observation){
		.options = ranks->options,
		.events = ranks->events,
		.out = ranks->out,
		.launch = ranks->launch,
		.rank = rank->name,
		.summary_fd = -1,
	};
	/* where it may not be, what the programs cost is not measured */
	(void)dlp_stats_switch_new(&rank->run.stats);
	rank->run.observation.stats = rank->run.stats;
	dlp_loop_init(&rank->loop, &rank->run.observation);
	rank->loop.screen = ranks->screen;
	if (dlp_ranks_name(ranks, rank))
		dlp_complain("out of memory");
	else
		ret = start(ranks, rank);
	if (ret != DLP_EXIT_OK) {
		free_rank(rank);
		return ret;
	}
	rank->is_open = true;
	rank->ranks = ranks;
	dlp_session_set_kin(rank->loop.session, is_kin, rank);
	ranks->rank[ranks->cnt++] = rank;
	if (ranks->screen)
		show(ranks, rank);
	begin_common(ranks);
	return DLP_EXIT_OK;
}

static void open_pid(struct dlp_ranks *ranks, pid_t pid)
{
	struct dlp_target_failure failure;
	struct dlp_target target;
	enum dlp_exit err;

	if (dlp_target_open("", pid, &target, &failure)) {
		dlp_complain("%s", failure.text);
		err = dlp_run_refusal(&failure);
	} else {
		err = open_rank(ranks, &target);
	}
	if (err != DLP_EXIT_OK)
		ranks->refused = err;
}

/* It iterates no DataLoader, but a process that it has started does: that one instead. */
static void replace(struct dlp_ranks *ranks, size_t i)
{
	struct dlp_rank *rank = ranks->rank[i];
	pid_t other = rank->run.observation.other;

	ranks->cnt--;
	for (; i < ranks->cnt; i++)
		ranks->rank[i] = ranks->rank[i + 1];
	/* places have changed: what was compared is told by them */
	memset(&ranks->compared, 0, sizeof(ranks->compared));
	ranks->compared.slowest = -1;
	ranks->compared_s = 0;
	if (ranks->finder)
		dlp_finder_drop(ranks->finder, other);
	if (!is_known(ranks, other)) {
		dlp_complain("%s iterates no DataLoader, but pid %d, which it has started, does: "
			     "observing that",
			     rank->who, (int)other);
		free_rank(rank);
		open_pid(ranks, other);
		return;
	}
	free_rank(rank);
}

static void end_rank(struct dlp_ranks *ranks, size_t i)
{
	struct dlp_rank *rank = ranks->rank[i];
	int err;

	if (rank->run.observation.other) {
		replace(ranks, i);
		return;
	}
	gather_all(ranks);
	dlp_ranks_compare(ranks);
	rank->is_common = false;
	err = rank->is_open ? dlp_loop_close_window(&rank->loop) : 0;
	if (err)
		fail(rank, err);
	detach(rank);
	if (ranks->screen)
		dlp_screen_ended(ranks->screen, rank->run.observation.model);
	ranks->lonely_ns = dlp_now_ns();
}

/* ---- all of them ----------------------------------------------------------------------------- */

static int add_fd(const struct dlp_ranks *ranks, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	return epoll_ctl(ranks->epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

/* Signals become readable; they interrupt nothing. */
static int open_fds(struct dlp_ranks *ranks)
{
	sigset_t signals;

	/* a reader that goes away must not take the summary with it */
	signal(SIGPIPE, SIG_IGN);
	ranks->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (ranks->epoll_fd < 0)
		return -errno;
	if (ranks->launch) {
		int err = add_fd(ranks, ranks->launch->signal_fd);

		return err ? err : add_fd(ranks, ranks->launch->pid_fd);
	}
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGHUP);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	ranks->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	return ranks->signal_fd < 0 ? -errno : add_fd(ranks, ranks->signal_fd);
}

static int wait_until(struct dlp_ranks *ranks, uint64_t deadline_ns)
{
	uint64_t now = dlp_now_ns();
	int timeout = deadline_ns > now ? (int)((deadline_ns - now) / DLP_NS_PER_MS + 1) : 0;
	/* the command's two, or signals and screen, and one of each rank: its own are behind that */
	struct epoll_event event[DLP_RANKS_MAX + 2];
	int n;

	n = epoll_wait(ranks->epoll_fd, event, DLP_ARRAY_SIZE(event), timeout);
	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	for (int i = 0; i < n; i++) {
		if (!event[i].data.fd)
			continue;
		if (ranks->launch && event[i].data.fd == ranks->launch->signal_fd)
			dlp_launch_relay(ranks->launch);
		else if (ranks->screen && event[i].data.fd == dlp_screen_fd(ranks->screen))
			ranks->stop |= dlp_screen_input(ranks->screen);
		else
			ranks->stop = true;
	}
	return 0;
}

static void read_all(struct dlp_ranks *ranks)
{
	for (size_t i = 0; i < ranks->cnt; i++) {
		struct dlp_rank *rank = ranks->rank[i];
		int err;

		if (!rank->is_open)
			continue;
		err = dlp_loop_wait(&rank->loop, 0);
		if (!err)
			err = dlp_loop_read(&rank->loop);
		if (err)
			fail(rank, err);
	}
	/* from the end: one that is replaced leaves its place */
	for (size_t i = ranks->cnt; i-- > 0;) {
		if (ranks->rank[i]->is_attached &&
		    (ranks->rank[i]->loop.stop || !ranks->rank[i]->is_open))
			end_rank(ranks, i);
	}
}

static void end_interval(struct dlp_ranks *ranks)
{
	for (size_t i = 0; i < ranks->cnt; i++) {
		struct dlp_rank *rank = ranks->rank[i];
		int err = rank->is_open ? dlp_loop_end_interval(&rank->loop) : 0;

		if (err)
			fail(rank, err);
	}
	dlp_ranks_say_interval(ranks);
}

/* Ranks that have come since. */
static void look(struct dlp_ranks *ranks)
{
	struct dlp_target_failure failure;
	struct dlp_target target;
	enum dlp_found found;

	do {
		found = dlp_finder_look(ranks->finder, dlp_now_ns(), &target, &failure);
		if (found == DLP_FOUND_REFUSED)
			dlp_complain("%s", failure.text);
		if (found != DLP_FOUND_TRAINER)
			continue;
		dlp_finder_drop(ranks->finder, target.pid);
		if (!is_known(ranks, target.pid) && open_rank(ranks, &target) != DLP_EXIT_OK)
			ranks->refused = DLP_EXIT_FAILURE;
	} while (found != DLP_FOUND_NOTHING);
	ranks->look_ns = dlp_now_ns() + (ranks->cnt < ranks->wanted ? LOOK_NS : LOOK_LATER_NS);
}

/* Has every one that is to come come, and shown that it is what trains? */
static bool may_settle(const struct dlp_ranks *ranks)
{
	if (ranks->finder && ranks->cnt < ranks->wanted)
		return false;
	for (size_t i = 0; i < ranks->cnt; i++) {
		const struct dlp_rank *rank = ranks->rank[i];

		if (ranks->finder && rank->env.restarts)
			return false;
		if (rank->is_open && !rank->run.observation.model->getnext_cnt)
			return false;
	}
	return open_cnt(ranks) > 0;
}

static int settle(struct dlp_ranks *ranks)
{
	pid_t pids[DLP_RANKS_MAX];
	size_t cnt = 0;
	int err;

	if (ranks->settled || !may_settle(ranks))
		return 0;
	for (size_t i = 0; i < ranks->cnt; i++) {
		if (ranks->rank[i]->is_open)
			pids[cnt++] = ranks->rank[i]->run.target.pid;
	}
	ranks->settled = true;
	/* attaching to another one would not be allowed */
	ranks->look_ns = UINT64_MAX;
	err = dlp_run_settle(ranks->options->summary, &ranks->summary_fd, pids, cnt);
	for (size_t i = 0; !err && i < ranks->cnt; i++) {
		struct dlp_record *record = ranks->rank[i]->run.observation.record;

		if (record)
			dlp_record_settle(record);
	}
	return err;
}

static bool is_over(const struct dlp_ranks *ranks, uint64_t now_ns)
{
	if (ranks->stop || now_ns >= ranks->end_ns)
		return true;
	if (open_cnt(ranks))
		return false;
	return !ranks->finder || ranks->settled || now_ns >= ranks->lonely_ns + LONELY_NS;
}

static int run(struct dlp_ranks *ranks)
{
	const struct dlp_options *options = ranks->options;
	uint64_t now = dlp_now_ns();

	ranks->end_ns = options->duration_ns ? now + options->duration_ns : UINT64_MAX;
	ranks->next_ns = now + options->interval_ns;
	ranks->look_ns = ranks->finder ? now : UINT64_MAX;
	while (!is_over(ranks, now)) {
		uint64_t until = min_u64(min_u64(ranks->next_ns, ranks->end_ns), ranks->look_ns);
		int err = wait_until(ranks, min_u64(until, now + DLP_LOOP_PERIOD_NS));

		if (err)
			return err;
		read_all(ranks);
		err = settle(ranks);
		if (err)
			return err;
		now = dlp_now_ns();
		if (is_over(ranks, now))
			break;
		if (now >= ranks->next_ns) {
			end_interval(ranks);
			/* after a pause (suspended machine) go on from now, do not catch up */
			ranks->next_ns += options->interval_ns;
			if (ranks->next_ns <= now)
				ranks->next_ns = now + options->interval_ns;
		}
		if (now >= ranks->look_ns)
			look(ranks);
		if (ranks->screen)
			dlp_screen_tick(ranks->screen, now);
	}
	return 0;
}

/* Where there is no terminal for it, lines it is. The terminal of a command is the command's. */
static int open_screen(struct dlp_ranks *ranks)
{
	if (ranks->launch || ranks->options->quiet || ranks->options->lines || !ranks->cnt ||
	    dlp_screen_open(fileno(ranks->out), &ranks->screen))
		return 0;
	for (size_t i = 0; i < ranks->cnt; i++)
		show(ranks, ranks->rank[i]);
	return add_fd(ranks, dlp_screen_fd(ranks->screen));
}

static void close_screen(struct dlp_ranks *ranks)
{
	dlp_screen_close(ranks->screen);
	ranks->screen = NULL;
	for (size_t i = 0; i < ranks->cnt; i++)
		ranks->rank[i]->loop.screen = NULL;
}

/* All windows end together, and the report is made before anything is detached: see dlp_observe. */
static enum dlp_exit finish(struct dlp_ranks *ranks)
{
	for (size_t i = 0; i < ranks->cnt; i++) {
		struct dlp_rank *rank = ranks->rank[i];
		int err = rank->is_open ? dlp_loop_close_window(&rank->loop) : 0;

		if (err)
			fail(rank, err);
	}
	dlp_ranks_compare(ranks);
	/* the report is next */
	close_screen(ranks);
	/* none was observed, and why has been said */
	return ranks->cnt ? dlp_ranks_report(ranks) : ranks->refused;
}

static enum dlp_exit observe(struct dlp_ranks *ranks)
{
	int err = open_screen(ranks);
	enum dlp_exit ret;

	if (!err)
		err = run(ranks);
	ret = finish(ranks);

	if (err)
		dlp_complain("observation failed: %s", strerror(-err));
	for (size_t i = 0; i < ranks->cnt; i++)
		free_rank(ranks->rank[i]);
	dlp_cleanup_close(&ranks->epoll_fd);
	dlp_cleanup_close(&ranks->signal_fd);
	dlp_cleanup_close(&ranks->summary_fd);
	return err ? DLP_EXIT_FAILURE : ret;
}

enum dlp_exit dlp_ranks_processes(const struct dlp_options *options,
				  const struct dlp_launch *launch, const pid_t *pids, size_t cnt,
				  FILE *events)
{
	struct dlp_ranks ranks = {
		.options = options,
		.events = events,
		.out = launch ? stderr : stdout,
		.launch = launch,
		.epoll_fd = -1,
		.signal_fd = -1,
		.summary_fd = -1,
		.compared.slowest = -1,
	};
	int err = open_fds(&ranks);

	if (err) {
		dlp_complain("observation failed: %s", strerror(-err));
		return DLP_EXIT_FAILURE;
	}
	for (size_t i = 0; i < cnt; i++)
		open_pid(&ranks, pids[i]);
	return observe(&ranks);
}

enum dlp_exit dlp_ranks_command(const struct dlp_options *options, const struct dlp_launch *launch,
				struct dlp_finder *finder, const struct dlp_target *first,
				FILE *events)
{
	struct dlp_ranks ranks = {
		.options = options,
		.events = events,
		.out = stderr,
		.launch = launch,
		.finder = finder,
		.epoll_fd = -1,
		.signal_fd = -1,
		.summary_fd = -1,
		.compared.slowest = -1,
	};
	struct dlp_rank_env env;
	int err = open_fds(&ranks);

	if (err) {
		dlp_complain("observation failed: %s", strerror(-err));
		return DLP_EXIT_FAILURE;
	}
	dlp_rank_env_get("", first->pid, &env);
	ranks.wanted = (size_t)env.local_size;
	ranks.lonely_ns = dlp_now_ns();
	dlp_finder_drop(finder, first->pid);
	if (open_rank(&ranks, first) != DLP_EXIT_OK)
		ranks.refused = DLP_EXIT_FAILURE;
	return observe(&ranks);
}
