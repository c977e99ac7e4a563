/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "cli.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "globs.h"
#include "governor.h"
#include "record_file.h"
#include "util.h"

#define RING_BYTES_DEFAULT (4u << 20)
/* The kernel takes a power of two in 32 bits. */
#define RING_BYTES_MAX (1u << 31)
#define MAX_OVERHEAD_DEFAULT 1
/* Below, the kernel's statistics are all that is measured. */
#define MAX_OVERHEAD_LEAST 0.01
#define INTERVAL_MIN_NS (100 * DLP_NS_PER_MS)

/* One function a kind of option: takes the argument, 0 or a negative errno; `why` says more. */
typedef int (*take_fn)(struct dlp_options *options, const char *arg, char *why, size_t why_size);

__attribute__((format(printf, 3, 4))) static void say(char *buf, size_t size, const char *format,
						      ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(buf, size, format, args);
	va_end(args);
}

static int take_pid(struct dlp_options *options, const char *arg, char *why, size_t why_size)
{
	const char *reason;
	int err;

	err = dlp_pids_add(&options->pids, arg, &reason);
	if (!err && options->doctor && options->pids.cnt > 1) {
		err = -E2BIG;
		reason = "doctor looks at one process";
	}
	if (err)
		say(why, why_size, "%s", reason);
	options->pid = options->pids.pid[0];
	return err;
}

static int take_time(const char *arg, uint64_t *ret, char *why, size_t why_size)
{
	int err;

	err = dlp_parse_duration_ns(arg, ret);
	if (err)
		say(why, why_size,
		    err == -ERANGE ? "too long" : "not a duration (like 30, 0.5, 250ms, 10m, 1h)");
	return err;
}

static int take_duration(struct dlp_options *options, const char *arg, char *why, size_t why_size)
{
	return take_time(arg, &options->duration_ns, why, why_size);
}

static int take_interval(struct dlp_options *options, const char *arg, char *why, size_t why_size)
{
	int err;

	err = take_time(arg, &options->interval_ns, why, why_size);
	if (!err && options->interval_ns < INTERVAL_MIN_NS) {
		say(why, why_size, "shorter than 100ms");
		return -ERANGE;
	}
	return err;
}

static int take_window(struct dlp_options *options, const char *arg, char *why, size_t why_size)
{
	return take_time(arg, &options->window_ns, why, why_size);
}

static int take_long_wait(struct dlp_options *options, const char *arg, char *why, size_t why_size)
{
	return take_time(arg, &options->long_wait_ns, why, why_size);
}

static int take_file(const char *arg, const char **ret, char *why, size_t why_size)
{
	if (!*arg) {
		say(why, why_size, "no file name");
		return -EINVAL;
	}
	*ret = arg;
	return 0;
}

static int take_summary(struct dlp_options *options, const char *arg, char *why, size_t why_size)
{
	return take_file(arg, &options->summary, why, why_size);
}

static int take_events(struct dlp_options *options, const char *arg, char *why, size_t why_size)
{
	return take_file(arg, &options->events, why, why_size);
}

static int take_labels(struct dlp_options *options, const char *arg, char *why, size_t why_size)
{
	if (!*arg) {
		say(why, why_size, "no pattern");
		return -EINVAL;
	}
	if (options->label_cnt == DLP_LABEL_GLOBS_MAX) {
		say(why, why_size, "more than %d patterns", DLP_LABEL_GLOBS_MAX);
		return -E2BIG;
	}
	options->labels[options->label_cnt++] = arg;
	return 0;
}

static int take_fail_if(struct dlp_options *options, const char *arg, char *why, size_t why_size)
{
	int err;

	if (options->gate_cnt == DLP_GATES_MAX) {
		say(why, why_size, "more than %d conditions", DLP_GATES_MAX);
		return -E2BIG;
	}
	err = dlp_gate_parse(arg, &options->gate[options->gate_cnt], why, why_size);
	options->gate_cnt += !err;
	return err;
}

