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
#include "analysis.h"
#include "command.h"
#include "cputime.h"
#include "followed.h"
#include "log.h"
#include "loop.h"
#include "options.h"
#include "output.h"
#include "preflight.h"
#include "processes.h"
#include "profile.h"
#include "pythons.h"
#include "record.h"
#include "session.h"

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

/* A drain is cut there, so that signals and timers are heard; and the last one. */
#define DRAIN_LIMIT_NS 200000000ULL
#define LAST_DRAIN_NS 1000000000ULL

struct profiler {
	const struct options *o;
	struct output *output;
	struct command command;
	bool has_command, released;
	struct session *session;
	struct analysis *analysis;
	struct cputime *cputime;
	struct accounting account;
	struct loop *loop;
	int err;		/* first failure of a sink: out of memory; ends the loop */
};

static void sink_failed(void *ctx, int err)
{
	struct profiler *p = ctx;

	if (!p->err)
		p->err = err;
	if (p->loop)
		loop_end(p->loop);
}

static void on_drain(void *ctx)
{
	struct profiler *p = ctx;

	analysis_begin_drain(p->analysis);
}

static void on_stack(void *ctx, const struct rprof_stack *s)
{
	struct profiler *p = ctx;

	analysis_stack(p->analysis, s);
}

static void on_sample(void *ctx, const struct rprof_sample *s)
{
	struct profiler *p = ctx;

	analysis_sample(p->analysis, s);
}

static void on_loaded(void *ctx)
{
	struct profiler *p = ctx;

	analysis_loaded(p->analysis);
}

static void on_space(void *ctx, const struct rprof_space *s)
{
	struct profiler *p = ctx;

	analysis_space(p->analysis, s);
	if (s->why == RPROF_SPACE_EXEC)
		cputime_on_exec(p->cputime, s->tgid);
}

static void on_code(void *ctx, const struct rprof_code *c)
{
	struct profiler *p = ctx;

	analysis_code(p->analysis, c);
}

static int open_session(struct profiler *p)
{
	const struct options *o = p->o;
	const struct session_sink sink = { p, on_drain, on_stack, on_sample, on_space, on_code };
	struct session_config config = {
		.period_ns = 1000000000ULL / o->frequency,
		.ring_size = RING_SIZE,
		.max_mappings = o->all ? MAPPINGS_ALL : MAPPINGS,
		.forks = o->subprocesses,
		.ends = !o->subprocesses && !o->all && !o->n_tids,
		.filter = o->all    ? RPROF_FILTER_ALL :
			  o->n_tids ? RPROF_FILTER_TID :
				      RPROF_FILTER_TGID,
		.flags = (o->kernel_only ? RPROF_CONFIG_NO_USER : 0) |
			 (o->user_only ? RPROF_CONFIG_NO_KERNEL : 0) |
			 (o->no_cache ? RPROF_CONFIG_NO_CACHE : 0) |
			 (o->verify ? RPROF_CONFIG_VERIFY : 0),
	};

	p->account.period_ns = config.period_ns;
	return session_open(&config, &sink, &p->session);
}

static int ended_cpu(void *ctx, __u32 tgid, __u64 *ns)
{
	struct profiler *p = ctx;

	return session_ended_cpu(p->session, tgid, ns);
}

static int make_analysis(struct profiler *p)
{
	const struct options *o = p->o;
	const struct cputime_source source = { p,
					       session_knows_ends(p->session) ? ended_cpu : NULL };
	const struct analysis_config config = {
		.session = p->session,
		.all = o->all,
		.per_thread = o->per_thread,
		.subprocesses = o->subprocesses,
		.demangle = !o->no_demangle,
		.inlines = o->inlines,
		.no_python = o->python == OPTIONS_PYTHON_OFF || o->kernel_only,
		.python_required = o->python == OPTIONS_PYTHON_REQUIRE,
		.no_native = o->no_native,
		.native_all = o->native_all,
		.style = { .full_filenames = o->full_filenames, .no_lines = o->no_lines },
		.ctx = p,
		.failed = sink_failed,
	};

	p->cputime = cputime_new(&source);
	if (!p->cputime) {
		log_error("analysis: out of memory (free some, or raise this cgroup's limit)");
		return -ENOMEM;
	}
	return analysis_new(&config, &p->analysis);
}

