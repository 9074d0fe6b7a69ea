"""Every operator that torch's own test suite describes, on hpu and on the CPU, results and gradients, element by element.

``python tests/emulator/operator_check.py [STEP [SAMPLES]]`` checks every STEP-th operator (default 1) with up to SAMPLES
inputs each (default 4) and prints what passed, failed and was skipped, with reasons.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map

SEED = 7
# What torch itself, or Gaudi, does not have on this device.
REASONS = {
    "sparse": "sparse tensors: hpu has none",
    "SparseHPU": "sparse tensors: hpu has none",
    "SparseCsr": "sparse tensors: hpu has none",
    "mkldnn": "a CPU-only layout",
    "which hpu does not have": "sparse tensors: hpu has none",
    "to be on cpu": "torch itself wants this argument on the CPU",
    "NestedTensor": "nested tensors",
    "jiterator": "CUDA only",
}
# Results that hold whatever memory held, or that are right in more than one way.
UNDEFINED = (
    "empty",
    "new_empty",
    "empty_like",
    "new_empty_strided",
    "empty_strided",
    "empty_permuted",
)


class Skip(Exception):
    """This operator is left out, for the reason given."""


def operators() -> list[Any]:
    """torch's own list of operators with sample inputs."""
    from torch.testing._internal import common_methods_invocations as lists

    kinds = ("unary", "binary", "pointwise", "reduce", "other")
    foreach = [op for kind in kinds for op in getattr(lists, f"foreach_{kind}_op_db", [])]
    return [*lists.op_db, *foreach]


def full_name(op: Any) -> str:
    """The operator's name with its variant."""
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def on_hpu(value: Any) -> Any:
    """The same arguments on the device."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided:
            raise Skip(REASONS["sparse"])
        moved = value.detach().to("hpu")
        if not value.is_contiguous() and value.numel():
            moved = torch.empty_strided(
                value.shape, value.stride(), dtype=value.dtype, device="hpu"
            ).copy_(value.detach())
        return moved.requires_grad_(value.requires_grad)
    if isinstance(value, torch.device) or (isinstance(value, str) and value == "cpu"):
        return torch.device("hpu")
    return value


def call(op: Any, arguments: Any, differentiate: bool) -> Any:
    """The operator's results and, if wanted, the gradients of its arguments."""
    torch.manual_seed(SEED)
    first, args, kwargs = arguments
    with torch.set_grad_enabled(differentiate):
        result = op(first, *args, **kwargs)
    return result, gradients(result, arguments) if differentiate else []


def gradients(result: Any, arguments: Any) -> list[torch.Tensor | None]:
    """The gradients of the arguments that want one, for a cotangent without symmetry."""
    leaves = [v for v in tree_flatten(arguments)[0] if isinstance(v, torch.Tensor)]
    leaves = [v for v in leaves if v.requires_grad and v.is_leaf]
    outs = [v for v in tree_flatten(result)[0] if isinstance(v, torch.Tensor) and v.requires_grad]
    if not leaves or not outs:
        return []
    weights = [torch.cos(torch.arange(v.numel())).reshape(v.shape).to(v) for v in outs]
    return list(torch.autograd.grad(outs, leaves, weights, allow_unused=True))


def check(op: Any, samples: int) -> int:
    """Compare up to ``samples`` calls; returns how many. Raises Skip, AssertionError, or what the operator raises."""
    if op.name in UNDEFINED:
        raise Skip("its result is undefined memory")
    if "jiterator" in op.name:
        raise Skip(REASONS["jiterator"])
    if not op.dtypes:
        raise Skip("torch lists no dtype for it on the CPU")
    dtype = torch.float32 if torch.float32 in op.dtypes else sorted(op.dtypes, key=str)[0]
    torch.manual_seed(SEED)
    backward = dtype in op.supported_backward_dtypes("cpu") and op.supports_autograd
    inputs = op.sample_inputs("cpu", dtype, requires_grad=backward)
    made = list(zip(range(samples), inputs, strict=False))
    if not made:
        raise Skip("no sample inputs")
    for _, sample in made:
        compare_one(op, (sample.input, sample.args, sample.kwargs), backward)
    return len(made)


def compare_one(op: Any, arguments: Any, backward: bool) -> None:
    """One call on both devices, with gradients where the CPU has them."""
    there, here = tree_map(on_hpu, arguments), tree_map(copied, arguments)
    try:
        expected = call(op, here, backward)
    except (RuntimeError, NotImplementedError, IndexError) as error:
        if not backward:
            raise Skip(f"fails on the CPU too: {str(error)[:60]}") from error
        return compare_one(op, arguments, backward=False)
    return compare(call(op, there, backward), expected)


def copied(value: Any) -> Any:
    """The same arguments once more on the CPU."""
    if not isinstance(value, torch.Tensor) or not value.numel():
        return value
    return value.detach().clone().requires_grad_(value.requires_grad)


def compare(got: Any, expected: Any) -> None:
    """Same structure; every tensor on hpu; every element the same."""
    flat_got, flat_expected = tree_flatten(got)[0], tree_flatten(expected)[0]
    assert len(flat_got) == len(flat_expected)
    for a, b in zip(flat_got, flat_expected, strict=True):
        if not isinstance(b, torch.Tensor):
            assert a == b or repr(a) == repr(b) == "nan", (a, b)
            continue
        if b.layout is not torch.strided:
            raise Skip(REASONS["sparse"])
        exact = b.dtype.itemsize == 1
        tolerance = 0.0 if exact else 1e-6
        torch.testing.assert_close(a.cpu(), b, rtol=tolerance, atol=tolerance, equal_nan=True)


def run(step: int, samples: int) -> Iterator[tuple[str, str, str]]:
    """(operator, passed | failed | skipped, reason) for every ``step``-th operator."""
    warnings.simplefilter("ignore")
    for op in operators()[::step]:
        name = full_name(op)
        try:
            count = check(op, samples)
            yield name, "passed", f"{count} inputs"
        except Skip as skip:
            yield name, "skipped", str(skip)
        except Exception as error:
            text = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[
                :160
            ]
            known = next((reason for part, reason in REASONS.items() if part in str(error)), "")
            yield name, "skipped" if known else "failed", known or text


def main() -> int:
    """Print the outcome of each failed and skipped operator, and the totals."""
    import hpushim.emulator

    hpushim.emulator.enable()
    step, samples = ([int(a) for a in sys.argv[1:]] + [1, 4][len(sys.argv) - 1 :])[:2]
    totals: Counter[str] = Counter()
    for name, outcome, reason in run(step, samples):
        totals[outcome] += 1
        if outcome != "passed":
            sys.stdout.write(f"{outcome}\t{name}\t{reason}\n")
            sys.stdout.flush()
    sys.stdout.write(f"emulated hpu against cpu, torch {torch.__version__}: {dict(totals)}\n")
    return int(totals["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