static int take_getnext(struct dlp_options *options, const char *arg, char *why, size_t why_size)
{
	int err;

	err = *arg ? dlp_glob_add(&options->getnext, arg) : -EINVAL;
	if (err == -ENOSPC)
		say(why, why_size, "more than 63 characters, patterns given before included");
	else if (err)
		say(why, why_size, "not a pattern of characters, ?, * and [a-z]");
	return err ? -EINVAL : 0;
}

static int take_record(struct dlp_options *options, const char *arg, char *why, size_t why_size)
{
	return take_file(arg, &options->record, why, why_size);
}

/* A whole number of bytes, `units` ("KMG") understood. 0 or -EINVAL. */
static int parse_bytes(const char *arg, const char *units, uint64_t *ret)
{
	size_t len = strlen(arg);
	unsigned int shift = 0;
	const char *unit;
	char digits[24];

	unit = len ? strchr(units, arg[len - 1]) : NULL;
	if (unit && *unit) {
		shift = 10 * (unsigned int)(unit - units + 1);
		len--;
	}
	if (!len || len >= sizeof(digits))
		return -EINVAL;
	memcpy(digits, arg, len);
	digits[len] = '\0';
	if (dlp_parse_u64(digits, ret) || *ret > UINT64_MAX >> shift)
		return -EINVAL;
	*ret <<= shift;
	return 0;
}

static int take_record_max(struct dlp_options *options, const char *arg, char *why, size_t why_size)
{
	uint64_t value;

	if (!parse_bytes(arg, "KMG", &value) && value >= DLP_REC_MAX_LEAST &&
	    value <= DLP_REC_MAX_MOST) {
		options->record_max = value;
		return 0;
	}
	say(why, why_size, "not a number of bytes from %uM to %lluG (like 64M, 1G)",
	    DLP_REC_MAX_LEAST >> 20, DLP_REC_MAX_MOST >> 30);
	return -EINVAL;
}

static int take_ring_size(struct dlp_options *options, const char *arg, char *why, size_t why_size)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), value;

	if (!parse_bytes(arg, "KM", &value) && value >= page && value <= RING_BYTES_MAX &&
	    !(value & (value - 1))) {
		options->ring_bytes = (uint32_t)value;
		return 0;
	}
	say(why, why_size, "not a power of two of bytes from %lluK to 2048M",
	    (unsigned long long)page >> 10);
	return -EINVAL;
}

static int take_max_overhead(struct dlp_options *options, const char *arg, char *why,
			     size_t why_size)
{
	char *end = NULL;
	double value = -1;

	/* strtod also takes spaces, signs, "nan" and hexadecimal */
	if (*arg && !arg[strspn(arg, "0123456789.")])
		value = strtod(arg, &end);
	if (!end || *end || value < MAX_OVERHEAD_LEAST || value > 100) {
		say(why, why_size, "not a percentage from %g to 100", MAX_OVERHEAD_LEAST);
		return -EINVAL;
	}
	options->max_overhead_ppm = (uint32_t)lround(value * DLP_PPM_PER_PERCENT);
	return 0;
}

static int take_without(struct dlp_options *options, const char *arg, char *why, size_t why_size)
{
	int feature = dlp_feature_find(arg);
	size_t len;

	if (feature >= 0) {
		options->without |= 1u << feature;
		return 0;
	}
	say(why, why_size, "not one of");
	for (int i = 0; i < DLP_FEATURE_MAX; i++) {
		len = strlen(why);
		say(why + len, why_size - len, "%s %s", i ? "," : "", dlp_feature_name(i));
	}
	return -EINVAL;
}

static int take_quiet(struct dlp_options *options, const char *arg, char *why, size_t why_size)
{
	(void)arg, (void)why, (void)why_size;
	options->quiet = true;
	return 0;
}

static int take_lines(struct dlp_options *options, const char *arg, char *why, size_t why_size)
{
	(void)arg, (void)why, (void)why_size;
	options->lines = true;
	return 0;
}

static int take_json(struct dlp_options *options, const char *arg, char *why, size_t why_size)
{
	(void)arg;
	if (!options->doctor) {
		say(why, why_size, "only the command doctor prints JSON; --summary FILE writes it");
		return -EINVAL;
	}
	options->json = true;
	return 0;
}

