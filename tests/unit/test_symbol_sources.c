// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Where names come from: stripped files with a debug file in the places where one may be. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "compile.h"
#include "debuginfod.h"
#include "module.h"

static const char source[] =
	"int data;\n"
	"static __attribute__((noinline)) int hidden(int x) { return x * data; }\n"
	"__attribute__((noinline)) int shown(int x) { return hidden(x) + 1; }\n"
	"int main(int c, char **v) { return shown(c) + hidden(c); }\n";

#define FLAGS "-O1 -g -shared -fPIC"

static char root[512];		/* of the target */
static char hidden_at[64];	/* address of hidden(), hexadecimal */
static char build_id[64];	/* hexadecimal */

/*
 * In root/bin: `program`, stripped, and outside of the root `program.debug`. @strip: what else
 * objcopy is to do to the former.
 */
static void make_program(const char *flags, const char *strip)
{
	const char *whole;
	FILE *f;

	snprintf(root, sizeof(root), "%s", compile_path("root"));
	shell("rm -rf '%s'; mkdir -p '%s/bin' '%s/usr/lib/debug/.build-id'", root, root, root);
	whole = compile("whole", "c", source, flags);
	shell("cd '%s/..' && objcopy --only-keep-debug whole program.debug && "
	      "objcopy --strip-all %s whole root/bin/program",
	      root, strip);
	snprintf(hidden_at, sizeof(hidden_at), "?");
	snprintf(build_id, sizeof(build_id), "?");
	for (int i = 0; i < 2; i++) {
		char command[1024];

		snprintf(command, sizeof(command),
			 i ? "readelf -n '%s' | sed -n 's/.*Build ID: //p'" :
			     "nm '%s' | sed -n 's/ t hidden$//p'",
			 whole);
		f = popen(command, "r");
		if (!fgets(i ? build_id : hidden_at, 64, f))
			assert_int_equal(i, 1); /* without a build id */
		pclose(f);
	}
	hidden_at[strcspn(hidden_at, "\n")] = build_id[strcspn(build_id, "\n")] = '\0';
}

static struct module *load(bool want_dwarf, struct module_report *r)
{
	struct module_search where = { .path = "/bin/program", .debuginfod = true };
	struct module *m = NULL;
	__u64 budget = 1 << 30;
	char path[600];

	where.want_dwarf = want_dwarf;
	where.root_fd = open(root, O_PATH | O_CLOEXEC);
	assert_true(where.root_fd >= 0);
	snprintf(path, sizeof(path), "%s/bin/program", root);
	assert_int_equal(module_open(open(path, O_RDONLY | O_CLOEXEC), &m), 0);
	assert_int_equal(module_load_within(m, &where, &budget), 0);
	close(where.root_fd);
	module_report(m, r);
	assert_true(r->loaded);
	return m;
}

/* @from: where hidden() is known from; SYMBOLS_NONE: it is not. */
static void assert_found(enum symbol_source from)
{
	struct module_report r;
	struct module *m = load(false, &r);
	const __u64 addr = strtoull(hidden_at, NULL, 16);
	__u64 start = 0;
	const char *name = module_symbol(m, addr + 1, &start);
	bool used = false;

	if (from == SYMBOLS_NONE) {
		assert_null(name);
	} else {
		for (unsigned int i = 0; i < r.n_sources; i++)
			used |= r.sources[i] == from;
		assert_true(used);
		assert_non_null(name);
		assert_string_equal(name, "hidden");
		assert_int_equal(start, addr);
	}
	assert_int_equal(!r.n_sources, r.why_none != NULL);
	assert_int_equal(module_take_dwarf(m), -1);
	module_free(m);
}

static void place(const char *command, const char *at)
{
	shell("cd '%s' && mkdir -p \"$(dirname %s)\" && %s ../program.debug %s", root, at, command,
	      at);
}

static const char *id_path(void)
{
	static char path[256];

	snprintf(path, sizeof(path), "usr/lib/debug/.build-id/%.2s/%s.debug", build_id,
		 build_id + 2);
	return path;
}

