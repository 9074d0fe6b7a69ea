"""Imports of the CUDA extensions that the project builds for itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from hpushim.engine.rules.rule import Code, Found, Module, Rule, Wants, Yield
from hpushim.model import Severity

from ..analysis.kernels import extension_imports, is_function, kernel_calls
from ..analysis.optional_packages import guarded, optional
from ..analysis.project_facts import EXTENSIONS
from ..analysis.verdict import ask
from ..values.checks import Regions

_ROW = "torch.utils.cpp_extension.CUDAExtension"


class OwnExtension(Rule):
    """``import ours_cuda``, where ``setup.py`` says ``CUDAExtension("ours_cuda", …)``."""

    HPU723 = Code(
        "own-cuda-extension",
        severity="error",
        effort="none",
        effect="kernel",
        lower={
            "warning": "only some runs reach the import",
            "note": "the code also runs without it",
        },
    )
    wants = Wants(
        words=("Function", "_C", "_ext", "_backend"),
        texts=("gpu_", "_gpu"),
        required=("import",),
        facts=(EXTENSIONS,),
    )
    also = Wants(words=("torch",))

    def on_module(self, module: Module) -> Yield:
        built = module.project.names(EXTENSIONS.name)
        reported: set[str] = set()
        for node, name in (*_loaded(module, built), *extension_imports(module)):
            if name in reported:
                continue
            reported.add(name)
            if optional(module, node) or (guarded(module, node) and _is_checked(module)):
                yield self._extension(
                    module,
                    node,
                    name,
                    "note",
                    "; the import is optional, so the code also runs without it",
                )
            else:
                without = guarded(module, node)
                yield self._extension(module, node, name, "warning" if without else "error")

    def _extension(
        self, module: Module, node: ast.AST, name: str, severity: Severity, more: str = ""
    ) -> Found:
        said = (
            f"`{name}` is built from CUDA sources, so its import fails on Gaudi; write it with "
            f"torch operators{more}"
        )
        return self.finding(node, said, row=ask(module, _ROW).row, severity=severity)


def _loaded(module: Module, built: frozenset[str]) -> Iterator[tuple[ast.Call, str]]:
    """``importlib.import_module("ours_cuda")``, with its name."""
    for call in module.index.calls("import_module") if built else ():
        name = module.constant(call.args[0]) if call.args else None
        if isinstance(name, str) and name in built:
            yield call, name


def _is_checked(module: Module) -> bool:
    """Is all that calls the extension behind a check for CUDA, which is False on Gaudi? Inside a Function its ``apply`` counts."""
    regions = module.view(Regions)
    calls = [
        call
        for call in kernel_calls(module)
        if not any(
            isinstance(above, ast.ClassDef) and is_function(above)
            for above in module.ancestors(call)
        )
    ]
    holds = [regions.owners(call) for call in calls]
    return bool(calls) and all(held and not any(one.stops for one in held) for held in holds)
