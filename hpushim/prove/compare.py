"""Two runs, step by step: what differs, and by how much where numbers differ."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from hpushim.prove import bounds, metrics
from hpushim.prove.records import Process
from hpushim.prove.runs import Run, failure

#: Operators that carry values about, or make room: two right programs may do so differently.
_CARRY = re.compile(
    r"aten\.(_to_copy|copy_|_copy_from|clone|detach|alias|empty|new_empty|lift|_local_scalar|set_|resize_|view|_unsafe_view|_reshape|expand|"
    r"slice|select|as_strided|is_pinned|_pin_memory|zeros|ones|full|fill_|zero_|record_stream|item|equal)"
)
#: What a tensor of a checkpoint is that holds the state of a generator.
_RANDOM_STATE = ["torch.uint8"]
_EXACT = ("gradients", "parameters")
#: The kind of a difference that is in the bits alone.
BITS = "bits"
_LOOK_AHEAD = 24  # operators
_MARKS = (
    "behind the optimizer's step",
    "between two backward passes",
    "between backward and the optimizer's step",
)
_NUMBER = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?")
_WRAPPER = re.compile(r"(?<=\.)(?:_orig_mod|module)\.")
_DEVICE = re.compile(r"\b(cuda|hpu|cpu)(:0)?\b")


class Difference(msgspec.Struct, frozen=True):
    """The first thing in which two runs differ. ``step`` is 0 where no step is meant; ``place`` a file and line of the second run."""

    kind: str
    what: str
    step: int = 0
    rank: int = 0
    place: tuple[str, int] | None = None
    missing: tuple[str, int] | None = None  # the line of the first run that the second one lacks
    after: int = 0  # pairs of operators of the step that came before


class Comparison(msgspec.Struct):
    """A pair of runs. The numbers are the largest relative differences over all steps."""

    first: str
    second: str
    steps: int = 0
    loss: float = 0.0
    gradients: float = 0.0
    parameters: float = 0.0
    exact: bool = True
    apart: int = 0  # steps whose roundings may have added up: those from the first on that is not equal to the bit
    bound: bounds.Bound | None = None
    difference: Difference | None = None
    notes: list[str] = msgspec.field(default_factory=list)
    numbers: int = 0  # numbers of the output and the logs that were compared, by their text
    odd: list[metrics.Odd] = msgspec.field(default_factory=list)
    float32: bool = False  # both runs once more, without autocast

    @property
    def largest(self) -> float:
        return max(self.loss, self.gradients, self.parameters)


def compare(
    first: Run, second: Run, *, same_device: bool, cut: bool = False, repeats: bool = True
) -> Comparison:
    """``second`` against ``first``. On the ``same_device`` the same numbers are expected, but for the rounding of float32.

    With ``cut`` the second run was ended early, so how the runs end is no difference. Where the first run does not repeat
    its own bits, other bits alone are none either.
    """
    result = Comparison(first.way, second.way)
    processes = [*first.record.processes, *second.record.processes]
    result.bound = bounds.of(processes, narrowest=not same_device)
    found: list[Difference] = []
    _ranks(first, second, result, found, same_device)
    found.sort(key=lambda one: one.step)
    ended = _endings(first, second, result) if not cut else None
    found = [one for one in found if repeats or one.kind != BITS]
    if ended is not None and ended.kind == "error":  # which is why a process did not train
        found = [one for one in found if one.kind != "processes"]
    result.difference = found[0] if found else ended
    _output(first, second, result)
    _metrics(first, second, result, same_device)
    return result


def _metrics(first: Run, second: Run, result: Comparison, same_device: bool) -> None:
    """What the runs print and log. Where the runs end early, so does this."""
    assert result.bound is not None
    ours, theirs = metrics.of(first), metrics.of(second)
    ranks = max(len(first.record.processes), 1)
    result.numbers = len(ours.keys() & theirs.keys())
    limit = min(result.bound.at(max(result.apart, 1)), 1.0)
    result.odd = list(metrics.odd(ours, theirs, limit, ranks=ranks, decimals=not same_device))


def _ranks(
    first: Run, second: Run, result: Comparison, found: list[Difference], same_device: bool
) -> None:
    ours, theirs = first.record.processes, second.record.processes
    if len(ours) != len(theirs) and ours and theirs:
        what = f"{len(theirs)} processes trained, {len(ours)} expected"
        found.append(Difference("processes", what))
    for one, other in zip(ours, theirs, strict=False):
        if one.by_hand != other.by_hand:
            continue  # one of them never came to its optimizer; how it ended is reported
        before = len(found)
        found += _seeds(one, other)
        _steps(one, other, result, found, same_device)
        _operators(one, other, result, found, same_device)
        if len(found) == before:
            _saved(one, other, result, found, same_device)


def _seeds(one: Process, other: Process) -> Iterator[Difference]:
    """The first seed of torch's that another one was expected for. It comes before all steps."""
    for a, b in zip(one.seeds, other.seeds, strict=False):
        if a["value"] != b["value"]:
            what = f"torch.manual_seed({b['value']}), {a['value']} expected"
            yield Difference("seed", what, rank=max(one.rank, 0), place=_placed(b))
            return


