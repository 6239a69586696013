/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "jitdump.h"

#include <string.h>

#include "arch.h"
#include "reader.h"

#define MAGIC 0x4a695444	/* "JiTD" as a number, in the writer's byte order */
#define MAGIC_SWAPPED 0x4454694a
#define VERSION 1
#define HEADER_SIZE 40
#define RECORD_HEADER_SIZE 16
#define CODE_LOAD_SIZE 56	/* with the header, without the name */
#define FLAG_ARCH_TIMESTAMP 1

enum record_id { CODE_LOAD = 0, CODE_MOVE = 1 };

struct record {
	__u32 id;
	__u32 size;
	__u64 time;
};

void jitdump_fini(struct jitdump *d)
{
	code_ranges_fini(&d->ranges);
	*d = (struct jitdump){ 0 };
}

static __u64 parse_header(struct jitdump *d, const void *bytes, size_t len)
{
	struct reader r = { .at = bytes, .end = (const unsigned char *)bytes + len };
	__u32 magic, version, size, machine;

	if (len < HEADER_SIZE)
		return 0;
	magic = reader_u32(&r);
	version = reader_u32(&r);
	size = reader_u32(&r);
	machine = reader_u32(&r);
	reader_take(&r, 16);	/* padding, process id, time */
	d->has_times = !(reader_u64(&r) & FLAG_ARCH_TIMESTAMP);
	if (magic == MAGIC_SWAPPED)
		d->problem = "it is of the other byte order";
	else if (magic != MAGIC || size < HEADER_SIZE)
		d->problem = "it is not a jitdump file";
	else if (version != VERSION)
		d->problem = "its version is not 1";
	else if (machine != ARCH_ELF_MACHINE)
		d->problem = "it is of another machine";
	d->has_header = !d->problem;
	return d->problem ? 0 : size;
}

static void add(struct jitdump *d, __u64 start, __u64 size, __u64 time, const char *name)
{
	if (code_ranges_add(&d->ranges, start, size, d->has_times ? time : 0, name, strlen(name)))
		d->n_dropped++;
}

/* Process, thread, virtual address (the code's), code's address, its size, number, name, code. */
static void parse_load(struct jitdump *d, struct reader *r, const struct record *rec)
{
	const unsigned char *end;
	__u64 start, size;

	reader_take(r, 16);
	start = reader_u64(r);
	size = reader_u64(r);
	reader_u64(r);
	end = memchr(r->at, '\0', reader_left(r));
	if (r->bad || !end || end == r->at)
		d->n_dropped++;
	else
		add(d, start, size, rec->time, (const char *)r->at);
}

/* Process, thread, virtual address, old address of the code, its new one, its size, number. */
static void parse_move(struct jitdump *d, struct reader *r, const struct record *rec)
{
	char name[CODE_RANGES_MAX_NAME + 1];
	const char *found;
	__u64 from, to, size;

	reader_take(r, 16);
	from = reader_u64(r);
	to = reader_u64(r);
	size = reader_u64(r);
	found = r->bad ? NULL : jitdump_find(d, from, rec->time);
	if (!found) {
		d->n_dropped++;
		return;
	}
	/* A copy: the names move when one is added. */
	strcpy(name, found);
	add(d, from, size, rec->time, "");
	add(d, to, size, rec->time, name);
}

/* The part of a record that is looked at. */
static size_t needed(const struct record *rec)
{
	size_t most = rec->id == CODE_LOAD ? CODE_LOAD_SIZE + 4096 :
		      rec->id == CODE_MOVE ? 64 :
					     RECORD_HEADER_SIZE;

	return rec->size < most ? rec->size : most;
}

static __u64 parse_record(struct jitdump *d, const unsigned char *bytes, size_t len)
{
	struct reader r = { .at = bytes, .end = bytes + len };
	struct record rec;

	if (len < RECORD_HEADER_SIZE)
		return 0;
	rec.id = reader_u32(&r);
	rec.size = reader_u32(&r);
	rec.time = reader_u64(&r);
	/* Room that is written to later has zeros. */
	if (!rec.size)
		return 0;
	if (rec.size < RECORD_HEADER_SIZE) {
		d->problem = "a record of it is too short";
		return 0;
	}
	if (len < needed(&rec))
		return 0;
	r.end = bytes + needed(&rec);
	if (rec.id == CODE_LOAD)
		parse_load(d, &r, &rec);
	if (rec.id == CODE_MOVE)
		parse_move(d, &r, &rec);
	return rec.size;
}

__u64 jitdump_parse(struct jitdump *d, const void *bytes, size_t len)
{
	const unsigned char *at = bytes;
	__u64 done = 0, n;

	do {
		size_t left = len - (size_t)done;

		if (d->problem)
			break;
		n = d->has_header ? parse_record(d, at + done, left) :
				    parse_header(d, at + done, left);
		done += n;
	} while (n && done < len);
	return done;
}

const char *jitdump_find(struct jitdump *d, __u64 addr, __u64 time_ns)
{
	return code_ranges_find(&d->ranges, addr, d->has_times ? time_ns : 0);
}
