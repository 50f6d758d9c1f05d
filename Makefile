# Tern: one non-recursive makefile. Everything it makes lies in build/; sources are found by wildcard.
#   make [SANITIZE=1] [target]     SANITIZE=1 builds with ASan and UBSan into build/asan.

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SUFFIXES:

PREFIX ?= /usr/local
CC ?= gcc
ifeq ($(origin CC),default)
CC := gcc
endif

# ---- flags ---------------------------------------------------------------------------------------------------------------------
BUILD := build
OPTIMISE := -O2 -g
ifeq ($(SANITIZE),1)
BUILD := build/asan
OPTIMISE := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
endif

VERSION := $(shell sed -n 's/.*TERN_VERSION "\(.*\)"/\1/p' harness/core/version.h)
WARNINGS := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wformat=2 -Wvla -Werror
LUA_CFLAGS := $(or $(shell pkg-config --cflags lua5.4 2>/dev/null),-I/usr/include/lua5.4)
CUDA_INCLUDE := $(shell scripts/find-cuda.sh include)
CPPFLAGS += -D_GNU_SOURCE -Iharness -Itemplates/include $(LUA_CFLAGS)
CFLAGS += -std=c17 $(OPTIMISE) -ffp-contract=off $(WARNINGS)
LDFLAGS += $(filter -fsanitize=%,$(OPTIMISE))
LDLIBS := -llua5.4 -lsqlite3 -ljansson -lxxhash -lzstd -ldl -lpthread -lm
# The same libraries from their static archives: the portable binary needs glibc only.
STATIC_LDLIBS := -l:liblua5.4.a -l:libsqlite3.a -l:libjansson.a -l:libxxhash.a -l:libzstd.a -ldl -lpthread -lm

