"""Tests for CUDA: x.device.type == "cuda", "cuda" in str(device), match, tables by device."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from hpushim.compare import Comparison, Form, find_named
from hpushim.engine.base.code import Code
from hpushim.engine.python.changes import Rewrite
from hpushim.engine.rules.rule import Found, Rule, Yield
from hpushim.engine.rules.wants import Wants

from ..analysis.devices import Devices
from ..analysis.roles import Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hpushim.engine.python.module import Module
    from hpushim.engine.rules.claims import Said

#: CUDA's name beside something else in a text, or in letters of its own: ``"run-cuda"``, ``"cuda|mps"``, ``"CUDA"``, ``b"cuda"``.
_IN_TEXT = re.compile(
    rb"""["'][\w.\- ]*[-_ :/|,]cuda(?::\d+)?(?:[:/|,;][\w:.|, -]*)?["']|["'](?!torch)[\w-]+\.cuda\."""
    rb"""|["']cuda(?::\d+)?[,|;-]|["'](?:Cuda|CUDA)(?::\d+)?["']|\bb["']cuda|\(\)\s*[!=]=\s*["']cuda"""
)
#: CUDA's name inside a longer text, on a line that reads a device and compares; a table, or JSON, that holds one.
_INSIDE = re.compile(
    rb"""(?i)^(?=.*(?:device|\.type\b))(?=.*(?:[!=]=|\bin\b|[<>]))(?:.*(?:[^"'\n]cuda|cuda(?!["']|:\d["'\s]))|.*(?:dumps|repr|str)\([^)\n]*[\[{])""",
    re.MULTILINE,
)
#: A name that is CUDA's or has it at its end, and what looks names up.
_IN_NAME = re.compile(rb"^[ \t]*def \w+_cuda\(|[(,]\s*cuda=(?!True|False|not |[a-z])", re.MULTILINE)
_LOOKS_UP = ("getattr(", "hasattr(", "globals(", "vars(")


def _may_compare(module: Module) -> bool:
    """Does a line that speaks of CUDA look as if a device's text were put together, looked up or compared?"""
    lines = _lines_of_cuda(module.data)
    if _IN_TEXT.search(lines) or _INSIDE.search(lines):
        return True
    return any(map(module.holds, _LOOKS_UP)) and (
        _IN_NAME.search(lines) is not None or _names_an_attribute(module)
    )


def _names_an_attribute(module: Module) -> bool:
    """Is there a class with an attribute ``cuda``?"""
    return any(
        binding.kind == "assign"
        for scope in module.index.scopes.values()
        if scope.is_class
        for binding in scope.bindings.get("cuda", ())
    )


def _lines_of_cuda(data: bytes) -> bytes:
    """The lines that have the word in them, in any letters."""
    small = data.lower()
    found: list[bytes] = []
    at = small.find(b"cuda")
    while at >= 0:
        start, end = small.rfind(b"\n", 0, at) + 1, small.find(b"\n", at)
        end = len(small) if end < 0 else end
        found.append(data[start:end])
        at = small.find(b"cuda", end)
    return b"\n".join(found)


class DeviceCompare(Rule):
    """``x.device.type == "cuda"``."""

    HPU107 = Code(
        "device-compared-with-cuda",
        severity="error",
        fix=("safe", "manual"),
        lower={"warning": "the device's text is compared in a form that no rewrite turns"},
    )
    HPU125 = Code("comparison-chooses-kernels", severity="info")
    wants = Wants(words=("cuda",), texts=("_cuda", "Cuda"))

    def on_module(self, module: Module) -> Yield:
        devices = module.view(Devices)
        for site in devices.of_role(Role.COMPARE):
            yield self.finding(
                module,
                site.node,
                f"a device on Gaudi is never `{module.source(site.node)}`; compare with `hpu`",
                fix=Rewrite("compare with hpu", "safe", site.changes, devices.group(site.node)),
                row="cuda",
                claims=site.claims,
            )
        for site in devices.of_role(Role.KERNELS):
            yield self.finding(
                module,
                site.node,
                f"`{module.source(site.owner)}` chooses kernels for NVIDIA hardware; it stays and is False on Gaudi",
                code="HPU125",
                safety="manual",
                claims=site.claims,
            )

    def finish(self, module: Module, said: Said, found: Sequence[Found]) -> Iterable[Found]:
        """What is made of a device's text and compared in a form that no rule turns."""
        if not _may_compare(module):
            return  # most files
        for one in find_named(module):
            if one.sure and not one.handled and self._speaks_of_cuda(module, one):
                if said.of(module.span(one.node)):
                    continue
                yield self.finding(
                    module,
                    one.node,
                    f"`{module.source(one.subjects[0])}` is made of a device's text, which says `hpu` on Gaudi: "
                    "what it is compared with stays",
                    severity="warning",
                    safety="manual",
                    row="cuda",
                )

    @staticmethod
    def _speaks_of_cuda(module: Module, one: Comparison) -> bool:
        """Whether CUDA's name stands in the comparison, or may stand in what it looks up or matches."""
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
