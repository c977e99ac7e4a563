/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "report_options.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <regex.h>
#include <string.h>

#include "util.h"

/* As many outliers as people look at. */
#define ROWS_DEFAULT 20

/* Takes the argument; 0 or a negative errno with what is wrong in `why`. */
typedef int (*take_fn)(struct dlp_report_options *options, const char *arg, char *why, size_t size);

static int refuse(char *why, size_t size, const char *what)
{
	(void)snprintf(why, size, "%s", what);
	return -EINVAL;
}

static int take_section(struct dlp_report_options *options, const char *arg, char *why, size_t size)
{
	int section = dlp_report_section_find(arg);
	size_t len;

	if (!strcmp(arg, "all")) {
		options->sections = (1u << DLP_SECTION_MAX) - 1;
		return 0;
	}
	if (section >= 0) {
		options->sections |= 1u << section;
		return 0;
	}
	(void)snprintf(why, size, "not one of all");
	for (int i = 0; i < DLP_SECTION_MAX; i++) {
		len = strlen(why);
		(void)snprintf(why + len, size - len, ", %s", dlp_report_section_name(i));
	}
	return -EINVAL;
}

static const char bad_time[] = "not a time (like 12.5 or 2m from the start, 14:03:07, "
			       "\"2026-01-31 14:03:07\", 123456789ns)";

static int take_from(struct dlp_report_options *options, const char *arg, char *why, size_t size)
{
	return dlp_when_parse(arg, &options->from) ? refuse(why, size, bad_time) : 0;
}

static int take_to(struct dlp_report_options *options, const char *arg, char *why, size_t size)
{
	return dlp_when_parse(arg, &options->to) ? refuse(why, size, bad_time) : 0;
}

static int take_number(const char *arg, uint32_t *ret, char *why, size_t size)
{
	uint64_t value;

	if (dlp_parse_u64(arg, &value) || !value || value > INT_MAX)
		return refuse(why, size, "not a number above 0");
	*ret = (uint32_t)value;
	return 0;
}

static int take_loader(struct dlp_report_options *options, const char *arg, char *why, size_t size)
{
	return take_number(arg, &options->loader, why, size);
}

static int take_worker(struct dlp_report_options *options, const char *arg, char *why, size_t size)
{
	return take_number(arg, &options->worker, why, size);
}

static int take_rows(struct dlp_report_options *options, const char *arg, char *why, size_t size)
{
	uint32_t rows = 0;
	int err;

	err = take_number(arg, &rows, why, size);
	if (!err)
		options->rows = rows;
	return err;
}

/* Says itself what is wrong: it is the only one who knows. */
static int take_regex(const char *arg, const char **ret, char *why, size_t size)
{
	regex_t regex;
	int code;

	code = regcomp(&regex, arg, REG_EXTENDED | REG_NOSUB);
	if (code) {
		(void)regerror(code, &regex, why, size);
		return -EINVAL;
	}
	regfree(&regex);
	*ret = arg;
	return 0;
}

static int take_events(struct dlp_report_options *options, const char *arg, char *why, size_t size)
{
	return take_regex(arg, &options->events, why, size);
}

static int take_dimensions(struct dlp_report_options *options, const char *arg, char *why,
			   size_t size)
{
	return take_regex(arg, &options->dimensions, why, size);
}

static int take_form(struct dlp_report_options *options, enum dlp_report_form form,
		     const char *arg, char *why, size_t size)
{
	if (!*arg)
		return refuse(why, size, "no file name");
	options->form[form] = arg;
	return 0;
}

static int take_json(struct dlp_report_options *options, const char *arg, char *why, size_t size)
{
	return take_form(options, DLP_FORM_JSON, arg, why, size);
}

static int take_csv(struct dlp_report_options *options, const char *arg, char *why, size_t size)
{
	return take_form(options, DLP_FORM_CSV, arg, why, size);
}

static int take_trace(struct dlp_report_options *options, const char *arg, char *why, size_t size)
{
	return take_form(options, DLP_FORM_TRACE, arg, why, size);
}

static int take_folded(struct dlp_report_options *options, const char *arg, char *why, size_t size)
{
	return take_form(options, DLP_FORM_FOLDED, arg, why, size);
}

static int take_smdebug(struct dlp_report_options *options, const char *arg, char *why, size_t size)
{
	return take_form(options, DLP_FORM_SMDEBUG, arg, why, size);
}

static int take_html(struct dlp_report_options *options, const char *arg, char *why, size_t size)
{
	return take_form(options, DLP_FORM_HTML, arg, why, size);
}

static int take_svg(struct dlp_report_options *options, const char *arg, char *why, size_t size)
{
	return take_form(options, DLP_FORM_SVG, arg, why, size);
}

static int take_help(struct dlp_report_options *options, const char *arg, char *why, size_t size)
{
	(void)arg, (void)why, (void)size;
	options->help = true;
	return 0;
}

