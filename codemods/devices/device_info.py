"""What the card is called and what it can: names, capabilities, properties, CUDA's version."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from hpushim.model import Finding, Fix

from ._claims import claim
from ._names import Name, NameRule, known, respell, said
from ._statements import delete

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module

#: What people read from the properties, and the call that answers it on Gaudi.
_PROPERTIES = {"total_memory": ("torch.hpu.mem_get_info", "()[1]"), "name": ("torch.hpu.get_device_name", "()")}  # fmt: skip


class DeviceInfo(NameRule):
    """``torch.cuda.get_device_name`` and other questions about the hardware."""

    code = "HPU112"
    name = "cuda-device-info"
    severity = "warning"
    codes: ClassVar[dict[str, str]] = {
        "get_device_name": "HPU112",
        "get_device_properties": "HPU112",
        "_get_device_properties": "HPU112",
        "utilization": "HPU112",
        "temperature": "HPU112",
        "power_draw": "HPU112",
        "clock_rate": "HPU112",
        "is_bf16_supported": "HPU112",
        "get_device_capability": "HPU113",
        "get_arch_list": "HPU113",
        "get_gencode_flags": "HPU113",
        "init": "HPU116",
        "is_initialized": "HPU116",
        "_lazy_init": "HPU116",
        "_initialized": "HPU116",
        "_lazy_call": "HPU116",
        "_is_in_bad_fork": "HPU116",
        "_is_compiled": "HPU116",
        "has_half": "HPU116",
        "has_magma": "HPU116",
    }
    careful = frozenset({"get_arch_list", "utilization", "get_gencode_flags"})
    card: ClassVar[dict[str, int]] = {"get_device_name": 0, "utilization": 0}
    also: ClassVar[dict[str, str]] = {
        "HPU113": "cuda-capability",
        "HPU116": "cuda-initialisation",
        "HPU122": "cuda-version",
    }

    def takes(self, module: Module, use: Name) -> str:
        if use.name.startswith(("torch.version.cuda", "torch.backends.cuda.is_built")):
            return "HPU122"
        return super().takes(module, use)

    def prepare(self, module: Module, use: Name) -> None:
        if self._ordinary(use):
            super().prepare(module, use)
        elif use.below == "get_device_properties":
            call = module.parent(use.node)
            for argument in call.args if isinstance(call, ast.Call) else ():
                claim(module, argument)

    def special(self, module: Module, use: Name, code: str) -> Iterator[Finding] | None:
        if (read := self._property(module, use)) is not None:
            return self._instead(module, use, code, read)
        if (held := self._held(module, use)) is not None:
            return self._each(module, use, code, *held)
        if not self._ordinary(use):
            return self._shape(module, use, code)
        return None

    def _ordinary(self, use: Name) -> bool:
        return use.below not in ("get_device_properties", "get_device_capability") and bool(
            use.below
        )

    def _property(self, module: Module, use: Name) -> ast.Attribute | None:
        """The attribute that is read from the properties, if it is one that Gaudi answers."""
        if use.below != "get_device_properties":
            return None
        call = module.parent(use.node)
        read = module.parent(call) if isinstance(call, ast.Call) else None
        if isinstance(read, ast.Attribute) and read.attr in _PROPERTIES:
            return read
        return None

    def _held(self, module: Module, use: Name) -> tuple[ast.Assign, list[ast.Attribute]] | None:
        """``p = get_device_properties(i)``: the assignment and the reads, when Gaudi answers each."""
        call = module.parent(use.node)
        statement = module.parent(call) if call is not None else None
        if use.below != "get_device_properties" or not isinstance(statement, ast.Assign):
            return None
        target = statement.targets[0]
        if (
            statement.value is not call
            or len(statement.targets) > 1
            or not isinstance(target, ast.Name)
        ):
            return None
        bound = module.scope(target).lookup(target.id)
        reads: list[ast.Attribute] = []
        for node in module.nodes:
            if (
                isinstance(node, ast.Name)
                and node.id == target.id
                and module.bindings(node) is bound
            ):
                read = module.parent(node)
                if node is target:
                    continue
                if not isinstance(read, ast.Attribute) or read.attr not in _PROPERTIES:
                    return None
                reads.append(read)
        return (statement, reads) if len(bound) == 1 and reads else None

    def _each(
        self,
        module: Module,
        use: Name,
        code: str,
        statement: ast.Assign,
        reads: list[ast.Attribute],
    ) -> Iterator[Finding]:
        edits = list(delete(module, [statement]))
        for read in reads:
            target, tail = _PROPERTIES[read.attr]
            text, needed = respell(module, read, target)
            edits += [module.replace(read, text + tail), *needed]
        yield self.finding(
            module,
            use.node,
            f"`{module.source(use.node)}` answers for NVIDIA hardware; on Gaudi each property is a question",
            fix=Fix("ask for each property", "safe", tuple(edits)),
            row=use.name,
            code=code,
        )

    def _instead(
        self, module: Module, use: Name, code: str, read: ast.Attribute
    ) -> Iterator[Finding]:
        target, tail = _PROPERTIES[read.attr]
        text, needed = respell(module, use.node, target)
        yield self.finding(
            module,
            read,
            f"`{module.source(read)}` is `{target}{tail}` on Gaudi",
            fix=Fix(f"ask {target}", "safe", (module.replace(read, text + tail), *needed)),
            row=use.name,
            code=code,
        )

    def _shape(self, module: Module, use: Name, code: str) -> Iterator[Finding]:
        """Answers that code takes apart, and that are something else on Gaudi."""
        part, verdict = known(module, use.name)
        note = said(verdict.note) if verdict is not None else "it has no counterpart on Gaudi"
        yield self.finding(
            module, use.node, f"`{module.source(use.node)}` answers for NVIDIA hardware: {note}",
            row=part if verdict is not None else None, code=code, safety="manual",
        )  # fmt: skip
