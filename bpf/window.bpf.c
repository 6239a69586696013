// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>

#include "window.bpf.h"

/* Read @len bytes at @addr into the window; 0 or negative. Nothing is valid after a failure. */
static __always_inline int window_read(struct scratch *s, u64 addr, u64 len)
{
	s->window_start = addr;
	s->window_len = 0;
	s->reads++;
	/* Keeps clang from deleting the bound it can prove and 5.10's verifier cannot. */
	asm volatile("" : "+r"(len));
	if (len > WINDOW)
		return -1;
	if (bpf_probe_read_user(s->window, len, (void *)addr)) {
		s->read_faults++;
		return -1;
	}
	s->window_len = len;
	return 0;
}

__noinline int window_at(u32 slot, u64 addr, u64 need)
{
	struct scratch *s = scratch_at(slot);
	u64 offset, len, to_page_end;

	if (!s)
		return -1;
	offset = addr - s->window_start;
	if (offset < WINDOW && offset + need <= s->window_len)
		return offset;
	to_page_end = WINDOW - (addr & (WINDOW - 1));
	len = s->stack_end - addr;
	if (len > WINDOW)
		len = WINDOW;
	/* A page that was not there a sample ago is not asked for again for bytes nobody needs. */
	if (len > to_page_end && addr + to_page_end == s->absent_page && to_page_end >= need)
		len = to_page_end;
	if (!window_read(s, addr, len))
		return s->window_len < need ? -1 : 0;
	/* Two pages at most were asked for; the first alone may do. */
	if (len <= to_page_end)
		return -1;
	s->absent_now = s->absent_page = addr + to_page_end;
	if (to_page_end < need)
		return -1;
	return window_read(s, addr, to_page_end);
}

__noinline int window_with(u32 slot, u64 addr, u64 need, u64 more)
{
	struct scratch *s = scratch_at(slot);
	u64 to_page_end = WINDOW - (addr & (WINDOW - 1));

	if (!s)
		return -1;
	if (s->stack_end - addr >= more &&
	    (to_page_end >= more || addr + to_page_end != s->absent_now)) {
		int at = window_at(slot, addr, more);

		if (at >= 0)
			return at;
	}
	return window_at(slot, addr, need);
}
