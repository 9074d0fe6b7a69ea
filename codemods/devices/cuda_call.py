"""Moves with .cuda()."""

from __future__ import annotations

import ast
from typing import Any

from hpushim.engine.python.changes import Change, Replace, Rewrite
from hpushim.engine.rules.rule import Code, Found, Module, Rule, Wants, Yield
from hpushim.model import Safety, Span
from hpushim.pycode.values import Values

from ..analysis.device_numbers import is_device_number
from ..analysis.devices import Devices
from ..analysis.kinds import defines_method, immovable, is_own_move, moves_with
from ..analysis.names import foreign, is_none, word
from ..analysis.project_facts import MOVERS, OPTIONAL_OPTIONS
from ..analysis.tensor_types import DTYPES
from ..analysis.verdict import ask
from ..edits import neutral
from ..edits.arguments import (
    argument,
    arguments,
    by_keyword,
    renamed_method,
    unwrapped,
    with_arguments,
)
from ..edits.imports import through
from ..edits.makers import on_device
from ..edits.spelling import agnostic, chosen, quoted, shared
from ..values.beside import device_beside
from ..values.sizes import host_kind, made_on_the_host
from ..values.tensors import becomes_torch, proven, used_as_torch

_METHODS = ("torch.Tensor.cuda", "torch.nn.Module.cuda")
#: Methods of tensors that give their storage.
_STORAGES = ("storage", "untyped_storage", "typed_storage", "_typed_storage")
#: What a method says of itself, and the modules whose functions ask for it.
_OF_A_METHOD = ("__self__", "__func__", "__name__", "__qualname__", "__code__", "__defaults__")
_ASKING = ("inspect", "pickle")
_POSITIONAL = ("device", "non_blocking", "memory_format")


