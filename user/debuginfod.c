/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "debuginfod.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>

#include "monotonic.h"

/* What elfutils/debuginfod.h declares; the header need not be there to build. */
typedef struct debuginfod_client client;

struct library {
	client *(*begin)(void);
	void (*end)(client *c);
	int (*find)(client *c, const unsigned char *id, int len, char **path);
	void (*set_progress)(client *c, int (*fn)(client *c, long done, long all));
};

/* Of the fetch that this thread is in: the client calls back in the thread that called it. */
static __thread const bool *stop_fetch;
static __thread __u64 deadline_ns;

bool debuginfod_is_wanted(void)
{
	const char *urls = getenv("DEBUGINFOD_URLS");

	return urls && urls[0];
}

/* Called about once a second while the client works; not 0: it gives up. */
static int progress(client *c, long done, long all)
{
	return (stop_fetch && __atomic_load_n(stop_fetch, __ATOMIC_RELAXED)) ||
	       monotonic_ns() >= deadline_ns;
}

/* Stays loaded: what it links (curl, TLS) does not like to be unloaded. */
static int load_library(struct library *lib)
{
	void *so = dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!so)
		return -ENOENT;
	*(void **)&lib->begin = dlsym(so, "debuginfod_begin");
	*(void **)&lib->end = dlsym(so, "debuginfod_end");
	*(void **)&lib->find = dlsym(so, "debuginfod_find_debuginfo");
	*(void **)&lib->set_progress = dlsym(so, "debuginfod_set_progressfn");
	return lib->begin && lib->end && lib->find && lib->set_progress ? 0 : -ENOENT;
}

int debuginfod_fetch(const struct build_id *id, const bool *stop)
{
	struct library lib;
	client *c;
	int fd;

	if (!id->len || !debuginfod_is_wanted() || load_library(&lib))
		return -ENOENT;
	c = lib.begin();
	if (!c)
		return -ENOMEM;
	stop_fetch = stop;
	deadline_ns = monotonic_ns() + DEBUGINFOD_SECONDS * 1000000000ULL;
	lib.set_progress(c, progress);
	fd = lib.find(c, id->bytes, (int)id->len, NULL);
	lib.end(c);
	return fd;
}
