// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "pythons.h"

#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "idmap.h"
#include "log.h"
#include "modules.h"
#include "monotonic.h"
#include "python_files.h"
#include "python_hints.h"
#include "python_reasons.h"
#include "session.h"
#include "spaces.h"
#include "target.h"

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

/* A try is followed by a rest that is this many times as long. */
#define REST_SHARE 8

/* Where the thread states of one process are is looked up again so often. */
#define HINTS_NS 250000000ULL

struct process {
	struct pythons_report r;
	__u32 tgid, execs;
	__u64 mapped;		/* hash of the executable files that were looked at */
	bool published, has_second;
	struct python_reason refused; /* of what is refused beside what is waited for */
	__u64 waiting_ns;	/* since when; 0: it does not */
	__u64 rest_ns;		/* no try before that */
	__u64 since_ns, next_ns; /* first and next try; NEVER: it is as it is */
	__u64 doubt_ns;		/* when it began not to hold up, */
	unsigned int n_doubts;	/* and how often it has not since */
	bool lost;		/* a thread state was not found, */
	__u64 hints_ns;		/* and none is looked up before that */
};

struct pythons {
	struct pythons_config c;
	struct python_files *files;
	struct process **items;	/* all that were looked at */
	size_t n, cap;
	struct idmap by_tgid;
	struct python_reasons reasons;
	__u64 due_ns;		/* when the next one is to be tried, or earlier */
	__u64 spent_ns;		/* in this drain */
	size_t next;		/* where that goes on */
	bool any_lost;		/* one of them may be */
	struct python_hint hints[PYTHON_HINTS_MAX]; /* scratch */
	__u64 n_found, n_refused, n_second;
};

/* What the files of a process came to. */
struct verdict {
	enum python_outcome outcome;
	struct pythons_report best;
	struct python_reason refused, second; /* the first ones of them */
	__u64 again_ns;		/* python_files_find() */
	__u64 took_ns;		/* to try what that found */
};

struct pythons *pythons_new(const struct pythons_config *config)
{
	struct pythons *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->c = *config;
	p->due_ns = NEVER;
	idmap_init(&p->by_tgid);
	python_reasons_init(&p->reasons);
	p->files = python_files_new(config->modules);
	if (!p->files) {
		pythons_free(p);
		return NULL;
	}
	return p;
}

static void explain(struct pythons *p, enum log_level level, const struct process *item,
		    const struct python_reason *reason)
{
	if (p->c.session)
		python_reasons_say(&p->reasons, level, p->c.modules, item->tgid, reason);
}

/* What is waited for may never come: what is refused beside it is said. */
static void explain_waiting(struct pythons *p, const struct process *item)
{
	if (item->r.state == PYTHONS_WAITING && item->refused.of.module)
		explain(p, LOG_WARN, item, &item->refused);
}

void pythons_free(struct pythons *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->n; i++) {
		explain_waiting(p, p->items[i]);
		free(p->items[i]);
	}
	free(p->items);
	python_files_free(p->files);
	idmap_fini(&p->by_tgid);
	python_reasons_fini(&p->reasons);
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
	item->next_ns = NEVER;
	p->items[p->n++] = item;
	return item;
}

void pythons_forget(struct pythons *p, __u32 tgid)
{
	__u32 i;

	if (!p || !idmap_find(&p->by_tgid, tgid, 0, &i))
		return;
	idmap_remove(&p->by_tgid, tgid, 0);
	explain_waiting(p, p->items[i]);
	free(p->items[i]);
	p->items[i] = p->items[--p->n];
	if (i < p->n)
		idmap_put(&p->by_tgid, p->items[i]->tgid, 0, i);
}

static struct python_reason reason_of(const struct python_candidate *c,
				      const struct python_tried *tried, const char *why)
{
	struct python_reason r = { .of = *c, .version = tried->version };

	snprintf(r.why, sizeof(r.why), "%s", why);
	return r;
}

static void weigh(struct verdict *v, const struct python_candidate *c, enum python_outcome outcome,
		  const struct python_tried *tried)
{
	static const char second[] = "live beside another interpreter, which is read";

	if (outcome == PYTHON_IS_REFUSED && !v->refused.of.module)
		v->refused = reason_of(c, tried, tried->why);
	if (outcome >= PYTHON_IS_LIVE && v->outcome >= PYTHON_IS_LIVE && !v->second.of.module)
		v->second = outcome > v->outcome ? reason_of(&v->best.of, &v->best.tried, second) :
						   reason_of(c, tried, second);
	if (outcome <= v->outcome)
		return;
	v->outcome = outcome;
	v->best.of = *c;
	v->best.tried = *tried;
}

