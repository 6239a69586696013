// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Folded stacks: "comm;root;...;leaf COUNT", one line per stack, as flamegraph.pl, inferno and
 * speedscope read them: cut at the last space, then at each ';'. Names are escaped, so that no name
 * can make a frame or a line.
 */
#include "writer.h"

#include <errno.h>
#include <string.h>

#include "escape.h"

#define UNKNOWN "[unknown]"
#define KERNEL_SUFFIX "_[k]" /* what flamegraph.pl's palettes look for */
#define INLINED_SUFFIX "_[i]"

static int folded_begin(FILE *f, const struct writer_options *o)
{
	return 0;
}

/* An empty field would vanish: readers drop empty frames, and a line may not begin with ';'. */
static int put_name(FILE *f, const char *name)
{
	if (!name || !*name)
		name = UNKNOWN;
	return escape_write(f, name, strlen(name));
}

static int put_thread(FILE *f, const struct writer_stack *s)
{
	int err = put_name(f, s->comm);

	if (err || !s->pid)
		return err;
	if (fprintf(f, "-%u", s->pid) < 0 || (s->tid && fprintf(f, "/%u", s->tid) < 0))
		return -errno;
	return 0;
}

static int put_frame(FILE *f, const struct writer_options *o, const struct frame *frame)
{
	int err;

	if (fputc(';', f) == EOF)
		return -errno;
	err = put_name(f, frame->name);
	if (err)
		return err;
	if (o->annotate && frame->kind == FRAME_KERNEL && fputs(KERNEL_SUFFIX, f) == EOF)
		return -errno;
	if (frame->kind == FRAME_INLINED && fputs(INLINED_SUFFIX, f) == EOF)
		return -errno;
	return 0;
}

static int folded_stack(FILE *f, const struct writer_options *o, const struct writer_stack *s)
{
	int err = put_thread(f, s);

	for (size_t i = s->n_frames; i > 0 && !err; i--)
		err = put_frame(f, o, &s->frames[i - 1]);
	if (err)
		return err;
	if (fprintf(f, " %llu\n", (unsigned long long)s->count) < 0)
		return -errno;
	return 0;
}

static int folded_end(FILE *f, const struct writer_options *o)
{
	return fflush(f) ? -errno : 0;
}

const struct writer writer_folded = {
	.name = "folded",
	.help = "comm;root;...;leaf COUNT, one line per stack",
	.begin = folded_begin,
	.stack = folded_stack,
	.end = folded_end,
};
