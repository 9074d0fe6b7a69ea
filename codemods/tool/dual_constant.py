"""The constant of the dual style: which accelerator this machine has."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from hpushim.engine.python.changes import Change, Define, Import, Insert, Replace, Rewrite
from hpushim.engine.rules.rule import Claim, Code, Found, Module, Rule, Strength, Wants, Yield

from ..analysis.device_texts import device_texts
from ..analysis.project_facts import (  # fmt: skip
    CLASSES,
    CODED,
    CUDA_HERE,
    DOCUMENTED,
    HOLDERS,
    INSTALLED,
    PACKAGE_CUDA,
    PARSED,
    SHARED_HERE,
    TAKEN_HERE,
)
from ..edits import neutral
from ..edits.at_hand import FUNCTIONS, OR_CPU, OR_FAIL
from ..edits.device_kept import KEPT, hoisted, only_assigned, only_owner
from ..edits.floor import FIRST, held
from ..edits.imports import local_name, taken_from
from ..edits.spelling import ACCELERATOR, agnostic, is_choice, mark_of, shared

#: Where torch may not be there yet, or not at all.
_WITHOUT_TORCH = (
    "import importlib.util\n\n"
    f'{ACCELERATOR} = "hpu" if importlib.util.find_spec("habana_frameworks") else "cuda"'
)


#: What a function of the agnostic style tests on an old torch.
_HAS = ', "accelerator")'
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
#: What the function of the agnostic style gives: where the CPU may take the place of the accelerator, and where not.
_WHAT = ("its accelerator, or the CPU", "its accelerator, without which the program ends")


class DualConstant(Rule):
    """``ACCELERATOR`` where the file uses it and nothing gives it a value."""

    HPU023 = Code("accelerator-constant", severity="note", fix=("safe", "unsafe"))
    wants = Wants(
        words=(ACCELERATOR, *FUNCTIONS),
        facts=(
            SHARED_HERE,
            CUDA_HERE,
            CLASSES,
            HOLDERS,
            TAKEN_HERE,
            DOCUMENTED,
            CODED,
            INSTALLED,
            PACKAGE_CUDA,
            PARSED,
        ),
    )
    #: A file that defines the function for others may not use it.
    also = Wants(words=("torch", "import"))
    strength = Strength.FIRM

    def on_module(self, module: Module) -> Yield:
        if not shared(module):
            return
        if agnostic(module):
            yield from _asking(module)
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
            uses[0],
            f"`{ACCELERATOR}` is the device of the machine, `hpu` or `cuda`; hpushim defines it "
            "after the imports",
            fix=Rewrite(f"define {ACCELERATOR}", "safe", changes),
        )

    def _device(self, module: Module) -> Yield:
        """The function of the agnostic style that gives the device: the accelerator, or the CPU where there is none."""
        for name in FUNCTIONS:
            home = module.project.home(module.path, name)
            if home == "" and not module.bindings_of(name):
                uses = module.index.names(name)
                where = uses[0] if uses else module.imports[0]
                # What this pass rewrites will call it.
                tests = [text.node for text in device_texts(module)] + module.index.attributes("cuda")  # fmt: skip
                yield self._defined(module, name, where, _first_user(module, [*uses, *tests]))
                continue
            usual = name in (OR_CPU[0], OR_FAIL[0])
            uses = [use for use in module.index.names(name) if not module.bindings(use)]
            if not uses or (not home and usual and neutral.is_open(module)):
                yield from self._kept(module, name)
                continue  # it may come from there
            taken = taken_from(module, home, name, _first_user(module, uses)) if home else None
            if taken is not None:
                yield self.finding(
                    uses[0],
                    f"`{name}()` is the device of the machine: {_WHAT[name in OR_FAIL]}; `{home}` defines it",
                    fix=Rewrite(f"import {name}", "safe", (taken,)),
                )
                return  # a second name joins that import in the next pass
            torch = local_name(module, "torch")
            here = _imports(module, "torch") and module.view(held) is None
            single = only_assigned(module, name) if here else None
            if single is not None:
                yield self._chosen(
                    module, single, *_only(module, single, torch, needed=name in OR_FAIL)
                )
                continue
            alone = only_owner(module, name) if here else None
            if alone is not None and not neutral.comes_before_torch(module, alone[1]):
                calls, first = alone
                needed = name in OR_FAIL
                code = neutral.assigned(module, first, KEPT, torch, mark_of(module), needed=needed)
                first_ask = Insert(first, code, after=False, above_comments=True)
                yield self._chosen(
                    module, calls[0], first_ask, *(Replace(call, KEPT) for call in calls)
                )
                continue
            yield self._defined(module, name, uses[0], _first_user(module, uses))
            yield from self._kept(module, name)

    def _chosen(self, module: Module, where: ast.AST, *changes: Change) -> Found:
        return self.finding(
            where,
            "the device of the machine is its accelerator, or the CPU; ask once where it is used",
            fix=Rewrite("choose the device", "safe", (Import("torch"), *changes)),
        )

    def _defined(self, module: Module, name: str, where: ast.AST, user: ast.stmt | None) -> Found:
        torch, mark = local_name(module, "torch"), mark_of(module)
        now = f"return {torch}.accelerator.current_accelerator()"
        cpu = f"return {torch}.device({mark}cpu{mark})"
        lines = [f"if {torch}.accelerator.is_available():", f"    {now}", cpu]
        if name in OR_FAIL:
            lines = [*neutral.refusal(torch, mark).split("\n"), now]
        if module.view(held) is not None:
            lines = _for_old_torch(torch, mark, lines, needed=name in OR_FAIL)
        code = "\n    ".join((f"def {name}():", *lines))
        early = code if _imports_first(module) else f"import torch\n\n\n{code}"
        return self.finding(
            where,
            f"`{name}()` is the device of the machine: {_WHAT[name in OR_FAIL]}; hpushim defines it after the imports",
            fix=Rewrite(
                f"define {name}", "safe", (Import("torch"), Define(name, code, user, early))
            ),
        )

    def _kept(self, module: Module, name: str) -> Yield:
        """The device of a function that needs it more than once."""
        text = f"{name}()"
        for calls, first in hoisted(module, name):
            yield self.finding(
                calls[0],
                f"`{text}` gives the same device each time; ask once, and keep the answer as `{KEPT}`",
                fix=Rewrite(
                    "keep the device",
                    "safe",
                    (
                        Insert(first, f"{KEPT} = {text}", after=False, above_comments=True),
                        *(Replace(call, KEPT) for call in calls),
                    ),
                ),
            )


def _for_old_torch(torch: str, mark: str, lines: list[str], *, needed: bool) -> list[str]:
    """The function's lines, with what they do where torch has no ``torch.accelerator``."""
    has, cuda = f"hasattr({torch}{_HAS}", f"return {torch}.device({mark}cuda{mark})"
    if needed:
        return [f"if not {has}:  # before torch {FIRST}", f"    {cuda}", *lines]
    first = [f"if {has}:  # since torch {FIRST}", *(f"    {line}" for line in lines[:2])]
    return [*first, f"elif {torch}.cuda.is_available():", f"    {cuda}", *lines[2:]]


