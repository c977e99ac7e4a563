/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "diff_command.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"
#include "diagnose.h"
#include "diff.h"
#include "dlprof/record.h"
#include "log.h"
#include "outfile.h"
#include "replay_file.h"
#include "summary.h"
#include "util.h"

/* A summary's lists are bounded; the largest that they allow is some megabytes. */
#define SUMMARY_BYTES_MAX (64u << 20)

static const char usage[] =
	"usage: dlprof-bpf diff A B [options]\n\n"
	"Compares two runs, each given by its summary (--summary FILE) or recording (--record\n"
	"FILE): what changed from A to B, and whether it is more than two runs of the same job\n"
	"would differ by.\n\n"
	"  --json  print the comparison as JSON\n"
	"  --help  print this\n";

/* What `replay --summary` writes. NULL after a complaint. */
static json_t *summarise(const struct dlp_replay *replay, const char *shown)
{
	_cleanup_free_ char *text = NULL;
	struct dlp_verdict verdict;
	json_t *root = NULL;

	dlp_diagnose(replay->model, NULL, &verdict);
	if (!dlp_summary_format(replay->model, &verdict, &replay->facts.facts, &text))
		root = json_loads(text, 0, NULL);
	if (!root)
		dlp_complain("'%s': out of memory", shown);
	return root;
}

/* A summary of what a recording holds; *part: less than it should. NULL after a complaint. */
static json_t *load_recording(const char *path, const char *shown, bool *part)
{
	_cleanup_free_ struct dlp_replay *replay = calloc(1, sizeof(*replay));
	struct dlp_replay_file file;
	json_t *root = NULL;
	char error[200];
	int missing;

	if (dlp_replay_file_open(&file, path, error, sizeof(error))) {
		dlp_complain("'%s': %s", shown, error);
		return NULL;
	}
	if (!replay || dlp_model_new(&replay->model)) {
		dlp_complain("out of memory");
	} else {
		missing = dlp_replay_file_load(&file, replay, shown);
		if (missing >= 0)
			root = summarise(replay, shown);
		*part |= missing > 0;
	}
	if (replay)
		dlp_model_free(replay->model);
	dlp_replay_file_close(&file);
	return root;
}

static bool is_recording(int fd)
{
	char magic[sizeof(DLP_REC_MAGIC) - 1];

	return pread(fd, magic, sizeof(magic), 0) == (ssize_t)sizeof(magic) &&
	       !memcmp(magic, DLP_REC_MAGIC, sizeof(magic));
}

/* NULL after a complaint; *part: the recording holds less than it should. */
static json_t *load(const char *path, bool *part)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char shown[256], why[200];
	json_error_t error;
	struct stat st;
	json_t *root;

	dlp_sanitise(shown, sizeof(shown), path, strlen(path));
	if (fd < 0 || fstat(fd, &st)) {
		dlp_complain("'%s' cannot be read: %s", shown, strerror(errno));
		return NULL;
	}
	if (S_ISREG(st.st_mode) && is_recording(fd))
		return load_recording(path, shown, part);
	if (!S_ISREG(st.st_mode) || st.st_size > SUMMARY_BYTES_MAX) {
		dlp_complain("'%s': neither a summary nor a recording", shown);
		return NULL;
	}
	root = json_loadfd(fd, JSON_REJECT_DUPLICATES, &error);
	if (!root) {
		dlp_sanitise(why, sizeof(why), error.text, sizeof(error.text));
		dlp_complain("'%s': line %d: %s", shown, error.line, why);
	}
	return root;
}

static int print_json(const struct dlp_diff *diff, const char *path_a, const char *path_b)
{
	json_t *root = dlp_diff_json(diff, path_a, path_b);
	int err = root ? json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) : -1;

	json_decref(root);
	putchar('\n');
	return err;
}

static int print(const json_t *a, const json_t *b, const char *path_a, const char *path_b,
		 bool json)
{
	struct dlp_diff diff;
	char shown[256];
	int bad, err = 0;

	if (dlp_diff_make(a, b, &diff, &bad)) {
		const char *path = bad ? path_b : path_a;

		dlp_complain("'%s': neither a summary nor a recording",
			     dlp_sanitise(shown, sizeof(shown), path, strlen(path)));
		return DLP_EXIT_FAILURE;
	}
	if (json)
		err = print_json(&diff, path_a, path_b);
	else
		dlp_diff_text(stdout, &diff, path_a, path_b);
	/* jansson does not tell of each write that failed, the stream does */
	if (err || dlp_outfile_close(stdout)) {
		dlp_complain("cannot print the comparison");
		return DLP_EXIT_FAILURE;
	}
	return DLP_EXIT_OK;
}

static int run(const char *path_a, const char *path_b, bool json)
{
	bool part = false;
	json_t *a = load(path_a, &part), *b = a ? load(path_b, &part) : NULL;
	int ret = DLP_EXIT_FAILURE;

	if (a && b)
		ret = print(a, b, path_a, path_b, json);
	/* shown for what it is worth, but these are not the two runs that were asked for */
	if (part && ret == DLP_EXIT_OK)
		ret = DLP_EXIT_FAILURE;
	json_decref(a);
	json_decref(b);
	return ret;
}

int dlp_diff_command(int argc, char **argv)
{
	const char *path[2];
	int path_cnt = 0;
	bool json = false;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--help")) {
			fputs(usage, stdout);
			return DLP_EXIT_OK;
		}
		if (!strcmp(argv[i], "--json"))
			json = true;
		else if (!strncmp(argv[i], "--", 2) || path_cnt == 2)
			path_cnt = 3;
		else
			path[path_cnt++] = argv[i];
		if (path_cnt > 2)
			break;
	}
	if (path_cnt != 2) {
		fputs(usage, stderr);
		return DLP_EXIT_USAGE;
	}
	return run(path[0], path[1], json);
}
