"""Small programs on devices: what each prints with CUDA was written down before it was run.

``device_programs.txt`` holds them::

    == name
    print(x.device.type == "cuda")
    >> True

``x`` is a tensor on CUDA. ``!! why`` says that ``migrate`` reports a place of the program instead of rewriting it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

HEAD = "import torch\nx = torch.zeros(2).cuda()\n"
#: Imports each program, as ``hpushim run`` and Python do, and prints what it prints.
MAIN = """\
import contextlib, importlib, io, json

printed = {}
for name in %r:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            importlib.import_module(name)
        except Exception as error:
            print(type(error).__name__, error)
    printed[name] = out.getvalue().splitlines()
print("printed", json.dumps(printed))
"""


@dataclass(frozen=True)
class Program:
    """One program, and the lines that it prints with CUDA."""

    name: str
    code: str
    prints: tuple[str, ...]
    reported: str

    @property
    def module(self) -> str:
        return "p_" + re.sub(r"\W+", "_", self.name)


def _read(text: str) -> Program:
    name, _, rest = text.partition("\n")
    lines = rest.strip("\n").split("\n")
    marked = [line for line in lines if line.startswith((">> ", "!! "))]
    code = "\n".join(line for line in lines if line not in marked)
    prints = tuple(line[3:] for line in marked if line.startswith(">> "))
    reported = next((line[3:] for line in marked if line.startswith("!! ")), "")
    return Program(name, f"{HEAD}{code}\n", prints, reported)


PROGRAMS = [
    _read(text)
    for text in re.split(r"(?m)^== ", Path(__file__).with_suffix(".txt").read_text())[1:]
]
