"""Compile mode compiles: each model that trains goes through ``torch.compile`` once."""

from __future__ import annotations

import ast
import re
from pathlib import PurePath

from hpushim.engine.python.changes import Change, Insert, Rewrite
from hpushim.engine.rules.rule import Code, Found, Module, Rule, Wants, Yield

from ..analysis.kinds import defines_method
from ..analysis.names import word
from ..analysis.placement import is_on_device
from ..analysis.verdict import ask
from ..edits.imports import torch
from ..edits.spelling import ACCELERATOR, COMPILER, DEVICE, quoted, shared
from ..values.trained import FSDP, NOT_SEEN, Trained, trained

_COMPILE = "torch.compile"
_WRAPPED = "torch.compile and DistributedDataParallel"
#: What depends on the names of weights or on the model's own type, which a wrapper changes.
_BY_NAME = re.compile(
    rb"state_dict|torch\.save|torch\.load|checkpoint|ckpt|deepcopy|pickle|share_memory|"
    rb"(save|load|restore)_?(model|net|weights|state|params|pretrained)|"
    rb"multiprocessing|\bisinstance\(|named_(parameters|modules|children)|\.module\b|onnx|torch\.jit|\bEMA\b|AveragedModel"
)
_SWITCH = re.compile(r"-+((use|torch|enable|do|model)[-_])*compile([-_]model)?")


class CompileModels(Rule):
    """``model.to("cuda")`` of a model that an optimizer gets, where nothing compiles it."""

    HPU530 = Code("model-not-compiled", severity="note", fix=("safe", "manual"), effect="speed")
    also = Wants(words=("parameters", "named_parameters"), texts=("optim",))

    def on_module(self, module: Module) -> Yield:
        if module.target.mode != "compile" or PurePath(module.path).name.startswith("test_"):
            return
        if _compiles(module) or not is_on_device(module):
            return
        twice = _takes_second_gradients(module)
        for model in trained(module):
            if model.compiled or (model.reason == NOT_SEEN and _is_anothers(module, model)):
                continue
            if twice is not None:
                yield self.finding(
                    model.at,
                    f"`{model.text}` is not compiled: line {twice.lineno} computes second-order "
                    "gradients, which torch.compile rejects; compile the other parts by hand",
                    row=ask(module, _COMPILE).row,
                )
            elif model.places:
                for place in model.places:
                    yield self._wrap(module, model, place)
            else:
                yield self.finding(
                    model.at,
                    f'`{model.text}` is trained without torch.compile: {model.reason}; call `{model.text}.compile(backend="{COMPILER}")` '
                    "on the device, before it is wrapped",
                    row=ask(module, _COMPILE).row,
                )

    def _wrap(self, module: Module, model: Trained, place: ast.stmt) -> Found:
        inside = _keeps_names(module, model)
        answer = ask(module, _WRAPPED if model.wrappers else _COMPILE)
        safety = answer.safety
        if FSDP in model.wrappers and safety == "safe":
            safety = "unsafe"  # the units inside break the graph
        text, needed = _written(module, model, place, inside=inside)
        manual = inside and (model.of_torch or defines_method(module, "compile"))
        why = ", which keeps the names in checkpoints" if inside else ""
        if inside and model.of_torch:
            why = " to a class of your own around it, since `compile` skips the code of torch's classes"
        what = text.rpartition(": ")[2]
        return self.finding(
            place,
            f"without torch.compile, Gaudi runs `{model.text}` operator by operator; add `{what}`{why}",
            fix=None
            if manual
            else Rewrite("compile the model", safety, (Insert(place, text), *needed)),
            row=answer.row,
        )


def _compiles(module: Module) -> bool:
    """Does the file compile something already, with its own idea of what?"""
    return any(
        module.qualified(node) == _COMPILE
        for node in (*module.index.attributes("compile"), *module.index.names("compile"))
    )


def _is_anothers(module: Module, model: Trained) -> bool:
    """Is it part of an object that others move, or only clipped here?"""
    if "." in model.text:
        return True
    return any(
        isinstance(above, ast.Call) and word(above.func).startswith("clip_grad_")
        for above in module.ancestors(model.at)
    )


def _takes_second_gradients(module: Module) -> ast.expr | None:
    """Where a gradient is computed so that it can be differentiated again."""
    for keyword in module.index.keywords("create_graph"):
        if module.constant(keyword.value) is not False:
            return keyword.value
    return None


def _keeps_names(module: Module, model: Trained) -> bool:
    """Must the model stay the object that it is? Others may hold what is stored on ``self`` or returned."""
    if "." in model.text or module.matches(_BY_NAME):
        return True
    return any(word(r.value) == model.text for r in module.index.statements(ast.Return))


def _written(
    module: Module, model: Trained, place: ast.stmt, *, inside: bool
) -> tuple[str, tuple[Change, ...]]:
    """The statement that compiles the model, and the imports that it takes."""
    mark = quoted(module, "")[0]
    backend = f"backend={mark}{COMPILER}{mark}"
    needed: tuple[Change, ...] = ()
    if inside:
        text = f"{model.text}.compile({backend})"
    else:
        name, needed = torch(module, place, "compile")
        text = f"{model.text} = {name}({model.text}, {backend})"
    tests = [_switch(module, place)]
    if shared(module):
        tests.append(f"{ACCELERATOR} == {mark}{DEVICE}{mark}")
    condition = " and ".join(test for test in tests if test)
    return (f"if {condition}: {text}" if condition else text), needed


def _switch(module: Module, place: ast.stmt) -> str:
    """``args.compile`` where the file declares such an option, off by default, and has its values at hand."""
    for call in module.index.calls("add_argument"):
        flags = [str(module.constant(a)) for a in call.args]
        found = next((f for f in flags if _SWITCH.fullmatch(f) and f.startswith("--")), "")
        if found and any(
            k.arg == "action" and module.constant(k.value) == "store_true" for k in call.keywords
        ):
            for holder in ("args", "opt", "opts", "cfg", "config"):
                seen = module.scope(place).lookup(holder)
                if seen is not None and any(_parsed(b.value) or b.kind == "param" for b in seen):
                    return f"{holder}.{found.lstrip('-').replace('-', '_')}"
    return ""


def _parsed(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Call) and word(value.func) in ("parse_args", "get_args")
