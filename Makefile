# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# rprof-bpf. The two commands: sudo make demo, sudo make test. `make help` lists the rest.

ARCH ?= $(patsubst x86_64,x86,$(patsubst s390x,s390,$(shell uname -m)))
HOST_ARCH := $(patsubst x86_64,x86,$(patsubst s390x,s390,$(shell uname -m)))
ifeq ($(wildcard bpf/arch/$(ARCH).h),)
$(error rprof-bpf: architecture $(ARCH) is not supported: there is no bpf/arch/$(ARCH).h)
endif

VERSION := 0.1.0
PREFIX ?= /usr/local
DURATION ?= 5
V ?= 0
B := build/$(ARCH)

CC ?= gcc
CLANG ?= clang
BPFTOOL ?= bpftool
PKG_CONFIG ?= pkg-config
CFLAGS ?= -O2 -g
WARNINGS := -Wall -Wextra -Wshadow -Wvla -Wno-unused-parameter
INCLUDES := -Iinclude -Iuser

ifeq ($(ARCH),s390)
BPF_TARGET := bpfeb
else
BPF_TARGET := bpfel
endif

# Another architecture than this machine's: Debian's cross compiler and an unpacked sysroot, whose
# own bpftool makes the skeleton under user-mode qemu, since bookworm's refuses foreign byte orders.
ifneq ($(ARCH),$(HOST_ARCH))
SYSROOT := $(shell scripts/s390x-sysroot.sh)
CC := s390x-linux-gnu-gcc --sysroot=$(SYSROOT)
TARGET_BPFTOOL := qemu-s390x-static -L $(SYSROOT) $(SYSROOT)/usr/sbin/bpftool
LIB_CFLAGS :=
LIBS := -lbpf -ldw -lelf -lpopt -llzma -lzstd -lz -ljansson -liberty
else
TARGET_BPFTOOL := $(BPFTOOL)
LIB_CFLAGS = $(shell $(PKG_CONFIG) --cflags libbpf libdw libelf popt liblzma libzstd zlib jansson)
LIBS = $(shell $(PKG_CONFIG) --libs libbpf libdw libelf popt liblzma libzstd zlib jansson) -liberty
endif

BPF_CFLAGS := -target $(BPF_TARGET) -mcpu=v3 -g -O2 -Wall -Wextra -Wno-unused-parameter -Werror \
	-D__TARGET_ARCH_$(ARCH) -DBPF_NO_PRESERVE_ACCESS_INDEX -Iinclude -Ibpf -Ivmlinux/$(ARCH)
# What makes frames that can be walked, those of functions that call nothing, too.
FRAMES := $(if $(filter s390,$(ARCH)),-mbackchain,-fno-omit-frame-pointer -mno-omit-leaf-frame-pointer)

# With frame pointers, or what the machine has instead: -a samples us too.
USER_CFLAGS = -std=gnu11 $(firstword $(FRAMES)) -D_GNU_SOURCE -DRPROF_VERSION='"$(VERSION)"' $(WARNINGS) $(INCLUDES) \
	-I$(B) $(LIB_CFLAGS)

