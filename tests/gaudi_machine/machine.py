"""A pretend Gaudi machine: an environment as users have it, where nothing asks for emulation.

A virtual environment with the Gaudi software as an ordinary package (the look-alike, under the vendor's name and with the
vendor's entry point), what stands for its driver (the emulated device, in a package of its own that has nothing to do
with an installed hpushim), a torch with a fork's version, hl-smi, and the variables of the container. hpushim is
installed as it is here. Everything about it is emulated.

Variables of the machine, none of which hpushim reads: ``PRETEND_CARDS`` (default 1; 0: no driver), ``PRETEND_BUSY=1`` (no
card is free), ``PRETEND_WITHOUT`` (names that this release lacks, divided by commas) and ``PRETEND_DIFFERENT`` (JSON: name
to a Python expression that stands there instead).
"""

from __future__ import annotations

import os
import re
import shutil
import site
import subprocess
import sys
import venv
from pathlib import Path

import warm

import hpushim
from hpushim.emulator import SITE, build

ROOT = Path(hpushim.__file__).resolve().parent
HERE = Path(__file__).resolve().parent
DRIVER = "pretend_gaudi"  # the package that stands for the driver
RELEASE = "1.21.0"
FORK = "a0+git1a2b3c4"  # as the vendor's build of torch ends its version
BUSY = "synStatus=8 [Device not found] Device acquire failed."

_ENTRY_POINTS = """\
[torch.backends]
device_backend = habana_frameworks.autoload:__autoload

[torch_dynamo_backends]
hpu_backend = habana_frameworks.torch.dynamo.compile_backend.backends:hpu_backend
"""
_HL_SMI = """\
#!/bin/sh
if [ "${PRETEND_CARDS:-1}" = 0 ]; then echo "ioctl failed: No such device" >&2; exit 1; fi
case "$*" in
  -v|--version) echo "hl-smi version:    hl-1.21.0-fw-59.2.3.0 (Apr  1 2025)";;
  *) echo "| HL-SMI Version:  hl-1.21.0-fw-59.2.3.0 |"; echo "| Driver Version:  1.21.0-000000 |";;
esac
"""
# What the vendor's containers set, from their published Dockerfiles.
CONTAINER = {
    "GC_KERNEL_PATH": "/usr/lib/habanalabs/libtpc_kernels.so",
    "HABANA_LOGS": "{folder}/logs",
    "HABANA_SCAL_BIN_PATH": "/opt/habanalabs/engines_fw",
    "HABANA_PLUGINS_LIB_PATH": "/opt/habanalabs/habana_plugins",
    "HABANA_VISIBLE_DEVICES": "all",
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
    "MPI_ROOT": "/opt/amazon/openmpi",
    "OPAL_PREFIX": "/opt/amazon/openmpi",
    "RDMAV_FORK_SAFE": "1",
    "FI_EFA_USE_DEVICE_RDMA": "1",
    "RDMA_CORE_ROOT": "/opt/habanalabs/rdma-core/src",
    "PYTHONPATH": "{folder}/home:/usr/lib/habanalabs/",
    "TCMALLOC_LARGE_ALLOC_REPORT_THRESHOLD": "7516192768",
}


