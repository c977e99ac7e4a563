# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Python environments with one torch release each, kept under build/venv-torch.

Wheels of PyPI want several GB of NVIDIA's libraries, only to be loaded: what is missing of them is
replaced by libraries of the same names whose functions all say that there is no device.
"""
import glob
import os
import platform
import re
import shutil
import subprocess
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HERE = os.path.join(ROOT, "tests/torch")
FOLDER = os.path.join(ROOT, "build/venv-torch")
RELEASES = os.path.join(HERE, "releases")
FETCH_ROOT = os.path.join(ROOT, "tests/vm/fetch-root.sh")
DEBIAN_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
NEED_BYTES = 6 << 30  # a wheel and what it unpacks to
LIBRARIES = ("libtorch_cpu.so", "libtorch_python.so")
PLAIN = "libdlprof_standin.so"
# functions of CUDA's libraries that are asked for without a version
CUDA_NAME = re.compile(r"(cu|nv|nccl|__cuda)[A-Za-z0-9_]*$")
# cudaErrorNoDevice, and an error in each of the other libraries
STUB = ".text\n.globl {0}\n.type {0}, %function\n{0}:\n\tmov $100, %eax\n\tret\n"


class Missing(Exception):
    """It cannot be installed here; the text says why."""


def read_releases():
    """[(name, what pip is asked for, Python), ...]"""
    with open(RELEASES) as file:
        lines = [line.split() for line in file]
    return [tuple(fields) for fields in lines if fields and not fields[0].startswith("#")]


def run(*command, **more):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)


def why_not(*python):
    """What is wrong with its torch, in a line; "": nothing."""
    tried = run(*python, "-c", "import torch, torch.utils.data")
    return (tried.stdout.strip().splitlines() or ["?"])[-1] if tried.returncode else ""


def works(python):
    return not why_not(python)


def find_python(version):
    """An interpreter of that version: in PATH, or one of pyenv's."""
    pyenv = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    kept = glob.glob(os.path.join(pyenv, "versions", f"{version}.*", "bin", f"python{version}"))
    for python in [shutil.which(f"python{version}"), *sorted(kept, reverse=True)]:
        if python and run(python, "-c", "import ensurepip, venv").returncode == 0:
            return python
    raise Missing(f"there is no Python {version} (in PATH or of pyenv)")


# ---- libraries to satisfy the loader ---------------------------------------------------------
def unfound(library):
    """Names of needed libraries that the loader does not find."""
    return set(re.findall(r"^\s*(\S+) => not found", run("ldd", library).stdout, re.M))


def dynamic_symbols(library):
    """(name, version or "", whether it is defined here)"""
    for line in run("readelf", "--dyn-syms", "-W", library).stdout.splitlines():
        fields = line.split()
        if len(fields) >= 8 and fields[0].endswith(":") and fields[3] != "SECTION":
            name, _, version = fields[7].replace("@@", "@").partition("@")
            yield name, version, fields[6] != "UND"


def make_stub(folder, soname, symbols, *needed):
    """symbols: {version or "": names}; needed: further libraries of this folder that it loads"""
    with tempfile.TemporaryDirectory() as scratch:
        source, script = os.path.join(scratch, "stub.s"), os.path.join(scratch, "versions")
        with open(source, "w") as file:
            file.writelines(STUB.format(name) for names in symbols.values() for name in sorted(names))
        with open(script, "w") as file:
            for version, names in sorted(symbols.items()):
                file.write(f"{version} {{ global: {' '.join(f'{name};' for name in sorted(names))} }};\n")
        versions = [f"-Wl,--version-script={script}"] if set(symbols) - {""} else []
        needs = [f"-L{folder}", "-Wl,--no-as-needed,-rpath,$ORIGIN", *(f"-l:{name}" for name in needed)]
        made = run("gcc", "-shared", "-nostdlib", f"-Wl,-soname,{soname}", *versions, source, *needs,
                   "-o", os.path.join(folder, soname))
        if made.returncode:
            raise Missing(f"no stand-in for {soname}: {made.stdout.strip()[-200:]}")


def version_files(library):
    """{version: the library that it is wanted of}"""
    files, file = {}, None
    for line in run("readelf", "-V", "-W", library).stdout.splitlines():
        at = re.search(r"\bFile: (\S+)", line)
        file = at.group(1) if at else file
        at = re.search(r"\bName: (\S+)  Flags", line)
        if at and file:
            files[at.group(1)] = file
    return files


