/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* May we profile here, and if not, what is missing and what helps? Facts apart from conclusions. */
#ifndef RPROF_CAPS_H
#define RPROF_CAPS_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* What the kernel says about us. A number that could not be read is CAPS_UNKNOWN. */
#define CAPS_UNKNOWN (-100)

/* For one setcap: what it does not name it takes away. */
#define CAPS_SETCAP                                                                                \
	"CAP_BPF,CAP_PERFMON,CAP_SYS_PTRACE,CAP_CHECKPOINT_RESTORE,CAP_SYSLOG,CAP_DAC_READ_SEARCH=ep"

struct caps_facts {
	__u64 effective;		/* CapEff of /proc/self/status; bit = CAP_* */
	uid_t euid;
	bool user_namespace;		/* not the first one: capabilities do not count for BPF */
	int perf_event_paranoid;	/* kernel.perf_event_paranoid */
	int kptr_restrict;		/* kernel.kptr_restrict */
	char lockdown[32];		/* "none", "integrity", "confidentiality"; "": no lockdown */
};

void caps_read(struct caps_facts *f);

/*
 * caps_explain() - what is missing, in words.
 * @buf: lines for log_msg(), the remedy last; "" if nothing is missing
 *
 * Pure. Return: false: loading the programs or opening the events will be refused; true: it can be
 * tried, and the lines, if any, say which parts of the profile will be missing.
 */
bool caps_explain(const struct caps_facts *f, char *buf, size_t size);

#endif
