# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
#
# Completion of dlprof-bpf for bash; installed as bash-completion's completions/dlprof-bpf.

_dlprof_bpf_words() {
	local word

	COMPREPLY=()
	while IFS= read -r word; do
		COMPREPLY+=("$word")
	done < <(compgen -W "$1" -- "$2")
}

_dlprof_bpf_files() {
	local word

	COMPREPLY=()
	compopt -o filenames 2>/dev/null
	while IFS= read -r word; do
		COMPREPLY+=("$word")
	done < <(compgen -f -- "$1")
}

# Processes that may be training jobs: everything whose name begins like Python's.
_dlprof_bpf_pids() {
	local file name pids=

	for file in /proc/[0-9]*/comm; do
		read -r name 2>/dev/null <"$file" || continue
		case $name in
		python* | pt_main*)
			file=${file%/comm}
			pids+=" ${file#/proc/}"
			;;
		esac
	done
	_dlprof_bpf_words "$pids" "$1"
}

# report has options of its own, some with the names of others.
_dlprof_bpf_report() {
	local cur=$1 prev=$2
	local options='--section --from --to --loader --worker --events --dimensions --rows --json --csv
		--trace --folded --smdebug --html --svg --help'
	local sections='all verdict iterators workers getnext batchtime prefetch stages timeline window'

	case $prev in
	--section) _dlprof_bpf_words "$sections" "$cur" ;;
	--json | --csv | --trace | --folded | --smdebug | --html | --svg) _dlprof_bpf_files "$cur" ;;
	--from | --to | --loader | --worker | --events | --dimensions | --rows) COMPREPLY=() ;;
	*)
		if [[ $cur == -* ]]; then
			_dlprof_bpf_words "$options" "$cur"
		else
			_dlprof_bpf_files "$cur"
		fi
		;;
	esac
}

_dlprof_bpf() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} i
	local watch='--pid --list --duration --summary --fail-if --interval --window --lines --quiet --record --record-max
		--events --labels --getnext --long-wait --ring-size --max-overhead
		--without --version --help'
	local withouts='scopes clocks task-storage clock-iter queue-uprobe queue-syscall process block
		waits iterators others'
	local figures='exposed_wait startup exposed_total getnext_median_ms getnext_p95_ms getnext_p99_ms
		getnext_max_ms batch_time_median_ms batches_per_s worker_idle events_lost stalled incomplete'

	if [[ $COMP_CWORD -gt 1 && ${COMP_WORDS[1]} == report ]]; then
		_dlprof_bpf_report "$cur" "$prev"
		return
	fi
	# behind "--" comes the command to start
	for ((i = 1; i < COMP_CWORD; i++)); do
		if [[ ${COMP_WORDS[i]} == -- ]]; then
			if declare -F _command_offset >/dev/null; then
				_command_offset $((i + 1))
			else
				_dlprof_bpf_files "$cur"
			fi
			return
		fi
	done
	case $prev in
	--pid)
		_dlprof_bpf_pids "$cur"
		return
		;;
	--summary | --record | --events)
		_dlprof_bpf_files "$cur"
		return
		;;
	--without)
		_dlprof_bpf_words "$withouts" "$cur"
		return
		;;
	--fail-if)
		# an operator and a number follow
		compopt -o nospace 2>/dev/null
		_dlprof_bpf_words "$figures" "$cur"
		return
		;;
	--duration | --interval | --window | --record-max | --labels | --getnext | --long-wait | --ring-size | \
		--max-overhead)
		COMPREPLY=()
		return
		;;
	esac
	case ${COMP_WORDS[1]} in
	replay)
		if [[ $cur == -* ]]; then
			_dlprof_bpf_words '--summary --events --fail-if --version --help' "$cur"
		else
			_dlprof_bpf_files "$cur"
		fi
		;;
	diff)
		if [[ $cur == -* ]]; then
			_dlprof_bpf_words '--json --help' "$cur"
		else
			_dlprof_bpf_files "$cur"
		fi
		;;
	doctor) _dlprof_bpf_words '--pid --json --version --help' "$cur" ;;
	*)
		if [[ $COMP_CWORD -eq 1 && $cur != -* ]]; then
			_dlprof_bpf_words 'replay report diff doctor' "$cur"
		else
			_dlprof_bpf_words "$watch" "$cur"
		fi
		;;
	esac
}

complete -F _dlprof_bpf dlprof-bpf
