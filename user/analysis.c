// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "analysis.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "complete.h"
#include "inlines.h"
#include "jits.h"
#include "ksyms.h"
#include "located.h"
#include "log.h"
#include "modules.h"
#include "monotonic.h"
#include "processes.h"
#include "profile.h"
#include "python_codes.h"
#include "python_names.h"
#include "pythons.h"
#include "recent.h"
#include "resolve.h"
#include "session.h"
#include "spaces.h"
#include "wholes.h"

#define RECENT_SIZE (8u << 20)	/* of records of stacks, 16,000 of them */
#define CUT_SIZE (4u << 20)	/* of those that could not be read to their ends */

#define END_WAIT_NS 10000000000ULL	/* for files that are still being read at the end */
#define SETTLE_NS 200000000ULL		/* interpreters that run while they are looked at */
#define DUMP_WAIT_NS 2000000000ULL	/* and for a dump in between */

struct analysis {
	struct analysis_config c;
	struct modules *modules;
	struct spaces *spaces;
	struct jits *jits;
	struct pythons *pythons;	/* NULL: --python=off */
	struct ksyms *ksyms;
	struct python_codes *python_codes;
	struct python_recent python_recent;
	struct resolver *resolver;
	struct processes *processes;
	struct profile *profile;
	struct recent *recent;
	struct recent *cut;		/* stacks of which more may be read */
	struct completer *completer;
	struct located **waiting;	/* stacks whose files are being read */
	size_t n_waiting, cap_waiting;
	__u64 received, unknown_stacks;
	bool hurry;
};

/* Names and marks for a stack. -EAGAIN: not yet. */
static int resolve(struct analysis *a, const struct located *l, bool force)
{
	struct resolved_stack resolved;
	int err = resolve_stack(a->resolver, l, force, &resolved);

	return err ? err : profile_set_stack(a->profile, l->id, &resolved);
}

static int wait_for_files(struct analysis *a, struct located *l)
{
	struct located **grown =
		array_grow(a->waiting, &a->cap_waiting, a->n_waiting + 1, sizeof(struct located *));

	if (!grown)
		return -ENOMEM;
	a->waiting = grown;
	grown[a->n_waiting++] = l;
	located_keep(l, a->modules);
	return 0;
}

/* Where the frames of a stack are, and how its Python frames are called, as of now. */
static struct located *locate(struct analysis *a, const struct rprof_stack *s)
{
	struct located *l = locate_stack(s, processes_space(a->processes, s), a->modules, a->jits);
	const struct located_python python = {
		.codes = a->python_codes,
		.recent = &a->python_recent,
		.strings = resolver_strings(a->resolver),
		.style = &a->c.style,
		.interpreter = a->pythons ? pythons_module(a->pythons, s->tgid) : 0,
	};

	if (l && located_add_python(l, s, &python)) {
		located_free(l);
		return NULL;
	}
	return l;
}

static int take_stack(struct analysis *a, const struct rprof_stack *s)
{
	struct located *l = locate(a, s);
	int err = l ? 0 : -ENOMEM;

	if (!err)
		err = profile_add_stack(a->profile, s->stack, s->comm, s->tgid,
					s->n_native ? l->space : 0);
	if (!err && l->has_jit)
		profile_set_may_change(a->profile, s->stack, jits_changes(a->jits, s->tgid));
	if (!err)
		err = resolve(a, l, false);
	if (err == -EAGAIN) {
		err = wait_for_files(a, l);
		if (!err)
			return 0;
	}
	located_free(l);
	return err;
}

void analysis_stack(struct analysis *a, const struct rprof_stack *s)
{
	int err = 0;

	if (a->hurry)
		return;
	processes_advance(a->processes, s->time_ns);
	/* The kernel forgets old stacks and sends them again, or was asked to. */
	if (!profile_find(a->profile, s->stack)) {
		processes_on_stack(a->processes, s);
		err = take_stack(a, s);
	}
	if (!err && s->n_native && !recent_find(a->recent, s->stack))
		err = recent_add(a->recent, s);
	if (!err && completer_wants(s) && !recent_find(a->cut, s->stack))
		err = recent_add(a->cut, s);
	if (err)
		a->c.failed(a->c.ctx, err);
}

/* Files were read: names for the stacks that waited for them. */
static void resolve_waiting(struct analysis *a, bool force)
{
	size_t kept = 0;

	modules_loaded(a->modules);
	for (size_t i = 0; i < a->n_waiting; i++) {
		int err = resolve(a, a->waiting[i], force);

		if (err && err != -EAGAIN)
			a->c.failed(a->c.ctx, err);
		/* Memory may be there again at the end. */
		if (err)
			a->waiting[kept++] = a->waiting[i];
		else
			located_free(a->waiting[i]);
	}
	a->n_waiting = kept;
}

