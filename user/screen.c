/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "screen.h"

#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "keys.h"
#include "log.h"
#include "objects.h"
#include "snapshot.h"
#include "term.h"
#include "util.h"
#include "view.h"

/* Nobody reads faster, and a key that repeats must not keep the reader of the ring busy. */
#define DRAW_EVERY_NS (200 * DLP_NS_PER_MS)

/* One process. */
struct pane {
	struct dlp_screen_job job; /* but for `name`, which the snapshot has */
	struct dlp_snapshots *snapshots;
	struct dlp_objects *objects;
	struct dlp_snapshot shown;
};

struct dlp_screen {
	struct pane *pane[DLP_RANKS_MAX]; /* owned; as many as `shown` has, which points into them */
	struct dlp_view_job shown;
	struct dlp_term *term;
	struct dlp_view view;
	struct dlp_grid grid;
	int epoll_fd, signal_fd;
	bool dirty, keys_heard;
	uint64_t drawn_ns;
	sigset_t mask_before;
};

static void free_pane(struct pane *pane)
{
	dlp_snapshots_free(pane->snapshots);
	dlp_objects_free(pane->objects);
	free(pane);
}

static int add_fd(const struct dlp_screen *screen, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	return epoll_ctl(screen->epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

/* In the background keys are not ours: reading them would stop us, not reading them wake us always. */
static void hear_keys(struct dlp_screen *screen, bool hear)
{
	if (hear == screen->keys_heard)
		return;
	if (hear ? !add_fd(screen, dlp_term_fd(screen->term)) :
		   !epoll_ctl(screen->epoll_fd, EPOLL_CTL_DEL, dlp_term_fd(screen->term), NULL))
		screen->keys_heard = hear;
}

static int open_signals(struct dlp_screen *screen)
{
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGWINCH);
	sigaddset(&signals, SIGTSTP);
	sigaddset(&signals, SIGCONT);
	sigprocmask(SIG_BLOCK, &signals, &screen->mask_before);
	screen->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	return screen->signal_fd < 0 ? -errno : add_fd(screen, screen->signal_fd);
}

static int open_parts(struct dlp_screen *screen, int fd, enum dlp_colors colors)
{
	int err;

	screen->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (screen->epoll_fd < 0)
		return -errno;
	err = open_signals(screen);
	/* last: what follows cannot fail, so the terminal is never taken in vain */
	if (!err)
		err = dlp_term_open(fd, colors, &screen->term);
	return err;
}

int dlp_screen_open(int fd, struct dlp_screen **ret)
{
	struct dlp_term_caps caps;
	struct dlp_screen *screen;
	int err;

	*ret = NULL;
	dlp_term_caps(getenv, &caps);
	if (!caps.usable || !isatty(fd))
		return -ENOTTY;
	screen = calloc(1, sizeof(*screen));
	if (!screen)
		return -ENOMEM;
	screen->shown.compared.slowest = -1;
	screen->epoll_fd = screen->signal_fd = -1;
	/* character widths, whatever the user's language; without it all but ASCII becomes '?' */
	(void)setlocale(LC_CTYPE, "C.UTF-8");
	screen->view.unicode = caps.unicode;
	screen->view.color = caps.colors != DLP_COLORS_NONE;
	err = open_parts(screen, fd, caps.colors);
	if (err) {
		dlp_screen_close(screen);
		return err;
	}
	dlp_complaints_hold();
	hear_keys(screen, true);
	screen->dirty = true;
	*ret = screen;
	return 0;
}

void dlp_screen_close(struct dlp_screen *screen)
{
	if (!screen)
		return;
	dlp_term_close(screen->term);
	dlp_cleanup_close(&screen->epoll_fd);
	dlp_cleanup_close(&screen->signal_fd);
	sigprocmask(SIG_SETMASK, &screen->mask_before, NULL);
	dlp_complaints_release();
	for (size_t i = 0; i < screen->shown.cnt; i++)
		free_pane(screen->pane[i]);
	dlp_grid_fini(&screen->grid);
	free(screen);
}

int dlp_screen_add(struct dlp_screen *screen, const struct dlp_screen_job *job)
{
	size_t at = screen->shown.cnt;
	struct pane *pane;
	int err;

	if (at == DLP_RANKS_MAX)
		return -ENOSPC;
	pane = calloc(1, sizeof(*pane));
	if (!pane)
		return -ENOMEM;
	err = dlp_snapshots_new(&pane->snapshots);
	if (!err)
		err = dlp_objects_new("", &pane->objects);
	if (err) {
		free_pane(pane);
		return err;
	}
	pane->job = *job;
	(void)snprintf(pane->shown.rank, sizeof(pane->shown.rank), "%s", job->name);
	screen->pane[at] = pane;
	screen->shown.rank[at] = (struct dlp_view_rank){ .pid = job->pid,
							 .number = job->number,
							 .snapshot = &pane->shown };
	screen->shown.cnt++;
	if (at == 1)
		screen->view.several = screen->view.overview = true;
	return 0;
}

/* Its place; that of none is `cnt`. */
static size_t place(const struct dlp_screen *screen, const struct dlp_model *model)
{
	size_t at = 0;

	while (at < screen->shown.cnt && screen->pane[at]->job.model != model)
		at++;
	return at;
}

void dlp_screen_remove(struct dlp_screen *screen, const struct dlp_model *model)
{
	size_t at = place(screen, model);

	if (at == screen->shown.cnt)
		return;
	free_pane(screen->pane[at]);
	screen->shown.cnt--;
	for (; at < screen->shown.cnt; at++) {
		screen->pane[at] = screen->pane[at + 1];
		screen->shown.rank[at] = screen->shown.rank[at + 1];
	}
	/* what was compared is told by places */
	screen->shown.compared = (struct dlp_ranks_verdict){ .slowest = -1 };
	screen->shown.text[0] = '\0';
	screen->dirty = true;
}

void dlp_screen_ended(struct dlp_screen *screen, const struct dlp_model *model)
{
	size_t at = place(screen, model);

	if (at < screen->shown.cnt)
		screen->shown.rank[at].ended = screen->dirty = true;
}

int dlp_screen_fd(const struct dlp_screen *screen)
{
	return screen->epoll_fd;
}

/* Ctrl-Z: the shell gets its terminal as it was. We go on behind the raise(). */
static void stop(struct dlp_screen *screen)
{
	dlp_term_down(screen->term);
	hear_keys(screen, false);
	(void)raise(SIGSTOP);
}

static void take_signals(struct dlp_screen *screen)
{
	struct signalfd_siginfo info;

	while (read(screen->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGTSTP)
			stop(screen);
		/* a shell may have changed the terminal while we were stopped by a SIGSTOP */
		if (info.ssi_signo == SIGCONT)
			dlp_term_down(screen->term);
		dlp_term_forget(screen->term);
		screen->dirty = true;
	}
}

/* True: quit. */
static bool take_keys(struct dlp_screen *screen)
{
	char bytes[64];
	ssize_t cnt = read(dlp_term_fd(screen->term), bytes, sizeof(bytes));

	/* the terminal is gone: nobody will ever press a key */
	if (cnt == 0 || (cnt < 0 && errno != EAGAIN && errno != EINTR)) {
		hear_keys(screen, false);
		return false;
	}
	for (size_t used, at = 0; cnt > 0 && at < (size_t)cnt && screen->shown.cnt; at += used) {
		int key = dlp_key_next(bytes + at, (size_t)cnt - at, &used);

		switch (dlp_view_job_key(&screen->view, &screen->shown, key)) {
		case DLP_VIEW_QUIT:
			return true;
		case DLP_VIEW_REDRAW:
			screen->dirty = true;
			break;
		default:
			break;
		}
	}
	return false;
}

bool dlp_screen_input(struct dlp_screen *screen)
{
	take_signals(screen);
	return screen->keys_heard && take_keys(screen);
}

void dlp_screen_interval(struct dlp_screen *screen, const struct dlp_model *model,
			 const struct dlp_verdict *lately)
{
	size_t at = place(screen, model);
	struct dlp_snap_names names = { .object = dlp_objects_name };
	struct dlp_view_rank *rank;
	struct pane *pane;
	bool keep;

	if (at == screen->shown.cnt)
		return;
	pane = screen->pane[at];
	rank = &screen->shown.rank[at];
	names.device = pane->job.facts->device_name;
	names.ctx = pane->objects;
	keep = screen->view.paused && rank->taken;
	dlp_objects_age(pane->objects);
	dlp_snapshots_take(pane->snapshots, model, lately, pane->job.facts, &names,
			   keep ? NULL : &pane->shown);
	rank->taken = true;
	screen->dirty |= !keep;
}

void dlp_screen_compare(struct dlp_screen *screen, const struct dlp_ranks_verdict *compared,
			const char *text)
{
	if (screen->view.paused)
		return;
	screen->shown.compared = *compared;
	(void)snprintf(screen->shown.text, sizeof(screen->shown.text), "%s", text);
	screen->dirty = true;
}

void dlp_screen_tick(struct dlp_screen *screen, uint64_t now_ns)
{
	int rows, cols;
	bool up;

	if (now_ns < screen->drawn_ns + DRAW_EVERY_NS)
		return;
	up = dlp_term_up(screen->term);
	hear_keys(screen, up);
	if (!screen->dirty || !up || !screen->shown.cnt)
		return;
	dlp_term_size(screen->term, &rows, &cols);
	if ((screen->grid.rows != rows || screen->grid.cols != cols) &&
	    dlp_grid_resize(&screen->grid, rows, cols))
		return;
	dlp_view_job_draw(&screen->view, &screen->shown, &screen->grid);
	/* what a slow terminal did not take is drawn with the next try */
	screen->dirty = !dlp_term_draw(screen->term, &screen->grid);
	screen->drawn_ns = now_ns;
}
