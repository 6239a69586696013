/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef RPROF_USER_STOP_H
#define RPROF_USER_STOP_H

#include <stdbool.h>

#include "rprof/stop.h"

/* Words for an enum rprof_stop, as in "[truncated: words]" and "lost: words". Never NULL. */
const char *stop_name(unsigned int stop);

/* Is it a counter only, of what was not sent? Else a walk may have ended so. */
bool stop_is_loss(unsigned int stop);

#endif
