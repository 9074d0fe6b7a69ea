"""torch.autocast("hpu") casts as the compatibility matrix says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.nn import functional as F
from torch.utils._pytree import tree_flatten, tree_map

from hpushim.matrix import load

X = lambda: torch.ones(4, 8, device="hpu")  # noqa: E731
W = lambda: torch.ones(8, 8, device="hpu")  # noqa: E731

LOWER = {
    "linear": lambda: F.linear(X(), W()),
    "mm": lambda: X() @ W(),
    "bmm": lambda: torch.bmm(X()[None], W()[None]),
    "conv2d": lambda: F.conv2d(
        torch.ones(1, 2, 4, 4, device="hpu"), torch.ones(3, 2, 3, 3, device="hpu")
    ),
    "softmax": lambda: X().softmax(-1),
    "layer_norm": lambda: F.layer_norm(
        X(), (8,), torch.ones(8, device="hpu"), torch.zeros(8, device="hpu")
    ),
    "scaled_dot_product_attention": lambda: F.scaled_dot_product_attention(
        X()[None], X()[None], X()[None]
    ),
}
FLOAT32 = {
    "exp": lambda: X().bfloat16().exp(),
    "pow": lambda: X().bfloat16().pow(2),
    "cross_entropy_loss": lambda: F.cross_entropy(
        X().bfloat16(), torch.zeros(4, dtype=torch.long, device="hpu")
    ),
    "mse_loss": lambda: F.mse_loss(X().bfloat16(), X().bfloat16()),
}


def listed(name: str, names: str) -> bool:
    return name in names.split()


@pytest.mark.parametrize("name", LOWER)
def test_lower_precision_operators(name):
    assert listed(name, load().autocast.lower)
    with torch.autocast("hpu"):
        assert LOWER[name]().dtype is torch.bfloat16
    with torch.autocast("hpu", torch.float16):
        assert LOWER[name]().dtype is torch.float16
    with torch.autocast("hpu", enabled=False):
        assert LOWER[name]().dtype is torch.float32


@pytest.mark.parametrize("name", FLOAT32)
def test_float32_operators(name):
    assert listed(name, load().autocast.fp32)
    with torch.autocast("hpu"):
        assert FLOAT32[name]().dtype is torch.float32


def test_widest_type_wins_in_promoting_operators():
    with torch.autocast("hpu"):
        assert torch.cat([X(), X().bfloat16()]).dtype is torch.float32
        assert torch.cat([X().bfloat16(), X().bfloat16()]).dtype is torch.bfloat16


def test_cpu_autocast_and_cpu_tensors_are_left_alone():
    with torch.autocast("hpu"):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.float32
    with torch.autocast("cpu"):
        assert F.linear(X(), W()).dtype is torch.float32


def test_gradients_arrive_in_the_parameters_type():
    layer = torch.nn.Linear(8, 4).to("hpu")
    with torch.autocast("hpu"):
        out = layer(X())
        loss = out.float().sum()
    loss.backward()
    assert out.dtype is torch.bfloat16 and layer.weight.grad.dtype is torch.float32
    assert layer.weight.grad.tolist() == [[4.0] * 8] * 4


# ---- every operator on the lists, with the inputs that torch's own tests give it --------------------------------------

BF16 = torch.bfloat16
FIRST_ONLY = ("batch_norm", "group_norm", "instance_norm", "layer_norm")  # weights keep float32


def described(name: str) -> Any:
    """torch's description of an operator, with sample inputs; skips where there is none."""
    pytest.importorskip("expecttest", reason="torch's operator list needs the package expecttest")
    from torch.testing._internal.common_methods_invocations import op_db

    if not hasattr(torch.ops.aten, name):
        pytest.skip(f"torch has no operator aten::{name}")
    spelled = {name, f"nn.functional.{name}", f"nn.functional.{name.removesuffix('_loss')}"}
    found = [op for op in op_db if op.name in spelled and torch.float32 in op.dtypes]
    if not found:
        pytest.skip(f"torch's operator list has no inputs for aten::{name}")
    return found[0]


