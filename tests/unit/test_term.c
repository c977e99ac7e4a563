/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A real terminal (a pty): taken, drawn on, and given back whatever happens to whoever took it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "term.h"
#include "util.h"

#define ENTER "\033[?1049h"
#define LEAVE "\033[?1049l"
#define WAIT_MS 10000

/* What the other side of the pty has received so far. */
static char seen[1 << 20];
static size_t seen_bytes;

static int open_master(void)
{
	int fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(grantpt(fd), 0);
	assert_int_equal(unlockpt(fd), 0);
	seen_bytes = 0;
	return fd;
}

/* A new session with the pty as its terminal; returns a descriptor of it. For children. */
static int own_terminal(int master)
{
	struct winsize size = { .ws_row = 30, .ws_col = 100 };
	int fd;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)setsid();
	fd = open(ptsname(master), O_RDWR);
	if (fd < 0 || ioctl(fd, TIOCSCTTY, 0) || ioctl(fd, TIOCSWINSZ, &size))
		_exit(99);
	return fd;
}

/* Reads what comes until the text has been seen; false = it never was. */
static bool expect(int master, const char *text)
{
	struct pollfd ready = { .fd = master, .events = POLLIN };

	for (;;) {
		ssize_t cnt;

		seen[seen_bytes] = '\0';
		if (strstr(seen, text))
			return true;
		if (poll(&ready, 1, WAIT_MS) != 1)
			return false;
		cnt = read(master, seen + seen_bytes, sizeof(seen) - 1 - seen_bytes);
		if (cnt <= 0)
			return false;
		seen_bytes += (size_t)cnt;
	}
}

static int status_of(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

enum way { CLOSE, EXIT, ABORT, SEGV, BUS, QUIT, WAY_MAX };

static void leave(struct dlp_term *term, enum way way)
{
	static const int signals[WAY_MAX] = {
		[ABORT] = SIGABRT, [SEGV] = SIGSEGV, [BUS] = SIGBUS, [QUIT] = SIGQUIT
	};

	if (way == CLOSE) {
		dlp_term_close(term);
		_exit(0);
	}
	if (way == EXIT)
		exit(0);
	raise(signals[way]);
	_exit(98);
}

static void child(int master, enum way way)
{
	struct dlp_grid grid = { 0 };
	struct dlp_term *term;
	int fd = own_terminal(master), rows, cols;

	if (dlp_term_open(fd, DLP_COLORS_256, &term))
		_exit(97);
	dlp_term_size(term, &rows, &cols);
	if (rows != 30 || cols != 100 || dlp_grid_resize(&grid, rows, cols))
		_exit(96);
	dlp_grid_put(&grid, 29, 90, 100, 0, "the corner");
	if (!dlp_term_draw(term, &grid))
		_exit(95);
	/* the parent looks, then lets us go on */
	if (read(fd, &(char){ 0 }, 1) != 1)
		_exit(94);
	leave(term, way);
}

static void check_way(enum way way)
{
	_cleanup_close_ int master = open_master();
	_cleanup_close_ int slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
	struct termios before = { 0 }, during = { 0 }, after = { 0 };
	int status;
	pid_t pid;

	assert_int_equal(tcgetattr(slave, &before), 0);
	pid = fork();
	if (!pid)
		child(master, way);
	assert_true(expect(master, "the corner"));
	assert_non_null(strstr(seen, ENTER));
	assert_null(strstr(seen, LEAVE));
	assert_int_equal(tcgetattr(slave, &during), 0);
	assert_false(during.c_lflag & (ICANON | ECHO));
	assert_true(during.c_lflag & ISIG);
	assert_int_equal(write(master, "x", 1), 1);
	status = status_of(pid);
	if (way == CLOSE || way == EXIT)
		assert_int_equal(status, 0);
	else
		assert_true(WIFSIGNALED(status));
	assert_true(expect(master, LEAVE));
	assert_non_null(strstr(seen, "\033[?25h"));
	assert_int_equal(tcgetattr(slave, &after), 0);
	assert_memory_equal(&before, &after, sizeof(before));
}

static void test_ways_out(void **state)
{
	(void)state;
	for (unsigned int way = 0; way < WAY_MAX; way++)
		check_way(way);
}

/* A terminal that nobody reads: drawing never waits, and goes on when it is read again. */
static void slow_child(int master, int result)
{
	struct dlp_grid grid = { 0 };
	struct dlp_term *term;
	int fd = own_terminal(master), refused = 0;
	uint64_t start;

	if (dlp_term_open(fd, DLP_COLORS_256, &term) || dlp_grid_resize(&grid, 30, 100))
		_exit(97);
	start = dlp_now_ns();
	for (uint32_t i = 0; i < 50; i++) {
		for (int row = 0; row < 30; row++)
			dlp_grid_fill(&grid, row, 0, 100, 0, 'a' + i % 26);
		refused += !dlp_term_draw(term, &grid);
	}
	if (dlp_now_ns() - start > DLP_NS_PER_S)
		_exit(96);
	if (write(result, &refused, sizeof(refused)) != sizeof(refused))
		_exit(95);
	dlp_grid_put(&grid, 0, 0, 100, 0, "here again");
	for (int i = 0; i < 500 && !dlp_term_draw(term, &grid); i++)
		usleep(10000);
	usleep(20000);
	(void)dlp_term_draw(term, &grid);
	dlp_term_close(term);
	_exit(0);
}

static void test_slow(void **state)
{
	_cleanup_close_ int master = open_master();
	int result[2], refused = 0;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(result), 0);
	pid = fork();
	if (!pid)
		slow_child(master, result[1]);
	/* a pty holds a few kilobytes */
	assert_int_equal(read(result[0], &refused, sizeof(refused)), sizeof(refused));
	assert_true(refused > 20);
	assert_true(expect(master, "here again"));
	assert_true(expect(master, LEAVE));
	assert_int_equal(status_of(pid), 0);
	close(result[0]);
	close(result[1]);
}

