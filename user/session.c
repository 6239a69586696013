// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "session.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "arch.h"
#include "caps.h"
#include "kernel.h"
#include "log.h"
#include "monotonic.h"
#include "proc.h"
#include "record.h"
#include "sampler.h"
#include "spaces.h"
#include "tables.h"

#include "rprof.skel.h"

struct session {
	struct rprof_bpf *bpf;
	struct bpf_link *exec_link, *exit_link, *fork_link, *free_link;
	struct ring_buffer *ring;
	struct tables *tables;
	struct sampler *sampler;
	struct session_sink sink;
	__u64 period_ns;
	__u64 bad_records;
	__u64 deadline_ns;	/* of the drain at hand */
	struct bpf_program *clock;
	bool follows_forks, knows_ends;
	__u64 *per_cpu;		/* scratch of session_counters() */
	size_t per_cpu_stride;	/* in words */
	int n_possible;
};

static int on_record(void *ctx, void *data, size_t size)
{
	struct session *s = ctx;
	const struct rprof_header *h = data;

	if (record_check(data, size)) {
		s->bad_records++;
		return 0;
	}
	switch (h->type) {
	case RPROF_RECORD_STACK:
		s->sink.stack(s->sink.ctx, data);
		break;
	case RPROF_RECORD_SAMPLE:
		s->sink.sample(s->sink.ctx, data);
		break;
	case RPROF_RECORD_SPACE:
		s->sink.space(s->sink.ctx, data);
		break;
	case RPROF_RECORD_CODE:
		s->sink.code(s->sink.ctx, data);
		break;
	}
	/* More may come than we can handle: others want to be heard, too. Stops the consumer. */
	return monotonic_ns() > s->deadline_ns ? -ECANCELED : 0;
}

/* Whose numbers count, and whose children; preflight() has seen that namespaces are known. */
static void configure_processes(struct session *s, struct rprof_config *c, bool forks)
{
	bool nested = proc_is_nested();

	if (nested)
		c->flags |= RPROF_CONFIG_NESTED;
	s->follows_forks = forks && c->task_pid && c->task_tgid;
	bpf_program__set_autoload(s->bpf->progs.rprof_find_ns, nested);
	bpf_program__set_autoload(s->bpf->progs.rprof_fork, s->follows_forks);
	bpf_program__set_autoload(s->bpf->progs.rprof_set_table, s->follows_forks);
}

static int configure(struct session *s, const struct session_config *config)
{
	struct rprof_config *c = (struct rprof_config *)&s->bpf->rodata->rprof_config;
	bool task_regs = kernel_has_task_regs();
	int err;

	if (getrandom(&c->hash_seed, sizeof(c->hash_seed), 0) != sizeof(c->hash_seed) ||
	    getrandom(&c->hash_key, sizeof(c->hash_key), 0) != sizeof(c->hash_key)) {
		err = -errno;
		log_error("getrandom: %s", strerror(-err));
		return err;
	}
	c->hash_key |= 1;
	c->filter = config->filter;
	c->flags = config->flags;
	c->ring_quarter = config->ring_size / 4;
	c->max_kernel = kernel_max_stack();
	kernel_offsets(c);
	if (ARCH_THREAD_POINTER_LATE)
		c->flags |= RPROF_CONFIG_TP_LATE;
	configure_processes(s, c, config->forks);
	s->knows_ends = config->ends && c->signal_runtime;
	if (!s->knows_ends)
		c->signal_runtime = 0;
	bpf_program__set_autoload(s->bpf->progs.rprof_free, s->knows_ends);
	log_debug("user registers of samples in the kernel: %s",
		  task_regs	? "bpf_task_pt_regs" :
		  c->task_stack ? "from the top of the kernel stack" :
				  "not available");
	s->clock = task_regs ? s->bpf->progs.rprof_clock_btf : s->bpf->progs.rprof_clock;
	bpf_program__set_autoload(s->bpf->progs.rprof_clock_btf, task_regs);
	bpf_program__set_autoload(s->bpf->progs.rprof_clock, !task_regs);
	err = bpf_map__set_max_entries(s->bpf->maps.rprof_mappings, config->max_mappings);
	return err ? err : bpf_map__set_max_entries(s->bpf->maps.rprof_ring, config->ring_size);
}

static void explain_load(int err)
{
	struct caps_facts facts;
	char why[1024];

	/* What preflight warned of may be the reason, and -q kept it silent. */
	caps_read(&facts);
	caps_explain(&facts, why, sizeof(why));
	if (*why && log_level() < LOG_WARN)
		log_error("%s", why);
	log_error("cannot load BPF programs: %s (%s)", strerror(-err),
		  err == -EMFILE ? "raise ulimit -n" : "-vv shows the kernel's own words");
}

