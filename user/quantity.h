/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Numbers as people type them. Exact decimal arithmetic, no locale, no I/O. All of them take the
 * whole string and leave the result alone on failure.
 *
 * Return: 0; -EINVAL: not of this form; -ERANGE: of this form, but outside of the limits.
 */
#ifndef RPROF_QUANTITY_H
#define RPROF_QUANTITY_H

#include <linux/types.h>

/*
 * The kernel lets no software clock fire faster than every 10 us (perf_swevent_start_hrtimer() in
 * kernel/events/core.c: max_t(u64, 10000, ...)): above this, samples would silently be fewer.
 */
#define QUANTITY_HZ_MAX 100000u
#define QUANTITY_HZ_ALLOWED "1 to 100000 a second, as 99, 997hz or 4.5khz"

#define QUANTITY_DURATION_MAX_NS (1000ull * 24 * 3600 * 1000000000ull)
#define QUANTITY_DURATION_ALLOWED "1ms to 1000d, as 30, 30s, 500ms, 5m, 1h or 2d"

#define QUANTITY_PID_MAX 4194304u /* PID_MAX_LIMIT, include/linux/threads.h */
#define QUANTITY_PID_ALLOWED "numbers from 1 to 4194304, separated by commas"

#define QUANTITY_PERCENT_ALLOWED "0 to 100, as 5, 0.5 or 5%"

/* 99, 99hz, 1khz, 4.5k; upper and lower case. A whole number of samples per second. */
int quantity_hz(const char *s, __u32 *hz);

/* 30 (seconds), 500ms, 1.5s, 5m, 1h, 2d. A whole number of nanoseconds. */
int quantity_duration(const char *s, __u64 *ns);

/* 5, 0.5, 5% */
int quantity_percent(const char *s, double *percent);

/*
 * quantity_pid() - take the next number of a comma list.
 * @s: in: where it begins; out: behind the number and its comma
 *
 * *s is at the final NUL when the list is at its end. "1," and "" are -EINVAL.
 */
int quantity_pid(const char **s, __u32 *pid);

#endif
