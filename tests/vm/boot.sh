#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# tests/vm/boot.sh KERNEL_FOLDER LIMIT_S COMMAND ARGS...: boots a fetched kernel under emulation
# (neither /dev/kvm nor an image is needed) and runs the command as root in this machine's own file
# system, which the guest sees through 9p, read-only, under a scratch overlay: programs, Python and
# torch are those of the machine, the kernel is another. With VM_ROOT=FOLDER (of fetch-root.sh) it is
# that folder instead, the working directory being in it at its own place. /var/tmp in the guest is a
# scratch ext4 on a block device. Prints what the command prints; lines "# kernel: ..." are the
# kernel's warnings. Status: the command's, or 124 = time limit, 125 = the guest died first.
set -euo pipefail

MEMORY=${VM_MEMORY:-3G}
DISK_MB=512

die() {
	printf 'boot: %s\n' "$*" >&2
	exit 2
}

[ $# -ge 3 ] || die 'usage: tests/vm/boot.sh KERNEL_FOLDER LIMIT_S COMMAND ARGS...'
kernel=$1 limit=$2 arch=${1##*-} root=${VM_ROOT:-/}
shift 2
[ -s "$kernel/vmlinuz" ] || die "no kernel in $kernel"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
# no output of the command can be taken for the end of it
nonce=$(od -An -N8 -tx8 /dev/urandom | tr -d ' ')

make_init() {
	cat <<-'INIT'
		#!/bin/busybox sh
		/bin/busybox --install -s /bin
		export PATH=/bin:/sbin:/usr/bin:/usr/sbin HOME=/root TERM=dumb
		mount -t proc proc /proc
		mount -t sysfs sysfs /sys
		mount -t devtmpfs dev /dev 2>/dev/null
		mkdir -p /dev/shm /dev/pts /lower /over
		mount -t tmpfs tmpfs /dev/shm
		mount -t devpts devpts /dev/pts
		mount -t debugfs debugfs /sys/kernel/debug
		mount -t tracefs tracefs /sys/kernel/tracing
		mount -t cgroup2 cgroup2 /sys/fs/cgroup
		mount -t bpf bpf /sys/fs/bpf
		# three times: some want others that come later in the list
		for pass in 1 2 3; do for m in /modules/*.ko; do insmod $m 2>/dev/null && rm $m; done; done
		ip link set lo up 2>/dev/null
		mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=512000,cache=loose lower /lower
		mount -t tmpfs tmpfs /over
		mkdir /over/up /over/work
		mount -t overlay -o lowerdir=/lower,upperdir=/over/up,workdir=/over/work overlay /newroot
	INIT
	# shellcheck disable=SC2016 # for the guest's shell
	[ "$root" = / ] || printf 'mkdir -p "/newroot"%q\nmount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=512000,cache=loose work "/newroot"%q\n' "$PWD" "$PWD"
	cat <<-'INIT'
		mount -t tmpfs tmpfs /newroot/run
		mount -t ext4 /dev/vda /newroot/var/tmp
		for d in proc sys dev; do mount --rbind /$d /newroot/$d; done
		stty raw -echo 2>/dev/null
	INIT
	# shellcheck disable=SC2016 # for the guest's shell
	# moved to / as switch_root does it: who enters a mount namespace (nsenter) is put at its root
	printf 'read up rest </proc/uptime; echo "@@BEGIN%s $up $(uname -r)"\n( cd /newroot && mount --move . / && chroot .' "$nonce"
	printf ' %q' "$@"
	# shellcheck disable=SC2016
	printf ' ) 2>&1 </dev/null\nstatus=$?; echo; echo "@@END%s $status"\n' "$nonce"
	cat <<-'INIT'
		dmesg | grep -E 'WARNING: |BUG: |Oops|Call [Tt]race|detected stall|self-detected|soft lockup|blocked for more' | sed 's/^/@@KERNEL /'
		poweroff -f
	INIT
}

make_initrd() {
	local init=$tmp/root busybox=$root/bin/busybox

	[ "$root" != / ] || busybox=$(command -v busybox) || die 'busybox is not installed'
	mkdir -p "$init"/{bin,dev,proc,sys,newroot,modules}
	cp "$busybox" "$init/bin/busybox"
	cp "$kernel"/modules/*.ko "$init/modules/" 2>/dev/null || true
	make_init "$@" >"$init/init"
	chmod +x "$init/init"
	(cd "$init" && find . | cpio -o -H newc --quiet --owner=0:0) | gzip -1 >"$tmp/initrd"
}

# tsc=reliable: else 5.10 takes the HPET for its clock here, and every look at it is a system call
case $arch in
amd64)
	qemu=(qemu-system-x86_64 -machine pc -cpu 'max,la57=off')
	console='ttyS0 tsc=reliable no_timer_check'
	;;
arm64)
	qemu=(qemu-system-aarch64 -machine 'virt,gic-version=3' -cpu 'max,pauth-impdef=on')
	console=ttyAMA0
	;;
*) die "a kernel for $arch cannot be booted" ;;
esac
command -v "${qemu[0]}" >/dev/null || die "${qemu[0]} is not installed"

start_qemu() {
	[ "$root" = / ] || qemu+=(-virtfs "local,path=$PWD,mount_tag=work,security_model=none,readonly=on")
	exec timeout -k 5 "$limit" "${qemu[@]}" -accel tcg,thread=multi -smp 2 -m "$MEMORY" \
		-nodefaults -no-user-config -display none -no-reboot -serial stdio \
		-kernel "$kernel/vmlinuz" -initrd "$tmp/initrd" \
		-append "console=$console rdinit=/init panic=-1 loglevel=1" \
		-virtfs "local,path=$root,mount_tag=lower,security_model=none,readonly=on,multidevs=remap" \
		-drive "file=$tmp/disk,format=raw,if=virtio,cache=unsafe" \
		</dev/null 2>"$tmp/qemu.err"
}

make_initrd "$@"
truncate -s "${DISK_MB}M" "$tmp/disk"
/sbin/mke2fs -q -t ext4 "$tmp/disk"

# What stands between the two marks is the command's output; the rest is the console's. Line by line:
# who waits for minutes wants to see how far it is.
read_console() {
	local line on=0

	while IFS= read -r line || [ -n "$line" ]; do
		line=${line//$'\r'/}
		case $line in
		*"@@BEGIN$nonce "*)
			on=1
			line=${line#*"@@BEGIN$nonce "}
			printf '# kernel %s, up after %s s\n' "${line#* }" "${line%% *}"
			;;
		*"@@END$nonce "*)
			on=0
			printf '%s\n' "${line##* }" >"$tmp/status"
			;;
		'@@KERNEL '*) printf '# kernel: %s\n' "${line#@@KERNEL }" ;;
		*)
			if [ "$on" -eq 1 ]; then
				printf '%s\n' "$line"
			else
				printf '%s\n' "$line" >>"$tmp/console"
			fi
			;;
		esac
	done
}

status=0
start_qemu | read_console || status=$?
if [ -s "$tmp/status" ]; then
	exit "$(cat "$tmp/status")"
fi
cat "$tmp/qemu.err" >&2
tail -n 30 "$tmp/console" >&2 2>/dev/null || true
if [ "$status" -eq 124 ]; then
	printf 'boot: no end within %s s\n' "$limit" >&2
	exit 124
fi
printf 'boot: the guest ended before the command did\n' >&2
exit 125
