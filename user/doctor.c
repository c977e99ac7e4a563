/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "doctor.h"

#include <stdarg.h>
#include <string.h>

#include "dlprof/event.h"
#include "privileges.h"
#include "util.h"

#define ROOT_GIVES                                                                                 \
	"everything: run as root (sudo), or give the program CAP_BPF, CAP_PERFMON and "            \
	"CAP_SYS_ADMIN (setcap)"

/* Detail and cost come afterwards. A table that is full takes no more: it is sized for all rows. */
static struct dlp_doctor_row *add(struct dlp_doctor *doctor, const char *group, const char *feature,
				  enum dlp_doctor_state state)
{
	struct dlp_doctor_row *row = &doctor->row[doctor->row_cnt];

	if (doctor->row_cnt + 1 < DLP_DOCTOR_ROWS_MAX)
		doctor->row_cnt++;
	memset(row, 0, sizeof(*row));
	row->group = group;
	row->feature = feature;
	row->state = state;
	return row;
}

__attribute__((format(printf, 2, 3))) static void detail(struct dlp_doctor_row *row,
							 const char *format, ...)
{
	char text[sizeof(row->detail)];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	/* names and paths of the job are among it */
	dlp_sanitise(row->detail, sizeof(row->detail), text, strlen(text));
}

static void cost(struct dlp_doctor_row *row, const char *text)
{
	(void)snprintf(row->cost, sizeof(row->cost), "%s", text);
}

/* A row that is either there or missing, at a price. */
static void add_plain(struct dlp_doctor *doctor, const char *group, const char *feature, bool works,
		      const char *good, const char *bad, const char *price)
{
	struct dlp_doctor_row *row =
		add(doctor, group, feature, works ? DLP_DOCTOR_OK : DLP_DOCTOR_MISSING);

	detail(row, "%s", works ? good : bad);
	if (!works)
		cost(row, price);
}

/* ---- permission -------------------------------------------------------------------------- */

/* The capabilities that matter and are not there, as words. */
static void lacking(const struct dlp_doctor_facts *facts, char *buf, size_t size)
{
	size_t len = 0;

	*buf = '\0';
	for (size_t i = 0; facts->caps_known && i < DLP_CAPABILITY_CNT; i++) {
		const struct dlp_capability *capability = &dlp_capabilities[i];

		if (!capability->needed || facts->caps & DLP_CAP_BIT(capability->cap))
			continue;
		len += (size_t)snprintf(buf + len, size - len, "%s%s", len ? ", " : "",
					capability->name);
	}
}

/* What this process holds, and what it will hold while it watches. */
static void add_privileges(struct dlp_doctor *doctor, const struct dlp_doctor_facts *facts)
{
	struct dlp_doctor_row *row;

	for (size_t i = 0; facts->caps_known && i < DLP_CAPABILITY_CNT; i++) {
		const struct dlp_capability *capability = &dlp_capabilities[i];
		bool held = facts->caps & DLP_CAP_BIT(capability->cap);

		row = add(doctor, "privileges", capability->name,
			  held ? DLP_DOCTOR_OK : DLP_DOCTOR_MISSING);
		detail(row, held ? "held; while watching: %s" : "not held", capability->after);
		if (!held)
			(void)snprintf(row->cost, sizeof(row->cost), "%s%s",
				       capability->needed ? "everything: " : "",
				       capability->what_for);
	}
	row = add(doctor, "privileges", "user", DLP_DOCTOR_OK);
	if (facts->has_invoker)
		detail(row, "while watching: user %u, who called sudo", facts->invoker);
	else
		detail(row, "while watching: still user %u%s", facts->invoker,
		       facts->is_root ? ", with what is kept above: sudo would "
					"have named another" :
					"");
}

/* Do events carry the numbers that processes have here? Unless the trial says no. */
static bool sees_numbers(const struct dlp_doctor_facts *facts)
{
	return facts->own_seen != DLP_DOCTOR_NO;
}

