"""Tools that ask NVIDIA's driver, and peak figures of NVIDIA GPUs."""

from __future__ import annotations

import ast
import re

from hpushim.engine.rules.rule import Code, Module, Rule, Strength, Wants, Yield
from hpushim.pycode.places import FUNCTIONS
from hpushim.pycode.tries import ANY_ERROR, around, catches
from hpushim.pycode.values import Values
from hpushim.pycode.walk import walk

from ..analysis.cuda_words import LIBRARIES
from ..analysis.names import called
from ..analysis.verdict import ask
from ..edits.arguments import argument

_PACKAGES = ("pynvml", "py3nvml", "nvidia_smi", "GPUtil", "gpustat", "nvsmi", "nvitop")
_COMMANDS = ("nvidia-smi", "nvcc", "nsys")
_PROFILERS = ("ncu", "nvprof")
_RUNNERS = ("os.system", "os.popen", "subprocess.")
_COMMAND = re.compile(rf"\b({'|'.join((*_COMMANDS, *_PROFILERS))})\b")
#: Peak rates that people divide by, as they write them: V100, A100, H100, RTX 3090 and 4090.
_PEAKS = (
    *("125e12", "312e12", "624e12", "989e12", "989.4e12", "989.5e12", "1979e12"),
    *("1.25e14", "3.12e14", "6.24e14", "9.89e14", "9.894e14", "9.895e14", "1.979e15"),
    *("71e12", "142e12", "165.2e12", "7.1e13", "1.42e14", "1.652e14"),
)


#: Libraries of CUDA and its driver, as they are loaded by file.
_LIBRARY = re.compile(rf"(?:.*/)?(?:{LIBRARIES}\.so[.\d]*|(?:nvcuda|cudart\w*|nvml)\.dll)")
_LOADERS = ("ctypes.CDLL", "ctypes.PyDLL", "ctypes.cdll.LoadLibrary", "ctypes.pydll.LoadLibrary")
_MISSED = ANY_ERROR | {"OSError", "EnvironmentError"}
#: What catches that there is no such command, without a shell and with one.
_NO_FILE = _MISSED | {"FileNotFoundError"}
_NO_COMMAND = ANY_ERROR | {"CalledProcessError", "SubprocessError"}
#: What looks for a command before it is run.
_LOOKS = ("which", "find_executable")


