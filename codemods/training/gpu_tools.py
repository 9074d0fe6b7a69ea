"""Tools that ask NVIDIA's driver, and peak figures of NVIDIA's cards."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, ClassVar

from hpushim.engine.rules.rule import Rule, Yield
from hpushim.engine.rules.wants import Wants

from ..analysis.verdict import ask

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

_PACKAGES = ("pynvml", "py3nvml", "nvidia_smi", "GPUtil", "gpustat", "nvsmi", "nvitop")
_COMMANDS = ("nvidia-smi", "nvcc", "nsys", "ncu", "nvprof")
_RUNNERS = ("os.system", "os.popen", "subprocess.")
#: Peak rates that people divide by, in units of 1e12: V100, A100, H100, RTX 3090 and 4090.
_PEAKS = ("125", "312", "624", "989", "989.4", "989.5", "1979", "71", "142", "165.2")


class GpuTool(Rule):
    """``pynvml``, ``nvidia-smi``."""

    code = "HPU620"
    name = "nvidia-tool"
    severity = "warning"
    wants = Wants(
        imports=_PACKAGES,
        strings=_COMMANDS,
        numbers=tuple(f"{peak}e12" for peak in _PEAKS),
        hints=frozenset({"ncu", "nvprof"}),
    )
    uncovered = True
    also: ClassVar[dict[str, str]] = {"HPU020": "nvidia-command", "HPU621": "nvidia-peak-rate"}

    def __init__(self) -> None:
        self._commands: set[ast.Call] = set()

    def on_import(self, module: Module, alias: ast.alias, name: str) -> Yield:
        statement = module.parent(alias)
        assert isinstance(statement, (ast.Import, ast.ImportFrom))
        if isinstance(statement, ast.ImportFrom) and alias is not statement.names[0]:
            return
        package = name.split(".", maxsplit=1)[0]
        answer = ask(module, package)
        instead = answer.target or "pyhlml"
        yield self.finding(
            module, statement, f"`{package}` asks NVIDIA's driver; Gaudi's library is `{instead}`",
            row=answer.row,
        )  # fmt: skip

    def on_string(self, module: Module, node: ast.Constant) -> Yield:
        """``os.system("nvidia-smi")``; one finding for each call."""
        for call in module.ancestors(node):
            if not isinstance(call, ast.Call) or not _runs(module, call, node):
                continue
            if call not in self._commands:
                self._commands.add(call)
                yield from self._command(module, call)

    def _command(self, module: Module, call: ast.Call) -> Yield:
        for part in ast.walk(call.args[0]):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                command = next((c for c in _COMMANDS if c in part.value), "")
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

    def on_number(self, module: Module, node: ast.Constant) -> Yield:
        yield self.finding(
            module,
            node,
            f"`{module.source(node)}` is the peak rate of an NVIDIA card; use that of the Gaudi you run on",
            code="HPU621",
            severity="info",
        )


def _runs(module: Module, call: ast.Call, text: ast.AST) -> bool:
    """Does the call run a command of which the text is a part?"""
    if not call.args or not (module.qualified(call.func) or "").startswith(_RUNNERS):
        return False
    return text is call.args[0] or call.args[0] in module.ancestors(text)
