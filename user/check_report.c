// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "check_report.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "array.h"

#define WIDTH 79
#define STATE_COLUMN 2
#define SUBJECT_COLUMN 14
#define TEXT_COLUMN 34

struct finding {
	char *group, *subject, *text;
	char *advice;		/* NULL: none */
	enum check_state state;
};

struct check_report {
	struct finding *findings;
	size_t n, cap;
	char *group;		/* of what is added next */
	bool failed;		/* out of memory: something is missing */
};

struct check_report *check_report_new(void)
{
	return calloc(1, sizeof(struct check_report));
}

static void free_finding(struct finding *f)
{
	free(f->group);
	free(f->subject);
	free(f->text);
	free(f->advice);
}

void check_report_free(struct check_report *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->n; i++)
		free_finding(&r->findings[i]);
	free(r->findings);
	free(r->group);
	free(r);
}

static char *format(const char *fmt, va_list args)
{
	char *text;

	return vasprintf(&text, fmt, args) < 0 ? NULL : text;
}

void check_group(struct check_report *r, const char *fmt, ...)
{
	va_list args;

	free(r->group);
	va_start(args, fmt);
	r->group = format(fmt, args);
	va_end(args);
}

void check_add(struct check_report *r, enum check_state state, const char *subject,
	       const char *advice, const char *fmt, ...)
{
	struct finding f = { .state = state }, *grown;
	va_list args;

	va_start(args, fmt);
	f.text = format(fmt, args);
	va_end(args);
	f.group = r->group ? strdup(r->group) : NULL;
	f.subject = strdup(subject);
	f.advice = advice ? strdup(advice) : NULL;
	grown = array_grow(r->findings, &r->cap, r->n + 1, sizeof(*grown));
	if (grown)
		r->findings = grown;
	if (!grown || !f.text || !f.group || !f.subject || (advice && !f.advice)) {
		free_finding(&f);
		r->failed = true;
		return;
	}
	grown[r->n++] = f;
}

enum check_state check_verdict(const struct check_report *r)
{
	enum check_state worst = CHECK_FINE;

	for (size_t i = 0; i < r->n; i++)
		if (r->findings[i].state > worst)
			worst = r->findings[i].state;
	return worst;
}

const char *check_state_name(enum check_state state)
{
	static const char *const names[] = { "fine", "degraded", "impossible" };

	return names[state];
}

/* Bytes of @text that fit into @room columns of UTF-8, cut at a blank where there is one. */
static size_t fitting(const char *text, int room)
{
	size_t at = 0, blank = 0;
	int columns = 0;

	for (; text[at]; at++) {
		bool starts = ((unsigned char)text[at] & 0xc0) != 0x80;

		if (starts && columns++ == room)
			return blank ? blank : at;
		if (text[at] == ' ')
			blank = at;
	}
	return at;
}

/* @text in lines that begin at @column; the first one is there already. */
static void put_wrapped(FILE *f, const char *text, int column)
{
	for (;;) {
		size_t len = fitting(text, WIDTH - column);

		fwrite(text, 1, len, f);
		fputc('\n', f);
		text += len;
		text += strspn(text, " ");
		if (!*text)
			return;
		fprintf(f, "%*s", column, "");
	}
}

static int columns_of(const char *text)
{
	int n = 0;

	for (; *text; text++)
		n += ((unsigned char)*text & 0xc0) != 0x80;
	return n;
}

static void put_finding(FILE *f, const struct finding *x)
{
	int left = TEXT_COLUMN - SUBJECT_COLUMN - columns_of(x->subject);

	fprintf(f, "%*s%-*s", STATE_COLUMN, "", SUBJECT_COLUMN - STATE_COLUMN,
		check_state_name(x->state));
	if (left > 0) {
		fprintf(f, "%s%*s", x->subject, left, "");
	} else {
		put_wrapped(f, x->subject, SUBJECT_COLUMN);
		fprintf(f, "%*s", TEXT_COLUMN, "");
	}
	put_wrapped(f, x->text, TEXT_COLUMN);
}

