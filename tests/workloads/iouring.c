// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A process whose kernel workers are busy: io_uring reads of /dev/urandom, forced into workers. They
 * have its memory and its number, and have never been in its code. main -> submitter -> system call.
 */
#include <linux/io_uring.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <fcntl.h>

#include "workload.h"

#define SIZE (1u << 20)

static char buffer[SIZE];

NODE void submitter(int ring, struct io_uring_sqe *sqe, uint32_t *sq_tail, uint32_t *sq_array,
		    uint32_t *cq_head, uint32_t *cq_tail, int file)
{
	*sqe = (struct io_uring_sqe){
		.opcode = IORING_OP_READ,
		.flags = IOSQE_ASYNC,
		.fd = file,
		.addr = (uintptr_t)buffer,
		.len = SIZE,
	};
	sq_array[0] = 0;
	__atomic_store_n(sq_tail, *sq_tail + 1, __ATOMIC_RELEASE);
	syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0);
	__atomic_store_n(cq_head, __atomic_load_n(cq_tail, __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
}

int main(void)
{
	struct io_uring_params p = {};
	int ring = syscall(SYS_io_uring_setup, 1, &p), file = open("/dev/urandom", O_RDONLY);
	int prot = PROT_READ | PROT_WRITE;
	struct io_uring_sqe *sqe;
	char *sq, *cq;

	if (ring < 0 || file < 0) {
		printf("no io_uring\n");
		return 77;
	}
	sq = mmap(NULL, p.sq_off.array + 4, prot, MAP_SHARED | MAP_POPULATE, ring,
		  IORING_OFF_SQ_RING);
	cq = mmap(NULL, p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe), prot,
		  MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_CQ_RING);
	sqe = mmap(NULL, sizeof(*sqe), prot, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQES);
	if (sq == MAP_FAILED || cq == MAP_FAILED || sqe == MAP_FAILED)
		return 1;
	ready();
	for (;;) {
		submitter(ring, sqe, (uint32_t *)(sq + p.sq_off.tail),
			  (uint32_t *)(sq + p.sq_off.array), (uint32_t *)(cq + p.cq_off.head),
			  (uint32_t *)(cq + p.cq_off.tail), file);
		BARRIER();
	}
}