/* Run a program that is attached nowhere, as this thread. Return: its own value, or -errno. */
static int run(const struct bpf_program *program, __u64 arg0, __u64 arg1)
{
	__u64 args[] = { arg0, arg1 };
	LIBBPF_OPTS(bpf_test_run_opts, opts, .ctx_in = args, .ctx_size_in = sizeof(args));
	int err = bpf_prog_test_run_opts(bpf_program__fd(program), &opts);

	return err ? err : (int)opts.retval;
}

/* Tell the programs whose numbers count, before any of them runs. */
static int find_namespace(struct session *s)
{
	int found;

	if (!proc_is_nested())
		return 0;
	found = run(s->bpf->progs.rprof_find_ns, 0, 0);
	if (found > 0)
		return 0;
	log_error("cannot find our pid namespace in the kernel: %s (run on the host, or with "
		  "--pid=host)",
		  found ? strerror(-found) : "unknown layout");
	return found ? found : -ENOTSUP;
}

static int attach_tracepoint(struct bpf_program *program, struct bpf_link **link)
{
	int err;

	*link = bpf_program__attach(program);
	if (*link)
		return 0;
	err = -errno;
	log_error("cannot attach to %s: %s", bpf_program__section_name(program), strerror(-err));
	return err;
}

static int attach(struct session *s)
{
	int err;

	err = find_namespace(s);
	if (!err)
		err = attach_tracepoint(s->bpf->progs.rprof_exec, &s->exec_link);
	if (!err && s->follows_forks)
		err = attach_tracepoint(s->bpf->progs.rprof_fork, &s->fork_link);
	if (!err)
		err = attach_tracepoint(s->bpf->progs.rprof_exit, &s->exit_link);
	if (!err && s->knows_ends)
		err = attach_tracepoint(s->bpf->progs.rprof_free, &s->free_link);
	if (err)
		return err;
	s->ring = ring_buffer__new(bpf_map__fd(s->bpf->maps.rprof_ring), on_record, s, NULL);
	if (!s->ring) {
		err = -errno;
		log_error("cannot map the ring buffer: %s", strerror(-err));
		return err;
	}
	err = tables_new(bpf_map__fd(s->bpf->maps.rprof_tables),
			 bpf_map__max_entries(s->bpf->maps.rprof_tables),
			 bpf_map__fd(s->bpf->maps.rprof_mappings),
			 bpf_map__max_entries(s->bpf->maps.rprof_mappings),
			 bpf_map__fd(s->bpf->maps.rprof_pythons), &s->tables);
	if (err) {
		log_error("cannot map the mapping tables: %s", strerror(-err));
		return err;
	}
	return sampler_new(bpf_program__fd(s->clock), s->period_ns, &s->sampler);
}

int session_open(const struct session_config *config, const struct session_sink *sink,
		 struct session **out)
{
	struct session *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	s->sink = *sink;
	s->period_ns = config->period_ns;
	libbpf_set_print(log_libbpf);
	s->n_possible = libbpf_num_possible_cpus();
	if (s->n_possible < 0) {
		err = s->n_possible;
		goto fail;
	}
	s->bpf = rprof_bpf__open();
	if (!s->bpf) {
		err = -errno;
		log_error("cannot open the BPF object: %s", strerror(-err));
		goto fail;
	}
	err = configure(s, config);
	if (err)
		goto fail;
	err = rprof_bpf__load(s->bpf);
	if (err) {
		explain_load(err);
		goto fail;
	}
	/* The kernel rounds each CPU's part of a value up to 8 bytes. */
	s->per_cpu_stride = (bpf_map__value_size(s->bpf->maps.rprof_counters) + 7) / 8;
	s->per_cpu = calloc(s->n_possible, s->per_cpu_stride * 8);
	if (!s->per_cpu) {
		err = -ENOMEM;
		goto fail;
	}
	err = attach(s);
	if (err)
		goto fail;
	*out = s;
	return 0;
fail:
	session_free(s);
	return err;
}

void session_free(struct session *s)
{
	if (!s)
		return;
	sampler_free(s->sampler);
	bpf_link__destroy(s->exec_link);
	bpf_link__destroy(s->exit_link);
	bpf_link__destroy(s->fork_link);
	bpf_link__destroy(s->free_link);
	ring_buffer__free(s->ring);
	tables_free(s->tables);
	rprof_bpf__destroy(s->bpf);
	free(s->per_cpu);
	free(s);
}

int session_follow(struct session *s, __u32 tgid, __u32 flags, __u32 *table)
{
	struct rprof_proc proc = { .flags = flags };
	int fd = bpf_map__fd(s->bpf->maps.rprof_procs);
	int err = tables_take(s->tables, &proc.table);

	if (err)
		return err;
	if (bpf_map_update_elem(fd, &tgid, &proc, BPF_NOEXIST)) {
		err = -errno;
		tables_give_back(s->tables, proc.table);
		return err;
	}
	*table = proc.table;
	return 0;
}

int session_follow_tid(struct session *s, __u32 tid)
{
	__u32 one = 1;

	if (bpf_map_update_elem(bpf_map__fd(s->bpf->maps.rprof_tids), &tid, &one, BPF_ANY))
		return -errno;
	return 0;
}

