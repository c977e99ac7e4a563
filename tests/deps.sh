#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Installs what is missing, and nothing when all is there.
#   tests/deps.sh build    what `make` needs
#   tests/deps.sh demo     that, and a Python with torch
#   tests/deps.sh test     that, and what the tests and linters need (as root; else build and unit)
#   tests/deps.sh vm       what booting other kernels needs: see tests/vm
#   tests/deps.sh release  what trying a release in an older Debian needs
#   tests/deps.sh python   print the Python with torch, installing nothing
#   tests/deps.sh smdebug  a Python with SageMaker's Debugger, for one test; prints it
# Debian packages come through apt-get (root only), torch through pip into build/venv. A Python that
# already has torch is used as it is when named: PYTHON=/path/to/python.
# shellcheck disable=SC2317 # the has_ functions are called by name, through need
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=tests/lib/common.sh
. tests/lib/common.sh

TORCH_VERSION=2.13.0
# what that release of torch has wheels for
TORCH_PYTHONS='3.13 3.12 3.11 3.10 3.14'
LOG=build/deps.log
SMDEBUG_VENV=build/venv-smdebug

usage() {
	say 'usage: tests/deps.sh build|demo|test|vm|release|python|smdebug'
	exit 2
}

# ---- Debian packages ---------------------------------------------------------------------------
# What counts is that a thing works, wherever it comes from; packages are only the way to get it.
missing=()

need() {
	local package=$1

	shift
	"$@" >/dev/null 2>&1 || missing+=("$package")
}

# Debian puts bpftool where only root looks.
has_command() {
	PATH="$PATH:/usr/sbin:/sbin" command -v "$1"
}

has_header() {
	printf '#include <stddef.h>\n#include <%s>\n' "$1" | gcc -E -x c -
}

can_make_venv() {
	local python

	for python in $(venv_pythons); do
		"$python" -c 'import ensurepip, venv' && return
	done
	return 1
}

need_for_build() {
	need gcc has_command gcc
	need libc6-dev has_header stdlib.h
	need make has_command make
	need clang has_command clang
	need bpftool has_command bpftool
	need libbpf-dev has_header bpf/libbpf.h
	need libelf-dev has_header gelf.h
	need zlib1g-dev has_header zlib.h
	need libzstd-dev has_header zstd.h
	need libjansson-dev has_header jansson.h
	need libcap-dev has_header sys/capability.h
}

need_for_test() {
	need libcmocka-dev has_header cmocka.h
	need clang-tidy has_command clang-tidy
	need cppcheck has_command cppcheck
	need shellcheck has_command shellcheck
	need valgrind has_command valgrind
	need tmux has_command tmux
	need mandoc has_command mandoc
	need dpkg-dev has_command dpkg-shlibdeps
	need binutils has_command readelf
	need file has_command file
	# disks and file systems of the scenarios
	need e2fsprogs has_command mkfs.ext4
	need mount has_command losetup
}

# A package of its own since clang 14, and of one version: another clang may do without.
need_for_fuzzing() {
	has_libfuzzer || missing+=(libclang-rt-dev)
}

need_for_vm() {
	need qemu-system-x86 has_command qemu-system-x86_64
	need busybox-static is_static busybox
	need cpio has_command cpio
	need e2fsprogs has_command mke2fs
	need xz-utils has_command xz
	need zstd has_command zstd
}

need_for_vm_arm64() {
	need qemu-system-arm has_command qemu-system-aarch64
	need gcc-aarch64-linux-gnu has_command aarch64-linux-gnu-gcc
}

need_for_release() {
	need debootstrap has_command debootstrap
	need util-linux has_command unshare
}

# Its program is all that the guest has at first.
is_static() {
	has_command "$1" && ! ldd "$(has_command "$1")"
}

# Importing torch takes seconds, so it is asked once.
have_torch=0

need_for_torch() {
	local python

	if python=$(find_python); then
		have_torch=1
		[ -z "${PYTHON:-}" ] || [ "$python" = "$PYTHON" ] ||
			say "deps: PYTHON=$PYTHON cannot import torch; using $python"
		return
	fi
	need python3 has_command python3
	need python3-venv can_make_venv
}

# Debian's own torch is another build than the wheels (no .symtab), so the tests want it as well.
need_for_debian_torch() {
	if [ -e /etc/debian_version ] && [ ! -e /usr/lib/python3/dist-packages/torch ]; then
		missing+=(python3-torch python3-numpy)
	fi
}

apt() {
	DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=l apt-get -y \
		-o DPkg::Lock::Timeout=300 -o Acquire::Retries=2 "$@" </dev/null >>"$LOG" 2>&1
}

