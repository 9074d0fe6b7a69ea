"""Every operator that torch's own test suite describes, on hpu and on the CPU, results and gradients, element by element.

``python tests/emulator/operator_check.py [STEP [SAMPLES]]`` checks every STEP-th operator (default 1) with up to SAMPLES
inputs each (default 4) and prints what passed, failed and was skipped, with reasons. With ``--traced`` as the first word each
operator is traced by ``torch.jit.trace`` on both devices and the trace asked about other inputs; with ``--strided`` its inputs are
transposed in memory, with ``--sliced`` every second element of larger ones, with ``--channels-last`` in that layout, and those whose
results have other strides than the CPU's are counted apart.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
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


def check(op: Any, samples: int, one: Callable[[Any, Any, bool], None] | None = None) -> int:
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
        (one or compare_one)(op, (sample.input, sample.args, sample.kwargs), backward)
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


def trace_one(op: Any, arguments: Any, backward: bool) -> None:
    """A trace of the operator on hpu answers other inputs as the operator does there, where the CPU's trace does."""
    place = [v for v in tree_flatten(arguments)[0] if isinstance(v, torch.Tensor)]
    floating = [v for v in place if v.is_floating_point() and v.numel()]
    if not floating:
        raise Skip("no floating input to change")

    def answers(where: str) -> tuple[Any, Any]:
        flat, spec = tree_flatten(arguments)
        tensors = [v for v in flat if isinstance(v, torch.Tensor)]

        def called(*given: torch.Tensor) -> Any:
            left = iter(given)
            full = [next(left) if isinstance(v, torch.Tensor) else v for v in flat]
            first, args, kwargs = torch.utils._pytree.tree_unflatten(full, spec)
            torch.manual_seed(SEED)
            return tree_flatten(op(first, *args, **kwargs))[0]

        given = [(on_hpu(v) if where == "hpu" else v).detach().clone() for v in tensors]
        other = [v * 0.75 if v.is_floating_point() else v for v in given]
        traced = torch.jit.trace(called, tuple(given), check_trace=False)
        return traced(*(v.clone() for v in other)), called(*(v.clone() for v in other))

    try:
        expected = answers("cpu")
        compare([v.cpu() for v in expected[0]], expected[1])
    except Skip:
        raise
    except Exception as error:
        raise Skip("the CPU's trace does not do it either") from error
    got = answers("hpu")
    compare(got[0], [v.cpu() if isinstance(v, torch.Tensor) else v for v in got[1]])


other_strides: list[str] = []


def transposed(value: torch.Tensor) -> torch.Tensor:
    return value.transpose(0, -1).contiguous().transpose(0, -1)


def sliced(value: torch.Tensor) -> torch.Tensor:
    """Every second element of a larger tensor."""
    return value.repeat_interleave(2, -1)[..., ::2]


def channels_last(value: torch.Tensor) -> torch.Tensor:
    kinds = {4: torch.channels_last, 5: torch.channels_last_3d}
    return value.contiguous(memory_format=kinds.get(value.dim(), torch.contiguous_format))


def lies(how: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Any, Any, bool], None]:
    """The operator over inputs that lie in memory otherwise."""

    def turned(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.layout is torch.strided and value.dim() > 1:
            with torch.no_grad():
                return how(value.detach())
        return value

    def one(op: Any, arguments: Any, backward: bool) -> None:
        turned_arguments = tree_map(turned, arguments)
        there, here = tree_map(on_hpu, turned_arguments), tree_map(copied_as_it_lies, turned_arguments)  # fmt: skip
        try:
            expected = call(op, here, differentiate=False)
        except (RuntimeError, NotImplementedError, IndexError) as error:
            raise Skip(f"fails on the CPU too: {str(error)[:60]}") from error
        got = call(op, there, differentiate=False)
        compare(got, expected)
        pairs = zip(tree_flatten(got)[0], tree_flatten(expected)[0], strict=True)
        if any(isinstance(b, torch.Tensor) and a.stride() != b.stride() for a, b in pairs):
            other_strides.append(full_name(op))

    return one


#: What an operator can be checked for beside its results.
KINDS = {
    "--traced": trace_one,
    "--strided": lies(transposed),
    "--sliced": lies(sliced),
    "--channels-last": lies(channels_last),
}


def copied_as_it_lies(value: Any) -> Any:
    """The same once more on the CPU, with its strides."""
    if not isinstance(value, torch.Tensor) or not value.numel():
        return value
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype).copy_(value)


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


def run(
    step: int, samples: int, one: Callable[[Any, Any, bool], None] | None = None, first: int = 0
) -> Iterator[tuple[str, str, str]]:
    """(operator, passed | failed | skipped, reason) for every ``step``-th operator, from the ``first`` on."""
    warnings.simplefilter("ignore")
    for op in operators()[first::step]:
        name = full_name(op)
        try:
            count = check(op, samples, one)
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
    kind = KINDS.get(sys.argv[1] if sys.argv[1:] else "")
    numbers = [int(a) for a in sys.argv[1 + (kind is not None) :]]
    step, samples = (numbers + [1, 4][len(numbers) :])[:2]
    totals: Counter[str] = Counter()
    for name, outcome, reason in run(step, samples, kind):
        totals[outcome] += 1
        if outcome != "passed":
            sys.stdout.write(f"{outcome}\t{name}\t{reason}\n")
            sys.stdout.flush()
    if other_strides:
        names = sorted(set(other_strides))
        sys.stdout.write(f"{len(names)} operators give other strides (HPU519): {' '.join(names)}\n")
    sys.stdout.write(f"emulated hpu against cpu, torch {torch.__version__}: {dict(totals)}\n")
    return int(totals["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
