# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# One non-recursive Makefile; `make help` lists what it can do. Everything it makes lies under
# build/. Knobs: V=1 (show commands), DEBUG=1, SAN=address,undefined, WERROR=1, OUT= (build folder),
# CC=, CFLAGS=, CLANG=, BPFTOOL=, LIBBPF_DIR=, PYTHON=, PREFIX=, DESTDIR=, and for another machine
# ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu- SYSROOT= (see README).

VERSION := 0.1.0

MAKEFLAGS += --no-builtin-rules --no-print-directory
.SUFFIXES:
.DELETE_ON_ERROR:
.SECONDARY:
.DEFAULT_GOAL := all

ifeq ($(V),1)
Q :=
msg =
else
Q := @
msg = @printf '  %-7s %s\n' '$(1)' '$(2)'
endif

# make's own default is cc, which nobody chose
ifeq ($(origin CC),default)
CC := $(CROSS_COMPILE)gcc
endif
ifeq ($(origin AR),default)
AR := $(CROSS_COMPILE)ar
endif
CLANG ?= clang
# Debian puts bpftool where only root looks
BPFTOOL ?= $(or $(shell command -v bpftool 2>/dev/null),$(wildcard /usr/sbin/bpftool),bpftool)
CLANG_FORMAT ?= clang-format
VMLINUX_BTF ?= /sys/kernel/btf/vmlinux
PREFIX ?= /usr/local
PYTHON ?=
export PYTHON

# as libbpf's headers name it
HOST_ARCH := $(shell uname -m | sed 's/x86_64/x86/; s/aarch64/arm64/')
ARCH := $(HOST_ARCH)
JOBS := $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell nproc))

# ---- flavours ----------------------------------------------------------------------------------
# Each flavour has a folder of its own, so that switching costs nothing. The BPF side does not
# depend on the flavour: all share build/bpf and the skeleton. What is for another machine lies apart.
TOP := build$(if $(filter-out $(HOST_ARCH),$(ARCH)),/$(ARCH))
comma := ,
empty :=
space := $(empty) $(empty)
SAN_DIR := $(TOP)/san$(if $(filter-out address$(comma)undefined,$(SAN)),-$(subst $(comma),-,$(SAN)))
B := $(or $(OUT),$(if $(SAN),$(SAN_DIR)),$(if $(filter 1,$(DEBUG)),$(TOP)/debug),$(TOP))

# Fortified functions need optimisation, and the sanitizers do the same better.
ifneq ($(SAN)$(filter 1,$(DEBUG)),)
OPT := -O1 -fno-omit-frame-pointer
else
OPT := -O2 -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
endif
SANFLAGS := $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all)
# Texts for people are cut to their buffers on purpose, hence no format-truncation.
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wformat=2 -Wundef \
	-Wpointer-arith -Wvla \
	$(if $(findstring clang,$(CC)),,-Wno-format-truncation) $(if $(filter 1,$(WERROR)),-Werror)
CFLAGS ?= -g $(OPT)
ALL_CFLAGS := $(if $(SYSROOT),--sysroot=$(SYSROOT)) -std=gnu11 $(WARN) -fstack-protector-strong -fPIE -ffile-prefix-map=$(CURDIR)=. \
	$(SANFLAGS) $(CFLAGS)
ALL_CPPFLAGS := -D_GNU_SOURCE -DDLP_VERSION='"$(VERSION)"' -Iinclude -Iuser -I$(TOP) \
	-I$(TOP)/tests/bpf $(if $(LIBBPF_DIR),-isystem $(LIBBPF_DIR)/include) $(CPPFLAGS)
ALL_LDFLAGS := $(SANFLAGS) -pie -pthread -Wl,-z,relro,-z,now \
	$(if $(LIBBPF_DIR),-L$(LIBBPF_DIR)/lib -Wl$(comma)-rpath$(comma)$(LIBBPF_DIR)/lib) $(LDFLAGS)
LDLIBS := -lbpf -lelf -lzstd -lz -ljansson -lcap -lm

BPF_CFLAGS := -g -O2 -Wall -Wextra -Werror -target bpf -mcpu=v3 -D__TARGET_ARCH_$(ARCH) \
	-ffile-prefix-map=$(CURDIR)=. -Iinclude -Ibpf \
	$(if $(LIBBPF_DIR),-isystem $(LIBBPF_DIR)/include)
