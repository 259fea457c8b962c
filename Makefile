# Thin: each target calls one script in tools/. `make demo` and `make test` need git, make, a C++ compiler, Python 3
# with venv and a package registry; the rest they set up themselves, once.
#
#   PYTHON=python3.12   the Python to make .venv with (default: python3); a .venv that is there keeps its own
#   JOBS=4              how many compilers at once (default: all cores)
#   PRESET=release      what `make build` builds: dev (default), release, asan or tsan
#   MINUTES=60          after which `make test` begins no further stage, and names those that are left (default: no limit)
#   ARGS=--quick        what test-versions, test-mpis, dist, fuzz, bench-peers and bench-hosts are given; ARGS=--help tells what they understand
#   OLD=FILE NEW=FILE   the results that bench-check compares
PYTHON ?= python3
PRESET ?= dev
export PYTHON
ifdef JOBS
export JOBS
endif
ifdef MINUTES
export MINUTES
endif

.PHONY: help demo test test-versions test-mpis setup build format lint docs fuzz bench-peers bench-hosts bench-check dist clean

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 14

demo: setup  ## two processes train a convolutional network on real images, and a short report
	@tools/demo

test:  ## build, run the tests, print a table (STAGES=ci: what takes longer, by sanitizers, with 8 ranks, by PyTorch's own tests; STAGES="build-release ctest-release": only those)
	@$(PYTHON) tools/test $(STAGES)

test-versions: setup  ## try each version of each framework, in an environment of its own; most of an hour (ARGS="'^jax ' 'cpu 2.12'": only those)
	@tools/test_versions $(ARGS)

test-mpis: setup  ## try each MPI: Open MPI 4 and 5, MPICH 4 and 5, Intel MPI, on one host and two; needs root, tens of minutes (ARGS="-k openmpi-5": only those)
	@tools/test_mpis $(ARGS)

setup:  ## system packages, .venv, and Ronde installed in it
	@tools/setup

build: setup  ## build PRESET into build/<preset>
	@tools/build $(PRESET)

format:  ## lay out the C++ sources by .clang-format
	@tools/format

lint:  ## check layout, naming, types and common mistakes (clang-format, clang-tidy, mypy, file and function lengths)
	@tools/lint

docs: setup  ## the reference of the Python interface, from its docstrings, into build/docs
	@tools/docs

dist: setup  ## what people install, into build/dist: wheels, sdist, notes, checksums (ARGS=x86_64: without the cross-compiled wheel)
	@$(PYTHON) tools/dist $(ARGS)

fuzz: setup  ## feed parsers what nobody sends, with Clang's libFuzzer, a minute each (ARGS="--seconds 600 stream")
	@$(PYTHON) tools/fuzz $(ARGS)

bench-peers:  ## measure Ronde beside Open MPI, MPICH, Intel MPI, oneCCL and Gloo; tens of minutes (ARGS=--quick: a few)
	@tools/bench_peers $(ARGS)

bench-hosts:  ## measure Ronde between hosts beside Open MPI, MPICH, Gloo and iperf3; needs root, most of an hour (ARGS=--quick: minutes)
	@tools/bench_hosts $(ARGS)

bench-check:  ## compare two files of results: what changed by more than the noise
	@$(PYTHON) benchmarks/peers/check.py $(OLD) $(NEW)

clean:  ## remove build/ and .venv/
	@rm -rf build .venv
