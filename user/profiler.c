// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * One run: set up, drain until something ends it, stop, account, write. What a run holds is in
 * struct profiler; a failure anywhere ends in profiler_fini(), which leaves nothing behind.
 */
#include "profiler.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "accounting.h"
#include "array.h"
#include "command.h"
#include "cputime.h"
#include "followed.h"
#include "inlines.h"
#include "jits.h"
#include "ksyms.h"
#include "log.h"
#include "located.h"
#include "loop.h"
#include "modules.h"
#include "monotonic.h"
#include "options.h"
#include "output.h"
#include "preflight.h"
#include "processes.h"
#include "profile.h"
#include "recent.h"
#include "record.h"
#include "resolve.h"
#include "session.h"
#include "spaces.h"

#define RING_SIZE (8u << 20)	/* 90,000 SAMPLEs and their stacks; drained every 50 ms */
/* In all processes, 32 bytes each; one has 50 to 500, and each publication needs a second run. */
#define MAPPINGS 65536u
#define MAPPINGS_ALL 262144u

/*
 * An 8 MiB ring takes 100,000 samples/s for 50 ms twenty times. With many processes the files of
 * each new one are to be opened while it lives.
 */
#define DRAIN_NS 50000000ULL
#define DRAIN_ALL_NS 20000000ULL

#define RECENT_SIZE (8u << 20)	/* of records of stacks, 16,000 of them */

#define END_WAIT_NS 10000000000ULL	/* for files that are still being read at the end */
#define DUMP_WAIT_NS 2000000000ULL	/* and for a dump in between */

struct profiler {
	const struct options *o;
	struct output *output;
	struct command command;
	bool has_command, released;
	struct session *session;
	struct modules *modules;
	struct spaces *spaces;
	struct jits *jits;
	struct ksyms *ksyms;
	struct resolver *resolver;
	struct processes *processes;
	struct profile *profile;
	struct recent *recent;
	struct cputime *cputime;
	struct located **waiting;	/* stacks whose files are being read */
	size_t n_waiting, cap_waiting;
	struct accounting account;
	struct loop *loop;
	int err;		/* first failure of a sink: out of memory; ends the loop */
};

static void sink_failed(struct profiler *p, int err)
{
	if (!p->err)
		p->err = err;
	if (p->loop)
		loop_end(p->loop);
}

static void on_drain(void *ctx)
{
	struct profiler *p = ctx;

	processes_begin_drain(p->processes);
	jits_begin_drain(p->jits);
}

/* Names and marks for a stack. -EAGAIN: not yet. */
static int resolve(struct profiler *p, const struct located *l, bool force)
{
	struct resolved_stack resolved;
	int err = resolve_stack(p->resolver, l, force, &resolved);

	return err ? err : profile_set_stack(p->profile, l->id, &resolved);
}

static int wait_for_files(struct profiler *p, struct located *l)
{
	struct located **grown =
		array_grow(p->waiting, &p->cap_waiting, p->n_waiting + 1, sizeof(struct located *));

	if (!grown)
		return -ENOMEM;
	p->waiting = grown;
	grown[p->n_waiting++] = l;
	located_keep(l, p->modules);
	return 0;
}

static int take_stack(struct profiler *p, const struct rprof_stack *s)
{
	const struct space *space = processes_space(p->processes, s);
	struct located *l = locate_stack(s, space, p->modules, p->jits);
	int err = l ? 0 : -ENOMEM;

	if (!err)
		err = profile_add_stack(p->profile, s->stack, s->comm, s->tgid,
					s->n_native ? l->space : 0);
	if (!err && l->has_jit)
		profile_set_may_change(p->profile, s->stack, jits_changes(p->jits, s->tgid));
	if (!err)
		err = resolve(p, l, false);
	if (err == -EAGAIN) {
		err = wait_for_files(p, l);
		if (!err)
			return 0;
	}
	located_free(l);
	return err;
}

static void on_stack(void *ctx, const struct rprof_stack *s)
{
	struct profiler *p = ctx;
	int err = 0;

	processes_advance(p->processes, s->time_ns);
	/* The kernel forgets old stacks and sends them again, or was asked to. */
	if (!profile_find(p->profile, s->stack)) {
		processes_on_stack(p->processes, s);
		err = take_stack(p, s);
	}
	if (!err && s->n_native && !recent_find(p->recent, s->stack))
		err = recent_add(p->recent, s);
	if (err)
		sink_failed(p, err);
}

