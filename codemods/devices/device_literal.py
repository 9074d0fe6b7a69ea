"""CUDA device strings that reach torch.device, a variable, a default or an option."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from hpushim.engine.python.changes import Replace, Rewrite
from hpushim.engine.rules.rule import Code, Found, Module, Rule, Wants, Yield
from hpushim.matrix import vendor

from ..analysis.defaults import why_kept
from ..analysis.device_index import cuts
from ..analysis.device_lists import device_lists
from ..analysis.device_literals import Site
from ..analysis.devices import Devices, spelled_by
from ..analysis.names import word
from ..analysis.numbered import numbered, uses
from ..analysis.project_facts import COMPARED_DEVICES, KEPT_OPTIONS
from ..analysis.roles import Role
from ..edits.spelling import ACCELERATOR, DEVICE, agnostic, shared


class DeviceLiteral(Rule):
    """``torch.device("cuda")`` and every string that becomes a device."""

    HPU101 = Code("cuda-device-literal", severity="error", fix=("safe", "manual"))
    HPU013 = Code(
        "cuda-option-default",
        severity="error",
        fix=("safe", "manual"),
        lower={"note": "it is one of several choices, and the style names no device"},
    )
    HPU015 = Code("cuda-text-unproven", severity="unknown")
    HPU121 = Code("several-devices-in-one-process", severity="error", effort="hours")
    wants = Wants(words=("cuda",), facts=(COMPARED_DEVICES, KEPT_OPTIONS))

    def on_module(self, module: Module) -> Yield:
        devices = module.view(Devices)
        lists = module.view(device_lists)
        for collection, device in lists.items():
            yield self._collected(module, collection, device)

        def alone(*roles: Role) -> Iterator[Site]:
            for site in devices.of_role(*roles):
                if not any(above in lists for above in module.ancestors(site.node)):
                    yield site

        for site in alone(Role.DEVICE, Role.NAME, Role.BRANCH, Role.OPTION):
            yield self._written(module, devices, site)
        for site in alone(Role.UNPROVEN, Role.CUT):
            yield self._left(module, site)
        for site in devices.several:
            yield self._second(module, devices, site)
        yield from self._index_cuts(module, devices)
        if devices.sites and not devices.keeps_index and not shared(module):
            yield from self._numbered(module, devices)

    def _written(self, module: Module, devices: Devices, site: Site) -> Found:
        note = (
            ""
            if site.text.index in ("", "0") or site.text.new
            else ", the only device of a process"
        )
        said = f"`{module.source(site.node)}` does not exist on Gaudi; use {devices.counterpart(site)}{note}"
        fix = Rewrite("write hpu", "safe", site.changes, devices.group(site.node))
        call = _declares(module, site.node) if site.role is Role.OPTION else None
        kept = agnostic(module) and call is not None and not fix.fits(module.target.style, vendor.is_named)  # fmt: skip
        why = why_kept(module, call) if kept and call is not None else ""
        if why:
            said = f"`{module.source(site.node)}` works on CUDA only; it stays the default, because {why}"
        return self.finding(
            site.node,
            said,
            fix=fix,
            row="cuda",
            code="HPU013" if site.role is Role.OPTION else None,
            severity="note" if agnostic(module) and _is_choice(module, site.node) else None,
            claims=site.claims,
        )

    def _left(self, module: Module, site: Site) -> Found:
        """A text that is not known to be a device, or that devices are cut by."""
        shown = module.source(site.node)
        if site.role is Role.CUT:
            message = f"`{shown}` slices the text of a device; `hpu` has three letters and no index"
        else:
            message = f"hpushim does not know whether `{shown}` is a device here, and leaves it; if it is, write `hpu`"
        return self.finding(
            site.node, message,
            code="HPU015", safety="manual", claims=site.claims,
        )  # fmt: skip

    def _collected(self, module: Module, collection: ast.expr, device: ast.expr) -> Found:
        """Several devices in one list: as many times the same device would be something else."""
        return self.finding(
            device,
            f"`{module.source(device)}` is one of several devices in one process; Gaudi allows one "
            "device per process: start one process per device",
            code="HPU121",
            safety="manual",
            claims=(collection,),
        )

    def _second(self, module: Module, devices: Devices, site: Site) -> Found:
        """A fixed index beside others: a model or a pipeline that is split in one process."""
        return self.finding(
            site.node,
            f"`{module.source(site.node)}` is one of several devices in one process; Gaudi allows one "
            "device per process: start one process per device",
            fix=None
            if agnostic(module)
            else Rewrite("write hpu", "manual", site.changes, devices.group(site.node)),
            code="HPU121",
            safety="manual",
            claims=site.claims,
        )

    def _numbered(self, module: Module, devices: Devices) -> Iterator[Found]:
        """``f"{kind}:{rank}"``, where the file shows that the name turns."""
        for node, kind, change in numbered(module):
            used = any(devices.goes_to_device(each) for each in uses(module, node, kind))
            site = spelled_by(module, kind) if used else None
            if site is not None and site.changes:
                yield self.finding(
                    node,
                    f"`{module.source(node)}` puts a number behind a device; a process on Gaudi has one device, "
                    f"so use `{module.source(kind)}` alone",
                    fix=Rewrite(
                        "leave the number out", "safe", (change,), devices.group(site.node)
                    ),
                    row="cuda",
                )

    def _index_cuts(self, module: Module, devices: Devices) -> Iterator[Found]:
        """``device[5:]``, in a file whose device strings turn."""
        indexed = any(site.text.index for site in devices.sites)
        for cut in cuts(module, devices.is_device if indexed else devices.flow.is_reading):
            assert isinstance(cut.slice, ast.Slice)
            assert cut.slice.lower is not None
            behind = f"{DEVICE}:"
            length = f"len({ACCELERATOR}) + 1" if shared(module) else str(len(behind))
            yield self.finding(
                cut,
                f"`{module.source(cut)}` relies on the length of `cuda:`; `{behind}` has {len(behind)} "
                "characters",
                fix=Rewrite("use the length of hpu", "safe", (Replace(cut.slice.lower, length),)),
            )


def _declares(module: Module, node: ast.AST) -> ast.Call | None:
    """The call that declares an option of which this is the default."""
    above = module.parent(node)
    call = (
        module.parent(above) if isinstance(above, ast.keyword) and above.arg == "default" else None
    )
    return call if isinstance(call, ast.Call) and word(call.func) == "add_argument" else None


def _is_choice(module: Module, node: ast.AST) -> bool:
    """Is it one of ``choices=["cuda", "cpu"]``, which stop nobody who chooses another?"""
    listed = module.parent(node)
    above = module.parent(listed) if listed is not None else None
    return isinstance(above, ast.keyword) and above.arg == "choices"