void analysis_loaded(struct analysis *a)
{
	resolve_waiting(a, false);
}

/* What @stack reads from now on. -EAGAIN: samples still wait for what it read before. */
static int change_text(struct analysis *a, const struct profile_stack *stack,
		       const struct located *l, __u64 changes)
{
	int err = profile_has_text(stack) ? resolve(a, l, false) : -EAGAIN;

	if (!err)
		profile_set_may_change(a->profile, l->id, changes);
	return err;
}

/*
 * Its process may have made other code at its addresses since. While its files are being read the
 * sample is counted by itself, without their names.
 * Return: 0: to be counted as @stack reads; 1: was counted; -errno.
 */
static int follow_code(struct analysis *a, const struct profile_stack *stack,
		       const struct rprof_sample *s)
{
	struct rprof_stack *recent = recent_find(a->recent, s->stack);
	const __u64 changes = jits_changes(a->jits, stack->tgid);
	struct resolved_stack resolved;
	struct located *l;
	int err;

	if (stack->changes == changes)
		return 0;
	if (!recent) {
		session_forget_stack(a->c.session, s->stack);
		return 0;
	}
	recent->time_ns = s->time_ns;
	l = locate(a, recent);
	if (!l)
		return -ENOMEM;
	err = change_text(a, stack, l, changes);
	if (err == -EAGAIN) {
		err = resolve_stack(a->resolver, l, true, &resolved);
		if (!err)
			err = profile_add_other(a->profile, stack, s->tid, s->value, &resolved);
		err = err ? err : 1;
	}
	located_free(l);
	return err;
}

/*
 * Code was mapped over what this stack meant, and the kernel side did not know yet: the same
 * addresses in space @number, as a stack of its own.
 */
static int count_in_space(struct analysis *a, const struct profile_stack *stack, __u32 number,
			  const struct rprof_sample *s)
{
	const __u64 id = s->stack ^ (number * 0x9e3779b97f4a7c15ULL);
	struct rprof_stack *recent = recent_find(a->recent, s->stack);
	struct resolved_stack resolved;
	int err = 0;

	if (!recent) {
		session_forget_stack(a->c.session, s->stack);
		err = resolve_mark_alone(a->resolver, "mapping replaced", &resolved);
		return err ? err :
			     profile_add_other(a->profile, stack, s->tid, s->value, &resolved);
	}
	if (!profile_find(a->profile, id)) {
		recent->time_ns = s->time_ns;
		recent->stack = id;
		err = take_stack(a, recent);
		recent->stack = s->stack;
	}
	return err ? err : profile_add_sample(a->profile, id, s->tid, s->value);
}

static int count_sample(struct analysis *a, const struct rprof_sample *s)
{
	const struct profile_stack *stack = profile_find(a->profile, s->stack);
	__u32 now;
	int err = 0;

	if (stack && stack->space) {
		now = processes_space_number(a->processes, stack->tgid, s->time_ns);
		if (now && now != stack->space)
			return count_in_space(a, stack, now, s);
	}
	if (stack && stack->may_change)
		err = follow_code(a, stack, s);
	if (err)
		return err < 0 ? err : 0;
	return profile_add_sample(a->profile, s->stack, s->tid, s->value);
}

static void take_whole(void *ctx, const struct rprof_stack *s)
{
	analysis_stack(ctx, s);
}

static struct wholes wholes_of(struct analysis *a)
{
	return (struct wholes){ a->completer, a->cut, a->profile, a->processes, a, take_whole };
}

void analysis_sample(struct analysis *a, const struct rprof_sample *s)
{
	const struct wholes wholes = wholes_of(a);
	struct rprof_sample whole;
	int err;

	if (a->hurry) {
		err = profile_add_sample(a->profile, s->stack, s->tid, s->value);
	} else {
		processes_advance(a->processes, s->time_ns);
		s = wholes_sample(&wholes, s, &whole);
		err = count_sample(a, s);
		wholes_move_late(&wholes, s->time_ns);
	}
	if (!err)
		a->received++;
	else
		a->unknown_stacks++;
	if (err == -ENOMEM)
		a->c.failed(a->c.ctx, err);
}

void analysis_code(struct analysis *a, const struct rprof_code *c)
{
	int err;

	if (a->hurry)
		return;
	processes_advance(a->processes, c->time_ns);
	err = python_codes_add(a->python_codes, c);
	if (err)
		a->c.failed(a->c.ctx, err);
}

