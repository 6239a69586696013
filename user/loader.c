// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "loader.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct queue {
	struct loader_job *first, **end;
};

struct loader {
	pthread_t thread;
	bool started, stop;
	size_t n_given;		/* and not taken back */
	int event_fd;
	pthread_mutex_t lock;	/* of all below and .stop */
	pthread_cond_t more;
	struct queue todo, done;
};

static void push(struct queue *q, struct loader_job *job)
{
	job->next = NULL;
	*q->end = job;
	q->end = &job->next;
}

static struct loader_job *pop(struct queue *q)
{
	struct loader_job *job = q->first;

	if (!job)
		return NULL;
	q->first = job->next;
	if (!q->first)
		q->end = &q->first;
	return job;
}

struct loader *loader_new(void)
{
	struct loader *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (l->event_fd < 0) {
		free(l);
		return NULL;
	}
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->more, NULL);
	l->todo.end = &l->todo.first;
	l->done.end = &l->done.first;
	return l;
}

/* What an earlier job took is not promised to this one: the budget is looked at now. */
static void load(struct loader_job *job)
{
	const __u64 before = __atomic_load_n(job->budget, __ATOMIC_RELAXED);
	__u64 left = before;

	job->result = module_load_within(job->module, &job->where, &left);
	job->taken = before - left;
	__atomic_fetch_sub(job->budget, job->taken, __ATOMIC_RELAXED);
}

static void *work(void *arg)
{
	struct loader *l = arg;
	__u64 one = 1;

	pthread_mutex_lock(&l->lock);
	while (!l->stop) {
		struct loader_job *job = pop(&l->todo);

		if (!job) {
			pthread_cond_wait(&l->more, &l->lock);
			continue;
		}
		pthread_mutex_unlock(&l->lock);
		load(job);
		pthread_mutex_lock(&l->lock);
		push(&l->done, job);
		if (write(l->event_fd, &one, sizeof(one)) < 0)
			continue; /* It is readable already. */
	}
	pthread_mutex_unlock(&l->lock);
	return NULL;
}

/* Signals are for the thread that waits for them. */
static int start(struct loader *l)
{
	sigset_t all, old;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&l->thread, NULL, work, l);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	l->started = !err;
	return -err;
}

static void free_jobs(struct queue *q)
{
	struct loader_job *job;

	while ((job = pop(q)))
		free(job);
}

void loader_free(struct loader *l)
{
	if (!l)
		return;
	if (l->started) {
		pthread_mutex_lock(&l->lock);
		l->stop = true;
		pthread_cond_signal(&l->more);
		pthread_mutex_unlock(&l->lock);
		pthread_join(l->thread, NULL);
	}
	free_jobs(&l->todo);
	free_jobs(&l->done);
	pthread_cond_destroy(&l->more);
	pthread_mutex_destroy(&l->lock);
	close(l->event_fd);
	free(l);
}

int loader_give(struct loader *l, struct loader_job *job)
{
	int err = l->started ? 0 : start(l);

	if (err)
		return err;
	pthread_mutex_lock(&l->lock);
	push(&l->todo, job);
	l->n_given++;
	pthread_cond_signal(&l->more);
	pthread_mutex_unlock(&l->lock);
	return 0;
}

struct loader_job *loader_take(struct loader *l)
{
	struct loader_job *job;
	__u64 count;

	pthread_mutex_lock(&l->lock);
	job = pop(&l->done);
	if (job)
		l->n_given--;
	else if (read(l->event_fd, &count, sizeof(count)) < 0)
		count = 0; /* Nothing was written since. */
	pthread_mutex_unlock(&l->lock);
	return job;
}

bool loader_is_idle(struct loader *l)
{
	return !l->n_given;
}

const bool *loader_stop(const struct loader *l)
{
	return &l->stop;
}

int loader_fd(const struct loader *l)
{
	return l->event_fd;
}