static void add_permission(struct dlp_doctor *doctor, const struct dlp_doctor_facts *facts)
{
	struct dlp_doctor_row *row;
	char caps[80];

	lacking(facts, caps, sizeof(caps));
	row = add(doctor, "permission", "load",
		  facts->may_load ? DLP_DOCTOR_OK : DLP_DOCTOR_MISSING);
	detail(row, "%s%s%s%s", facts->is_root ? "root" : "not root", *caps ? ", without " : "",
	       caps,
	       facts->may_load ? "; BPF programs can be loaded" :
				 "; the kernel refuses to load a BPF program");
	if (!facts->may_load)
		cost(row, facts->is_root ? "everything: the container or the kernel's lockdown "
					   "does not allow it; run on the host" :
					   ROOT_GIVES);
	add_plain(doctor, "permission", "other-users", facts->other_users != DLP_DOCTOR_NO,
		  facts->other_users == DLP_DOCTOR_YES ?
			  "processes of other users can be looked into" :
			  "not tried: other users have no process here",
		  "only this user's processes can be looked into",
		  "jobs of other users; root, or CAP_SYS_PTRACE, would add them");
	if (sees_numbers(facts)) {
		row = add(doctor, "permission", "pid-namespace", DLP_DOCTOR_OK);
		detail(row, facts->in_host_pids ?
				    "processes have the kernel's own numbers" :
				    "a container with process numbers of its own, which the "
				    "kernel's are turned into; only its processes can be seen");
	} else {
		row = add(doctor, "permission", "pid-namespace", DLP_DOCTOR_MISSING);
		detail(row, "a container with process numbers of its own, which events do not have");
		cost(row, "everything: run on the host, or in a container with --pid=host");
	}
}

/* ---- kernel ------------------------------------------------------------------------------ */

static bool is_active(const struct dlp_doctor_trial *trial, enum dlp_feature feature)
{
	return trial->opened && trial->info.active & (1u << feature);
}

static const char *reason(const struct dlp_doctor_trial *trial, enum dlp_feature feature)
{
	if (!trial->tried)
		return "could not be tried";
	if (trial->opened && *trial->info.refused[feature])
		return trial->info.refused[feature];
	return *trial->failure ? trial->failure : "refused";
}

static const char *used_for(enum dlp_feature feature)
{
	switch (feature) {
	case DLP_FEATURE_SCOPES:
	case DLP_FEATURE_QUEUE_UPROBE:
	case DLP_FEATURE_ITERATORS:
		return "uprobes can be attached";
	case DLP_FEATURE_TASK_STORAGE:
		return "the kernel keeps a clock with each thread";
	case DLP_FEATURE_CLOCK_ITER:
		return "the task iterator reads every thread's clock";
	case DLP_FEATURE_QUEUE_SYSCALL:
		return "stands by for queue-uprobe";
	case DLP_FEATURE_OTHERS:
		return "perf events sample every CPU";
	default:
		return "tracepoints can be attached";
	}
}

/* The feature as tried on our own process, where the job adds nothing to it. */
static void add_feature(struct dlp_doctor *doctor, const struct dlp_doctor_facts *facts,
			enum dlp_feature feature)
{
	bool has_uprobe = is_active(&facts->own, DLP_FEATURE_QUEUE_UPROBE);
	bool has_rung = is_active(&facts->rung, DLP_FEATURE_QUEUE_SYSCALL);
	const struct dlp_doctor_trial *trial = feature == DLP_FEATURE_QUEUE_SYSCALL ? &facts->rung :
										      &facts->own;
	enum dlp_doctor_state state = DLP_DOCTOR_MISSING;
	struct dlp_doctor_row *row;

	if (is_active(trial, feature))
		state = DLP_DOCTOR_OK;
	else if (feature == DLP_FEATURE_QUEUE_UPROBE ? has_rung :
		 feature == DLP_FEATURE_TASK_STORAGE ? is_active(trial, DLP_FEATURE_CLOCKS) :
						       false)
		state = DLP_DOCTOR_FALLBACK;
	row = add(doctor, "kernel", dlp_feature_name(feature), state);
	if (state == DLP_DOCTOR_OK) {
		detail(row, "%s",
		       feature == DLP_FEATURE_QUEUE_SYSCALL && !has_uprobe ?
			       "system calls show batch messages" :
			       used_for(feature));
		return;
	}
	detail(row, "%s", reason(trial, feature));
	if (feature == DLP_FEATURE_QUEUE_SYSCALL && has_uprobe)
		cost(row, "nothing as long as queue-uprobe works");
	else
		cost(row, dlp_feature_loss(feature));
}

