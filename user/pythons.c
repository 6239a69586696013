// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "pythons.h"

#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "escape.h"
#include "idmap.h"
#include "log.h"
#include "modules.h"
#include "monotonic.h"
#include "python_files.h"
#include "session.h"
#include "spaces.h"

/*
 * When a runtime that is not live is looked at again: embedders may initialize it at any time, and a
 * program that lives for 150 ms shortly after its start.
 */
#define AGAIN_MIN_NS 20000000ULL
#define AGAIN_MAX_NS 1000000000ULL
#define AGAIN_SHARE 4			/* of the time since it was first seen */
#define NEVER (~0ULL)

/* For all tries of one drain; what is left over is for the next one. */
#define LIMIT_NS 20000000ULL

/* What a starting, or ending, process shows need not hold up; what still does not then is refused. */
#define DOUBT_NS 1000000000ULL
#define DOUBT_MIN 5

#define MAX_WARNED 4096	/* (file, reason) */

struct process {
	struct pythons_report r;
	__u32 tgid, execs;
	__u64 mapped;		/* hash of the executable files that were looked at */
	bool published;
	__u64 since_ns, next_ns; /* first and next try; NEVER: it is as it is */
	__u64 doubt_ns;		/* when it began not to hold up, */
	unsigned int n_doubts;	/* and how often it has not since */
};

struct pythons {
	struct pythons_config c;
	struct python_files *files;
	struct process **items;	/* those with a Python of whatever kind in their files */
	size_t n, cap;
	struct idmap by_tgid;
	struct idmap warned;	/* (module, hash of the reason) */
	__u64 due_ns;		/* when the next one is to be tried, or earlier */
	__u64 spent_ns;		/* in this drain */
	size_t next;		/* where that goes on */
	__u64 n_found, n_refused;
};

struct pythons *pythons_new(const struct pythons_config *config)
{
	struct pythons *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->c = *config;
	p->due_ns = NEVER;
	idmap_init(&p->by_tgid);
	idmap_init(&p->warned);
	p->files = python_files_new(config->modules);
	if (!p->files) {
		pythons_free(p);
		return NULL;
	}
	return p;
}

void pythons_free(struct pythons *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->n; i++)
		free(p->items[i]);
	free(p->items);
	python_files_free(p->files);
	idmap_fini(&p->by_tgid);
	idmap_fini(&p->warned);
	free(p);
}

static struct process *find(const struct pythons *p, __u32 tgid)
{
	__u32 i;

	return idmap_find(&p->by_tgid, tgid, 0, &i) ? p->items[i] : NULL;
}

static struct process *add(struct pythons *p, __u32 tgid, __u32 execs)
{
	struct process **grown = array_grow(p->items, &p->cap, p->n + 1, sizeof(*grown));
	struct process *item = grown ? calloc(1, sizeof(*item)) : NULL;

	if (grown)
		p->items = grown;
	if (!item || idmap_put(&p->by_tgid, tgid, 0, (__u32)p->n)) {
		free(item);
		return NULL;
	}
	item->tgid = tgid;
	item->execs = execs;
	item->since_ns = monotonic_ns();
	p->items[p->n++] = item;
	return item;
}

void pythons_forget(struct pythons *p, __u32 tgid)
{
	__u32 i;

	if (!p || !idmap_find(&p->by_tgid, tgid, 0, &i))
		return;
	idmap_remove(&p->by_tgid, tgid, 0);
	free(p->items[i]);
	p->items[i] = p->items[--p->n];
	if (i < p->n)
		idmap_put(&p->by_tgid, p->items[i]->tgid, 0, i);
}

/* The best of all that its files hold; among equals the first. */
static enum python_outcome try_all(const struct pythons *p, const struct process *item,
				   struct pythons_report *best)
{
	const struct space *space = spaces_newest(p->c.spaces, item->tgid);
	struct python_candidate candidates[PYTHON_MAX_CANDIDATES];
	enum python_outcome outcome, most = PYTHON_IS_NOTHING;
	struct python_tried tried;
	__u64 asyncio = 0;
	size_t n;

	memset(best, 0, sizeof(*best));
	n = space ? python_files_find(p->files, space, candidates) : 0;
	for (size_t i = 0; i < n; i++) {
		const struct python_candidate *c = &candidates[i];

		if (c->file.asyncio && !asyncio)
			asyncio = c->bias + c->file.asyncio;
		if (c->file.kind == PYTHON_NONE || most == PYTHON_IS_PROVED)
			continue;
		outcome = python_candidate_try(c, item->tgid, &tried);
		if (outcome > most) {
			most = outcome;
			best->of = *c;
			best->tried = tried;
		}
	}
	best->asyncio = asyncio;
	return most;
}

