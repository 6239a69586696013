// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "hostbpf.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_REGIONS 32
#define BUCKETS 4096

extern const volatile struct rprof_config rprof_config;

struct host host;

/* A mistake of the test itself, not of what is tested. */
static void host_die(const char *what)
{
	fprintf(stderr, "hostbpf: %s\n", what);
	abort();
}

static void *host_alloc(size_t n, size_t size)
{
	void *p = calloc(n, size);

	if (!p)
		host_die("out of memory");
	return p;
}

/* Maps. */

typedef unsigned __int128 host_key; /* the longest there is */

struct host_node {
	struct host_node *next;
	host_key key;
	u64 value[];
};

struct host_map {
	void *map;
	u32 type, key_size, value_size, max_entries;
	void **elems; /* arrays: allocated at first sight, zeroed */
	struct host_node **buckets; /* hashes */
	u32 n;
};

/* Sizes from the definitions, as libbpf reads them from their BTF. */
#define HOST_MAP(name)                                                                             \
	{                                                                                          \
		.map = &name, .type = sizeof(*name.type) / sizeof(int),                            \
		.key_size = sizeof(*name.key), .value_size = sizeof(*name.value),                  \
		.max_entries = sizeof(*name.max_entries) / sizeof(int)                             \
	}

static struct host_map maps[] = {
	HOST_MAP(rprof_seen),	 HOST_MAP(rprof_procs),	   HOST_MAP(rprof_tids),
	HOST_MAP(rprof_tables),	 HOST_MAP(rprof_mappings), HOST_MAP(rprof_counters),
	HOST_MAP(rprof_scratch), HOST_MAP(rprof_ns),	   HOST_MAP(rprof_pythons),
	HOST_MAP(rprof_code),	 HOST_MAP(rprof_threads),  HOST_MAP(rprof_pyscratch),
	HOST_MAP(rprof_hints),
};

#define N_MAPS (sizeof(maps) / sizeof(maps[0]))

static struct host_map *find_map(void *map)
{
	for (size_t i = 0; i < N_MAPS; i++)
		if (maps[i].map == map)
			return &maps[i];
	host_die("not a map, or the ring");
	return NULL;
}

static bool is_hash(const struct host_map *m)
{
	return m->type == BPF_MAP_TYPE_HASH || m->type == BPF_MAP_TYPE_LRU_HASH;
}

static host_key key_of(const struct host_map *m, const void *key)
{
	host_key widest;
	u32 narrow;
	u64 wide;

	if (m->key_size == sizeof(narrow)) {
		memcpy(&narrow, key, sizeof(narrow));
		return narrow;
	}
	if (m->key_size == sizeof(widest)) {
		memcpy(&widest, key, sizeof(widest));
		return widest;
	}
	memcpy(&wide, key, sizeof(wide));
	return wide;
}

static struct host_node **find_node(struct host_map *m, host_key key)
{
	struct host_node **at;

	if (!m->buckets)
		m->buckets = host_alloc(BUCKETS, sizeof(*m->buckets));
	at = &m->buckets[(((u64)key ^ (u64)(key >> 64)) * 0x9e3779b97f4a7c15ULL) >> 52];
	while (*at && (*at)->key != key)
		at = &(*at)->next;
	return at;
}

/* The value that was looked up last: kernel memory, which programs may read as such. */
static struct {
	const void *at;
	u32 size;
} looked_up;

static void *lookup(struct host_map *m, const void *key)
{
	host_key k = key_of(m, key);
	struct host_node *node;

	if (is_hash(m)) {
		node = *find_node(m, k);
		return node ? node->value : NULL;
	}
	if (k >= m->max_entries)
		return NULL;
	if (!m->elems)
		m->elems = host_alloc(m->max_entries, sizeof(*m->elems));
	if (!m->elems[k])
		m->elems[k] = host_alloc(1, m->value_size);
	return m->elems[k];
}

void *bpf_map_lookup_elem(void *map, const void *key)
{
	struct host_map *m = find_map(map);
	void *value = lookup(m, key);

	looked_up.at = value;
	looked_up.size = m->value_size;
	return value;
}

long bpf_map_update_elem(void *map, const void *key, const void *value, u64 flags)
{
	struct host_map *m = find_map(map);
	struct host_node **at;

	if (flags != BPF_ANY && (flags != BPF_NOEXIST || !is_hash(m)))
		host_die("map update: only BPF_ANY is there, and BPF_NOEXIST for hashes");
	if (!is_hash(m)) {
		void *elem = bpf_map_lookup_elem(map, key);

		if (!elem)
			return -E2BIG;
		memcpy(elem, value, m->value_size);
		return 0;
	}
	at = find_node(m, key_of(m, key));
	if (*at && flags == BPF_NOEXIST)
		return -EEXIST;
	if (!*at) {
		if (m->n == m->max_entries)
			return -E2BIG;
		*at = host_alloc(1, sizeof(**at) + m->value_size);
		(*at)->key = key_of(m, key);
		m->n++;
	}
	memcpy((*at)->value, value, m->value_size);
	return 0;
}

