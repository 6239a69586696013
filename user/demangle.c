/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * libiberty trusts its input: a few bytes make it print gigabytes (references to what has
 * references), or search for ages (its parser for D takes back what it tried, at every level). So
 * each name gets a fixed buffer and a limit of CPU time. No signal of ours is left pending, and no
 * handler is called but while a name is made.
 */
#include "demangle.h"

#include <ctype.h>
#include <libiberty/demangle.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX_NAME 65536
#define MAX_MANGLED 8192	/* libiberty refuses C++ beyond 1,024 by itself */
#define MAX_D_DEPTH 8192	/* 2.5 MiB of its stack at most, as measured */
#define LIMIT_NS 50000000
/* As addr2line -C: parameters and const, no hashes and inline namespaces spelled out. */
#define FLAGS (DMGL_PARAMS | DMGL_ANSI)

struct job {
	volatile sig_atomic_t is_over;	/* too much: whatever comes out is not the name */
	bool may_jump;			/* what runs has nothing to free */
	sigjmp_buf out;
	size_t len;
	char mangled[MAX_MANGLED + 1];
	char name[MAX_NAME];
};

/*
 * Ends the work on a name: at once, or, in code that has memory to free, by taking away the input.
 * Parsers look at each byte before they go past it, so all of them fail at the next one.
 */
static void give_up(struct job *job)
{
	job->is_over = true;
	if (job->may_jump)
		siglongjmp(job->out, 1);
	memset(job->mangled, 0, sizeof(job->mangled));
}

static void on_limit(int sig, siginfo_t *info, void *context)
{
	/* Somebody else may send the signal. */
	if (info->si_code == SI_TIMER)
		give_up(info->si_value.sival_ptr);
}

static void add_text(const char *text, size_t len, void *opaque)
{
	struct job *job = opaque;

	if (job->is_over)
		return;
	if (len >= MAX_NAME - job->len) {
		give_up(job);
		return;
	}
	/* Rust's demangler says nothing with a NULL. */
	if (len)
		memcpy(job->name + job->len, text, len);
	job->len += len;
}

static bool is_rust(struct job *job)
{
	return rust_demangle_callback(job->mangled, FLAGS, add_text, job);
}

static bool is_cxx(struct job *job)
{
	bool found = false;

	/* Its arrays are on the stack; nothing is lost by a jump out of it. */
	if (sigsetjmp(job->out, 1))
		return false;
	job->may_jump = true;
	found = cplus_demangle_v3_callback(job->mangled, FLAGS, add_text, job);
	job->may_jump = false;
	return found;
}

/* How far back the reference at @at points: digits to base 26, the last one in lower case. */
static size_t d_reference(const char *at)
{
	size_t distance = 0;

	while (*at >= 'A' && *at <= 'Z' && distance <= MAX_MANGLED)
		distance = distance * 26 + (size_t)(*at++ - 'A');
	if (*at < 'a' || *at > 'z')
		return 0;
	return distance * 26 + (size_t)(*at - 'a');
}

/*
 * How deep the parser for D may call itself: once for each byte that it goes on, and on from there
 * where a reference points to. A reference reads at most the text between there and itself, since
 * none is followed forward again. One to a digit is of an identifier, and only copied.
 */
static size_t d_depth(const char *mangled)
{
	size_t depth[MAX_MANGLED] = { 0 };	/* of the reference at an offset */
	size_t i = 0, max = 0;

	for (; mangled[i]; i++) {
		size_t distance = mangled[i] == 'Q' ? d_reference(mangled + i + 1) : 0;

		if (distance > i || isdigit((unsigned char)mangled[i - distance]))
			continue;
		for (size_t k = i - distance; k < i; k++) {
			if (depth[k] > depth[i])
				depth[i] = depth[k];
		}
		depth[i] += distance;
		if (depth[i] > max)
			max = depth[i];
	}
	return max + i;
}

static bool is_d(struct job *job)
{
	char *name;

	if (strncmp(job->mangled, "_D", 2) || d_depth(job->mangled) > MAX_D_DEPTH)
		return false;
	name = dlang_demangle(job->mangled, FLAGS);
	if (name)
		add_text(name, strlen(name), job);
	free(name);
	return name;
}

/* Rust first: its legacy names are C++ names too. */
static bool find_name(struct job *job)
{
	static bool (*const languages[])(struct job *) = { is_rust, is_cxx, is_d };

	for (size_t i = 0; i < sizeof(languages) / sizeof(languages[0]) && !job->is_over; i++) {
		job->len = 0;
		if (languages[i](job) && !job->is_over && job->len)
			return true;
	}
	return false;
}

/* find_name() with a limit of this thread's CPU time. */
static bool find_name_in_time(struct job *job)
{
	const struct itimerspec limit = { .it_value.tv_nsec = LIMIT_NS };
	struct sigaction action = { .sa_sigaction = on_limit, .sa_flags = SA_SIGINFO | SA_RESTART };
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID,
				  .sigev_signo = SIGRTMAX,
				  .sigev_value.sival_ptr = job,
				  ._sigev_un._tid = gettid() };
	sigset_t ours, before;
	timer_t timer;
	bool found = false;

	if (sigaction(SIGRTMAX, &action, NULL) ||
	    timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer))
		return false;
	sigemptyset(&ours);
	sigaddset(&ours, SIGRTMAX);
	pthread_sigmask(SIG_UNBLOCK, &ours, &before);
	if (!timer_settime(timer, 0, &limit, NULL))
		found = find_name(job);
	/* What is on its way arrives before the last call returns. */
	timer_delete(timer);
	job->may_jump = false;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return found && !job->is_over;
}

char *demangle(const char *symbol)
{
	size_t len = strcspn(symbol, "@"), tail_len = strlen(symbol + len);
	struct job *job;
	char *name = NULL;

	if (symbol[0] != '_' || len > MAX_MANGLED || tail_len > MAX_NAME)
		return NULL;
	job = calloc(1, sizeof(*job));
	if (!job)
		return NULL;
	memcpy(job->mangled, symbol, len);
	if (find_name_in_time(job) && job->len + tail_len < MAX_NAME)
		name = malloc(job->len + tail_len + 1);
	if (name) {
		memcpy(name, job->name, job->len);
		memcpy(name + job->len, symbol + len, tail_len + 1);
	}
	free(job);
	return name;
}