/* Whether sched_switch says in which state a task leaves the CPU. */
static void add_switch_state(struct dlp_doctor *doctor, bool told)
{
	struct dlp_doctor_row *row =
		add(doctor, "kernel", "switch-state", told ? DLP_DOCTOR_OK : DLP_DOCTOR_FALLBACK);

	detail(row, "%s",
	       told ? "sched_switch says whether a thread blocks" :
		      "whether a thread blocks is read from the thread itself");
	if (!told)
		cost(row, "a wait that another CPU ends at that very moment counts as runq");
}

static void add_kernel(struct dlp_doctor *doctor, const struct dlp_doctor_facts *facts)
{
	struct dlp_doctor_row *row;

	add_plain(doctor, "kernel", "btf", !facts->btf_err,
		  "/sys/kernel/btf/vmlinux describes the kernel's types",
		  "no type information (/sys/kernel/btf/vmlinux)",
		  "everything: a kernel built with CONFIG_DEBUG_INFO_BTF is needed");
	add_plain(doctor, "kernel", "ring-buffer", facts->has_ring || facts->own.opened,
		  "events come through a BPF ring buffer",
		  facts->may_load ? "the kernel makes none" : "could not be tried",
		  facts->may_load ? "everything: Linux has had it since 5.8" : ROOT_GIVES);
	for (unsigned int i = 0; i < DLP_FEATURE_MAX; i++)
		add_feature(doctor, facts, (enum dlp_feature)i);
	add_plain(doctor, "kernel", "tracefs", facts->has_tracefs,
		  "tracepoints of system calls can be looked up", "not mounted, or may not be read",
		  "the costly way to see batch messages");
	if (facts->btf_err)
		return;
	row = add(doctor, "kernel", "task-registers",
		  facts->kernel.pt_regs ? DLP_DOCTOR_OK : DLP_DOCTOR_FALLBACK);
	detail(row, "%s",
	       facts->kernel.pt_regs ? "a helper finds what blocked threads have called" :
				       "found at the top of the stack");
	if (!facts->kernel.pt_regs)
		cost(row, "some time at each switch");
	add_switch_state(doctor, facts->kernel.sched_switch_args >= 4);
	row = add(doctor, "kernel", "block-start",
		  facts->kernel.block_io ? DLP_DOCTOR_OK : DLP_DOCTOR_FALLBACK);
	detail(row, "%s",
	       facts->kernel.block_io ? "requests are followed from their submission" :
					"requests are followed from their issue");
	if (!facts->kernel.block_io)
		cost(row, "the time for which a request waits before the device gets it");
}

/* ---- figures of the system --------------------------------------------------------------- */

static void add_system(struct dlp_doctor *doctor, const struct dlp_doctor_facts *facts)
{
	static const struct {
		const char *feature;
		uint32_t known;
		const char *what, *price;
	} figures[] = {
		{ "cpu-time", DLP_SYS_CPU, "/proc/stat", "how busy the CPUs are" },
		{ "memory", DLP_SYS_MEM, "/proc/meminfo", "free memory and swap" },
		{ "vmstat", DLP_SYS_VM, "/proc/vmstat",
		  "reclaim, swapping and out-of-memory kills" },
		{ "pressure", DLP_SYS_PSI, "/proc/pressure",
		  "how long tasks stand still for want of CPU, IO and memory" },
		{ "cgroup-cpu", DLP_SYS_QUOTA, "CPU quota of the control groups",
		  "whether a quota holds the job back" },
		{ "cgroup-memory", DLP_SYS_GROUPMEM, "memory limit of the control groups",
		  "whether the job runs into a memory limit" },
		{ "shm", DLP_SYS_SHM, "/dev/shm of the job", "whether /dev/shm is full" },
	};
	char bad[80];

	for (size_t i = 0; i < DLP_ARRAY_SIZE(figures); i++) {
		(void)snprintf(bad, sizeof(bad), "%s cannot be read", figures[i].what);
		add_plain(doctor, "system", figures[i].feature,
			  facts->system_known & figures[i].known, figures[i].what, bad,
			  figures[i].price);
	}
}

