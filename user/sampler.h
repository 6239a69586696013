/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One cpu-clock event per online CPU, each running the sampling program. Opened with a period,
 * never a frequency, so that the number of samples owed is CPU time / period.
 */
#ifndef RPROF_SAMPLER_H
#define RPROF_SAMPLER_H

#include <linux/types.h>

struct sampler;

/* Opens an event on every CPU that is online, none of them running yet. 0 or -errno, logged. */
int sampler_new(int prog_fd, __u64 period_ns, struct sampler **out);
void sampler_free(struct sampler *s);

/* Open and start events on CPUs that are online and have none; close those of CPUs that went.
 * Return: number of CPUs sampled, or -errno, logged with the CPU, the reason and the remedy.
 */
int sampler_follow_cpus(struct sampler *s);

/* Disable all events: when it returns, no sampling program runs or will run. */
void sampler_stop(struct sampler *s);

/*
 * cpus_parse() - a list as in /sys/devices/system/cpu/online, "0-3,5".
 * @set: one byte per CPU, @n of them, set to 1 or 0
 * Return: 0 or -EINVAL (also for a CPU past @n).
 */
int cpus_parse(const char *list, unsigned char *set, unsigned int n);
/* The same for the CPUs that are online now. Return: 0 or -errno. */
int cpus_online(unsigned char *set, unsigned int n);

#endif
