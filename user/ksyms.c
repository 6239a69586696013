/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Kernel addresses to function names, from the text of /proc/kallsyms. Symbols there have no size:
 * a function reaches to the next symbol, of whatever type, so data symbols are kept as ends. Between
 * the kernel, its modules and BPF programs there may be code that is in no list (a seccomp filter
 * never is), so a name is not lent from one of them to another, and what is loaded alone ends with
 * its page, BPF programs where the kernel says that they end.
 */
#include "ksyms.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arch.h"
#include "array.h"
#include "monotonic.h"

/* kallsyms takes a tenth of a second to read. */
#define KALLSYMS "/proc/kallsyms"

#define REREAD_EVERY_NS 1000000000ULL
#define REREAD_SHARE 50

#define MAX_BPF_PROGRAMS 100000
#define MAX_BPF_FUNCTIONS 256	/* of one program; BPF_MAX_SUBPROGS, include/linux/bpf_verifier.h */

#define MAX_TEXT (256u << 20)	/* 20 times that of a kernel with every module loaded */

struct ksym {
	__u64 addr;
	__u64 end;
	__u32 name;		/* offset in names; NO_NAME: not a function */
	__u32 group;		/* hash of "[MODULE]"; 0: the kernel itself */
	__u8 rank;		/* 0 is best */
	bool code;		/* a function, or the end of the last one */
	bool alone;		/* each of its group is allocated for itself */
	bool bpf;		/* how long it is the kernel says elsewhere */
};

#define NO_NAME (~0u)

struct ksyms {
	struct ksym *syms;	/* by address, one per address */
	size_t n;
	size_t cap;
	char *names;
	bool hidden;
	const char *path;	/* NULL: there is nothing to read again */
	__u64 loaded_ns;	/* first, */
	__u64 read_ns;		/* last, */
	__u64 spent_ns;		/* and how long the readings since the first took */
};

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

struct line {
	__u64 addr;
	char type;
	const char *name;
	size_t name_len;
	const char *module;	/* "[MODULE]" */
	size_t module_len;
};

/* "ADDRESS TYPE NAME[\t[MODULE]]" */
static bool parse_line(const char *text, size_t len, struct line *l)
{
	size_t i = 0, start;

	l->addr = 0;
	for (; i < len && hex_digit(text[i]) >= 0; i++)
		l->addr = l->addr << 4 | (__u64)hex_digit(text[i]);
	if (i == 0 || i > 16 || len - i < 4 || text[i] != ' ' || text[i + 2] != ' ')
		return false;
	l->type = text[i + 1];
	start = i += 3;
	while (i < len && text[i] != '\t' && text[i] != ' ')
		i++;
	l->name = text + start;
	l->name_len = i - start;
	while (i < len && (text[i] == '\t' || text[i] == ' '))
		i++;
	l->module = text + i;
	l->module_len = len - i;
	return l->name_len;
}

static bool begins_with(const char *text, size_t len, const char *with)
{
	return len >= strlen(with) && !memcmp(text, with, strlen(with));
}

static bool is_bpf(const struct line *l)
{
	return begins_with(l->module, l->module_len, "[bpf]");
}

/* FNV-1a; which module it is does not matter, only that it is another. */
static __u32 group_of(const struct line *l)
{
	__u32 hash = 2166136261u;

	if (!l->module_len)
		return 0;
	for (size_t i = 0; i < l->module_len; i++)
		hash = (hash ^ (unsigned char)l->module[i]) * 16777619u;
	return hash ? hash : 1;
}

static bool is_named(const struct line *l, const char *name)
{
	return l->name_len == strlen(name) && !memcmp(l->name, name, l->name_len);
}

/* The ends of the kernel's text are no functions. */
static bool is_end(const struct line *l)
{
	return !l->module_len && (is_named(l, "_etext") || is_named(l, "_einittext"));
}

/* "bpf_prog_TAG_rprof_..." */
static bool is_ours(const struct line *l)
{
	static const char prefix[] = "bpf_prog_0123456789abcdef_";
	static const char ours[] = "rprof_";

	return is_bpf(l) && l->name_len > sizeof(prefix) - 1 + sizeof(ours) - 1 &&
	       !memcmp(l->name + sizeof(prefix) - 1, ours, sizeof(ours) - 1);
}

static __u8 rank_of(char type)
{
	switch (type) {
	case 'T':
		return 0;
	case 'W':
	case 'w':
		return 1;
	default:
		return 2;
	}
}

static bool is_function(char type)
{
	return type == 't' || type == 'T' || type == 'w' || type == 'W';
}