class Machine:
    """The machine in ``folder``, made there. Raises EmulatorError where the device cannot be built."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        venv.create(folder, symlinks=True, with_pip=False)
        self.bin = folder / "bin"
        self.python = self.bin / "python"
        version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
        self.site = folder / "lib" / version / "site-packages"
        for name in ("home", "logs"):
            (folder / name).mkdir()
        _share_what_is_installed(self.site)
        _install_torch(self.site)
        _install_driver(self.site)
        _install_vendor(self.site)
        self._script("hl-smi", _HL_SMI)
        for name, module in (("torchrun", "torch.distributed.run"), ("hpushim", "hpushim")):
            text = f"#!{self.python}\nimport runpy, sys\nsys.argv[0] = {name!r}\n"
            self._script(name, f"{text}runpy.run_module({module!r}, run_name='__main__')\n")

    def _script(self, name: str, text: str) -> None:
        path = self.bin / name
        path.write_text(text)
        path.chmod(0o755)

    def environment(self, **changes: str) -> dict[str, str]:
        """The environment of a program there: the container's variables, none of hpushim's, ``changes`` on top."""
        kept = {
            name: os.environ[name]
            for name in ("HOME", "LANG", "TMPDIR", "TZ")
            if name in os.environ
        }
        container = {name: text.format(folder=self.folder) for name, text in CONTAINER.items()}
        path = os.pathsep.join([str(self.bin), "/usr/bin", "/bin"])
        return {**kept, **container, "PATH": path, "OMP_NUM_THREADS": "1", **changes}

    def run(
        self, *words: str | Path, cwd: Path | None = None, own: bool = False, **changes: str
    ) -> subprocess.CompletedProcess[str]:
        """A command of the machine, by its name there; its output as text. ``own``: no fork of a process that holds torch."""
        python = str(self.python) if own else warm.like(str(self.python), self.environment())
        script = [] if words[0] == "python" else [str(self.bin / words[0])]
        return subprocess.run(
            [python, *script, *map(str, words[1:])], capture_output=True, text=True, timeout=600, check=False,
            cwd=cwd or self.folder / "home", env=self.environment(**changes),
        )  # fmt: skip


def _share_what_is_installed(target: Path) -> None:
    """The packages beside this Python, as a plain entry: their own ``.pth`` files are not read a second time."""
    places = [*site.getsitepackages(), str(Path(build.__file__).parents[2])]
    lines = [place for place in places if Path(place).is_dir() and "site-packages" in place]
    for place in map(Path, site.getsitepackages()):
        for pth in place.glob("__editable__*hpushim*.pth"):
            lines += pth.read_text().splitlines()
    (target / "zz_shared.pth").write_text("\n".join(lines) + "\n")
    shutil.copy(ROOT / "shim" / "entry" / "hpushim.pth", target)


def _install_torch(target: Path) -> None:
    """The torch that is here, with a fork's version: every file is a link but the one that states it."""
    import torch

    real = Path(torch.__file__).parent
    overlay = target / "torch"
    (overlay / "__pycache__").mkdir(parents=True)
    for path in real.iterdir():
        if path.name not in ("version.py", "__pycache__"):
            (overlay / path.name).symlink_to(path)
    for path in (real / "__pycache__").glob("*.pyc"):
        if not path.name.startswith("version."):
            (overlay / "__pycache__" / path.name).symlink_to(path)
    text = (real / "version.py").read_text()
    (overlay / "version.py").write_text(
        re.sub(
            r"^__version__ = .*$", f"__version__ = {torch_version()!r}", text, flags=re.MULTILINE
        )
    )
    _state(target, "torch", torch_version())


def torch_version() -> str:
    """The version of torch there: a fork's of the release that is here."""
    import torch

    return torch.__version__.partition("+")[0] + FORK


def _install_driver(target: Path) -> None:
    """The emulated device under a name of its own, and the library that was compiled for it here."""
    driver = target / DRIVER
    for name in ("emulator", "matrix", "safe_files"):
        shutil.copytree(
            ROOT / name, driver / name, ignore=shutil.ignore_patterns("site", "__pycache__")
        )
    # What these may import; tests/test_rooms.py says the same.
    for path in sorted(ROOT.glob("*.py")):
        if not path.name.startswith("__"):
            shutil.copy(path, driver / path.name)
    (driver / "__init__.py").write_text('"""Stands for the driver of a Gaudi (emulated)."""\n')
    shutil.copy(HERE / "quirks.py", driver / "quirks.py")
    (driver / "data").mkdir()
    from hpushim.matrix.reader import default_path

    shutil.copy(default_path(), driver / "data")
    _rename_imports(driver)
    import torch

    library = build.build()
    name = library.parent.name.replace(f"torch{torch.__version__}-", f"torch{torch_version()}-", 1)
    place = target / build.PREBUILT / name
    place.mkdir(parents=True)
    (place / library.name).symlink_to(library)


def _install_vendor(target: Path) -> None:
    for path in SITE.iterdir():
        shutil.copytree(path, target / path.name, ignore=shutil.ignore_patterns("__pycache__"))
        _rename_imports(target / path.name)
    package = target / "habana_frameworks" / "torch"
    with (package / "__init__.py").open("a") as file:
        file.write(f"\nfrom {DRIVER} import quirks\n\nquirks.apply()\n")
    toolkit = package / "gpu_migration"
    toolkit.mkdir()
    shutil.copy(HERE / "toolkit.py", toolkit / "__init__.py")
    _state(target, "habana_torch_plugin", f"{RELEASE}.555", _ENTRY_POINTS)


def _rename_imports(folder: Path) -> None:
    for path in folder.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        path.write_text(
            re.sub(r"^(\s*(?:from|import) )hpushim\b", rf"\g<1>{DRIVER}", text, flags=re.MULTILINE),
            encoding="utf-8",
        )


def _state(target: Path, name: str, version: str, entry_points: str = "") -> None:
    """What pip leaves of an installed package."""
    folder = target / f"{name}-{version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    if entry_points:
        (folder / "entry_points.txt").write_text(entry_points)
