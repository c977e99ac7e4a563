#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The manual and the completion say what --help says; make install and the Debian package hold what
# they should, and what is in them runs. Prints TAP; needs neither root nor network, and a build.
# shellcheck disable=SC2317 # functions are called by name, through check
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1

TOOL=build/dlprof-bpf
MANUAL=docs/dlprof-bpf.8
COMPLETION=docs/dlprof-bpf.bash
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck source=tests/lib/tap.sh
. tests/lib/tap.sh

# ---- what --help says ----------------------------------------------------------------------------
# help_options [COMMAND]: the list of options, not the lines of usage above it:
# "  --pid PID    the training process"
help_options() {
	"$TOOL" "$@" --help | sed -n 's/^  \(--[a-z-]*\) .*/\1/p' | sort
}

help_commands() {
	"$TOOL" --help | sed -n 's/^ *\(usage: \)\{0,1\}dlprof-bpf \([a-z][a-z-]*\) .*/\2/p' | sort -u
}

# What may be left out: the indented lines below --without, "scopes, clocks,"
help_withouts() {
	"$TOOL" --help | sed -n '/^  --without /,/^  --/ s/^ \{20,\}//p' | tr -d ' ' | tr ',' '\n' |
		sed '/^$/d' | sort
}

# What --fail-if takes: "begins with none of exposed_wait, startup; try"
figures() {
	"$TOOL" --fail-if '' 2>&1 | sed -n 's/.*begins with none of \([^;]*\);.*/\1/p' | tr -d ' ' | tr ',' '\n' |
		sort
}

# What report --section takes besides "all": "Sections: verdict, iterators"
help_sections() {
	"$TOOL" report --help | sed -n 's/^Sections: //p' | tr -d ' ' | tr ',' '\n' | sort
}

# ---- the manual ----------------------------------------------------------------------------------
section() {
	sed -n "/^\.Sh $1\$/,/^\.Sh /p" "$MANUAL"
}