/* Of names of one address the one that is least an implementation detail comes first. */
static int by_address(const void *pa, const void *pb, void *names)
{
	const struct ksym *a = pa, *b = pb;
	const char *x, *y;
	size_t ux, uy;

	if (a->addr != b->addr)
		return a->addr < b->addr ? -1 : 1;
	if (a->name == NO_NAME || b->name == NO_NAME)
		return (a->name == NO_NAME) - (b->name == NO_NAME);
	if (a->rank != b->rank)
		return a->rank < b->rank ? -1 : 1;
	x = (const char *)names + a->name;
	y = (const char *)names + b->name;
	ux = strspn(x, "_");
	uy = strspn(y, "_");
	if (ux != uy)
		return ux < uy ? -1 : 1;
	if (strlen(x) != strlen(y))
		return strlen(x) < strlen(y) ? -1 : 1;
	return strcmp(x, y);
}

static void keep_first_of_each_address(struct ksyms *k)
{
	size_t n = 0;

	for (size_t i = 0; i < k->n; i++) {
		if (n && k->syms[n - 1].addr == k->syms[i].addr)
			continue;
		k->syms[n++] = k->syms[i];
	}
	k->n = n;
}

/*
 * Of every symbol, once they are sorted. BPF code shares its pages from 5.18 on (bpf_prog_pack), also
 * with code that is in no list, as filters of seccomp are.
 */
static void find_ends(struct ksyms *k)
{
	for (size_t i = 0; i < k->n; i++) {
		struct ksym *s = &k->syms[i];
		const struct ksym *next = i + 1 < k->n ? s + 1 : NULL;

		s->end = (s->addr | (ARCH_PAGE_SIZE - 1)) + 1;
		if (s->end < s->addr)
			s->end = ~0ULL;
		if (s->bpf)
			s->end = s->addr + 1;
		/* Within one piece of code functions follow one another. */
		if (next &&
		    ((next->group == s->group && !s->alone && next->code) || next->addr < s->end))
			s->end = next->addr;
	}
}