/* Files were read: names for the stacks that waited for them. */
static void resolve_waiting(struct profiler *p, bool force)
{
	size_t kept = 0;

	modules_loaded(p->modules);
	for (size_t i = 0; i < p->n_waiting; i++) {
		int err = resolve(p, p->waiting[i], force);

		if (err && err != -EAGAIN)
			sink_failed(p, err);
		/* Memory may be there again at the end. */
		if (err)
			p->waiting[kept++] = p->waiting[i];
		else
			located_free(p->waiting[i]);
	}
	p->n_waiting = kept;
}

static void on_loaded(void *ctx)
{
	resolve_waiting(ctx, false);
}

/* What @stack reads from now on. -EAGAIN: samples still wait for what it read before. */
static int change_text(struct profiler *p, const struct profile_stack *stack,
		       const struct located *l, __u64 changes)
{
	int err = profile_has_text(stack) ? resolve(p, l, false) : -EAGAIN;

	if (!err)
		profile_set_may_change(p->profile, l->id, changes);
	return err;
}

/*
 * Its process may have made other code at its addresses since. While its files are being read the
 * sample is counted by itself, without their names.
 * Return: 0: to be counted as @stack reads; 1: was counted; -errno.
 */
static int follow_code(struct profiler *p, const struct profile_stack *stack,
		       const struct rprof_sample *s)
{
	struct rprof_stack *recent = recent_find(p->recent, s->stack);
	const __u64 changes = jits_changes(p->jits, stack->tgid);
	struct resolved_stack resolved;
	struct located *l;
	int err;

	if (stack->changes == changes)
		return 0;
	if (!recent) {
		session_forget_stack(p->session, s->stack);
		return 0;
	}
	recent->time_ns = s->time_ns;
	l = locate_stack(recent, processes_space(p->processes, recent), p->modules, p->jits);
	if (!l)
		return -ENOMEM;
	err = change_text(p, stack, l, changes);
	if (err == -EAGAIN) {
		err = resolve_stack(p->resolver, l, true, &resolved);
		if (!err)
			err = profile_add_other(p->profile, stack, s->tid, s->value, &resolved);
		err = err ? err : 1;
	}
	located_free(l);
	return err;
}

/*
 * Code was mapped over what this stack meant, and the kernel side did not know yet: the same
 * addresses in space @number, as a stack of its own.
 */
static int count_in_space(struct profiler *p, const struct profile_stack *stack, __u32 number,
			  const struct rprof_sample *s)
{
	const __u64 id = s->stack ^ (number * 0x9e3779b97f4a7c15ULL);
	struct rprof_stack *recent = recent_find(p->recent, s->stack);
	struct resolved_stack resolved;
	int err = 0;

	if (!recent) {
		session_forget_stack(p->session, s->stack);
		err = resolve_mark_alone(p->resolver, "mapping replaced", &resolved);
		return err ? err :
			     profile_add_other(p->profile, stack, s->tid, s->value, &resolved);
	}
	if (!profile_find(p->profile, id)) {
		recent->time_ns = s->time_ns;
		recent->stack = id;
		err = take_stack(p, recent);
		recent->stack = s->stack;
	}
	return err ? err : profile_add_sample(p->profile, id, s->tid, s->value);
}

static int count_sample(struct profiler *p, const struct rprof_sample *s)
{
	const struct profile_stack *stack = profile_find(p->profile, s->stack);
	__u32 now;
	int err = 0;

	if (stack && stack->space) {
		now = processes_space_number(p->processes, stack->tgid, s->time_ns);
		if (now && now != stack->space)
			return count_in_space(p, stack, now, s);
	}
	if (stack && stack->may_change)
		err = follow_code(p, stack, s);
	if (err)
		return err < 0 ? err : 0;
	return profile_add_sample(p->profile, s->stack, s->tid, s->value);
}

static void on_sample(void *ctx, const struct rprof_sample *s)
{
	struct profiler *p = ctx;
	int err;

	processes_advance(p->processes, s->time_ns);
	err = count_sample(p, s);
	if (!err)
		p->account.received++;
	else
		p->account.unknown_stacks++;
	if (err == -ENOMEM)
		sink_failed(p, err);
}

static void on_forgotten(void *ctx, __u64 id)
{
	struct profiler *p = ctx;

	session_forget_stack(p->session, id);
}