/* --python=require, and an interpreter that cannot be read: pythons.c has said which, and why. */
static bool has_refused_python(const struct profiler *p)
{
	struct pythons_stats stats;

	pythons_stats(analysis_pythons(p->analysis), &stats);
	return p->o->python == OPTIONS_PYTHON_REQUIRE && stats.refused;
}

static bool has_required_python(const struct profiler *p)
{
	struct pythons_stats stats;

	pythons_stats(analysis_pythons(p->analysis), &stats);
	if (p->o->python == OPTIONS_PYTHON_REQUIRE && !stats.found && !stats.refused)
		log_error("--python=require: no Python interpreter was found%s",
			  stats.waiting ? " that is in use: what is mapped of it was not "
					  "initialized" :
					  " in the followed processes");
	return p->o->python != OPTIONS_PYTHON_REQUIRE || (stats.found && !stats.refused);
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
		err = followed_add(o, p->has_command ? p->command.pid : 0,
				   analysis_processes(p->analysis), p->session, p->cputime);
	if (!err)
		analysis_before_start(p->analysis);
	if (!err && has_refused_python(p))
		err = -ENOTSUP;
	return err;
}

static void fini(struct profiler *p)
{
	if (p->has_command)
		command_abort(&p->command);
	output_abort(p->output);
	cputime_free(p->cputime);
	analysis_free(p->analysis);
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
	int err = session_drain(p->session, DRAIN_LIMIT_NS);

	analysis_end_drain(p->analysis, !err);
	return err < 0 ? err : 0;
}

/* The rest, in a bounded time: no more comes. */
static int drain_rest(struct profiler *p)
{
	int err = session_drain(p->session, LAST_DRAIN_NS);

	if (err == 1) {
		log_warn("more samples than there was time for: of the last ones, those of new "
			 "stacks are lost");
		analysis_hurry(p->analysis);
		err = session_drain(p->session, ~0ULL >> 1);
	}
	analysis_end_drain(p->analysis, true);
	return err;
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
	err = cputime_stop(p->cputime, &p->account.cpu_ns);
	if (err)
		log_warn("CPU time of the followed threads: %s: \"expected\" is not known",
			 strerror(-err));
	err = drain_rest(p);
	if (!err)
		err = session_counters(p->session, p->account.counters);
	if (err) {
		log_error("reading the last records: %s: there is no account of this run, and the "
			  "profile may lack its end (try again)",
			  strerror(-err));
		return err;
	}
	analysis_finish(p->analysis);
	analysis_counts(p->analysis, &p->account.received, &p->account.unknown_stacks);
	analysis_completed(p->analysis, &p->account.completed);
	processes_stats(analysis_processes(p->analysis), &stats);
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

	analysis_before_dump(p->analysis);
	output_dump(p->output, analysis_profile(p->analysis));
}

static bool any_followed(void *ctx)
{
	struct profiler *p = ctx;

	return processes_any_followed(analysis_processes(p->analysis));
}

/* The progress line; its sums are a moment apart, so "missed" may be off by a few. */
static void tick(void *ctx, __u64 elapsed_ns)
{
	struct profiler *p = ctx;
	struct accounting now = p->account;

	analysis_tick(p->analysis);
	cputime_tick(p->cputime);
	if (log_level() < LOG_INFO || !isatty(STDERR_FILENO))
		return;
	if (session_counters(p->session, now.counters) || cputime_read(p->cputime, &now.cpu_ns))
		return;
	analysis_counts(p->analysis, &now.received, &now.unknown_stacks);
	log_progress("%.0f s, %.0f samples/s, %zu stacks, %llu lost, %lld missed", elapsed_ns / 1e9,
		     now.received * 1e9 / elapsed_ns,
		     profile_n_stacks(analysis_profile(p->analysis)),
		     (unsigned long long)accounting_lost(&now), (long long)accounting_missed(&now));
}

/* The exit code of a run that was sampled to its end. */
static int verdict(const struct profiler *p)
{
	double loss = accounting_loss_percent(&p->account);

	if (!has_required_python(p))
		return EXIT_ERROR;
	if (!profile_n_samples(analysis_profile(p->analysis))) {
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
		accounting_print(stderr, &p->account, analysis_profile(p->analysis), p->o->stats);
	if (!unaccounted && p->o->stats)
		analysis_print(p->analysis, stderr);
	err = output_commit(p->output, analysis_profile(p->analysis));
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
			.loaded_fd = analysis_fd(p.analysis),
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