def _endings(first: Run, second: Run, result: Comparison) -> Difference | None:
    """What differs in how the runs end."""
    done, more = first.record.steps, second.record.steps
    if _by_hand(first) != _by_hand(second):
        done, more = (0 if _by_hand(first) else done), (0 if _by_hand(second) else more)
    wrong = failure(second)
    if second.code is None and first.code is not None and (more < done or not done):
        result.notes.append(f"the {second.title} run was stopped after {second.seconds:.0f} s")
        return None
    if first.code is None:
        return None
    if wrong and (not failure(first) or more < done):
        place = tuple(wrong["places"][-1]) if wrong["places"] else None
        return Difference("error", f"{wrong['kind']}: {wrong['message']}", more + 1, place=place)
    if first.code != second.code:
        return Difference("exit", f"exit code {second.code}, {first.code} expected", more + 1)
    if done != more:
        steps = first.record.processes[0].steps if first.record.processes else []
        lacking = _placed(steps[more]) if more < len(steps) else None
        what = f"{more} optimizer steps, {done} expected"
        return Difference("steps", what, min(done, more) + 1, missing=lacking)
    return None


def _by_hand(run: Run) -> bool:
    return any(process.by_hand for process in run.record.processes)


def _steps(
    one: Process, other: Process, result: Comparison, found: list[Difference], same: bool
) -> None:
    assert result.bound is not None
    scale = max((abs(float(x["value"])) for s in one.steps for x in s["losses"]), default=0.0) / 100
    steepest = max((_norm(s["gradients"]) for s in one.steps), default=0.0) / 100
    count = alike = 0
    for step, (a, b) in enumerate(zip(one.steps, other.steps, strict=False), 1):
        count = step
        if alike == step - 1 and _is_alike(a, b):
            alike = step
        limit = result.bound.at(max(step - alike, 1))
        if _goes_on(one.steps, step):
            a = {**a, "marks": [0, *a["marks"][1:]]}  # the mark behind the last of them is enough
        wrong = _step(a, b, result, limit, scale, steepest, same)
        if wrong is not None:
            result.exact = False
            found.append(msgspec.structs.replace(wrong, step=step, rank=max(one.rank, 0)))
            break
    result.steps = max(result.steps, count)
    result.apart = max(result.apart, count - alike)


def _goes_on(steps: list[dict[str, Any]], number: int) -> bool:
    """Whether another optimizer steps directly before this one, with no backward pass between: the two are one piece of work."""
    a = steps[number - 1]
    return number > 1 and not a["losses"] and steps[number - 2]["optimizer"] != a["optimizer"]


