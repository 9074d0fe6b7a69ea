"""Makes a CPU build of torch out of the CUDA build in an environment: ``python without_cuda.py SITE-PACKAGES``.

A package index that has no CPU builds is then enough to test hpushim with the releases that Gaudi machines have. What computes on the
CPU stays as its makers built it. The libraries of CUDA are replaced by stubs, whose functions do nothing or answer "no device", and the
names that only a CUDA build has are taken out of ``torch._C``. An environment treated so is for tests only.

Tried with 2.6.0 and 2.9.1. The CUDA build of 2.13.0 makes NCCL's options when ``torch.distributed`` is imported, which a stub cannot:
it ends with a segmentation fault. Needs g++ and binutils. Nothing is done to a torch that is a CPU build already.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from textwrap import indent

OF_CUDA = re.compile(
    r"lib(torch_cuda|c10_cuda|caffe2_nvrtc|torch_nvshmem|torch_cuda_linalg)\b.*\.so"
)
"""Torch's own libraries that a CPU build does not have."""

NAMES = re.compile(
    r"_(cuda|cudnn|nccl|nvtx|cudart|cusparselt|cufile|gds|nvshmem|cublas)(_|$)"
    r"|_(Cuda|CUDA|MemPool|StaticCuda|CudaCache)"
    r"|_(broadcast(_coalesced|_out)?|scatter(_out)?|gather(_out)?)$"
)
FLAGS = (
    "_has_cuda",
    "_has_cudnn",
    "_has_cusparselt",
    "_has_magma",
    "has_cuda",
    "has_cudnn",
    "has_magma",
)

TAKEN_OUT = """
def _without_cuda():  # tests/versions/without_cuda.py
    import re, torch._C as built
    for name in [name for name in dir(built) if re.match({names!r}, name)]:
        delattr(built, name)
    for name in {flags!r}:
        if hasattr(built, name):
            setattr(built, name, False)
    start = getattr(built, "_c10d_init", None)
    def c10d_init():
        started = start()
        if hasattr(built._distributed_c10d, "ProcessGroupNCCL"):
            del built._distributed_c10d.ProcessGroupNCCL
        return started
    if start:
        built._c10d_init = c10d_init
_without_cuda()
del _without_cuda
"""


def lines(*command: object) -> list[str]:
    """What a program prints."""
    return subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=True
    ).stdout.splitlines()


def needed(library: Path) -> set[str]:
    """The libraries that a library asks for."""
    return {
        found[1]
        for line in lines("readelf", "-d", library)
        if (found := re.search(r"\(NEEDED\).*\[(.+)\]", line))
    }


def stub(soname: str, folder: Path, undefined: Iterable[str], real: Iterable[Path] = ()) -> None:
    """Put a library of that name in the folder, with the undefined symbols that are its own to give."""
    own: dict[str, str] = {}  # name: version
    data: dict[str, int] = {}  # name: bytes
    wanted = set(undefined)
    for line in [line for path in real for line in lines("readelf", "-W", "--dyn-syms", path)]:
        words = line.split()
        if len(words) < 8 or words[6] == "UND":
            continue
        name = words[7].partition("@")[0]
        if name in wanted:
            own[name] = ""
            if words[3] == "OBJECT":
                data[name] = int(words[2], 0)
    if not real:
        for symbol in undefined:
            name, _, version = symbol.partition("@")
            if version == soname or (not version and re.match(r"(cu|nccl|nv)[A-Z]", name)):
                own[name] = version  # without a version it may be any library's
    source = [".text"]
    for name in own:
        if name not in data:
            source += [f".globl {name}", f".type {name},@function", f"{name}:"]
            # C++: a reference to nothing, as the registers of what Python's part knows of CUDA are given. C: CUDA's "no device".
            answer = "leaq nothing(%rip), %rax" if name.startswith("_Z") else "movl $100, %eax"
            source += [answer, "ret"]
    source += [".data", ".balign 4096", "nothing:", ".zero 4096"]
    texts = []
    for name, size in data.items():
        source += [".balign 16", f".globl {name}", f".type {name},@object"]
        source += [f".size {name},{size}", f"{name}:"]
        if name.startswith("_ZTI"):  # a type is known by its name: pybind11 keeps a table of them
            source += [".quad _ZTVN10__cxxabiv117__class_type_infoE+16", f".quad name{size}{name}"]
            texts += [f"name{size}{name}:", f'.string "{name.removeprefix("_ZTI")}"']
            size -= 16
        source += [f".zero {size}"]
    source += texts
    with tempfile.TemporaryDirectory() as work:
        text, versions = Path(work, "stub.s"), Path(work, "stub.map")
        text.write_text("\n".join([*source, '.section .note.GNU-stack,"",@progbits', ""]))
        versions.write_text(f"{soname} {{ global: *; }};\n")
        command = ["g++", "-shared", f"-Wl,-soname,{soname}", str(text)]
        if any(own.values()):
            command += [f"-Wl,--version-script={versions}"]
        target = folder / soname
        target.unlink(missing_ok=True)
        subprocess.run([*command, "-o", str(target)], check=True)


def replace_libraries(torch: Path) -> None:
    """Stubs for CUDA's libraries, torch's own among them."""
    folder = torch / "lib"
    of_cuda = {path for path in folder.iterdir() if OF_CUDA.fullmatch(path.name)}
    kept = [path for path in folder.iterdir() if ".so" in path.name and path not in of_cuda]
    extensions = [*torch.glob("_C*.so"), *torch.parent.glob("functorch/_C*.so")]
    undefined = {
        line.split()[-1]
        for library in [*kept, *extensions]
        for line in lines("nm", "-D", "--undefined-only", library)
    }
    asked = {name for library in kept for name in needed(library)}
    dropped = {path for path in of_cuda if path.name not in asked}
    for name in sorted(asked):
        if folder / name in of_cuda:  # and what it alone had asked for
            stub(name, folder, undefined, [folder / name, *dropped])
        elif re.match(r"lib(cu|nv|nccl)", name) and folder / name not in kept:
            stub(name, folder, undefined)
    for path in dropped:
        path.unlink()


def take_out_names(torch: Path) -> None:
    """What Python sees: no CUDA in ``torch._C`` and none in ``torch.version``."""
    first = torch / "__init__.py"
    text = first.read_text(encoding="utf-8")
    code = TAKEN_OUT.format(names=NAMES.pattern, flags=FLAGS)
    text, places = re.subn(
        r"^( *)from torch\._C import \*",
        lambda place: indent(code, place[1]) + place[0],
        text,
        flags=re.M,
    )
    if not places:
        sys.exit(f"{first}: found no line 'from torch._C import *' to put code before")
    first.write_text(text, encoding="utf-8")
    version = torch / "version.py"
    text = version.read_text(encoding="utf-8")
    text = re.sub(r"^(__version__ = '[^+']*)(\+[^']*)?'", r"\1+cpu'", text, flags=re.M)
    version.write_text(
        re.sub(r"^(cuda\b[^=]*= ).*$", r"\1None", text, flags=re.M), encoding="utf-8"
    )


def treat(torch: Path) -> None:
    """Make a CPU build of the torch in a folder; one that is a CPU build stays as it is."""
    if re.search(r"^cuda\b[^=]*= None", torch.joinpath("version.py").read_text(), re.M):
        return
    replace_libraries(torch)
    take_out_names(torch)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python without_cuda.py SITE-PACKAGES")
    treat(Path(sys.argv[1]) / "torch")