static int take_list(struct dlp_options *options, const char *arg, char *why, size_t why_size)
{
	(void)arg, (void)why, (void)why_size;
	options->list = true;
	return 0;
}

static int take_help(struct dlp_options *options, const char *arg, char *why, size_t why_size)
{
	(void)arg, (void)why, (void)why_size;
	options->help = true;
	return 0;
}

static int take_version(struct dlp_options *options, const char *arg, char *why, size_t why_size)
{
	(void)arg, (void)why, (void)why_size;
	options->version = true;
	return 0;
}

static const struct cli_option {
	const char *name;
	const char *arg; /* what --help calls its argument; NULL = takes none */
	take_fn take;
	const char *help; /* lines */
} table[] = {
	{ "pid", "PID", take_pid, "the training process, or what it runs under; several: A,B" },
	{ "list", NULL, take_list, "show the training processes of this machine" },
	{ "duration", "SECONDS", take_duration,
	  "watch for so long; default: until the job ends or Ctrl-C" },
	{ "summary", "FILE", take_summary, "write the summary there as JSON" },
	{ "fail-if", "CONDITION", take_fail_if,
	  "exit with 4 if at the end 'exposed_wait>0.2' or so (repeatable)" },
	{ "interval", "SECONDS", take_interval,
	  "time between two figures; default 1, at least 100ms" },
	{ "window", "SECONDS", take_window,
	  "the live verdict looks back so far at most; default 30" },
	{ "lines", NULL, take_lines,
	  "one line per interval on a terminal, too, not the live screen" },
	{ "quiet", NULL, take_quiet, "neither screen nor lines, only the summary" },
	{ "record", "FILE", take_record, "record all events there, for dlprof-bpf replay" },
	{ "record-max", "BYTES", take_record_max,
	  "keep only the newest so many of the recording: 64M, 1G" },
	{ "events", "FILE", take_events, "write every event as a line of text (for debugging)" },
	{ "labels", "GLOB", take_labels,
	  "only the record_function labels that match (repeatable)" },
	{ "getnext", "GLOB", take_getnext,
	  "labels that match are GetNext, too: of a home-made loader" },
	{ "long-wait", "DURATION", take_long_wait,
	  "report blocked intervals from this length on; default 1ms" },
	{ "ring-size", "BYTES", take_ring_size,
	  "event buffer: a power of two, K and M understood; default 4M" },
	{ "max-overhead", "PCT", take_max_overhead,
	  "give up detail above so much of the job's CPU time; default 1" },
	{ "without", "NAME", take_without,
	  "leave out, use the next best way (repeatable; see the manual):" },
	{ "json", NULL, take_json, "doctor prints JSON" },
	{ "version", NULL, take_version, "print the version" },
	{ "help", NULL, take_help, "print this" },
};

#define OPTION_CNT DLP_ARRAY_SIZE(table)
/* Above all characters, so that a short option (there are none) is never taken for one. */
#define OPTION_BASE 256

#define HELP_COLUMN 26
#define HELP_WIDTH 90

/* What each is good for the manual tells: here it would fill a screen of its own. */
static void list_withouts(FILE *out)
{
	size_t column = HELP_COLUMN;

	fprintf(out, "%*s", HELP_COLUMN, "");
	for (int i = 0; i < DLP_FEATURE_MAX; i++) {
		const char *name = dlp_feature_name(i);
		const char *comma = i + 1 < DLP_FEATURE_MAX ? "," : "";
		size_t len = strlen(name) + strlen(comma);

		if (i && column + 1 + len > HELP_WIDTH) {
			fprintf(out, "\n%*s", HELP_COLUMN, "");
			column = HELP_COLUMN;
		} else if (i) {
			fputc(' ', out);
			column++;
		}
		fprintf(out, "%s%s", name, comma);
		column += len;
	}
	fputc('\n', out);
}