#define LINK "--add-gnu-debuglink=program.debug"
#define NO_ID " -Wl,--build-id=none"

static void debug_file_is_found_by_build_id(void **state)
{
	struct module_report r;
	struct module *m;

	make_program(FLAGS, "");
	assert_found(SYMBOLS_NONE);
	place("cp", id_path());
	assert_found(SYMBOLS_BUILD_ID_FILE);
	/* Through a link inside of the root, relative or not, as distributions have it. */
	shell("cd '%s' && mv %s usr/real.debug && ln -s /usr/real.debug %s", root, id_path(),
	      id_path());
	assert_found(SYMBOLS_BUILD_ID_FILE);
	m = load(false, &r);
	assert_int_equal(r.build_id_len, 20);
	assert_int_equal(r.n_sources, 1);
	module_free(m);
}

static void debug_file_is_found_by_link(void **state)
{
	static const char *const places[] = { "bin/program.debug", "bin/.debug/program.debug",
					      "usr/lib/debug/bin/program.debug" };

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		make_program(FLAGS, LINK);
		assert_found(SYMBOLS_NONE);
		place("cp", places[i]);
		assert_found(SYMBOLS_DEBUGLINK_FILE);
		make_program(FLAGS NO_ID, LINK);
		place("cp", places[i]);
		assert_found(SYMBOLS_DEBUGLINK_FILE);
		/* Without build ids the checksum decides. */
		shell("printf x >>'%s/%s'", root, places[i]);
		assert_found(SYMBOLS_NONE);
	}
	make_program(FLAGS NO_ID, "");
	place("cp", places[0]);
	assert_found(SYMBOLS_NONE);
}

static void debug_file_of_another_build_is_refused(void **state)
{
	char id[64];

	make_program(FLAGS, LINK);
	strcpy(id, build_id);
	make_program(FLAGS " -DX=1 -Wl,--build-id=0x0102030405060708090a0b0c0d0e0f1011121314", "");
	shell("cp '%s/../program.debug' '%s/../other.debug'", root, root);
	make_program(FLAGS, LINK);
	assert_string_equal(id, build_id);
	shell("cp '%s/../other.debug' '%s/../program.debug'", root, root);
	place("cp", id_path());
	place("cp", "bin/program.debug");
	assert_found(SYMBOLS_NONE);
}

static void nothing_outside_of_the_root_is_read(void **state)
{
	make_program(FLAGS, LINK);
	/* Links to the right file, which is there: on the host. */
	shell("cd '%s' && mkdir -p \"$(dirname %s)\" && ln -s \"$(realpath ../program.debug)\" %s",
	      root, id_path(), id_path());
	shell("cd '%s' && ln -s ../../../../../../../../../../\"$(realpath ../program.debug)\" "
	      "bin/program.debug",
	      root);
	assert_found(SYMBOLS_NONE);
}

static void cost_of_a_debug_file_is_known_before(void **state)
{
	struct module_search where = { .path = "/bin/program" };
	const char *flags[] = { FLAGS, FLAGS NO_ID };

	for (int i = 0; i < 2; i++) {
		struct module *m = NULL;
		struct stat st;
		char path[600];
		__u64 alone;

		make_program(flags[i], LINK);
		where.root_fd = open(root, O_PATH | O_CLOEXEC);
		snprintf(path, sizeof(path), "%s/bin/program", root);
		assert_int_equal(module_open(open(path, O_RDONLY | O_CLOEXEC), &m), 0);
		alone = module_table_size(m);
		assert_true(alone > 0);
		assert_int_equal(module_table_size_within(m, &where), alone);
		place("cp", "bin/program.debug");
		snprintf(path, sizeof(path), "%s/bin/program.debug", root);
		assert_int_equal(stat(path, &st), 0);
		/* Its symbols alone, or, without a build id, all of it. */
		assert_int_equal(module_table_size(m), alone);
		if (i)
			assert_int_equal(module_table_size_within(m, &where), alone + st.st_size);
		else
			assert_in_range(module_table_size_within(m, &where), alone + 24,
					alone + st.st_size - 1);
		module_free(m);
		close(where.root_fd);
	}
}

