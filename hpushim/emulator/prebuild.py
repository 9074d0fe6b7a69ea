"""Make a wheel with the device compiled for the torch of this environment, for machines without a compiler.

``python -m hpushim.emulator.prebuild FOLDER`` builds it there and prints its path. Installed next to hpushim, under the
same torch, Python and platform, it takes the place of the compile at first use; otherwise it is ignored.
"""

from __future__ import annotations

import base64
import hashlib
import re
import sys
import sysconfig
import zipfile
from pathlib import Path

from hpushim import __version__
from hpushim.emulator import build

_METADATA = """\
Metadata-Version: 2.1
Name: hpushim-device
Version: {version}
Summary: The emulated HPU of hpushim, compiled for torch {torch}
Requires-Dist: hpushim=={hpushim}
Requires-Dist: torch=={torch_public}.*
License: Apache-2.0
"""

_WHEEL = """\
Wheel-Version: 1.0
Generator: hpushim
Root-Is-Purelib: false
Tag: {tag}
"""


def make_wheel(folder: Path) -> Path:
    """Compile the device if need be and pack it; returns the wheel's path. Raises EmulatorError, OSError."""
    library = build.build()
    import torch

    local = re.sub(r"[^a-z0-9]+", ".", f"torch{torch.__version__}".lower())
    version = f"{__version__}+{local}"
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    tag = f"{python}-{python}-{re.sub(r'[-.]', '_', sysconfig.get_platform())}"
    info = f"hpushim_device-{version}.dist-info"
    files = {
        f"{build.PREBUILT}/{library.parent.name}/{library.name}": library.read_bytes(),
        f"{build.PREBUILT}/__init__.py": b'"""The emulated HPU, compiled."""\n',
        f"{info}/METADATA": _METADATA.format(
            version=version,
            torch=torch.__version__,
            torch_public=torch.__version__.split("+")[0],
            hpushim=__version__,
        ).encode(),
        f"{info}/WHEEL": _WHEEL.format(tag=tag).encode(),
    }
    record = [f"{name},sha256={_digest(data)},{len(data)}" for name, data in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"hpushim_device-{version}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, data in files.items():
            packed.writestr(name, data)
    return wheel


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m hpushim.emulator.prebuild FOLDER")
    sys.stdout.write(f"{make_wheel(Path(sys.argv[1]))}\n")
