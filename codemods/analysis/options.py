"""Options of launch scripts and of settings: ``--device cuda``, ``--backend=nccl``, ``--precision fp16``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hpushim.engine.base.text import Project, Text
from hpushim.engine.shell.words import Command, Word
from hpushim.matrix import Row

from ..edits.spelling import BACKEND, hpu
from .device_texts import device_name
from .project_facts import COMPARED_DEVICES, DEVICE_OPTIONS, OPTION_CHOICES
from .trainers import SWITCHES

_PAIR = re.compile(r"(?P<option>--?[A-Za-z][\w.-]*|[A-Za-z_][\w.]*)=(?P<value>.*)", re.DOTALL)
CUDA_DEVICE = re.compile(r"cuda(?::(\d+))?")
_DEVICE_OPTION = re.compile(r"(?:device|accelerator|map[-_]location)$", re.I)
_BACKEND_OPTION = re.compile(r"backend|dist[-_]", re.I)
_PRECISION_OPTION = re.compile(r"precision|dtype", re.I)
#: Spellings of float16 in options and settings, and of the bfloat16 to write instead.
HALF = {"fp16": "bf16", "float16": "bfloat16", "half": "bfloat16", "torch.float16": "torch.bfloat16",
        "16-mixed": "bf16-mixed", "16-true": "bf16-true", "fp16-mixed": "bf16-mixed"}  # fmt: skip
#: Files of settings that are about builds, packages and tests: where "cuda" or "gpu" is a build, a package or a machine, and no device of torch.
_BUILDS = re.compile(
    r"^(\.github|\.gitlab|\.circleci|\.azure|\.buildkite)(/|$)|(^|/)\.github/|"
    r"(^|/)(package(-lock)?|tsconfig|composer|vcpkg|conanfile|mkdocs|\.pre-commit-config|"
    r"pyproject|Pipfile|poetry|environment|conda|meta|recipe)\w*\.(json|ya?ml|toml)$"
)


def options(command: Command) -> Iterator[tuple[Word, str, str]]:
    """Every word behind the program that may be a value: the word, the option that it is given to, the value."""
    previous = ""
    for word in command.words[1:]:
        pair = _PAIR.fullmatch(word.text)
        yield (word, pair["option"], pair["value"]) if pair else (word, previous, word.text)
        previous = word.text if word.text.startswith("-") else ""
    if previous:  # a flag that ends the command
        yield command.words[-1], previous, ""


def holds_device(name: str, value: str, project: Project) -> bool:
    """Is the CUDA device that an option or a setting is given certainly one?

    By its index, by the name, or by how the project declares an option of that name, or compares it: those turn in Python too.
    """
    return (
        ":" in value
        or device_name(name)
        or any(
            name.lstrip("-").replace("-", "_") in project.names(fact.name)
            for fact in (DEVICE_OPTIONS, COMPARED_DEVICES)
        )
    )


def gaudi_value(option: str, value: str, project: Project) -> str | None:
    """The value that the option takes on Gaudi in place of a CUDA device or of ``nccl``."""
    device = CUDA_DEVICE.fullmatch(value)
    if device and (holds_device(option, value, project) or _DEVICE_OPTION.search(option)):
        return hpu(device[1])
    if value == "nccl" and _BACKEND_OPTION.search(option):
        return BACKEND
    return None


def rejects(name: str, value: str, project: Project) -> bool:
    """Does every option of that name which the project declares with ``choices`` lack the value?"""
    word = name.lstrip("-").replace("-", "_")
    taken = project.names(OPTION_CHOICES.name)
    return f"{word}={value}" not in taken and any(each.startswith(f"{word}=") for each in taken)


#: Said of an option for float16 that is kept.
KEPT = "is an option of this project and keeps its name; where `migrate` rewrites the code that reads it, the option selects bfloat16"


def keeps_name(option: str, new: str, project: Project) -> bool:
    """Does the project declare an option for float16, and none for bfloat16?"""
    return option in project.options and new not in project.options


def bfloat16_value(option: str, value: str) -> str | None:
    """bfloat16 in the option's way of writing, where it requests float16."""
    return HALF.get(value) if _PRECISION_OPTION.search(option) else None


def attention(text: Text, option: str, value: str) -> Row | None:
    """What the matrix says of an attention that an option selects by name, where it has another one: ``flash_attention_2``."""
    row = text.matrix.row(value, "string") if "attn" in option else None
    return row if row is not None and row.target else None


def setting(text: Text, option: str, value: str) -> Row | None:
    """What the matrix says of a setting that has another value on Gaudi: ``--dynamo_backend inductor``."""
    row = text.matrix.row(f"{option.lstrip('-')}: {value}", "config")
    return row if row is not None and row.target else None


def for_cuda(text: Text, option: str, value: str) -> Row | None:
    """What the matrix says of an option that requests from a launcher, or from a trainer that reads it, what CUDA alone has:
    ``--nproc_per_node gpu``, ``--trainer.gpus 2``, ``--tf32 True``, ``--optim adamw_bnb_8bit``. One of the project's own is reported in its code.
    """
    owner, _, name = option.lstrip("-").replace("-", "_").rpartition(".")
    row, named = None, text.matrix.row
    if name == "nproc_per_node":
        row = named("torch.distributed.run") if value == "gpu" else None
    elif owner == "trainer":
        chosen = value in ("gpu", "cuda") if name == "accelerator" else value not in ("0", "null")
        row = named(f"lightning.Trainer({name}=)", "argument") if chosen else None
    elif name == "optim":
        row = named(value, "string")
    elif option.startswith("--") and option not in text.project.options and (not value or value.startswith("-") or value.lower() in ("true", "1")):  # fmt: skip
        row = named(f"transformers.TrainingArguments({name}=)", "argument") or named(SWITCHES.get(name, ""))  # fmt: skip
    return row if row is not None and (row.status == "unsupported" or name in ("nproc_per_node", "optim", *SWITCHES)) else None  # fmt: skip


def builds(path: str) -> bool:
    """Is the file about a build, a package or a machine that runs tests?"""
    return _BUILDS.search(path.replace("\\", "/")) is not None
