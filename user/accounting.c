// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "accounting.h"

#include <stdlib.h>
#include <string.h>

#include "escape.h"
#include "profile.h"
#include "stop.h"

/* Marks of one kind and module, over all lines. */
struct mark_sum {
	const struct resolve_mark *mark;
	__u64 samples;
};

__s64 accounting_expected(const struct accounting *a)
{
	return (a->cpu_ns + a->period_ns / 2) / a->period_ns;
}

__s64 accounting_missed(const struct accounting *a)
{
	return accounting_expected(a) - (__s64)a->counters[RPROF_COUNT_MATCHED];
}

__u64 accounting_lost(const struct accounting *a)
{
	return a->counters[RPROF_STOP_LOST_RING] + a->counters[RPROF_STOP_LOST_SCRATCH] +
	       a->unknown_stacks;
}

double accounting_loss_percent(const struct accounting *a)
{
	__s64 expected = accounting_expected(a), missed = accounting_missed(a);

	if (a->cpu_trust == CPUTIME_UNSURE) {
		expected = a->counters[RPROF_COUNT_MATCHED];
		missed = 0;
	}
	if (expected <= 0)
		return 0;
	return 100.0 * (accounting_lost(a) + (missed > 0 ? missed : 0)) / expected;
}

bool accounting_closes(const struct accounting *a)
{
	const __u64 *c = a->counters;

	return c[RPROF_COUNT_TICKS] == c[RPROF_COUNT_OTHER] + c[RPROF_COUNT_MATCHED] &&
	       c[RPROF_COUNT_MATCHED] == c[RPROF_COUNT_SAMPLES] + c[RPROF_STOP_LOST_RING] +
						 c[RPROF_STOP_LOST_SCRATCH] &&
	       c[RPROF_COUNT_SAMPLES] == a->received + a->unknown_stacks;
}

static void row(FILE *f, const char *name, __s64 n)
{
	fprintf(f, "  %-28s %12lld\n", name, (long long)n);
}

static void row_share(FILE *f, const char *name, __s64 n, __s64 of)
{
	fprintf(f, "  %-28s %12lld  %.1f %%\n", name, (long long)n, of > 0 ? 100.0 * n / of : 0.0);
}

static int by_mark(const void *a, const void *b)
{
	const struct mark_sum *x = a, *y = b;

	return x->mark < y->mark ? -1 : x->mark > y->mark;
}

static int by_samples(const void *a, const void *b)
{
	const struct mark_sum *x = a, *y = b;

	return x->samples < y->samples ? 1 : x->samples > y->samples ? -1 : 0;
}

/* Add up equal marks in place; the number that is left. */
static size_t sum_marks(struct mark_sum *sums, size_t n)
{
	size_t kept = 0;

	qsort(sums, n, sizeof(*sums), by_mark);
	for (size_t i = 0; i < n; i++) {
		if (kept && sums[kept - 1].mark == sums[i].mark)
			sums[kept - 1].samples += sums[i].samples;
		else
			sums[kept++] = sums[i];
	}
	qsort(sums, kept, sizeof(*sums), by_samples);
	return kept;
}

static void print_marks(FILE *f, struct mark_sum *sums, size_t n, __u64 samples)
{
	for (size_t i = 0; i < n; i++) {
		char *module = escape_string(sums[i].mark->module, strlen(sums[i].mark->module));
		char name[256];

		snprintf(name, sizeof(name), "marked: %s%s%s", sums[i].mark->kind,
			 module && *module ? ": " : "", module ? module : "");
		row_share(f, name, sums[i].samples, samples);
		free(module);
	}
}

/* Shares of frames with names and of samples with marks, over the lines of the profile. */
static void print_profile(FILE *f, const struct profile *p, bool all)
{
	const struct profile_line **lines;
	long n = profile_lines(p, &lines);
	__u64 named = 0, wanted = 0, marked = 0, samples = 0;
	struct mark_sum *sums;
	size_t n_sums = 0;

	if (n < 0)
		return;
	sums = calloc(n * 4 + 1, sizeof(*sums));
	for (long i = 0; i < n; i++) {
		const struct resolved_stack *s = lines[i]->stack;

		named += s->n_symbolized * lines[i]->count;
		wanted += s->n_named * lines[i]->count;
		samples += lines[i]->count;
		if (s->n_marks)
			marked += lines[i]->count;
		for (size_t m = 0; sums && m < s->n_marks; m++)
			sums[n_sums++] = (struct mark_sum){ s->marks[m], lines[i]->count };
	}
	row(f, "distinct stacks", profile_n_stacks(p));
	if (all)
		row(f, "distinct lines", n);
	fprintf(f, "  %-28s %11.1f%%  of frames have a name\n", "symbolized",
		wanted ? 100.0 * named / wanted : 0.0);
	row_share(f, "marked samples", marked, samples);
	if (sums)
		print_marks(f, sums, sum_marks(sums, n_sums), samples);
	free(sums);
	free(lines);
}

static void print_stops(FILE *f, const struct accounting *a)
{
	for (unsigned int i = RPROF_STOP_DEPTH; i < RPROF_STOP_MAX; i++) {
		char name[64];

		if (!a->counters[i] || stop_is_loss(i))
			continue;
		snprintf(name, sizeof(name), "stopped: %s", stop_name(i));
		row_share(f, name, a->counters[i], a->counters[RPROF_COUNT_MATCHED]);
	}
}