void analysis_space(struct analysis *a, const struct rprof_space *s)
{
	processes_on_space(a->processes, s);
	if (s->why == RPROF_SPACE_EXEC) {
		python_codes_forget(a->python_codes, s->tgid);
		completer_forget(a->completer, s->tgid);
	}
}

static void on_forgotten(void *ctx, __u64 id)
{
	struct analysis *a = ctx;

	session_forget_stack(a->c.session, id);
}

static void on_ended(void *ctx, __u32 tgid)
{
	struct analysis *a = ctx;

	profile_forget_process(a->profile, tgid, on_forgotten, a);
	completer_forget(a->completer, tgid);
	python_codes_forget(a->python_codes, tgid);
}

static int make_pythons(struct analysis *a)
{
	const struct pythons_config config = {
		.session = a->c.session,
		.spaces = a->spaces,
		.modules = a->modules,
		.required = a->c.python_required,
	};

	if (a->c.no_python)
		return 0;
	a->pythons = pythons_new(&config);
	return a->pythons ? 0 : -ENOMEM;
}

static int make_tables(struct analysis *a)
{
	const struct modules_config modules = {
		.debuginfod = getenv("DEBUGINFOD_URLS") != NULL,
		.want_dwarf = a->c.inlines,
		.keep_going = true,
	};

	a->modules = modules_new(&modules);
	a->spaces = a->modules ? spaces_new(a->modules) : NULL;
	a->jits = a->spaces ? jits_new(a->spaces, a->modules) : NULL;
	return a->jits ? make_pythons(a) : -ENOMEM;
}

static const struct rprof_python *read_python(void *ctx, __u32 tgid, struct python_memory *memory)
{
	struct analysis *a = ctx;

	*memory = python_memory_of(tgid);
	return a->pythons ? pythons_find(a->pythons, tgid) : NULL;
}

static struct python_codes *make_python_codes(struct analysis *a)
{
	struct python_codes_config config = { .ctx = a, .offsets = read_python };

	session_hash_keys(a->c.session, &config.hash_seed, &config.hash_key);
	return python_codes_new(&config);
}

static struct completer *make_completer(struct analysis *a)
{
	struct completer_config config = { .ctx = a, .offsets = read_python };

	session_hash_keys(a->c.session, &config.hash_seed, &config.hash_key);
	return completer_new(&config);
}

static int make_names(struct analysis *a)
{
	struct resolver_config config = {
		.modules = a->modules,
		.demangle = a->c.demangle,
		.inlines = a->c.inlines,
		.no_native = a->c.no_native,
		.native_all = a->c.native_all,
	};

	a->ksyms = ksyms_open();
	if (a->ksyms && ksyms_hidden(a->ksyms))
		log_warn("kernel symbols are hidden (kernel.kptr_restrict): kernel frames have no "
			 "names (sysctl kernel.kptr_restrict=1, or CAP_SYSLOG)");
	config.ksyms = a->ksyms;
	a->resolver = resolver_new(&config);
	a->profile = profile_new(a->c.all, a->c.per_thread);
	a->recent = recent_new(RECENT_SIZE);
	a->cut = recent_new(CUT_SIZE);
	a->completer = make_completer(a);
	a->python_codes = make_python_codes(a);
	if (!a->resolver || !a->profile || !a->recent || !a->cut)
		return -ENOMEM;
	return a->completer && a->python_codes ? 0 : -ENOMEM;
}

int analysis_new(const struct analysis_config *config, struct analysis **out)
{
	struct analysis *a = calloc(1, sizeof(*a));
	int err = -ENOMEM;

	if (a) {
		a->c = *config;
		err = make_tables(a);
		if (!err)
			err = make_names(a);
	}
	if (err) {
		log_error("analysis: out of memory (free some, or raise this cgroup's limit)");
	} else {
		const struct processes_config processes = {
			.session = a->c.session,
			.spaces = a->spaces,
			.modules = a->modules,
			.jits = a->jits,
			.pythons = a->pythons,
			.python_codes = a->python_codes,
			.all = a->c.all,
			.subprocesses = a->c.subprocesses,
			.ctx = a,
			.ended = on_ended,
		};

		err = processes_new(&processes, &a->processes);
	}
	if (err) {
		analysis_free(a);
		return err;
	}
	*out = a;
	return 0;
}

