// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "tables.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "monotonic.h"

/* A stretch of rprof_mappings. */
struct run {
	__u32 first;
	__u32 count;
	__u64 free_at;	/* CLOCK_MONOTONIC ns from which it may be written again */
};

struct tables {
	struct rprof_table *tables;
	struct rprof_mapping *mappings;
	struct rprof_python *pythons;	/* n_tables */
	__u32 n_tables, n_mappings;
	size_t tables_len, mappings_len; /* of the shared mappings; 0: not ours to unmap */
	size_t pythons_len;
	unsigned char *taken;		/* per table */
	struct run *runs;		/* given back, sorted by first */
	size_t n_runs, cap_runs;
};

static int insert_run(struct tables *t, size_t at, struct run run)
{
	if (t->n_runs == t->cap_runs) {
		size_t cap = t->cap_runs ? t->cap_runs * 2 : 64;
		struct run *runs = reallocarray(t->runs, cap, sizeof(*runs));

		if (!runs)
			return -ENOMEM;
		t->runs = runs;
		t->cap_runs = cap;
	}
	memmove(&t->runs[at + 1], &t->runs[at], (t->n_runs - at) * sizeof(run));
	t->runs[at] = run;
	t->n_runs++;
	return 0;
}

static void remove_run(struct tables *t, size_t at)
{
	t->n_runs--;
	memmove(&t->runs[at], &t->runs[at + 1], (t->n_runs - at) * sizeof(t->runs[0]));
}

/*
 * Join runs that touch and are free both. Not before: a small one in its grace period would hold up
 * the large one beside it.
 */
static void join_runs(struct tables *t, __u64 now)
{
	size_t n = 0;

	for (size_t i = 0; i < t->n_runs; i++) {
		struct run *last = n ? &t->runs[n - 1] : NULL, *r = &t->runs[i];

		if (last && last->first + last->count == r->first && last->free_at <= now &&
		    r->free_at <= now)
			last->count += r->count;
		else
			t->runs[n++] = *r;
	}
	t->n_runs = n;
}

static void free_run(struct tables *t, __u32 first, __u32 count)
{
	size_t at = 0;

	if (!count)
		return;
	while (at < t->n_runs && t->runs[at].first < first)
		at++;
	/* Without memory for the list the run is lost to this process: bounded, and harmless. */
	insert_run(t, at, (struct run){ first, count, monotonic_ns() + TABLES_GRACE_NS });
}

static int take_run(struct tables *t, __u32 count, __u32 *first)
{
	__u64 now = monotonic_ns();

	join_runs(t, now);
	for (size_t i = 0; i < t->n_runs; i++) {
		struct run *r = &t->runs[i];

		if (r->count < count || r->free_at > now)
			continue;
		*first = r->first;
		r->first += count;
		r->count -= count;
		if (!r->count)
			remove_run(t, i);
		return 0;
	}
	return -ENOSPC;
}

int tables_over(struct rprof_table *tables, __u32 n_tables, struct rprof_mapping *mappings,
		__u32 n_mappings, struct rprof_python *pythons, struct tables **out)
{
	struct tables *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	t->tables = tables;
	t->n_tables = n_tables;
	t->mappings = mappings;
	t->n_mappings = n_mappings;
	t->pythons = pythons;
	t->taken = calloc(n_tables, 1);
	if (!t->taken || insert_run(t, 0, (struct run){ 0, n_mappings, 0 })) {
		tables_free(t);
		return -ENOMEM;
	}
	*out = t;
	return 0;
}

static void *map_array(int fd, size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

int tables_new(int tables_fd, __u32 n_tables, int mappings_fd, __u32 n_mappings, int pythons_fd,
	       struct tables **out)
{
	const size_t tables_len = n_tables * sizeof(struct rprof_table);
	const size_t mappings_len = n_mappings * sizeof(struct rprof_mapping);
	const size_t pythons_len = n_tables * sizeof(struct rprof_python);
	struct tables *t;
	int err = tables_over(NULL, n_tables, NULL, n_mappings, NULL, &t);

	if (err)
		return err;
	t->tables = map_array(tables_fd, tables_len);
	t->mappings = map_array(mappings_fd, mappings_len);
	t->pythons = map_array(pythons_fd, pythons_len);
	t->tables_len = t->tables ? tables_len : 0;
	t->mappings_len = t->mappings ? mappings_len : 0;
	t->pythons_len = t->pythons ? pythons_len : 0;
	if (!t->tables || !t->mappings || !t->pythons) {
		err = -errno;
		tables_free(t);
		return err;
	}
	*out = t;
	return 0;
}

void tables_free(struct tables *t)
{
	if (!t)
		return;
	if (t->tables_len)
		munmap(t->tables, t->tables_len);
	if (t->mappings_len)
		munmap(t->mappings, t->mappings_len);
	if (t->pythons_len)
		munmap(t->pythons, t->pythons_len);
	free(t->taken);
	free(t->runs);
	free(t);
}

int tables_take(struct tables *t, __u32 *index)
{
	unsigned char *p = memchr(t->taken, 0, t->n_tables);

	if (!p)
		return -E2BIG;
	*p = 1;
	*index = p - t->taken;
	return 0;
}

/* Let @run count from now on, and free the one that did. */
static void replace_run(struct tables *t, __u32 index, struct rprof_run run)
{
	struct rprof_table *table = &t->tables[index];
	struct rprof_run old = table->runs[table->version & 1];

	table->runs[(table->version + 1) & 1] = run;
	__atomic_store_n(&table->version, table->version + 1, __ATOMIC_SEQ_CST);
	free_run(t, old.first, old.count);
}

void tables_give_back(struct tables *t, __u32 index)
{
	tables_set_python(t, index, NULL, 0);
	replace_run(t, index, (struct rprof_run){});
	t->taken[index] = 0;
}

int tables_publish(struct tables *t, __u32 index, __u32 space, __u32 execs,
		   const struct rprof_mapping *mappings, size_t n)
{
	struct rprof_run run = { .space = space, .execs = execs, .count = n };
	int err = n ? take_run(t, n, &run.first) : -ENOSPC;

	if (!err)
		memcpy(&t->mappings[run.first], mappings, n * sizeof(*mappings));
	replace_run(t, index, err ? (struct rprof_run){} : run);
	return err;
}

void tables_set_python(struct tables *t, __u32 index, const struct rprof_python *p, __u32 execs)
{
	struct rprof_python *to = &t->pythons[index];

	/* Void while it is written. A program that is reading it now masks what it takes. */
	__atomic_store_n(&to->execs, 0, __ATOMIC_SEQ_CST);
	if (!p)
		return;
	memcpy((char *)to + sizeof(to->execs), (const char *)p + sizeof(p->execs),
	       sizeof(*p) - sizeof(p->execs));
	__atomic_store_n(&to->execs, execs + 1, __ATOMIC_SEQ_CST);
}
