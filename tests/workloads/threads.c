/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * threads [N [MS]]: N threads (default 200), all busy in thread_main -> thread_spin, made MS
 * milliseconds after "ready" if given, else before; main() waits.
 */
#include "workload.h"

#include <pthread.h>
#include <stdlib.h>

NODE void thread_spin(void)
{
	burn(1000000);
}

static void *thread_main(void *arg)
{
	for (;;) {
		thread_spin();
		BARRIER();
	}
	return arg;
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 200;
	int delay_ms = argc > 2 ? atoi(argv[2]) : 0;
	pthread_t id;

	if (delay_ms) {
		ready();
		usleep(delay_ms * 1000);
	}
	for (int i = 0; i < count; i++)
		if (pthread_create(&id, NULL, thread_main, NULL))
			return 1;
	if (!delay_ms)
		ready();
	for (;;)
		pause();
}
