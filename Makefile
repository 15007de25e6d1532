# Thin fronts over CMake, CTest and tools/. `make demo` and `make test` also install missing Debian packages.

DEMO_MEMORY ?= 24MiB
DEMO_ARGS ?=
JOBS ?= $(shell nproc)

.PHONY: all setup build debug asan demo test bench lint format clean

all: build

setup:
	@tools/setup.sh build

# A build folder reconfigures itself once it has been configured.
build/build.ninja build-debug/build.ninja build-asan/build.ninja: | setup
	@cmake --preset $(if $(filter build/%,$@),release,$(patsubst build-%/build.ninja,%,$@))

build: setup build/build.ninja
	@cmake --build build -j $(JOBS)

debug: setup build-debug/build.ninja
	@cmake --build build-debug -j $(JOBS)

asan: setup build-asan/build.ninja
	@cmake --build build-asan -j $(JOBS)

# Only what runs it: the demo need not wait for the tests to be built.
demo: setup build/build.ninja
	@cmake --build build -j $(JOBS) --target neap_executable
	@build/neap $(if $(DEMO_MEMORY),--memory $(DEMO_MEMORY)) scripts/train_digits.lua $(DEMO_ARGS)

# Busted runs by itself, so that its closing line is seen. One test at a time: some measure time.
test: build asan
	ctest --test-dir build --output-on-failure --label-exclude lua
	build/neap tests/lua/run.lua
	ctest --test-dir build-asan --output-on-failure -L asan -j $(JOBS)

bench: build
	@build/neap tests/bench/run.lua $(BENCH_ARGS)

lint:
	@tools/setup.sh build lint
	@tools/lint.sh

format:
	@tools/lint.sh --fix

clean:
	rm -rf build build-debug build-asan build-lint
