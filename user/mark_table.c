// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "mark_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "strset.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

void mark_table_init(struct mark_table *t, struct strset *strings)
{
	memset(t, 0, sizeof(*t));
	t->strings = strings;
	idmap_init(&t->by_mark);
}

void mark_table_fini(struct mark_table *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->marks[i]);
	free(t->marks);
	idmap_fini(&t->by_mark);
}

static int intern(struct mark_table *t, const char *kind, const char *module,
		  const struct resolve_mark **out)
{
	struct resolve_mark **grown;
	struct resolve_mark *mark;
	__u32 i;

	kind = strset_add(t->strings, kind);
	module = strset_add(t->strings, module);
	if (!kind || !module)
		return -ENOMEM;
	if (idmap_find(&t->by_mark, (size_t)kind, (size_t)module, &i)) {
		*out = t->marks[i];
		return 0;
	}
	grown = array_grow(t->marks, &t->cap, t->n + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	t->marks = grown;
	mark = malloc(sizeof(*mark));
	if (!mark)
		return -ENOMEM;
	*mark = (struct resolve_mark){ .kind = kind, .module = module };
	*out = t->marks[t->n] = mark;
	return idmap_put(&t->by_mark, (size_t)kind, (size_t)module, (__u32)t->n++);
}

int mark_table_note(struct mark_table *t, struct resolved_stack *stack, const char *kind,
		    const char *module)
{
	const struct resolve_mark *mark;
	int err = intern(t, kind, module, &mark);

	if (err)
		return err;
	for (size_t i = 0; i < stack->n_marks; i++) {
		if (stack->marks[i] == mark)
			return 0;
	}
	if (stack->n_marks < ARRAY_SIZE(stack->marks))
		stack->n_marks++;
	stack->marks[stack->n_marks - 1] = mark;
	return 0;
}
