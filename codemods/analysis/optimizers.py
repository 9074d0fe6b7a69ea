"""What is an optimizer: asked of the values that reach a name, and of the name itself last."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from .names import is_none, word
from .project_facts import SCALERS

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

#: Names of things that step and are no optimizers, or that step by themselves.
_OTHERS = re.compile(
    r"sched|profil|\bprof\b|\benv|environment|simul|engine|accelerator|fabric|trainer|deepspeed|ds_|"
    r"warmup|anneal|timer|meter|progress|pbar|debugg|stepper|metric|callback|solver_lr|world|agent",
    re.I,
)
_NAMED = re.compile(r"optim", re.I)
#: Names that an optimizer often has, and parsed options as well.
_SHORT = re.compile(r"^opts?$|^opts?_|_opts?$|^opt[a-zA-Z0-9]$|optG|optD|^opt(Gen|Disc)", re.I)
_CLASSES = re.compile(
    r"(^|\.|_)(Adam|AdamW|Adamax|NAdam|RAdam|SparseAdam|SGD|RMSprop|Adagrad|Adadelta|LBFGS|Rprop|ASGD|"
    r"LAMB|Lamb|LARS|Lars|Lion|Adafactor|AdaBelief|Ranger|Muon|NovoGrad|Shampoo|Sophia|SAM|"
    r"Fused\w*(Adam|AdamW|SGD|LAMB|Lamb|NovoGrad|Adagrad)|ZeroRedundancyOptimizer|\w*Optimizer|\w*Optim)$"
)
#: What holds several of them by name: ``optims.generator``.
_SEVERAL = re.compile(r"(^|_)optim(izer)?s$", re.I)
_FACTORIES = re.compile(r"optim", re.I)
_ENDS = re.compile(r"Optim(izer)?s?$|Opt$")
_SCALED = re.compile(r"scaler$|^_?(grad_?)?scaler|^amp_scaler|scaler_?\w$", re.I)
_LOSS = re.compile(r"loss", re.I)


def is_optimizer(module: Module, node: ast.expr, depth: int = 6) -> bool:
    """Does ``node`` surely, or by its name and its use, hold an optimizer?"""
    if depth == 0:
        return False
    label = word(node)
    if label and _OTHERS.search(label):
        return False
    known = _from_values(module, node, depth)
    if known is not None:
        return known
    if label and _NAMED.search(label):
        return True
    if isinstance(node, ast.Attribute) and _SEVERAL.search(word(node.value)):
        return True
    if label and _SHORT.search(label) and _is_beside_backward(module, node):
        return True
    return bool(label) and _cleared(module, node)


def _is_beside_backward(module: Module, node: ast.expr) -> bool:
    """Does the function around ``node`` run a backward pass, too?"""
    around = module.function(node)
    return any(module.function(call) is around for call in module.index.calls("backward"))


def is_scaler(module: Module, node: ast.expr) -> bool:
    """Is ``node`` a gradient scaler, by what it was made with or by its name?"""
    values = module.values(node) if isinstance(node, ast.Name) else _stored(module, node)
    for value in values:
        if isinstance(value, ast.Call):
            return _called(module, value).endswith("Scaler")
    label = word(node)
    return bool(label) and _SCALED.search(label) is not None


def is_scaler_call(module: Module, call: ast.Call) -> bool:
    """``loss_scaler(loss, optimizer, …)``: a scaler of another package, which runs backward and steps."""
    if len(call.args) < 2 or not _LOSS.search(word(call.args[0])):
        return False
    if not is_scaler(module, call.func) or not is_optimizer(module, call.args[1]):
        return False
    names = [
        module.qualified(value.func)
        for value in _values(module, call.func)
        if isinstance(value, ast.Call)
    ]
    if not names:
        return not module.project.names(SCALERS.name)
    roots = {name.split(".", maxsplit=1)[0] if name else "" for name in names}
    return not roots & (module.project.modules | {""})


def _from_values(module: Module, node: ast.expr, depth: int) -> bool | None:
    """What the values of ``node`` say; None when they say nothing."""
    if isinstance(node, ast.Subscript):
        return is_optimizer(module, node.value, depth - 1) or None
    if isinstance(node, ast.Call):
        return _is_optimizer_call(module, node, depth)
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        verdicts = [is_optimizer(module, item, depth - 1) for item in node.elts]
        return bool(verdicts) and all(verdicts)
    if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
        return is_optimizer(module, node.elt, depth - 1)
    if isinstance(node, ast.Dict):
        return bool(node.values) and all(is_optimizer(module, v, depth - 1) for v in node.values)
    if isinstance(node, ast.Name) and any(_is_declared(b.node) for b in module.bindings(node)):
        return True
    for item in _looped(module, node):
        if is_optimizer(module, item, depth - 1):
            return True
    for value in _values(module, node):
        if value is node or is_none(value):
            continue
        if isinstance(value, (ast.Name, ast.Attribute)):
            continue
        if isinstance(value, (ast.Call, ast.List, ast.Tuple, ast.Dict, ast.ListComp)):
            return _from_values(module, value, depth - 1)
        if isinstance(value, ast.Constant):
            return False
    return None


def _values(module: Module, node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.Name):
        return [
            value
            for binding in module.bindings(node)
            if binding.kind == "assign" and binding.value is not None
            for value in module.values(binding.value)
        ]
    return _stored(module, node)


def _is_declared(node: ast.AST) -> bool:
    """Is it a parameter that is annotated as an optimizer?"""
    annotation = getattr(node, "annotation", None)
    return (
        annotation is not None and _CLASSES.search(ast.unparse(annotation).strip("'\"")) is not None
    )


def _looped(module: Module, node: ast.expr) -> list[ast.expr]:
    """What the loop runs over whose variable ``node`` is."""
    if not isinstance(node, ast.Name):
        return []
    return [
        item
        for binding in module.bindings(node)
        if binding.kind == "for" and binding.value is not None
        for item in _elements(binding.value)
    ]


def _stored(module: Module, node: ast.expr) -> list[ast.expr]:
    return module.index.stored(node.attr) if isinstance(node, ast.Attribute) else []


def _elements(iterated: ast.expr) -> list[ast.expr]:
    """What a loop over ``iterated`` gives, as far as one can see: the sequence stands for its items."""
    if isinstance(iterated, (ast.List, ast.Tuple)):
        return list(iterated.elts)
    if isinstance(iterated, ast.Call) and isinstance(iterated.func, ast.Attribute):
        return [iterated.func.value] if iterated.func.attr in ("values", "items") else []
    return [iterated]


def _is_optimizer_call(module: Module, call: ast.Call, depth: int) -> bool | None:
    name = _called(module, call)
    last = name.rpartition(".")[2]
    if last == "optimizers" and not call.args:  # Lightning's, whose trainer marks
        return False
    if ".lr_scheduler" in name or (_OTHERS.search(last) and not _ENDS.search(last)):
        return False
    if name.startswith(("torch.optim.", "apex.optimizers.", "bitsandbytes.optim.")):
        return True
    if _CLASSES.search(last):
        return True
    if last == "initialize" and "amp" in name:
        return None  # apex: a tuple of model and optimizer
    if (
        isinstance(call.func, ast.Attribute)
        and call.func.attr in ("get", "pop")
        and not call.keywords
    ):
        return None
    if _FACTORIES.search(last):
        return True
    if last in ("list", "tuple", "dict") and call.args:
        return is_optimizer(module, call.args[0], depth - 1) or None
    return None


def _called(module: Module, call: ast.Call) -> str:
    name = module.qualified(call.func)
    if name is not None:
        return name
    return word(call.func)


def _cleared(module: Module, node: ast.expr) -> bool:
    """Does the file call ``zero_grad`` on the same expression? Optimizers have both, schedulers do not."""
    return module.source(node) in module.view(_cleared_texts)


def _cleared_texts(module: Module) -> frozenset[str]:
    return frozenset(
        module.source(call.func.value)
        for call in module.index.calls("zero_grad")
        if isinstance(call.func, ast.Attribute)
    )