static void on_ended(void *ctx, __u32 tgid)
{
	struct profiler *p = ctx;

	profile_forget_process(p->profile, tgid, on_forgotten, p);
}

static void on_space(void *ctx, const struct rprof_space *s)
{
	struct profiler *p = ctx;

	processes_on_space(p->processes, s);
	if (s->why == RPROF_SPACE_EXEC)
		cputime_on_exec(p->cputime, s->tgid);
}

static int open_session(struct profiler *p)
{
	const struct options *o = p->o;
	const struct session_sink sink = { p, on_drain, on_stack, on_sample, on_space };
	struct session_config config = {
		.period_ns = 1000000000ULL / o->frequency,
		.ring_size = RING_SIZE,
		.max_mappings = o->all ? MAPPINGS_ALL : MAPPINGS,
		.forks = o->subprocesses,
		.filter = o->all    ? RPROF_FILTER_ALL :
			  o->n_tids ? RPROF_FILTER_TID :
				      RPROF_FILTER_TGID,
		.flags = (o->kernel_only ? RPROF_CONFIG_NO_USER : 0) |
			 (o->user_only ? RPROF_CONFIG_NO_KERNEL : 0),
	};

	p->account.period_ns = config.period_ns;
	return session_open(&config, &sink, &p->session);
}

static int make_tables(struct profiler *p)
{
	const struct options *o = p->o;
	const struct modules_config modules = {
		.debuginfod = getenv("DEBUGINFOD_URLS") != NULL,
		.want_dwarf = o->inlines,
		.keep_going = true,
	};

	p->modules = modules_new(&modules);
	p->spaces = p->modules ? spaces_new(p->modules) : NULL;
	p->jits = p->spaces ? jits_new(p->spaces, p->modules) : NULL;
	return p->jits ? 0 : -ENOMEM;
}

static int make_analysis(struct profiler *p)
{
	const struct options *o = p->o;
	int err = make_tables(p);
	struct resolver_config resolver = {
		.modules = p->modules,
		.demangle = !o->no_demangle,
		.inlines = o->inlines,
	};
	const struct processes_config processes = {
		.session = p->session,
		.spaces = p->spaces,
		.modules = p->modules,
		.jits = p->jits,
		.all = o->all,
		.subprocesses = o->subprocesses,
		.ctx = p,
		.ended = on_ended,
	};

	p->ksyms = ksyms_open();
	if (p->ksyms && ksyms_hidden(p->ksyms))
		log_warn("kernel symbols are hidden (kernel.kptr_restrict): kernel frames have no "
			 "names (sysctl kernel.kptr_restrict=1, or CAP_SYSLOG)");
	resolver.ksyms = p->ksyms;
	p->resolver = err ? NULL : resolver_new(&resolver);
	p->profile = profile_new(o->all, o->per_thread);
	p->recent = recent_new(RECENT_SIZE);
	p->cputime = cputime_new();
	if (!p->resolver || !p->profile || !p->recent || !p->cputime) {
		log_error("analysis: out of memory (free some, or raise this cgroup's limit)");
		return -ENOMEM;
	}
	return processes_new(&processes, &p->processes);
}

/* Everything up to the first sample; the order keeps what can fail early early. */
static int set_up(struct profiler *p)
{
	const struct options *o = p->o;
	int err = preflight(o);

	if (!err)
		err = output_open(o, &p->output);
	if (!err && o->command) {
		err = command_start(o->command, o->as_root, &p->command);
		p->has_command = !err;
	}
	if (!err) {
		preflight_raise_limits();
		err = open_session(p);
	}
	if (!err)
		err = make_analysis(p);
	if (!err)
		err = followed_add(o, p->has_command ? p->command.pid : 0, p->processes, p->session,
				   p->cputime);
	return err;
}

static void fini(struct profiler *p)
{
	if (p->has_command)
		command_abort(&p->command);
	output_abort(p->output);
	cputime_free(p->cputime);
	for (size_t i = 0; i < p->n_waiting; i++)
		located_free(p->waiting[i]);
	free(p->waiting);
	profile_free(p->profile);
	recent_free(p->recent);
	processes_free(p->processes);
	resolver_free(p->resolver);
	jits_free(p->jits);
	spaces_free(p->spaces);
	modules_free(p->modules);
	ksyms_free(p->ksyms);
	session_free(p->session);
}

