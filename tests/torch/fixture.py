#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Makes the ELF fixtures of tests/unit/test_releases.c from the libraries of real torch releases.

usage: fixture.py [--out tests/data/torch] [--strip] NAME WHEEL|FOLDER

NAME is the release as the unit test knows it. Of each library it keeps what the selection of probe
points reads: ELF header, program headers, the symbols around record_function, and the first bytes of
these functions, all at the file offsets of the original. What lies where is written to
expected.txt as binutils see it (readelf, objdump), not as dlprof-bpf does. --strip: of a copy
without .symtab, as `strip` leaves it.

A fixture NAME-cpu.gz or NAME-python.gz holds, compressed: the file's size (8 bytes), then pieces:
offset (8), length (4), bytes.
"""
import argparse
import glob
import gzip
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIBRARIES = {"cpu": "libtorch_cpu.so", "python": "libtorch_python.so"}
# more than is looked for, so that there is something to tell it from
KEEP = re.compile(rb"profiler\d*L?\d+record_function_|PythonRecordFunctionEE|_get_operation_for_overload|"
                  rb"invokeOperatorFromPython|4_ops28scaled_dot_product_attention4call")
# whose place is an expected answer: by the whole name as c++filt would show its beginning
ANSWERS = {
    "enter_new": "_ZN5torch8autograd8profiler25record_function_enter_newE",
    "enter_old": "_ZN5torch8autograd8profiler21record_function_enterE",
    "exit_old": "_ZN5torch8autograd8profiler20record_function_exitE",
    "exit_class": "_ZNO3c106IValue13toCustomClassIN5torch8autograd8profiler20PythonRecordFunctionEEE",
    "op_vector": "_ZN5torch3jit37_get_operation_for_overload_or_packetERKSt6vector",
    "op_local": "_ZN5torch3jit37_get_operation_for_overload_or_packetEN3c108ArrayRef",
}
FORWARDER_BYTES = 0x80  # a function shorter than that is kept whole
CODE_BYTES = 32
SHT_SYMTAB, SHT_STRTAB, SHT_DYNSYM = 2, 3, 11
STT_FUNC = 2


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


# ---- the fixture -----------------------------------------------------------------------------
class Library:
    def __init__(self, path):
        self.file = open(path, "rb")
        self.size = os.path.getsize(path)
        head = self.read(0, 64)
        (_, self.machine, _, _, self.phoff, shoff, _, _, _, phnum, _, shnum, _) = \
            struct.unpack_from("<HHIQQQIHHHHHH", head, 16)
        self.head, self.phnum = head, phnum
        self.phdr = [struct.unpack_from("<IIQQQQQQ", self.read(self.phoff + i * 56, 56))
                     for i in range(phnum)]
        self.shdr = [struct.unpack("<IIQQQQIIQQ", self.read(shoff + i * 64, 64))
                     for i in range(shnum)]

    def read(self, offset, size):
        self.file.seek(offset)
        return self.file.read(size)

    def offset(self, addr):
        for kind, _, off, vaddr, _, filesz, _, _ in self.phdr:
            if kind == 1 and vaddr <= addr < vaddr + filesz:
                return off + addr - vaddr
        return None

    def symbols(self, kind):
        """(name, the 24 bytes of Elf64_Sym) of those to keep."""
        for shdr in self.shdr:
            if shdr[1] != kind:
                continue
            strings = self.read(self.shdr[shdr[6]][4], self.shdr[shdr[6]][5])
            table = self.read(shdr[4], shdr[5])
            for at in range(24, len(table), 24):
                name = struct.unpack_from("<I", table, at)[0]
                text = strings[name:strings.index(b"\0", name)]
                if KEEP.search(text):
                    yield text, table[at:at + 24]


def small_table(symbols):
    """.symtab or .dynsym, and its strings."""
    table, strings = bytearray(24), bytearray(b"\0")
    for name, symbol in symbols:
        table += struct.pack("<I", len(strings)) + symbol[4:]
        strings += name + b"\0"
    return bytes(table), bytes(strings)


def pieces_of(library, tables, places):
    """What the fixture is made of; `tables` by their kind of section, `places` of code."""
    pieces = [(library.phoff, library.read(library.phoff, 56 * library.phnum))]
    pieces += [(offset, library.read(offset, size)) for offset, size in sorted(places)]
    sections, end = [bytes(64)], library.size + -library.size % 16
    for kind, symbols in tables.items():
        table, strings = small_table(symbols)
        index = len(sections)
        sections.append(struct.pack("<IIQQQQIIQQ", 0, kind, 0, 0, end, len(table), index + 1, 1, 8, 24))
        sections.append(struct.pack("<IIQQQQIIQQ", 0, SHT_STRTAB, 0, 0, end + len(table), len(strings),
                                    0, 0, 1, 0))
        pieces.append((end, table + strings))
        end += len(table) + len(strings)
        end += -end % 16
    pieces.append((end, b"".join(sections)))
    # e_shoff, e_shnum; no names of sections
    head = bytearray(library.head)
    struct.pack_into("<Q", head, 40, end)
    struct.pack_into("<HHH", head, 58, 64, len(sections), 0)
    return end + 64 * len(sections), [(0, bytes(head))] + pieces


def code_places(library, symbols):
    for _, symbol in symbols:
        _, info, _, shndx, value, size = struct.unpack("<IBBHQQ", symbol)
        offset = library.offset(value) if shndx and info & 15 == STT_FUNC else None
        if offset:
            yield offset, size if CODE_BYTES < size < FORWARDER_BYTES else CODE_BYTES


def write_fixture(path, size, pieces):
    data = struct.pack("<Q", size)
    for offset, content in pieces:
        data += struct.pack("<QI", offset, len(content)) + content
    with open(path, "wb") as file:
        # no name and no time in it: the same input gives the same file
        with gzip.GzipFile("", "wb", 9, file, 0) as packed:
            packed.write(data)
    print(f"{path}: {os.path.getsize(path)} bytes")


# ---- the expected answers, as binutils see the original --------------------------------------
def load_segments(path):
    """(address, file offset, bytes) of what is loaded."""
    for line in run("readelf", "-lW", path).splitlines():
        fields = line.split()
        if fields[:1] == ["LOAD"]:
            yield int(fields[2], 16), int(fields[1], 16), int(fields[4], 16)


def file_offset(segments, addr):
    for vaddr, off, size in segments:
        if vaddr <= addr < vaddr + size:
            return off + addr - vaddr
    raise SystemExit(f"no segment holds {addr:#x}")


def called_by(path, addr, size):
    """{address: whether it is in the PLT} of what a forwarder calls."""
    objdump = os.environ.get("OBJDUMP", "objdump")
    text = run(objdump, "-d", f"--start-address={addr:#x}", f"--stop-address={addr + size:#x}", path)
    return {int(hit, 16): "@plt" in name
            for hit, name in re.findall(r"\t(?:call|bl)q?\s+([0-9a-f]+) <(.*)>", text)}


def forwarded(called):
    """The one function among them."""
    targets = [addr for addr, in_plt in called.items() if not in_plt]
    if len(targets) != 1:
        raise SystemExit(f"the forwarder calls {[hex(t) for t in targets]}")
    return targets[0]


def answers(path):
    """{what: file offset}, and the forwarder's target where there is a forwarder; and the places of
    all that this calls."""
    segments, found = list(load_segments(path)), {}
    for line in run("readelf", "-sW", path).splitlines():
        fields = line.split()
        if len(fields) < 8 or fields[3] != "FUNC" or fields[6] == "UND" or "." in fields[7]:
            continue
        for what, prefix in ANSWERS.items():
            if fields[7].startswith(prefix):
                found[what] = (int(fields[1], 16), int(fields[2], 0))
    places, called = {what: file_offset(segments, addr) for what, (addr, _) in found.items()}, {}
    if "op_vector" in found and found["op_vector"][1] < FORWARDER_BYTES:
        called = called_by(path, *found["op_vector"])
        places["op_forwarded"] = file_offset(segments, forwarded(called))
        # it does none of the work
        del places["op_vector"]
    return places, {(file_offset(segments, addr), CODE_BYTES) for addr in called}


def write_answers(path, name, found):
    """Replaces the release's lines in the table."""
    lines = []
    if os.path.exists(path):
        with open(path) as file:
            lines = [line for line in file if not line.startswith(f"{name} ")]
    lines = lines or ["# release, library, function, offset in the file: made by tests/torch/fixture.py\n"]
    lines += [f"{name} {library} {what} {offset:#x}\n"
              for library, places in found.items() for what, offset in sorted(places.items())]
    with open(path, "w") as file:
        file.writelines(lines[:1] + sorted(lines[1:]))


