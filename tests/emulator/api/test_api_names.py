"""The look-alike has the vendor's names with the vendor's signatures, and no others."""

from __future__ import annotations

import ast
import enum
import importlib
import inspect
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

NAMES = Path(__file__).parent / "names.txt"
PACKAGE = "habana_frameworks"


class Name(NamedTuple):
    mark: str
    module: str
    name: str
    signature: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


def _read() -> list[Name]:
    lines = [line for line in NAMES.read_text(encoding="utf-8").splitlines() if line[:1] != "#"]
    names = []
    for line in lines:
        mark, module, name, *signature = line.split(" ")
        names.append(Name(mark, module.replace("hf", PACKAGE, 1), name, "".join(signature)))
    return names


ALL = _read()


def _is_lazy() -> bool:
    from habana_frameworks.torch.utils.internal import is_lazy

    return bool(is_lazy())


def _find(name: Name) -> object:
    found: object = importlib.import_module(name.module)
    for part in name.name.split("."):
        found = getattr(found, part)
    return found


def _expected(name: Name) -> bool:
    return name.mark == "=" or (name.mark == "L" and _is_lazy())


def _default(value: object) -> str:
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if "required" in repr(value) or type(value) is object:
        return "required"
    return repr(value).replace(" ", "")


def _parameters(found: object) -> list[tuple[str, str]]:
    """(name with its stars, default) of each parameter, without self."""
    parameters = list(inspect.signature(found).parameters.values())  # type: ignore[arg-type]
    if parameters and parameters[0].name in ("self", "cls"):
        parameters = parameters[1:]
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return [
        (stars.get(p.kind, "") + p.name, "" if p.default is p.empty else _default(p.default))
        for p in parameters
    ]


def _listed(signature: str) -> list[tuple[str, str]]:
    arguments = ast.parse(f"def f{signature}: pass").body[0].args  # type: ignore[attr-defined]
    plain = arguments.posonlyargs + arguments.args
    defaults = [None] * (len(plain) - len(arguments.defaults)) + arguments.defaults
    found = [(a.arg, d) for a, d in zip(plain, defaults, strict=True)]
    if arguments.vararg:
        found.append((f"*{arguments.vararg.arg}", None))
    found += [(a.arg, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    if arguments.kwarg:
        found.append((f"**{arguments.kwarg.arg}", None))
    if found and found[0][0] in ("self", "cls"):
        found = found[1:]
    return [(name, "" if d is None else ast.unparse(d).replace(" ", "")) for name, d in found]


@pytest.mark.parametrize("module", sorted({name.module for name in ALL}))
def test_names_and_signatures(module: str) -> None:
    wrong = []
    for name in (one for one in ALL if one.module == module and _expected(one)):
        try:
            found = _find(name)
        except (ImportError, AttributeError) as error:
            wrong.append(f"{name}: missing ({error})")
            continue
        if name.signature and _parameters(found) != _listed(name.signature):
            wrong.append(f"{name}: {_parameters(found)}, expected {name.signature}")
    assert not wrong, "\n".join(wrong)


def test_unmodelled_names_stay_missing() -> None:
    present = []
    for name in (one for one in ALL if not _expected(one)):
        try:
            _find(name)
        except (ImportError, AttributeError):
            continue
        present.append(str(name))
    # A module of lazy mode can be imported in eager mode too; only its place in torch.hpu is gone.
    present = [one for one in present if not one.startswith(f"{PACKAGE}.torch.hpu.graphs.")]
    assert not present, f"listed as not modelled, yet there: {present}"


@pytest.mark.parametrize("where", ["hpu", "hpu.graphs", "core", "hpex.kernels", "distributed.hccl"])
def test_missing_names_say_that_the_emulator_lacks_them(where: str) -> None:
    module = importlib.import_module(f"{PACKAGE}.torch.{where}")
    if not hasattr(module, "__getattr__"):
        pytest.skip(f"{where} is a plain module")
    with pytest.raises(AttributeError, match=r"the emulated HPU does not model .*no_such_name: "):
        module.no_such_name  # noqa: B018


def _own_public(module: ModuleType) -> list[str]:
    """Public functions and classes that the module itself defines."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isfunction(value) or inspect.isclass(value))
        and value.__module__ == module.__name__
    ]


#: Modules of ours, or whose names are not the vendor's Python names (the vendor has them in compiled form).
OURS = (
    "_not_modelled",
    "transformer_engine",
    "event_dispatcher",
    "_moments",
    "_hpex_C",
    "hpu.metrics.saver",
)

#: In no public list of the vendor's; torch's own DTensor calls them on hpu.
ASKED_BY_TORCH = {f"{PACKAGE}.torch.hpu.random.{name}" for name in ("set_rng_ctx", "unset_rng_ctx")}


def test_no_name_is_invented() -> None:
    known = {(name.module, name.name) for name in ALL}
    invented = []
    for module in sorted({name.module for name in ALL}):
        if any(part in module for part in OURS):
            continue
        try:
            loaded = importlib.import_module(module)
        except ImportError:
            continue
        invented += [f"{module}.{n}" for n in _own_public(loaded) if (module, n) not in known]
    torch = Path(importlib.import_module("torch").__file__ or "").parent
    calls = (torch / "distributed" / "tensor" / "_random.py").read_text(encoding="utf-8")
    assert set(invented) == ASKED_BY_TORCH
    unasked = {name for name in ASKED_BY_TORCH if f".{name.rpartition('.')[2]}(" not in calls}
    if unasked == ASKED_BY_TORCH:
        release = importlib.import_module("torch").__version__
        pytest.skip(f"DTensor of torch {release} calls none of them on a device")
    assert not unasked


def test_torch_hpu_is_the_package_module(hpu: object) -> None:
    import habana_frameworks.torch as package
    import torch

    assert torch.hpu is package.hpu is hpu
    assert package.core.hpu is hpu
    assert torch.hpu.random is importlib.import_module(f"{PACKAGE}.torch.hpu.random")


def test_lazy_names_follow_the_mode(hpu: object) -> None:
    assert hasattr(hpu, "wrap_in_hpu_graph") == _is_lazy()
    if not _is_lazy():
        with pytest.raises(AttributeError, match="PT_HPU_LAZY_MODE=1"):
            hpu.wrap_in_hpu_graph  # type: ignore[attr-defined]  # noqa: B018
