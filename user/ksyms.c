/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Kernel addresses to function names, from the text of /proc/kallsyms. Symbols there have no size:
 * a function reaches to the next symbol, of whatever type, so data symbols are kept as ends.
 */
#include "ksyms.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "array.h"

#define MAX_TEXT (256u << 20)	/* 20 times that of a kernel with every module loaded */

struct ksym {
	__u64 addr;
	__u32 name;		/* offset in names; NO_NAME: not a function */
	__u8 rank;		/* 0 is best */
};

#define NO_NAME (~0u)

struct ksyms {
	struct ksym *syms;	/* by address, one per address */
	size_t n;
	size_t cap;
	char *names;
	bool hidden;
};

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

/* "ADDRESS TYPE NAME[\t[MODULE]]". Return: length of the name, 0 if it is no such line. */
static size_t parse_line(const char *line, size_t len, __u64 *addr, char *type, const char **name)
{
	size_t i = 0, start;

	*addr = 0;
	for (; i < len && hex_digit(line[i]) >= 0; i++)
		*addr = *addr << 4 | (__u64)hex_digit(line[i]);
	if (i == 0 || i > 16 || len - i < 4 || line[i] != ' ' || line[i + 2] != ' ')
		return 0;
	*type = line[i + 1];
	start = i += 3;
	while (i < len && line[i] != '\t' && line[i] != ' ')
		i++;
	*name = line + start;
	return i - start;
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

static int add(struct ksyms *k, __u64 addr, char type, __u32 name)
{
	struct ksym *grown = array_grow(k->syms, &k->cap, k->n + 1, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	k->syms = grown;
	k->syms[k->n++] = (struct ksym){ .addr = addr, .name = name, .rank = rank_of(type) };
	return 0;
}

static int parse(struct ksyms *k, const char *text, size_t len)
{
	size_t names_len = 0, n_lines = 0;

	for (size_t at = 0; at < len;) {
		const char *eol = memchr(text + at, '\n', len - at);
		size_t line_len = eol ? (size_t)(eol - (text + at)) : len - at;
		const char *name;
		__u64 addr;
		char type;
		size_t name_len = parse_line(text + at, line_len, &addr, &type, &name);
		__u32 name_at = NO_NAME;

		at += line_len + 1;
		if (!name_len)
			continue;
		n_lines++;
		/* 'a': absolute, not an address. Zero: hidden from us (kptr_restrict). */
		if (!addr || type == 'a' || type == 'A')
			continue;
		if (is_function(type)) {
			/* Fits: a name is shorter than its line. */
			name_at = (__u32)names_len;
			memcpy(k->names + names_len, name, name_len);
			names_len += name_len;
			k->names[names_len++] = '\0';
		}
		if (add(k, addr, type, name_at))
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
	return k;
}

struct ksyms *ksyms_load(void)
{
	int fd = open("/proc/kallsyms", O_RDONLY | O_CLOEXEC);
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
	size_t lo = 0, hi = k->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (k->syms[mid].addr <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (!lo || k->syms[lo - 1].name == NO_NAME)
		return NULL;
	return k->names + k->syms[lo - 1].name;
}
