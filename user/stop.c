// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The words for each enum rprof_stop. Labels of tests and reports: a word changes with a reason. */
#include "stop.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

static const char *const names[] = {
	[RPROF_STOP_END] = "end of chain",
	[RPROF_STOP_NONE] = "not asked for",
	[RPROF_STOP_DEPTH] = "stack depth",
	[RPROF_STOP_FAULT] = "stack page not resident",
	[RPROF_STOP_UNALIGNED] = "unaligned chain",
	[RPROF_STOP_DOWN] = "chain goes down",
	[RPROF_STOP_BOUNDS] = "chain leaves the stack",
	[RPROF_STOP_NOT_EXEC] = "return address not executable",
	[RPROF_STOP_NO_REGS] = "no user registers",
	[RPROF_STOP_COMPAT] = "32-bit process",
	[RPROF_STOP_NO_MM] = "no user memory",
	[RPROF_STOP_KSTACK] = "kernel stack failed",
	[RPROF_STOP_LOST_RING] = "ring buffer full",
	[RPROF_STOP_LOST_SCRATCH] = "no scratch",
	[RPROF_STOP_LOST_SPACE] = "process record refused",
	[RPROF_STOP_OTHER_NS] = "outside of this pid namespace",
	[RPROF_STOP_LOST_CHILD] = "child process not followed",
	[RPROF_STOP_NO_STATE] = "no thread state",
	[RPROF_STOP_STATE_LOST] = "thread state not found",
	[RPROF_STOP_BAD_FRAME] = "not a Python frame",
	[RPROF_STOP_LOST_CODE] = "code record refused",
	[RPROF_STOP_UNLINKED] = "frame not linked yet",
};

_Static_assert(ARRAY_SIZE(names) == RPROF_STOP_MAX, "a stop without words");

const char *stop_name(unsigned int stop)
{
	if (stop >= ARRAY_SIZE(names) || !names[stop])
		return "unknown stop";
	return names[stop];
}

bool stop_is_loss(unsigned int stop)
{
	switch (stop) {
	case RPROF_STOP_LOST_RING:
	case RPROF_STOP_LOST_SCRATCH:
	case RPROF_STOP_LOST_SPACE:
	case RPROF_STOP_LOST_CHILD:
	case RPROF_STOP_LOST_CODE:
		return true;
	default:
		return false;
	}
}
