/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A file that may hold the interpreter of a process, tried on that process while it runs. */
#ifndef RPROF_PYTHON_CANDIDATE_H
#define RPROF_PYTHON_CANDIDATE_H

#include <linux/types.h>

#include "python_find.h"
#include "python_offsets.h"
#include "rprof/config.h"

struct python_candidate {
	__u32 module;		/* number of modules.h */
	__u64 bias;		/* its runtime is at .bias + .file.runtime */
	struct python_file file;
};

/* What became of it; of several candidates the best one counts. */
enum python_outcome {
	PYTHON_IS_NOTHING,
	PYTHON_IS_REFUSED,	/* for good */
	PYTHON_IS_DOUBTFUL,	/* does not hold up now: a process that starts or ends may show so */
	PYTHON_IS_WAITING,	/* not live: not initialized, or finalized */
	PYTHON_IS_LIVE,		/* its own table, its interpreter and a thread state hold up */
	PYTHON_IS_PROVED,	/* and a frame */
};

struct python_tried {
	__u32 version;		/* PY_VERSION_HEX; of 3.9, 3.10 without the rest; 0: not known */
	struct rprof_python python; /* LIVE, PROVED */
	struct python_live live;
	char why[PYTHON_WHY];	/* the others */
};

enum python_outcome python_candidate_try(const struct python_candidate *c, __u32 tgid,
					 struct python_tried *out);

#endif
