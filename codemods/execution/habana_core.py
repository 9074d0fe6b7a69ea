"""The bridge to Gaudi is imported by the program that uses it."""

from __future__ import annotations

import ast
import re
from pathlib import PurePath

from hpushim.engine.python.changes import Change, Insert, Rewrite
from hpushim.engine.rules.rule import Code, Module, Rule, Wants, Yield

from ..analysis.devices import Devices
from ..analysis.entry import is_entry
from ..analysis.modes import loads_itself
from ..analysis.roles import Role
from ..analysis.verdict import ask
from ..edits.imports import CORE, core
from ..edits.spelling import agnostic, shared

_COLLECTED = re.compile(r"test_\w+\.py|\w+_test\.py|conftest\.py")
_FFI = "torch.utils.ffi"
#: Other modules of distutils compare versions and copy files, in any program.
_BUILDERS = ("setuptools", "distutils.core", "distutils.extension", "distutils.command")
_DEVICE = re.compile(r"cuda(:\d+)?|nccl")


class HabanaCore(Rule):
    """A program that puts work on CUDA, and does not import ``habana_frameworks.torch.core``."""

    HPU520 = Code("bridge-not-imported", severity="note", fix="safe")
    wants = Wants(words=("cuda", "nccl", "hpu"))

    def on_module(self, module: Module) -> Yield:
        top = module.global_scope
        imports = [s for s in module.imports if _imports_torch(s)]
        torch = [s for s in imports if module.scope(s) is top]
        if (
            not imports
            or not (is_entry(module) or _is_collected(module) or _imports_from_hpu(module))
            or module.holds("habana_frameworks")
        ):
            return
        if agnostic(module):
            return  # torch loads the bridge by itself since 2.5
        if _builds(module):
            return
        if (
            (_on_cuda(module) or _imports_from_hpu(module))
            and (is_entry(module) or _uses_devices(module) or _imports_from_hpu(module))
            and not loads_itself(module)
        ):
            name, at_top = core(module)
            # A program that imports torch late has a reason.
            needed = f"import {CORE} as {name}"
            if shared(module):
                needed = f"try:\n    {needed}\nexcept ImportError:\n    pass  # no Gaudi here"
            late = Insert(imports[0], needed)
            added: Change = at_top if torch else late
            yield self.finding(
                (torch or imports)[0],
                "the program does not import `habana_frameworks.torch.core`, which lazy mode and Gaudi "
                "releases before 1.18 require; add the import",
                fix=Rewrite("import Gaudi's package", "safe", (added,)),
                row=ask(module, CORE).row,
            )


def _is_collected(module: Module) -> bool:
    """Does pytest load the file, by its name?"""
    return bool(_COLLECTED.fullmatch(PurePath(module.path).name))


def _uses_devices(module: Module) -> bool:
    """Does a file use more of CUDA than its name, besides where a device is known as CUDA's?"""
    sites = module.view(Devices).sites
    compared = {site.node for site in sites if site.role is Role.COMPARE}
    used = [*module.index.attributes("cuda"), *(s.node for s in sites if s.node not in compared)]
    tests = {above for node in compared for child, above in module.upwards(node) if isinstance(above, ast.If) and child is above.test}  # fmt: skip
    return any(tests.isdisjoint(module.ancestors(node)) for node in used)


def _imports_from_hpu(module: Module) -> bool:
    """Does the file import ``torch.hpu`` or names of it where it begins? They are there after the bridge alone."""
    return any(
        f"{statement.module}.{alias.name}.".startswith("torch.hpu.")
        for statement in module.tree.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    )


def _imports_torch(statement: ast.Import | ast.ImportFrom) -> bool:
    if isinstance(statement, ast.ImportFrom):
        return (statement.module or "").partition(".")[0] == "torch"
    return any(alias.name.partition(".")[0] == "torch" for alias in statement.names)


def _builds(module: Module) -> bool:
    """Is the program a ``setup.py`` or the like, which runs where a package is built?"""
    named = (
        s.names[0].name if isinstance(s, ast.Import) else s.module or "" for s in module.imports
    )
    return any(name == _FFI or name.startswith(_BUILDERS) for name in named)


def _on_cuda(module: Module) -> bool:
    """Does the file place something on CUDA, or request it?"""
    index = module.index
    named = (s for word in ("cuda", "nccl") for s in index.strings(word))
    if any(_DEVICE.fullmatch(str(s.value)) and not _is_setting(module, s) for s in named):
        return True
    return any(
        isinstance(module.parent(node), ast.Call) or module.qualified(node) == "torch.cuda"
        for node in index.attributes("cuda")
    )


def _is_setting(module: Module, text: ast.Constant) -> bool:
    """Is it the backend in a table of a file that forms no group: a setting for others, which puts nothing on a device?"""
    in_table = isinstance(module.parent(text), ast.Dict) and text.value == "nccl"
    return in_table and not module.holds("init_process_group")
