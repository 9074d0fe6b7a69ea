"""Moves with .cuda()."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, ClassVar

from hpushim.engine.rule import Rule
from hpushim.model import Edit, Finding, Fix, Safety, Span

from ._claims import claim, claimed
from ._dual import dual, either
from ._names import rank_like
from ._strings import quoted
from ._torch import (
    becomes_torch,
    defines_method,
    dotted,
    foreign,
    local_class,
    proven,
    used_as_torch,
)
from ._verdict import ask

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module

_METHODS = ("torch.Tensor.cuda", "torch.nn.Module.cuda")
_POSITIONAL = ("device", "non_blocking", "memory_format")


class CudaCall(Rule):
    """``x.cuda()`` on a tensor or a module."""

    code = "HPU102"
    name = "cuda-call"
    severity = "error"
    markers = (b".cuda",)
    also: ClassVar[dict[str, str]] = {
        "HPU103": "cuda-call-unproven",
        "HPU011": "cuda-method-of-the-project",
    }

    def __init__(self) -> None:
        self._calls: list[ast.Call] = []

    def on_Call(self, module: Module, node: ast.Call) -> Iterable[Finding]:
        func = node.func
        if not isinstance(func, ast.Attribute) or func.attr != "cuda" or foreign(module, func):
            return ()
        if self._of_module(module, func.value) or (dotted(module, func) or "") in _METHODS:
            return ()
        self._calls.append(node)
        for argument in node.args[:1]:
            claim(module, argument)
        for keyword in node.keywords:
            if keyword.arg == "device":
                claim(module, keyword)
        return ()

    def on_Attribute(self, module: Module, node: ast.Attribute) -> Iterable[Finding]:
        """``map(torch.Tensor.cuda, xs)``: the method itself, not called here."""
        if node.attr != "cuda" or (dotted(module, node) or "") not in _METHODS:
            return ()
        finding = self.finding(
            module,
            node,
            f"`{module.source(node)}` moves to CUDA, which is not there on Gaudi; move with `.to`",
            row=ask(module, "torch.Tensor.cuda").row,
        )
        return (finding,)

    def on_module(self, module: Module) -> Iterator[Finding]:
        for call in self._calls:
            if claimed(module, call):
                continue
            yield self._judge(module, call)

    def _judge(self, module: Module, call: ast.Call) -> Finding:
        assert isinstance(call.func, ast.Attribute)
        receiver = call.func.value
        token = Span(module.span(call.func).end - len("cuda"), module.span(call).end)
        shown = f".{module.source(token)}"
        answer = ask(module, "torch.Tensor.cuda")
        if self._own_class(module, receiver):
            return self.finding(
                module, token, f"`{shown}` is a method of a class of this project; it stays",
                code="HPU011", severity="info", safety="manual",
            )  # fmt: skip
        edits = self._edits(module, call)
        if edits is None:
            return self.finding(
                module, token, f"`{shown}` takes arguments that are not seen here; write `.to`",
                row=answer.row,
            )  # fmt: skip
        sure = self._sure(module, receiver) or becomes_torch(module, call)
        safety: Safety = answer.safety if sure else "unsafe"
        return self.finding(
            module,
            token,
            f"`{shown}` moves to CUDA, which is not there on Gaudi; move with `.to`"
            + ("" if sure else ", unless the object is one of the project's own classes"),
            fix=Fix("move with .to", safety, tuple(edits)),
            row=answer.row,
            code=None if sure else "HPU103",
        )

    def _of_module(self, module: Module, receiver: ast.expr) -> bool:
        """Is ``receiver`` an imported module, whose ``cuda`` is a function of its own?

        ``import model`` … ``model = model.Net()`` gives the name to what is trained: no module then.
        """
        bindings = module.bindings(receiver) if isinstance(receiver, ast.Name) else ()
        return bool(bindings) and all(
            binding.kind == "import" and isinstance(module.parent(binding.node), ast.Import)
            for binding in bindings
        )

    def _sure(self, module: Module, receiver: ast.expr) -> bool:
        if not defines_method(module, "cuda"):
            return True
        if isinstance(receiver, ast.Call) and getattr(receiver.func, "id", "") == "super":
            return True
        if proven(module, receiver) or used_as_torch(module, receiver):
            return not self._overridden(module, receiver)
        return False

    def _overridden(self, module: Module, receiver: ast.expr) -> bool:
        """Is the receiver ``self`` or an instance of a class of this file, which may have its own?"""
        for value in module.values(receiver):
            if isinstance(value, ast.Name) and value.id == "self":
                return True
            if isinstance(value, ast.Call) and local_class(module, value.func) is not None:
                return True
        return False

    def _own_class(self, module: Module, receiver: ast.expr) -> bool:
        """Is the receiver surely an instance of a class of this file that defines ``cuda``?"""
        for value in module.values(receiver):
            if isinstance(value, ast.Name) and value.id == "self":
                owner = next(
                    (a for a in module.ancestors(value) if isinstance(a, ast.ClassDef)), None
                )
            elif isinstance(value, ast.Call):
                owner = local_class(module, value.func)
            else:
                return False
            if owner is None or not any(
                isinstance(s, ast.FunctionDef) and s.name == "cuda" for s in owner.body
            ):
                return False
        return True

    def _storage(self, module: Module, receiver: ast.expr) -> bool:
        """Is ``receiver`` what ``torch.load`` gives its ``map_location`` function? ``.to`` of a storage
        takes its device by name only."""
        if not isinstance(receiver, ast.Name):
            return False
        for function in module.ancestors(receiver):
            if isinstance(function, ast.Lambda | ast.FunctionDef):
                first = (*function.args.posonlyargs, *function.args.args)[:1]
                if first and first[0].arg == receiver.id:
                    return self._maps(module, function)
        return False

    def _maps(self, module: Module, function: ast.Lambda | ast.FunctionDef) -> bool:
        """Is ``function`` given as a ``map_location``, here or by its name?"""
        if isinstance(function, ast.Lambda):
            parent = module.parent(function)
            if isinstance(parent, ast.keyword):
                return parent.arg == "map_location"
            if isinstance(parent, ast.Call):
                return (dotted(module, parent.func) or "") in ("torch.load", "torch.jit.load")
            return isinstance(parent, ast.Assign) and any(
                getattr(target, "id", "") == "map_location" for target in parent.targets
            )
        return any(
            isinstance(node, ast.keyword)
            and node.arg == "map_location"
            and isinstance(node.value, ast.Name)
            and node.value.id == function.name
            for node in ast.walk(module.tree)
        )

    def _edits(self, module: Module, call: ast.Call) -> list[Edit] | None:
        """``cuda(…)`` to ``to("hpu", …)``; None when the arguments cannot be told."""
        if any(isinstance(a, ast.Starred) for a in call.args) or len(call.args) > len(_POSITIONAL):
            return None
        if any(k.arg not in _POSITIONAL for k in call.keywords):
            return None
        word = quoted(module, "hpu", call)
        assert isinstance(call.func, ast.Attribute)
        by_name = "device=" if self._storage(module, call.func.value) else ""
        name_end = module.span(call.func).end
        edits = [module.replace(Span(name_end - len("cuda"), name_end), "to")]
        device = next((k for k in call.keywords if k.arg == "device"), None)
        if call.args:
            number = dual(module) and rank_like(module, call.args[0])
            given = module.source(call.args[0])
            edits.append(
                module.replace(
                    call.args[0], by_name + (either(word, given)[1:-1] if number else word)
                )
            )
            edits += [
                module.insert(module.span(argument).start, f"{name}=")
                for argument, name in zip(call.args[1:], _POSITIONAL[1:], strict=False)
            ]
        elif device is not None:
            edits.append(module.replace(device.value, word))
        else:
            opening = module.data.index(b"(", name_end) + 1
            edits.append(module.insert(opening, by_name + (f"{word}, " if call.keywords else word)))
        return edits


__all__ = ["CudaCall"]
