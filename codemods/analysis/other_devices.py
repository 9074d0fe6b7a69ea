"""Devices beside CUDA that a file chooses by a check of their own: the check, its flag, its option and its branch.

``torch.accelerator`` covers all of them, so that in the agnostic style such a group goes as a whole, or is reported as a whole.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from hpushim.engine.python.module import Module
from hpushim.engine.rules.references import find
from hpushim.pycode.walk import walk

from .names import word

#: Checks for a device that ``torch.accelerator`` knows as well.
CHECKS = ("torch.backends.mps.is_available", "torch.mps.is_available", "torch.xpu.is_available")
NAMES = ("mps", "xpu")
_OPTION = re.compile(r"--(?:(?:no|use|enable|disable)[-_])?(mps|xpu)")
_FLAG = re.compile(r"(^|_)(mps|xpu)(_|$)")


@dataclass
class Group:
    """One other device of a file."""

    name: str
    checks: list[ast.expr] = field(default_factory=list)
    #: The declarations of its options, the conditions that ask for its flag, and where it is chosen.
    options: list[ast.Call] = field(default_factory=list)
    tested: list[ast.expr] = field(default_factory=list)
    chosen: list[ast.expr] = field(default_factory=list)
    #: Its own names, and comparisons with it.
    named: list[ast.expr] = field(default_factory=list)
    #: What goes when the group is folded into CUDA's; empty where something else needs it.
    gone: list[ast.stmt] = field(default_factory=list)
    #: The text of CUDA's device that the group is folded into.
    into: ast.expr | None = None

    def parts(self) -> Iterator[ast.expr]:
        yield from (*self.checks, *self.options, *self.tested, *self.chosen, *self.named)


class OtherDevices:
    """The other devices of a file: ``module.view(OtherDevices)``."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self.groups = [group for name in NAMES if (group := self._group(name)) is not None]

    def aliases(self, call: ast.Call) -> list[tuple[Group, ast.Call]]:
        """The options of folded groups that say the same as the option which ``call`` declares for CUDA."""
        mine = str(self._module.constant(call.args[0]) if call.args else "")
        return [
            (group, option)
            for group in self.groups
            for option in group.options
            if group.gone and self._text(option).replace(group.name, "cuda") == mine
        ]

    def _text(self, option: ast.Call) -> str:
        return str(self._module.constant(option.args[0]))

    # -- finding ----------------------------------------------------------------------------

    def _group(self, name: str) -> Group | None:
        module = self._module
        group = Group(name)
        for node, found in find(module, *CHECKS):
            if (
                found in CHECKS
                and f".{name}." in found
                and isinstance(node, (ast.Name, ast.Attribute))
            ):
                group.checks.append(node)
        for call in module.index.calls("add_argument"):
            if call.args and (matched := _OPTION.fullmatch(self._text(call))) is not None:
                group.options += [call] if matched[1] == name else []
        self._name(group)
        if not group.checks and not group.options and not group.named:
            return None
        for statement in module.index.statements(ast.If):
            for part in walk(statement.test):
                if isinstance(part, (ast.Name, ast.Attribute)) and word(part) in self._flags(name):
                    group.tested.append(part)
        for constant in module.index.strings(name):
            if constant.value == name and self._is_chosen(constant):
                group.chosen.append(constant)
        self._fold(group)
        return group

    def _name(self, group: Group) -> None:
        """``torch.xpu.empty_cache``, ``is_torch_xpu_available()``, ``device.type == "xpu"``, ``f"xpu:{index}"``."""
        module = self._module
        for node, found in find(module, f"torch.{group.name}.*"):
            if found not in CHECKS and not isinstance(module.parent(node), ast.Attribute):
                group.named.append(node)
        for tested in questions(group.name):
            group.named += module.index.calls(tested)
        for constant in module.index.strings(group.name):
            above = module.parent(constant)
            if isinstance(above, (ast.Tuple, ast.List, ast.Set)):
                above = module.parent(above)
            compared = isinstance(above, ast.Compare) and constant.value == group.name
            if compared or (
                isinstance(above, ast.JoinedStr) and constant.value == f"{group.name}:"
            ):
                group.named.append(constant)

    def _flags(self, name: str) -> set[str]:
        """The names that are given the answer of a check, or that of an option."""
        return {
            named
            for scope in self._module.index.scopes.values()
            for named in scope.bindings
            if (found := _FLAG.search(named)) and found[2] == name
        }

    def _is_chosen(self, constant: ast.Constant) -> bool:
        """Is the device assigned, returned, made or given, so that it is used where the check holds?"""
        above = self._module.parent(constant)
        if isinstance(above, ast.IfExp):
            return constant is not above.test
        named = isinstance(above, ast.Call) and word(above.func) in ("device", "to")
        return named or isinstance(above, (ast.Assign, ast.Return))

    # -- folding ----------------------------------------------------------------------------

    def _fold(self, group: Group) -> None:
        """``elif use_mps: device = torch.device("mps")`` behind the same for CUDA, with its flag and its option."""
        module = self._module
        gone: list[ast.stmt] = []
        allowed: set[ast.AST] = set()
        for check in group.checks:
            statement = module.statement(check)
            if (isinstance(statement, ast.If) and self._is_notice(statement, check)) or (
                isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)
            ):
                gone.append(statement)
            elif not (isinstance(statement, ast.If) and check in walk(statement.test)):
                return
        for constant in group.chosen:
            branch = module.parent(module.statement(constant))
            first = module.parent(branch) if isinstance(branch, ast.If) else None
            if not isinstance(branch, ast.If) or not isinstance(first, ast.If):
                return
            if first.orelse != [branch] or len(branch.body) != 1 or not self._same(first, branch):
                return
            group.into = next(part for part in walk(first.body[0]) if self._is_cuda(part))  # type: ignore[assignment]
            gone.append(branch.body[0])
            allowed.update((branch, *walk(branch.test)))
        allowed.update(part for statement in gone for part in walk(statement))
        allowed.update(part for option in group.options for part in walk(option))
        flags = self._flags(group.name)
        uses = (n for name in flags for n in (*module.index.names(name), *module.index.attributes(name)))  # fmt: skip
        dest = {self._text(option).lstrip("-").replace("-", "_") for option in group.options}
        read = (node for name in dest for node in module.index.attributes(name))
        if group.into is not None and all(node in allowed for node in (*uses, *read)):
            group.gone = gone

    def _same(self, first: ast.If, branch: ast.If) -> bool:
        """Do the two branches differ in nothing but the device?"""
        if len(first.body) != 1 or not any(map(self._is_cuda, walk(first.body[0]))):
            return False
        one, other = (self._module.source(b.body[0]) for b in (first, branch))
        return re.sub(r"cuda(:0)?", "", one) == re.sub(r"mps|xpu", "", other)

    def _is_cuda(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Constant) and node.value in ("cuda", "cuda:0")

    def _is_notice(self, statement: ast.If, check: ast.expr) -> bool:
        """Does the check print something, and nothing else?"""
        if statement.orelse or not is_check(self._module, statement.test):
            return False
        inner = [s for s in walk(statement) if isinstance(s, ast.stmt) and s is not statement]
        return check in walk(statement.test) and all(
            isinstance(s, ast.If)
            or (isinstance(s, ast.Expr) and word(getattr(s.value, "func", s)) == "print")
            for s in inner
        )


def questions(name: str) -> tuple[str, ...]:
    """What libraries call the check for a device."""
    return f"is_torch_{name}_available", f"is_{name}_available"


def is_check(module: Module, test: ast.expr) -> bool:
    """Is it a check for one of the other devices, perhaps behind one of whether torch knows it?"""
    parts = test.values if isinstance(test, ast.BoolOp) else [test]
    last = parts[-1]
    tested = isinstance(last, ast.Call) and module.qualified(last.func) in CHECKS
    return tested and all(
        module.qualified(each) == "torch.has_mps"
        or (isinstance(each, ast.Call) and getattr(each.func, "id", "") == "hasattr")
        for each in parts[:-1]
    )
