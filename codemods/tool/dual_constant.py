"""The constant of the dual style: which accelerator this machine has."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hpushim.engine.base.code import Code
from hpushim.engine.python.changes import Change, Define, Import, Rewrite
from hpushim.engine.rules.rule import Claim, Rule, Strength, Yield
from hpushim.engine.rules.wants import Wants

from ..edits import neutral
from ..edits.imports import local_name
from ..edits.spelling import ACCELERATOR, agnostic, is_choice, shared

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

#: Where torch may not be there yet, or not at all.
_WITHOUT_TORCH = (
    "import importlib.util\n\n"
    f'{ACCELERATOR} = "hpu" if importlib.util.find_spec("habana_frameworks") else "cuda"'
)


class DualConstant(Rule):
    """``ACCELERATOR`` where the file uses it and nothing gives it a value."""

    HPU023 = Code("accelerator-constant", severity="note", fix=("safe", "unsafe"))
    wants = Wants(words=(ACCELERATOR, *neutral.FUNCTIONS))
    strength = Strength.FIRM

    def on_module(self, module: Module) -> Yield:
        if not shared(module):
            return
        if agnostic(module):
            yield from self._device(module)
            return
        yield from _sides_of_cuda(module)
        if ACCELERATOR in module.global_scope.bindings:
            return
        uses = [use for use in module.index.names(ACCELERATOR) if not module.bindings(use)]
        if not uses:
            return
        user = _first_user(module, uses)
        changes: tuple[Change, ...] = (Define(ACCELERATOR, _WITHOUT_TORCH, user, _WITHOUT_TORCH),)
        if _imports(module, "torch"):
            torch = local_name(module, "torch")
            value = f'"hpu" if hasattr({torch}, "hpu") and {torch}.hpu.is_available() else "cuda"'
            defined = Define(ACCELERATOR, f"{ACCELERATOR} = {value}", user, _WITHOUT_TORCH)
            changes = (Import("torch"), defined)
        yield self.finding(
            module,
            uses[0],
            f"`{ACCELERATOR}` is the device of the machine, `hpu` or `cuda`; hpushim defines it "
            "after the imports",
            fix=Rewrite(f"define {ACCELERATOR}", "safe", changes),
        )

    def _device(self, module: Module) -> Yield:
        """The function of the agnostic style that gives the device: the accelerator, or the CPU where there is none."""
        for name in neutral.FUNCTIONS:
            uses = [use for use in module.index.names(name) if not module.bindings(use)]
            if not uses or (name == neutral.FUNCTIONS[0] and neutral.is_open(module)):
                continue  # it may come from there
            torch = local_name(module, "torch")
            code = (
                f"\ndef {name}():\n"
                f"    if {torch}.accelerator.is_available():\n"
                f"        return {torch}.accelerator.current_accelerator()\n"
                f'    return {torch}.device("cpu")'
            )
            early = code if _imports_first(module) else f"import torch\n\n{code}"
            user = _first_user(module, uses)
            defined = Define(name, early, user, early)
            yield self.finding(
                module,
                uses[0],
                f"`{name}()` is the device of the machine: its accelerator, or the CPU; hpushim defines it "
                "after the imports",
                fix=Rewrite(f"define {name}", "safe", (Import("torch"), defined)),
            )


def _imports_first(module: Module) -> bool:
    """Is torch imported, under no condition, above everything that is no import?"""
    for statement in module.tree.body:
        if isinstance(statement, ast.Import) and any(
            alias.name.partition(".")[0] == "torch" for alias in statement.names
        ):
            return True
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef, ast.If, ast.For)):
            break
    return not any(
        isinstance(s, ast.Import) and any(a.name.partition(".")[0] == "torch" for a in s.names)
        for s in module.tree.body
    )


def _imports(module: Module, package: str) -> bool:
    """Does the file import a package whenever it is loaded: under no condition, in no ``try``?"""
    for statement in module.imports:
        if isinstance(statement, ast.Import):
            names = [alias.name for alias in statement.names]
        else:
            names = [statement.module or ""] if not statement.level else []
        found = any(name.partition(".")[0] == package for name in names)
        if found and statement in module.tree.body:
            return True
    return False


def _sides_of_cuda(module: Module) -> Iterator[Claim]:
    """What a choice by the constant keeps for CUDA."""
    for use in module.index.names(ACCELERATOR):
        test = module.parent(use)
        choice = module.parent(test) if isinstance(test, ast.Compare) and is_choice(test) else None
        if isinstance(choice, ast.IfExp) and choice.test is test:
            yield Claim(choice.orelse)


def _first_user(module: Module, uses: list[ast.Name]) -> ast.stmt | None:
    """The first statement at the top level that needs the constant when the file is loaded."""
    for use in sorted(uses, key=lambda name: (name.lineno, name.col_offset)):
        if not _waits(module, use):
            return next(s for s in module.ancestors(use) if s in module.tree.body)
    return None


def _waits(module: Module, use: ast.AST) -> bool:
    """Does a use stand in the body of a function, which runs when it is called?"""
    child = use
    for above in module.ancestors(use):
        if isinstance(above, ast.Lambda) and above.body is child:
            return True
        if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef)) and child in above.body:
            return True
        child = above
    return False
