"""Environment variables of CUDA and NCCL that Python code sets or reads, and the execution mode."""

from __future__ import annotations

import ast

from hpushim.engine.python.changes import Rewrite
from hpushim.engine.rules.rule import Code, Module, Rule, Wants, Yield

from ..analysis.modes import VARIABLE as _LAZY
from ..analysis.modes import contradicts, wanted
from ..analysis.names import word
from ..analysis.verdict import ask, inside
from ..edits.spelling import retext, shared

#: What draws pictures, and its value for a GPU.
_GRAPHICS = ("MUJOCO_GL", "PYOPENGL_PLATFORM")
_ON_GPU = "egl"
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_MODULES = "HABANA_VISIBLE_MODULES"
#: Values that hide every GPU.
_NONE_VISIBLE = ("", "-1")
_ENVIRONMENT = "os.environ"
_ACCESS = frozenset(
    {
        "os.getenv",
        "os.putenv",
        "os.unsetenv",
        "os.environ.get",
        "os.environ.setdefault",
        "os.environ.pop",
    }
)
_SETTERS = ("setdefault", "putenv")
#: Packages that load the bridge, which reads the execution mode.
_LOADING = ("torch", "habana_frameworks", "transformers", "accelerate")


class EnvVariable(Rule):
    """``os.environ["NCCL_DEBUG"]``, ``os.environ["CUDA_VISIBLE_DEVICES"]``."""

    HPU311 = Code("cuda-variable-in-code", severity="note")
    HPU312 = Code("visible-devices-in-code", fix=("unsafe", "manual"))
    HPU509 = Code("lazy-mode-after-import")
    HPU532 = Code("lazy-mode-set-otherwise", fix="safe")
    wants = Wants(
        strings=("NCCL_", "CUDA_", "CUBLAS", "NVIDIA_", "ALLOC_CONF", "NVTE_", *_GRAPHICS, _LAZY),
        required=("environ", "getenv", "putenv", "unsetenv"),
    )

    def on_string(self, module: Module, node: ast.Constant) -> Yield:
        use = _use(module, node)
        name = str(node.value)
        if use is None:
            return
        if name == _LAZY:
            yield from self._lazy(module, use)
        elif name == _VISIBLE and _given(module, use, reads=False) in _NONE_VISIBLE:
            yield self.finding(
                node,
                f"`{name}` hides no Gaudi device, so this no longer makes the program run on the CPU; choose the device `cpu` where it is chosen",
                row=ask(module, name).row,
                code="HPU312",
            )
        elif name == _VISIBLE:
            fix = None  # CUDA reads it
            if not shared(module):
                change = retext(module, node, _MODULES)
                fix = Rewrite(f"use {_MODULES}", "unsafe", (change,), _VISIBLE)
            yield self.finding(
                node,
                f"Gaudi software does not read `{name}`; set `{_MODULES}` instead, which selects devices by "
                f"module id (0 to 7 in a server)",
                fix=fix,
                row=ask(module, name).row,
                code="HPU312",
            )
        elif name in _GRAPHICS:
            if _given(module, use) == _ON_GPU:
                answer = ask(module, name)
                text = f"`{name}`: {inside(answer.note)}"
                yield self.finding(node, text, row=answer.row)
        elif (row := module.matrix.unread(name)) is not None:
            text = f"Gaudi software does not read `{name}`: {inside(row.note)}"
            yield self.finding(node, text, row=row.name)

    def _lazy(self, module: Module, use: ast.expr) -> Yield:
        """A mode that is set too late: the value is read when the bridge is loaded."""
        statement = module.statement(use)
        yield from self._otherwise(module, use, statement)
        reads = isinstance(use, ast.Subscript) and isinstance(use.ctx, ast.Load)
        if reads or not isinstance(statement, (ast.Assign, ast.Expr)):
            return
        loaded = [
            line
            for line in module.imports
            if module.scope(line) is module.global_scope
            and line.lineno < statement.lineno
            and _loads_bridge(line)
        ]
        if loaded:
            yield self.finding(
                use,
                f"`{_LAZY}` is read when torch is imported, in line {loaded[0].lineno}; set it before "
                "that line",
                row=ask(module, _LAZY).row,
                code="HPU509",
            )

    def _otherwise(self, module: Module, use: ast.expr, statement: ast.stmt) -> Yield:
        """Another mode than the target's is set here."""
        given: ast.expr | None = None
        if isinstance(use, ast.Subscript) and isinstance(statement, ast.Assign):
            given = statement.value if use in statement.targets else None
        elif isinstance(use, ast.Call) and word(use.func) in _SETTERS:
            given = use.args[1] if len(use.args) == 2 else None
        value = module.constant(given) if given is not None else None
        if given is None or not isinstance(value, str) or not contradicts(module, value):
            return
        new = wanted(module)
        yield self.finding(
            given,
            f"`{_LAZY}` is {value} here; {module.target.mode} mode needs {new}",
            fix=Rewrite(f"set {_LAZY}={new}", "safe", (retext(module, given, new),)),
            row=ask(module, _LAZY).row,
            code="HPU532",
        )


def _use(module: Module, key: ast.expr) -> ast.expr | None:
    """The access to an environment variable that the string is the name in."""
    above = module.parent(key)
    if isinstance(above, ast.Subscript):
        return above if module.qualified(above.value) == _ENVIRONMENT else None
    if isinstance(above, ast.Call) and above.args[:1] == [key]:
        return above if module.qualified(above.func) in _ACCESS else None
    if isinstance(above, ast.Compare) and above.left is key:  # ``"…" in os.environ``
        mapping = above.comparators[0]
        if isinstance(mapping, ast.Call) and word(mapping.func) == "keys":
            mapping = getattr(mapping.func, "value", mapping)
        return above if module.qualified(mapping) == _ENVIRONMENT else None
    return None


def _given(module: Module, use: ast.expr, *, reads: bool = True) -> object:
    """The value that a variable is set to, or has by default where it is read."""
    statement = module.parent(use)
    if isinstance(statement, ast.Assign) and use in statement.targets:
        return module.constant(statement.value)
    if not isinstance(use, ast.Call) or len(use.args) != 2:
        return None
    return module.constant(use.args[1]) if reads or word(use.func) in _SETTERS else None


def _loads_bridge(statement: ast.Import | ast.ImportFrom) -> bool:
    if isinstance(statement, ast.ImportFrom):
        return (statement.module or "").partition(".")[0] in _LOADING
    return any(alias.name.partition(".")[0] in _LOADING for alias in statement.names)