static void pipes_and_devices_hold_nobody(void **state)
{
	make_program(FLAGS, LINK);
	shell("cd '%s' && mkdir -p \"$(dirname %s)\" && mkfifo %s bin/program.debug && "
	      "mkdir -p bin/.debug/program.debug && mkdir -p usr/lib/debug/bin && "
	      "ln -s program.debug usr/lib/debug/bin/program.debug",
	      root, id_path(), id_path());
	assert_found(SYMBOLS_NONE);
}

static void link_to_itself_ends(void **state)
{
	make_program(FLAGS, "");
	shell("cd '%s/bin' && cp program self && objcopy --add-gnu-debuglink=self program p && "
	      "cp p program && ln -f program self",
	      root);
	assert_found(SYMBOLS_NONE);
	/* By build id, too. */
	shell("cd '%s' && mkdir -p \"$(dirname %s)\" && cp bin/program %s", root, id_path(),
	      id_path());
	assert_found(SYMBOLS_NONE);
}

/* As packages of Fedora have it: what .dynsym lacks, xz'd. */
static void debugdata_supplements_dynsym(void **state)
{
	struct module_report r;
	struct module *m;

	make_program(FLAGS, "");
	shell("cd '%s/..' && objcopy -S --keep-symbol=hidden program.debug mini && rm -f mini.xz && "
	      "xz -k mini && objcopy --add-section .gnu_debugdata=mini.xz root/bin/program",
	      root);
	assert_found(SYMBOLS_DEBUGDATA);
	m = load(false, &r);
	assert_int_equal(r.n_sources, 2);
	assert_int_equal(r.sources[0], SYMBOLS_DYNSYM);
	assert_int_equal(r.sources[1], SYMBOLS_DEBUGDATA);
	module_free(m);
	/* A debug file has all of it. */
	place("cp", id_path());
	assert_found(SYMBOLS_BUILD_ID_FILE);
}

static void hostile_debugdata_gives_no_names(void **state)
{
	/* Zeros without end; with one inside; cut short; nothing. */
	static const char *const packed[] = {
		"head -c 100000000 /dev/zero | xz -T1 >x",
		"head -c 100000 whole | xz >y; cp root/bin/program z; "
		"objcopy --add-section .gnu_debugdata=y z; xz <z >x",
		"xz <program.debug | head -c 300 >x",
		"printf x >x",
	};

	make_program(FLAGS, "");
	for (size_t i = 0; i < sizeof(packed) / sizeof(packed[0]); i++) {
		shell("cd '%s/..' && { %s; } && cp root/bin/program clean && "
		      "objcopy --add-section .gnu_debugdata=x root/bin/program",
		      root, packed[i]);
		assert_found(SYMBOLS_NONE);
		shell("cd '%s/..' && cp clean root/bin/program", root);
	}
}

/* What prelink does: every address of the one file, and not of the other, moved by a constant. */
static void debug_file_elsewhere_is_moved_back(void **state)
{
	static const char move[] =
		"import struct, sys\n"
		"b = bytearray(open(sys.argv[1], 'rb').read()); d = 0x10000\n"
		"def add(at):\n"
		"    v, = struct.unpack_from('=Q', b, at); struct.pack_into('=Q', b, at, v + d)\n"
		"phoff, shoff = struct.unpack_from('=QQ', b, 32)\n"
		"phn, = struct.unpack_from('=H', b, 56); shn, = struct.unpack_from('=H', b, 60)\n"
		"for i in range(phn):\n"
		"    add(phoff + 56 * i + 16)\n"
		"for i in range(shn):\n"
		"    at = shoff + 64 * i\n"
		"    t, flags = struct.unpack_from('=IQ', b, at + 4)\n"
		"    if flags & 2: add(at + 16)\n"
		"    off, size = struct.unpack_from('=QQ', b, at + 24)\n"
		"    if t == 2:\n"
		"        for s in range(off, off + size, 24): add(s + 8)\n"
		"open(sys.argv[1], 'wb').write(b)\n";
	FILE *f;

	make_program(FLAGS, "");
	f = fopen(compile_path("move.py"), "w");
	fputs(move, f);
	fclose(f);
	shell("cd '%s/..' && python3 move.py program.debug", root);
	place("cp", id_path());
	assert_found(SYMBOLS_BUILD_ID_FILE);
}