void analysis_free(struct analysis *a)
{
	if (!a)
		return;
	for (size_t i = 0; i < a->n_waiting; i++)
		located_free(a->waiting[i]);
	free(a->waiting);
	profile_free(a->profile);
	recent_free(a->recent);
	recent_free(a->cut);
	completer_free(a->completer);
	processes_free(a->processes);
	resolver_free(a->resolver);
	python_codes_free(a->python_codes);
	jits_free(a->jits);
	pythons_free(a->pythons);
	spaces_free(a->spaces);
	modules_free(a->modules);
	ksyms_free(a->ksyms);
	free(a);
}

void analysis_before_start(struct analysis *a)
{
	pythons_settle(a->pythons, SETTLE_NS);
}

void analysis_hurry(struct analysis *a)
{
	a->hurry = true;
}

void analysis_begin_drain(struct analysis *a)
{
	processes_begin_drain(a->processes);
	jits_begin_drain(a->jits);
}

void analysis_end_drain(struct analysis *a, bool complete)
{
	processes_end_drain(a->processes, complete);
}

void analysis_tick(struct analysis *a)
{
	modules_tick(a->modules);
	processes_tick(a->processes);
	if (a->n_waiting)
		resolve_waiting(a, false);
}

int analysis_fd(const struct analysis *a)
{
	return modules_fd(a->modules);
}

struct processes *analysis_processes(const struct analysis *a)
{
	return a->processes;
}

const struct pythons *analysis_pythons(const struct analysis *a)
{
	return a->pythons;
}

const struct profile *analysis_profile(const struct analysis *a)
{
	return a->profile;
}

void analysis_counts(const struct analysis *a, __u64 *received, __u64 *unknown_stacks)
{
	*received = a->received;
	*unknown_stacks = a->unknown_stacks;
}

void analysis_before_dump(struct analysis *a)
{
	modules_wait(a->modules, DUMP_WAIT_NS);
	resolve_waiting(a, false);
	if (profile_n_waiting(a->profile))
		log_warn("dump: %llu samples are not in it yet: files are being read for them",
			 (unsigned long long)profile_n_waiting(a->profile));
}

void analysis_finish(struct analysis *a)
{
	const __u64 end = monotonic_ns() + END_WAIT_NS;

	/* One that is read may show that another is needed. */
	while (a->n_waiting && monotonic_ns() < end) {
		bool busy = modules_wait(a->modules, END_WAIT_NS / 10);
		size_t before = a->n_waiting;

		resolve_waiting(a, false);
		if (!busy && a->n_waiting == before)
			break;
	}
	if (!a->n_waiting)
		return;
	log_warn("%zu stacks have frames without names: their files were still being read",
		 a->n_waiting);
	resolve_waiting(a, true);
	if (profile_n_waiting(a->profile))
		log_error("%llu samples are not in the profile: out of memory",
			  (unsigned long long)profile_n_waiting(a->profile));
}

void analysis_completed(const struct analysis *a, struct completer_stats *out)
{
	completer_stats(a->completer, out);
}

static void print_python(const struct analysis *a, FILE *f)
{
	struct python_codes_stats codes;
	struct pythons_stats found;

	if (!a->pythons)
		return;
	pythons_stats(a->pythons, &found);
	python_codes_stats(a->python_codes, &codes);
	fprintf(f, "  %-28s %12llu  %llu refused, %llu not in use yet, %llu with a second one\n",
		"Python processes", (unsigned long long)found.found,
		(unsigned long long)found.refused, (unsigned long long)found.waiting,
		(unsigned long long)found.second);
	fprintf(f, "  %-28s %12llu  %llu completed, %llu read from the process, %zu known now\n",
		"code objects received", (unsigned long long)codes.records,
		(unsigned long long)codes.completed, (unsigned long long)codes.repaired,
		codes.known);
	fprintf(f, "  %-28s %12llu  %llu code objects without lines\n", "unknown Python frames",
		(unsigned long long)codes.unknown, (unsigned long long)codes.without_lines);
}

void analysis_print(const struct analysis *a, FILE *f)
{
	const struct codes_stats *c = codes_stats(resolver_codes(a->resolver));
	struct inlines_report in;

	fprintf(f, "  %-28s %12llu  %llu of them known, the others took %.3f s\n",
		"frames looked up", (unsigned long long)c->lookups, (unsigned long long)c->hits,
		c->ns / 1e9);
	codes_inlines(resolver_codes(a->resolver), &in);
	if (in.files)
		fprintf(f, "  %-28s %12llu  %llu asked, %llu given up, %.3f s waited\n",
			"files read for --inlines", (unsigned long long)in.files,
			(unsigned long long)in.queries, (unsigned long long)in.given_up,
			in.time_ns / 1e9);
	print_python(a, f);
	modules_print(a->modules, f);
}
