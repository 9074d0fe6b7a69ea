"""The words of a command line: what is launched, and what each of the three runs gets.

A script is instructed to stay on the CPU by its own means: an option that it defines, a value that the user gave. Where it has none,
it is run as it is, without a device.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import msgspec

_LAUNCHERS = ("torchrun", "accelerate", "deepspeed")
_PROCESSES = re.compile(r"--(?:nproc[-_]per[-_]node|num[-_]processes|num[-_]gpus)(?:=(\d+))?$")
_CUDA_DEVICE = re.compile(r"(cuda|gpu)(:\d+)?$")
_OFF = re.compile(r"--(no|disable|without)[-_](cuda|gpu)s?$|--(use[-_])?cpu([-_]only)?$")
_ON = re.compile(r"--((use|enable)[-_])?(cuda|gpu)$")
_DEVICE = re.compile(r"(device|accelerator)([-_]type)?$")
_CHOICE = re.compile(rf"--(\w+[-_])?{_DEVICE.pattern}")


class Command(msgspec.Struct, frozen=True):
    """What is to be proved: words before the script (a launcher and its options), the script or module, its arguments."""

    before: tuple[str, ...]
    script: str
    args: tuple[str, ...]
    module: bool = False

    @property
    def launcher(self) -> str:
        """``torchrun``, ``accelerate``, or nothing."""
        return self.before[0] if self.before else ""

    @property
    def processes(self) -> int:
        """How many processes the launcher is instructed to start, 1 where it is not."""
        for place, word in enumerate(self.before):
            found = _PROCESSES.match(word)
            if found:
                number = found[1] or self.before[min(place + 1, len(self.before) - 1)]
                return int(number) if number.isdigit() and int(number) else 1
        return 1

    def shown(self) -> tuple[str, ...]:
        """The words as a user types them."""
        return (*self.before, *(("-m",) if self.module else ()), self.script, *self.args)


def parse(words: tuple[str, ...], module: str | None = None) -> Command:
    """Splits the words at the script. Raises ValueError where no script is among them."""
    if module is not None:
        return Command((), module, words, module=True)
    if Path(words[0]).name not in _LAUNCHERS:
        return Command((), words[0], words[1:])
    for place, word in enumerate(words[1:], 1):
        if word in ("-m", "--module") and place + 1 < len(words):
            return Command(words[:place], words[place + 1], words[place + 2 :], module=True)
        if word.endswith(".py"):
            return Command(words[:place], word, words[place + 1 :])
    raise ValueError(f"{words[0]}: no Python script among its arguments")


class OnCpu(msgspec.Struct, frozen=True):
    """How a script is kept on the CPU: its arguments, and why they do it, in words."""

    args: tuple[str, ...]
    why: str


def on_cpu(args: tuple[str, ...], source: str, given: tuple[str, ...] | None = None) -> OnCpu:
    """The arguments of the CPU run: as ``given``, else by the values given, else by the options that ``source`` defines."""
    if given is not None:
        return OnCpu((*_replaced(args), *given), f"by --cpu-args: {' '.join(given)}")
    changed = _replaced(args)
    if changed != args:
        return OnCpu(changed, f"by its arguments: {' '.join(changed)}")
    options = _options(source)
    without = tuple(word for word in args if not (_ON.match(word) and options.get(word, False)))
    if without != args:
        gone = [word for word in args if word not in without]
        return OnCpu(without, f"without {' '.join(gone)}")
    for option, flag in options.items():
        if flag and _OFF.match(option) and option not in args:
            return OnCpu((*args, option), f"by its option {option}")
    for option, flag in options.items():
        if not flag and _CHOICE.match(option) and not any(a.split("=")[0] == option for a in args):
            return OnCpu((*args, option, "cpu"), f"by its option {option} cpu")
    if re.search(r"cuda\.is_available|is_available\(\)", source):
        return OnCpu(args, "by its own check of what is available")
    return OnCpu(args, "as it is")


def _replaced(args: tuple[str, ...]) -> tuple[str, ...]:
    """The arguments with ``cpu`` for each value that names a device and gloo for NCCL."""
    return tuple(_each(word, "cpu", "gloo") for word in args)


def on_hpu(args: tuple[str, ...]) -> tuple[str, ...]:
    """The arguments of the migrated copy: ``hpu`` for each value that names a device, HCCL for NCCL."""
    return tuple(_each(word, "hpu", "hccl") for word in args)


def _each(word: str, device: str, backend: str) -> str:
    name, equals, value = word.rpartition("=")
    chooses_file = device != "cpu" and not _DEVICE.search(name)  # Hydra's `trainer=gpu`
    if _CUDA_DEVICE.match(value) and not (value.startswith("gpu") and (not equals or chooses_file)):
        index = value.partition(":")[2] if device != "cpu" else ""
        return f"{name}{equals}{device}{':0' if index else ''}"
    return f"{name}{equals}{backend}" if value == "nccl" else word


def _options(source: str) -> dict[str, bool]:
    """The options that a source defines, in order: whether each is a flag (``--no-cuda``) or takes a value."""
    found: dict[str, bool] = {}
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return found
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        names = [
            one.value
            for one in node.args
            if isinstance(one, ast.Constant) and isinstance(one.value, str)
        ]
        called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if called not in ("add_argument", "option"):
            continue
        keywords = {k.arg: k.value for k in node.keywords if k.arg}
        takes = keywords.get("type")
        if isinstance(takes, ast.Name) and takes.id in ("int", "float"):
            continue  # the number of a device: it has no word for the CPU
        action = keywords.get("action")
        flag = isinstance(action, ast.Constant) and action.value == "store_true"
        is_flag = keywords.get("is_flag")
        flag = flag or (isinstance(is_flag, ast.Constant) and is_flag.value is True)
        found.update({name: flag for name in names if name.startswith("--")})
    return found
