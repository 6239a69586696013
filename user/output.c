// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "options.h"
#include "outfile.h"
#include "profile.h"
#include "writer.h"

struct output {
	const struct writer *writer;
	struct writer_options options;
	const char *path;	/* NULL: standard output */
	struct outfile *file;
};

int output_open(const struct options *o, struct output **out)
{
	struct output *output = calloc(1, sizeof(*output));
	int err = 0;

	if (!output)
		return -ENOMEM;
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
			.frames = lines[i]->stack.frames,
			.n_frames = lines[i]->stack.n_frames,
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
	int err = write_profile(out, outfile_stream(out->file), profile);

	if (err) {
		log_error("%s: %s", out->path, strerror(-err));
		outfile_abort(out->file);
	} else {
		err = outfile_commit(out->file);
	}
	out->file = NULL;
	if (!err)
		return 0;
	log_error("%s was not written; the profile follows on standard output instead", out->path);
	write_stdout(out, profile);
	return err;
}

int output_commit(struct output *out, const struct profile *profile)
{
	int err;

	/* Without a sample no file appears, and one of an earlier run is left alone. */
	if (!profile_n_samples(profile)) {
		output_abort(out);
		return 0;
	}
	err = out->path ? write_file(out, profile) : write_stdout(out, profile);
	output_abort(out);
	return err;
}

int output_dump(struct output *out, const struct profile *profile)
{
	int err;

	if (!out->path)
		return write_stdout(out, profile);
	err = write_file(out, profile);
	if (!err)
		err = outfile_open(out->path, &out->file);
	return err;
}