/* All that its files hold; among equals the first is the best. */
static void try_all(const struct pythons *p, const struct process *item, __u64 deadline_ns,
		    struct verdict *v)
{
	const struct space *space = spaces_newest(p->c.spaces, item->tgid);
	struct python_candidate candidates[PYTHON_MAX_CANDIDATES];
	struct python_tried tried;
	size_t n = 0;
	__u64 began;

	memset(v, 0, sizeof(*v));
	v->again_ns = PYTHON_FILES_NEVER;
	if (space)
		n = python_files_find(p->files, space, deadline_ns, candidates, &v->again_ns);
	v->best.unfinished = !v->again_ns;
	began = monotonic_ns();
	for (size_t i = 0; i < n; i++) {
		const struct python_candidate *c = &candidates[i];

		if (c->file.asyncio && !v->best.asyncio)
			v->best.asyncio = c->bias + c->file.asyncio;
		if (c->file.kind != PYTHON_NONE)
			weigh(v, c, python_candidate_try(c, item->tgid, &tried), &tried);
	}
	v->took_ns = monotonic_ns() - began;
}

/*
 * Tell the kernel side where its thread states are. A process that names other's threads shall not
 * take their places.
 */
static void give_hints(struct pythons *p, struct process *item)
{
	const struct python_memory memory = python_memory_of(item->tgid);
	const __u64 now = monotonic_ns();
	const __u64 left_ns = p->spent_ns < LIMIT_NS ? LIMIT_NS - p->spent_ns : 0;
	size_t n = python_hints_find(&memory, &item->r.tried.python, now + left_ns, p->hints);

	for (size_t i = 0; i < n; i++) {
		const struct rprof_hint hint = {
			.tstate = p->hints[i].tstate,
			.tgid = item->tgid,
			.execs = item->execs,
		};

		if (target_has_thread(item->tgid, p->hints[i].tid))
			session_set_hint(p->c.session, p->hints[i].tid, &hint);
	}
	item->lost = false;
	item->hints_ns = now + HINTS_NS;
	p->spent_ns += monotonic_ns() - now;
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
	if (p->c.session && found && item->published)
		give_hints(p, item);
}

static void note_found(struct pythons *p, const struct process *item)
{
	char version[64];

	p->n_found++;
	python_version_text(item->r.of.file.kind, item->r.tried.version, version, sizeof(version));
	log_debug("process %u: %s: interpreter at 0x%llx%s", item->tgid, version,
		  (unsigned long long)item->r.tried.python.runtime,
		  item->published ? "" : ", not published yet");
}