# maps.bpf.c first: the linker of libbpf 1.1 wants a definition before its uses.
BPF_SOURCES := bpf/maps.bpf.c $(filter-out bpf/maps.bpf.c,$(wildcard bpf/*.bpf.c))
BPF_OBJECTS := $(BPF_SOURCES:bpf/%.bpf.c=$(B)/bpf/%.o)
USER_SOURCES := $(wildcard user/*.c)
USER_OBJECTS := $(USER_SOURCES:%.c=$(B)/%.o)

# Everything but main, with sanitizers: what the unit tests link with. User-mode qemu, which runs
# what is built for another machine, bears none.
ifeq ($(SYSROOT),)
ASAN := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
TEST_OBJECTS := $(filter-out $(B)/asan/user/main.o,$(USER_SOURCES:%.c=$(B)/asan/%.o))
else
TEST_OBJECTS := $(filter-out $(B)/user/main.o,$(USER_OBJECTS))
endif
UNIT_TESTS := $(patsubst tests/unit/%.c,$(B)/tests/unit/%,$(wildcard tests/unit/test_*.c))
# The walker of each machine, on one with its byte order; x86's memory images are little-endian.
WALKER_SOURCES := $(wildcard tests/bpf/test_*$(if $(filter s390,$(ARCH)),_s390).c)
WALKER_TESTS := $(WALKER_SOURCES:tests/bpf/%.c=$(B)/tests/bpf/%)
KERNEL_TESTS := $(patsubst tests/kernel/%.c,$(B)/tests/kernel/%,$(wildcard tests/kernel/*.c))
FUZZERS := $(patsubst tests/fuzz/%.c,$(B)/tests/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
WORKLOADS := $(if $(SYSROOT),,$(B)/workloads/rprofdemo.abi3.so)
# Of another machine: tests/suites runs these, and they run the tests under qemu.
QEMU_TESTS := $(if $(SYSROOT),$(patsubst $(B)/tests/%,$(B)/tests/qemu-%,$(UNIT_TESTS) $(WALKER_TESTS)))

ifeq ($(V),1)
msg =
Q :=
else
msg = @printf '  %-8s %s\n' '$(1)' '$(2)' >&2;
Q := @
endif

# `sudo make ...` installs and runs as root, but builds as the user who called sudo, if the tree is
# that user's: no root-owned files are left in it.
ifeq ($(shell id -u),0)
ifneq ($(SUDO_UID),)
ifeq ($(shell stat -c %u .),$(SUDO_UID))
AS_USER := setpriv --reuid=$(SUDO_UID) --regid=$(SUDO_GID) --clear-groups \
	env HOME=$(shell getent passwd $(SUDO_UID) | cut -d: -f6)
endif
endif
endif
BUILD = $(AS_USER) $(MAKE) --no-print-directory

.DELETE_ON_ERROR:
.SECONDARY:
.PHONY: all demo test test-full check unit fuzz vm vm-shell install uninstall clean help format \
	workloads tests fuzzers deps-build deps-demo deps-test deps-vm

ifneq ($(AS_USER),)
# As root by sudo: what builds runs again as the user.
all workloads tests fuzzers check unit fuzz format: ## (by sudo: as the calling user)
	$(Q)$(BUILD) $@
else
all: $(if $(filter $(HOST_ARCH),$(ARCH)),build/rprof-bpf,$(B)/rprof-bpf) ## build the program of this machine: build/rprof-bpf

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' Makefile | sort | awk -F'|' '{ printf "  %-14s %s\n", $$1, $$2 }'
	@echo '  variables: V=1 ARCH=x86|s390 DESTDIR= PREFIX=$(PREFIX) CC= CLANG= CFLAGS= RPROF_CACHE='

build/rprof-bpf: build/$(HOST_ARCH)/rprof-bpf
	$(Q)ln -sf $(HOST_ARCH)/rprof-bpf $@

# The kernel side: units compiled apart, linked into one object, one skeleton.
$(B)/bpf/%.o: bpf/%.bpf.c
	@mkdir -p $(@D)
	$(call msg,BPF,$<)
	$(Q)$(CLANG) $(BPF_CFLAGS) -MMD -MP -MF $(@:.o=.d) -MT $@ -c $< -o $@

$(B)/rprof.bpf.o: $(BPF_OBJECTS) Makefile
	$(call msg,LINK,$@)
	$(Q)$(TARGET_BPFTOOL) gen object $@ $(BPF_OBJECTS)

$(B)/rprof.skel.h: $(B)/rprof.bpf.o
	$(call msg,SKEL,$@)
	$(Q)$(TARGET_BPFTOOL) gen skeleton $< name rprof_bpf > $@

# The user side.
$(B)/user/session.o $(B)/asan/user/session.o: $(B)/rprof.skel.h

$(B)/user/%.o: user/%.c
	@mkdir -p $(@D)
	$(call msg,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(USER_CFLAGS) -MMD -MP -c $< -o $@

$(B)/rprof-bpf: $(USER_OBJECTS)
	$(call msg,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $^ -o $@ $(LIBS)

# An extension of this machine's Python.
$(B)/workloads/%.abi3.so: tests/workloads/%.c
	@mkdir -p $(@D)
	$(call msg,CC,$<)
	$(Q)$(CC) -std=gnu11 -D_GNU_SOURCE -O2 -g $(FRAMES) $(WARNINGS) \
		$(shell $(PKG_CONFIG) --cflags python3) -fPIC -shared -MMD -MP -MF $@.d $< -o $@

workloads: $(WORKLOADS)

# Tests.
$(B)/asan/user/%.o: user/%.c
	@mkdir -p $(@D)
	$(call msg,CC-ASAN,$<)
	$(Q)$(CC) $(CPPFLAGS) -O1 -g $(ASAN) $(USER_CFLAGS) -MMD -MP -c $< -o $@

# An archive: each test gets what it needs, which is seldom all.
$(B)/tests/user.a: $(TEST_OBJECTS)
	@mkdir -p $(@D)
	$(call msg,AR,$@)
	$(Q)rm -f $@ && $(shell $(CC) -print-prog-name=ar) rcs $@ $^

$(B)/tests/unit/%: tests/unit/%.c $(B)/tests/user.a
	@mkdir -p $(@D)
	$(call msg,TEST,$@)
	$(Q)$(CC) $(CPPFLAGS) -O1 -g $(ASAN) $(USER_CFLAGS) -MMD -MP -MF $@.d $< $(B)/tests/user.a \
		-o $@ $(LIBS) -lcmocka

# The kernel side as host C over memory images: the same sources, headers that shadow the kernel's
# and libbpf's first on the path, no #ifdef.
HOSTBPF := -Itests/hostbpf -Iinclude -Ibpf
HOSTBPF_FILES := $(BPF_SOURCES) $(wildcard bpf/*.h bpf/arch/*.h tests/hostbpf/*.[ch] \
	tests/hostbpf/bpf/*.h include/rprof/*.h)
$(B)/tests/bpf/test_fuzz_x86: tests/fuzz/fuzz_walk_x86.c
$(B)/tests/bpf/test_python_fuzz_x86: tests/fuzz/fuzz_walk_python.c
HOSTBPF_SOURCES := $(BPF_SOURCES) tests/hostbpf/hostbpf.c
HOSTBPF_CC = $(CC) -std=gnu11 -D_GNU_SOURCE -O1 -g $(ASAN) $(WARNINGS) -Wno-unknown-pragmas \
	-D__TARGET_ARCH_$(1) $(HOSTBPF)

# $(1): the machine whose walker it is.
define hostbpf
HOSTBPF_$(1) := $$(patsubst %.c,$$(B)/hostbpf/$(1)/%.o,$$(notdir $$(HOSTBPF_SOURCES)))

$$(B)/hostbpf/$(1)/%.o: bpf/%.c $$(HOSTBPF_FILES)
	@mkdir -p $$(@D)
	$$(call msg,CC-HOST,$(1) $$<)
	$$(Q)$$(call HOSTBPF_CC,$(1)) -c $$< -o $$@

$$(B)/hostbpf/$(1)/%.o: tests/hostbpf/%.c $$(HOSTBPF_FILES)
	@mkdir -p $$(@D)
	$$(call msg,CC-HOST,$(1) $$<)
	$$(Q)$$(call HOSTBPF_CC,$(1)) -c $$< -o $$@

$$(B)/tests/bpf/%_$(1): tests/bpf/%_$(1).c $$(HOSTBPF_$(1)) $$(HOSTBPF_FILES)
	@mkdir -p $$(@D)
	$$(call msg,TEST,$$@)
	$$(Q)$$(call HOSTBPF_CC,$(1)) $$< $$(HOSTBPF_$(1)) -o $$@ -lcmocka
endef
$(foreach machine,x86 s390,$(eval $(call hostbpf,$(machine))))

# Loads every program; runs in virtual machines as well, so without sanitizers.
KERNEL_TEST_OBJECTS := $(patsubst %,$(B)/user/%.o,array btf_file kernel log proc task_layout)
$(B)/tests/kernel/%: tests/kernel/%.c $(B)/rprof.skel.h $(KERNEL_TEST_OBJECTS)
	@mkdir -p $(@D)
	$(call msg,TEST,$@)
	$(Q)$(CC) $(CFLAGS) $(USER_CFLAGS) -MMD -MP -MF $@.d $< $(KERNEL_TEST_OBJECTS) \
		-o $@ $(LIBS)

$(B)/tests/fuzz/fuzz_walk_%: tests/fuzz/fuzz_walk_%.c $(HOSTBPF_FILES)
	@mkdir -p $(@D)
	$(call msg,FUZZ,$@)
	$(Q)$(CLANG) -std=gnu11 -D_GNU_SOURCE -O1 -g -fsanitize=fuzzer,address,undefined \
		-fno-sanitize-recover=undefined -D__TARGET_ARCH_x86 $(HOSTBPF) $< $(BPF_SOURCES) \
		tests/hostbpf/hostbpf.c -o $@ -lcmocka

# Everything but main once more, for the fuzzers.
FUZZ_FLAGS := -O1 -g -fno-sanitize-recover=undefined
FUZZ_OBJECTS := $(filter-out $(B)/fuzz/user/main.o,$(USER_SOURCES:%.c=$(B)/fuzz/%.o))
$(B)/fuzz/user/session.o: $(B)/rprof.skel.h
$(B)/fuzz/user/%.o: user/%.c
	@mkdir -p $(@D)
	$(call msg,CC-FUZZ,$<)
	$(Q)$(CLANG) $(FUZZ_FLAGS) -fsanitize=fuzzer-no-link,address,undefined $(USER_CFLAGS) -MMD -MP \
		-c $< -o $@

$(B)/tests/fuzz/%: tests/fuzz/%.c $(FUZZ_OBJECTS)
	@mkdir -p $(@D)
	$(call msg,FUZZ,$@)
	$(Q)$(CLANG) $(FUZZ_FLAGS) -fsanitize=fuzzer,address,undefined $(USER_CFLAGS) $< \
		$(FUZZ_OBJECTS) -o $@ $(LIBS)

fuzzers: $(FUZZERS)

$(B)/tests/qemu-%: $(B)/tests/% Makefile
	@mkdir -p $(@D)
	$(Q)printf '#!/bin/sh\nexec tests/qemu-user %s "$$@"\n' $< > $@ && chmod +x $@

tests: all workloads $(UNIT_TESTS) $(WALKER_TESTS) $(KERNEL_TESTS) $(QEMU_TESTS)

FUZZ_SECONDS ?= 30
fuzz: $(FUZZERS) ## run every fuzz target for FUZZ_SECONDS=30 on its seed corpus
	$(Q)for f in $(FUZZERS); do name=$${f##*/fuzz_}; mkdir -p $(B)/corpus/$$name; \
		$$f -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=2048 $(B)/corpus/$$name \
			tests/fuzz/corpus/$$name || exit 1; done

SOURCES := $(wildcard bpf/*.[ch] bpf/arch/*.h include/rprof/*.h user/*.[ch] tests/unit/*.[ch] \
	tests/bpf/*.[ch] tests/hostbpf/*.[ch] tests/hostbpf/bpf/*.h tests/fuzz/*.c tests/workloads/*.c)

format: ## rewrite the C files in house style
	$(Q)scripts/format.py $(SOURCES)

check: tests ## what needs no root: format, style rules, unit and walker tests
	$(Q)tests/run check

unit: tests ## the unit and walker tests alone
	$(Q)tests/run unit
endif

# The two commands, and what CI calls: set-up, then the build as the calling user, then the run.
deps-build:
	$(Q)scripts/deps.sh build
deps-demo:
	$(Q)scripts/deps.sh demo
deps-test:
	$(Q)scripts/deps.sh build test $(if $(filter 0,$(VM)),,vm)
deps-vm:
	$(Q)scripts/deps.sh build vm

demo: deps-demo ## set up, build, profile a bundled workload, or PID=N, for DURATION=5
	$(Q)$(BUILD) -j$$(nproc) all workloads
	$(Q)scripts/demo.sh "$(PID)" "$(DURATION)"

test: deps-test ## set up, build, run the tests (root; CI runs this); VM=0: no virtual machines
	$(Q)$(BUILD) -j$$(nproc) tests
	$(Q)tests/run $(if $(filter 0,$(VM)),host,test)

test-full: deps-test ## everything an issue is closed on: long runs, fresh root, virtual machines
	$(Q)$(BUILD) -j$$(nproc) tests fuzzers
	$(Q)$(BUILD) -j$$(nproc) ARCH=s390 tests
	$(Q)RPROF_FULL=1 tests/run full

# Neither needs root.
vm: deps-vm ## boot kernels in virtual machines and test in them: all, or KERNEL="s390x-6.12 ..."
	$(Q)RPROF_FULL=1 $(AS_USER) tests/e2e/kernels.py $(KERNEL)

vm-shell: deps-vm ## a prompt in one of them, with all that is tested there: KERNEL=s390x-6.12
	$(Q)$(AS_USER) tests/e2e/kernels.py --shell $(or $(KERNEL),s390x-6.12)

install: all ## install program, man page and completion under DESTDIR/PREFIX
	install -D -m 755 build/$(HOST_ARCH)/rprof-bpf $(DESTDIR)$(PREFIX)/sbin/rprof-bpf
	install -D -m 644 user/rprof-bpf.8 $(DESTDIR)$(PREFIX)/share/man/man8/rprof-bpf.8
	install -D -m 644 user/rprof-bpf.bash-completion \
		$(DESTDIR)$(PREFIX)/share/bash-completion/completions/rprof-bpf

uninstall: ## remove what install installed
	rm -f $(DESTDIR)$(PREFIX)/sbin/rprof-bpf $(DESTDIR)$(PREFIX)/share/man/man8/rprof-bpf.8 \
		$(DESTDIR)$(PREFIX)/share/bash-completion/completions/rprof-bpf

clean: ## remove build/
	rm -rf build

-include $(wildcard $(B)/bpf/*.d $(B)/user/*.d $(B)/asan/user/*.d $(B)/fuzz/user/*.d $(B)/tests/unit/*.d \
	$(B)/tests/kernel/*.d $(B)/workloads/*.d)
