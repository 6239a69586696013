// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Functions with frame pointers that spend their time in a C library without: whatever the library
 * does with the frame pointer register, no caller may be printed that is not one. Each function has
 * one caller: main -> group_NAME -> call_NAME -> library [-> callback_NAME].
 */
#include <fnmatch.h>
#include <math.h>
#include <regex.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <wchar.h>

#include "workload.h"

static volatile double number;
static char text[4096];

NODE int callback_qsort(const void *a, const void *b)
{
	burn(20);
	return *(const int *)a - *(const int *)b;
}

NODE int callback_bsearch(const void *a, const void *b)
{
	burn(30); /* else the compiler folds it into callback_qsort */
	return *(const int *)a - *(const int *)b;
}

NODE int callback_tsearch(const void *a, const void *b)
{
	burn(20);
	return strcmp(a, b);
}

NODE void call_qsort(void)
{
	int v[300];

	for (int i = 0; i < 300; i++)
		v[i] = (i * 7919) % 300;
	qsort(v, 300, sizeof(v[0]), callback_qsort);
	BARRIER();
}

NODE void call_bsearch(void)
{
	int v[300], key = 77;

	for (int i = 0; i < 300; i++)
		v[i] = i;
	for (int i = 0; i < 100; i++)
		number += *(int *)bsearch(&key, v, 300, sizeof(v[0]), callback_bsearch);
	BARRIER();
}

NODE void call_tsearch(void)
{
	static const char *const words[] = { "one", "two", "three", "four", "five", "six", "seven" };
	void *root = NULL;

	for (int i = 0; i < 7; i++)
		tsearch(words[i], &root, callback_tsearch);
	for (int i = 0; i < 7; i++)
		tdelete(words[i], &root, callback_tsearch);
	BARRIER();
}

NODE void call_snprintf(void)
{
	for (int i = 0; i < 40; i++)
		snprintf(text, sizeof(text), "%d %s %.17g %x", i, "abc", number + i / 7.0, i);
	BARRIER();
}

NODE void call_sscanf(void)
{
	int a, b;
	double c;

	for (int i = 0; i < 40; i++)
		number += sscanf("12 34 5.678e3", "%d %d %lf", &a, &b, &c);
	BARRIER();
}

NODE void call_strtod(void)
{
	for (int i = 0; i < 100; i++)
		number += strtod("3.14159265358979323846264338327950288e-5", NULL);
	BARRIER();
}

NODE void call_malloc(void)
{
	void *p[64];

	for (int i = 0; i < 64; i++)
		p[i] = malloc(16 + i * 37);
	for (int i = 0; i < 64; i++)
		free(p[i]);
	BARRIER();
}

NODE void call_regexec(void)
{
	regex_t r;

	if (regcomp(&r, "(a|b)*c[0-9]+", REG_EXTENDED))
		return;
	for (int i = 0; i < 4; i++)
		number += regexec(&r, "abababababababc123", 0, NULL, 0);
	regfree(&r);
	BARRIER();
}

NODE void call_memmove(void)
{
	for (int i = 0; i < 200; i++)
		memmove(text, text + i % 64, 3000);
	BARRIER();
}

NODE void call_strlen(void)
{
	memset(text, 'x', sizeof(text) - 1);
	for (int i = 0; i < 100; i++)
		number += strlen(text + i) + (strchr(text, 'y') != NULL);
	BARRIER();
}

NODE void call_strftime(void)
{
	struct tm tm = { .tm_year = 126, .tm_mon = 10, .tm_mday = 30 };

	for (int i = 0; i < 40; i++)
		number += strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S %A", &tm) + mktime(&tm);
	BARRIER();
}

NODE void call_fnmatch(void)
{
	for (int i = 0; i < 60; i++)
		number += fnmatch("a*b*c[0-9]", "axxbxxbxxc7", 0);
	BARRIER();
}

#define GROUP(name)                                                                                \
	NODE void group_##name(void)                                                               \
	{                                                                                          \
		char room[200];                                                                    \
                                                                                                   \
		memset(room, 1, sizeof(room));                                                     \
		__asm__ volatile("" : : "r"(room) : "memory");                                     \
		call_##name();                                                                     \
		BARRIER();                                                                         \
	}

GROUP(qsort)
GROUP(bsearch)
GROUP(tsearch)
GROUP(snprintf)
GROUP(sscanf)
GROUP(strtod)
GROUP(malloc)
GROUP(regexec)
GROUP(memmove)
GROUP(strlen)
GROUP(strftime)
GROUP(fnmatch)

int main(void)
{
	ready();
	for (;;) {
		group_qsort();
		group_bsearch();
		group_tsearch();
		group_snprintf();
		group_sscanf();
		group_strtod();
		group_malloc();
		group_regexec();
		group_memmove();
		group_strlen();
		group_strftime();
		group_fnmatch();
		BARRIER();
	}
}