# ---- where they come from --------------------------------------------------------------------
def get_libraries(source, folder):
    """Paths of both libraries: in a folder, or taken out of a wheel."""
    if os.path.isdir(source):
        return {short: sorted(glob.glob(os.path.join(source, name + "*")))[-1]
                for short, name in LIBRARIES.items()}
    with zipfile.ZipFile(source) as wheel:
        for name in LIBRARIES.values():
            wheel.extract(f"torch/lib/{name}", folder)
    return {short: os.path.join(folder, "torch/lib", name) for short, name in LIBRARIES.items()}


def make(name, path, short, out, strip, folder):
    original = Library(path)
    kept = [*original.symbols(SHT_SYMTAB), *original.symbols(SHT_DYNSYM)]
    if strip:
        copy = os.path.join(folder, "stripped")
        run(os.environ.get("STRIP", "strip"), "-o", copy, path)
        path = copy
    library = Library(path)
    tables = {SHT_DYNSYM: list(library.symbols(SHT_DYNSYM)), SHT_SYMTAB: list(library.symbols(SHT_SYMTAB))}
    if not tables[SHT_SYMTAB]:
        del tables[SHT_SYMTAB]
    found, called = answers(path)
    # the code of a function that has lost its name is still there
    places = {*code_places(library, kept), *called}
    write_fixture(os.path.join(out, f"{name}-{short}.gz"), *pieces_of(library, tables, places))
    return found


def main():
    parser = argparse.ArgumentParser(description="ELF fixtures of torch releases")
    parser.add_argument("--out", default=os.path.join(ROOT, "tests/data/torch"))
    parser.add_argument("--strip", action="store_true", help="of a stripped copy")
    parser.add_argument("name")
    parser.add_argument("source", help="a wheel, or the folder of the libraries")
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    folder = tempfile.mkdtemp(prefix="torch-fixture-")
    try:
        found = {short: make(args.name, path, short, args.out, args.strip, folder)
                 for short, path in get_libraries(args.source, folder).items()}
    finally:
        shutil.rmtree(folder)
    write_answers(os.path.join(args.out, "expected.txt"), args.name, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
