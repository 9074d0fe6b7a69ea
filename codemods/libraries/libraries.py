"""Libraries whose code is made for NVIDIA cards, or that have another form on Gaudi: told from the matrix."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, ClassVar

import msgspec

from hpushim.engine.python.changes import Rewrite
from hpushim.engine.rules.rule import Costs, Yield
from hpushim.engine.rules.wants import Wants
from hpushim.matrix import load

from ..analysis.names import word
from ..analysis.optional_packages import optional, unguarded
from ..analysis.verdict import ask, inside
from ..analysis.versions import judge
from ..bases.row_argument import ADVICE, SEVERITY, Given, RowRule, may_speak, wants_of
from ..bases.row_argument import fix as fix_of_row
from ..edits.lightning import ROWS as ACCELERATORS
from ..edits.lightning import has_plugin, with_accelerator
from ..edits.spelling import retext

if TYPE_CHECKING:
    from collections.abc import Collection

    from hpushim.engine.python.module import Module
    from hpushim.matrix import Row

_FLASH = ("flash_attention_2", "flash_attention_3")
_ATTENTION = ("attn_implementation", "_attn_implementation")
_MAP = "device_map"
#: Arguments that ask bitsandbytes to quantise.
_QUANTISED = ("load_in_8bit", "load_in_4bit")

#: Arguments that ask Ray for cards, and its calls that are not named ``ray.…`` where they stand.
_ASKED = ("use_gpu", "num_gpus")
_OPTIONS = ("options", "remote")

_RANK = re.compile(r"rank|process_index|gpu_id|(^|_)gpu$", re.I)

#: Packages of which only these classes pick a device: a file that names none of them needs nothing.
_MAKERS = {
    "lightning": ("Trainer", "Fabric", "LightningCLI", "LightningLite"),
    "transformers": ("Trainer", "TrainingArguments", "Seq2SeqTrainer", "Seq2SeqTrainingArguments", "HfArgumentParser"),
}  # fmt: skip

_ALSO = {
    "HPU213": "fp8-library",
    "HPU320": "megatron-or-horovod",
    "HPU609": "gpu-data-loader",
    "HPU701": "hugging-face-trainer",
    "HPU702": "device-map",
    "HPU703": "flash-attention",
    "HPU704": "accelerate",
    "HPU705": "lightning",
    "HPU706": "diffusers",
    "HPU707": "deepspeed",
    "HPU708": "triton-kernel",
    "HPU710": "vision-operators",
    "HPU712": "cuda-arrays",
    "HPU713": "inference-server",
    "HPU714": "training-toolbox",
    "HPU715": "graph-operators",
    "HPU716": "scheduler-resource",
}


def _wants(codes: Collection[str]) -> Wants:
    """The packages under these codes, their arguments, and the words that ask for one of them."""
    called = wants_of(codes)
    packages = {
        name: row.status not in ADVICE
        for row in load().by_kind("package")
        if row.rule in codes and may_speak(row)
        for name in row.names
        if name.replace(".", "_").isidentifier()
    }
    hints = {name for name, reason in packages.items() if not reason}
    return msgspec.structs.replace(
        called,
        imports=tuple(packages),
        keywords=(_MAP, *_ATTENTION, *_QUANTISED, *_ASKED),
        words=_FLASH,
        hints=frozenset((*called.hints, *hints, *_ATTENTION, *_QUANTISED)),
    )


class Library(RowRule):
    """An import of a package that the matrix knows, once for each package and file."""

    code = "HPU709"
    name = "cuda-library"
    costs = Costs(
        hours=(
            "HPU213",
            "HPU320",
            "HPU609",
            "HPU701",
            "HPU703",
            "HPU704",
            "HPU705",
            "HPU706",
            "HPU707",
            "HPU709",
            "HPU710",
            "HPU712",
            "HPU713",
            "HPU714",
            "HPU715",
        ),
        none=("HPU708",),
        numbers=("HPU213",),
        speed=("HPU703",),
        kernels=("HPU708",),
    )
    wants = _wants(("HPU709", *_ALSO))
    uncovered = True
    also: ClassVar[dict[str, str]] = _ALSO

    def __init__(self) -> None:
        super().__init__()
        self._told: set[str] = set()

    def on_import(self, module: Module, alias: ast.alias, name: str) -> Yield:
        row = _row(module, name)
        if (
            row is None
            or row.name in self._told
            or name.split(".", maxsplit=1)[0] in module.project.shadowing
        ):
            return
        verdict = judge(module, row)
        if row.rule not in self.codes() or verdict.status == "native":
            return
        if row.name == "lightning" and has_plugin(module):
            return
        if row.name in _MAKERS and not _makes(module, _MAKERS[row.name]):
            return
        self._told.add(row.name)
        severity = SEVERITY[verdict.status]
        said = f"`{row.name}`: {inside(verdict.note)}"
        if optional(module, alias):
            use = unguarded(module, alias)
            if use is None:
                severity, said = "info", f"{said}; the code goes on without it"
            else:
                said = f"{said}; it is optional, but line {use.lineno} uses it without a test"
        elif severity == "error" and _guarded(module, alias):
            severity = "warning"
        yield self.finding(
            module,
            alias,
            said,
            row=row.name,
            code=row.rule,
            severity=severity,
        )

    def fix_of(
        self, module: Module, call: ast.Call, argument: Given, row: Row, status: str
    ) -> Rewrite | None:
        """Lightning's accelerator, in releases that know no hpu by name."""
        if row.name in ACCELERATORS and status == "unsupported":
            return with_accelerator(module, call, argument.value)
        return fix_of_row(module, call, argument, row, status)

    def on_keyword(self, module: Module, node: ast.keyword) -> Yield:
        if node.arg == _MAP:
            yield from self._device_map(module, node)
        elif node.arg in _QUANTISED:
            yield from self._quantised(module, node)
        elif node.arg in _ASKED:
            yield from self._asked_of_ray(module, node)
        elif module.constant(node.value) in _FLASH:
            yield self.finding(
                module,
                node.value,
                f"`{module.constant(node.value)}` needs a CUDA extension; torch's own attention is `sdpa`",
                fix=Rewrite("use sdpa", "unsafe", (retext(module, node.value, "sdpa"),)),
                row="flash_attn",
                code="HPU703",
            )

    def _quantised(self, module: Module, node: ast.keyword) -> Yield:
        """``from_pretrained(…, load_in_8bit=True)``, ``BitsAndBytesConfig(load_in_4bit=True)``."""
        if module.constant(node.value) in (False, None) and isinstance(node.value, ast.Constant):
            return
        answer = ask(module, "bitsandbytes")
        yield self.finding(
            module,
            module.span(node),  # told beside what covers the call: it is about the argument
            f"`{module.source(node).splitlines()[0]}` asks for bitsandbytes: {inside(answer.note)}",
            row=answer.row,
        )

    def _asked_of_ray(self, module: Module, node: ast.keyword) -> Yield:
        """``ScalingConfig(use_gpu=True)``, ``@ray.remote(num_gpus=1)``, ``Actor.options(num_gpus=1)``."""
        call = module.parent(node)
        none = isinstance(node.value, ast.Constant) and not node.value.value
        if none or not isinstance(call, ast.Call) or not _is_rays(module, call):
            return
        answer = ask(module, "cards asked of Ray")
        yield self.finding(
            module,
            module.span(node),  # told beside what covers the call: it is about the argument
            f"`{module.source(node).splitlines()[0]}`: {inside(answer.note)}",
            row=answer.row,
            code="HPU716",
            severity=SEVERITY[answer.status],
        )

    def _device_map(self, module: Module, node: ast.keyword) -> Yield:
        """``from_pretrained(…, device_map="auto")``."""
        values = module.values(node.value)
        if any(_numbers(module, value) for value in values):
            answer = ask(module, "device_map with the number of a card")
            yield self.finding(
                module,
                module.span(node),
                f"`{module.source(node).splitlines()[0]}`: {inside(answer.note)}",
                row=answer.row,
                code="HPU702",
            )
        elif any(_spreads(module, value) for value in values):
            answer = ask(module, "transformers.AutoModel.from_pretrained(device_map=)")
            yield self.finding(
                module,
                node,
                f"`{module.source(node).splitlines()[0]}`: {inside(answer.note)}",
                row=answer.row,
                code="HPU702",
            )


