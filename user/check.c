// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "check.h"

#include "log.h"
#include "options.h"
#include "profiler.h"

int check_run(const struct options *o)
{
	log_error("check: not in this version");
	return EXIT_ERROR;
}