def _is_alike(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Whether a step is the same to the bit."""
    losses = [[x["value"] for x in one["losses"]] for one in (a, b)]
    return losses[0] == losses[1] and all(a[n]["bits"] == b[n]["bits"] for n in _EXACT if a[n] and b[n])  # fmt: skip


def _step(
    a: dict[str, Any],
    b: dict[str, Any],
    result: Comparison,
    limit: float,
    scale: float,
    steepest: float,
    same: bool,
) -> Difference | None:
    """What is wrong with one step of the second run; its number is filled in later."""
    back, step = (_placed(b["losses"][-1]) if b["losses"] else None), _placed(b)
    if a["optimizer"] != b["optimizer"]:
        what = f"optimizer {b['optimizer']} stepped, {a['optimizer']} expected"
        return Difference("optimizer", what, place=step)
    if odd := _odd_options(a, b, limit):
        return Difference("optimizer", odd)
    if len(a["losses"]) != len(b["losses"]):
        what = f"backward ran {len(b['losses'])} times, {len(a['losses'])} expected"
        # A step without any is one step too many.
        lacks = 0 < len(b["losses"]) < len(a["losses"])
        lacking = _placed(a["losses"][len(b["losses"])]) if lacks else None
        return Difference("backward", what, place=back or step, missing=lacking)
    if same and (odd := _odd_parameters(a, b)):
        return Difference("parameters", odd)
    for x, y in zip(a["losses"], b["losses"], strict=True):
        if same and (x["dtype"], x["device"]) != (y["dtype"], y["device"]):
            what = (
                f"the loss is {y['dtype']} on {y['device']}, {x['dtype']} on {x['device']} expected"
            )
            return Difference("loss", what)
        far = distance(float(x["value"]), float(y["value"]), scale)
        result.loss = max(result.loss, far)
        if far > limit:
            what = f"loss {float(y['value']):.6g}, {float(x['value']):.6g} expected ({far:.1e} apart, rounding explains {limit:.1e})"
            return Difference("loss", what)
    for name, least in (("gradients", steepest), ("parameters", 0.0)):
        x, y = _norm(a[name]), _norm(b[name])
        far = max(distance(x, y, least), _tensors_apart(a[name], b[name], max(x, y, least)))
        setattr(result, name, max(getattr(result, name), far))
        result.exact = result.exact and a[name]["bits"] == b[name]["bits"]
        if name == "gradients" and (odd := _without_gradients(a, b)):
            return Difference(name, odd)
        if far > limit or a[name]["count"] != b[name]["count"]:
            what = f"norm of the {name} {y:.6g} of {b[name]['count']} tensors, {x:.6g} of {a[name]['count']} expected"
            if distance(x, y, least) <= limit and a[name]["count"] == b[name]["count"]:
                what = f"the {name} of single tensors are {far:.1e} apart, rounding explains {limit:.1e}"
            return Difference(name, what)
    if any(distance(x, y) > limit for x, y in zip(a["rates"], b["rates"], strict=False)) or len(
        a["rates"]
    ) != len(b["rates"]):
        what = f"learning rates {b['rates']}, {a['rates']} expected"
        return Difference("rate", what)
    on_hpu = any("hpu" in kind for kind in (*_kinds(b["parameters"]), *_kinds(b["gradients"])))
    for number, words in enumerate(_MARKS):
        if same and on_hpu and a["step"] > 1 and a["marks"][number] and not b["marks"][number]:
            what = (
                f"no mark_step {words}: in lazy mode the work of several steps would gather there"
            )
            if not b.get("loop"):
                return Difference("marks", what, place=back if number else step)
            if not any(note.startswith("no mark_step") for note in result.notes):
                result.notes.append(
                    f"{what}; the loop is in {b['loop']}, out of a rewrite's reach: use eager mode (PT_HPU_LAZY_MODE=0)"
                )
    return None


def _odd_options(a: dict[str, Any], b: dict[str, Any], limit: float) -> str:
    """Which option of the optimizer is another one in the second run, in words; empty where none."""
    for x, y in zip(a.get("options") or (), b.get("options") or (), strict=False):
        for name in x.keys() & y.keys():
            if not _is_option(x[name], y[name], limit):
                return f"the optimizer's {name} is {y[name]}, {x[name]} expected"
    return ""


def _is_option(x: Any, y: Any, limit: float) -> bool:
    """Whether two values of an option are the same, but for the rounding of what was computed."""
    if isinstance(x, list) and isinstance(y, list) and len(x) == len(y):
        return all(_is_option(v, w, limit) for v, w in zip(x, y, strict=True))
    if isinstance(x, float) and isinstance(y, (int, float)):
        return distance(x, float(y)) <= limit
    return bool(x == y)


def _tensors_apart(a: dict[str, Any], b: dict[str, Any], scale: float) -> float:
    """How far apart some tensors are at least, seen by what is known of each, as a share of ``scale``."""
    ours, theirs = a.get("each") or [], b.get("each") or []
    if len(ours) != len(theirs) or not scale:
        return 0.0
    squares = (max(abs(v - w) for v, w in zip(x, y, strict=True)) ** 2 for x, y in zip(ours, theirs, strict=True))  # fmt: skip
    total = sum(squares)
    return math.sqrt(total) / scale if math.isfinite(total) else 0.0


def _odd_parameters(a: dict[str, Any], b: dict[str, Any]) -> str:
    """Which parameters the optimizer of the second run lacks, has beside, or has otherwise, in words; empty where none."""
    if _kinds(a["parameters"]) == _kinds(b["parameters"]):
        return ""
    ours, theirs = a.get("names") or {}, b.get("names") or {}
    for one, other, what in ((ours, theirs, "is not"), (theirs, ours, "is also")):
        if odd := [name for name in one if name not in other]:
            return f"parameter {_some(odd)} {what} in the optimizer"
    if odd := [name for name in ours if ours[name] != theirs[name]]:
        return f"parameter {_some(odd)} is {theirs[odd[0]]}, {ours[odd[0]]} expected"
    return f"the optimizer's parameters are {_shown(b['parameters'])}; {_shown(a['parameters'])} expected"


def _without_gradients(a: dict[str, Any], b: dict[str, Any]) -> str:
    """Which parameters have no gradient in the second run, or only there, in words; empty where none."""
    ours, theirs = a.get("without", []), b.get("without", [])
    for one, other, what in (
        (theirs, ours, "no gradient"),
        (ours, theirs, "a gradient, none expected"),
    ):
        if odd := [name for name in one if name and name not in other]:
            return f"parameter {_some(odd)} has {what}"
    return ""


def _some(names: list[str]) -> str:
    return names[0] + (f" (and {len(names) - 1} more)" if len(names) > 1 else "")


def distance(a: float, b: float, scale: float = 0.0) -> float:
    """How far apart two numbers are, as a share of the larger one, or of ``scale`` if that is larger still."""
    if a == b or (math.isnan(a) and math.isnan(b)):
        return 0.0
    if not (math.isfinite(a) and math.isfinite(b)):
        return math.inf
    return abs(a - b) / max(abs(a), abs(b), scale)


def _norm(found: dict[str, Any] | None) -> float:
    return float(found["norm"]) if found else 0.0


def _kinds(found: dict[str, Any]) -> dict[str, int]:
    kinds: dict[str, int] = found["kinds"]
    return kinds


def _shown(found: dict[str, Any]) -> str:
    return ", ".join(f"{count} in {kind}" for kind, count in sorted(_kinds(found).items()))


def _operators(
    one: Process, other: Process, result: Comparison, found: list[Difference], same: bool
) -> None:
    for step in sorted(one.operators.keys() & other.operators.keys()):
        a, b = one.operators[step], other.operators[step]
        if _sent(a, same) != _sent(b, same):
            what = f"collectives {_sent(b, same)}, {_sent(a, same)} expected"
            place, lacking = _odd_collective(a["collectives"], b["collectives"], same)
            found.append(Difference("collective", what, step, max(one.rank, 0), place, lacking))
            return
        wrong = first_operator(a, b) if same else None
        if same and wrong is None and _bits(one, step) != _bits(other, step):
            what = "the same operators gave different bits: a value was changed between them"
            found.append(Difference(BITS, what, step, max(one.rank, 0)))
            return
        if wrong is not None:
            what, at = wrong.what, f" ({wrong.place[0]}:{wrong.place[1]})" if wrong.place else ""
            if wrong.kind == "operator" and _bits(one, step) == _bits(other, step):
                ran = what.removesuffix(", which the reference run does not do")
                what = f"the copy computes the same values differently: {ran}{at}"
            result.notes.append(f"step {step}: {what}")
            if wrong.kind in ("device", "dtype"):
                found.append(msgspec.structs.replace(wrong, step=step, rank=max(one.rank, 0)))
            return


def _sent(noted: dict[str, Any], same: bool) -> dict[str, int]:
    """Bytes sent by collective and, on the ``same`` device, by the size of its group."""
    sent: dict[str, int] = {}
    for one in noted["collectives"]:
        name = f"{one['name']} of {one['group']}" if same and one["group"] else one["name"]
        sent[name] = sent.get(name, 0) + one["bytes"]
    return sent


def _odd_collective(
    ours: list[dict[str, Any]], theirs: list[dict[str, Any]], same: bool
) -> tuple[tuple[str, int] | None, tuple[str, int] | None]:
    """The line of the first collective that only the second run has, or has otherwise; or of one that it lacks."""
    one, other = ([_kind(sent, same) for sent in run] for run in (ours, theirs))
    at = next((n for n, (x, y) in enumerate(zip(one, other, strict=False)) if x != y), min(len(one), len(other)))  # fmt: skip
    if len(other) < len(one):
        return None, _placed(ours[at])
    return (_placed(theirs[at]) if at < len(theirs) else None), None


def _kind(sent: dict[str, Any], same: bool) -> tuple[Any, ...]:
    return (sent["name"], sent["bytes"], sent["group"] if same else None)


def _bits(process: Process, step: int) -> list[Any]:
    """The exact checksums of one step; nothing for a step that was not made."""
    return [s[name]["bits"] for s in process.steps[step - 1 : step] for name in _EXACT]


def _placed(noted: dict[str, Any]) -> tuple[str, int] | None:
    place = noted.get("place")
    return (str(place[0]), int(place[1])) if place else None


def first_operator(
    a: dict[str, Any], b: dict[str, Any], within: float | None = None
) -> Difference | None:
    """The first operator of a step that is another one in the second run, or has another result, shape, dtype or device.

    With ``within`` the runs were on two devices: other dtypes and kernels are as expected there, and values may be as far apart.
    """
    ours = [op for op in a["operators"] if not _CARRY.match(op[0])]
    theirs = [op for op in b["operators"] if not _CARRY.match(op[0])]
    missing: tuple[str, int] | None = None
    for after, (x, y) in enumerate(_aligned(ours, theirs)):
        if y is None:
            # What the shim does beside, such as looking for infinite gradients; or what the copy lacks.
            missing = tuple(x[2]) if x[2] else missing
            continue
        place = tuple(y[2]) if y[2] else None
        if x is None:
            if within is not None and "rand" not in y[0]:
                continue  # another kernel for the same
            return Difference(
                "operator",
                f"{y[0]} ran, which the reference run does not do",
                place=place,
                after=after,
            )
        if within is None and x[4] != y[4]:
            what = f"{y[0]} was given tensors on {' and '.join(y[4])}, on {' and '.join(x[4])} expected"
            return Difference("device", what, place=place, after=after)
        for (dtype, device, shape), (dtype2, device2, shape2) in zip(x[1], y[1], strict=False):
            if within is not None and shape == shape2:
                continue
            if device != device2:
                what = f"{y[0]} ran on {device2}, on {device} expected"
                return Difference("device", what, place=place, after=after)
            if (dtype, shape) != (dtype2, shape2):
                what = f"{y[0]} gave {dtype2}{shape2}, {dtype}{shape} expected"
                kind = "dtype" if shape == shape2 else "operator"
                return Difference(kind, what, place=place, after=after)
        for v, w in zip(x[5], y[5], strict=False) if len(x) > 5 and len(y) > 5 else ():
            if v is not None and w is not None and distance(float(v), float(w)) > (within or 1e-6):
                what = f"{y[0]} gave different values (sum {float(w):.6g}, {float(v):.6g} expected)"
                return Difference("operator", what, place=place, missing=missing, after=after)
        missing = None
    return None


def _aligned(ours: list[Any], theirs: list[Any]) -> Iterator[tuple[Any, Any]]:
    """The operators in pairs by name; None beside one that only the other run has."""
    i = j = 0
    while i < len(ours) and j < len(theirs):
        if _base(ours[i][0]) == _base(theirs[j][0]):
            yield ours[i], theirs[j]
            i, j = i + 1, j + 1
            continue
        ahead = _ahead(ours, theirs, i, j)
        if ahead is None:
            yield None, theirs[j]
            i, j = i + 1, j + 1
            continue
        yield from ((one, None) for one in ours[i : ahead[0]])
        yield from ((None, one) for one in theirs[j : ahead[1]])
        i, j = ahead
    yield from ((one, None) for one in ours[i:])
    yield from ((None, one) for one in theirs[j:])


def _ahead(ours: list[Any], theirs: list[Any], i: int, j: int) -> tuple[int, int] | None:
    """Where both go on alike, for two operators at least, the fewest left out."""
    for skipped in range(1, _LOOK_AHEAD):
        for k in range(skipped + 1):
            a, b = i + skipped - k, j + k
            names = [_base(op[0]) for op in ours[a : a + 2]]
            if names and names == [_base(op[0]) for op in theirs[b : b + 2]]:
                return a, b
    return None


def _base(name: str) -> str:
    return name.split(".")[1].rstrip("_").removesuffix("_overrideable") if "." in name else name


def _saved(
    one: Process, other: Process, result: Comparison, found: list[Difference], same: bool
) -> None:
    """Checkpoints: the same files in the same order, with equal tensors; on another device perhaps that device's random state too."""
    assert result.bound is not None
    for a, b in zip(one.saved, other.saved, strict=False):
        if not same and a["step"] != b["step"]:
            break
        limit = result.bound.at(max(min(a["step"], result.apart), 1))
        ours, theirs = a["leaves"], b["leaves"]
        if not same and ours.keys() != theirs.keys():
            ours, theirs = _unwrapped(ours), _unwrapped(theirs)
            if len({*a["leaves"]} ^ {*b["leaves"]}) > len({*ours} ^ {*theirs}):
                _note(result, f"checkpoint {b['file']} holds the model inside a wrapper (`torch.compile`, `DataParallel`) on one device alone")  # fmt: skip
        more = theirs.keys() - ours.keys()
        if more and not same and all(theirs[name][2:3] == _RANDOM_STATE for name in more):
            _note(result, f"checkpoint {b['file']} also holds {min(more).lstrip('.')}")
            more = set()
        if more or ours.keys() - theirs.keys():
            odd = sorted(ours.keys() ^ theirs.keys())
            what = f"checkpoint {b['file']}: entries differ, first {odd[0]}"
            found.append(Difference("checkpoint", what, a["step"]))
            return
        for name, x in ours.items():
            y = theirs[name]
            if len(x) != len(y) or x[2:] != y[2:]:
                what = f"checkpoint {b['file']}: {name.lstrip('.')} is {y[2:]}, {x[2:]} expected"
                found.append(Difference("checkpoint", what, a["step"]))
                return
            if len(x) > 1 and distance(float(x[0]), float(y[0])) > limit:
                what = f"checkpoint {b['file']}: {name.lstrip('.')} has norm {float(y[0]):.6g}, {float(x[0]):.6g} expected"
                found.append(Difference("checkpoint", what, a["step"]))
                return
    if len(one.saved) != len(other.saved) and len(one.steps) == len(other.steps):
        what = f"{len(other.saved)} checkpoints saved, {len(one.saved)} expected"
        if same:
            found.append(Difference("checkpoint", what, len(other.steps)))
        else:  # "the best so far" hangs on a number that is rounded otherwise
            result.notes.append(f"{what}: a decision to save may depend on rounding")


def _unwrapped(leaves: dict[str, Any]) -> dict[str, Any]:
    """The entries of a checkpoint without the names of wrappers: a script may compile or spread its model on a device and not on the CPU."""
    bare = {_WRAPPER.sub("", name): leaf for name, leaf in leaves.items()}
    return bare if len(bare) == len(leaves) else leaves


def _note(result: Comparison, note: str) -> None:
    if note not in result.notes:
        result.notes.append(note)


def _output(first: Run, second: Run, result: Comparison) -> None:
    """Says where the outputs differ in words; numbers and devices are compared elsewhere."""
    ours, theirs = _words(first.output), _words(second.output)
    for number, (x, y) in enumerate(zip(ours, theirs, strict=False), 1):
        if x != y:
            result.notes.append(f"output differs from line {number}: {y[:100]!r}, {x[:100]!r} expected")  # fmt: skip
            return
    if len(ours) != len(theirs):
        result.notes.append(f"output has {len(theirs)} lines, {len(ours)} expected")


def _words(text: str) -> list[str]:
    lines = text.replace("\r", "\n").splitlines()
    plain = (_NUMBER.sub("#", _DEVICE.sub("<device>", line)).split() for line in lines)
    return [" ".join(words) for words in plain if words]
