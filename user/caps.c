// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Capabilities (capabilities(7); CAP_BPF and CAP_PERFMON are of Linux 5.8, CAP_CHECKPOINT_RESTORE of
 * 5.9, so all kernels that we run on have them) and the sysctls that go beyond them. Only what is
 * certain is said: a hint that does not help is worse than none.
 */
#include "caps.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define BIT(cap) (1ull << (cap))

struct need {
	__u64 any_of;		/* one of these capabilities is enough */
	bool required;		/* without it nothing works */
	const char *name;	/* the narrowest one, as setcap and docker know it */
	const char *what_for;
};

static const struct need needs[] = {
	{ BIT(CAP_BPF) | BIT(CAP_SYS_ADMIN), true, "CAP_BPF", "load BPF programs" },
	{ BIT(CAP_PERFMON) | BIT(CAP_SYS_ADMIN), true, "CAP_PERFMON",
	  "sample all CPUs and read stacks" },
	/* ptrace_may_access() guards /proc/PID/maps and process_vm_readv(). */
	{ BIT(CAP_SYS_PTRACE), false, "CAP_SYS_PTRACE",
	  "name the frames of other users' processes" },
	/* proc_map_files_get_link() in fs/proc/base.c */
	{ BIT(CAP_CHECKPOINT_RESTORE) | BIT(CAP_SYS_ADMIN), false, "CAP_CHECKPOINT_RESTORE",
	  "open deleted files and those of containers" },
	/* kallsyms_show_value() in kernel/kallsyms.c */
	{ BIT(CAP_SYSLOG), false, "CAP_SYSLOG", "name kernel frames" },
	/* generic_permission() in fs/namei.c; the stronger one has it, too */
	{ BIT(CAP_DAC_READ_SEARCH) | BIT(CAP_DAC_OVERRIDE), false, "CAP_DAC_READ_SEARCH",
	  "read files that belong to others" },
};

struct text {
	char *buf;
	size_t size, len;
};

static void __attribute__((format(printf, 2, 3))) add(struct text *t, const char *fmt, ...)
{
	va_list args;
	int n;

	if (t->len >= t->size)
		return;
	va_start(args, fmt);
	n = vsnprintf(t->buf + t->len, t->size - t->len, fmt, args);
	va_end(args);
	if (n > 0)
		t->len += n;
}

/* kallsyms_show_value(): at 0 and with a permissive perf everybody may see them. */
static bool kernel_symbols_open_to_all(const struct caps_facts *f)
{
	return f->kptr_restrict == 0 && f->perf_event_paranoid != CAPS_UNKNOWN &&
	       f->perf_event_paranoid <= 1;
}

static bool is_missing(const struct caps_facts *f, const struct need *n)
{
	if (n->any_of & BIT(CAP_SYSLOG)) {
		/* At 2 the capability does not help: explain_settings() has that. */
		if (f->kptr_restrict >= 2 || kernel_symbols_open_to_all(f))
			return false;
	}
	return !(f->effective & n->any_of);
}

/* One line for each missing capability. Returns whether a required one is among them. */
static bool explain_needs(const struct caps_facts *f, struct text *t)
{
	bool required = false;

	for (size_t i = 0; i < ARRAY_SIZE(needs); i++) {
		if (!is_missing(f, &needs[i]))
			continue;
		required |= needs[i].required;
		add(t, "privileges: %s is missing: %s %s\n", needs[i].name,
		    needs[i].required ? "needed to" : "without it we cannot", needs[i].what_for);
	}
	return required;
}

/* As docker and podman take them: without "CAP_". */
static void add_missing(const struct caps_facts *f, struct text *t)
{
	const char *separator = "";

	for (size_t i = 0; i < ARRAY_SIZE(needs); i++) {
		if (!is_missing(f, &needs[i]))
			continue;
		add(t, "%s--cap-add=%s", separator, needs[i].name + strlen("CAP_"));
		separator = " ";
	}
}

