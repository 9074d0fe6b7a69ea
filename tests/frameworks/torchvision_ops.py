"""Lets an environment's torchvision from PyPI, which is built for CUDA, be imported beside a CPU torch: ``PYTHON torchvision_ops.py``.

Its extension cannot be loaded there, and then the import fails where the shapes of two operators are declared. They are named
before that, without a kernel. A torchvision that loads is left as it is.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

_NAMED = '''import torch.library  # the operators by name, where the extension could not be loaded
_names = torch.library.Library("torchvision", "FRAGMENT")
for _name, _takes in (("nms", "Tensor dets, Tensor scores, float iou_threshold"),
                      ("qnms", "Tensor dets, Tensor scores, float iou_threshold")):
    if not torch._C._dispatch_has_kernel("torchvision::" + _name):
        _names.define(_name + "(" + _takes + ") -> Tensor")
'''  # fmt: skip


def main() -> int:
    """Says what it did."""
    loads = [sys.executable, "-c", "import torchvision"]
    if subprocess.run(loads, capture_output=True, check=False).returncode == 0:
        print("torchvision is imported as it is")
        return 0
    found = importlib.util.find_spec("torchvision")
    if found is None or found.origin is None:
        print("torchvision is not installed")
        return 1
    file = Path(found.origin).with_name("_meta_registrations.py")
    text = file.read_text(encoding="utf-8")
    if _NAMED not in text:
        file.write_text(_NAMED + text, encoding="utf-8")
    done = subprocess.run(loads, check=False)
    print("torchvision is imported without its extension" if not done.returncode else "torchvision cannot be imported")  # fmt: skip
    return done.returncode


if __name__ == "__main__":
    raise SystemExit(main())
