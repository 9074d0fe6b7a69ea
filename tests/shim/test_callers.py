"""Who called, over stacks of modules that are made here: the outermost first."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from hpushim import callers


def _asked(stack: tuple[str, ...], ask: Callable[[], Any], file: str = "made.py") -> Any:
    """What ``ask`` answers where it is called through these modules; ``file`` is that of the outermost."""
    for at, name in reversed([*enumerate(stack)]):
        names: dict[str, Any] = {"__name__": name, "ask": ask}
        exec(compile("def call():\n    return ask()\n", "made.py" if at else file, "exec"), names)
        ask = names["call"]
    return ask()


@pytest.mark.parametrize("target", ["torch.cuda", "torch.nn.functional"])
@pytest.mark.parametrize("shim", [(), ("hpushim.shim",), ("hpushim.shim.patches.amp", "hpushim.shim.policy")])  # fmt: skip
@pytest.mark.parametrize(
    ("outer", "caller"),
    [
        (("user",), "user"),
        (("user", "TARGET"), "user"),
        (("user", "TARGET", "TARGET"), "TARGET"),
        (("user", "torch.other"), "torch.other"),
        (("user", "torch.other", "TARGET"), "torch.other"),
        (("user", "TARGET", "torch.other"), "torch.other"),
        (("hpushim.shim.run", "TARGET"), "hpushim.shim.run"),
        (("hpushim.emulator", "TARGET"), "hpushim.emulator"),
        (("", "TARGET"), ""),
    ],
)
def test_of_patched_is_what_called_the_target(outer: tuple[str, ...], caller: str, shim: tuple[str, ...], target: str) -> None:  # fmt: skip
    stack = (*(name.replace("TARGET", target) for name in outer), *shim)
    assert _asked(stack, partial(callers.of_patched, target)) == caller.replace("TARGET", target)


@pytest.mark.parametrize("stack", [(), ("hpushim.shim",), ("torch.cuda",), ("torch.cuda", "hpushim.shim.log")])  # fmt: skip
def test_without_a_caller_it_is_the_program(stack: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.setattr(callers, "_outwards", lambda: ((name, None) for name in reversed(stack)))
    assert callers.of_patched("torch.cuda") == callers.outside("hpushim", "torch") == "__main__"
    assert callers.user_site() == ("<unknown>", 0)
    assert callers.through("torch.cuda", ".log") is bool({"torch.cuda"}.intersection(stack))


@pytest.mark.parametrize("inner", [(), ("torch.nn",), ("hpushim.shim.log", "json"), ("typing_extensions", "_hpushim", "habana_frameworks.torch")])  # fmt: skip
@pytest.mark.parametrize(("name", "file", "counts"), [("user", "made.py", True), ("__main__", "made.py", True), ("user", "<string>", False), ("__main__", "<stdin>", True), ("torch", "made.py", False)])  # fmt: skip
def test_the_site_is_the_innermost_that_somebody_wrote(inner: tuple[str, ...], name: str, file: str, counts: bool) -> None:  # fmt: skip
    assert (_asked((name, *inner), callers.user_site, file) == (file, 2)) is counts


@pytest.mark.parametrize("stack", [("user", "torch.utils.data"), ("torch.utils.data", "user"), ("user", "multiprocess.pool", "user"), ("user", "pool"), ("user",)])  # fmt: skip
def test_through_is_by_name_or_by_its_end(stack: tuple[str, ...]) -> None:
    found = _asked(stack, partial(callers.through, "torch.utils.data", ".pool"))
    assert found is any(name in ("torch.utils.data", "multiprocess.pool") for name in stack)