void dlp_cli_help(FILE *out)
{
	fputs("usage: dlprof-bpf --pid PID [options]\n"
	      "       dlprof-bpf [options] -- COMMAND [ARGUMENT...]\n"
	      "       dlprof-bpf replay RECORDING [--summary FILE] [--events FILE] [--fail-if CONDITION]\n"
	      "       dlprof-bpf report RECORDING [options, see report --help]\n"
	      "       dlprof-bpf diff A B [--json]\n"
	      "       dlprof-bpf doctor [--pid PID] [--json]\n\n"
	      "Watches a PyTorch training job and says whether, and why, it waits for data. The job\n"
	      "is not changed, stopped or restarted. A COMMAND runs as the user who called sudo, and\n"
	      "to its end; its exit status becomes ours. Lines and report then go to stderr.\n\n",
	      out);
	for (size_t i = 0; i < OPTION_CNT; i++) {
		char left[40];

		(void)snprintf(left, sizeof(left), "--%s%s%s", table[i].name,
			       table[i].arg ? " " : "", table[i].arg ? table[i].arg : "");
		fprintf(out, "  %-*s%s\n", HELP_COLUMN - 2, left, table[i].help);
		if (table[i].take == take_without)
			list_withouts(out);
	}
	fputs("\nTimes are seconds, or carry a unit: 250ms, 90s, 10m, 1h.\nExit status: 0 ok, 1 "
	      "failure, 2 usage, 3 kernel or permission refuses, 4 --fail-if.\n\n"
	      "Examples:\n"
	      "  sudo dlprof-bpf --pid 4711 --duration 60 --summary run.json\n"
	      "  sudo dlprof-bpf --record run.dlp -- \"$(which python)\" train.py\n"
	      "  dlprof-bpf report run.dlp --html run.html\n",
	      out);
}

static int usage_error(char *error, size_t error_size, const char *what, const char *name,
		       const char *why)
{
	char shown[80];

	dlp_sanitise(shown, sizeof(shown), name, strlen(name));
	say(error, error_size, "%s '%s'%s%s; try 'dlprof-bpf --help'", what, shown,
	    *why ? ": " : "", why);
	return -EINVAL;
}

static int bad_option(int code, int argc, char **argv, char *error, size_t error_size)
{
	const char *bad = optind > 0 && optind <= argc ? argv[optind - 1] : "";
	char brief[3] = { '-', (char)optopt, '\0' };

	if (code == ':')
		return usage_error(error, error_size, "no argument for", bad, "");
	if (optopt >= OPTION_BASE)
		return usage_error(error, error_size, "an argument that is not taken in", bad, "");
	/* a cluster like -xyz is not passed yet when its first letter is refused */
	if (optopt)
		return usage_error(error, error_size, "unknown option", brief, "");
	return usage_error(error, error_size, "unknown option", bad, "");
}

/* What follows the options: nothing, or a command behind "--". */
static int take_command(int argc, char **argv, const char *last_arg, struct dlp_options *ret,
			char *error, size_t error_size)
{
	/* an option may have taken a "--" as its argument: then it does not part anything */
	bool parted = optind > 1 && optind <= argc && !strcmp(argv[optind - 1], "--") &&
		      argv[optind - 1] != last_arg;

	if (optind < argc && !parted)
		return usage_error(error, error_size, "unknown command or argument", argv[optind],
				   "to start a program put -- before it");
	if (optind < argc && ret->pid)
		return usage_error(error, error_size, "a command to start", argv[optind],
				   "--pid names a running job already, give one of them");
	if (optind < argc) {
		ret->command = argv + optind;
		return 0;
	}
	if (ret->pid && !parted)
		return 0;
	say(error, error_size,
	    parted ? "no command after '--'; try 'dlprof-bpf --help'" :
		     "nothing to watch: give --pid PID (--list shows them), or -- and a command; "
		     "try 'dlprof-bpf --help'");
	return -EINVAL;
}

/* The others say how to watch. */
static bool fits_replay(const struct cli_option *option)
{
	return option->take == take_summary || option->take == take_events ||
	       option->take == take_fail_if || option->take == take_help ||
	       option->take == take_version;
}

static bool fits_doctor(const struct cli_option *option)
{
	return option->take == take_pid || option->take == take_json || option->take == take_help ||
	       option->take == take_version;
}