static int add(struct ksyms *k, const struct line *l, __u32 name)
{
	struct ksym *grown = array_grow(k->syms, &k->cap, k->n + 1, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	k->syms = grown;
	k->syms[k->n++] = (struct ksym){
		.addr = l->addr,
		.name = name,
		.group = group_of(l),
		.rank = rank_of(l->type),
		.code = is_function(l->type),
		.bpf = is_bpf(l),
		.alone = is_bpf(l) || begins_with(l->module, l->module_len, "[__builtin__"),
	};
	return 0;
}

static int parse(struct ksyms *k, const char *text, size_t len)
{
	size_t names_len = 0, n_lines = 0;

	for (size_t at = 0; at < len;) {
		const char *eol = memchr(text + at, '\n', len - at);
		size_t line_len = eol ? (size_t)(eol - (text + at)) : len - at;
		__u32 name_at = NO_NAME;
		struct line l;
		bool found = parse_line(text + at, line_len, &l);

		at += line_len + 1;
		if (!found)
			continue;
		n_lines++;
		/* 'a': absolute, not an address. Zero: hidden from us (kptr_restrict). */
		if (!l.addr || l.type == 'a' || l.type == 'A')
			continue;
		if (is_function(l.type) && !is_end(&l) && !is_ours(&l)) {
			/* Fits: a name is shorter than its line. */
			name_at = (__u32)names_len;
			memcpy(k->names + names_len, l.name, l.name_len);
			names_len += l.name_len;
			k->names[names_len++] = '\0';
		}
		if (add(k, &l, name_at))
			return -ENOMEM;
	}
	k->hidden = n_lines && !k->n;
	return 0;
}

struct ksyms *ksyms_parse(const char *text, size_t len)
{
	struct ksyms *k;

	if (len > MAX_TEXT) {
		errno = EFBIG;
		return NULL;
	}
	k = calloc(1, sizeof(*k));
	if (!k)
		return NULL;
	k->names = malloc(len + 1);
	if (!k->names || parse(k, text, len)) {
		ksyms_free(k);
		errno = ENOMEM;
		return NULL;
	}
	if (k->n)
		qsort_r(k->syms, k->n, sizeof(*k->syms), by_address, k->names);
	keep_first_of_each_address(k);
	find_ends(k);
	return k;
}

static struct ksym *last_not_above(const struct ksyms *k, __u64 addr)
{
	size_t lo = 0, hi = k->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (k->syms[mid].addr <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo ? &k->syms[lo - 1] : NULL;
}

/* The functions of one BPF program, as the kernel translated them. */
static void measure_bpf_program(struct ksyms *k, int fd)
{
	static __u64 addrs[MAX_BPF_FUNCTIONS];
	static __u32 sizes[MAX_BPF_FUNCTIONS];
	struct bpf_prog_info info = {
		.jited_ksyms = (size_t)addrs,
		.nr_jited_ksyms = MAX_BPF_FUNCTIONS,
		.jited_func_lens = (size_t)sizes,
		.nr_jited_func_lens = MAX_BPF_FUNCTIONS,
	};
	__u32 len = sizeof(info);

	if (bpf_obj_get_info_by_fd(fd, &info, &len) ||
	    info.nr_jited_ksyms != info.nr_jited_func_lens)
		return;
	for (__u32 i = 0; i < info.nr_jited_ksyms && i < MAX_BPF_FUNCTIONS; i++) {
		struct ksym *s = addrs[i] ? last_not_above(k, addrs[i]) : NULL;

		if (s && s->alone && s->addr == addrs[i])
			s->end = addrs[i] + sizes[i];
	}
}

/*
 * Without CAP_SYS_ADMIN they are not ours to list, and one may be gone since its name was read: of
 * these nothing but the first byte is known.
 */
static void measure_bpf_programs(struct ksyms *k)
{
	__u32 id = 0;

	for (int i = 0; i < MAX_BPF_PROGRAMS && !bpf_prog_get_next_id(id, &id); i++) {
		int fd = bpf_prog_get_fd_by_id(id);

		if (fd < 0)
			continue;
		measure_bpf_program(k, fd);
		close(fd);
	}
}

static struct ksyms *read_table(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct ksyms *k = NULL;
	size_t len = 0, cap = 0;
	char *text = NULL;
	ssize_t n;
	int err;

	if (fd < 0)
		return NULL;
	do {
		char *grown = array_grow(text, &cap, len + (1 << 20), 1);

		if (!grown || len > MAX_TEXT) {
			errno = ENOMEM;
			n = -1;
			break;
		}
		text = grown;
		n = read(fd, text + len, cap - len);
		if (n > 0)
			len += (size_t)n;
	} while (n > 0 || (n < 0 && errno == EINTR));
	if (n == 0)
		k = ksyms_parse(text, len);
	err = errno;
	free(text);
	close(fd);
	errno = err;
	return k;
}

struct ksyms *ksyms_load_file(const char *path)
{
	struct ksyms *k = read_table(path);

	if (k) {
		k->path = path;
		k->loaded_ns = k->read_ns = monotonic_ns();
	}
	return k;
}

/*
 * Are addresses shown as 0? All of them are then. On x86 before 6.15 the first ones are 0 anyway:
 * they count from the start of a CPU's data.
 */
static bool shows_no_addresses(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char text[4096], *line = text, *end;
	ssize_t n;

	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	for (; (end = strchr(line, '\n')); line = end + 1)
		if (strspn(line, "0") < 16)
			return false;
	return n > 0;
}

struct ksyms *ksyms_open(void)
{
	struct ksyms *k = calloc(1, sizeof(*k));

	if (!k)
		return NULL;
	k->path = KALLSYMS;
	k->hidden = shows_no_addresses(KALLSYMS);
	k->loaded_ns = monotonic_ns();
	return k;
}

void ksyms_free(struct ksyms *k)
{
	if (!k)
		return;
	free(k->syms);
	free(k->names);
	free(k);
}

bool ksyms_hidden(const struct ksyms *k)
{
	return k->hidden;
}

const char *ksyms_find(const struct ksyms *k, __u64 addr)
{
	const struct ksym *s = last_not_above(k, addr);

	return s && addr < s->end && s->name != NO_NAME ? k->names + s->name : NULL;
}

static bool may_read_again(const struct ksyms *k)
{
	__u64 now = monotonic_ns();

	if (k->path && !k->hidden && !k->read_ns)
		return true;
	return k->path && !k->hidden && now - k->read_ns >= REREAD_EVERY_NS &&
	       k->spent_ns <= (now - k->loaded_ns) / REREAD_SHARE;
}

/* In place; what was there stays if it cannot be read. */
static void read_again(struct ksyms *k)
{
	__u64 start = monotonic_ns();
	struct ksyms *fresh = read_table(k->path);

	if (fresh && fresh->n) {
		struct ksyms old = *k;

		measure_bpf_programs(fresh);
		k->syms = fresh->syms;
		k->n = fresh->n;
		k->cap = fresh->cap;
		k->names = fresh->names;
		fresh->syms = old.syms;
		fresh->names = old.names;
	}
	ksyms_free(fresh);
	if (k->read_ns)
		k->spent_ns += monotonic_ns() - start;
	k->read_ns = monotonic_ns();
}

struct ksyms *ksyms_load(void)
{
	struct ksyms *k = ksyms_open();

	if (k && !k->hidden)
		read_again(k);
	return k;
}

const char *ksyms_look(struct ksyms *k, __u64 addr)
{
	const struct ksym *s = last_not_above(k, addr);

	if ((s && addr < s->end) || !may_read_again(k))
		return ksyms_find(k, addr);
	read_again(k);
	return ksyms_find(k, addr);
}
