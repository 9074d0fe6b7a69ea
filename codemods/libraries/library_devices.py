"""Libraries with words of their own for a CUDA device: ``use_cuda=True``, ``gpus=1``, ``device="gpu"``, ``get_gpu()``."""

from __future__ import annotations

import ast
import re
import sys

from hpushim.engine.python.changes import Rewrite
from hpushim.engine.rules.rule import Code, Module, Rule, Strength, Wants, Yield
from hpushim.matrix import Row

from ..analysis.names import FOREIGN, word
from ..analysis.provenance import owner
from ..analysis.verdict import ask, inside
from ..bases.row_argument import ADVICE
from ..edits.at_hand import FUNCTIONS
from ..edits.lightning import with_accelerator
from ..edits.spelling import agnostic, retext, shared

_ROW = "a device requested from a library"
#: Arguments that switch CUDA on, that count devices, and that number one.
_SWITCHES = ("use_cuda", "use_gpu", "enable_cuda", "enable_gpu", "on_gpu")
_SHORT = ("cuda", "gpu")
_COUNTS = ("gpus", "n_gpu", "n_gpus", "num_gpu", "num_gpus", "ngpu", "ngpus")
_NUMBERS = ("gpu_id", "gpu_ids", "cuda_device", "cuda_id", "gpu_device")
#: Arguments that take a device or Lightning's accelerator by name; they are reported for names that only CUDA's libraries know.
_DEVICES = ("device", "device_name")
_ACCELERATOR = "accelerator"
#: What rows of packages have as their target, where a rewrite can write it.
_DEVICE = 'device="hpu"'
_OF_LIGHTNING = "accelerator=hpushim.lightning.HPUAccelerator()"
_DIGITS = re.compile(r"\d+(,\d+)*")
#: Functions of libraries that look for a device themselves.
_FINDERS = (
    "try_gpu", "try_all_gpus", "get_gpu", "find_gpus", "get_cuda_device_if_available", "get_cuda_or_mps_device_if_available",
    "get_default_device", "get_best_device", "select_device", "choose_device", "infer_device",
    "auto_device", "detect_device", "resolve_device", "set_gpu",
)  # fmt: skip
#: Packages that know Gaudi or have findings of their own, and those that only keep or start what they are given.
_OTHERS = frozenset({
    "torch", "torchvision", "torchaudio", "numpy", "ray", "submitit", "accelerate", "transformers", "trl", "peft", "diffusers", "optimum",
    "lightning", "pytorch_lightning", "lightning_fabric", "deepspeed", "timm", "torch_geometric", "ignite", "habana_frameworks", "hpushim",
    "wandb", "mlflow", "omegaconf", "hydra", "easydict", "addict", "ml_collections", "pytest", "pandas", "click", "typer", "fire",
    "builtins",
}) | FOREIGN  # fmt: skip


