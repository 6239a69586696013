// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Real processes and their real clocks; what the kernel side tells of those that are gone is given. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "cpu_clocks.h"

#define MS 1000000ULL

static __u64 now_cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

static void burn(__u64 ns)
{
	for (__u64 end = now_cpu_ns() + ns; now_cpu_ns() < end;)
		;
}

/* A child that burns @ms for each byte it gets, answers it, and ends at the end of what it gets. */
struct child {
	pid_t pid;
	int to, from;
};

static struct child start(__u64 ms)
{
	int to[2], from[2];
	struct child c;
	char byte;

	assert_int_equal(pipe2(to, O_CLOEXEC) | pipe2(from, O_CLOEXEC), 0);
	c = (struct child){ fork(), to[1], from[0] };
	assert_true(c.pid >= 0);
	if (!c.pid) {
		close(to[1]);
		while (read(to[0], &byte, 1) == 1) {
			burn(ms * MS);
			if (write(from[1], &byte, 1) != 1)
				break;
		}
		_exit(0);
	}
	close(to[0]);
	close(from[1]);
	return c;
}

static void let_burn(struct child *c, int times)
{
	char byte = 'b';

	while (times--) {
		assert_int_equal(write(c->to, &byte, 1), 1);
		assert_int_equal(read(c->from, &byte, 1), 1);
	}
}

/* @reap: 0: it stays a zombie */
static void let_end(struct child *c, int reap)
{
	siginfo_t info;

	close(c->to);
	close(c->from);
	assert_int_equal(waitid(P_PID, c->pid, &info, WEXITED | (reap ? 0 : WNOWAIT)), 0);
}

/* What is told, and after how many times of asking. */
struct teller {
	__u32 pid;
	__u64 ns;
	int after, asked;
};

static int tell(void *ctx, __u32 tgid, __u64 *ns)
{
	struct teller *t = ctx;

	assert_int_equal(tgid, t->pid);
	if (t->asked++ < t->after)
		return -ENOENT;
	*ns = t->ns;
	return 0;
}

static __u64 read_all(struct cpu_clocks *cs, const struct cputime_source *source)
{
	__u64 ns = 0;

	assert_int_equal(cpu_clocks_read(cs, source, &ns), 0);
	return ns;
}

static void what_was_used_before_the_start_is_not_counted(void **state)
{
	struct teller t = {};
	const struct cputime_source source = { &t, tell };
	struct cpu_clocks cs = {};
	struct child c = start(30);

	let_burn(&c, 10);
	assert_int_equal(cpu_clocks_add(&cs, c.pid, -1), 0);
	let_burn(&c, 10);
	cpu_clocks_start(&cs);
	let_burn(&c, 1);
	assert_in_range(read_all(&cs, &source), 30 * MS, 300 * MS);
	assert_int_equal(t.asked, 0);
	let_end(&c, 1);
	cpu_clocks_fini(&cs);
}

static void a_zombie_has_its_clock(void **state)
{
	struct teller t = {};
	const struct cputime_source source = { &t, tell };
	struct cpu_clocks cs = {};
	struct child c = start(30);
	__u64 ns;

	assert_int_equal(cpu_clocks_add(&cs, c.pid, -1), 0);
	cpu_clocks_start(&cs);
	let_burn(&c, 1);
	let_end(&c, 0);
	ns = read_all(&cs, &source);
	assert_true(ns >= 30 * MS);
	assert_true(cpu_clocks_await(&cs, &source, &ns));
	assert_int_equal(t.asked, 0);
	waitpid(c.pid, NULL, 0);
	cpu_clocks_fini(&cs);
}