static int find_proc(struct session *s, __u32 tgid, struct rprof_proc *proc)
{
	if (bpf_map_lookup_elem(bpf_map__fd(s->bpf->maps.rprof_procs), &tgid, proc))
		return -errno;
	return 0;
}

void session_unfollow(struct session *s, __u32 tgid, __u32 table)
{
	struct rprof_proc proc;

	/* Its number may be that of a process followed since; a table is given to one alone. */
	if (!find_proc(s, tgid, &proc) && proc.table == table)
		bpf_map_delete_elem(bpf_map__fd(s->bpf->maps.rprof_procs), &tgid);
	tables_give_back(s->tables, table);
}

bool session_follows_forks(const struct session *s)
{
	return s->follows_forks;
}

/* Of its own. */
static bool has_table(const struct rprof_proc *proc)
{
	return proc->table != RPROF_NO_TABLE && !(proc->flags & RPROF_PROC_BORROWS);
}

int session_give_table(struct session *s, __u32 tgid, __u32 *table)
{
	struct rprof_proc proc;
	int err = find_proc(s, tgid, &proc);
	__u32 index;

	if (err)
		return err;
	if (has_table(&proc))
		return -EEXIST;
	err = tables_take(s->tables, &index);
	if (err)
		return err;
	err = run(s->bpf->progs.rprof_set_table, tgid, index);
	if (err <= 0) {
		tables_give_back(s->tables, index);
		return err ? err : -ENOENT;
	}
	*table = index;
	return 0;
}

int session_execs(struct session *s, __u32 tgid, __u32 *execs)
{
	struct rprof_proc proc;
	int err = find_proc(s, tgid, &proc);

	if (!err)
		*execs = proc.execs;
	return err;
}

int session_publish(struct session *s, const struct space *space, __u32 execs)
{
	struct rprof_proc proc;
	int err = find_proc(s, space->tgid, &proc);

	if (err)
		return err;
	if (!has_table(&proc))
		return -ENOENT;
	return tables_publish(s->tables, proc.table, space->number, execs, space->mappings,
			      space->n_mappings);
}

int session_set_python(struct session *s, __u32 tgid, const struct rprof_python *p, __u32 execs)
{
	struct rprof_proc proc;
	int err = find_proc(s, tgid, &proc);

	if (err)
		return err;
	if (!has_table(&proc))
		return -ENOENT;
	tables_set_python(s->tables, proc.table, p, execs);
	return 0;
}

int session_set_hint(struct session *s, __u32 tid, const struct rprof_hint *hint)
{
	if (bpf_map_update_elem(bpf_map__fd(s->bpf->maps.rprof_hints), &tid, hint, BPF_ANY))
		return -errno;
	return 0;
}

bool session_knows_ends(const struct session *s)
{
	return s->knows_ends;
}

int session_ended_cpu(struct session *s, __u32 tgid, __u64 *ns)
{
	if (!s->knows_ends)
		return -ENOTSUP;
	if (bpf_map_lookup_elem(bpf_map__fd(s->bpf->maps.rprof_ended), &tgid, ns))
		return -errno;
	return 0;
}

void session_hash_keys(const struct session *s, __u64 *seed, __u64 *key)
{
	*seed = s->bpf->rodata->rprof_config.hash_seed;
	*key = s->bpf->rodata->rprof_config.hash_key;
}

int session_start(struct session *s)
{
	int n = sampler_follow_cpus(s->sampler);

	return n < 0 ? n : 0;
}

int session_follow_cpus(struct session *s)
{
	return sampler_follow_cpus(s->sampler);
}

void session_stop(struct session *s)
{
	sampler_stop(s->sampler);
}

void session_forget_stack(struct session *s, __u64 id)
{
	bpf_map_delete_elem(bpf_map__fd(s->bpf->maps.rprof_seen), &id);
}

int session_ring_fd(const struct session *s)
{
	return ring_buffer__epoll_fd(s->ring);
}

int session_drain(struct session *s, __u64 limit_ns)
{
	int n;

	s->deadline_ns = monotonic_ns() + limit_ns;
	s->sink.begin(s->sink.ctx);
	n = ring_buffer__consume(s->ring);
	if (n == -ECANCELED)
		return 1;
	return n < 0 ? n : 0;
}

int session_counters(struct session *s, __u64 counters[RPROF_COUNT_MAX])
{
	__u32 zero = 0;

	if (bpf_map_lookup_elem(bpf_map__fd(s->bpf->maps.rprof_counters), &zero, s->per_cpu))
		return -errno;
	memset(counters, 0, RPROF_COUNT_MAX * sizeof(counters[0]));
	for (int cpu = 0; cpu < s->n_possible; cpu++)
		for (size_t i = 0; i < RPROF_COUNT_MAX; i++)
			counters[i] += s->per_cpu[cpu * s->per_cpu_stride + i];
	return 0;
}

__u64 session_bad_records(const struct session *s)
{
	return s->bad_records;
}