/* In the background the terminal is somebody else's. */
static void background_child(int master)
{
	struct dlp_term *term;
	int fd = own_terminal(master);
	pid_t pid = fork();

	if (!pid) {
		(void)setpgid(0, 0);
		_exit(dlp_term_open(fd, DLP_COLORS_256, &term) == -EBUSY ? 0 : 1);
	}
	_exit(WEXITSTATUS(status_of(pid)));
}

static void test_background(void **state)
{
	_cleanup_close_ int master = open_master();
	_cleanup_close_ int slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
	struct termios before = { 0 }, after = { 0 };
	pid_t pid;

	(void)state;
	assert_int_equal(tcgetattr(slave, &before), 0);
	pid = fork();
	if (!pid)
		background_child(master);
	assert_int_equal(status_of(pid), 0);
	assert_int_equal(tcgetattr(slave, &after), 0);
	assert_memory_equal(&before, &after, sizeof(before));
}

/* Not the terminal that controls us, as after "> /dev/pts/5": its keys are its shell's. */
static void test_foreign(void **state)
{
	_cleanup_close_ int master = open_master();
	struct dlp_term *term;
	pid_t pid;

	(void)state;
	pid = fork();
	if (!pid) {
		int fd = open(ptsname(master), O_RDWR | O_NOCTTY);

		(void)setsid();
		_exit(dlp_term_open(fd, DLP_COLORS_256, &term) == -EBUSY ? 0 : 1);
	}
	assert_int_equal(status_of(pid), 0);
}

static void test_no_terminal(void **state)
{
	struct dlp_term *term;
	int fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(dlp_term_open(fds[1], DLP_COLORS_256, &term), -ENOTTY);
	assert_null(term);
	dlp_term_close(term);
	close(fds[0]);
	close(fds[1]);
}

static struct {
	const char *term, *color, *none, *lang, *all;
} env;

static char *get(const char *name)
{
	const char *value = !strcmp(name, "TERM")      ? env.term :
			    !strcmp(name, "COLORTERM") ? env.color :
			    !strcmp(name, "NO_COLOR")  ? env.none :
			    !strcmp(name, "LANG")      ? env.lang :
			    !strcmp(name, "LC_ALL")    ? env.all :
							 NULL;

	return (char *)value;
}

static struct dlp_term_caps caps_of(const char *term, const char *color, const char *none)
{
	struct dlp_term_caps ret;

	env.term = term;
	env.color = color;
	env.none = none;
	dlp_term_caps(get, &ret);
	return ret;
}

static void test_caps(void **state)
{
	(void)state;
	assert_false(caps_of(NULL, NULL, NULL).usable);
	assert_false(caps_of("", NULL, NULL).usable);
	assert_false(caps_of("dumb", NULL, NULL).usable);
	assert_true(caps_of("xterm", NULL, NULL).usable);
	assert_int_equal(caps_of("xterm", NULL, NULL).colors, DLP_COLORS_16);
	assert_int_equal(caps_of("xterm", "truecolor", NULL).colors, DLP_COLORS_256);
	assert_int_equal(caps_of("xterm-256color", NULL, NULL).colors, DLP_COLORS_256);
	assert_int_equal(caps_of("tmux-256color", NULL, NULL).colors, DLP_COLORS_256);
	assert_int_equal(caps_of("vt100", NULL, NULL).colors, DLP_COLORS_NONE);
	assert_int_equal(caps_of("xterm-256color", "truecolor", "1").colors, DLP_COLORS_NONE);
	/* set, but empty: not asked for */
	assert_int_equal(caps_of("xterm-256color", NULL, "").colors, DLP_COLORS_256);
	assert_false(caps_of("xterm", NULL, NULL).unicode);
	env.lang = "de_DE.UTF-8";
	assert_true(caps_of("xterm", NULL, NULL).unicode);
	assert_false(caps_of("linux", NULL, NULL).unicode);
	env.all = "C";
	assert_false(caps_of("xterm", NULL, NULL).unicode);
	env.all = "C.utf8";
	assert_true(caps_of("xterm", NULL, NULL).unicode);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ways_out),   cmocka_unit_test(test_slow),
		cmocka_unit_test(test_background), cmocka_unit_test(test_foreign), cmocka_unit_test(test_no_terminal),
		cmocka_unit_test(test_caps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
