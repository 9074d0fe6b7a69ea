"""Which device: device_count, current_device, set_device, torch.cuda.device."""

from __future__ import annotations

import ast

from hpushim.engine.python.changes import Remove, Replace, Rewrite
from hpushim.engine.rules.rule import Code, Found, Module, Wants, Yield
from hpushim.pycode.values import Values

from ..analysis.device_numbers import is_device_number, is_other_device_number
from ..analysis.devices import Devices
from ..analysis.names import called, word
from ..analysis.numbered import chosen_number, loses_number, lost, number_of
from ..analysis.project_facts import NEGATIVE_OPTIONS
from ..analysis.verdict import known
from ..bases.torch_name import Name, NameRule, by_name
from ..edits.spelling import shared, zero

_CURRENT = "torch.hpu.current_device"


class DeviceIndex(NameRule):
    """``torch.cuda.set_device(local_rank)`` and its neighbours."""

    HPU110 = Code(
        "cuda-device-index", severity="error", fix=("safe", "manual"), lower=by_name("warning")
    )
    HPU111 = Code(
        "cuda-device-context",
        severity="error",
        fix=("safe", "unsafe", "manual"),
        lower=by_name("warning"),
    )

    also = Wants(names=(_CURRENT,), facts=(NEGATIVE_OPTIONS,))

    def on_name(self, module: Module, node: ast.expr, name: str) -> Yield:
        if name == _CURRENT:
            yield from self._unread(module, node)
        else:
            yield from super().on_name(module, node, name)

    def special(self, module: Module, use: Name, code: str) -> Yield | None:
        call = called(module, use.node)
        if use.below == "set_device" and call is not None and call.args and not shared(module):
            return self._numbered(module, use, code, call.args[0])
        if use.below != "device" or call is None:
            return None
        return [self._context(module, use, code, call)]

    def _unread(self, module: Module, node: ast.expr) -> Yield:
        """``device = torch.hpu.current_device()`` in a function that reads it no more: what it was given to moves without an index."""
        statement = module.statement(node)
        target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None  # fmt: skip
        call = called(module, node)
        bound = module.bindings(target) if isinstance(target, ast.Name) and module.function(node) else []  # fmt: skip
        if call is None or call is not getattr(statement, "value", None) or len(bound) != 1 or module.uses(bound[0]):  # fmt: skip
            return
        yield self.finding(
            node,
            f"`{word(target)}` is not read; the line can go",
            fix=Rewrite("remove it", "safe", (Remove(statement),), harmless=True),
            row="torch.cuda.current_device",
            code="HPU110",
            severity="warning",
        )

    def _numbered(self, module: Module, use: Name, code: str, device: ast.expr) -> Yield | None:
        """``torch.cuda.set_device(f"cuda:{rank}")``: the index, which the device loses, is what the call is for.

        A negative one, which CUDA ignores, is that of the first device: ``set_device(args.gpu)`` where -1 is the default.
        """
        number, (_, verdict) = number_of(module, device), known(module, use.name)
        target = self.target(module, use)
        index = device if number is None else number
        written = module.source(index)
        if _may_be_negative(module, index):
            written = f"max({written}, 0)" if module.constant(index) is None else "0"
        if verdict is None or not target:
            return None
        if device in module.view(lost):
            return [self._lost(module, use, code, device)]
        if number is None and loses_number(module, device):
            written = chosen_number(module, device)
        elif written == module.source(device):
            return None
        changes = [Replace(device, written)]
        return [self.rename(module, use, code, target, "safe", verdict, changes, (device,))]

    def _lost(self, module: Module, use: Name, code: str, device: ast.expr) -> Found:
        """The device loses its index, and where it comes from is not certain enough to write it here."""
        shown = module.source(device)
        return self.finding(
            use.node,
            f"`{module.source(use.node)}({shown})` selects a device by the index in `{shown}`, which is lost where the "
            "device becomes `hpu`; neither is changed: write `torch.hpu.set_device(index)` with the index itself",
            fix=Rewrite("write the index", "manual", (), module.view(Devices).group(device)),
            row=use.name,
            code=code,
            claims=(device,),
        )

    def _context(self, module: Module, use: Name, code: str, call: ast.Call) -> Found:
        """``with torch.cuda.device(i)``: the process has device 0 and no other."""
        given = [argument for argument in call.args[:1] if is_device_number(module, argument)]
        part, verdict = known(module, use.name)
        if _launches(module, call):
            message = (
                f"`{module.source(call)}` serves a Triton kernel, which does not run on Gaudi; it is "
                "not changed"
            )
            return self.finding(
                use.node, message, row=part, code=code, safety="manual", claims=call.args
            )
        target = self.target(module, use)
        if verdict is None or not target:
            message = f"`{module.source(use.node)}` has no counterpart on Gaudi"
            return self.finding(use.node, message, code=code, claims=given)
        zeros = [zero(module, entry) for entry in given if is_other_device_number(module, entry)]
        return self.rename(module, use, code, target, "safe", verdict, zeros, given)


def _may_be_negative(module: Module, index: ast.expr) -> bool:
    """Is one of the values that the file shows below zero, or the default of the project's option of that name, where no condition tests it?"""
    origins = module.view(Values).origins(index)
    values = [module.constant(each) for each in origins if isinstance(each, ast.expr)]
    numbers = [value for value in values if isinstance(value, int)]
    if numbers:
        below = len(numbers) == len(values) and min(numbers) < 0  # else it is -1 until it is set
    else:
        below = isinstance(index, ast.Attribute) and index.attr in module.project.names(NEGATIVE_OPTIONS.name)  # fmt: skip
    if not below:
        return False
    written = module.source(index)
    tests = (above.test for above in module.ancestors(index) if isinstance(above, (ast.If, ast.IfExp)))  # fmt: skip
    return not any(written in module.source(test) for test in tests)


def _launches(module: Module, call: ast.Call) -> bool:
    """Does a ``with`` around nothing but the launch of a Triton kernel, ``kernel[grid](x)``, request the device?"""
    block = module.parent(module.parent(call) or call)
    return isinstance(block, ast.With) and all(
        isinstance(one, ast.Expr)
        and isinstance(one.value, ast.Call)
        and isinstance(one.value.func, ast.Subscript)
        for one in block.body
    )
