"""What Accelerate's page on accelerators warns of: SageMaker, Apple's devices, Intel CPUs."""

from __future__ import annotations

import ast
import re

from hpushim.engine.rules.rule import Code, Found, Module, Rule, Strength, Wants, Yield

from ..analysis.names import word
from ..analysis.verdict import inside
from ..edits.arguments import argument

#: What a project says that runs on SageMaker; a file of it may import the package instead.
_SAGEMAKER = ("import sagemaker", "from sagemaker", "SM_MODEL_DIR", "/opt/ml/model")
_FLAGS = ("store_true", "store_false")
_OPTIONAL = "argparse.BooleanOptionalAction"
_ARGUMENTS = "boolean argparse actions on SageMaker"
_FOLDER = "SM_MODEL_DIR"
_PAIRS = "several model and optimizer pairs in accelerator.prepare"
_MPS = "distributed training on MPS"
_SAVES = ("save_state", "save_pretrained", "save_model")
_OPTIMIZER = re.compile(r"(^|_)opt(im|imi[sz]er)?(_|\d|$)", re.I)
_APPLE = re.compile(rb"['\"]mps\b|\.mps\b")
_GROUP = "torch.distributed.init_process_group"


class AccelerateTrap(Rule):
    """Options and folders on SageMaker, pairs for ``prepare``, a process group beside ``mps``."""

    HPU721 = Code("accelerate-trap", severity="note")
    wants = Wants(
        names=(_GROUP,), calls=("prepare",), texts=(*_SAGEMAKER, "sagemaker"),
        required=("accelerate", "sagemaker", "SM_MODEL_DIR", "/opt/ml/model", "mps"),
        project=_SAGEMAKER,
    )  # fmt: skip
    also = Wants(calls=("add_argument", *_SAVES))
    strength = Strength.FIRM

    def on_name(self, module: Module, node: ast.expr, name: str) -> Yield:
        """A process group in a file that takes Apple's device."""
        call = module.parent(node)
        if isinstance(call, ast.Call) and call.func is node and module.matches(_APPLE):
            yield self._trap(module, call.func, module.source(node), _MPS)

    def on_call(self, module: Module, node: ast.Call) -> Yield:
        name = word(node.func)
        if name == "prepare":
            optimizers = [a for a in node.args if _OPTIMIZER.search(module.source(a))]
            if len(optimizers) > 1 and module.holds("accelerate"):
                yield self._trap(module, node.func, f"{len(optimizers)} optimizers", _PAIRS)
        elif not module.view(_on_sagemaker):
            return
        elif name == "add_argument":
            yield from self._option(module, node)
        elif node.args and isinstance(module.constant(node.args[0]), str):
            folder = str(module.constant(node.args[0]))
            if not folder.startswith("/opt/ml"):
                yield self._trap(module, node.args[0], module.source(node.args[0]), _FOLDER)

    def _option(self, module: Module, node: ast.Call) -> Yield:
        action, kind = argument(node, "action"), argument(node, "type")
        if action is not None and (
            module.constant(action) in _FLAGS or module.qualified(action) == _OPTIONAL
        ):
            yield self._trap(module, action, f"action={module.source(action)}", _ARGUMENTS)
        elif kind is not None and module.qualified(kind) == "builtins.bool":
            yield self._trap(module, kind, "type=bool", _ARGUMENTS)

    def _trap(self, module: Module, node: ast.AST, what: str, row: str) -> Found:
        found = module.matrix.row(row)
        assert found is not None, row
        return self.finding(node, f"`{what}`: {inside(found.note)}", row=row)


def _on_sagemaker(module: Module) -> bool:
    mentions = module.project.mentions or frozenset()
    return (
        bool(mentions & {*_SAGEMAKER})
        or any(module.holds(word) for word in _SAGEMAKER)
        or any(
            alias.name.partition(".")[0] == "sagemaker"
            for each in module.imports
            for alias in each.names
        )
    )
