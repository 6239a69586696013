// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* rprof-bpf check: what would work here. Looks, loads and lets go: nothing is left or changed. */
#include "check.h"

#include <string.h>

#include "caps.h"
#include "check_parts.h"
#include "check_report.h"
#include "invoker.h"
#include "log.h"
#include "options.h"
#include "preflight.h"
#include "proc.h"
#include "profiler.h"

static void check_system(struct check_report *r, const struct options *o)
{
	struct check_settings settings;
	struct caps_facts caps;
	bool allowed;
	uid_t uid;
	gid_t gid;

	caps_read(&caps);
	check_read_settings(&settings);
	check_group(r, "rights");
	allowed = check_rights(r, &caps, invoker_ids(&uid, &gid));
	check_group(r, "kernel");
	check_settings(r, &settings, &caps, o->frequency);
	check_pid_namespace(r);
	check_kernel_symbols(r, &caps);
	check_debuginfod(r);
	check_group(r, "sampling");
	check_bpf_programs(r);
	check_load(r, allowed);
}

#define EXIT_DEGRADED 3	/* DESIGN 9 */

static int exit_code(enum check_state verdict)
{
	switch (verdict) {
	case CHECK_FINE:
		return EXIT_OK;
	case CHECK_DEGRADED:
		return EXIT_DEGRADED;
	default:
		return EXIT_ERROR;
	}
}

int check_run(const struct options *o)
{
	struct check_report *r = check_report_new();
	int code, err;

	if (!r || proc_init()) {
		if (!r)
			log_error("check: out of memory");
		check_report_free(r);
		return EXIT_ERROR;
	}
	preflight_raise_limits();
	check_system(r, o);
	for (size_t i = 0; i < o->n_pids; i++)
		check_process(r, o->pids[i]);
	err = o->json ? check_write_json(r, stdout) : check_write_text(r, stdout);
	code = err ? EXIT_ERROR : exit_code(check_verdict(r));
	if (err)
		log_error("check: cannot write the findings: %s", strerror(-err));
	check_report_free(r);
	return code;
}