class GpuTool(Rule):
    """``pynvml``, ``nvidia-smi``, ``ctypes.CDLL("libcudart.so")``."""

    HPU620 = Code("nvidia-tool")
    HPU020 = Code(
        "nvidia-command",
        severity="error",
        lower={"warning": "the code goes on without the command"},
    )
    HPU621 = Code("nvidia-peak-rate", severity="note")
    HPU608 = Code(
        "cuda-library-loaded",
        severity="error",
        lower={"note": "the code goes on without the library"},
    )
    wants = Wants(imports=_PACKAGES, names=_LOADERS, strings=_COMMANDS, numbers=_PEAKS)
    also = Wants(strings=_PROFILERS)
    strength = Strength.FIRM

    def __init__(self) -> None:
        self._reported: set[ast.AST] = set()

    def on_import(self, module: Module, alias: ast.alias, name: str) -> Yield:
        statement = module.parent(alias)
        assert isinstance(statement, (ast.Import, ast.ImportFrom))
        if isinstance(statement, ast.ImportFrom) and alias is not statement.names[0]:
            return
        package = name.split(".", maxsplit=1)[0]
        answer = ask(module, package)
        instead = answer.target or "pyhlml"
        yield self.finding(
            statement, f"`{package}` queries NVIDIA's driver; use Gaudi's library, `{instead}`",
            row=answer.row,
        )  # fmt: skip

    def on_name(self, module: Module, node: ast.expr, name: str) -> Yield:
        """A library that is loaded by its file."""
        call = called(module, node)
        given = call.args[:1] if call is not None else []
        texts = [text for each in given for text in _texts(module, each)]
        found = next((text for text in texts if _LIBRARY.fullmatch(text)), None)
        if call is None or found is None:
            return
        goes_on = _goes_on(module, call, _MISSED)
        yield self.finding(
            call,
            f"`{found}` is a library of CUDA, which a Gaudi machine does not have: loading it raises OSError"
            + (", which the code catches" if goes_on else "; leave out what needs it"),
            code="HPU608",
            severity="note" if goes_on else None,
        )

    def on_string(self, module: Module, node: ast.Constant) -> Yield:
        """``os.system("nvidia-smi")``; one finding for each call."""
        for call in module.ancestors(node):
            if not isinstance(call, ast.Call) or not _runs(module, call, node):
                continue
            if call not in self._reported:
                self._reported.add(call)
                yield from self._command(module, call)

    def _command(self, module: Module, call: ast.Call) -> Yield:
        for part in walk(call.args[0]):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                command = _COMMAND.search(part.value)
                if command:
                    answer = ask(module, command[0])
                    program = getattr(call.args[0], "elts", [call.args[0]])[0] is part
                    error = _raises(module, call) if program and command.start() == 0 else ""
                    said = f": without it, this call raises {error}" if error else ""
                    fails = "" if error else ", and fails on Gaudi"
                    instead = f"; on Gaudi, use `{answer.target}`" if answer.target else fails
                    yield self.finding(
                        part,
                        f"`{command[0]}` works on NVIDIA GPUs only{said}{instead}",
                        code="HPU020",
                        row=answer.row,
                        severity=None if error else "warning",
                    )
                    return

    def on_number(self, module: Module, node: ast.Constant) -> Yield:
        if node in self._reported:
            return  # wanted in two spellings
        self._reported.add(node)
        yield self.finding(
            node,
            f"`{module.source(node)}` is the peak rate of an NVIDIA GPU; use the rate of your "
            "Gaudi",
            code="HPU621",
        )


def _texts(module: Module, node: ast.expr) -> list[str]:
    """The texts that an expression may be, also one after the other in a loop."""
    origins = module.view(Values).origins(node)
    texts = [module.constant(each) for each in (node, *origins) if isinstance(each, ast.expr)]
    return [text for text in texts if isinstance(text, str)]


def _raises(module: Module, call: ast.Call) -> str:
    """What a call raises where there is no such command; "" where it goes on, or the code around catches it or looks before."""
    name = (module.qualified(call.func) or "").removeprefix("subprocess.")
    if module.constant(argument(call, "shell", 8)) is True:
        checks = name in ("check_output", "check_call") or module.constant(argument(call, "check")) is True  # fmt: skip
        error, caught = "CalledProcessError" if checks else "", _NO_COMMAND
    else:
        error = "FileNotFoundError" if name in ("run", "call", "Popen", "check_output", "check_call") else ""  # fmt: skip
        caught = _NO_FILE
    function = module.function(call)
    looks = (each for name in _LOOKS for each in module.index.calls(name))
    if not error or any(module.function(each) is function for each in looks):
        return ""
    return "" if _goes_on(module, call, caught) else error


def _goes_on(module: Module, call: ast.Call, caught: frozenset[str], seen: frozenset[ast.AST] = frozenset()) -> bool:  # fmt: skip
    """Does a ``try`` around the call, or around every call of the function that it is in, catch that there is no such file?"""
    if any(catches(tried, caught) for tried in around(module, call, FUNCTIONS)):
        return True
    function = module.function(call)
    if function is None or function in seen:
        return False
    calls = module.view(Values).calls_of(function)
    return bool(calls) and all(_goes_on(module, each, caught, seen | {function}) for each in calls)


def _runs(module: Module, call: ast.Call, text: ast.AST) -> bool:
    """Does the call run a command of which the text is a part?"""
    if not call.args or not (module.qualified(call.func) or "").startswith(_RUNNERS):
        return False
    return text is call.args[0] or call.args[0] in module.ancestors(text)
