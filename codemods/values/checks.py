"""Which checks control a place, and the CUDA in it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from hpushim.engine.python.module import Module
from hpushim.engine.rules.references import find
from hpushim.pycode.control import ends
from hpushim.pycode.tries import ANY_ERROR, NO_MODULE, around, catches

from ..analysis.device_texts import device_texts, glued
from ..analysis.devices import Devices
from ..analysis.flow import ANY_TEXT
from ..analysis.kernels import (
    PROVIDERS,
    extension_imports,
    kernel_calls,
    kernel_sources,
    kernel_users,
    nvidia_only,
    package_users,
    spread_models,
)
from ..analysis.kinds import is_own_move
from ..analysis.names import called, foreign, in_annotation, word
from ..analysis.project_facts import FAISS
from ..analysis.roles import Role
from .guards import Truth
from .never_run import NeverRun

_AVAILABILITY = tuple(
    f"torch.cuda.{name}" for name in ("is_available", "device_count", "is_initialized")
)
#: What builds kernels for CUDA.
_EXTENSION = "torch.utils.cpp_extension.CUDAExtension"
#: What only a GPU of AMD's has, which torch calls CUDA as well.
_HIP = "torch.version.hip"
#: Roles of texts that are no use of a device.
_REPORTED = frozenset([Role.COMPARE, Role.KERNELS, Role.CUT])
#: Calls that keep a text as it is.
_COLLECTS = frozenset(["append", "add", "insert", "extend"])
_TEXTS = frozenset(["help", "description", "name", "label", "title", "msg", "metavar", "reason"])
DATA_PARALLEL = (
    "torch.nn.DataParallel",
    "torch.nn.parallel.DataParallel",
    "torch.nn.parallel.data_parallel",
)
#: Those that use several devices in one process whatever they are given.
_SEVERAL = ("torch.nn.parallel.data_parallel", "torch.nn.parallel.data_parallel.data_parallel")


@dataclass(eq=False)
class Check:
    """A question for CUDA: ``nodes`` are what rules rewrite, ``roots`` what runs only because the answer is yes."""

    node: ast.AST
    nodes: list[ast.AST]
    #: Is it a comparison, beside what it is compared with?
    compares: bool
    #: With whether the program stops instead.
    roots: dict[ast.AST, bool]
    #: Does the program stop where the answer is no?
    demanded: bool
    #: May what it controls run all the same: ``check or many``?
    shared: bool


class Hold(NamedTuple):
    """That a check controls a place, and whether the program stops where its answer is no."""

    check: Check
    stops: bool


class Regions:
    """The checks of one file and what they control: ``module.view(Regions)``."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self.checks: list[Check] = [
            check for check in self._checks() if check.roots or check.demanded
        ]
        self._by_root: dict[ast.AST, list[Check]] = {}
        #: The calls of functions all of whose uses are calls.
        self._callers: dict[ast.AST, list[ast.Call]] = {}
        for check in self.checks:
            for root in check.roots:
                self._by_root.setdefault(root, []).append(check)

    def owners(self, node: ast.AST) -> list[Hold]:
        """The innermost checks that control ``node``: where one of them stays, the place is not reached."""
        return self._owners(node, frozenset())

    def _owners(self, node: ast.AST, seen: frozenset[ast.AST]) -> list[Hold]:
        functions: list[ast.FunctionDef | ast.AsyncFunctionDef] = []
        for place in (node, *self._module.ancestors(node)):
            found = self._by_root.get(place)
            if found:
                outer = {o for check in found for o in self._around(check) if o is not check}
                inner = [check for check in found if check not in outer] or found
                return [Hold(check, check.roots[place]) for check in inner]
            if isinstance(place, (ast.FunctionDef, ast.AsyncFunctionDef)) and place not in seen:
                functions.append(place)
        for function in functions:
            holds = self._calling(function, seen | {function})
            if holds:
                return holds
        return []

    def _calling(self, function: ast.AST, seen: frozenset[ast.AST]) -> list[Hold]:
        """The checks that control every call of a function; none where it is called without one, or unseen."""
        known = self._callers.get(function)
        if known is None:
            name: str = function.name  # type: ignore[attr-defined]
            index = self._module.index
            every = index.calls(name)
            names: list[ast.Name | ast.Attribute] = [*index.names(name), *index.attributes(name)]
            seen_whole = sum(isinstance(node.ctx, ast.Load) for node in names) <= len(every)
            known = self._callers[function] = every if seen_whole else []
        found: dict[Hold, None] = {}
        for call in known:
            if function not in self._module.ancestors(call):
                holds = self._owners(call, seen)
                if not holds:
                    return []
                found.update(dict.fromkeys(holds))
        return list(found)

    def _around(self, check: Check) -> list[Check]:
        """The checks that ``check`` itself is controlled by."""
        for place in self._module.ancestors(check.node):
            if place in self._by_root:
                return self._by_root[place]
        return []

    # -- the checks -------------------------------------------------------------------------

    def _checks(self) -> Iterator[Check]:
        module = self._module
        for node, name in find(module, *_AVAILABILITY):
            if name in _AVAILABILITY:
                yield self._check(called(module, node) or node, [node], compares=False)
        for attribute in module.index.attributes("is_cuda"):
            parent = module.parent(attribute)
            if not (isinstance(parent, ast.Call) and parent.func is attribute):
                yield self._check(attribute, [attribute], compares=False)
        for call in module.index.calls("isinstance"):
            kind = module.qualified(call.args[1]) if len(call.args) == 2 else None
            if kind is not None and kind.startswith("torch.cuda.") and kind.endswith("Tensor"):
                yield self._check(call, [call.args[1]], compares=False)
        compared: dict[ast.AST, list[ast.AST]] = {}
        for site in module.view(Devices).of_role(Role.COMPARE, Role.KERNELS, Role.DEVICE):
            owner = site.owner
            if site.role is Role.DEVICE:  # x.device == torch.device("cuda")
                owner = module.parent(owner) or owner
                if not isinstance(owner, ast.Compare):
                    continue
            if isinstance(owner, ast.Match):
                owner = module.parent(site.node) or owner
            if not isinstance(owner, (ast.Dict, ast.Subscript)):
                compared.setdefault(owner, []).append(site.node)
        for owner, nodes in compared.items():
            yield self._check(owner, nodes, compares=True)

    def _check(self, node: ast.AST, nodes: list[ast.AST], *, compares: bool) -> Check:
        differs = isinstance(node, ast.Compare) and isinstance(
            node.ops[0], (ast.NotEq, ast.NotIn, ast.IsNot)
        )
        truth = Truth(self._module, node, true=not differs)
        return Check(node, nodes, compares, truth.roots, truth.demanded, truth.shared)

    # -- the CUDA ---------------------------------------------------------------------------

    def cuda(self) -> Iterator[ast.AST]:
        """Every use of CUDA that a check controls and that torch without CUDA does not bear; checks apart."""
        if self._by_root:
            never = self._module.view(NeverRun)
            for node in self._uses():
                if (
                    self.owners(node)
                    and not in_annotation(self._module, node)
                    and not never.holds(node)
                ):
                    yield node

    def _uses(self) -> Iterator[ast.AST]:
        module = self._module
        harmless = module.matrix.policy.without_cuda
        if module.target.style == "agnostic":
            yield from self._of_few()
        for node, name in find(module, "torch.cuda.*"):
            below = f"{name.removeprefix('torch.cuda.')}."
            borne = any(below.startswith(f"{known}.") for known in harmless)
            if not borne and not self._is_tested(node):
                yield node
        for node, name in find(module, "torch.cuda"):
            if name == "torch.cuda" and self._is_value(node):
                yield node
        for call in module.index.calls("cuda"):
            if isinstance(call.func, ast.Attribute) and not foreign(module, call.func) and not is_own_move(module, call):  # fmt: skip
                yield call
        reported = {s.node for s in module.view(Devices).sites if s.role in _REPORTED}
        for text in device_texts(module):
            if text.node not in reported and not self._is_reported(text.node):
                yield text.node
        for constant in module.index.strings("nccl"):
            if constant.value == "nccl" and not self._is_compared(constant):
                yield constant
        yield from kernel_calls(module)
        yield from kernel_sources(module)
        yield from kernel_users(module)
        yield from spread_models(module)
        yield from (use for use in package_users(module) if self._is_choice(use))
        yield from (node for node, name in find(module, *FAISS) if name in FAISS)
        yield from (node for node, name in find(module, *_SEVERAL) if name in _SEVERAL and self._is_choice(node))  # fmt: skip
        for provider in PROVIDERS:
            yield from (s for s in module.index.strings(provider) if s.value == provider)
        row = module.matrix.row
        yield from (s for s in module.index.strings("-gpu") if row(str(s.value), "package"))
        for node, name in find(module, _HIP):
            if name == _HIP and isinstance(module.parent(node), ast.BoolOp):
                yield node
        for node, name in find(module, _EXTENSION):
            if name == _EXTENSION and not isinstance(module.parent(node), ast.alias):
                yield node
        built = {module.parent(alias) for alias, _ in extension_imports(module)}
        for statement in module.imports:
            only = statement in built or nvidia_only(module, statement)
            if only and not self._is_guarded(statement):
                yield statement

    def _is_choice(self, node: ast.AST) -> bool:
        """Does the check take other code where it is false, so that nothing is lost when it stays?"""
        for place in (node, *self._module.ancestors(node)):
            if place in self._by_root:
                above = self._module.parent(place)
                if isinstance(above, ast.If) and place in above.body:
                    return bool(above.orelse) or ends(above.body)
                return isinstance(above, (ast.If, ast.IfExp)) or not any(
                    check.roots[place] for check in self._by_root[place]
                )
        return False

    def _of_few(self) -> Iterator[ast.AST]:
        """What CUDA does and not every accelerator: several devices in one process, and autocast that is switched by the check alone."""
        module = self._module
        for node, name in find(module, *DATA_PARALLEL):
            if called(module, node) is not None and name in DATA_PARALLEL:
                yield node
        for name in ("autocast", "custom_fwd"):
            for call in module.index.calls(name):
                if (module.qualified(call.func) or "").startswith("torch."):
                    given = call.args[:1] or [k.value for k in call.keywords if k.arg == "device_type"]  # fmt: skip
                    if given and module.constant(given[0]) is None:
                        yield call

    def _is_value(self, node: ast.AST) -> bool:
        """Is the module itself passed on, so that whatever is read from it is CUDA's?"""
        parent = self._module.parent(node)
        if isinstance(parent, ast.Call) and word(parent.func) in ("getattr", "hasattr"):
            # By a name that is seen, it has a rule of its own.
            return word(parent.func) == "getattr" and not isinstance(parent.args[-1], ast.Constant)
        return isinstance(node, (ast.Name, ast.Attribute)) and not isinstance(parent, ast.Attribute)

    def _is_tested(self, node: ast.AST) -> bool:
        """Is the name given to `isinstance` or caught, where it is only never met?"""
        parent = self._module.parent(node)
        while isinstance(parent, ast.Tuple):
            parent = self._module.parent(parent)
        if isinstance(parent, ast.Call):
            return self._module.qualified(parent.func) in (
                "builtins.isinstance",
                "builtins.hasattr",
            )
        return isinstance(parent, ast.ExceptHandler)

    def _is_reported(self, node: ast.AST) -> bool:
        """Is the text compared, written out or part of a larger one?"""
        if self._is_compared(node) or glued(self._module, node):
            return True
        parent = self._module.parent(node)
        if isinstance(parent, ast.keyword):
            return parent.arg in _TEXTS
        if isinstance(parent, ast.Call):
            return word(parent.func) in ANY_TEXT - _COLLECTS
        return isinstance(parent, (ast.FormattedValue, ast.Expr))

    def _is_compared(self, node: ast.AST) -> bool:
        parent = self._module.parent(node)
        if isinstance(parent, (ast.Tuple, ast.List, ast.Set)):
            parent = self._module.parent(parent)
        if isinstance(parent, ast.Dict):
            return any(key is node for key in parent.keys)
        return isinstance(parent, (ast.Compare, ast.Subscript, ast.MatchValue))

    def _is_guarded(self, statement: ast.AST) -> bool:
        """Does a ``try`` catch that the package is not there?"""
        tried = next(around(self._module, statement, (ast.FunctionDef, ast.ClassDef)), None)
        return tried is not None and catches(tried, NO_MODULE | ANY_ERROR)