BPF_CC := $(CLANG) $(BPF_CFLAGS)
# For the bpf target clang leaves out the host's include folders, where libbpf's headers are.
# Asked for once, and only when something is compiled for BPF.
BPF_SYS = $(eval BPF_SYS := $$(shell $(CLANG) -v -E - </dev/null 2>&1 | \
	sed -n '/<...> search starts here:/,/End of search list./{ s| \(/.*\)|-idirafter \1|p }'))$(BPF_SYS)

# ---- what there is -----------------------------------------------------------------------------
# core first: the linker of libbpf 1.1 loses maps that an earlier object declares extern
BPF_SRC := $(sort $(wildcard bpf/*.bpf.c))
BPF_SRC := $(filter bpf/core.bpf.c,$(BPF_SRC)) $(filter-out bpf/core.bpf.c,$(BPF_SRC))
BPF_OBJ := $(BPF_SRC:%.bpf.c=$(TOP)/%.bpf.o)
BPF_LINKED := $(TOP)/bpf/dlprof.bpf.o
SKEL := $(TOP)/dlprof.skel.h

USER_SRC := $(sort $(wildcard user/*.c))
USER_OBJ := $(USER_SRC:%.c=$(B)/%.o)
# All that builds and runs without root: what unit tests may see.
LIB := $(B)/libdlprof.a
SESSION_OBJ := $(filter $(B)/user/session%.o,$(USER_OBJ))
LIB_OBJ := $(filter-out $(B)/user/main.o $(SESSION_OBJ),$(USER_OBJ))
TOOL := $(B)/dlprof-bpf
STATIC_TOOL := $(TOOL)-static

# tests/*/test_NAME.c is a program; the folder's other .c files are linked into each of them.
UNIT_SRC := $(sort $(wildcard tests/unit/test_*.c))
UNIT_HELP := $(sort $(filter-out $(UNIT_SRC),$(wildcard tests/unit/*.c)))
UNIT_BIN := $(UNIT_SRC:%.c=$(B)/%)
UNIT_HELP_OBJ := $(UNIT_HELP:%.c=$(B)/%.o)

BT_BPF_SRC := $(sort $(wildcard tests/bpf/*.bpf.c))
BT_SKEL := $(BT_BPF_SRC:%.bpf.c=$(TOP)/%.skel.h)
BT_SRC := $(sort $(filter-out $(BT_BPF_SRC),$(wildcard tests/bpf/test_*.c)))
BT_HELP := $(sort $(filter-out $(BT_SRC) $(BT_BPF_SRC),$(wildcard tests/bpf/*.c)))
BT_BIN := $(BT_SRC:%.c=$(B)/%)
BT_HELP_OBJ := $(BT_HELP:%.c=$(B)/%.o)

# C programs that the integration tests run, one file each; preload_NAME.c is for LD_PRELOAD.
IT_PRELOAD_SRC := $(sort $(wildcard tests/integration/preload_*.c))
IT_SRC := $(sort $(filter-out $(IT_PRELOAD_SRC),$(wildcard tests/integration/*.c)))
IT_BIN := $(IT_SRC:%.c=$(B)/%) $(IT_PRELOAD_SRC:%.c=$(B)/%.so)

# $(call remember,FILE,TEXT): FILE holds TEXT and is only touched when that changes. Done while
# reading the Makefile, so that `make -q` tells the truth.
remember = $(if $(findstring x$(2)x,x$(file <$(1))x),,$(shell mkdir -p $(dir $(1)))$(file >$(1),$(2)))

ifneq ($(MAKECMDGOALS),clean)
ifneq ($(MAKECMDGOALS),help)
# Objects depend on the flags they were made with; CC=clang or WERROR=1 rebuilds what it concerns.
$(call remember,$(B)/flags,$(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) $(ALL_LDFLAGS))
$(call remember,$(TOP)/bpf/flags,$(BPF_CC))
# Archives and links depend on the list of their parts: a deleted source must not live on in them.
$(call remember,$(B)/parts,$(USER_OBJ) $(UNIT_HELP_OBJ) $(BT_HELP_OBJ))
$(call remember,$(TOP)/bpf/parts,$(BPF_OBJ))
endif
endif

# ---- build -------------------------------------------------------------------------------------
.PHONY: all
all: $(TOOL) ## build build/dlprof-bpf (needs neither root nor network)

$(TOP)/%.bpf.o: %.bpf.c $(TOP)/bpf/flags
	$(call msg,BPF,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(BPF_CC) -Ivmlinux $(BPF_SYS) -MMD -MP -c $< -o $@

$(BPF_LINKED): $(BPF_OBJ) $(TOP)/bpf/parts
	$(call msg,BPFLD,$@)
	$(Q)$(BPFTOOL) gen object $@ $(BPF_OBJ)

$(SKEL): $(BPF_LINKED)
	$(call msg,SKEL,$@)
	$(Q)$(BPFTOOL) gen skeleton $< name dlprof_bpf >$@

# Order only: afterwards the dependency files know who includes the skeleton.
$(SESSION_OBJ): | $(SKEL)

$(B)/%.o: %.c $(B)/flags
	$(call msg,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -c $< -o $@

# It holds these files, which the compiler's dependency files do not know.
$(B)/user/html_parts.o: $(wildcard user/html/*)

$(LIB): $(LIB_OBJ) $(B)/parts
	$(call msg,AR,$@)
	$(Q)rm -f $@
	$(Q)$(AR) rcs $@ $(LIB_OBJ)

LINK = $(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) $(filter %.o %.a,$^) $(1) -o $@

$(TOOL) $(STATIC_TOOL): $(B)/user/main.o $(SESSION_OBJ) $(LIB)
	$(call msg,LD,$@)
	$(Q)$(call LINK,$(LDLIBS))
# It needs no library where it runs. The linker warns of what would want modules of the C library
# there (getpwuid): nothing may.
$(STATIC_TOOL): ALL_LDFLAGS += -static-pie -Wl,--fatal-warnings

# ---- test programs -----------------------------------------------------------------------------
$(UNIT_BIN): $(B)/%: $(B)/%.o $(UNIT_HELP_OBJ) $(LIB)
	$(call msg,LD,$@)
	$(Q)$(call LINK,$(WRAP) -lcmocka $(LDLIBS))
$(B)/tests/unit/test_alloc: WRAP := $(patsubst %,-Wl$(comma)--wrap=%,malloc calloc realloc strdup free)
# faulty_io.c has them
IO_WRAP := $(patsubst %,-Wl$(comma)--wrap=%,read pread write pwrite ftruncate fsync fdatasync rename \
	open fdopen getrandom)
$(B)/tests/unit/test_faulty_reads $(B)/tests/unit/test_faulty_writes: WRAP := $(IO_WRAP)

# It runs the tool itself.
$(B)/tests/unit/test_damaged: | $(TOOL)

$(BT_SKEL): $(TOP)/tests/bpf/%.skel.h: $(TOP)/tests/bpf/%.bpf.o
	$(call msg,SKEL,$@)
	$(Q)$(BPFTOOL) gen skeleton $< name $* >$@

$(BT_BIN:=.o) $(BT_HELP_OBJ): | $(SKEL) $(BT_SKEL)
$(BT_BIN): $(B)/%: $(B)/%.o $(BT_HELP_OBJ) $(SESSION_OBJ) $(LIB)
	$(call msg,LD,$@)
	$(Q)$(call LINK,-lcmocka $(LDLIBS))

$(IT_SRC:%.c=$(B)/%): $(B)/%: $(B)/%.o
	$(call msg,LD,$@)
	$(Q)$(call LINK,-lpthread)
$(IT_PRELOAD_SRC:%.c=$(B)/%.so): $(B)/%.so: %.c $(B)/flags
	$(call msg,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CPPFLAGS) $(filter-out -fPIE,$(ALL_CFLAGS)) -fPIC -shared $< -o $@

$(B)/tests/scenarios/anonymise: $(B)/tests/scenarios/anonymise.o $(LIB)
	$(call msg,LD,$@)
	$(Q)$(call LINK,$(LDLIBS))

# ---- fuzzing -----------------------------------------------------------------------------------
# Targets of libFuzzer, which only clang has; the unit tier runs the corpora through the same code.
# tests/fuzz/fuzz_NAME.c, and mutate_NAME.c where inputs must be changed in their own way.
FUZZ_SECONDS ?= 60
FUZZ ?= $(FUZZ_NAMES)
FUZZ_NAMES := $(patsubst tests/fuzz/fuzz_%.c,%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))
FUZZ_BIN := $(FUZZ_NAMES:%=$(B)/tests/fuzz/fuzz_%)
FUZZ_HELP_OBJ := $(addprefix $(B)/tests/unit/,record_make.o elf_build.o tree.o)
$(B)/tests/fuzz/fuzz_replay: $(B)/tests/fuzz/mutate_replay.o
$(FUZZ_BIN): $(B)/%: $(B)/%.o $(FUZZ_HELP_OBJ) $(LIB)
	$(call msg,LD,$@)
	$(Q)$(call LINK,-fsanitize=fuzzer $(LDLIBS))
$(B)/tests/fuzz/make_corpus: $(B)/tests/fuzz/make_corpus.o $(B)/tests/fuzz/make_seeds.o \
		$(FUZZ_HELP_OBJ) $(LIB)
	$(call msg,LD,$@)
	$(Q)$(call LINK,$(LDLIBS))

# $(call fuzz_run,NAME,FOLDER): FOLDER, which must be there, is given what inputs are found; then
# those to begin with are read as well.
fuzz_run = build/fuzz/tests/fuzz/fuzz_$(1) -max_total_time=$(FUZZ_SECONDS) -timeout=10 \
	-max_len=16384 -rss_limit_mb=1024 -print_final_stats=1 \
	-artifact_prefix=build/fuzz/found/$(1)- $(2) tests/fuzz/corpus/$(1)

.PHONY: fuzz fuzz-build fuzz-all fuzz-short fuzz-corpus
fuzz-build: $(FUZZ:%=$(B)/tests/fuzz/fuzz_%)
fuzz-all:
	$(Q)$(MAKE) $(JOBS) OUT=build/fuzz CC=$(CLANG) SAN=fuzzer-no-link,address,undefined fuzz-build
fuzz: fuzz-all ## feed damaged input to each of FUZZ= (all targets) for FUZZ_SECONDS= (60)
	$(Q)mkdir -p $(FUZZ:%=build/fuzz/corpus/%) build/fuzz/found
	$(Q)for name in $(FUZZ); do \
		printf '  %-7s %s\n' FUZZ "$$name"; \
		$(call fuzz_run,$$name,build/fuzz/corpus/$$name) || exit 1; \
	done
# What tests/run.sh asks for, as TAP: nothing but the committed corpus to begin with.
FUZZ_SHORT := $(FUZZ:%=fuzz-short-%)
.PHONY: $(FUZZ_SHORT)
fuzz-short: $(FUZZ_SHORT)
$(FUZZ_SHORT): fuzz-short-%:
	$(Q)rm -rf build/fuzz/short/$*
	$(Q)mkdir -p build/fuzz/short/$* build/fuzz/found
	$(Q)if $(call fuzz_run,$*,build/fuzz/short/$*) >build/fuzz/short/$*.log 2>&1; then \
		printf 'ok - %s\n' '$*'; \
	else \
		tail -n 60 build/fuzz/short/$*.log | sed 's/^/# /'; \
		printf 'not ok - %s\n' '$*'; \
		exit 1; \
	fi
fuzz-corpus: $(B)/tests/fuzz/make_corpus
	$(Q)$< tests/fuzz/corpus

.PHONY: golden
golden: $(B)/tests/unit/test_view $(B)/tests/unit/test_view_ranks
	$(Q)for test in $^; do DLP_GOLDEN_WRITE=1 $$test || exit; done

# What tests/run.sh asks for. test_layout reads the linked BPF object while it runs.
.PHONY: build-unit build-bpf build-integration list-unit list-bpf
build-unit: $(UNIT_BIN) $(BPF_LINKED)
build-bpf: $(BT_BIN) $(BPF_LINKED)
build-integration: $(TOOL) $(IT_BIN)
list-unit list-bpf: list-%:
	@printf '%s\n' $(if $(filter unit,$*),$(UNIT_BIN),$(BT_BIN))

# ---- for people --------------------------------------------------------------------------------
.PHONY: deps demo test test-unit test-bpf test-integration test-package \
	test-release test-scenarios-short test-scenarios test-robust test-valgrind test-valgrind-short \
	test-fuzz-short test-vm test-vm-short test-torch deps-vm bench
deps: ## install what building and testing need: Debian packages, and torch into build/venv
	$(Q)tests/deps.sh test

demo: ## train a small model and watch it for some seconds (root)
	$(Q)tests/deps.sh demo
	$(Q)$(MAKE) $(JOBS) all
	$(Q)tests/demo.sh

test: ## every test that this machine and user can run; the last line is the count
	$(Q)tests/run.sh

test-unit: ## unit tests, plain and under ASan and UBSan (no root)
	$(Q)tests/run.sh unit

test-bpf: ## tests that load the BPF programs (root)
	$(Q)tests/run.sh bpf

test-integration: ## tests on real PyTorch training (root)
	$(Q)tests/run.sh integration

test-package: ## the manual, the completion, make install, the Debian package and the release
	$(Q)tests/run.sh package

test-release: ## the release in Debian 11, on a training, and made twice (root, downloads, minutes)
	$(Q)tests/run.sh release

test-scenarios-short: ## the part of them that `make test` runs (root)
	$(Q)tests/run.sh scenarios-short

test-scenarios: ## training jobs of known trouble, what must be said about each (root, takes long)
	$(Q)tests/run.sh scenarios

test-robust: ## a job's hard minute, with 50 kills of the tool that watches it (root)
	$(Q)tests/run.sh robust

test-valgrind: ## the unit tests under valgrind's memcheck (takes some minutes)
	$(Q)tests/run.sh valgrind

test-valgrind-short: ## the part of them that `make test` runs
	$(Q)tests/run.sh valgrind-short

test-fuzz-short: ## each target of `make fuzz` for some seconds
	$(Q)tests/run.sh fuzz-short

deps-vm: ## install what booting other kernels needs (qemu and some small packages)
	$(Q)tests/deps.sh vm

test-vm: ## BPF tier, state clock and a training on kernels from 5.10 to 7.x (emulated, takes long)
	$(Q)tests/run.sh vm

test-vm-short: ## a part of the BPF tier on the oldest and the newest of them
	$(Q)tests/run.sh vm-short

test-torch: ## a training on torch from 1.8 to the newest (installs some 13 GB, takes long)
	$(Q)tests/run.sh torch

bench: ## what watching costs: the table of the README (root, takes long)
	$(Q)tests/deps.sh demo
	$(Q)$(MAKE) $(JOBS) all
	$(Q)"$$(tests/deps.sh python)" tests/bench/bench.py $(BENCH_ARGS)

.PHONY: lint lint-shell lint-man lint-cppcheck lint-tidy lint-clang format-check
LINT_C := $(USER_SRC) $(wildcard tests/fuzz/*.c tests/scenarios/*.c) $(UNIT_SRC) $(UNIT_HELP) $(BT_SRC) $(BT_HELP) $(IT_SRC) $(IT_PRELOAD_SRC)
lint: ## shellcheck, mandoc, cppcheck, clang-tidy, a build with clang, and check-vmlinux
	$(Q)tests/run.sh lint
lint-shell:
	$(Q)shellcheck -x .ci/run docs/dlprof-bpf.bash $(wildcard packaging/*.sh tests/*.sh tests/*/*.sh)
# Its index of other manuals may be old; below warnings it wants short lines.
lint-man:
	$(Q)mandoc -Tlint -W warning docs/dlprof-bpf.8
# It knows nothing of the cleanup attribute, and loses its way in cmocka's macros: leaks are for the
# AddressSanitizer build of the tests, the tests themselves for clang-tidy.
lint-cppcheck:
	$(Q)cppcheck --quiet --std=c11 --enable=warning,performance,portability --inline-suppr \
		--suppress=memleak --suppress=resourceLeak --suppress=readdirCalled \
		--suppress=uninitStructMember --error-exitcode=1 $(JOBS) -D__x86_64__ -D_GNU_SOURCE \
		-DDLP_VERSION='"$(VERSION)"' -Iinclude -Iuser $(USER_SRC)
# The static analyzer takes 95 % of the time. Of the tests it knows nothing that the sanitizers would
# not find: they run on straight paths, with data of their own.
lint-tidy: $(SKEL) $(BT_SKEL)
	$(Q)tidy() { xargs -P "$$(nproc)" -n 3 sh -c 'clang-tidy --quiet "$$@" -- \
		-std=gnu11 $(subst ','\'',$(ALL_CPPFLAGS))' "$$@"; }; \
	printf '%s\n' $(USER_SRC) | tidy clang-tidy && \
	printf '%s\n' $(filter-out $(USER_SRC),$(LINT_C)) | tidy clang-tidy '--checks=-clang-analyzer-*'
# every C file with the other compiler, warnings being errors
lint-clang:
	$(Q)$(MAKE) $(JOBS) -k OUT=build/clang CC=$(CLANG) WERROR=1 all build-unit build-bpf \
		build-integration
# the BPF programs for the other machine: needs no cross compiler
.PHONY: lint-arm64 bpf
bpf: $(BPF_LINKED)
lint-arm64:
	$(Q)$(MAKE) $(JOBS) ARCH=arm64 bpf
format-check: ## differences from .clang-format
	$(Q)$(CLANG_FORMAT) --dry-run -Werror $(wildcard user/*.[ch] include/dlprof/*.h bpf/*.[ch] \
		vmlinux/*.h tests/*/*.[ch])

.PHONY: vmlinux check-vmlinux insns
FULL_OBJ := $(BPF_OBJ:$(TOP)/bpf/%=build/vmlinux-full/%)
build/vmlinux-full/vmlinux.h: $(VMLINUX_BTF)
	$(call msg,BTF,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(BPFTOOL) btf dump file $< format c >$@
$(FULL_OBJ): build/vmlinux-full/%.bpf.o: bpf/%.bpf.c build/vmlinux-full/vmlinux.h $(TOP)/bpf/flags
	$(call msg,BPF,$@)
	$(Q)$(BPF_CC) -Ibuild/vmlinux-full $(BPF_SYS) -MMD -MP -c $< -o $@
vmlinux: build/vmlinux-full/vmlinux.h ## dump all types of the running kernel into build/vmlinux-full
check-vmlinux: $(FULL_OBJ) ## compile bpf/ against the running kernel's own types
insns: $(BPF_LINKED) ## instructions of each BPF program and function
	$(Q)readelf -sW $< 2>/dev/null | awk '$$4 == "FUNC" { printf "%7d  %s\n", $$3 / 8, $$8 }' | sort -rn

.PHONY: install uninstall deb release clean help
INSTALLED := $(DESTDIR)$(PREFIX)
DOC_DIR := $(INSTALLED)/share/doc/dlprof-bpf
MAN_DIR := $(INSTALLED)/share/man/man8
COMPLETION_DIR := $(INSTALLED)/share/bash-completion/completions
INSTALL_TOOL := $(TOOL)
install: $(INSTALL_TOOL) ## copy to DESTDIR and PREFIX (/usr/local)
	$(call msg,INSTALL,$(INSTALLED))
	$(Q)install -D -m 755 $(INSTALL_TOOL) $(INSTALLED)/bin/dlprof-bpf
	$(Q)install -D -m 644 docs/dlprof-bpf.8 $(MAN_DIR)/dlprof-bpf.8
	$(Q)install -D -m 644 docs/dlprof-bpf.bash $(COMPLETION_DIR)/dlprof-bpf
	$(Q)install -d $(DOC_DIR)
	$(Q)install -m 644 README.md LICENSE $(DOC_DIR)

# Folders that others use as well stay.
uninstall: ## remove what install has copied
	$(call msg,REMOVE,$(INSTALLED))
	$(Q)rm -f $(INSTALLED)/bin/dlprof-bpf $(MAN_DIR)/dlprof-bpf.8 $(COMPLETION_DIR)/dlprof-bpf \
		$(DOC_DIR)/README.md $(DOC_DIR)/LICENSE
	$(Q)if [ -d $(DOC_DIR) ]; then rmdir --ignore-fail-on-non-empty $(DOC_DIR); fi

deb: all ## build build/dlprof-bpf_VERSION_ARCH.deb (needs dpkg-dev)
	$(call msg,DEB,build)
	$(Q)packaging/deb.sh $(TOOL) $(VERSION) build

release: ## build build/dlprof-bpf-VERSION-linux-ARCH.tar.gz, whose program needs no library (on Debian)
	$(Q)rm -rf build/release
	$(Q)$(MAKE) $(JOBS) install INSTALL_TOOL=$(STATIC_TOOL) DESTDIR=build/release PREFIX=
	$(call msg,RELEASE,build)
	$(Q)packaging/release.sh build/release $(VERSION) build

# The venvs stay: they are the one thing under build/ that takes long to make.
clean: ## remove what was built (build/venv stays)
	$(Q)if [ -d build ]; then find build -mindepth 1 -maxdepth 1 ! -name 'venv*' -exec rm -rf {} +; fi

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

-include $(wildcard $(TOP)/bpf/*.d $(TOP)/tests/bpf/*.d build/vmlinux-full/*.d $(B)/user/*.d \
	$(B)/tests/*/*.d)