/* ---- the job ----------------------------------------------------------------------------- */

static void add_version(struct dlp_doctor *doctor, const char *feature,
			const struct dlp_version *version, const char *price)
{
	bool known = version->major || *version->text;
	struct dlp_doctor_row *row =
		add(doctor, "job", feature, known ? DLP_DOCTOR_OK : DLP_DOCTOR_MISSING);

	if (*version->text)
		detail(row, "%s", version->text);
	else if (known)
		detail(row, "%d.%d", version->major, version->minor);
	else
		detail(row, "version unknown");
	if (!known)
		cost(row, price);
}

/* A probe point in the job's own libraries; `note` says why there is none, "" = there is. */
static void add_point(struct dlp_doctor *doctor, const struct dlp_doctor_facts *facts,
		      enum dlp_feature feature, const char *note, const char *good)
{
	bool works = is_active(&facts->job, feature);
	bool rung = feature == DLP_FEATURE_QUEUE_UPROBE &&
		    is_active(&facts->job, DLP_FEATURE_QUEUE_SYSCALL);
	struct dlp_doctor_row *row = add(doctor, "job", dlp_feature_name(feature),
					 works ? DLP_DOCTOR_OK :
					 rung  ? DLP_DOCTOR_FALLBACK :
						 DLP_DOCTOR_MISSING);

	if (works) {
		detail(row, "%s", good);
		return;
	}
	detail(row, "%s", *note ? note : reason(&facts->job, feature));
	cost(row, dlp_feature_loss(feature));
}

static void add_job(struct dlp_doctor *doctor, const struct dlp_doctor_facts *facts)
{
	const struct dlp_target *target = &facts->target;
	struct dlp_doctor_row *row;

	row = add(doctor, "job", "process",
		  facts->target_failed ? DLP_DOCTOR_MISSING : DLP_DOCTOR_OK);
	if (facts->target_failed) {
		detail(row, "%s", facts->target_failure.text);
		cost(row, "this process cannot be observed");
		return;
	}
	detail(row, "pid %d (%.16s), %zu DataLoader workers now%s%.80s", (int)target->pid,
	       target->comm, facts->workers, *target->container ? ", container " : "",
	       target->container);
	add_version(doctor, "python", &target->python, "rules for releases cannot be applied");
	add_version(doctor, "torch", &target->torch, "rules for releases cannot be applied");
	add_point(doctor, facts, DLP_FEATURE_SCOPES, "",
		  "both edges of record_function can be probed");
	add_point(doctor, facts, DLP_FEATURE_QUEUE_UPROBE, target->queue_note,
		  "the interpreter's functions for messages can be probed");
	add_point(doctor, facts, DLP_FEATURE_ITERATORS, target->iterator_note,
		  "sem_open() of its C library can be probed");
	add_plain(doctor, "job", "gil", target->gil_hi != 0,
		  "the interpreter's lock was found in its memory",
		  "the interpreter's lock was not found in its memory",
		  "waits for the interpreter's lock count as lock");
	add_plain(doctor, "job", "gc", target->gc.cnt && is_active(&facts->job, DLP_FEATURE_OTHERS),
		  "the interpreter's garbage collector was found in its code",
		  *target->gc_note ? target->gc_note : "no samples can be taken",
		  "garbage collection counts as computing");
}

/* ---- all of it --------------------------------------------------------------------------- */

void dlp_doctor_assemble(const struct dlp_doctor_facts *facts, struct dlp_doctor *ret)
{
	ret->row_cnt = 0;
	add_permission(ret, facts);
	add_privileges(ret, facts);
	add_kernel(ret, facts);
	add_system(ret, facts);
	if (facts->pid)
		add_job(ret, facts);
	ret->observable = is_active(&facts->own, DLP_FEATURE_SCOPES) && sees_numbers(facts);
	if (facts->pid)
		ret->observable = ret->observable && is_active(&facts->job, DLP_FEATURE_SCOPES);
}

const char *dlp_doctor_state_name(enum dlp_doctor_state state)
{
	static const char *const names[] = {
		[DLP_DOCTOR_OK] = "ok",
		[DLP_DOCTOR_FALLBACK] = "fallback",
		[DLP_DOCTOR_MISSING] = "missing",
	};

	return names[state];
}