# manual_options [COMMAND]: those of the OPTIONS section, or of the command's own subsection
manual_options() {
	if [ $# -eq 0 ]; then
		section OPTIONS
	else
		sed -n "/^\.Ss Options of $1\$/,/^\.S[sh] /p" "$MANUAL"
	fi | sed -n 's/^\.It Fl -\([a-z-]*\).*/--\1/p' | sort
}

# manual_names OPTION: the words of the list in its entry
manual_names() {
	section OPTIONS | sed -n "/^\.It Fl -$1 /,/^\.It Fl /p" | sed -n 's/^\.It Cm \([a-z0-9_-]*\)$/\1/p' | sort
}

manual_sections_of_report() {
	section COMMANDS | sed -n 's/^\.It Cm \([a-z]*\)$/\1/p' | grep -vx doctor | sort
}

manual_has_commands() {
	local command missing=0

	for command in $(help_commands); do
		grep -q "^\.It Cm $command\>" <(section COMMANDS) && continue
		printf 'no entry for the command %s\n' "$command"
		missing=1
	done
	return "$missing"
}

manual_has_sections() {
	local name missing=0

	for name in NAME SYNOPSIS DESCRIPTION OPTIONS COMMANDS 'EXIT STATUS' OVERHEAD SECURITY EXAMPLES \
		FILES 'SEE ALSO'; do
		grep -qx "\.Sh $name" "$MANUAL" && continue
		printf 'no section %s\n' "$name"
		missing=1
	done
	return "$missing"
}

# groff's own warnings, on the screen's width of everybody
renders() {
	local output

	output=$(LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -l "$1" 2>&1 >"$work/manual.txt") || return 1
	[ -z "$output" ] && grep -q 'EXIT STATUS' "$work/manual.txt" && return 0
	printf '%s\n' "$output"
	return 1
}

check_manual() {
	same 'the manual has the options of --help' "$(manual_options)" "$(help_options)"
	same 'the manual has the options of report' "$(manual_options report)" "$(help_options report)"
	same 'the manual has the options of diff' "$(manual_options diff)" "$(help_options diff)"
	same 'the manual has the names for --without' "$(manual_names without)" "$(help_withouts)"
	same 'the manual has the figures of --fail-if' "$(manual_names fail-if)" "$(figures)"
	same 'the manual has the sections of report' "$(manual_sections_of_report)" "$(help_sections)"
	check 'the manual has the commands' manual_has_commands
	check 'the manual has its sections' manual_has_sections
	if command -v man >/dev/null; then
		check 'the manual renders' renders "$MANUAL"
	else
		skip 'the manual renders' 'man is not installed'
	fi
}

# ---- the completion ------------------------------------------------------------------------------
# complete WORD...: what bash offers for the last of the words, in a shell of its own
complete_words() {
	# shellcheck disable=SC2016 # for that shell
	bash --norc --noprofile -c '
		. "$1"
		shift
		COMP_WORDS=("$@")
		COMP_CWORD=$(($# - 1))
		"$(complete -p dlprof-bpf | sed "s/.*-F \([^ ]*\) .*/\1/")"
		printf "%s\n" "${COMPREPLY[@]}"' bash "$PWD/$COMPLETION" "$@" 2>/dev/null | sort
}

# Those of --help, each of which is offered somewhere: not all fit every command. report and diff
# have help of their own.
completion_options() {
	{
		complete_words dlprof-bpf --
		for command in $(help_commands | grep -vxE 'report|diff'); do
			complete_words dlprof-bpf "$command" --
		done
	} | sort -u
}

check_completion() {
	check 'the completion can be sourced twice' bash --norc -u -e -c ". '$COMPLETION'; . '$COMPLETION'"
	same 'the completion has the options of --help' "$(completion_options)" "$(help_options)"
	same 'the completion has the options of report' \
		"$(complete_words dlprof-bpf report run.dlp --)" "$(help_options report)"
	same 'the completion has the options of diff' \
		"$(complete_words dlprof-bpf diff a.json --)" "$(help_options diff)"
	same 'the completion has the sections of report' \
		"$(complete_words dlprof-bpf report --section '')" "$(printf 'all\n%s\n' "$(help_sections)" | sort)"
	same 'the completion has the names for --without' \
		"$(complete_words dlprof-bpf --without '')" "$(help_withouts)"
	same 'the completion has the figures of --fail-if' \
		"$(complete_words dlprof-bpf --fail-if '')" "$(figures)"
	same 'the completion has the commands' "$(complete_words dlprof-bpf '')" "$(help_commands)"
	same 'it completes a part of an option' "$(complete_words dlprof-bpf --rec)" \
		"$(printf '%s\n' --record --record-max)"
	: >"$work/a file.dlp"
	same 'it completes files' "$(complete_words dlprof-bpf replay "$work/a f")" "$work/a file.dlp"
	same 'it completes files after --summary' \
		"$(complete_words dlprof-bpf --summary "$work/a f")" "$work/a file.dlp"
	same 'it completes files for report, and after its --html' \
		"$(complete_words dlprof-bpf report "$work/a f" && complete_words dlprof-bpf report --html "$work/a f")" \
		"$(printf '%s\n' "$work/a file.dlp" "$work/a file.dlp")"
	same 'it completes files for diff' "$(complete_words dlprof-bpf diff a.json "$work/a f")" \
		"$work/a file.dlp"
	same 'it offers no file for an expression' "$(complete_words dlprof-bpf report --events '')" ''
	same 'it offers nothing for a number' "$(complete_words dlprof-bpf --duration '')" ''
	same 'behind -- it completes files, not options' \
		"$(complete_words dlprof-bpf -- "$work/a f")" "$work/a file.dlp"
}

# ---- make install --------------------------------------------------------------------------------
FILES='bin/dlprof-bpf
share/bash-completion/completions/dlprof-bpf
share/doc/dlprof-bpf/LICENSE
share/doc/dlprof-bpf/README.md
share/man/man8/dlprof-bpf.8'

check_install() {
	local there=$work/install

	check 'make install' make -s install DESTDIR="$there" PREFIX=/opt/x
	same 'it installs' "$(files_under "$there/opt/x")" "$FILES"
	same 'nowhere else' "$(files_under "$there" | grep -v '^opt/x/')" ''
	check 'the installed tool runs' "$there/opt/x/bin/dlprof-bpf" --version
	check 'the installed manual is the manual' cmp "$MANUAL" "$there/opt/x/share/man/man8/dlprof-bpf.8"
	: >"$there/opt/x/bin/other"
	check 'make uninstall' make -s uninstall DESTDIR="$there" PREFIX=/opt/x
	same 'it leaves only what is not ours' "$(files_under "$there")" opt/x/bin/other
	check 'twice does no harm' make -s uninstall DESTDIR="$there" PREFIX=/opt/x
}

# ---- the Debian package --------------------------------------------------------------------------
field() {
	dpkg-deb --field "$deb" "$1"
}

has_libraries() {
	local library depends missing=0

	depends=$(field Depends)
	for library in libc6 libbpf1 libjansson4 libzstd1 zlib1g; do
		case ", $depends," in
		*", $library"[\ ,]*) ;;
		*)
			printf 'no %s in: %s\n' "$library" "$depends"
			missing=1
			;;
		esac
	done
	return "$missing"
}

owned_by_root() {
	! dpkg-deb --contents "$deb" | grep -v ' root/root '
}

# Errors and warnings of its own rules; it complains to root of being root.
lintian_clean() {
	local output

	output=$(lintian --allow-root "$deb" 2>&1) && [ -z "$output" ] && return 0
	printf '%s\n' "$output"
	return 1
}

sums_match() {
	dpkg-deb --control "$deb" "$work/control" && (cd "$work/deb" && md5sum --quiet -c "$work/control/md5sums")
}

check_package() {
	local deb version

	if ! command -v dpkg-deb >/dev/null; then
		skip 'make deb' 'dpkg-deb is not installed'
		return
	fi
	version=$("$TOOL" --version | sed 's/^dlprof-bpf //')
	deb=build/dlprof-bpf_${version}_$(dpkg --print-architecture).deb
	rm -f "$deb"
	check 'make deb' env DEBFULLNAME='A Tester' DEBEMAIL=tester@debian.org make -s deb
	check 'it has the name of the version' test -f "$deb" || return
	same 'package, version, architecture' "$(field Package) $(field Version) $(field Architecture)" \
		"dlprof-bpf $version $(dpkg --print-architecture)"
	same 'maintainer' "$(field Maintainer)" 'A Tester <tester@debian.org>'
	check 'it needs the libraries of the tool' has_libraries
	check 'all files belong to root' owned_by_root
	check 'it can be unpacked' dpkg-deb --extract "$deb" "$work/deb"
	same 'it holds' "$(files_under "$work/deb")" 'usr/bin/dlprof-bpf
usr/share/bash-completion/completions/dlprof-bpf
usr/share/doc/dlprof-bpf/README.md
usr/share/doc/dlprof-bpf/changelog.gz
usr/share/doc/dlprof-bpf/copyright
usr/share/man/man8/dlprof-bpf.8.gz'
	check 'the sums are right' sums_match
	same 'the unpacked tool says its version' "$("$work/deb/usr/bin/dlprof-bpf" --version)" \
		"dlprof-bpf $version"
	same 'the unpacked tool prints its help' "$("$work/deb/usr/bin/dlprof-bpf" --help)" \
		"$("$TOOL" --help)"
	if command -v lintian >/dev/null; then
		check 'lintian finds nothing' lintian_clean
	else
		skip 'lintian finds nothing' 'lintian is not installed'
	fi
}

check_manual
check_completion
check_install
check_package
tap_end