static __u64 own_cpu_ns(void)
{
	struct rusage r;

	if (getrusage(RUSAGE_SELF, &r))
		return 0;
	return (r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1000000000ULL +
	       (r.ru_utime.tv_usec + r.ru_stime.tv_usec) * 1000ULL;
}

static int drain(void *ctx)
{
	struct profiler *p = ctx;
	int err = session_drain(p->session);

	processes_end_drain(p->processes);
	return err;
}

/* What is still being read is waited for, and then does without names. */
static void end_waiting(struct profiler *p)
{
	const __u64 end = monotonic_ns() + END_WAIT_NS;

	/* One that is read may show that another is needed. */
	while (p->n_waiting && monotonic_ns() < end) {
		bool busy = modules_wait(p->modules, END_WAIT_NS / 10);
		size_t before = p->n_waiting;

		resolve_waiting(p, false);
		if (!busy && p->n_waiting == before)
			break;
	}
	if (!p->n_waiting)
		return;
	log_warn("%zu stacks have frames without names: their files were still being read",
		 p->n_waiting);
	resolve_waiting(p, true);
	if (profile_n_waiting(p->profile))
		log_error("%llu samples are not in the profile: out of memory",
			  (unsigned long long)profile_n_waiting(p->profile));
}

/*
 * Stop sampling and take in what is still under way; then the sums are final.
 * Return: 0; -errno, logged: the sums are not known.
 */
static int finish(struct profiler *p, __u64 elapsed_ns)
{
	struct processes_stats stats;
	int err;

	session_stop(p->session);
	cputime_tick(p->cputime);
	err = cputime_read(p->cputime, &p->account.cpu_ns);
	if (err)
		log_warn("CPU time of the followed threads: %s: \"expected\" is not known",
			 strerror(-err));
	err = drain(p);
	if (!err)
		err = session_counters(p->session, p->account.counters);
	if (err) {
		log_error("reading the last records: %s: there is no account of this run, and the "
			  "profile may lack its end (try again)",
			  strerror(-err));
		return err;
	}
	end_waiting(p);
	processes_stats(p->processes, &stats);
	p->account.unchecked = stats.unchecked;
	p->account.lost_events = stats.lost_events;
	p->account.cpu_trust = cputime_trust(p->cputime);
	p->account.bad_records = session_bad_records(p->session);
	p->account.elapsed_ns = elapsed_ns;
	p->account.own_cpu_ns = own_cpu_ns() - p->account.start_cpu_ns;
	return 0;
}

static void dump(void *ctx)
{
	struct profiler *p = ctx;

	modules_wait(p->modules, DUMP_WAIT_NS);
	resolve_waiting(p, false);
	if (profile_n_waiting(p->profile))
		log_warn("dump: %llu samples are not in it yet: files are being read for them",
			 (unsigned long long)profile_n_waiting(p->profile));
	output_dump(p->output, p->profile);
}

static bool any_followed(void *ctx)
{
	struct profiler *p = ctx;

	return processes_any_followed(p->processes);
}

/* The progress line; its sums are a moment apart, so "missed" may be off by a few. */
static void tick(void *ctx, __u64 elapsed_ns)
{
	struct profiler *p = ctx;
	struct accounting now = p->account;

	processes_tick(p->processes);
	cputime_tick(p->cputime);
	if (p->n_waiting)
		resolve_waiting(p, false);
	if (log_level() < LOG_INFO || !isatty(STDERR_FILENO))
		return;
	if (session_counters(p->session, now.counters) || cputime_read(p->cputime, &now.cpu_ns))
		return;
	log_progress("%.0f s, %.0f samples/s, %zu stacks, %llu lost, %lld missed", elapsed_ns / 1e9,
		     now.received * 1e9 / elapsed_ns, profile_n_stacks(p->profile),
		     (unsigned long long)accounting_lost(&now), (long long)accounting_missed(&now));
}

/* The exit code of a run that was sampled to its end. */
static int verdict(const struct profiler *p)
{
	double loss = accounting_loss_percent(&p->account);

	if (!profile_n_samples(p->profile)) {
		log_warn(
			"no sample: %s",
			p->account.cpu_ns < p->account.period_ns ?
				"the followed threads used less CPU time than one sampling period" :
				"see the accounting above");
		return EXIT_NO_SAMPLE;
	}
	if (p->o->max_loss >= 0 && loss > p->o->max_loss) {
		log_error("%.2f %% of the samples were lost or missed, --max-loss is %.2f %%", loss,
			  p->o->max_loss);
		return EXIT_LOSS;
	}
	return EXIT_OK;
}

/* Where names came from. */
static void print_stats(const struct profiler *p)
{
	const struct codes_stats *c = codes_stats(resolver_codes(p->resolver));
	struct inlines_report in;

	fprintf(stderr, "  %-28s %12llu  %llu of them known, the others took %.3f s\n",
		"frames looked up", (unsigned long long)c->lookups, (unsigned long long)c->hits,
		c->ns / 1e9);
	codes_inlines(resolver_codes(p->resolver), &in);
	if (in.files)
		fprintf(stderr, "  %-28s %12llu  %llu asked, %llu given up, %.3f s waited\n",
			"files read for --inlines", (unsigned long long)in.files,
			(unsigned long long)in.queries, (unsigned long long)in.given_up,
			in.time_ns / 1e9);
	modules_print(p->modules, stderr);
}

/*
 * What was collected is accounted for and written, whatever failed.
 * @unaccounted: finish() failed; @failed: the loop did
 */
static int write_all(struct profiler *p, bool unaccounted, bool failed, bool reader_gone)
{
	int err;

	if (p->err)
		log_error("out of memory: sampling ended early (free some, or raise this cgroup's "
			  "limit); the profile until here is written");
	log_progress_clear();
	/* Whoever ends a pipe early (head) wants to hear no more. */
	if (!unaccounted && (p->o->stats || (log_level() >= LOG_INFO && !reader_gone)))
		accounting_print(stderr, &p->account, p->profile, p->o->stats);
	if (!unaccounted && p->o->stats)
		print_stats(p);
	err = output_commit(p->output, p->profile);
	p->output = NULL;
	if (err || p->err || failed || unaccounted)
		return EXIT_ERROR;
	return reader_gone ? EXIT_OK : verdict(p);
}

static int sample_and_write(struct profiler *p, struct loop *loop)
{
	int err = cputime_start(p->cputime), released = 0;
	bool unaccounted;
	__u64 elapsed_ns;

	if (err)
		log_error(
			"counting CPU time: %s (too many open files: raise ulimit -n; not permitted: "
			"run as root, outside of the container)",
			strerror(-err));
	if (!err)
		err = session_start(p->session);
	if (!err && p->has_command) {
		released = command_release(&p->command);
		if (released)
			return command_exit_code(released);
		p->released = true;
	}
	if (err)
		return EXIT_ERROR;
	p->account.start_cpu_ns = own_cpu_ns();
	p->loop = loop;
	err = loop_run(loop, &elapsed_ns);
	p->loop = NULL;
	unaccounted = finish(p, elapsed_ns);
	return write_all(p, unaccounted, err, loop_reader_gone(loop));
}

/* With a command the exit code is the command's, unless we failed or the loss is too high. */
static int with_command(struct profiler *p, struct loop *loop, int code)
{
	int own;

	if (!p->released)
		return code == EXIT_ERROR ? EXIT_COMMAND_FAILED : code;
	own = loop_command_code(loop);
	if (code == EXIT_ERROR)
		return EXIT_COMMAND_FAILED;
	return code == EXIT_LOSS && !own ? code : own;
}

int profiler_run(const struct options *o)
{
	struct profiler p = { .o = o };
	struct loop *loop = NULL;
	int code = EXIT_ERROR, err;

	err = set_up(&p);
	if (!err) {
		const struct loop_config config = {
			.session = p.session,
			.duration_ns = o->duration_ns,
			.pids = o->pids,
			.n_pids = o->n_pids,
			.tids = o->tids,
			.n_tids = o->n_tids,
			.command = p.has_command ? p.command.pid : 0,
			.ctx = &p,
			.reader_fd = output_reader_fd(p.output),
			.drain = drain,
			.drain_ns = o->all || o->subprocesses ? DRAIN_ALL_NS : DRAIN_NS,
			.dump = dump,
			.loaded_fd = modules_fd(p.modules),
			.loaded = on_loaded,
			.any_followed = o->subprocesses ? any_followed : NULL,
			.tick = tick,
		};

		err = loop_new(&config, &loop);
	}
	if (!err)
		code = sample_and_write(&p, loop);
	if (o->command)
		code = with_command(&p, loop, code);
	loop_free(loop);
	fini(&p);
	return code;
}
