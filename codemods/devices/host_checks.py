"""Checks for the CPU that send every other device to kernels for CUDA."""

from __future__ import annotations

import ast

from hpushim.engine.python.changes import Replace, Rewrite
from hpushim.engine.rules.rule import Code, Module, Rule, Wants, Yield

from ..analysis.kernels import kernel_calls
from ..analysis.verdict import ask
from ..edits.spelling import DEVICE, quoted


class HostCheck(Rule):
    """``if x.device.type == "cpu": … else: ours_cuda.scale(x)``."""

    HPU123 = Code("cpu-check-before-kernel", severity="error", fix="unsafe")
    also = Wants(words=("cpu",), required=("import",))

    def on_module(self, module: Module) -> Yield:
        reported: set[ast.expr] = set()
        for kernel in kernel_calls(module):
            found = _check(module, kernel)
            if found is None or found in reported:
                continue
            reported.add(found)
            text = f"{module.operand(found.left)} in ({quoted(module, 'cpu')}, {quoted(module, DEVICE)})"
            yield self.finding(
                found,
                f"`{module.source(found)}` sends Gaudi to `{module.source(kernel)}`, a CUDA kernel; "
                "use the CPU's branch if it consists of torch operators",
                fix=Rewrite("take the branch for the CPU", "unsafe", (Replace(found, text),)),
                row=ask(module, "torch.utils.cpp_extension.CUDAExtension").row,
            )


def _check(module: Module, kernel: ast.AST) -> ast.Compare | None:
    """The check for the CPU in whose other branch the kernel is called."""
    for inner, above in module.upwards(kernel):
        if isinstance(above, (ast.If, ast.IfExp)) and _tests_cpu(module, above.test):
            other = above.orelse if isinstance(above.orelse, list) else [above.orelse]
            if inner in other:
                assert isinstance(above.test, ast.Compare)
                return above.test
        elif isinstance(above, (ast.FunctionDef, ast.ClassDef)):
            return None
    return None


def _tests_cpu(module: Module, test: ast.expr) -> bool:
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.ops[0], ast.Eq)
        and len(test.ops) == 1
        and module.constant(test.comparators[0]) == "cpu"
    )
