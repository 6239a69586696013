// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Burns in code that it made itself, at one address, with a frame of its own.
 *
 *	jit		says "ready PID ADDR SIZE", the last two in hexadecimal, and burns; whoever
 *			started it writes the perf-map
 *	jit DUMP	writes a jitdump file, too, and maps it as V8 and LLVM do: jit_first
 *
 * At SIGUSR1 other code takes the place of the code: jit_second.
 */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "workload.h"

#define SIZE 128

static volatile sig_atomic_t replace;

static void on_usr1(int sig __attribute__((unused)))
{
	replace = 1;
}

/* push %rbp; mov %rsp, %rbp; @pad nops; mov $COUNT, %ecx; 1: dec %ecx; jnz 1b; pop %rbp; ret */
static void make_code(unsigned char *at, size_t pad)
{
	static const unsigned char head[] = { 0x55, 0x48, 0x89, 0xe5 };
	static const unsigned char tail[] = { 0xb9, 0x00, 0x00, 0x10, 0x00, 0xff,
					      0xc9, 0x75, 0xfc, 0x5d, 0xc3 };

	memset(at, 0xcc, SIZE);
	memcpy(at, head, sizeof(head));
	memset(at + sizeof(head), 0x90, pad);
	memcpy(at + sizeof(head) + pad, tail, sizeof(tail));
}

static void put(int fd, const void *bytes, size_t size)
{
	if (write(fd, bytes, size) != (ssize_t)size)
		_exit(1);
}

static void put_header(int fd)
{
	struct {
		unsigned int magic, version, size, machine, pad, pid;
		unsigned long time, flags;
	} header = { 0x4a695444, 1, sizeof(header), 62, 0, (unsigned int)getpid(), 0, 0 };

	put(fd, &header, sizeof(header));
}

static void put_load(int fd, const unsigned char *code, const char *name)
{
	struct {
		unsigned int id, size;
		unsigned long time;
		unsigned int pid, tid;
		unsigned long vma, addr, code_size, index;
	} load = { .pid = (unsigned int)getpid(),
		   .vma = (unsigned long)code,
		   .addr = (unsigned long)code,
		   .code_size = SIZE };
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	load.time = (unsigned long)ts.tv_sec * 1000000000 + (unsigned long)ts.tv_nsec;
	load.size = (unsigned int)(sizeof(load) + strlen(name) + 1 + SIZE);
	put(fd, &load, sizeof(load));
	put(fd, name, strlen(name) + 1);
	put(fd, code, SIZE);
}

int main(int argc, char **argv)
{
	unsigned char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int dump = -1;

	if (code == MAP_FAILED)
		return 1;
	make_code(code, 0);
	signal(SIGUSR1, on_usr1);
	if (argc > 1) {
		dump = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0644);
		put_header(dump);
		if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, dump, 0) == MAP_FAILED)
			return 1;
		put_load(dump, code, "jit_first");
	}
	printf("ready %d %lx %x\n", getpid(), (unsigned long)code, SIZE);
	fflush(stdout);
	for (;;) {
		((void (*)(void))code)();
		if (!replace)
			continue;
		/* Elsewhere in the same range, so that the stack is another one. */
		make_code(code, 64);
		if (dump >= 0)
			put_load(dump, code, "jit_second");
		replace = 0;
	}
}