static long remove_key(struct host_map *m, host_key key)
{
	struct host_node **at = find_node(m, key), *node = *at;

	if (!node)
		return -ENOENT;
	*at = node->next;
	free(node);
	m->n--;
	return 0;
}

long bpf_map_delete_elem(void *map, const void *key)
{
	struct host_map *m = find_map(map);

	return remove_key(m, key_of(m, key));
}

void host_delete(void *map, u64 key)
{
	remove_key(find_map(map), key);
}

static void clear_map(struct host_map *m)
{
	for (u32 i = 0; m->elems && i < m->max_entries; i++)
		free(m->elems[i]);
	free(m->elems);
	m->elems = NULL;
	for (u32 i = 0; m->buckets && i < BUCKETS; i++) {
		for (struct host_node *node = m->buckets[i], *next; node; node = next) {
			next = node->next;
			free(node);
		}
	}
	free(m->buckets);
	m->buckets = NULL;
	m->n = 0;
}

/* Memory. */

struct region {
	u64 start, len;
	u8 *bytes;
	bool *hole; /* by page */
};

struct memory {
	struct region regions[MAX_REGIONS];
	u32 n;
};

static struct memory user, kernel;

static void add_region(struct memory *mem, u64 start, u64 len)
{
	struct region *r;

	if (mem->n == MAX_REGIONS || start % HOST_PAGE || len % HOST_PAGE || !len ||
	    start + len - 1 < start)
		host_die("bad region");
	r = &mem->regions[mem->n++];
	r->start = start;
	r->len = len;
	r->bytes = host_alloc(1, len);
	r->hole = host_alloc(len / HOST_PAGE, sizeof(*r->hole));
}

static void clear_memory(struct memory *mem)
{
	for (u32 i = 0; i < mem->n; i++) {
		free(mem->regions[i].bytes);
		free(mem->regions[i].hole);
	}
	mem->n = 0;
}

static struct region *find_region(struct memory *mem, u64 addr)
{
	for (u32 i = 0; i < mem->n; i++)
		if (addr - mem->regions[i].start < mem->regions[i].len)
			return &mem->regions[i];
	return NULL;
}

/* The byte at @addr, or NULL; *left: bytes up to the end of its page. */
static u8 *find_byte(struct memory *mem, u64 addr, u64 *left)
{
	struct region *r = find_region(mem, addr);

	*left = HOST_PAGE - addr % HOST_PAGE;
	if (!r || r->hole[(addr - r->start) / HOST_PAGE])
		return NULL;
	return r->bytes + (addr - r->start);
}

/* All or nothing, like copy_from_user_nofault() and its callers: what failed is zeroed. */
static bool copy_out(struct memory *mem, void *dst, u64 size, u64 addr)
{
	u8 *to = dst;

	if (size && addr + size - 1 < addr)
		goto fault;
	for (u64 done = 0; done < size;) {
		u64 left, n;
		const u8 *from = find_byte(mem, addr + done, &left);

		if (!from)
			goto fault;
		n = left < size - done ? left : size - done;
		memcpy(to + done, from, n);
		done += n;
	}
	return true;
fault:
	memset(dst, 0, size);
	return false;
}

static void copy_in(struct memory *mem, u64 addr, const void *bytes, u32 len)
{
	const u8 *from = bytes;

	for (u32 i = 0; i < len; i++) {
		u64 left;
		u8 *to = find_byte(mem, addr + i, &left);

		if (!to)
			host_die("poke: nothing there");
		*to = from[i];
	}
}

void host_user_region(u64 start, u64 len)
{
	add_region(&user, start, len);
}

void host_user_hole(u64 addr)
{
	struct region *r = find_region(&user, addr);

	if (!r)
		host_die("hole: nothing there");
	r->hole[(addr - r->start) / HOST_PAGE] = true;
}

void host_kernel_region(u64 start, u64 len)
{
	add_region(&kernel, start, len);
}

void host_poke(u64 addr, u64 word)
{
	copy_in(&user, addr, &word, sizeof(word));
}

void host_poke_bytes(u64 addr, const void *bytes, u32 len)
{
	copy_in(&user, addr, bytes, len);
}

void host_kernel_poke(u64 addr, u64 word)
{
	copy_in(&kernel, addr, &word, sizeof(word));
}

bool host_peek(u64 addr, void *dst, u32 len)
{
	return copy_out(&user, dst, len, addr);
}

long bpf_probe_read_user(void *dst, u32 size, const void *from)
{
	if (host.on_user_read)
		host.on_user_read((uintptr_t)from);
	host.user_reads++;
	host.user_bytes += size;
	if (copy_out(&user, dst, size, (uintptr_t)from))
		return 0;
	host.user_read_faults++;
	return -EFAULT;
}

long bpf_probe_read_kernel(void *dst, u32 size, const void *from)
{
	if (from && from == looked_up.at && size <= looked_up.size) {
		memcpy(dst, from, size);
		return 0;
	}
	return copy_out(&kernel, dst, size, (uintptr_t)from) ? 0 : -EFAULT;
}

