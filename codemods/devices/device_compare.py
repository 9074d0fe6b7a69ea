"""Tests for CUDA: x.device.type == "cuda", "cuda" in str(device), match, tables by device."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from hpushim.compare import PART, PARTS, Comparison, Form, find_named
from hpushim.compare.inside import readings_of
from hpushim.compare.subjects import Evidence
from hpushim.engine.python.changes import Rewrite
from hpushim.engine.rules.claims import Said
from hpushim.engine.rules.rule import Code, Found, Module, Rule, Wants, Yield
from hpushim.pycode.places import last_name

from ..analysis.device_texts import other_texts
from ..analysis.devices import Devices
from ..analysis.project_facts import COMPARED_DEVICES
from ..analysis.roles import Role
from ..edits import spelling

#: The message on a comparison with a setting, and on the name of an entry.
_NO_DEVICE = (
    "compares a setting that is no device; it is not changed, and neither is the setting",
    "names an entry beside others that are no devices; it is not changed",
)
#: What looks names up.
_LOOKS_UP = ("getattr", "hasattr", "globals", "vars")


def _may_compare(module: Module) -> bool:
    """Is there a text with CUDA's name beside something else or a part of it, or a name of CUDA's that may be looked up by a device's text?"""
    if module.holds("device") and module.matches(PART):
        return True
    if any(True for _ in other_texts(module)) or any(map(module.holds, ('b"cuda', "b'cuda"))):
        return True
    return any(map(module.holds, _LOOKS_UP)) and (
        bool(module.index.keywords("cuda")) or any("cuda" in name for name in module.view(_bound))
    )


def _bound(module: Module) -> set[str]:
    """The names that the file binds."""
    return {name for scope in module.index.scopes.values() for name in scope.bindings}


class DeviceCompare(Rule):
    """``x.device.type == "cuda"``."""

    HPU107 = Code(
        "device-compared-with-cuda",
        severity="error",
        fix=("safe", "manual"),
        lower={"warning": "the text of the device is compared in a form that has no rewrite"},
    )
    HPU125 = Code("comparison-chooses-kernels", severity="note")
    wants = Wants(
        words=("cuda",),
        texts=("_cuda", "Cuda", *(f"{q}{part}{q}" for part in sorted(PARTS) for q in "'\"")),
        facts=(COMPARED_DEVICES,),
    )

    def on_module(self, module: Module) -> Yield:
        devices = module.view(Devices)
        for site in devices.of_role(Role.COMPARE):
            yield self.finding(
                site.node,
                f"on Gaudi no device has the type `{module.source(site.node)}`; compare with {devices.counterpart(site)}",
                fix=Rewrite("compare with hpu", "safe", site.changes, devices.group(site.node)),
                row="cuda",
                claims=site.claims,
            )
        for site in devices.of_role(Role.KERNELS):
            used = devices.flow.use(site.node) is not None
            does, effect = (
                ("selects", "and is False on Gaudi")
                if used
                else ("belongs to", "since a comparison of the device beside it keeps Gaudi out")
            )
            shown = module.source(site.owner)
            yield self.finding(
                site.node,
                f"`{shown}` {does} kernels, or a precision, known to be right on CUDA alone; it is not changed"
                if spelling.agnostic(module)
                else f"`{shown}` {does} code for NVIDIA hardware; it is not changed, {effect}",
                code="HPU125",
                safety="manual",
                claims=site.claims,
            )

        for site in devices.of_role(Role.SETTING):
            yield self.finding(
                site.node,
                f"`{module.source(site.owner)}` {_NO_DEVICE[site.owner is site.node]}",
                code="HPU125",
                safety="manual",
                claims=site.claims,
            )

    def finish(self, module: Module, said: Said, found: Sequence[Found]) -> Iterable[Found]:
        """What is made of a device's text and compared in a form that no rule turns."""
        if not _may_compare(module):
            return  # most files
        for one in find_named(module):
            if one.sure and not one.handled and self._names_cuda(module, one):
                if said.of(module.span(one.node)):
                    continue
                fix = self._by_name(module, one)
                yield self.finding(
                    one.node,
                    f"`{module.source(one.subjects[0])}` is compared as text that holds the name of a device, which is "
                    "`hpu` on Gaudi; adapt the comparison by hand",
                    fix=fix,
                    severity="warning",
                    safety=None if fix else "manual",
                    row="cuda",
                )

    @staticmethod
    def _by_name(module: Module, one: Comparison) -> Rewrite | None:
        """``getattr(self, f"run_{x.device.type}")`` of a class with ``run_cuda``: names that stay."""
        table = one.node.value if isinstance(one.node, ast.Subscript) else None
        table = table.func if isinstance(table, ast.Call) else None
        called = one.node.func if isinstance(one.node, ast.Call) else table
        if one.form is not Form.LOOKUP or last_name(called) not in _LOOKS_UP:
            return None
        names = module.view(_bound)
        if not any("cuda" in name for name in names) or any("hpu" in name for name in names):
            return None
        found = readings_of(ast.Tuple([one.subjects[0]]), module.view(Evidence))
        changes = tuple(spelling.as_on_cuda(module, each) for each in found)
        return Rewrite("look up by CUDA's name", "safe", changes) if changes else None

    @staticmethod
    def _names_cuda(module: Module, one: Comparison) -> bool:
        """Whether CUDA's name is in the comparison, or may be in what it looks up or matches."""
        given = one.node.args if isinstance(one.node, ast.Call) else []
        if given and module.source(given[0]) == "torch":
            return False  # getattr(torch, x.device.type): there is a torch.hpu
        if one.texts or one.form is Form.SEARCH:
            return bool(one.texts) or not isinstance(one.node, ast.Compare)
        key = one.subjects[0]
        made = isinstance(key, ast.BinOp) or (
            isinstance(key, ast.JoinedStr) and len(key.values) > 1
        )
        return one.form is Form.LOOKUP and (made or len(given) > 1)
