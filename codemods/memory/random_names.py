"""Seeds, random states and generators of the device."""

from __future__ import annotations

import ast

from hpushim.engine.python.changes import Change, Replace, Rewrite
from hpushim.engine.rules.rule import Code, Found, Module, Yield

from ..analysis.devices import Devices, Role, Site
from ..analysis.names import called
from ..analysis.placement import is_on_device
from ..analysis.verdict import Answer, ask, sentence
from ..bases.torch_name import NameRule, by_name
from ..edits.arguments import add, argument
from ..edits.spelling import agnostic, device_type, kept_for_cuda, quoted, shared

_FORK = "torch.random.fork_rng"
_GENERATOR = "torch.Generator"


class RandomName(NameRule):
    """``torch.cuda.manual_seed_all`` and its neighbours."""

    HPU407 = Code("cuda-seed", fix=("safe", "manual"), lower=by_name("note"))
    HPU408 = Code(
        "cuda-random-state",
        severity="error",
        fix=("safe", "manual"),
        lower={"warning": "its matrix row names a replacement"},
    )
    HPU409 = Code(
        "cuda-generator",
        severity="error",
        fix=("safe", "unsafe", "manual"),
        lower={
            "warning": "no Gaudi release is known to reject it, or its device is a variable",
            "note": "generators on hpu work in this Gaudi release",
        },
    )
    further = (_FORK, _GENERATOR)

    def on_name(self, module: Module, node: ast.expr, name: str) -> Yield:
        if name == _FORK:
            yield from self._forked(module, node)
        elif name == _GENERATOR:
            yield from self._made_on_variable(module, node)
        else:
            yield from super().on_name(module, node, name)

    def on_module(self, module: Module) -> Yield:
        for site in module.view(Devices).of_role(Role.GENERATOR):
            yield self._made_on_device(module, site)

    def _made_on_device(self, module: Module, site: Site) -> Found:
        answer = ask(module, _GENERATOR, "unsafe")
        works = answer.status == "native" or agnostic(module)
        changes = site.changes if works else (*_on_host(module, site), *site.changes[1:])
        return self.finding(
            site.node,
            f"`torch.Generator` on `hpu` {_said(answer)}",
            fix=Rewrite(
                "write hpu" if works else "write cpu",
                "safe" if agnostic(module) else "unsafe",
                changes,
            ),
            row=answer.row,
            code="HPU409",
            severity="warning",
            claims=site.claims,
        )

    def _made_on_variable(self, module: Module, node: ast.expr) -> Yield:
        """``torch.Generator(device)`` with a device that the program chooses."""
        call = called(module, node)
        device = argument(call, "device", 0) if call is not None else None
        if device is None or _is_known(module, device):
            return
        answer = ask(module, _GENERATOR)
        yield self.finding(
            device,
            f"`torch.Generator` on `{module.source(device).splitlines()[0]}`, which is `hpu` on Gaudi, {_said(answer)}",
            row=answer.row,
            code="HPU409",
            severity="note" if answer.status == "native" else "warning",
        )

    def _forked(self, module: Module, node: ast.expr) -> Yield:
        """``fork_rng(devices=[…])`` saves the states of CUDA devices."""
        call = called(module, node)
        given = {k.arg: k for k in call.keywords} if call is not None else {}
        devices = given.get("devices")
        if call is None or "device_type" in given:
            return
        if devices is None:
            if not call.args and is_on_device(module):
                yield self._forked_everywhere(module, call)
            return
        if isinstance(devices.value, (ast.List, ast.Tuple)) and not devices.value.elts:
            return  # the host's alone
        changes = _states(module, call, devices)
        yield self.finding(
            devices,
            f"`{module.source(devices)}` lists CUDA devices; a process on Gaudi has one device, "
            "`hpu`",
            fix=Rewrite("save the random state of hpu", "safe", changes),
            row=ask(module, _FORK).row,
            code="HPU408",
        )

    def _forked_everywhere(self, module: Module, call: ast.Call) -> Found:
        """Without ``devices`` torch saves the state of each device that it counts."""
        return self.finding(
            call,
            f"`{module.source(call.func)}` without `devices` reads the state of every device, and Gaudi "
            'rejects all but the first; pass `devices=range(min(torch.hpu.device_count(), 1)), device_type="hpu"`',
            row=ask(module, _FORK).row,
            code="HPU408",
            severity="warning",
        )


def _said(answer: Answer) -> str:
    """What a generator on hpu does in the release of the target."""
    if answer.status == "native":
        return "works in this Gaudi release, and gives other random numbers than on CUDA"
    what = "is rejected" if answer.status == "unsupported" else "may be rejected"
    return f"{what} by this Gaudi release: use a CPU generator. {sentence(answer.note)}"


def _is_known(module: Module, device: ast.expr) -> bool:
    """Does the file say which device it is: a text, which is reported by itself, or the CPU's?"""
    if isinstance(device, ast.Attribute) and device.attr == "device":
        return False  # where a tensor is
    values = module.values(device)
    return all(
        (isinstance(value, (ast.Constant, ast.JoinedStr)) and value is device)
        or (
            module.constant(_first(value)) in ("cpu", None)
            and isinstance(_first(value), ast.Constant)
        )
        for value in values
    )


def _on_host(module: Module, site: Site) -> tuple[Change, ...]:
    """A generator of the CPU, which draws for hpu tensors; CUDA keeps its own."""
    if shared(module):
        return kept_for_cuda(module, site.node, quoted(module, "cpu"))
    return (Replace(site.node, quoted(module, "cpu", site.node)),)


def _first(value: ast.expr) -> ast.expr:
    """What ``torch.device("cpu")`` names."""
    return value.args[0] if isinstance(value, ast.Call) and value.args else value


def _states(module: Module, call: ast.Call, devices: ast.keyword) -> tuple[Change, ...]:
    """Forks the states of the same devices.

    Numbers that the program works out (those of its tensors) hold on Gaudi too. Of devices that it names there is the first:
    without ``devices`` torch would request each that is counted, and Gaudi gives the state of device 0 alone.
    """
    kind = f"device_type={device_type(module, call)}"
    names = (ast.Name, ast.Attribute)
    if all(isinstance(value, names) for value in module.values(devices.value)):
        return (add(call, kind, behind=devices.value),)
    if shared(module):
        return (Replace(devices, kind),)
    return (Replace(devices, "devices=[0]"), add(call, kind, behind=devices.value))