def _asking(module: Module) -> Iterator[Claim]:
    """The functions that give the device whatever torch there is: what they do with an old one is CUDA's."""
    for name in FUNCTIONS:
        for made in module.index.definitions(name):
            if isinstance(made, ast.FunctionDef) and _HAS in module.source(made):
                yield Claim(made, Strength.FIRM)


def _only(module: Module, single: ast.expr, torch: str, *, needed: bool) -> tuple[Change, ...]:
    """The choice of the device in place of the only call that gives it."""
    now, mark = f"{torch}.accelerator.current_accelerator()", mark_of(module)
    typed = isinstance(single, ast.Attribute)
    if not needed:
        return (Replace(single, neutral.choice(module, single, now, mark, text=typed)),)
    refused = Insert(
        module.statement(single), neutral.refusal(torch, mark), after=False, above_comments=True
    )
    return refused, Replace(single, f"{now}.type" if typed else now)


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


def _first_user(module: Module, uses: Sequence[ast.expr]) -> ast.stmt | None:
    """The first statement at the top level that needs the constant when the file is loaded."""
    for use in sorted(uses, key=lambda node: (node.lineno, node.col_offset)):
        if not _waits(module, use):
            return next(s for s in module.ancestors(use) if s in module.tree.body)
    return None


def _waits(module: Module, use: ast.AST) -> bool:
    """Is a use in the body of a function that is defined at the top level, or in a class there, and runs when it is called?"""
    if not any(isinstance(above, _DEFINITIONS) and module.parent(above) is module.tree for above in module.ancestors(use)):  # fmt: skip
        return False
    for child, above in module.upwards(use):
        if isinstance(above, ast.Lambda) and above.body is child:
            return True
        if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef)) and child in above.body:
            return True
    return False
