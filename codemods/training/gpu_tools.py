"""Tools that ask NVIDIA's driver, and peak figures of NVIDIA's cards."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from hpushim.engine.rule import Rule
from hpushim.model import Finding

from ._torch import dotted
from ._verdict import ask

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module

_PACKAGES = ("pynvml", "py3nvml", "nvidia_smi", "GPUtil", "gpustat", "nvsmi", "nvitop")
_COMMANDS = ("nvidia-smi", "nvcc", "nsys", "ncu", "nvprof")
_RUNNERS = ("os.system", "os.popen", "subprocess.")
#: Peak rates that people divide by: V100, A100, H100, RTX 3090 and 4090.
_PEAKS = frozenset(
    {125e12, 312e12, 624e12, 989e12, 989.4e12, 989.5e12, 1979e12, 71e12, 142e12, 165.2e12}
)


class GpuTool(Rule):
    """``pynvml``, ``nvidia-smi``."""

    code = "HPU620"
    name = "nvidia-tool"
    severity = "warning"
    markers = (b"nvml", b"nvidia", b"GPUtil", b"gpustat", b"nvcc", b"e12", b"nsys", b"nvitop")
    also: ClassVar[dict[str, str]] = {"HPU020": "nvidia-command", "HPU621": "nvidia-peak-rate"}

    def on_Import(self, module: Module, node: ast.Import) -> Iterator[Finding]:
        for alias in node.names:
            yield from self._package(module, node, alias.name)

    def on_ImportFrom(self, module: Module, node: ast.ImportFrom) -> Iterator[Finding]:
        if node.module and not node.level:
            yield from self._package(module, node, node.module)

    def on_Call(self, module: Module, node: ast.Call) -> Iterator[Finding]:
        name = dotted(module, node.func) or ""
        if not name.startswith(_RUNNERS) or not node.args:
            return
        for part in ast.walk(node.args[0]):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                command = next((c for c in _COMMANDS if c in part.value.split()[:1] or c in part.value), "")  # fmt: skip
                if command:
                    answer = ask(module, command)
                    instead = f"; Gaudi's is `{answer.target}`" if answer.target else ""
                    yield self.finding(
                        module,
                        part,
                        f"`{command}` is NVIDIA's{instead}",
                        code="HPU020",
                        row=answer.row,
                    )
                    return

    def on_Constant(self, module: Module, node: ast.Constant) -> Iterator[Finding]:
        if type(node.value) in (int, float) and node.value in _PEAKS:
            yield self.finding(
                module,
                node,
                f"`{module.source(node)}` is the peak rate of an NVIDIA card; use that of the Gaudi you run on",
                code="HPU621",
                severity="info",
            )

    def _package(self, module: Module, node: ast.AST, name: str) -> Iterator[Finding]:
        package = name.split(".", maxsplit=1)[0]
        if package in _PACKAGES:
            answer = ask(module, package)
            instead = answer.target or "pyhlml"
            yield self.finding(
                module, node, f"`{package}` asks NVIDIA's driver; Gaudi's library is `{instead}`",
                row=answer.row,
            )  # fmt: skip