static const struct report_option {
	const char *name;
	const char *arg; /* what --help calls its argument; NULL = takes none */
	take_fn take;
	const char *help;
} table[] = {
	{ "section", "NAME", take_section, "only this one (repeatable); all = every one" },
	{ "from", "TIME", take_from, "only what ended at that time or later," },
	{ "to", "TIME", take_to, "and at that time or earlier" },
	{ "loader", "ID", take_loader, "only this DataLoader" },
	{ "worker", "PID", take_worker, "only this worker, and the batches that it made" },
	{ "events", "REGEX", take_events,
	  "only events and labels that match: GetNext, wait:(disk|fs)" },
	{ "dimensions", "REGEX", take_dimensions,
	  "only events of these kinds: trainer, worker, label, wait, block" },
	{ "rows", "COUNT", take_rows, "rows of a table on the screen; default 20" },
	{ "json", "FILE", take_json, "write the sections there as JSON; - is stdout" },
	{ "csv", "DIR", take_csv, "write a CSV file for each table into this folder" },
	{ "trace", "FILE", take_trace,
	  "draw the whole run for ui.perfetto.dev or chrome://tracing" },
	{ "folded", "FILE", take_folded,
	  "write the whole run's scopes as folded stacks, for flame graphs" },
	{ "smdebug", "DIR", take_smdebug,
	  "write the whole run as SageMaker's Debugger reads it" },
	{ "html", "FILE", take_html, "write all of it there as one page for a browser" },
	{ "svg", "FILE", take_svg, "draw the selected time there as one picture" },
	{ "help", NULL, take_help, "print this" },
};

#define OPTION_CNT DLP_ARRAY_SIZE(table)
/* Above all characters: there are no short options. */
#define OPTION_BASE 256

void dlp_report_options_help(FILE *out)
{
	fputs("usage: dlprof-bpf report RECORDING [options]\n\n"
	      "Says what a recorded run did: every statistic is exact, none mixes epochs or "
	      "loaders.\n\nSections:",
	      out);
	for (int i = 0; i < DLP_SECTION_MAX; i++)
		fprintf(out, "%s %s", i ? "," : "", dlp_report_section_name(i));
	fputs("\n(default: all but window, and window too with --from or --to)\n\n", out);
	for (size_t i = 0; i < OPTION_CNT; i++) {
		char left[40];

		(void)snprintf(left, sizeof(left), "--%s%s%s", table[i].name,
			       table[i].arg ? " " : "", table[i].arg ? table[i].arg : "");
		fprintf(out, "  %-20s  %s\n", left, table[i].help);
	}
	fputs("\nTimes: 12.5, 250ms, 2m from the start; 14:03:07 or \"2026-01-31 14:03:07.5\" by "
	      "the clock;\n123456789ns as the summary and --json have them.\n",
	      out);
}

static int usage(char *error, size_t size, const char *what, const char *name, const char *why)
{
	char shown[80];

	dlp_sanitise(shown, sizeof(shown), name, strlen(name));
	(void)snprintf(error, size, "report: %s '%s'%s%s; try 'dlprof-bpf report --help'", what,
		       shown, *why ? ": " : "", why);
	return -EINVAL;
}

static int bad_option(int code, int argc, char **argv, char *error, size_t size)
{
	const char *bad = optind > 0 && optind <= argc ? argv[optind - 1] : "";

	if (code == ':')
		return usage(error, size, "no argument for", bad, "");
	if (optopt >= OPTION_BASE)
		return usage(error, size, "an argument that is not taken in", bad, "");
	return usage(error, size, "unknown option", bad, "");
}

/* getopt moves the recording behind the options. */
static int take_file(int argc, char **argv, struct dlp_report_options *ret, char *error,
		     size_t size)
{
	if (optind >= argc || !*argv[optind]) {
		(void)snprintf(error, size, "report: no recording given; try 'dlprof-bpf report "
					    "--help'");
		return -EINVAL;
	}
	if (optind + 1 < argc)
		return usage(error, size, "unknown argument", argv[optind + 1],
			     "one recording at a time");
	ret->file = argv[optind];
	return 0;
}

int dlp_report_options_parse(int argc, char **argv, struct dlp_report_options *ret, char *error,
			     size_t error_size)
{
	struct option longs[OPTION_CNT + 1] = { 0 };
	char why[256] = "";
	int code;

	memset(ret, 0, sizeof(*ret));
	ret->rows = ROWS_DEFAULT;
	for (size_t i = 0; i < OPTION_CNT; i++) {
		longs[i].name = table[i].name;
		longs[i].has_arg = table[i].arg ? required_argument : no_argument;
		longs[i].val = OPTION_BASE + (int)i;
	}
	/* 0 makes glibc start afresh */
	optind = 0;
	opterr = 0;
	while ((code = getopt_long(argc, argv, ":", longs, NULL)) != -1) {
		const struct report_option *option;

		if (code == '?' || code == ':')
			return bad_option(code, argc, argv, error, error_size);
		option = &table[code - OPTION_BASE];
		if (option->take(ret, optarg, why, sizeof(why))) {
			char what[64];

			(void)snprintf(what, sizeof(what), "--%s", option->name);
			return usage(error, error_size, what, optarg, why);
		}
		if (ret->help)
			return 0;
	}
	if (!ret->sections) {
		ret->sections = (1u << DLP_SECTION_MAX) - 1;
		if (!ret->from.kind && !ret->to.kind)
			ret->sections &= ~(1u << DLP_SECTION_WINDOW);
	}
	return take_file(argc, argv, ret, error, error_size);
}