/* Options up to the first word that is none, which optind then tells. */
static int take_options(int argc, char **argv, struct dlp_options *ret, const char **ret_last,
			char *error, size_t error_size)
{
	struct option longs[OPTION_CNT + 1] = { 0 };
	char why[256] = "";
	int code;

	for (size_t i = 0; i < OPTION_CNT; i++) {
		longs[i].name = table[i].name;
		longs[i].has_arg = table[i].arg ? required_argument : no_argument;
		longs[i].val = OPTION_BASE + (int)i;
	}
	/* 0 makes glibc start afresh; '+' stops at the first word that is no option */
	optind = 0;
	opterr = 0;
	while ((code = getopt_long(argc, argv, "+:", longs, NULL)) != -1) {
		const struct cli_option *option;

		if (code == '?' || code == ':')
			return bad_option(code, argc, argv, error, error_size);
		option = &table[code - OPTION_BASE];
		*ret_last = optarg;
		if ((ret->replay && !fits_replay(option)) ||
		    (ret->doctor && !fits_doctor(option))) {
			say(error, error_size,
			    "--%s is for watching a job, not for %s; try 'dlprof-bpf --help'",
			    option->name, ret->doctor ? "doctor" : "replay");
			return -EINVAL;
		}
		if (option->take(ret, optarg, why, sizeof(why))) {
			char what[64];

			say(what, sizeof(what), "--%s", option->name);
			return usage_error(error, error_size, what, optarg ? optarg : "", why);
		}
		if (ret->list || ret->help || ret->version)
			return 0;
	}
	return 0;
}

/* replay FILE, with options on both sides of it; argv[0] is "replay". */
static int parse_replay(int argc, char **argv, struct dlp_options *ret, char *error,
			size_t error_size)
{
	const char *last = NULL;
	int err;

	ret->replay = "";
	err = take_options(argc, argv, ret, &last, error, error_size);
	if (err || ret->help || ret->version)
		return err;
	if (optind >= argc || !*argv[optind]) {
		say(error, error_size, "replay: no recording given; try 'dlprof-bpf --help'");
		return -EINVAL;
	}
	ret->replay = argv[optind];
	/* the file takes the place of a program's name */
	argc -= optind;
	argv += optind;
	err = take_options(argc, argv, ret, &last, error, error_size);
	if (!err && optind < argc && !ret->help && !ret->version)
		return usage_error(error, error_size, "unknown argument", argv[optind],
				   "one recording at a time");
	return err;
}

/* argv[0] is "doctor". */
static int parse_doctor(int argc, char **argv, struct dlp_options *ret, char *error,
			size_t error_size)
{
	const char *last = NULL;
	int err;

	ret->doctor = true;
	err = take_options(argc, argv, ret, &last, error, error_size);
	if (!err && optind < argc && !ret->help && !ret->version)
		return usage_error(error, error_size, "unknown argument", argv[optind],
				   "doctor takes --pid PID and --json");
	return err;
}

int dlp_cli_parse(int argc, char **argv, struct dlp_options *ret, char *error, size_t error_size)
{
	const char *last = NULL;
	int err;

	memset(ret, 0, sizeof(*ret));
	ret->interval_ns = DLP_NS_PER_S;
	ret->window_ns = 30 * DLP_NS_PER_S;
	ret->long_wait_ns = DLP_NS_PER_MS;
	ret->ring_bytes = RING_BYTES_DEFAULT;
	ret->max_overhead_ppm = MAX_OVERHEAD_DEFAULT * DLP_PPM_PER_PERCENT;
	if (argc > 1 && !strcmp(argv[1], "replay"))
		return parse_replay(argc - 1, argv + 1, ret, error, error_size);
	if (argc > 1 && !strcmp(argv[1], "doctor"))
		return parse_doctor(argc - 1, argv + 1, ret, error, error_size);
	err = take_options(argc, argv, ret, &last, error, error_size);
	if (err || ret->list || ret->help || ret->version)
		return err;
	if (ret->record_max && !ret->record) {
		say(error, error_size, "--record-max needs --record FILE; try 'dlprof-bpf --help'");
		return -EINVAL;
	}
	return take_command(argc, argv, last, ret, error, error_size);
}