static void of_one_that_is_gone_the_source_is_asked_until_it_knows(void **state)
{
	struct teller t = { .ns = 5000 * MS, .after = 3 };
	const struct cputime_source source = { &t, tell };
	struct cpu_clocks cs = {};
	struct child c = start(1);
	__u64 ns, base;

	t.pid = c.pid;
	assert_int_equal(cpu_clocks_add(&cs, c.pid, -1), 0);
	cpu_clocks_start(&cs);
	let_end(&c, 1);
	base = read_all(&cs, &source);
	assert_true(base < 1000 * MS);
	ns = base;
	assert_true(cpu_clocks_await(&cs, &source, &ns));
	/* All of its time, but what it had used when it was added. */
	assert_in_range(ns, 4000 * MS, 5000 * MS);
	assert_int_equal(t.asked, 4);
	assert_int_equal(read_all(&cs, &source), ns);
	assert_int_equal(t.asked, 4);
	cpu_clocks_fini(&cs);
}

static void what_is_never_told_is_not_all(void **state)
{
	struct teller t = { .after = INT32_MAX };
	const struct cputime_source source = { &t, tell };
	struct cpu_clocks cs = {};
	struct child c = start(1);
	__u64 ns;

	t.pid = c.pid;
	assert_int_equal(cpu_clocks_add(&cs, c.pid, -1), 0);
	cpu_clocks_start(&cs);
	let_end(&c, 1);
	ns = read_all(&cs, &source);
	assert_false(cpu_clocks_await(&cs, &source, &ns));
	cpu_clocks_fini(&cs);
}

/* An event is a descriptor that gives eight bytes; a pipe does, once for each reading. */
static int event_of(__u64 first, __u64 second)
{
	__u64 counts[] = { first, second };
	int ends[2];

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(write(ends[1], counts, sizeof(counts)), sizeof(counts));
	close(ends[1]);
	return ends[0];
}

static void before_its_exec_an_event_counts_and_after_it_the_clock(void **state)
{
	struct teller t = {};
	const struct cputime_source source = { &t, tell };
	struct cpu_clocks cs = {};
	struct child c = start(30);
	__u64 ns;

	let_burn(&c, 10);
	assert_int_equal(cpu_clocks_add(&cs, c.pid, event_of(0, 7 * MS)), 0);
	cpu_clocks_start(&cs);
	let_burn(&c, 10);
	assert_int_equal(read_all(&cs, &source), 0);
	cpu_clocks_on_exec(&cs, c.pid);
	assert_in_range(read_all(&cs, &source), 7 * MS, 300 * MS);
	/* Another exec changes nothing. */
	cpu_clocks_on_exec(&cs, c.pid);
	let_burn(&c, 1);
	ns = read_all(&cs, &source);
	assert_in_range(ns, 37 * MS, 300 * MS);
	assert_true(cpu_clocks_await(&cs, &source, &ns));
	let_end(&c, 1);
	cpu_clocks_fini(&cs);
}

static void an_event_that_was_taken_away_is_not_all(void **state)
{
	struct teller t = {};
	const struct cputime_source source = { &t, tell };
	struct cpu_clocks cs = {};
	struct child c = start(1);
	__u64 ns = 0;

	assert_int_equal(cpu_clocks_add(&cs, c.pid, event_of(0, 0)), 0);
	cpu_clocks_start(&cs);
	let_burn(&c, 1);
	cpu_clocks_on_exec(&cs, c.pid);
	assert_false(cpu_clocks_await(&cs, &source, &ns));
	let_end(&c, 1);
	cpu_clocks_fini(&cs);
}

static void one_that_is_not_there_is_refused(void **state)
{
	struct cpu_clocks cs = {};
	struct child c = start(1);

	let_end(&c, 1);
	assert_int_equal(cpu_clocks_add(&cs, c.pid, -1), -ESRCH);
	assert_int_equal(cs.n, 0);
	cpu_clocks_fini(&cs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_used_before_the_start_is_not_counted),
		cmocka_unit_test(a_zombie_has_its_clock),
		cmocka_unit_test(of_one_that_is_gone_the_source_is_asked_until_it_knows),
		cmocka_unit_test(what_is_never_told_is_not_all),
		cmocka_unit_test(before_its_exec_an_event_counts_and_after_it_the_clock),
		cmocka_unit_test(an_event_that_was_taken_away_is_not_all),
		cmocka_unit_test(one_that_is_not_there_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