# Installs ${missing[@]}; a clear line and 1 when that cannot be.
install_missing() {
	[ ${#missing[@]} -gt 0 ] || return 0
	if ! command -v apt-get >/dev/null; then
		say "deps: missing here, by their Debian names: ${missing[*]}"
		say 'deps: there is no apt-get; install the equivalents and try again'
		return 1
	fi
	if ! is_root; then
		say "deps: missing: ${missing[*]}"
		say "deps: as root: apt-get install ${missing[*]}"
		return 1
	fi
	say "deps: installing with apt-get: ${missing[*]} (log: $LOG)"
	mkdir -p build
	# The package lists may be old or, on a fresh machine, not there at all.
	if apt install --no-install-recommends "${missing[@]}" ||
		{ apt update && apt install --no-install-recommends "${missing[@]}"; }; then
		missing=()
		return 0
	fi
	tail -n 15 "$LOG" >&2
	say "deps: apt-get could not install ${missing[*]} (lines above; no network, or another apt-get at work?)"
	return 1
}

# ---- torch -------------------------------------------------------------------------------------
# Interpreters that torch has wheels for, the one people call python3 first.
venv_pythons() {
	local python version

	for python in python3 /usr/bin/python3 ${TORCH_PYTHONS// / python}; do
		version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) ||
			continue
		case " $TORCH_PYTHONS " in
		*" $version "*) command -v "$python" ;;
		esac
	done
}

make_venv() {
	local python

	for python in $(venv_pythons); do
		"$python" -c 'import ensurepip, venv' 2>/dev/null || continue
		"$python" -m venv --clear "$VENV" >>"$LOG" 2>&1 && return 0
	done
	say "deps: no Python that can make a virtual environment and has wheels of torch $TORCH_VERSION was found (it wants one of $TORCH_PYTHONS)"
	return 1
}

provide_torch() {
	[ "$have_torch" -eq 0 ] || return 0
	mkdir -p build
	"$VENV/bin/python" -m pip --version >/dev/null 2>&1 || make_venv || return 1
	say "deps: installing torch $TORCH_VERSION into $VENV with pip (log: $LOG)"
	if ! "$VENV/bin/python" -m pip install --disable-pip-version-check \
		"torch==$TORCH_VERSION" numpy pillow >>"$LOG" 2>&1; then
		tail -n 15 "$LOG" >&2
		say "deps: pip could not install torch $TORCH_VERSION (lines above; no network, or the disk full?)"
		return 1
	fi
	if ! find_python >/dev/null; then
		"$VENV/bin/python" -c 'import torch' 2>&1 | tail -n 5 >&2 || true
		say "deps: torch is installed in $VENV but cannot be imported"
		return 1
	fi
}

# ---- SageMaker's Debugger ----------------------------------------------------------------------
# Its requirements name old packages that it can do without, so what it imports is listed here.
# setuptools: it wants distutils, which Python 3.12 has no more.
provide_smdebug() {
	local python=$SMDEBUG_VENV/bin/python

	smdebug_works "$python" && return 0
	mkdir -p build
	python3 -m venv --clear "$SMDEBUG_VENV" >>"$LOG" 2>&1 &&
		"$python" -m pip install --disable-pip-version-check --retries 1 --timeout 20 \
			setuptools boto3 numpy packaging pandas 'protobuf<3.21' psutil requests >>"$LOG" 2>&1 &&
		"$python" -m pip install --disable-pip-version-check --retries 1 --timeout 20 \
			--no-deps smdebug==1.0.34 >>"$LOG" 2>&1 && smdebug_works "$python" && return 0
	say "deps: smdebug could not be installed into $SMDEBUG_VENV (log: $LOG)"
	return 1
}

smdebug_works() {
	[ -x "$1" ] && "$1" -c '
import smdebug.profiler.analysis.utils.profiler_data_to_pandas
import smdebug.profiler.analysis.utils.pytorch_dataloader_analysis' >>"$LOG" 2>&1
}

[ $# -eq 1 ] || usage
failed=0
trap fix_owner EXIT
case $1 in
build)
	need_for_build
	install_missing || failed=1
	;;
demo)
	need_for_build
	need_for_torch
	install_missing || exit 1
	provide_torch || failed=1
	;;
test)
	need_for_build
	need_for_test
	if is_root; then
		need_for_torch
	fi
	install_missing || failed=1
	missing=()
	need_for_fuzzing
	install_missing || say 'deps: going on without libFuzzer'
	# What follows is only for tests that need root.
	if is_root; then
		provide_torch || failed=1
		missing=()
		need_for_debian_torch
		# its tests say why they are skipped when it is not there
		install_missing || say 'deps: going on without the torch that Debian packages'
		missing=()
		need_for_vm
		install_missing || say 'deps: going on without other kernels'
	fi
	;;
vm)
	need_for_vm
	need_for_vm_arm64
	install_missing || failed=1
	;;
release)
	need_for_release
	install_missing || failed=1
	;;
python)
	find_python || {
		say 'deps: no Python with torch: run make deps, or name one with PYTHON='
		exit 1
	}
	;;
smdebug)
	provide_smdebug || exit 1
	printf '%s\n' "$PWD/$SMDEBUG_VENV/bin/python"
	;;
*) usage ;;
esac
exit "$failed"
