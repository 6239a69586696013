// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log.h"
#include "options.h"
#include "outfile.h"
#include "profile.h"
#include "writer.h"

struct output {
	const struct writer *writer;
	struct writer_options options;
	const char *path;	/* NULL: standard output */
	struct outfile *file;	/* NULL with a path: between a dump and the next write */
};

int output_open(const struct options *o, struct output **out)
{
	struct output *output = calloc(1, sizeof(*output));
	int err = 0;

	if (!output) {
		log_error("output: out of memory (free some, or raise this cgroup's limit)");
		return -ENOMEM;
	}
	output->writer = o->writer;
	output->options.annotate = o->annotate;
	output->path = o->output;
	if (output->path)
		err = outfile_open(output->path, &output->file);
	if (err) {
		free(output);
		return err;
	}
	*out = output;
	return 0;
}

void output_abort(struct output *out)
{
	if (!out)
		return;
	outfile_abort(out->file);
	free(out);
}

static int write_profile(const struct output *out, FILE *f, const struct profile *profile)
{
	const struct profile_line **lines;
	long n = profile_lines(profile, &lines);
	int err;

	if (n < 0)
		return n;
	err = out->writer->begin(f, &out->options);
	for (long i = 0; i < n && !err; i++) {
		const struct writer_stack s = {
			.comm = lines[i]->comm,
			.pid = lines[i]->tgid,
			.tid = lines[i]->tid,
			.frames = lines[i]->stack->frames,
			.n_frames = lines[i]->stack->n_frames,
			.count = lines[i]->count,
		};

		err = out->writer->stack(f, &out->options, &s);
	}
	if (!err)
		err = out->writer->end(f, &out->options);
	free(lines);
	errno = 0;
	if (fflush(f) && !err)
		err = errno ? -errno : -EIO;
	if (ferror(f) && !err)
		err = -EIO;
	return err;
}

static int write_stdout(const struct output *out, const struct profile *profile)
{
	int err;

	log_progress_clear();
	err = write_profile(out, stdout, profile);
	if (!err || err == -EPIPE)
		return 0;
	log_error("standard output: %s: the profile is not complete (use -o FILE)", strerror(-err));
	return err;
}

static int write_file(struct output *out, const struct profile *profile)
{
	int err = 0;

	if (!out->file)
		err = outfile_open(out->path, &out->file);
	if (err)
		return err;
	err = write_profile(out, outfile_stream(out->file), profile);
	err = err ? outfile_fail(out->file, err) : outfile_commit(out->file);
	out->file = NULL;
	return err;
}

int output_reader_fd(const struct output *out)
{
	struct stat st;

	if (out->path || fstat(STDOUT_FILENO, &st))
		return -1;
	return S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode) ? STDOUT_FILENO : -1;
}

int output_commit(struct output *out, const struct profile *profile)
{
	int err = 0;

	/* Without a sample no file appears, and one of an earlier run is left alone. */
	if (profile_n_samples(profile)) {
		err = out->path ? write_file(out, profile) : write_stdout(out, profile);
		if (err && out->path) {
			log_error("the profile follows on standard output instead");
			write_stdout(out, profile);
		}
	}
	output_abort(out);
	return err;
}

void output_dump(struct output *out, const struct profile *profile)
{
	if (!profile_n_samples(profile)) {
		log_info("SIGUSR1: no sample yet, nothing is written");
		return;
	}
	if (!out->path)
		write_stdout(out, profile);
	else if (write_file(out, profile))
		log_warn("SIGUSR1: nothing was written; sampling goes on, and the end tries again");
}
