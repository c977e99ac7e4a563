/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "term.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "util.h"

/* Alternate screen, no cursor, no wrapping: the cell in the corner can be written. */
#define ENTER "\033[?1049h\033[?25l\033[?7l\033[0m\033[H\033[2J"
/* For a terminal without an alternate screen the cursor goes to the bottom first. */
#define LEAVE "\033[0m\033[?7h\033[?25h\033[999;1H\033[?1049l"
/* Ends an escape sequence of which only a part was taken. */
#define CANCEL "\030"
/* How long a terminal may take to accept LEAVE. */
#define LEAVE_MS 500

struct dlp_term {
	int fd; /* of our own: O_NONBLOCK must not reach the shell's or the job's descriptors */
	struct dlp_paint paint;
	size_t written; /* of paint.out */
};

/* What the handlers of fatal signals need; they run at any moment. */
static struct {
	volatile sig_atomic_t up; /* the terminal is ours and must be given back */
	int fd;
	struct termios saved;
} tty = { .fd = -1 };

static const int fatal[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGQUIT, SIGSYS, SIGTRAP };
static struct sigaction before[DLP_ARRAY_SIZE(fatal)];
/* A stack overflow has no stack left for its handler. */
static char handler_stack[16384];

static bool is_set(const char *value)
{
	return value && *value;
}

static bool is_utf8(char *(*get)(const char *name))
{
	const char *name = get("LC_ALL");

	if (!is_set(name))
		name = get("LC_CTYPE");
	if (!is_set(name))
		name = get("LANG");
	return name && (strcasestr(name, "utf-8") || strcasestr(name, "utf8"));
}

void dlp_term_caps(char *(*get)(const char *name), struct dlp_term_caps *ret)
{
	static const char *const grey[] = { "vt1", "vt2", "vt3", "vt4", "xterm-mono", "ansi-m" };
	const char *term = get("TERM"), *color = get("COLORTERM");

	*ret = (struct dlp_term_caps){ 0 };
	if (!is_set(term) || !strcmp(term, "dumb") || !strcmp(term, "unknown"))
		return;
	ret->usable = true;
	/* the kernel's console has no font with eighths of a block */
	ret->unicode = is_utf8(get) && strcmp(term, "linux");
	/* https://no-color.org: set and not empty */
	if (is_set(get("NO_COLOR")))
		return;
	ret->colors = DLP_COLORS_16;
	for (size_t i = 0; i < DLP_ARRAY_SIZE(grey); i++) {
		if (!strncmp(term, grey[i], strlen(grey[i])))
			ret->colors = DLP_COLORS_NONE;
	}
	if (strstr(term, "256color") || strstr(term, "direct") || strstr(term, "kitty") ||
	    strstr(term, "alacritty") || is_set(color))
		ret->colors = DLP_COLORS_256;
}

/* Async-signal-safe. The terminal must not stop us for it when we are in the background. */
static void give_back(bool cut)
{
	static const char text[] = CANCEL LEAVE;
	size_t at = cut ? 0 : sizeof(CANCEL) - 1;
	struct pollfd ready = { .fd = tty.fd, .events = POLLOUT };
	sigset_t quiet, old;

	if (!tty.up)
		return;
	tty.up = 0;
	sigemptyset(&quiet);
	sigaddset(&quiet, SIGTTOU);
	sigprocmask(SIG_BLOCK, &quiet, &old);
	while (at < sizeof(text) - 1) {
		ssize_t done = write(tty.fd, text + at, sizeof(text) - 1 - at);

		if (done > 0)
			at += (size_t)done;
		else if (done == 0 || errno != EAGAIN || poll(&ready, 1, LEAVE_MS) != 1)
			break;
	}
	(void)tcsetattr(tty.fd, TCSANOW, &tty.saved);
	sigprocmask(SIG_SETMASK, &old, NULL);
}

static void on_fatal(int number)
{
	give_back(true);
	/* SA_RESETHAND: now it ends us, with a core where one is wanted */
	(void)raise(number);
}

static void on_exit_leave(void)
{
	give_back(true);
}

