# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Shared by the scripts of tests/ and .ci/: where things are, which Python has torch, what clang
# can do, and who owns what root made. Sourced with the repository root as working directory.

VENV=build/venv

say() {
	printf '%s\n' "$*" >&2
}

is_root() {
	[ "$(id -u)" -eq 0 ]
}

imports_torch() {
	"$1" -c 'import torch' >/dev/null 2>&1
}

# Prints the Python to train with: PYTHON= if it has torch, else that of build/venv; 1 if neither.
find_python() {
	local python

	for python in "${PYTHON:-}" "$PWD/$VENV/bin/python"; do
		if [ -n "$python" ] && imports_torch "$python"; then
			printf '%s\n' "$python"
			return 0
		fi
	done
	return 1
}

# Whether clang can link fuzzers: its runtime libraries are often not installed.
has_libfuzzer() {
	"${CLANG:-clang}" -fsanitize=fuzzer,address,undefined -x c - -o /dev/null 2>/dev/null <<-'EOF'
		int LLVMFuzzerTestOneInput(const void *data, unsigned long bytes);
		int LLVMFuzzerTestOneInput(const void *data, unsigned long bytes) { return !data && bytes; }
	EOF
}

# Under sudo, what lies under build/ shall belong to the user who will build there next.
fix_owner() {
	if is_root && [ -n "${SUDO_UID:-}" ] && [ -d build ]; then
		chown -hR "$SUDO_UID:${SUDO_GID:-$SUDO_UID}" build
	fi
}
