"""Is CUDA there? The check goes with the literals that it chooses."""

from __future__ import annotations

import ast
import re

from hpushim.engine.python.changes import Change, Replace, Rewrite
from hpushim.engine.rules.rule import Code, Found, Module, Yield
from hpushim.pycode.walk import walk

from ..analysis.devices import Devices
from ..analysis.kernels import nvidia_only
from ..analysis.names import called
from ..analysis.other_devices import is_check
from ..analysis.verdict import known
from ..bases.torch_name import Name, NameRule
from ..edits import neutral
from ..edits.at_hand import unwrapped
from ..edits.floor import held
from ..edits.imports import through
from ..edits.merged import assigned, merged
from ..edits.operands import checks_cudnn
from ..edits.spelling import agnostic, mark_of, quoted
from ..values.checks import Regions

_TOOLKIT = "torch.utils.cpp_extension.CUDA_HOME"


class Availability(NameRule):
    """``torch.cuda.is_available()``."""

    HPU108 = Code("cuda-availability-check", fix="safe")
    HPU109 = Code("check-guards-nvidia-only-code", severity="note", effort="hours")

    def special(self, module: Module, use: Name, code: str) -> Yield:
        if not module.view(Devices).handles_hpu(use.node):
            yield self._assessed(module, use)

    def _assessed(self, module: Module, use: Name) -> Found:
        shown = module.source(use.node)
        if self._guards_nvidia(module, use):
            return self.finding(
                use.node,
                f"`{shown}` guards code for NVIDIA hardware; it is not changed, and is False on Gaudi",
                code="HPU109",
                safety="manual",
            )
        _, verdict = known(module, use.name)
        target = self.target(module, use)
        if verdict is None or not target:
            return self.finding(use.node, f"`{shown}` has no known counterpart on Gaudi")
        if agnostic(module) and (why := _only_cuda(module, use)):
            return self.finding(use.node, f"`{shown}` is not changed: {why}", row=use.name)
        further = _chosen(module, use) if agnostic(module) else ()
        call = called(module, use.node)
        if agnostic(module) and call is not None and (changes := merged(module, call)):
            return self.finding(
                use.node,
                f"`{shown}` guards nothing but moves, which do nothing on the CPU; the check can go",
                fix=Rewrite("move always", "safe", changes, self.group(module, use), harmless=True),
                row=use.name,
            )
        if agnostic(module) and call is not None and (changes := assigned(module, call)):
            return self.finding(
                use.node,
                f"`{shown}` chooses between CUDA and the CPU, as the project's own function does",
                fix=Rewrite(
                    "choose the device", "safe", changes, self.group(module, use), harmless=True
                ),
                row=use.name,
            )
        if agnostic(module) and module.view(held) is not None:
            return self._by_device(module, use, call, further)
        return self.rename(module, use, self.code, target, "safe", verdict, further)

    def _by_device(
        self, module: Module, use: Name, call: ast.Call | None, further: tuple[Change, ...]
    ) -> Found:
        """The oldest torch of the project may not have the name for every accelerator."""
        whole = any(isinstance(each, Replace) and each.node is not use.node for each in further)
        changes = further
        if not whole and call is not None:
            changes = (Replace(*neutral.there(module, call, quoted(module, "cpu", call)[0])),)
        return self.finding(
            use.node,
            f"`{module.source(use.node)}` is for CUDA only; test instead whether the device is the CPU",
            fix=Rewrite("ask the device", "safe", changes, self.group(module, use))
            if changes
            else None,
            safety=None if changes else "manual",
            row=use.name,
        )

    def group(self, module: Module, use: Name) -> str:
        return module.view(Devices).group(use.node)

    def _guards_nvidia(self, module: Module, use: Name) -> bool:
        """Is everything behind the check made for NVIDIA hardware alone?"""
        call = called(module, use.node)
        guard = module.parent(call) if call is not None else None
        if agnostic(module) and isinstance(guard, ast.BoolOp):
            words = set(re.findall(r"[a-z0-9]+", module.source(guard).lower().replace("_", " ")))
            if (words - {"cuda"}).intersection(module.matrix.policy.nvidia_only):
                return True
        if isinstance(guard, ast.BoolOp) and isinstance(guard.op, ast.And):
            return any(_is_toolkit(module, each) for part in guard.values for each in walk(part))
        if not isinstance(guard, ast.If) or guard.test is not call or guard.orelse:
            return False
        return all(nvidia_only(module, statement) for statement in guard.body)


def _only_cuda(module: Module, use: Name) -> str:
    """Why a host with another accelerator has to go on as it did without CUDA."""
    if neutral.is_lacking(module, use.node):
        return "the file computes in float64, which MPS does not have"
    if neutral.is_replaced(module, use.node):
        return "what it replaces is CUDA's device, which is not changed"
    regions = module.view(Regions)
    check = next((c for c in regions.checks if use.node in c.nodes), None)
    for root in check.roots if check is not None else ():
        for part in walk(root):
            if isinstance(part, ast.Attribute) and part.attr == "pin_memory":
                return "it controls `pin_memory()`, which fails where the accelerator is MPS"
    return ""


def _chosen(module: Module, use: Name) -> tuple[Change, ...]:
    """``"cuda" if torch.cuda.is_available() else "cpu"`` as a whole, so that it is written as one.

    ``… else "mps" if torch.backends.mps.is_available() else "cpu"`` is never reached any more.
    """
    call = called(module, use.node)
    choice = module.parent(call) if call is not None else None
    if isinstance(choice, ast.BoolOp):
        choice = module.parent(choice)
    if call is None or not isinstance(choice, ast.IfExp) or choice.test not in (call, module.parent(call)):  # fmt: skip
        return ()
    if checks_cudnn(module, choice.test):
        return ()  # the condition is written anew without that
    last = choice.orelse
    while isinstance(last, ast.IfExp) and is_check(module, last.test):
        last = last.orelse
    chosen = [neutral.named(module, each)[0].removesuffix(":0") for each in (choice.body, last)]
    now = neutral.current(module, choice)
    numbered = neutral.keeps_number(module, choice.body)
    if chosen != ["cuda", "cpu"] or now == neutral.NONE or numbered:
        return (Replace(choice.orelse, module.source(last)),) if last is not choice.orelse else ()
    made = module.parent(choice)
    outer = made if isinstance(made, ast.Call) and unwrapped(module, made) is choice else choice
    text = outer is choice and isinstance(choice.body, ast.Constant)
    marks = re.findall(r"[\"'](?=cpu[\"'])", module.source(outer)) or [mark_of(module)]
    parts = [part for part in getattr(choice.test, "values", ()) if part is not call]
    test = ""
    both = isinstance(getattr(choice.test, "op", None), ast.And)
    if both and module.view(held) is not None:
        now = neutral.there(module, call, marks[0])[1].partition(".type")[0]
        test = " and ".join(map(module.source, parts))
    elif parts:
        test_text = f"{through(module, use.node, 'torch.accelerator.is_available')[0]}()"
        if module.view(held) is not None:
            test_text = neutral.there(module, call, marks[0])[1]
        test = module.source(choice.test).replace(module.source(call), test_text)
    new = neutral.choice(module, outer, now, marks[0], text=text, test=test)
    return (Replace(outer, new),)


def _is_toolkit(module: Module, node: ast.AST) -> bool:
    """Is it the folder of the CUDA toolkit, which builds kernels?"""
    return isinstance(node, (ast.Name, ast.Attribute)) and module.qualified(node) == _TOOLKIT