def _is_rays(module: Module, call: ast.Call) -> bool:
    """Is it a call of Ray's, or ``options`` of what is Ray's where the file imports Ray?"""
    if (module.qualified(call.func) or "").startswith("ray."):
        return True
    return word(call.func) in _OPTIONS and any(
        name.partition(".")[0] == "ray"
        for statement in module.imports
        for name in (
            [statement.module or ""]
            if isinstance(statement, ast.ImportFrom)
            else [alias.name for alias in statement.names]
        )
    )


def _numbers(module: Module, value: ast.expr) -> bool:
    """Does a device map give the number of a card: ``0``, ``{"": 0}``, ``{"": local_rank}``?"""
    if isinstance(value, ast.Dict):
        return len(value.values) == 1 and any(_numbers(module, each) for each in value.values)
    number = module.constant(value)
    if isinstance(number, int) and not isinstance(number, bool):
        return True
    if isinstance(value, ast.Call):
        name = module.qualified(value.func) or ""
        return name.endswith(".current_device") or word(value.func) == "int"
    return bool(_RANK.search(word(value)))


def _spreads(module: Module, value: ast.expr) -> bool:
    """Does a device map leave the cards to the library, or give several?"""
    if isinstance(value, ast.Dict):
        return len({module.source(v) for v in value.values}) > 1
    return module.constant(value) in ("auto", "balanced", "balanced_low_0", "sequential")


def _row(module: Module, name: str) -> Row | None:
    """The row of the package that a name lies in, the nearest one."""
    while name:
        row = module.matrix.row(name, "package")
        if row is not None:
            return row
        name = name.rpartition(".")[0]
    return None


def _makes(module: Module, classes: tuple[str, ...]) -> bool:
    """Does the file name one of these classes, other than in an import or as the type of a parameter?"""
    return any(
        not any(isinstance(above, ast.arg) for above in module.ancestors(use))
        for name in classes
        for use in (*module.index.names(name), *module.index.attributes(name))
    )


def _guarded(module: Module, node: ast.AST) -> bool:
    """Does the code go on without the package: under ``try``, under ``if``, inside a function?"""
    return any(
        isinstance(above, (ast.Try, ast.If, ast.FunctionDef, ast.AsyncFunctionDef))
        for above in module.ancestors(node)
    )
