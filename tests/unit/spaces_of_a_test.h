/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Spaces over a table of files of their own, for tests. The includer has cmocka and the rest. */
#ifndef RPROF_TESTS_SPACES_H
#define RPROF_TESTS_SPACES_H

__attribute__((unused)) static const struct rprof_mapping *mapping_at(const struct space *sp,
								      const void *addr)
{
	return space_mapping(sp, (__u64)(size_t)addr);
}

static struct modules *m_all;

__attribute__((unused)) static struct spaces *new_spaces(void)
{
	m_all = modules_new(&(struct modules_config){ 0 });
	return spaces_new(m_all);
}

__attribute__((unused)) static void free_spaces(struct spaces *s)
{
	spaces_free(s);
	modules_free(m_all);
}

__attribute__((unused)) static int read_maps(struct spaces *s, pid_t pid, const struct space **sp)
{
	return spaces_read(s, (__u32)pid, NULL, NULL, sp);
}

__attribute__((unused)) static const struct space *read_self(struct spaces *s)
{
	const struct space *sp = NULL;

	assert_int_equal(read_maps(s, getpid(), &sp), 0);
	return sp;
}

#endif