static void catch_fatal(void)
{
	static bool at_exit;
	stack_t stack = { .ss_sp = handler_stack, .ss_size = sizeof(handler_stack) };
	struct sigaction action = { .sa_handler = on_fatal,
				    .sa_flags = (int)(SA_RESETHAND | SA_NODEFER | SA_ONSTACK) };

	/* best effort: without it only a stack overflow leaves the terminal as it is */
	(void)sigaltstack(&stack, NULL);
	for (size_t i = 0; i < DLP_ARRAY_SIZE(fatal); i++)
		sigaction(fatal[i], &action, &before[i]);
	if (!at_exit)
		at_exit = !atexit(on_exit_leave);
}

static void release_fatal(void)
{
	for (size_t i = 0; i < DLP_ARRAY_SIZE(fatal); i++)
		sigaction(fatal[i], &before[i], NULL);
}

static bool foreground(int fd)
{
	/* 0: a group of another pid namespace; -1: not our controlling terminal, so no keys for us */
	pid_t group = tcgetpgrp(fd);

	return group == getpgrp() || group == 0;
}

/* Keys come one by one and are not shown; Ctrl-C and Ctrl-Z still are signals. */
static int take_over(void)
{
	struct termios raw = tty.saved;

	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO | IEXTEN);
	raw.c_cc[VMIN] = 1;
	raw.c_cc[VTIME] = 0;
	tty.up = 1;
	if (tcsetattr(tty.fd, TCSADRAIN, &raw)) {
		tty.up = 0;
		return -errno;
	}
	return 0;
}

int dlp_term_open(int fd, enum dlp_colors colors, struct dlp_term **ret)
{
	struct dlp_term *term;
	char path[40];
	int err;

	*ret = NULL;
	if (!isatty(fd))
		return -ENOTTY;
	if (!foreground(fd))
		return -EBUSY;
	term = calloc(1, sizeof(*term));
	if (!term)
		return -ENOMEM;
	term->paint.colors = colors;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	term->fd = open(path, O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (term->fd < 0 || tcgetattr(term->fd, &tty.saved)) {
		err = -errno;
		dlp_cleanup_close(&term->fd);
		free(term);
		return err;
	}
	tty.fd = term->fd;
	catch_fatal();
	if (!dlp_term_up(term)) {
		dlp_term_close(term);
		return -EIO;
	}
	*ret = term;
	return 0;
}

void dlp_term_close(struct dlp_term *term)
{
	if (!term)
		return;
	dlp_term_down(term);
	release_fatal();
	tty.fd = -1;
	close(term->fd);
	dlp_paint_fini(&term->paint);
	free(term);
}

int dlp_term_fd(const struct dlp_term *term)
{
	return term->fd;
}

void dlp_term_size(const struct dlp_term *term, int *ret_rows, int *ret_cols)
{
	struct winsize size = { 0 };

	/* a terminal that does not know (a serial line) says 0 */
	if (ioctl(term->fd, TIOCGWINSZ, &size) || !size.ws_row || !size.ws_col)
		size = (struct winsize){ .ws_row = 24, .ws_col = 80 };
	*ret_rows = size.ws_row;
	*ret_cols = size.ws_col;
}

static size_t pending(const struct dlp_term *term)
{
	return term->paint.out_bytes - term->written;
}

/* As much as the terminal takes without waiting; true = all of it. */
static bool flush(struct dlp_term *term)
{
	while (pending(term)) {
		ssize_t done = write(term->fd, term->paint.out + term->written, pending(term));

		if (done > 0)
			term->written += (size_t)done;
		else if (done == 0 || errno != EINTR)
			return false;
	}
	term->written = term->paint.out_bytes = 0;
	return true;
}

bool dlp_term_up(struct dlp_term *term)
{
	if (!foreground(term->fd))
		return false;
	if (tty.up)
		return true;
	/* somebody may have changed the settings while we were stopped: these are to come back */
	if (tcgetattr(term->fd, &tty.saved) || take_over())
		return false;
	dlp_term_forget(term);
	term->written = 0;
	term->paint.out_bytes = 0;
	/* a terminal just given to us takes these few bytes */
	return write(term->fd, ENTER, sizeof(ENTER) - 1) == sizeof(ENTER) - 1;
}

void dlp_term_down(struct dlp_term *term)
{
	give_back(pending(term));
}

void dlp_term_forget(struct dlp_term *term)
{
	dlp_paint_forget(&term->paint);
}

bool dlp_term_draw(struct dlp_term *term, const struct dlp_grid *grid)
{
	if (!flush(term))
		return false;
	if (dlp_paint(&term->paint, grid))
		return false;
	(void)flush(term);
	return true;
}
