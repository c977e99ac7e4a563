# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What the kernel tells about processes and BPF programs: /proc, and three bpf() commands."""
import ctypes
import os
import platform
import re
import struct
import time

TICKS = os.sysconf("SC_CLK_TCK")
SYSCTL = "/proc/sys/kernel/bpf_stats_enabled"
PROG_TYPE_KPROBE = 2        # uprobes too

_SYSCALL = {"x86_64": 321, "aarch64": 280}.get(platform.machine())
_PROG_GET_FD_BY_ID, _OBJ_GET_INFO_BY_FD, _ENABLE_STATS = 13, 15, 32
_INFO_BYTES, _NAME_AT, _NAME_BYTES = 256, 64, 16        # struct bpf_prog_info


def read(path):
    """The file's text, empty when it is gone: processes end while they are looked at."""
    try:
        with open(path) as f:
            return f.read()
    except OSError:
        return ""


def cpu_s(pids):
    """User and system seconds, of threads that ended too."""
    ticks = 0
    for pid in pids:
        fields = read("/proc/%d/stat" % pid).rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12]) if fields else 0
    return ticks / TICKS


def thread_cpu_s(pid):
    """CPU seconds of the live threads, to the nanosecond."""
    try:
        tids = os.listdir("/proc/%d/task" % pid)
    except OSError:
        return 0.0
    return sum(int((read("/proc/%d/task/%s/schedstat" % (pid, tid)) or "0").split()[0])
               for tid in tids) * 1e-9


def switches(pids):
    """Times the threads left a CPU."""
    n = 0
    for pid in pids:
        for tid in os.listdir("/proc/%d/task" % pid):
            n += sum(int(v) for v in re.findall(r"ctxt_switches:\s+(\d+)",
                                                read("/proc/%d/task/%s/status" % (pid, tid))))
    return n


def peak_mb(pid):
    found = re.search(r"VmHWM:\s+(\d+)", read("/proc/%d/status" % pid))
    return int(found.group(1)) / 1024 if found else 0.0


def machine_busy_s():
    """CPU seconds used by anybody: all there were, less the idle and the stolen ones."""
    fields = [int(v) for v in read("/proc/stat").split("\n", 1)[0].split()[1:9]]
    return time.monotonic() * os.cpu_count() - (fields[3] + fields[4] + fields[7]) / TICKS


def cpu_model():
    found = re.search(r"model name\s*:\s*(.*)", read("/proc/cpuinfo"))
    return found.group(1) if found else platform.machine()


def _bpf(command, attributes):
    buffer = ctypes.create_string_buffer(attributes, 128)
    if not _SYSCALL:
        raise OSError(0, "the number of bpf() is not known on " + platform.machine())
    result = ctypes.CDLL(None, use_errno=True).syscall(_SYSCALL, command, buffer, len(buffer))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


class BpfStats:
    """
    `with BpfStats():` run time statistics are on, for as long as its descriptor is open, however
    this process ends; the sysctl kernel.bpf_stats_enabled is only set before Linux 5.8.
    """

    def __enter__(self):
        self.fd = self.was = None
        try:
            self.fd = _bpf(_ENABLE_STATS, struct.pack("=I", 0))
        except OSError:
            self.was = read(SYSCTL)
            self._sysctl("1")
        return self

    def __exit__(self, *_):
        if self.fd is not None:
            os.close(self.fd)
        else:
            self._sysctl(self.was)

    @staticmethod
    def _sysctl(value):
        with open(SYSCTL, "w") as f:
            f.write(value)


def program_name(program_id):
    fd = _bpf(_PROG_GET_FD_BY_ID, struct.pack("=IIi", program_id, 0, 0))
    try:
        info = ctypes.create_string_buffer(_INFO_BYTES)
        _bpf(_OBJ_GET_INFO_BY_FD, struct.pack("=IIQ", fd, _INFO_BYTES, ctypes.addressof(info)))
    finally:
        os.close(fd)
    return info.raw[_NAME_AT:_NAME_AT + _NAME_BYTES].rstrip(b"\0").decode()


def programs(pid):
    """The BPF programs that a process holds: {id: {"type", "ns", "runs", "missed"}}."""
    found = {}
    folder = "/proc/%d/fdinfo" % pid
    for fd in os.listdir(folder):
        text = read(os.path.join(folder, fd))
        if "prog_jited:" in text:       # links have a prog_id too
            v = {key: value for key, value in re.findall(r"(\w+):\s+(\S+)", text)}
            found[int(v["prog_id"])] = {
                "type": int(v["prog_type"]), "ns": int(v.get("run_time_ns", 0)),
                "runs": int(v.get("run_cnt", 0)), "missed": int(v.get("recursion_misses", 0))}
    return found