static void become_found(struct pythons *p, struct process *item, bool was)
{
	publish(p, item);
	if (!was)
		note_found(p, item);
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

/* What @v makes of a process. */
static void settle(struct pythons *p, struct process *item, const struct verdict *v)
{
	const enum pythons_state before = item->r.state;
	const bool published = before == PYTHONS_FOUND && item->published;
	const enum python_outcome outcome = v->outcome;

	/* It held up before: one bad moment takes nothing away. */
	if (before == PYTHONS_FOUND && outcome < PYTHON_IS_LIVE &&
	    (outcome >= PYTHON_IS_DOUBTFUL || v->best.unfinished)) {
		item->r.proved = false;
		item->r.unfinished = v->best.unfinished;
		return;
	}
	item->r = v->best;
	if (outcome >= PYTHON_IS_LIVE) {
		item->r.state = PYTHONS_FOUND;
		item->r.proved = outcome == PYTHON_IS_PROVED;
		become_found(p, item, before == PYTHONS_FOUND);
	} else if (outcome == PYTHON_IS_REFUSED && !v->best.unfinished) {
		const struct python_reason reason =
			reason_of(&v->best.of, &v->best.tried, v->best.tried.why);

		item->r.state = PYTHONS_REFUSED;
		p->n_refused += before != PYTHONS_REFUSED;
		explain(p, p->c.required ? LOG_ERROR : LOG_WARN, item, &reason);
	} else {
		item->r.state = outcome == PYTHON_IS_NOTHING ? PYTHONS_NONE : PYTHONS_WAITING;
	}
	if (published && item->r.state != PYTHONS_FOUND)
		publish(p, item);
}

/* What is not what the process came to. */
static void note_others(struct pythons *p, struct process *item, const struct verdict *v, __u64 now)
{
	item->refused = v->refused;
	if (item->r.state != PYTHONS_WAITING)
		item->waiting_ns = 0;
	else if (!item->waiting_ns)
		item->waiting_ns = now;
	else if (now - item->waiting_ns >= DOUBT_NS)
		explain_waiting(p, item);
	if (v->second.of.module && !item->has_second) {
		item->has_second = true;
		p->n_second++;
		explain(p, LOG_WARN, item, &v->second);
	}
}

static void set_next_try(struct pythons *p, struct process *item, const struct verdict *v)
{
	const __u64 now = monotonic_ns();
	__u64 pause = v->took_ns * REST_SHARE, next = time_of_next_try(item, now);

	if (pause < AGAIN_MIN_NS)
		pause = AGAIN_MIN_NS;
	if (pause > AGAIN_MAX_NS)
		pause = AGAIN_MAX_NS;
	item->rest_ns = now + pause;
	if (v->again_ns < next)
		next = v->again_ns;
	if (next < item->rest_ns)
		next = item->rest_ns;
	/* The files that are left are for the next drain. */
	schedule(p, item, item->r.unfinished ? now : next);
}

static void try_process(struct pythons *p, struct process *item)
{
	const __u64 now = monotonic_ns();
	struct verdict v;

	try_all(p, item, now + (p->spent_ns < LIMIT_NS ? LIMIT_NS - p->spent_ns : 0), &v);
	if (v.outcome == PYTHON_IS_DOUBTFUL)
		v.outcome = doubt(item, now);
	else
		item->n_doubts = 0;
	settle(p, item, &v);
	note_others(p, item, &v, now);
	set_next_try(p, item, &v);
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
	if (!item)
		item = add(p, tgid, execs);
	if (!item)
		return;
	item->mapped = mapped;
	/* What it has from its parent counts until it is looked at. */
	if (item->r.state == PYTHONS_FOUND && !item->published)
		publish(p, item);
	if (p->spent_ns < LIMIT_NS && monotonic_ns() >= item->rest_ns)
		try_process(p, item);
	else if (item->rest_ns < item->next_ns)
		schedule(p, item, item->rest_ns);
}

void pythons_fork(struct pythons *p, __u32 child, __u32 parent)
{
	const struct process *from = p ? find(p, parent) : NULL;
	struct process *item;

	if (!from || from->r.state != PYTHONS_FOUND || find(p, child))
		return;
	item = add(p, child, from->execs);
	/* The array of pointers may have moved, what they point to has not. */
	if (item) {
		item->r = from->r;
		item->r.proved = false;
		note_found(p, item);
	}
}

void pythons_lost(struct pythons *p, __u32 tgid)
{
	struct process *item = p ? find(p, tgid) : NULL;

	if (item)
		item->lost = p->any_lost = true;
}

static void find_lost(struct pythons *p, __u64 now)
{
	p->any_lost = false;
	for (size_t i = 0; i < p->n; i++) {
		struct process *item = p->items[i];

		if (!item->lost || !p->c.session || item->r.state != PYTHONS_FOUND)
			continue;
		if (item->hints_ns <= now && p->spent_ns < LIMIT_NS)
			give_hints(p, item);
		p->any_lost |= item->lost;
	}
}

void pythons_again(struct pythons *p)
{
	const __u64 now = monotonic_ns();
	__u64 due = NEVER;

	if (!p)
		return;
	if (p->any_lost)
		find_lost(p, now);
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
	p->spent_ns = 0;
	try_process(p, item);
	return item->r.unfinished || (item->r.state == PYTHONS_WAITING && item->n_doubts);
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

	if (!item || (item->r.state != PYTHONS_FOUND && item->r.state != PYTHONS_WAITING))
		return 0;
	return item->r.of.module;
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
	out->second = p->n_second;
	for (size_t i = 0; i < p->n; i++)
		out->waiting += p->items[i]->r.state == PYTHONS_WAITING;
}