/* Stacks that the kernel side could not read to their ends. */
static void print_completed(FILE *f, const struct accounting *a, bool all)
{
	const struct completer_stats *c = &a->completed;

	if (c->completed || c->readings || all)
		row(f, "stacks completed by user space", c->completed);
	for (int i = 0; i < COMPLETE_WHYS; i++) {
		char name[64];

		if (!c->failed[i])
			continue;
		snprintf(name, sizeof(name), "not completed: %s", complete_why_name(i));
		row(f, name, c->failed[i]);
	}
	if (all && c->readings)
		fprintf(f, "  %-28s %12llu  took %.3f s\n", "readings of stacks",
			(unsigned long long)c->readings, c->ns / 1e9);
}

/* What the walks of Python frames did, if there were any. */
static void print_python(FILE *f, const __u64 *c)
{
	static const struct {
		unsigned int count;
		const char *name;
	} rows[] = {
		{ RPROF_COUNT_STATE_HITS, "thread state hits" },
		{ RPROF_COUNT_STATE_MISSES, "thread state misses" },
		{ RPROF_COUNT_WINDOW_HITS, "window hits" },
		{ RPROF_COUNT_FRAMES_EQUAL, "frames proved equal" },
		{ RPROF_COUNT_FRAMES_NEW, "frames new" },
		{ RPROF_COUNT_UNCHANGED, "stacks unchanged" },
		{ RPROF_COUNT_PY_READS, "interpreter reads" },
		{ RPROF_COUNT_PY_FAULTS, "interpreter reads that failed" },
		{ RPROF_COUNT_CODES, "code objects sent" },
	};

	if (!c[RPROF_COUNT_STATE_HITS] && !c[RPROF_COUNT_STATE_MISSES])
		return;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		row(f, rows[i].name, c[rows[i].count]);
}

static void print_losses(FILE *f, const struct accounting *a, __s64 expected)
{
	for (unsigned int i = RPROF_STOP_LOST_RING; i < RPROF_STOP_MAX; i++) {
		char name[64];

		if (!a->counters[i] || !stop_is_loss(i))
			continue;
		snprintf(name, sizeof(name), "lost: %s", stop_name(i));
		row_share(f, name, a->counters[i], expected);
	}
	if (a->unknown_stacks)
		row_share(f, "lost: unknown stack", a->unknown_stacks, expected);
}

static void print_cost(FILE *f, const struct accounting *a, bool all)
{
	const __u64 *c = a->counters;

	if (c[RPROF_COUNT_TIMED])
		fprintf(f, "  %-28s %12.2f  us of BPF time per sample\n", "cost",
			c[RPROF_COUNT_TIMED_NS] / 1e3 / c[RPROF_COUNT_TIMED]);
	fprintf(f, "  %-28s %11.2f%%  of one CPU by rprof-bpf itself, after %.2f s to start\n",
		"own CPU", a->elapsed_ns ? 100.0 * a->own_cpu_ns / a->elapsed_ns : 0.0,
		a->start_cpu_ns / 1e9);
	if (!all)
		return;
	row(f, "stacks sent", c[RPROF_COUNT_STACKS]);
	row(f, "stack reads", c[RPROF_COUNT_READS]);
	row(f, "stack reads that failed", c[RPROF_COUNT_READ_FAULTS]);
	row(f, "mapping searches", c[RPROF_COUNT_SEARCHES]);
	row(f, "no mapping table", a->unchecked);
	row(f, "lost process events", a->lost_events);
	row(f, "bad records", a->bad_records);
}

static const char *const trust_words[] = {
	[CPUTIME_EXACT] = "",
	[CPUTIME_COARSE] = " (to 10 ms per CPU)",
	[CPUTIME_UNSURE] = " (not sure: --max-loss leaves \"missed\" out)",
};

void accounting_print(FILE *f, const struct accounting *a, const struct profile *p, bool all)
{
	const __u64 *c = a->counters;
	__s64 expected = accounting_expected(a);

	fprintf(f, "rprof-bpf: %.1f s, one sample per %.3f ms of CPU time\n", a->elapsed_ns / 1e9,
		a->period_ns / 1e6);
	fprintf(f, "  %-28s %12lld  %.3f s of CPU time%s\n", "expected", (long long)expected,
		a->cpu_ns / 1e9, trust_words[a->cpu_trust]);
	row_share(f, "missed", accounting_missed(a), expected);
	if (all) {
		row(f, "ticks", c[RPROF_COUNT_TICKS]);
		row(f, "other", c[RPROF_COUNT_OTHER]);
	}
	row(f, "matched", c[RPROF_COUNT_MATCHED]);
	print_losses(f, a, expected);
	row(f, "samples", c[RPROF_COUNT_SAMPLES]);
	if (all)
		row(f, "received", a->received);
	print_profile(f, p, all);
	if (all)
		print_stops(f, a);
	print_completed(f, a, all);
	if (all)
		print_python(f, c);
	/* --verify: anything but 0 is a bug. */
	if (c[RPROF_COUNT_VERIFIED]) {
		row(f, "Python walks verified", c[RPROF_COUNT_VERIFIED]);
		row(f, "verify mismatches", c[RPROF_COUNT_MISMATCHES]);
	}
	print_cost(f, a, all);
	if (!accounting_closes(a))
		fprintf(f,
			"rprof-bpf: the accounting does not close: this is a bug, please report it "
			"with the output of --stats\n");
}
