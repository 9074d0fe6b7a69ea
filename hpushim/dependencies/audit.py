"""What a package's own files say about the device that it needs, with the file and line that say it.

Files of a package are data from somebody else: none is imported or run, each is read up to a limit, and what cannot be read says nothing.
"""

from __future__ import annotations

import ast
import re
import struct
from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePosixPath

import msgspec

from hpushim.model import DependencyKind
from hpushim.pycode.walk import walk

#: A file of a package: its path below the folder of packages, its size, and what reads so many of its first bytes.
File = tuple[str, int, Callable[[int], bytes]]

#: Bytes of a shared object whose loader's names are read, and of a source; files of a package that are read.
_MAX_OBJECT = 1 << 29
_MAX_SOURCE = 4 << 20
_MAX_FILES = 20_000
_OBJECT = re.compile(r"\.(?:so|pyd)(?:\.|$)")
_CUDA_LIBRARY = re.compile(
    rb"lib(?:cudart|cublas|cublasLt|cudnn|nccl|cufft|cusparse|cusolver|curand|nvrtc|torch_cuda|c10_cuda)[\w.-]*\.so"
)
_TRITON = re.compile(rb"^[ \t]*@(?:triton\.)(?:jit|autotune)\b", re.MULTILINE)
_BUILDS = re.compile(rb"\b(?:CUDAExtension|load_inline|cpp_extension\.load)\(|\bCUDAExtension\b")
_HPU = re.compile(rb"[\"'.]hpu\b|\bhabana_frameworks\b")
_PATTERNS: dict[DependencyKind, re.Pattern[bytes]] = {
    "knows hpu": _HPU,
    "Triton kernels": _TRITON,
    "builds CUDA": _BUILDS,
}
#: Where a package keeps what it does not run itself.
_ASIDE = frozenset({"tests", "test", "benchmarks", "benchmark", "examples", "docs"})


class Audit(msgspec.Struct, frozen=True):
    """What decides about a package, and where it says so: ``k2/lib/libk2.so needs libcudart.so.11.0``."""

    kind: DependencyKind
    evidence: str = ""


#: What decides first where files say several things.
_ORDER: tuple[DependencyKind, ...] = (
    "compiled for CUDA",
    "builds CUDA",
    "Triton kernels",
    "demands CUDA tensors",
    "chooses its device",
)


def audit(files: Iterable[File]) -> Audit:
    """What a package's files say; of a package that knows hpu its own branches decide, whatever else it holds."""
    found: dict[DependencyKind, str] = {}
    sources, builder = "", False
    for number, (path, size, read) in enumerate(files):
        if number >= _MAX_FILES:
            break
        if _ASIDE & {part.lower() for part in PurePosixPath(path).parts[:-1]}:
            continue
        if PurePosixPath(path).suffix in (".cu", ".cuh"):
            sources = sources or path
        for kind, where in _says(path, size, read):
            if where:
                found.setdefault(kind, where)
            else:
                builder = True
    if sources and builder:  # what nothing here builds with torch is for another compiler
        found["builds CUDA"] = sources
    if "knows hpu" in found:
        return Audit("knows hpu", found["knows hpu"])
    for kind in _ORDER:
        if kind in found:
            return Audit(kind, found[kind])
    return Audit("plain Python")


def _says(
    path: str, size: int, read: Callable[[int], bytes]
) -> Iterator[tuple[DependencyKind, str]]:
    name = PurePosixPath(path)
    if _OBJECT.search(name.name):
        if size <= _MAX_OBJECT and (library := _cuda_library(read(size))):
            yield "compiled for CUDA", f"{path} needs {library}"
    elif name.suffix == ".py" and size <= _MAX_SOURCE:
        yield from _python(path, read(_MAX_SOURCE))


def _python(path: str, data: bytes) -> Iterator[tuple[DependencyKind, str]]:
    for kind, pattern in _PATTERNS.items():
        if match := pattern.search(data):
            line = data.count(b"\n", 0, match.start()) + 1
            yield kind, f"{path}:{line}"
    if b"cpp_extension" in data:
        yield "builds CUDA", ""  # where the package also has sources
    if b"cuda" not in data:
        return
    try:
        tree = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in walk(tree):
        if isinstance(node, ast.Assert) and _names(node.test, "is_cuda"):
            yield "demands CUDA tensors", f"{path}:{node.lineno}"
        elif isinstance(node, (ast.IfExp, ast.If)) and _chooses(node):
            yield "chooses its device", f"{path}:{node.lineno}"


def _names(tree: ast.AST, name: str) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr == name for node in walk(tree))


def _chooses(node: ast.IfExp | ast.If) -> bool:
    """``"cuda" if torch.cuda.is_available() else "cpu"``, as an expression or as two branches."""
    if not (_names(node.test, "is_available") or _names(node.test, "device_count")):
        return False
    branches = (node.body, node.orelse)
    parts = [branch if isinstance(branch, list) else [branch] for branch in branches]
    words = [{_device(node) for part in branch for node in walk(part)} for branch in parts]
    return any("cuda" in words[i] and "cpu" in words[1 - i] for i in (0, 1))


def _device(node: ast.AST) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value.partition(":")[0]
    return ""


def _cuda_library(data: bytes) -> str:
    """The first of CUDA's libraries that an ELF file of 64 bits needs, or that it was linked with; else empty."""
    try:
        for name in _needed(data):
            if _CUDA_LIBRARY.match(name):
                return name.decode("ascii", "replace")
    except (struct.error, IndexError, ValueError, OverflowError):
        pass
    return "the CUDA runtime inside it" if b"__cudaRegisterFatBinary" in data else ""


def _needed(data: bytes) -> Iterator[bytes]:
    """The names of DT_NEEDED, from the dynamic section (System V ABI, ELF-64 object file format)."""
    if data[:5] != b"\x7fELF\x02":
        return
    (offset,) = struct.unpack_from("<Q", data, 0x28)
    size, number, _ = struct.unpack_from("<HHH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, offset + i * size) for i in range(number)]
    for section in sections:
        if section[1] != 6:  # SHT_DYNAMIC
            continue
        names = sections[section[6]][4]
        for at in range(section[4], min(section[4] + section[5], len(data) - 15), 16):
            tag, value = struct.unpack_from("<qQ", data, at)
            if tag == 0:  # DT_NULL
                break
            if tag == 1:  # DT_NEEDED
                start = names + value
                yield data[start : data.index(b"\0", start, start + 4096)]