def calls(name: str, most: int = 3) -> Iterator[tuple[Any, Any]]:
    """(operator, inputs) on the CPU in float32."""
    op = described(name)
    torch.manual_seed(0)
    for _, sample in zip(range(most), op.sample_inputs("cpu", torch.float32), strict=False):
        yield op, (sample.input, sample.args, sample.kwargs)


def as_dtype(value: Any, dtype: torch.dtype) -> Any:
    floating = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.detach().to(dtype) if floating else value


def floats(result: Any) -> list[torch.Tensor]:
    found = [t for t in tree_flatten(result)[0] if isinstance(t, torch.Tensor)]
    return [t for t in found if t.is_floating_point()]


def call(op: Any, inputs: Any) -> Any:
    torch.manual_seed(1)
    first, args, kwargs = inputs
    return op(first, *args, **kwargs)


def there(inputs: Any) -> Any:
    return tree_map(lambda v: v.to("hpu") if isinstance(v, torch.Tensor) else v, inputs)


def casts(name: str, given: torch.dtype, wanted: torch.dtype) -> None:
    """Under autocast, inputs of ``given`` are computed in ``wanted``, with the CPU's numbers in that dtype."""
    compared = 0
    for op, inputs in calls(name):
        inputs = tree_map(lambda v: as_dtype(v, given), inputs)
        try:
            expected = floats(call(op, tree_map(lambda v: as_dtype(v, wanted), inputs)))
        except RuntimeError:
            continue  # the CPU has no kernel of that dtype for these inputs
        with torch.autocast("hpu", BF16):
            got = floats(call(op, there(inputs)))
        for a, b in zip(got, expected, strict=True):
            assert a.dtype is wanted, f"{name} gives {a.dtype}"
            if name not in FIRST_ONLY:
                torch.testing.assert_close(a.cpu(), b, equal_nan=True)
            compared += 1
    if not compared:
        pytest.skip(f"the CPU has no {wanted} kernel for aten::{name}")


@pytest.mark.parametrize("name", load().autocast.lower.split())
def test_each_operator_of_the_lower_list(name):
    casts(name, torch.float32, BF16)


@pytest.mark.parametrize("name", load().autocast.fp32.split())
def test_each_operator_of_the_float32_list(name):
    casts(name, BF16, torch.float32)


def widest_only() -> list[str]:
    """Names of the widest list that stand on no list before it."""
    lists = load().autocast
    return [n for n in lists.promote.split() if n not in f"{lists.lower} {lists.fp32}".split()]


@pytest.mark.parametrize("name", widest_only())
def test_each_operator_of_the_widest_list(name):
    x, y = torch.rand(3, device="hpu") + 1, torch.rand(3, device="hpu", dtype=BF16) + 1
    described(name)
    operator = getattr(torch, name)
    arguments = {"cat": ([x, y],), "stack": ([x, y],), "addcmul": (y, x, y)}.get(name, (y, x))
    narrow = tree_map(lambda t: t.bfloat16(), arguments)
    with torch.autocast("hpu", BF16):
        assert operator(*arguments).dtype is torch.float32
        assert operator(*narrow).dtype is BF16


def test_the_lists_stand_in_the_matrix_alone():
    lists = load().autocast
    assert len(lists.lower.split()) >= 25 and len(lists.fp32.split()) >= 40
    assert not set(lists.lower.split()) & set(lists.fp32.split())


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "hpu_backend"])
@pytest.mark.parametrize("name", sorted(LOWER | FLOAT32))
def test_compiled_code_sees_the_dtype_that_runs(backend, name):
    """Python code in a compiled function may ask for it, and makes other tensors of it."""
    torch._dynamo.reset()
    call = (LOWER | FLOAT32)[name]

    def seen() -> Any:
        with torch.autocast("hpu", BF16):
            result = call()
            return result, torch.zeros(1, dtype=result.dtype, device="hpu"), str(result.dtype)

    plain, told = seen(), torch.compile(seen, backend=backend)()
    assert [told[0].dtype, told[1].dtype, told[2]] == [plain[0].dtype, plain[1].dtype, plain[2]]
