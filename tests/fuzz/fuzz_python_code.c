// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Code objects and strings of a hostile process: what it has in its memory, behind whatever layout,
 * and what the kernel side captured of it.
 */
#include <stdint.h>
#include <stdlib.h>

#include "python_codes.h"
#include "python_object.h"
#include "record.h"

#include "../unit/python_image.h"

#define TGID 1u

static struct rprof_python layout;

static const struct rprof_python *offsets(void *ctx, __u32 tgid, struct python_memory *memory)
{
	*memory = (struct python_memory){ .read = image_read };
	return &layout;
}

/* {u8 how far behind, u8 unused, u8 which place that matters, u8 length, bytes}... */
static void change_image(const uint8_t *data, size_t size)
{
	static const __u64 places[] = { CODE, NAME, FILE_NAME, LINES };

	while (size > 4) {
		size_t at = (size_t)(places[data[2] & 3] - IMAGE) + data[0];
		size_t n = data[3];

		if (n > size - 4)
			n = size - 4;
		memcpy(image + at, data + 4, n);
		data += 4 + n;
		size -= 4 + n;
	}
}

static void find(struct python_codes *codes, const struct rprof_python_frame *f)
{
	struct python_place place;

	if (python_codes_find(codes, TGID, f, &place))
		return;
	if (place.line < 0)
		abort();
	/* Both end within bounds: four bytes of UTF-8 at most for one of theirs. */
	if (strlen(place.function) > 4 * PYTHON_OBJECT_TEXT ||
	    strlen(place.file) > 4 * PYTHON_OBJECT_TEXT)
		abort();
}

static void add_record(struct python_codes *codes, const uint8_t *data, size_t size)
{
	struct rprof_code *record = aligned_alloc(8, (size + 8) & ~(size_t)7);
	struct rprof_python_frame f;

	if (!record)
		return;
	memcpy(record, data, size);
	if (size >= sizeof(*record)) {
		record->h.len = size;
		record->h.type = RPROF_RECORD_CODE;
		record->tgid = TGID;
	}
	if (!record_check(record, size)) {
		python_codes_add(codes, record);
		f = (struct rprof_python_frame){ .code = record->code,
						 .fingerprint = record->fingerprint };
		for (f.where = 0; f.where < 16; f.where++)
			find(codes, &f);
	}
	free(record);
}

static void read_object(struct python_codes *codes)
{
	struct rprof_python_frame f = { .code = CODE,
					.fingerprint = rprof_fingerprint(image_hash()) };

	for (f.where = 0; f.where < 16; f.where++)
		find(codes, &f);
}

/* {u8 what; a record, a layout, or changes of the image} */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct python_codes_config config = { .hash_seed = SEED,
						    .hash_key = KEY,
						    .offsets = offsets };
	struct python_codes *codes;

	if (!size)
		return 0;
	codes = python_codes_new(&config);
	if (!codes)
		return 0;
	image_init();
	layout = image_layout;
	switch (data[0] & 3) {
	case 0:
		add_record(codes, data + 1, size - 1);
		break;
	case 1:
		if (size - 1 >= sizeof(layout))
			memcpy(&layout, data + 1, sizeof(layout));
		read_object(codes);
		break;
	case 2: /* without a version: the texts are hashed, and never fit */
		layout.flags = 0;
		/* fallthrough */
	default:
		change_image(data + 1, size - 1);
		read_object(codes);
	}
	python_codes_free(codes);
	return 0;
}