class CudaCall(Rule):
    """``x.cuda()`` on a tensor or a module."""

    HPU102 = Code("cuda-call", severity="error", fix=("safe", "unsafe", "manual"))
    HPU011 = Code("cuda-method-of-the-project", severity="note")
    HPU103 = Code("cuda-call-unproven", severity="error", fix=("unsafe", "manual"))
    wants = Wants(calls=("cuda", "getattr", "methodcaller"), attributes=("cuda",), names=_METHODS, required=("cuda",), facts=(MOVERS, OPTIONAL_OPTIONS))  # fmt: skip

    def on_call(self, module: Module, node: ast.Call) -> Yield:
        func = node.func
        if word(func) == "methodcaller" and module.constant(node.args[0] if node.args else None) == "cuda":  # fmt: skip
            if len(node.args) == 1 and not node.keywords and not defines_method(module, "cuda"):
                yield self._kept(module, node, node.args[0], module.source(func), "to")
            return
        if (
            word(func) == "getattr"
            and len(node.args) == 2
            and module.constant(node.args[1]) == "cuda"
        ):
            yield from self._bound(module, node, node.args[0])
            return
        if word(func) != "cuda" or not isinstance(func, ast.Attribute) or foreign(module, func):
            return
        if not self._of_module(module, func.value) and module.qualified(func) not in _METHODS:
            yield self._assess(module, node, func)

    def on_name(self, module: Module, node: ast.expr, name: str) -> Yield:
        """``map(torch.Tensor.cuda, xs)``: the method of a class."""
        if module.qualified(node) not in _METHODS:
            return
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            yield self.finding(
                node,
                f"`{module.source(node)}` is replaced; after `hpushim migrate` the code calls `to` instead: replace that by hand",
                safety="manual",
                row=ask(module, "torch.Tensor.cuda").row,
            )
            return
        yield self._kept(module, node, node, "operator.methodcaller", "to")

    def on_attribute(self, module: Module, node: ast.Attribute) -> Yield:
        """``move = x.cuda if use else x.cpu``: the method of an object, called later."""
        call = module.parent(node)
        if not (isinstance(call, ast.Call) and call.func is node) and isinstance(
            node.ctx, ast.Load
        ):
            yield from self._bound(module, node, node.value)

    def _bound(self, module: Module, node: ast.expr, receiver: ast.expr) -> Yield:
        """Not where the file gives ``cuda`` a value of its own, or tests it: then it may be a switch."""
        own = any(isinstance(each.ctx, ast.Store) for each in module.index.attributes("cuda"))
        values = module.view(Values)
        tested = any(edge.how in ("test", "negated", "compared") for edge in values.reach(node, values.uses))  # fmt: skip
        if own or tested:
            return
        if module.qualified(receiver) is None and proven(module, receiver):
            yield self._kept(module, node, node, "functools.partial", f"{module.operand(receiver)}.to")  # fmt: skip

    def _kept(self, module: Module, node: ast.expr, shown: ast.expr, made: str, method: str) -> Found:  # fmt: skip
        """A method that is not called here: a function that moves takes its place."""
        answer = ask(module, "torch.Tensor.cuda")
        if _is_described(module, node):
            return self.finding(
                shown,
                f"`{module.source(shown)}` moves to CUDA, which does not exist on Gaudi; the code reads what only that method has: change it by hand",
                safety="manual",
                row=answer.row,
                node=node,
            )
        new, needed = through(module, node, made) if "." in made else (made, ())
        first = method if method.endswith(".to") else f'"{method}"'
        text = f"{new}({first}, {quoted(module, 'hpu', node)})"
        return self.finding(
            shown,
            f"`{module.source(shown)}` moves to CUDA, which does not exist on Gaudi; write `{text}`",
            fix=Rewrite("move with .to", answer.safety, (Replace(node, text), *needed)),
            row=answer.row,
            node=node,
        )

    def _assess(self, module: Module, call: ast.Call, func: ast.Attribute) -> Found:
        receiver = func.value
        token = Span(module.span(func).end - len("cuda"), module.span(call).end)
        shown = f".{module.source(token)}"
        answer = ask(module, "torch.Tensor.cuda")
        claims = [*call.args[:1], *(k for k in call.keywords if k.arg == "device")]
        if is_own_move(module, call):
            return self.finding(
                token, f"`{shown}` calls a method of this project, so the call stays; findings in the method say what to change",
                code="HPU011", safety="manual", node=call,
            )  # fmt: skip
        other = module.constant(argument(call, "device", 0))
        refused = isinstance(other, str) and not other.startswith(("cuda", "hpu"))
        if refused or not _is_plain(call):
            why = f"`{shown}` raises an error on CUDA, which takes no other device; use `.to(…)`"
            return self.finding(
                token, why if refused else f'the arguments of `{shown}` are not known here; use `.to("hpu", …)`',
                row=answer.row, node=call, claims=claims,
            )  # fmt: skip
        sure = self._sure(module, receiver, call)
        own = [] if sure else immovable(module)
        if own:
            return self.finding(
                token,
                f"`{shown}` moves to CUDA, which does not exist on Gaudi, unless the object is a `{own[0]}` of this project, which has a `cuda` and no `to`: "
                f'leave the call then, else use `.to("hpu"{_and_more(module, call)})`',
                row=answer.row,
                code="HPU103",
                node=call,
                safety="manual",
                claims=claims,
            )
        safety: Safety = answer.safety if sure else "unsafe"
        return self.finding(
            token,
            f'`{shown}` moves to CUDA, which does not exist on Gaudi; use `.to("hpu"{_and_more(module, call)})`'
            + ("" if sure else ", unless the object belongs to a class of this project"),
            fix=Rewrite("move with .to", safety, self._changes(module, call, receiver)),
            row=answer.row,
            code=None if sure else "HPU103",
            node=call,
            claims=claims,
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

    def _sure(self, module: Module, receiver: ast.expr, call: ast.Call) -> bool:
        if not moves_with(module, call):
            return True
        if isinstance(receiver, ast.Call) and word(receiver.func) == "super":
            return True
        calls = module.view(Values).calls
        classes = calls.classes_of(receiver)
        if any(calls.method(each, "cuda") for each in classes):
            return False  # however it is used
        if not classes and (proven(module, receiver) or used_as_torch(module, receiver)):
            return True  # a class of this file may inherit its own
        return becomes_torch(module, call)

    # -- writing it -------------------------------------------------------------------------

    def _changes(self, module: Module, call: ast.Call, receiver: ast.expr) -> tuple[Change, ...]:
        device = device_beside(module, call)
        given = argument(call, "device", 0)
        if agnostic(module) and given is not None and not is_none(given):
            device = _by_number(module, given, device)
        elif shared(module) and given is not None and not is_none(given):
            device = chosen(module, given, device)
        made = made_on_the_host(module, receiver)
        if made is None:
            return (self._moved(module, call, receiver, device),)
        kind = DTYPES[host_kind(module, made.func)]
        there = Replace(call, lambda node: unwrapped(node, node.func.value))
        return (*on_device(module, made, kind, device), there)

    def _moved(self, module: Module, call: ast.Call, receiver: ast.expr, device: str) -> Replace:
        """``cuda(…)`` to ``to("hpu", …)``."""
        lead = "device=" if _is_storage(module, receiver) else ""

        def moved(node: Any) -> Any:
            node = renamed_method(node, "to")
            given = list(node.args)
            named = next(
                (n for n, a in enumerate(given) if a.keyword and a.keyword.value == "device"), None
            )
            if call.args:
                (new,) = arguments(lead + device)
                kept = {
                    "comma": given[0].comma,
                    "whitespace_after_arg": given[0].whitespace_after_arg,
                }
                names = zip(given[1 : len(call.args)], _POSITIONAL[1:], strict=False)
                rest = [by_keyword(other, name) for other, name in names]
                return node.with_changes(
                    args=[new.with_changes(**kept), *rest, *given[len(call.args) :]]
                )
            if named is not None:
                given[named] = given[named].with_changes(value=arguments(device)[0].value)
                return node.with_changes(args=given)
            return with_arguments(node, lead + device, first=True)

        return Replace(call, moved, device)


def _by_number(module: Module, given: ast.expr, device: str) -> str:
    """A device that is named or numbered, in the agnostic style: a number is that of an accelerator for ``.to`` as well."""
    if module.qualified(getattr(given, "func", given)) == "torch.cuda.current_device":
        return device
    named = module.view(Devices).goes_to_device(given) and not is_device_number(module, given)
    if named and module.constant(given):
        return neutral.literal(module, given, '"')
    number = module.source(given)
    filled = named and isinstance(given, ast.Name) and any(b.kind != "param" for b in module.bindings(given))  # fmt: skip
    if not filled and _may_be_none(
        module, given
    ):  # then it is the current device for `.cuda`, and none for `.to`
        return f"{number} if {number} is not None else {device}"
    return number


def _may_be_none(module: Module, given: ast.expr) -> bool:
    """Is the number that of an option without a default, or of a parameter that may be left out, where no check excludes that?"""
    if not isinstance(given, (ast.Name, ast.Attribute)):
        return False
    number = module.source(given)
    values = module.view(Values)
    for child, above in module.upwards(given):
        if isinstance(above, (ast.If, ast.IfExp, ast.BoolOp)):
            test = above.values[0] if isinstance(above, ast.BoolOp) else above.test
            if child is not test and number in module.source(test):
                return False
    for each in (given, *values.origins(given)):
        if isinstance(each, ast.Constant) and each.value is None:
            return True
        for call in values.options.declared(word(each)) if isinstance(each, ast.expr) else ():
            default = argument(call, "default")
            named = any(str(module.constant(name)).startswith("-") for name in call.args)
            needed = argument(call, "required")
            if named and needed is None and (default is None or is_none(default)):
                return True
    # Where other files read the options, or call the function.
    known = any(isinstance(each, ast.Constant) for each in values.origins(given))
    return not known and word(given) in module.project.names(OPTIONAL_OPTIONS.name)


def _and_more(module: Module, call: ast.Call) -> str:
    """What is behind the device, as ``to`` takes it: ``, non_blocking=True``."""
    by_place = zip(_POSITIONAL[1:], call.args[1:], strict=False)
    named = [(keyword.arg, keyword.value) for keyword in call.keywords if keyword.arg != "device"]
    return "".join(f", {name}={module.source(value)}" for name, value in (*by_place, *named))


def _is_described(module: Module, node: ast.AST) -> bool:
    """Is a function not only called, but its name, its parameters or its object read?"""
    values = module.view(Values)
    for edge in values.reach(node, values.uses):
        above = edge.node
        if edge.how == "read" and isinstance(above, ast.Attribute) and above.attr in _OF_A_METHOD:
            return True
        call = module.parent(above) if isinstance(above, ast.keyword) else above
        if edge.how in ("passed", "given", "argument", "taken") and isinstance(call, ast.Call):
            name = module.qualified(call.func) or ""
            if name.partition(".")[0] in _ASKING:
                return True
    return False


def _is_plain(call: ast.Call) -> bool:
    """Are all arguments seen, and ones that ``.to`` takes as well?"""
    if any(isinstance(a, ast.Starred) for a in call.args) or len(call.args) > len(_POSITIONAL):
        return False
    return all(keyword.arg in _POSITIONAL for keyword in call.keywords)


def _is_storage(module: Module, receiver: ast.expr) -> bool:
    """Is ``receiver`` made as a storage, or what ``torch.load`` gives its ``map_location`` function? ``.to`` of a storage
    takes its device by name only."""
    for value in module.values(receiver):
        made = value.func if isinstance(value, ast.Call) else None
        if isinstance(made, ast.Attribute) and made.attr in _STORAGES:
            return True
        name = (module.qualified(made) if made is not None else None) or ""
        if name.startswith("torch.") and name.endswith("Storage"):
            return True
    if not isinstance(receiver, ast.Name):
        return False
    for function in module.ancestors(receiver):
        if isinstance(function, ast.Lambda | ast.FunctionDef):
            first = (*function.args.posonlyargs, *function.args.args)[:1]
            if first and first[0].arg == receiver.id:
                return _maps(module, function)
    return False


def _maps(module: Module, function: ast.Lambda | ast.FunctionDef) -> bool:
    """Is ``function`` given as a ``map_location``, here or by its name?"""
    if isinstance(function, ast.Lambda):
        parent = module.parent(function)
        if isinstance(parent, ast.keyword):
            return parent.arg == "map_location"
        if isinstance(parent, ast.Call):
            return (module.qualified(parent.func) or "") in ("torch.load", "torch.jit.load")
        return isinstance(parent, ast.Assign) and any(
            word(target) == "map_location" for target in parent.targets
        )
    return any(word(k.value) == function.name for k in module.index.keywords("map_location"))
