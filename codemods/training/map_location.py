"""Checkpoints read onto a CUDA device: torch.load(map_location=…)."""

from __future__ import annotations

import ast

from hpushim.engine.python.changes import Change, Replace, Rewrite
from hpushim.engine.rules.rule import Code, Found, Module, Rule, Wants, Yield
from hpushim.model import Safety

from ..analysis.device_texts import device_texts, other_device, read
from ..analysis.devices import Devices, spelled_by
from ..analysis.load_places import LOADS, halves, makes_tensor, only_copied, unplaced
from ..analysis.names import called, is_none
from ..analysis.placement import DEVICES, is_on_device
from ..analysis.roles import Role
from ..analysis.verdict import ask
from ..edits.arguments import add, argument
from ..edits.spelling import DEVICE, agnostic, chosen, either, quoted, shared

_CUDA = "cuda"
_ROW = "torch.load(map_location=)"
#: A class of the project that keeps what it is given, which then stays where it was loaded.
_OWN_STATE = "def load_state_dict"


class MapLocation(Rule):
    """``torch.load(path, map_location="cuda:0")``."""

    HPU612 = Code("map-location-cuda", severity="error", fix="safe")
    HPU613 = Code(
        "load-without-map-location",
        severity="error",
        fix=("safe", "unsafe"),
        lower={"warning": "only checkpoints saved from CUDA need it"},
    )
    wants = Wants(
        names=tuple(LOADS),
        calls=(_CUDA,),
        words=(_CUDA,),
        keywords=("map_location",),
        project=(_OWN_STATE, *DEVICES),
    )

    def __init__(self) -> None:
        self._maps: set[ast.AST] = set()
        self._halves: set[ast.AST] = set()

    def on_name(self, module: Module, node: ast.expr, name: str) -> Yield:
        """Loads that name no place, in a file that mentions CUDA or puts something on a device."""
        call = called(module, node)
        if module.qualified(node) != name or call is None:
            return
        placed = False
        names_cuda = module.holds(_CUDA)
        for half in unplaced(module, call, LOADS[name]) if names_cuda else ():
            placed = True
            yield from self._as_other_half(module, half)
        if placed or not (names_cuda or module.view(is_on_device) or _restores(module)):
            return
        place = argument(call, "map_location", LOADS[name])
        default = _left_out(module, place) if isinstance(place, ast.Name) else None
        stars = any(k.arg is None for k in call.keywords) or any(isinstance(a, ast.Starred) for a in call.args)  # fmt: skip
        given = place is not None or stars
        if agnostic(module) and not given and call.args and _was_saved_here(module, call):
            return  # on whatever device this process has
        if (default is not None or not given) and not makes_tensor(module, call):
            yield self._without(module, call, default)

    def on_keyword(self, module: Module, node: ast.keyword) -> Yield:
        """The place that functions of the project and of other libraries hand on to ``torch.load``."""
        if module.holds(_CUDA):
            for half in halves(module, node.value):
                yield from self._as_other_half(module, half)

    def on_call(self, module: Module, node: ast.Call) -> Yield:
        """``lambda storage, loc: storage.cuda(rank)``."""
        function = module.parent(node)
        if not isinstance(function, ast.Lambda) or function.body is not node:
            return
        names = [arg.arg for arg in function.args.args]
        func = node.func
        if (
            len(names) == 2
            and isinstance(func, ast.Attribute)
            and isinstance(func.value, ast.Name)
            and func.value.id == names[0]
        ):
            yield self._map(module, function, quoted(module, DEVICE, function))

    def on_module(self, module: Module) -> Yield:
        if not module.holds(_CUDA):
            return
        for text in device_texts(module):
            table = module.parent(text.node)
            if isinstance(table, ast.Dict) and table.keys == [text.node]:
                yield from self._table(module, table)
        devices = module.view(Devices)
        for site in devices.of_role(Role.LOAD):
            if not any(above in self._maps for above in module.ancestors(site.node)):
                yield self.finding(
                    site.node,
                    f"`{module.source(site.node)}` does not exist on Gaudi; load onto `hpu`",
                    fix=Rewrite("load onto hpu", "safe", site.changes, devices.group(site.node)),
                    row=ask(module, _ROW).row,
                )

    def _table(self, module: Module, table: ast.Dict) -> Yield:
        """``{"cuda:0": "cuda:1"}``: where the file's storages were, and where they go."""
        value = table.values[0]
        if read(value) is not None:
            yield self._map(module, table, quoted(module, DEVICE, table))
        elif other_device(value) or self._is_device(module, value):
            yield self._map(module, table, module.source(value))

    def _is_device(self, module: Module, value: ast.expr) -> bool:
        """Is it a name, or an attribute, that becomes Gaudi's device?"""
        site = spelled_by(module, value) if isinstance(value, (ast.Name, ast.Attribute)) else None
        return site is not None and site.role is not Role.UNPROVEN and bool(site.changes)

    def _map(self, module: Module, node: ast.expr, new: str) -> Found:
        """The finding on a map of storages that becomes one place for all."""
        self._maps.add(node)
        if shared(module) and not agnostic(module):
            new = chosen(module, node, new)
        return self.finding(
            node,
            f"`{module.source(node)}` names CUDA devices; on Gaudi, load all tensors onto `{new}`",
            fix=Rewrite(f"map to {new}", "safe", (Replace(node, new),)),
            row=ask(module, _ROW).row,
            claims=(node,),
        )

    def _as_other_half(self, module: Module, node: ast.expr) -> Yield:
        """With CUDA the tensors go back to the device that they were saved from: on Gaudi that device is ``hpu``."""
        if node in self._halves:
            return
        self._halves.add(node)
        change: Change
        both = f'"{DEVICE}"'
        if isinstance(node, ast.Call):
            place = either(both, "None") if shared(module) else quoted(module, DEVICE)
            if agnostic(module):
                place = quoted(module, DEVICE, node)
            change = add(node, f"map_location={place}")
        else:
            if isinstance(node, ast.Dict):
                both = f'{{"map_location": {both}}}'
            one = both.replace(f'"{DEVICE}"', quoted(module, DEVICE))
            if shared(module) and not agnostic(module):
                one = chosen(module, node, both)
            change = Replace(node, one)
        given = (
            f"`map_location` is `{module.source(node)}` here"
            if is_none(node)
            else f"`{module.source(node).splitlines()[0]}` gives no `map_location`"
        )
        yield self.finding(
            node,
            f"{given}, so tensors go to the device of the checkpoint, perhaps CUDA; "
            "pass `hpu` here, and keep the CPU in the other branch",
            fix=Rewrite("load onto hpu", "safe", (change,)),
            row=ask(module, _ROW).row,
            code="HPU613",
        )

    def _without(self, module: Module, call: ast.Call, default: ast.expr | None = None) -> Found:
        """A load onto the device of the checkpoint: without a place, or with a parameter's default of None."""
        text = quoted(module, "cpu")
        change = Replace(default, text) if default else add(call, f"map_location={text}")
        copied = _OWN_STATE not in (module.project.mentions or ()) and only_copied(module, call)
        safety: Safety = "safe" if copied and default is None else "unsafe"
        later = ", if the code then moves what it loads" if safety == "unsafe" else ""
        does = f"`map_location` is None by default here: make `{text}` the default" if default else f"pass `map_location={text}`{later}"  # fmt: skip
        return self.finding(
            call,
            f"`{module.source(call.func)}` fails on Gaudi if the checkpoint was saved on CUDA; {does}",
            fix=Rewrite("load onto the CPU", safety, (change,)),
            row=ask(module, "torch.load").row,
            code="HPU613",
            severity="warning",
        )


def _was_saved_here(module: Module, call: ast.Call) -> bool:
    """Does the function save to that very file, above the load?"""
    here = module.function(call)
    return any(
        module.qualified(save.func) == "torch.save"
        and len(save.args) > 1
        and module.source(save.args[1]) == module.source(call.args[0])
        and module.function(save) is here
        and save.lineno < call.lineno
        for save in module.index.calls("save")
    )


def _restores(module: Module) -> bool:
    """Does a file restore the states of models, in a project that puts them on a device elsewhere?"""
    named = not (module.project.mentions or frozenset()).isdisjoint(DEVICES)
    return named and bool(module.index.calls("load_state_dict"))


def _left_out(module: Module, place: ast.Name) -> ast.expr | None:
    """The default of None of a parameter that a call hands on as it is; where all calls of the function give a place, none."""
    bound = module.bindings(place)
    if len(bound) != 1 or bound[0].kind != "param" or bound[0].value is None or not is_none(bound[0].value):  # fmt: skip
        return None
    function = next((a for a in module.ancestors(place) if isinstance(a, ast.FunctionDef)), None)
    calls = module.index.calls(function.name) if function else []
    if calls and all(any(k.arg in (place.id, None) for k in call.keywords) for call in calls):
        return None
    return bound[0].value
