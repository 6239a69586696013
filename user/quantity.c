// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "quantity.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <strings.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

struct unit {
	const char *suffix;
	__u64 factor;
};

static const struct unit hz_units[] = {
	{ "", 1 },
	{ "hz", 1 },
	{ "k", 1000 },
	{ "khz", 1000 },
};

static const struct unit duration_units[] = {
	{ "", 1000000000ull },
	{ "ms", 1000000ull },
	{ "s", 1000000000ull },
	{ "m", 60ull * 1000000000ull },
	{ "min", 60ull * 1000000000ull },
	{ "h", 3600ull * 1000000000ull },
	{ "d", 24ull * 3600 * 1000000000ull },
};

/* Millionths of a percent, so that fractions stay whole numbers here too. */
#define PERCENT_SCALE 1000000ull

static const struct unit percent_units[] = {
	{ "", PERCENT_SCALE },
	{ "%", PERCENT_SCALE },
};

/* A decimal number: digits / 10^places. */
struct decimal {
	__u64 digits;
	unsigned int places;
	bool huge;		/* more digits than we keep; certainly out of every range */
};

/* More than any limit here needs, and few enough that digits * factor fits 128 bits. */
#define MAX_DIGITS 18

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static void take_digit(struct decimal *d, char c, unsigned int *n)
{
	if (*n >= MAX_DIGITS) {
		d->huge = true;
		return;
	}
	d->digits = d->digits * 10 + (c - '0');
	if (d->digits)
		(*n)++;
}

/* Digits, then maybe a point and digits. Returns what follows, NULL if there is no such number. */
static const char *parse_decimal(const char *s, struct decimal *d)
{
	unsigned int n = 0;

	*d = (struct decimal){ 0 };
	if (!is_digit(*s))
		return NULL;
	for (; is_digit(*s); s++)
		take_digit(d, *s, &n);
	if (*s != '.')
		return s;

	s++;
	if (!is_digit(*s))
		return NULL;
	for (; is_digit(*s); s++) {
		if (d->places == MAX_DIGITS) {
			d->huge = true;
			continue;
		}
		take_digit(d, *s, &n);
		d->places++;
	}
	return s;
}

static const struct unit *find_unit(const struct unit *units, size_t n, const char *suffix)
{
	for (size_t i = 0; i < n; i++) {
		if (!strcasecmp(units[i].suffix, suffix))
			return &units[i];
	}
	return NULL;
}

/* The number times its unit, from @min to @max; a fraction that is left over is out of range. */
static int parse_scaled(const char *s, const struct unit *units, size_t n_units, __u64 min,
			__u64 max, __u64 *out)
{
	const struct unit *unit;
	unsigned __int128 value;
	struct decimal d;

	s = parse_decimal(s, &d);
	if (!s)
		return -EINVAL;
	unit = find_unit(units, n_units, s);
	if (!unit)
		return -EINVAL;
	if (d.huge)
		return -ERANGE;

	value = (unsigned __int128)d.digits * unit->factor;
	for (unsigned int i = 0; i < d.places; i++) {
		if (value % 10)
			return -ERANGE;
		value /= 10;
	}
	if (value < min || value > max)
		return -ERANGE;
	*out = value;
	return 0;
}

int quantity_hz(const char *s, __u32 *hz)
{
	__u64 value;
	int err;

	err = parse_scaled(s, hz_units, ARRAY_SIZE(hz_units), 1, QUANTITY_HZ_MAX, &value);
	if (err)
		return err;
	*hz = value;
	return 0;
}

int quantity_duration(const char *s, __u64 *ns)
{
	return parse_scaled(s, duration_units, ARRAY_SIZE(duration_units), 1000000,
			    QUANTITY_DURATION_MAX_NS, ns);
}

int quantity_percent(const char *s, double *percent)
{
	__u64 value;
	int err;

	err = parse_scaled(s, percent_units, ARRAY_SIZE(percent_units), 0, 100 * PERCENT_SCALE,
			   &value);
	if (err)
		return err;
	*percent = (double)value / PERCENT_SCALE;
	return 0;
}

int quantity_pid(const char **s, __u32 *pid)
{
	const char *p = *s;
	__u64 value = 0;

	if (!is_digit(*p))
		return -EINVAL;
	for (; is_digit(*p); p++) {
		if (value <= QUANTITY_PID_MAX)
			value = value * 10 + (*p - '0');
	}
	if (*p == ',') {
		p++;
		if (!*p)
			return -EINVAL;
	} else if (*p) {
		return -EINVAL;
	}
	if (!value || value > QUANTITY_PID_MAX)
		return -ERANGE;
	*s = p;
	*pid = value;
	return 0;
}
