"""What is rewritten together or not at all: a check, the literals that it chooses, and the comparisons with them.

Each node is tied to what it is stored under, compared with or chosen by; two that share one of these are one group.
"""

from __future__ import annotations

import ast

from hpushim.engine.python.module import Module
from hpushim.engine.rules.references import find
from hpushim.pycode.values import Values
from hpushim.pycode.walk import walk

from .device_literals import Site
from .numbered import lost
from .roles import Role

AVAILABLE = "torch.cuda.is_available"
_ALONE = frozenset([Role.UNPROVEN, Role.CUT, Role.KERNELS])


class Ties:
    """The groups of one file's device texts and availability checks."""

    def __init__(self, module: Module, sites: list[Site]) -> None:
        self._module = module
        self._keys: dict[ast.AST, list[str]] = {}
        self._parents: dict[str, str] = {}
        self._shared: dict[str, int] = {}
        self._checks = {node for node, _ in find(module, AVAILABLE)}
        for check in self._checks:
            self._join(check, [self._check_key(check), *self._stored_under(check)])
        for site in sites:
            if site.role not in _ALONE:
                self._join(site.node, self._anchors(site))
        if module.target.style == "native":
            self._with_lost_numbers(sites)
        for keys in self._keys.values():
            found = self._find(keys[0])
            self._shared[found] = self._shared.get(found, 0) + 1

    def group(self, node: ast.AST) -> str:
        """The group of a device text or of an availability check; "" when it is alone."""
        keys = self._keys.get(node, [])
        found = self._find(keys[0]) if keys else ""
        return f"device:{found}" if self._shared.get(found, 0) > 1 else ""

    # -- joining ----------------------------------------------------------------------------

    def _join(self, node: ast.AST, keys: list[str]) -> None:
        """Says that ``node`` changes together with everything that shares one of ``keys``."""
        if not keys:
            return
        self._keys[node] = keys
        for key in keys[1:]:
            self._merge(keys[0], key)

    def _with_lost_numbers(self, sites: list[Site]) -> None:
        """A text whose number ``set_device`` needs stays with the call."""
        for device in self._module.view(lost):
            origins = self._module.view(Values).origins
            parts = {part for origin in origins(device) for part in walk(origin)}
            kinds = [part for part in parts if isinstance(part, (ast.Name, ast.Attribute))]
            parts |= {part for kind in kinds for origin in origins(kind) for part in walk(origin)}
            keys: list[str] = []
            for site in (site for site in sites if site.node in parts):
                anchors = self._keys.get(site.node) or [
                    f"text {self._module.span(site.node).start}"
                ]
                self._join(site.node, anchors)
                keys += anchors
            self._join(device, keys)

    def _find(self, key: str) -> str:
        while self._parents.get(key, key) != key:
            key = self._parents[key]
        return key

    def _merge(self, first: str, second: str) -> None:
        one, two = self._find(first), self._find(second)
        if one != two:
            self._parents[max(one, two)] = min(one, two)

    # -- what a node is tied to -------------------------------------------------------------

    def _anchors(self, site: Site) -> list[str]:
        keys: list[str] = []
        if site.role is Role.COMPARE:
            owner = site.owner
            sides = [owner.left, *owner.comparators] if isinstance(owner, ast.Compare) else []
            for side in sides:
                keys += self._name_keys(side)
            if isinstance(owner, ast.Match):
                keys += self._name_keys(owner.subject)
            if isinstance(owner, ast.Call) and isinstance(owner.func, ast.Attribute):
                keys += self._name_keys(owner.func.value)
            return keys
        for child, above in self._module.upwards(site.node):
            if isinstance(above, (ast.IfExp, ast.If)) and child is not above.test:
                keys += self._condition_keys(above.test)
            elif isinstance(above, (ast.BoolOp, ast.Subscript, ast.NamedExpr)):
                keys += self._condition_keys(above)
            elif isinstance(above, (ast.Assign, ast.AnnAssign)):
                targets = above.targets if isinstance(above, ast.Assign) else [above.target]
                for target in targets:
                    keys += self._name_keys(target)
            elif isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                break
        return keys

    def _condition_keys(self, test: ast.AST) -> list[str]:
        """The availability checks in a condition, and the flags in it that come from one."""
        keys: list[str] = []
        for part in walk(test):
            if part in self._checks:
                keys.append(self._check_key(part))
            elif isinstance(part, ast.Name) and self._holds_check(part):
                keys += self._name_keys(part)
        return keys

    def _holds_check(self, name: ast.Name) -> bool:
        return bool(self._checks) and any(
            binding.value is not None and any(part in self._checks for part in walk(binding.value))
            for binding in self._module.bindings(name)
        )

    def _stored_under(self, check: ast.AST) -> list[str]:
        """The name that holds the answer of an availability check."""
        statement = self._module.statement(check)
        if isinstance(statement, ast.Assign) and not isinstance(statement.value, ast.IfExp):
            return [key for t in statement.targets for key in self._name_keys(t)]
        return []

    def _name_keys(self, node: ast.AST) -> list[str]:
        while isinstance(node, (ast.Subscript, ast.Call, ast.Attribute)):
            if isinstance(node, ast.Attribute):
                if node.attr == "type":
                    node = node.value
                    continue
                return [f"attribute {node.attr}"] if isinstance(node.value, ast.Name) else []
            if isinstance(node, ast.Call):
                if isinstance(node.func, ast.Name) and node.func.id == "str" and node.args:
                    node = node.args[0]
                    continue
                return []
            node = node.value
        if isinstance(node, ast.Name):
            bound = self._module.bindings(node)
            if bound:
                return [f"name {node.id} {getattr(bound[0].node, 'lineno', 0)}"]
        return []

    def _check_key(self, node: ast.AST) -> str:
        return f"check {self._module.span(node).start}"
