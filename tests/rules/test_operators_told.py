"""Operators that run on the CPU on Gaudi, or not at all, are told in source in every way that Python may write them.

What such an operator is, the matrix's operator table says; how torch spells it, torch itself: its functions, the methods of tensors,
the modules that call the functions, and the functions that are made of such an operator (``torch.linalg.det`` of ``_linalg_det``).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from hpushim.engine.base.text import ALONE
from hpushim.engine.context import Context
from hpushim.engine.one_file import settle
from hpushim.matrix import load
from hpushim.model import Target

torch = pytest.importorskip("torch", reason="torch knows how its operators are spelled")

OPERATORS = load().operators
ON_CPU = ("fallback", "none")
#: Codes that tell of an operator; HPU514 and HPU515 of what its size does to graphs.
TOLD = ("HPU118", "HPU514", "HPU515", "HPU124")
#: Spelled by nobody, or told in another way: kernels and layouts of other devices, parts of other operators.
APART = re.compile(
    r"_|cudnn_|miopen_|mkldnn_|slow_conv|conv_depthwise|quantize|fake_quantize|quantized_|dequantize|fbgemm_|fused_moving|segment_reduce"
    r"|sspaddmm|to_mkldnn|to_sparse|sparse_dim|dense_dim|is_set_to|from_file|batch_norm_|conj_physical|range|dropout|complex|polar|view_as_"
    r"|narrow_copy|unfold_copy|upsample_|grid_sampler|.*_backward|.*_jvp"
    # told at the stream; a view on the emulated HPU; argsort, max and min have other overloads, which are native; binomial takes the CPU's generator
    r"|(record_stream|unfold|argsort|max|min|max_pool3d_with_indices|binomial)$"
)


def is_of_parts(name: str) -> bool:
    """Whether a function of torch's, by its name in torch's list, is no operator with a kernel of its own or on the CPU."""
    if re.match(r"(fft|special|sparse|masked|signal|jiterator|_|torch)", name) or "ops." in name:
        return False
    if name.startswith("nn.functional."):
        return name.endswith(("pool1d", "pool2d", "pool3d", "fold", "embedding_bag"))
    overloads = OPERATORS.packets.get(f"aten::{name.replace('.', '_')}", ())
    return all(OPERATORS.support[one] in ("composite", "default") for one in overloads)


def spelled() -> Iterator[tuple[str, str]]:
    """How torch spells an operator, all of whose overloads that take no ``out=`` run on the CPU: (``function`` or ``method``, name)."""
    for packet, overloads in OPERATORS.packets.items():
        named = [one for one in overloads if not one.endswith(("out", "_out", ".U", ".L", ".sign", ".result"))] or list(overloads)  # fmt: skip
        name = packet.partition("::")[2]
        if APART.match(name) or not any(OPERATORS.support[one] in ON_CPU for one in named):
            continue
        yield from places(name)


def places(name: str) -> Iterator[tuple[str, str]]:
    """Where torch has an operator of this name."""
    for module, own in (("linalg", "linalg_"), ("special", "special_"), ("fft", "fft_")):
        short = name.removeprefix(own)
        if name.startswith(own) and hasattr(getattr(torch, module), short):
            yield "function", f"torch.{module}.{short}"
    if hasattr(torch, name):
        yield "function", f"torch.{name}"
    if hasattr(torch.nn.functional, name):
        yield "function", f"torch.nn.functional.{name}"
    if hasattr(torch.Tensor, name):
        yield "method", name


@cache
def composed() -> tuple[tuple[str, str], ...]:
    """How torch spells what is made of such operators alone, in each of its sample inputs that is not empty."""
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.utils._python_dispatch import TorchDispatchMode

    class Seen(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:  # fmt: skip
            names.add(function.name())
            return function(*args, **(kwargs or {}))

    found: list[tuple[str, str]] = []
    for op in op_db:
        if torch.float32 not in op.dtypes or op.variant_test_name or not is_of_parts(op.name):
            continue
        reached = []
        for _, sample in zip(range(2), op.sample_inputs("cpu", torch.float32), strict=False):
            names: set[str] = set()
            with Seen():
                op.op(sample.input, *sample.args, **sample.kwargs)
            reached.append(any(OPERATORS.support.get(one.removesuffix(".default")) in ON_CPU for one in names))  # fmt: skip
        if reached and all(reached):
            aliases = [one.name.removeprefix("torch.") for one in op.aliases]
            found += [("function", f"torch.{one}") for one in (op.name, *aliases) if exists(one)]
            if op.method_variant is not None:
                found.append(("method", op.method_variant.__name__))
    return tuple(one for one in found if not re.search(r"torch\._|\.masked\.|signal|^unfold$|unfold_copy|torch\.unfold", one[1]))  # fmt: skip


def exists(name: str) -> bool:
    """Whether torch has a function of this dotted name."""
    owner: Any = torch
    for part in name.split("."):
        owner = getattr(owner, part, None)
    return owner is not None


def modules_of(functions: set[str]) -> Iterator[str]:
    """The classes of ``torch.nn`` whose forward pass calls one of these functions of ``torch.nn.functional``."""
    for name, cls in vars(torch.nn).items():
        if inspect.isclass(cls) and "forward" in vars(cls):
            called = set(re.findall(r"\bF\.(\w+)\(", inspect.getsource(cls.forward)))
            if called & functions:
                yield f"torch.nn.{name}"


def untold(lines: dict[str, str]) -> list[str]:
    """Which of the lines in a file of a card's no finding tells of."""
    head = "import torch\nfrom torch import nn\nimport torch.linalg as LA\nfrom torch import linalg, special\nimport torch.nn.functional as F\n"
    code = f"{head}x = torch.ones(3, 3, device='cuda')\n" + "\n".join(lines.values()) + "\n"
    result = settle(code, "python", "train.py", Context(Target(), load(), ALONE))
    told = {
        code.count("\n", 0, found.span.start) for found in result.findings if found.code in TOLD
    }
    first = head.count("\n") + 1
    return [name for number, name in enumerate(lines, first) if number not in told]