# ---- files ---------------------------------------------------------------------------------------------------------------------
SOURCES := $(sort $(wildcard harness/*/*.c))
MAIN := harness/commands/main.c
OBJECTS := $(patsubst harness/%.c,$(BUILD)/obj/%.o,$(filter-out $(MAIN),$(SOURCES)))
MAIN_OBJECT := $(patsubst harness/%.c,$(BUILD)/obj/%.o,$(wildcard $(MAIN)))
LIBRARY := $(BUILD)/libtern.a
PROGRAM := $(BUILD)/tune
# The runtime library: its own objects, position independent, with what it needs of core and formats.
RUNTIME_SOURCES := $(wildcard harness/runtime/*.c) $(addprefix harness/,core/activation.c core/archive.c core/error.c core/file.c core/half.c \
    core/clock.c core/hash.c core/log.c core/str.c formats/format.c formats/layout.c formats/parallel.c formats/weights.c core/random.c)
RUNTIME_OBJECTS := $(patsubst harness/%.c,$(BUILD)/rt/%.o,$(RUNTIME_SOURCES))
RUNTIME := $(BUILD)/libtern_rt.a $(BUILD)/libtern_rt.so
TEST_SOURCES := $(sort $(wildcard tests/unit/test_*.c))
TESTS := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(TEST_SOURCES))
OFFLINE_TESTS := $(patsubst tests/offline/%.c,$(BUILD)/tests/offline/%,$(wildcard tests/offline/*.c))
# Data that the program looks up beside itself (tern_file_home).
DATA := templates kernels configs scripts harness/emulator

# ---- targets -------------------------------------------------------------------------------------------------------------------
.PHONY: help all quickstart setup test test-gpu portable lint install clean unit-tests

help: ## this list
	@echo "targets (default: all):"
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | awk -F'\t' '{ printf "  %-12s %s\n", $$1, $$2 }'
	@echo "variables: SANITIZE=1 (ASan and UBSan, into build/asan), PREFIX=DIR (install), CUDA_HOME=DIR (toolkit)"

all: $(PROGRAM) $(RUNTIME) ## build the program, build/tune, and the runtime, build/libtern_rt.{a,so}

quickstart: ## set up, build, tune Qwen2.5-7B (planned for an A100 where there is no GPU): table, header and plots
	@scripts/setup.sh
	@$(MAKE) --no-print-directory all
	@scripts/quickstart.sh $(PROGRAM)

setup: ## install what is missing: packages (root or sudo), a CUDA toolkit or its wheels
	@scripts/setup.sh

test: ## set up, build, and run every test that needs no GPU
	@scripts/setup.sh
	@tests/run.sh

test-gpu: ## tests that need a GPU; exit 77 where there is none
	@$(MAKE) --no-print-directory all
	@tests/run-gpu.sh

portable: build/portable/tune ## one folder, build/portable, that needs glibc, the driver and NVRTC only

lint: ## formatting, static analysis, include directions, length limits
	@scripts/lint.sh

install: all ## install to $(PREFIX)/bin and $(PREFIX)/share: program, data, manual page, completion; the runtime to lib and include
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/tern
	install -m 755 $(PROGRAM) $(DESTDIR)$(PREFIX)/bin/tune
	tar cf - $(wildcard $(DATA)) | tar xf - -C $(DESTDIR)$(PREFIX)/share/tern
	install -d $(DESTDIR)$(PREFIX)/share/man/man1 $(DESTDIR)$(PREFIX)/share/bash-completion/completions
	scripts/man.sh $(PROGRAM) >$(DESTDIR)$(PREFIX)/share/man/man1/tune.1
	install -m 644 scripts/tune.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/tune
	install -d $(DESTDIR)$(PREFIX)/include/tern $(DESTDIR)$(PREFIX)/lib/pkgconfig
	install -m 644 harness/runtime/tern_rt.h $(DESTDIR)$(PREFIX)/include/tern_rt.h
	install -m 644 templates/include/tern/abi.h templates/include/tern/dispatch.h $(DESTDIR)$(PREFIX)/include/tern
	install -m 644 $(BUILD)/libtern_rt.a $(DESTDIR)$(PREFIX)/lib/libtern_rt.a
	install -m 755 $(BUILD)/libtern_rt.so $(DESTDIR)$(PREFIX)/lib/libtern_rt.so
	sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|' harness/runtime/tern_rt.pc.in >$(DESTDIR)$(PREFIX)/lib/pkgconfig/tern_rt.pc

clean: ## remove build/
	rm -rf build

unit-tests: $(TESTS) ## build the unit test programs

# ---- rules ---------------------------------------------------------------------------------------------------------------------
$(BUILD)/obj/%.o: harness/%.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/rt/%.o: harness/%.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -fPIC -fvisibility=hidden -MMD -MP -c $< -o $@

$(BUILD)/libtern_rt.a: $(RUNTIME_OBJECTS)
	@rm -f $@
	ar rcs $@ $^

$(BUILD)/libtern_rt.so: $(RUNTIME_OBJECTS)
	$(CC) $(LDFLAGS) -shared -Wl,--no-undefined -Wl,-soname,libtern_rt.so $^ -lxxhash -lzstd -ldl -lpthread -lm -o $@

# Loops over packed bytes and codes, which only -O3 unrolls and vectorises.
FAST := ternary_codes linear_parts awq gptq compressed_tensors unpack_proof shard_proof
$(FAST:%=$(BUILD)/obj/formats/%.o): OPTIMISE := $(subst -O2,-O3,$(OPTIMISE))

# Only the device folder may name CUDA.
$(BUILD)/obj/device/%.o: CPPFLAGS += $(addprefix -isystem ,$(CUDA_INCLUDE))

# The archive lets a test link with just the objects that it uses. Written anew, so that removed sources leave it.
$(LIBRARY): $(OBJECTS)
	@rm -f $@
	ar rcs $@ $^

$(PROGRAM): $(MAIN_OBJECT) $(LIBRARY)
	$(CC) $(LDFLAGS) $^ $(LDLIBS) -o $@

$(BUILD)/tests/offline/%: tests/offline/%.c $(LIBRARY)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP $< $(LIBRARY) $(LDFLAGS) $(LDLIBS) -o $@

$(BUILD)/tests/%: tests/unit/%.c $(LIBRARY)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) -Itests/unit $(CFLAGS) -MMD -MP $< $(LIBRARY) $(LDFLAGS) $(LDLIBS) -lcmocka -o $@

build/portable/tune: $(MAIN_OBJECT) $(LIBRARY) $(shell find $(wildcard $(DATA)) -type f)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -static-libgcc $(MAIN_OBJECT) $(LIBRARY) $(STATIC_LDLIBS) -o $@
	@tar cf - $(wildcard $(DATA)) | tar xf - -C $(@D)
	@scripts/check-portable.sh $@

-include $(OBJECTS:.o=.d) $(RUNTIME_OBJECTS:.o=.d) $(MAIN_OBJECT:.o=.d) $(addsuffix .d,$(TESTS) $(OFFLINE_TESTS))