static void dwarf_is_that_of_the_debug_file(void **state)
{
	struct module_report r;
	struct module *m;
	int fd;

	make_program(FLAGS, "");
	m = load(true, &r);
	assert_int_equal(module_take_dwarf(m), -1);
	module_free(m);
	place("cp", id_path());
	m = load(true, &r);
	fd = module_take_dwarf(m);
	assert_true(fd >= 0);
	assert_int_equal(module_take_dwarf(m), -1);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	close(fd);
	module_free(m);
	/* Of the file itself, if it has any; not taken, it is closed with the module. */
	shell("cp '%s/../whole' '%s/bin/program'", root, root);
	m = load(true, &r);
	assert_int_equal(r.sources[0], SYMBOLS_SYMTAB);
	module_free(m);
}

static void debuginfod_is_asked_only_when_told_to(void **state)
{
	char url[700];

	make_program(FLAGS, "");
	shell("cd '%s/..' && mkdir -p server/buildid/%s && cp program.debug "
	      "server/buildid/%s/debuginfo",
	      root, build_id, build_id);
	snprintf(url, sizeof(url), "%s/../cache", root);
	setenv("DEBUGINFOD_CACHE_PATH", url, 1);
	unsetenv("DEBUGINFOD_URLS");
	assert_found(SYMBOLS_NONE);
	snprintf(url, sizeof(url), "file://%s/../server/", root);
	setenv("DEBUGINFOD_URLS", url, 1);
	if (!dlopen("libdebuginfod.so.1", RTLD_NOW)) {
		print_message("libdebuginfod.so.1 is not installed\n");
		skip();
	}
	assert_found(SYMBOLS_DEBUGINFOD);
	unsetenv("DEBUGINFOD_URLS");
	assert_found(SYMBOLS_NONE);
}

static void report_says_why_there_is_nothing(void **state)
{
	struct module_report r;
	struct module *m;

	make_program("-O1 -nostdlib -static -Wl,-emain -Wl,--build-id=none", "");
	m = load(false, &r);
	assert_string_equal(
		r.why_none,
		"no symbol table; no build id or .gnu_debuglink to find a debug file by");
	assert_int_equal(r.n_sources, 0);
	assert_int_equal(r.build_id_len, 0);
	module_free(m);
	make_program("-O1 -nostdlib -static -Wl,-emain -Wl,--build-id", "");
	m = load(false, &r);
	assert_non_null(strstr(r.why_none, "looked for usr/lib/debug/.build-id"));
	module_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(debug_file_is_found_by_build_id),
		cmocka_unit_test(debug_file_is_found_by_link),
		cmocka_unit_test(debug_file_of_another_build_is_refused),
		cmocka_unit_test(nothing_outside_of_the_root_is_read),
		cmocka_unit_test(cost_of_a_debug_file_is_known_before),
		cmocka_unit_test(pipes_and_devices_hold_nobody),
		cmocka_unit_test(link_to_itself_ends),
		cmocka_unit_test(debugdata_supplements_dynsym),
		cmocka_unit_test(hostile_debugdata_gives_no_names),
		cmocka_unit_test(debug_file_elsewhere_is_moved_back),
		cmocka_unit_test(dwarf_is_that_of_the_debug_file),
		cmocka_unit_test(debuginfod_is_asked_only_when_told_to),
		cmocka_unit_test(report_says_why_there_is_nothing),
	};

	unsetenv("DEBUGINFOD_URLS");
	return cmocka_run_group_tests_name("symbol_sources", tests, NULL, NULL);
}