class RequestedLibrary(Rule):
    """``Model(use_cuda=True)``, ``Trainer(gpus=1)``, ``fit(device="gpu")``, ``model.train(device=0)``, ``d2l.try_gpu()``."""

    HPU726 = Code("device-requested-from-library", fix=("safe", "manual"), effect="cpu")
    wants = Wants(
        keywords=(*_SWITCHES, *_COUNTS, *_NUMBERS, _ACCELERATOR),
        strings=(_ACCELERATOR,),
        calls=_FINDERS,
    )
    also = Wants(keywords=(*_SHORT, *_DEVICES), calls=("default_device", "get_device"))
    strength = Strength.FIRM

    def on_keyword(self, module: Module, node: ast.keyword) -> Yield:
        call = module.parent(node)
        if isinstance(call, ast.Call) and node.arg and _requests(module, node.arg, node.value):
            yield from self._requested(module, call, node, node.arg, node.value)

    def on_string(self, module: Module, node: ast.Constant) -> Yield:
        """``NBEATSModel(pl_trainer_kwargs={"accelerator": "gpu"})``."""
        table = module.parent(node)
        if node.value != _ACCELERATOR or not isinstance(table, ast.Dict) or node not in table.keys:
            return
        keyword = module.parent(table)
        call = module.parent(keyword) if isinstance(keyword, ast.keyword) else None
        value = table.values[table.keys.index(node)]
        if isinstance(call, ast.Call) and _requests(module, _ACCELERATOR, value):
            yield from self._requested(module, call, node, _ACCELERATOR, value)

    def on_call(self, module: Module, call: ast.Call) -> Yield:
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        package = (module.qualified(call.func) or "").partition(".")[0]
        if agnostic(module) and word(call.func) in FUNCTIONS:
            return  # what this style writes, in a file of the project that is not given
        if all(map(_names_none, given)) and _is_library(module, package):
            written, (said, row) = module.source(call.func), _words(module, package)
            if row == _ROW:
                said = 'its choice on Gaudi is unknown, often the CPU; pass the device, torch.device("hpu")'
            yield self.finding(
                call.func, f"`{written}` selects a device by itself: {said}", row=row
            )

    def _requested(
        self, module: Module, call: ast.Call, node: ast.AST, name: str, value: ast.expr
    ) -> Yield:
        package = owner(module, call.func)
        if not _is_library(module, package) or _known(module, package, name):
            return
        said, row = _words(module, package)
        fix = _fix(module, call, package, name, value)
        span = module.span(node)
        span = type(span)(span.start, module.span(value).end)
        yield self.finding(
            span,
            f"`{module.source(span).splitlines()[0]}` requests a CUDA device from `{package}`: "
            f"{said}",
            fix=fix,
            row=row,
        )


def _fix(
    module: Module, call: ast.Call, package: str, name: str, value: ast.expr
) -> Rewrite | None:
    """The spelling that chooses hpu, where the matrix has one for the package."""
    row = module.matrix.row(package, "package")
    if row is None or not isinstance(value, ast.Constant) or not isinstance(value.value, str):
        return None
    if row.target == _DEVICE and name in _DEVICES and value.value == "gpu" and not shared(module):
        return Rewrite("name the device", "safe", (retext(module, value, "hpu"),))
    if row.target == _OF_LIGHTNING and name == _ACCELERATOR:
        return with_accelerator(module, call, value)
    return None


def _names_none(value: ast.expr) -> bool:
    """Does an argument leave the device to the function?"""
    return isinstance(value, ast.Constant) and value.value in (None, True, 0, "", "auto", "gpu", "cuda")  # fmt: skip


def _requests(module: Module, name: str, value: ast.expr) -> bool:
    """Does an argument request a device of CUDA's, in words that are no device of torch's?"""
    constant = module.constant(value)
    if name == _ACCELERATOR:
        return constant in ("gpu", "cuda")
    if name in _DEVICES:
        if isinstance(value, ast.List | ast.Tuple):
            return bool(value.elts) and all(type(module.constant(one)) is int for one in value.elts)
        if isinstance(constant, str):
            return constant in ("gpu", "auto") or bool(_DIGITS.fullmatch(constant))
        return type(constant) is int and constant >= 0
    if isinstance(value, ast.UnaryOp) and name in _NUMBERS:
        return False  # -1 is no device
    if not isinstance(value, ast.Constant):
        return True
    if name in (*_COUNTS, *_SWITCHES, *_SHORT):
        none = constant is None or constant is False or constant in ("", "cpu", "0")
        return not none and (name == "gpu" or constant != 0)
    return constant not in (None, "", "-1", "cpu")


def _is_library(module: Module, package: str) -> bool:
    """Is it a package that somebody else has written, and that none of the other rules is about?"""
    return bool(package) and not (
        package in _OTHERS
        or package in sys.stdlib_module_names
        or package in module.project.modules
        or package in module.project.shadowing
    )


def _known(module: Module, package: str, name: str) -> bool:
    """Has the matrix a row of its own on this argument of this package?"""
    return any(
        written.startswith(f"{package}.") and f"({name}=" in written
        for row in module.matrix.by_kind("argument")
        for written in row.names
    )


def _words(module: Module, package: str) -> tuple[str, str]:
    """What is said of a package's devices, and the row that says it."""
    row: Row | None = module.matrix.row(package, "package")
    answer = ask(module, package if row is not None and row.status not in ADVICE else _ROW)
    return inside(answer.note), answer.row or _ROW