def written(kind: str, name: str) -> str:
    """One line that calls a function, or a method of a tensor."""
    return f"x = x.{name}(x)" if kind == "method" else f"x = {name}(x)"


def test_every_operator_on_the_cpu_is_told() -> None:
    lines = {f"{kind} {name}": written(kind, name) for kind, name in spelled()}
    assert len(lines) > 95
    assert untold(lines) == []


def test_what_is_made_of_such_operators_is_told() -> None:
    lines = {f"{kind} {name}": written(kind, name) for kind, name in composed()}
    assert {"function torch.linalg.det", "function torch.inverse", "method logdet"} <= set(lines)
    assert untold(lines) == []


def test_modules_are_told_as_their_functions_are() -> None:
    functions = {name.rpartition(".")[2] for _, name in (*spelled(), *composed()) if name.startswith("torch.nn.functional.")}  # fmt: skip
    lines = {name: f"layer = {name}(2)" for name in modules_of(functions)}
    assert "torch.nn.AdaptiveMaxPool2d" in lines and "torch.nn.Unfold" in lines
    assert untold(lines) == []


@pytest.mark.parametrize("name", ["det", "slogdet", "inv", "pinv", "eigh", "svdvals", "lstsq"])
def test_every_form_of_a_name_is_told(name: str) -> None:
    forms = [
        f"y = linalg.{name}(x)",
        f"y = LA.{name}(x)",
        f"f = torch.linalg.{name}",
        f"y = list(map(torch.linalg.{name}, [x]))",
        f"y = torch.func.vmap(torch.linalg.{name})(x)",
    ]
    lines = {form: form for form in forms}
    lines |= {"import": f"from torch.linalg import {name} as other", "use": "y = other(x)"}
    assert set(untold(lines)) <= {"import"}


def test_what_has_a_kernel_is_not_told() -> None:
    native = ["torch.linalg.norm(x)", "torch.linalg.vector_norm(x)", "torch.linalg.cross(x, x)", "torch.linalg.multi_dot([x, x])", "torch.special.expit(x)", "F.max_pool2d(x, 2)", "F.adaptive_avg_pool2d(x, 1)", "x.unfold(0, 2, 1)", "x.norm()"]  # fmt: skip
    assert untold({one: f"y = {one}" for one in native}) == native