static __u64 hash_text(const char *text)
{
	__u64 h = 14695981039346656037ULL;

	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * 1099511628211ULL;
	return h;
}

/* Once for each file and reason. */
static void explain(struct pythons *p, const struct process *item)
{
	const struct pythons_report *r = &item->r;
	const char *name = modules_name(p->c.modules, r->of.module);
	const __u64 reason = hash_text(r->tried.why);
	char version[64], *escaped;
	__u32 before;

	if (!p->c.session || idmap_find(&p->warned, r->of.module, reason, &before) ||
	    p->warned.n_used >= MAX_WARNED)
		return;
	idmap_put(&p->warned, r->of.module, reason, 1);
	python_version_text(r->of.file.kind, r->tried.version, version, sizeof(version));
	escaped = escape_string(name, strlen(name));
	log_msg(p->c.required ? LOG_ERROR : LOG_WARN,
		"process %u: %s in %s: %s; only native frames", item->tgid, version,
		escaped ? escaped : "?", r->tried.why);
	free(escaped);
}

static void publish(struct pythons *p, struct process *item)
{
	const bool found = item->r.state == PYTHONS_FOUND;

	if (p->c.session)
		item->published = !session_set_python(p->c.session, item->tgid,
						      found ? &item->r.tried.python : NULL,
						      item->execs);
	else
		item->published = true;
}

static void become_found(struct pythons *p, struct process *item, bool was)
{
	char version[64];

	publish(p, item);
	if (was)
		return;
	p->n_found++;
	python_version_text(item->r.of.file.kind, item->r.tried.version, version, sizeof(version));
	log_debug("process %u: %s: interpreter at 0x%llx%s", item->tgid, version,
		  (unsigned long long)item->r.tried.python.runtime,
		  item->published ? "" : ", not published yet");
}

/* What did not hold up may do so in a moment, unless that was so for long. */
static enum python_outcome doubt(struct process *item, __u64 now)
{
	if (!item->n_doubts++)
		item->doubt_ns = now;
	return item->n_doubts >= DOUBT_MIN && now - item->doubt_ns >= DOUBT_NS ? PYTHON_IS_REFUSED :
										 PYTHON_IS_DOUBTFUL;
}

static bool is_settled(const struct process *item)
{
	return item->r.state == PYTHONS_NONE || item->r.state == PYTHONS_REFUSED ||
	       (item->r.state == PYTHONS_FOUND && item->r.proved && item->published);
}

static void schedule(struct pythons *p, struct process *item, __u64 time_ns)
{
	item->next_ns = time_ns;
	if (time_ns < p->due_ns)
		p->due_ns = time_ns;
}

static __u64 time_of_next_try(const struct process *item, __u64 now)
{
	const __u64 pause = (now - item->since_ns) / AGAIN_SHARE;

	if (is_settled(item))
		return NEVER;
	return now + (pause < AGAIN_MIN_NS ? AGAIN_MIN_NS :
		      pause > AGAIN_MAX_NS ? AGAIN_MAX_NS :
					     pause);
}

/* What @outcome makes of a process; @r is what it is about. */
static void settle(struct pythons *p, struct process *item, enum python_outcome outcome,
		   const struct pythons_report *r)
{
	const enum pythons_state before = item->r.state;
	const bool published = before == PYTHONS_FOUND && item->published;

	/* It held up before: one bad moment takes nothing away. */
	if (before == PYTHONS_FOUND &&
	    (outcome == PYTHON_IS_DOUBTFUL || outcome == PYTHON_IS_WAITING)) {
		item->r.proved = false;
		return;
	}
	item->r = *r;
	if (outcome >= PYTHON_IS_LIVE) {
		item->r.state = PYTHONS_FOUND;
		item->r.proved = outcome == PYTHON_IS_PROVED;
		become_found(p, item, before == PYTHONS_FOUND);
	} else if (outcome == PYTHON_IS_REFUSED) {
		item->r.state = PYTHONS_REFUSED;
		p->n_refused += before != PYTHONS_REFUSED;
		explain(p, item);
	} else {
		item->r.state = outcome == PYTHON_IS_NOTHING ? PYTHONS_NONE : PYTHONS_WAITING;
	}
	if (published && item->r.state != PYTHONS_FOUND)
		publish(p, item);
}

