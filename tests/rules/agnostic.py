"""What tests of the agnostic style share."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import torch

from hpushim.engine.context import Context
from hpushim.engine.one_file import settle
from hpushim.engine.project import migrate, undo
from hpushim.engine.python import lines
from hpushim.engine.settle import Settled
from hpushim.matrix import load
from hpushim.model import Style, Target

HEAD = "import os\nimport torch\nimport torch.nn as nn\nimport torch.distributed as dist\n"


CURRENT = "torch.accelerator.current_accelerator()"


AVAILABLE = "torch.accelerator.is_available()"


CHOICE = f'{CURRENT}.type if {AVAILABLE} else "cpu"'


DEFAULT = "accelerator_device()"


#: Where one function, or the program, has all uses of the device.
KEPT = f'device = {CURRENT} if {AVAILABLE} else torch.device("cpu")'


#: The same in a program that fails without CUDA, as :func:`body` shows it.
NEEDED = "device = accelerator or error"


REFUSAL = f'if not {AVAILABLE}:\n    raise RuntimeError("no accelerator is available")\n'


FUNCTION = (
    "def accelerator_device():\n"
    f"    if not {AVAILABLE}:\n"
    '        raise RuntimeError("no accelerator is available")\n'
    f"    return {CURRENT}\n"
)


OR_CPU = (
    f"def {DEFAULT}:\n"
    f"    if {AVAILABLE}:\n"
    f"        return {CURRENT}\n"
    '    return torch.device("cpu")\n'
)


def written(text: str, style: Style = "agnostic", path: str = "train.py") -> Settled:
    context = Context(Target(style=style, mode="eager"), load())
    kind = {"py": "python", "yaml": "yaml", "sh": "shell"}[path.rpartition(".")[2]]
    after = settle(text, kind, path, context)  # type: ignore[arg-type]
    assert not [f for f in after.findings if f.code == "HPU004"]
    assert settle(after.text, kind, path, context).text == after.text  # type: ignore[arg-type]
    return after


def body(text: str) -> str:
    """What becomes of the statements behind the imports, without the function; a choice over several lines in one."""
    with mock.patch.object(lines, "limit", return_value=1000):
        after = written(HEAD + text).text
    after = after.removeprefix(HEAD).replace(FUNCTION, "").replace(OR_CPU, "")
    refused = rf"if not {re.escape(AVAILABLE)}:\n +raise RuntimeError\(.*\)\n( *\w+ = ){re.escape(CURRENT)}"
    after = re.sub(refused, lambda found: f"{found[1].lstrip()}accelerator or error", after)
    after = re.sub(r"\(\n +(.*)\n +(if .*)\n +(else .*)\n *\)", r"\1 \2 \3", after)
    return "\n".join(line for line in after.splitlines() if line.strip())


#: What keeps a project's torch old, and what does not: files beside ``train.py``, and the words of the reason.
OLD_TORCH: dict[str, dict[str, str]] = {
    "torch==1.13.1": {"requirements.txt": "numpy\ntorch==1.13.1\n"},
    "torch<2.0": {"requirements.txt": "torch<2.0\n"},
    "torchvision==0.14": {"requirements.txt": "torch>=1.9\ntorchvision==0.14\n"},
    "xformers==0.0.19": {"requirements.txt": "torch>=1.9\n", "requirements-extra.txt": "xformers==0.0.19\n"},
    "python==3.8.*": {"environment.yml": "dependencies:\n  - python=3.8\n  - pytorch>=1.9\n"},
    "classifiers": {"setup.py": "from setuptools import setup\n\nsetup(name='own', classifiers=['Programming Language :: Python :: 3', 'Programming Language :: Python :: 3.5', 'Programming Language :: Python :: 3.8'])\n", "requirements.txt": "torch\n", "own/net.py": "import torch\n\n\ndef f(x):\n    return x.cuda()\n"},
    "python_requires": {"setup.py": "from setuptools import setup\n\nsetup(\n    name='own',\n    python_requires='>=3.6, <3.9',\n)\n", "requirements.txt": "torch>=1.4\n", "own/net.py": "import torch\n\n\ndef f(x):\n    return x.cuda()\n"},
    "pytorch-cuda==11.7.*": {"environment.yml": "dependencies:\n  - pytorch-cuda=11.7\n", "requirements.txt": "torch>=1.9\n"},
    "the package itself": {"setup.py": "from setuptools import setup\n\nsetup(name='own', install_requires=['torch>=1.9'])\n", "own/net.py": "import torch\n# .to('cuda')\n", "examples/a.py": "import torch\n\ntorch.ones(2).cuda()\n"},
}  # fmt: skip


def written_for(folder: Path, files: dict[str, str], train: str) -> str:
    """What becomes of ``train.py`` in a project; a second run does nothing, and the way back is exact."""
    before = {**files, "train.py": train}
    for path, text in before.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text)
    migrate([folder], Target(style="agnostic"), allow_dirty=True)
    after = (folder / "train.py").read_text()
    again = migrate([folder], Target(style="agnostic"), allow_dirty=True)
    assert not [file.path for file in again.files if file.status == "changed"]
    for path in files if files in OLD_TORCH.values() else ():
        assert path.endswith(".py") or (folder / path).read_text() == files[path]
    while undo(folder).run:
        pass
    assert {path: (folder / path).read_text() for path in before} == before
    return after


@contextlib.contextmanager
def without_accelerator() -> Iterator[None]:
    """torch as it was before 2.6."""
    kept = torch.accelerator
    del torch.accelerator
    try:
        yield
    finally:
        torch.accelerator = kept