/* The ring. */

/* What a record takes: BPF_RINGBUF_HDR_SZ, rounded up to 8 (kernel/bpf/ringbuf.c). */
static u64 ring_bytes(u64 len)
{
	return (len + 8 + 7) & ~7ULL;
}

long bpf_ringbuf_output(void *ring, void *data, u64 size, u64 flags)
{
	struct host_record *r;
	void *copy;

	if (ring != &rprof_ring)
		host_die("not the ring");
	if (host.on_output)
		host.on_output();
	host.outputs++;
	if (host.ring_size && host.ring_used + ring_bytes(size) > host.ring_size)
		return -EAGAIN;
	if (!(host.n_records & (host.n_records + 1))) {
		host.records =
			realloc(host.records, 2 * (host.n_records + 1) * sizeof(*host.records));
		if (!host.records)
			host_die("out of memory");
	}
	copy = host_alloc(1, size);
	memcpy(copy, data, size);
	r = &host.records[host.n_records++];
	r->flags = flags;
	r->len = size;
	r->data = copy;
	host.ring_used += ring_bytes(size);
	return 0;
}

u64 bpf_ringbuf_query(void *ring, u64 flags)
{
	if (ring != &rprof_ring || flags != BPF_RB_AVAIL_DATA)
		host_die("ring query");
	return host.ring_used;
}

void host_drain(void)
{
	host.ring_used = 0;
}

/* The current task. */

u64 bpf_ktime_get_ns(void)
{
	return host.now++;
}

u64 bpf_get_current_pid_tgid(void)
{
	return (u64)host.tgid << 32 | host.tid;
}

long bpf_get_current_comm(void *buf, u32 size)
{
	if (size != sizeof(host.comm))
		host_die("comm size");
	memcpy(buf, host.comm, sizeof(host.comm));
	return 0;
}

u32 bpf_get_smp_processor_id(void)
{
	return host.cpu;
}

u64 bpf_get_current_task(void)
{
	return host.task;
}

struct task_struct *bpf_get_current_task_btf(void)
{
	return (struct task_struct *)(uintptr_t)host.task;
}

long bpf_task_pt_regs(struct task_struct *task)
{
	if ((uintptr_t)task != host.task)
		host_die("not the current task");
	return host.task_regs;
}

long bpf_get_stack(void *ctx, void *buf, u32 size, u64 flags)
{
	u64 len = host.n_kstack * sizeof(u64);

	if (!ctx || flags || size % sizeof(u64))
		return -EINVAL;
	if (host.kstack_err)
		return host.kstack_err;
	if (len > size)
		len = size;
	if (len)
		memcpy(buf, host.kstack, len);
	return len;
}

/* The rest. */

void host_forget(void)
{
	clear_memory(&user);
	for (u32 i = 0; i < host.n_records; i++)
		free((void *)host.records[i].data);
	free(host.records);
	host.records = NULL;
	host.n_records = 0;
	host.ring_used = 0;
}

void host_reset(void)
{
	static const struct rprof_config defaults = { .hash_seed = 1,
						      .hash_key = 3,
						      .max_kernel = RPROF_MAX_KERNEL };

	for (size_t i = 0; i < N_MAPS; i++)
		clear_map(&maps[i]);
	host_forget();
	clear_memory(&kernel);
	host = (struct host){ .tgid = 100, .tid = 101, .comm = "target", .now = 1000 };
	host_config(&defaults);
}

void host_config(const struct rprof_config *config)
{
	uintptr_t to = (uintptr_t)&rprof_config, size = sysconf(_SC_PAGESIZE);
	uintptr_t page = to & ~(size - 1);

	if (mprotect((void *)page, to + sizeof(*config) - page, PROT_READ | PROT_WRITE))
		host_die("mprotect of rprof_config");
	/* Or clang, who knows that it is constant, leaves the copy out. */
	asm volatile("" : "+r"(to));
	memcpy((void *)to, config, sizeof(*config));
}

struct rprof_cpu *host_cpu(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&rprof_counters, &zero);
}

struct scratch *host_scratch(u32 slot)
{
	return bpf_map_lookup_elem(&rprof_scratch, &slot);
}

void host_proc(u32 tgid, u32 execs, u32 flags, u32 table)
{
	struct rprof_proc proc = { .execs = execs, .flags = flags, .table = table };

	bpf_map_update_elem(&rprof_procs, &tgid, &proc, BPF_ANY);
}

void host_table(u32 index, u32 space, u32 execs, u32 first, const struct rprof_mapping *m, u32 n)
{
	static u32 version;
	struct rprof_table table = { .version = ++version };

	table.runs[version & 1] = (struct rprof_run){
		.space = space,
		.execs = execs,
		.first = first,
		.count = n,
	};
	bpf_map_update_elem(&rprof_tables, &index, &table, BPF_ANY);
	for (u32 i = 0; i < n; i++) {
		u32 at = first + i;

		if (bpf_map_update_elem(&rprof_mappings, &at, &m[i], BPF_ANY))
			host_die("more mappings than the map holds");
	}
}