static void try_process(struct pythons *p, struct process *item)
{
	const __u64 now = monotonic_ns();
	struct pythons_report r;
	enum python_outcome outcome = try_all(p, item, &r);

	if (outcome == PYTHON_IS_DOUBTFUL)
		outcome = doubt(item, now);
	else
		item->n_doubts = 0;
	settle(p, item, outcome, &r);
	schedule(p, item, time_of_next_try(item, now));
	p->spent_ns += monotonic_ns() - now;
}

static __u64 hash_files(const struct space *space)
{
	__u64 h = space->number + 1;

	for (size_t i = 0; i < space->n_mappings; i++) {
		const struct rprof_mapping *m = &space->mappings[i];

		if ((m->flags & RPROF_MAPPING_EXEC) && m->module)
			h = (h ^ m->module ^ m->bias) * 0x9e3779b97f4a7c15ULL;
	}
	return h;
}

static bool has_candidates(const struct pythons *p, const struct space *space)
{
	struct python_candidate candidates[PYTHON_MAX_CANDIDATES];

	return python_files_find(p->files, space, candidates);
}

void pythons_look(struct pythons *p, __u32 tgid, __u32 execs)
{
	const struct space *space = p ? spaces_newest(p->c.spaces, tgid) : NULL;
	struct process *item = p ? find(p, tgid) : NULL;
	__u64 mapped;

	if (!space)
		return;
	if (item && item->execs != execs) {
		pythons_forget(p, tgid);
		item = NULL;
	}
	mapped = hash_files(space);
	if (item && item->mapped == mapped) {
		/* It has a table only now. */
		if (item->r.state == PYTHONS_FOUND && !item->published)
			publish(p, item);
		return;
	}
	if (!item && has_candidates(p, space))
		item = add(p, tgid, execs);
	if (!item)
		return;
	item->mapped = mapped;
	if (p->spent_ns < LIMIT_NS)
		try_process(p, item);
	else
		schedule(p, item, monotonic_ns());
}

void pythons_again(struct pythons *p)
{
	const __u64 now = monotonic_ns();
	__u64 due = NEVER;

	if (!p)
		return;
	if (now < p->due_ns) {
		p->spent_ns = 0;
		return;
	}
	for (size_t i = 0; i < p->n; i++) {
		struct process *item = p->items[p->next++ % p->n];

		if (item->next_ns <= now && p->spent_ns < LIMIT_NS)
			try_process(p, item);
		if (item->next_ns < due)
			due = item->next_ns;
	}
	p->due_ns = due;
	p->spent_ns = 0;
}

/* Try one if another try may change what is known. Return: may a third one, too? */
static bool settle_one(struct pythons *p, struct process *item)
{
	if (item->r.state == PYTHONS_FOUND || item->r.state == PYTHONS_REFUSED ||
	    (!item->n_doubts && item->next_ns > monotonic_ns()))
		return false;
	try_process(p, item);
	return item->r.state == PYTHONS_WAITING && item->n_doubts;
}

void pythons_settle(struct pythons *p, __u64 limit_ns)
{
	const __u64 end = monotonic_ns() + limit_ns;
	bool again = p;

	while (again && monotonic_ns() < end) {
		again = false;
		for (size_t i = 0; i < p->n; i++)
			again |= settle_one(p, p->items[i]);
	}
	if (p)
		p->spent_ns = 0;
}

const struct rprof_python *pythons_find(const struct pythons *p, __u32 tgid)
{
	const struct process *item = p ? find(p, tgid) : NULL;

	return item && item->r.state == PYTHONS_FOUND ? &item->r.tried.python : NULL;
}

__u32 pythons_module(const struct pythons *p, __u32 tgid)
{
	const struct process *item = p ? find(p, tgid) : NULL;

	return item && item->r.state == PYTHONS_FOUND ? item->r.of.module : 0;
}

void pythons_report(const struct pythons *p, __u32 tgid, struct pythons_report *out)
{
	const struct process *item = p ? find(p, tgid) : NULL;

	*out = item ? item->r : (struct pythons_report){ .state = PYTHONS_NONE };
}

void pythons_stats(const struct pythons *p, struct pythons_stats *out)
{
	*out = (struct pythons_stats){ 0 };
	if (!p)
		return;
	out->found = p->n_found;
	out->refused = p->n_refused;
	for (size_t i = 0; i < p->n; i++)
		out->waiting += p->items[i]->r.state == PYTHONS_WAITING;
}