static void explain_remedy(const struct caps_facts *f, struct text *t)
{
	if (f->euid) {
		add(t, "privileges: run it as root: sudo rprof-bpf ... (or, for everybody who may "
		       "execute it: setcap " CAPS_SETCAP " FILE)\n");
		return;
	}
	add(t, "privileges: we are root without them, as in a container: start it with ");
	add_missing(f, t);
	add(t, ", or --privileged\n");
}

/* What no capability lifts. */
static void explain_settings(const struct caps_facts *f, struct text *t)
{
	if (!strcmp(f->lockdown, "confidentiality"))
		add(t, "lockdown: the kernel is in confidentiality mode: BPF programs may not read "
		       "kernel memory (boot without lockdown=confidentiality)\n");
	if (f->kptr_restrict >= 2)
		add(t,
		    "kernel symbols: hidden from everybody by kernel.kptr_restrict=%d "
		    "(sysctl kernel.kptr_restrict=1)\n",
		    f->kptr_restrict);
	/* Ubuntu's level 4 asks for CAP_SYS_ADMIN, where upstream's and Debian's take CAP_PERFMON. */
	if (f->perf_event_paranoid >= 4 && !(f->effective & BIT(CAP_SYS_ADMIN)))
		add(t,
		    "perf events: kernel.perf_event_paranoid=%d may ask for CAP_SYS_ADMIN "
		    "(sudo, or sysctl kernel.perf_event_paranoid=2)\n",
		    f->perf_event_paranoid);
}

bool caps_explain(const struct caps_facts *f, char *buf, size_t size)
{
	struct text t = { .buf = buf, .size = size };
	bool refused;

	if (size)
		buf[0] = '\0';
	if (f->user_namespace) {
		add(&t, "privileges: this is a user namespace (rootless container?), whose "
			"capabilities do not count for BPF: run it on the host, as root\n");
		return false;
	}

	refused = explain_needs(f, &t);
	if (t.len)
		explain_remedy(f, &t);
	explain_settings(f, &t);
	return !refused;
}

/* The start of a small file, NUL-terminated; "" if it cannot be read. */
static void read_text(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = -1;

	if (fd >= 0) {
		n = read(fd, buf, size - 1);
		close(fd);
	}
	buf[n > 0 ? n : 0] = '\0';
}

static int read_number(const char *path)
{
	char text[32], *end;
	long value;

	read_text(path, text, sizeof(text));
	value = strtol(text, &end, 10);
	return end == text ? CAPS_UNKNOWN : (int)value;
}

static __u64 read_effective(void)
{
	char status[4096];
	const char *line;

	read_text("/proc/self/status", status, sizeof(status));
	line = strstr(status, "\nCapEff:");
	return line ? strtoull(line + strlen("\nCapEff:"), NULL, 16) : 0;
}

/* The first user namespace maps every id to itself (user_namespaces(7)). */
static bool in_user_namespace(void)
{
	unsigned long inside, outside, count;
	char map[256];

	read_text("/proc/self/uid_map", map, sizeof(map));
	if (sscanf(map, "%lu %lu %lu", &inside, &outside, &count) != 3)
		return false;
	return inside != 0 || outside != 0 || count != 4294967295ul;
}

/* "none [integrity] confidentiality": the one in brackets. */
static void read_lockdown(char *mode, size_t size)
{
	char text[128], *begin, *end;

	*mode = '\0';
	read_text("/sys/kernel/security/lockdown", text, sizeof(text));
	begin = strchr(text, '[');
	end = begin ? strchr(begin, ']') : NULL;
	if (end)
		snprintf(mode, size, "%.*s", (int)(end - begin - 1), begin + 1);
}

void caps_read(struct caps_facts *f)
{
	*f = (struct caps_facts){
		.effective = read_effective(),
		.euid = geteuid(),
		.user_namespace = in_user_namespace(),
		.perf_event_paranoid = read_number("/proc/sys/kernel/perf_event_paranoid"),
		.kptr_restrict = read_number("/proc/sys/kernel/kptr_restrict"),
	};
	read_lockdown(f->lockdown, sizeof(f->lockdown));
}