static void put_advice(FILE *f, const struct finding *x)
{
	fprintf(f, "%*s-> ", TEXT_COLUMN, "");
	put_wrapped(f, x->advice, TEXT_COLUMN + 3);
}

/* Findings that follow one another and have the same advice get it once, behind the last. */
static bool says_the_same(const struct finding *a, const struct finding *b)
{
	return b && a->state == b->state && b->advice && !strcmp(a->advice, b->advice) &&
	       !strcmp(a->group, b->group);
}

static void put_verdict(const struct check_report *r, FILE *f)
{
	size_t n = 0;

	for (size_t i = 0; i < r->n; i++)
		n += r->findings[i].state != CHECK_FINE;
	fprintf(f, "\nverdict: %s", check_state_name(check_verdict(r)));
	switch (check_verdict(r)) {
	case CHECK_FINE:
		fputs(": nothing is in the way\n", f);
		break;
	case CHECK_DEGRADED:
		fprintf(f, ": it can be sampled; %zu finding%s what will be missing\n", n,
			n == 1 ? " says" : "s say");
		break;
	case CHECK_IMPOSSIBLE:
		fputs(": it cannot be sampled as it is\n", f);
		break;
	}
}

struct sorted {
	const struct finding *finding;
	size_t group;		/* index of its group's first finding */
};

/* Groups in the order they were begun; in each the worst first, else in the order of addition. */
static int compare(const void *a, const void *b)
{
	const struct sorted *x = a, *y = b;

	if (x->group != y->group)
		return x->group < y->group ? -1 : 1;
	if (x->finding->state != y->finding->state)
		return x->finding->state > y->finding->state ? -1 : 1;
	return x->finding < y->finding ? -1 : x->finding > y->finding;
}

/* Return: the findings in order, malloc'd, or NULL. */
static struct sorted *sort(const struct check_report *r)
{
	struct sorted *s = calloc(r->n + 1, sizeof(*s));
	size_t group = 0;

	for (size_t i = 0; s && i < r->n; i++) {
		if (strcmp(r->findings[group].group, r->findings[i].group))
			group = i;
		s[i] = (struct sorted){ &r->findings[i], group };
	}
	if (s)
		qsort(s, r->n, sizeof(*s), compare);
	return s;
}

static int flushed(FILE *f)
{
	return fflush(f) || ferror(f) ? -EIO : 0;
}

int check_write_text(const struct check_report *r, FILE *f)
{
	struct sorted *s = r->failed ? NULL : sort(r);

	if (!s)
		return -ENOMEM;
	for (size_t i = 0; i < r->n; i++) {
		const struct finding *x = s[i].finding, *next = s[i + 1].finding;

		if (!i || s[i].group != s[i - 1].group)
			fprintf(f, "%s%s\n", i ? "\n" : "", x->group);
		put_finding(f, x);
		if (x->advice && !says_the_same(x, next))
			put_advice(f, x);
	}
	put_verdict(r, f);
	free(s);
	return flushed(f);
}

static json_t *finding_json(const struct finding *x)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:s}", "group", x->group, "subject", x->subject,
			 "state", check_state_name(x->state), "text", x->text, "advice",
			 x->advice ? x->advice : "");
}

int check_write_json(const struct check_report *r, FILE *f)
{
	struct sorted *s = r->failed ? NULL : sort(r);
	json_t *list = json_array(), *root;
	int err = s && list ? 0 : -ENOMEM;

	for (size_t i = 0; !err && i < r->n; i++)
		if (json_array_append_new(list, finding_json(s[i].finding)))
			err = -ENOMEM;
	free(s);
	/* json_pack() takes @list over, also on failure. */
	root = json_pack("{s:s, s:o}", "verdict", check_state_name(check_verdict(r)), "findings",
			 list);
	if (!root)
		err = -ENOMEM;
	if (!err && (json_dumpf(root, f, JSON_INDENT(2)) || fputc('\n', f) == EOF))
		err = -EIO;
	json_decref(root);
	return err ? err : flushed(f);
}