def make_stubs(folder):
    """For what the libraries in this folder need of CUDA and do not find."""
    libraries = glob.glob(os.path.join(folder, "*.so*"))
    missing = set().union(*map(unfound, libraries))
    if not missing:
        return
    defined, plain, stubs = set(), set(), {soname: {} for soname in missing}
    for library in libraries:
        files = version_files(library)
        for name, version, here in dynamic_symbols(library):
            if here:
                defined.add(name)
            elif version and files.get(version) in stubs:
                stubs[files[version]].setdefault(version, set()).add(name)
            elif not version and CUDA_NAME.match(name):
                plain.add(name)
    # whose a function without a version is cannot be told: one library has them all
    make_stub(folder, PLAIN, {"": plain - defined})
    for soname, symbols in stubs.items():
        make_stub(folder, soname, symbols, PLAIN)


# ---- environments ----------------------------------------------------------------------------
def pip(python, *args):
    done = run(python, "-m", "pip", "--disable-pip-version-check", "install", "--no-cache-dir",
               "--only-binary=:all:", "-q", *args)
    if done.returncode:
        errors = [line for line in done.stdout.splitlines() if line.startswith("ERROR")]
        raise Missing(f"pip: {(errors or done.stdout.splitlines() or ['?'])[-1]}")


def install(folder, wanted, version):
    if shutil.disk_usage(FOLDER).free < NEED_BYTES:
        raise Missing(f"less than {NEED_BYTES >> 30} GiB of disk free")
    python = os.path.join(folder, "bin/python")
    made = run(find_python(version), "-m", "venv", "--clear", folder)
    if made.returncode:
        raise Missing(f"no venv: {made.stdout.strip()[-200:]}")
    pip(python, "--no-deps", wanted)
    requires = run(python, "-c", "import importlib.metadata as m\n"
                   "print('\\n'.join(r for r in m.requires('torch') or () if 'extra ==' not in r))")
    needed = [line for line in requires.stdout.splitlines() if line and not re.match("nvidia|cuda|triton", line)]
    pip(python, "setuptools", "numpy" if version >= "3.12" else "numpy<2", *needed)
    make_stubs(glob.glob(os.path.join(folder, "lib/python3*/site-packages/torch/lib"))[0])


def link_copy(folder, original):
    """All of it by further names of the same files: who changes one must replace it."""
    shutil.copytree(original, folder, symlinks=True, copy_function=os.link)


def strip_libraries(folder, original):
    for name in LIBRARIES:
        path = glob.glob(os.path.join(folder, "lib/python3*/site-packages/torch/lib", name))[0]
        os.remove(path)
        origin = os.path.join(original, os.path.relpath(path, folder))
        if run("strip", "-o", path, origin).returncode:
            raise Missing(f"{name} cannot be stripped")


def make(folder, name, wanted, version):
    release, _, form = name.partition("-")
    if not form:
        install(folder, wanted, version)
        return
    original = os.path.dirname(os.path.dirname(provide(release, wanted, version)))
    link_copy(folder, original)
    if form == "stripped":
        strip_libraries(folder, original)
    elif form == "jupyter":
        pip(os.path.join(folder, "bin/python"), "ipykernel", "jupyter_client")
    else:
        raise Missing(f"what is {form}?")


def provide(name, wanted, version):
    """The Python of that release; Missing when it is not to be had."""
    if wanted == "-":
        if not works(version):
            raise Missing(f"{version} has no torch")
        return version
    folder = os.path.join(FOLDER, name)
    python = os.path.join(folder, "bin/python")
    if os.path.exists(python) and works(python):
        return python
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(FOLDER, exist_ok=True)
    try:
        make(folder, name, wanted, version)
        why = why_not(python)
        if why:
            raise Missing(why)
    except Missing:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return python


# ---- other systems' files --------------------------------------------------------------------
def provide_root(suite, python, folders):
    """The words that start that Python of a Debian suite, in whose root these folders are, too."""
    machine = platform.machine()
    fetched = run(FETCH_ROOT, suite, DEBIAN_MACHINES.get(machine, machine))
    said = fetched.stdout.strip().splitlines() or ["?"]
    if fetched.returncode:
        raise Missing(f"files of Debian {suite}: {said[-1]}")
    # its modules are compiled once, when they are imported here, and kept
    words = ["unshare", "--mount", os.path.join(HERE, "in-root.sh"), said[-1], *folders, "--",
             "env", "-u", "PYTHONDONTWRITEBYTECODE"]
    why = why_not(*words, python)
    if why:
        raise Missing(f"{python} of Debian {suite}: {why}")
    return words
