"""The totals of a ledger in words, at their borders, and how the ledgers of several processes are added up."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hpushim.ledgers import events, join, summary
from hpushim.ledgers.model import (  # fmt: skip
    Advice,
    Break,
    Cause,
    Compute,
    DemotionLine,
    Difference,
    Event,
    Group,
    Ledger,
    LeftOut,
    Line,
    Process,
    Records,
    Site,
    Steps,
    Summary,
)
from hpushim.ledgers.stages import stages
from hpushim.ledgers.together import Together
from hpushim.matrix import load
from hpushim.model import FileResult, Finding, Report, Span, Target

M = load()


def _books(**how: Any) -> Records:
    return Records(1, True, True, **how)


def _ledger(processes: int = 1, **how: Any) -> Ledger:
    more = {name: how.pop(name) for name in ("later", "left_out", "unfinished", "written") if name in how}  # fmt: skip
    return Ledger("l.json", processes, _books(**how), _books(**how), **more)


SHAPE, NUMBER = Difference("self", "4", "5", "dimension", 0), Difference("alpha", "1", "2", "number")  # fmt: skip


@pytest.mark.parametrize(
    ("causes", "first"),
    [
        ((), ""), ((Cause("x", 1, (NUMBER,), 0, "a/b.py", 3),), ""), ((Cause("x", 1, (SHAPE,), 0, "a/b.py", 3),), "; the first at b.py:3"), ((Cause("x", 1, (SHAPE,), 0, "a/b.py", 0),), ""),
        ((Cause("x", 1, (NUMBER,), 0, "n.py", 1), Cause("x", 1, (SHAPE, NUMBER), 0, "", 0), Cause("x", 1, (), 0, "c.py", 9), Cause("x", 1, (SHAPE,), 0, "d.py", 1)), "; the first at c.py:9"),
    ],
)  # fmt: skip
def test_the_first_shape_that_was_another(causes: tuple[Cause, ...], first: str) -> None:
    ledger = _ledger(recompilations=5, recompilations_by_number=2, recompilation_causes=causes)
    facts = {fact.name: fact for fact in summary._facts(ledger, M)}
    assert facts["recompilations by shapes"].value == f"3{first}"
    none = {fact.name: fact for fact in summary._facts(_ledger(recompilations=2, recompilations_by_number=2, recompilation_causes=causes), M)}  # fmt: skip
    assert none["recompilations by shapes"].value == "0"
    assert [bool(facts["recompilations by shapes"].advice), bool(none["recompilations by shapes"].advice), bool(none["recompilations by numbers"].advice)] == [True, False, True]  # fmt: skip


@pytest.mark.parametrize(("amount", "text"), [(0, "0 bytes"), (999, "999 bytes"), (1000, "1 kB"), (1234, "1.23 kB"), (10**6, "1 MB"), (10**9, "1 GB"), (10**12, "1 TB"), (2 * 10**15, "2e+03 TB")])  # fmt: skip
def test_amounts_have_three_figures(amount: int, text: str) -> None:
    assert summary.bytes_text(amount) == text


@pytest.mark.parametrize("some", [True, False])
def test_each_total_has_its_words(some: bool) -> None:
    n = int(some)
    groups = (Group("hccl", "hpu", 8), Group("gloo", "cpu", 2), Group("hccl", "hpu", 8))
    ledger = _ledger(
        1 + n, mode="lazy" if some else "eager", operators=1200, graphs=2000, graph_runs=3000, host_syncs=n, cpu_fallbacks=n, graph_breaks=(Break("x", 2), Break("y", 3)) * n,
        demotion_lines=(DemotionLine("f", 1, "b"), DemotionLine("f", 2, "a"), DemotionLine("f", 3, "b")) * n, host_to_device=1000, device_to_host=2000, host_to_device_bytes=1000, device_to_host_bytes=2,
        collectives=1000 * n, process_groups=groups, parameters={"hpu": 1000, "cpu": 2} if some else {}, later=(4 * n, 6),
    )  # fmt: skip
    found = list(summary._facts(ledger, M))
    unit = "in lazy mode a graph is what runs from one mark or read to the next" if some else "in eager mode each operator is a graph, also where torch.compile would join some"  # fmt: skip
    values = {
        "operators on hpu": "1,200 in 2 processes" if some else "1,200", "graphs": f"2,000 compiled, run 3,000 times; {unit}", **({"graphs that torch.compile ended": "5"} if some else {}),
        "recompilations by shapes": "0", "recompilations by numbers": "0", "host syncs": "1; 1.5 a step, the first step left out" if some else "0", "CPU fallbacks": str(n), "dtypes kept narrower": "a; b" if some else "none",
        "copied to the device": "1,000 times, 1 kB", "copied to the host": "2,000 times, 2 bytes", **({"collectives": "1,000 over gloo of 2, hccl of 8", "parameters at the first step": "2 on cpu, 1,000 on hpu"} if some else {}),
    }  # fmt: skip
    assert {fact.name: fact.value for fact in found} == values
    told = {"graphs that torch.compile ended", "host syncs", "CPU fallbacks"} if some else set()
    assert {fact.name for fact in found if fact.advice} == told
    peak = next(iter(summary._memory(ledger, M)))
    assert (" of the process that took most" in peak.value) is some and peak.advice
    verdict = summary._verdict(_books(operators=n, gaudi="gaudi2", mode="eager", compute_operators=Compute(3 * n, 1000), first_compute_on_cpu="a.py:1" if some else ""))  # fmt: skip
    assert verdict == ("On the emulated Gaudi 2 ran 3 of 1,003 matrix products, convolutions and the like (eager mode)." if some else "Nothing ran on hpu: 1,000 matrix products, convolutions and the like ran on the CPU.")  # fmt: skip
    plain = summary._verdict(_books(operators=n, compute_operators=Compute(1000, None), first_compute_on_cpu="b.py:2"))  # fmt: skip
    assert plain == ("On the emulated Gaudi ran all 1,000 matrix products, convolutions and the like ( mode)." if some else "Nothing ran on hpu: 0 matrix products, convolutions and the like ran on the CPU, the first b.py:2.")  # fmt: skip


@pytest.mark.parametrize(("more", "said"), [(0, "100 %"), (1, "100 %: more than the device has")])
def test_memory_of_a_card(more: int, said: str) -> None:
    peak = M.generations["gaudi2"].memory_bytes + more
    assert [fact.value for fact in summary._memory(_ledger(peak_bytes=peak), M)][1] == said


def test_what_came_after_the_last_step() -> None:
    entries = ({"operators": 2, "host_syncs": 1}, {"operators": 3, "host_syncs": 9})
    found = summary._after(_books(operators=9, host_syncs=7, device_to_host=1, steps=Steps(2, 1, entries)))  # fmt: skip
    assert found == {"operators": 4, "recompilations": 0, "host_syncs": 0, "device_to_host": 1, "device_to_host_bytes": 0}  # fmt: skip
    assert summary._after(_books(operators=9)) == {}
    assert [summary.steps_text(Steps(*numbers)) for numbers in ((0, 3), (1, 1), (1200, 2))] == ["no step of an optimizer was seen", "1 step of one optimizer", "1,200 steps of 2 optimizers"]  # fmt: skip
    assert [one.reason for one in summary._breaks(_books(graph_breaks=(Break("few", 1), Break("many", 2))))] == ["many", "few"]  # fmt: skip


@pytest.mark.parametrize("sites", [True, False])
@pytest.mark.parametrize("operators", [1, 0])
@pytest.mark.parametrize("more", [True, False])
def test_notes_say_what_is_missing(tmp_path: Path, sites: bool, operators: int, more: bool) -> None:
    for name, at in (("old.py", 50), ("same.py", 100), ("new.py", 101)):
        (tmp_path / name).write_text("")
        os.utime(tmp_path / name, (at, at))
    lines = tuple(Line(str(tmp_path / name), 1, own, name) for name, own in (("old.py", True), ("same.py", True), ("new.py", True), ("new.py", True), ("new.py", False), ("gone.py", True), ("a\0b", True)))  # fmt: skip
    ledger = _ledger(operators=operators, sites=(Site("f", 1, "k", "w", 1),) * sites, written=100.0, left_out=(("", LeftOut(1000, 2000)), ("rank1", LeftOut(1, 2))) * more, unfinished=("/x/a.rank1", "b") * more)  # fmt: skip
    notes = list(summary._notes(ledger, lines if more else lines[:2]))
    wanted = ["No line was recorded."] * (not sites and operators)
    if more:
        wanted += [f"{who}: {sites_:,} events at further lines and {causes:,} causes of recompilations had no room and are missing here; the totals count them." for who, sites_, causes in (("The first process", 2000, 1000), ("rank1", 2, 1))]  # fmt: skip
        wanted += ["Changed since the run, so that its lines may have moved: new.py; run it again.", "Not finished, and so not counted: a.rank1, b."]  # fmt: skip
    assert notes[1:] == wanted


@pytest.mark.parametrize(
    ("file", "own", "shown"),
    [("/w/p/a.py", True, "a.py"), ("/w/p/in/a.py", True, "in/a.py"), ("/w/q/a.py", True, "/w/q/a.py"), ("<string>", False, "<string>"), ("/v/site-packages/lib/a.py", False, "lib/a.py"),
     ("/v/site-packages/x/dist-packages/y/a.py", False, "y/a.py"), ("site-packages/a.py", False, "site-packages/a.py"), ("/site-packages/a.py", False, "a.py")],
)  # fmt: skip
def test_whose_file_it_is_and_how_it_is_shown(file: str, own: bool, shown: str) -> None:
    assert (summary.is_own(file), summary._shown(file, Path("/w/p"))) == (own, shown)


def test_source_is_that_which_ran(tmp_path: Path) -> None:
    for name in ("a.py", "a.txt", "new.py"):
        (tmp_path / name).write_bytes("\ufeff  first \n\n last".encode())
        os.utime(tmp_path / name, (100, 101 if name == "new.py" else 100))
    sources = summary._Sources(100.0)
    lines = [sources.line(str(tmp_path / "a.py"), number) for number in (-1, 0, 1, 2, 3, 4)]
    assert lines == ["", "", "first", "", "last", ""]
    for name in ("a.txt", "new.py", "gone.py", "a\0.py"):
        assert sources.line(str(tmp_path / name), 1) == ""


def test_lines_are_sorted_and_know_which_shape_came_first() -> None:
    causes = (Cause("aten::a", 1, (NUMBER,), 0, "/w/a.py", 1), Cause("aten::b", 1, (SHAPE,), 0, "/w/a.py", 1), Cause("aten::c", 1, (SHAPE,), 0, "/w/a.py", 1), Cause("aten::d", 1, (SHAPE,), 0, "/v/site-packages/l.py", 2))  # fmt: skip
    sites = tuple(Site(file, line, "host_sync", "item", 1) for file, line in (("/v/site-packages/l.py", 2), ("/w/b.py", 3), ("/w/a.py", 1), ("/w/b.py", 2)))  # fmt: skip
    found = summary._lines(_books(sites=sites, recompilation_causes=causes), M, Path("/w"), 0.0)
    assert [(line.shown, line.line, line.own, line.first_change) for line in found] == [("a.py", 1, True, 2), ("b.py", 2, True, 0), ("b.py", 3, True, 0), ("l.py", 2, False, 4)]  # fmt: skip


def _entry(**how: int) -> dict[str, int]:
    return {"steps": 1, **how}


def test_processes_are_added_up() -> None:
    cause, site = Cause("aten::mm", 2, (SHAPE,), 3, "a.py", 1), Site("a.py", 1, "host_sync", "item", 2, 8)  # fmt: skip
    first = _books(gaudi="gaudi2", mode="lazy", operators=3, peak_bytes=50, parameters={"hpu": 1}, recompilation_causes=(cause,), sites=(site,), graph_breaks=(Break("x", 1),), compute_operators=Compute(1, None),
                   demotion_lines=(DemotionLine("a.py", 1, "w"),), process_groups=(Group("hccl", "hpu", 2),), steps=Steps(2, 1, (_entry(host_syncs=5), _entry(host_syncs=7))))  # fmt: skip
    second = msgspec.structs.replace(
        first, gaudi="gaudi3", operators=4, peak_bytes=40, parameters={"hpu": 2, "cpu": 3}, recompilation_causes=(msgspec.structs.replace(cause, count=4, others=1), msgspec.structs.replace(cause, line=2)),
        compute_operators=Compute(2, 5), first_compute_on_cpu="b.py:1", left_out=LeftOut(0, 1), steps=Steps(3, 1, (_entry(host_syncs=1), _entry(host_syncs=2), _entry(host_syncs=4))),
    )  # fmt: skip
    third = msgspec.structs.replace(second, first_compute_on_cpu="c.py:1", left_out=LeftOut(1, 0), steps=Steps(3, 9))  # fmt: skip
    both = Together()
    for name, books in (("", first), ("rank1", second), ("rank2", third)):
        both.add(Process(name, books))
    made = both.ledger("l", ["l.rank3"], 7.0)
    joined = made.joined
    assert (made.path, made.processes, made.unfinished, made.written, made.later) == ("l", 3, ("l.rank3",), 7.0, (3, 13))  # fmt: skip
    assert made.left_out == (("rank1", LeftOut(0, 1)), ("rank2", LeftOut(1, 0)))
    assert (joined.gaudi, joined.mode, joined.operators, joined.peak_bytes, joined.parameters) == ("gaudi2", "lazy", 11, 50, {"hpu": 5, "cpu": 6})  # fmt: skip
    assert joined.recompilation_causes == (msgspec.structs.replace(cause, count=10, others=5), msgspec.structs.replace(cause, line=2, count=4, others=6))  # fmt: skip
    assert joined.sites == (Site("a.py", 1, "host_sync", "item", 6, 24),) and joined.graph_breaks == (Break("x", 3),)  # fmt: skip
    assert (joined.compute_operators, joined.first_compute_on_cpu) == (Compute(5, 10), "b.py:1")
    assert (len(joined.demotion_lines), len(joined.process_groups)) == (1, 1)
    assert (made.main.steps, made.main.sites, made.main.recompilation_causes, joined.steps) == (second.steps, (), (), second.steps)  # fmt: skip
    assert made.main.gaudi == "gaudi3"


@pytest.mark.parametrize(
    ("number", "most", "sizes"),
    [(0, 3, []), (1, 3, [1]), (2, 3, [1, 1]), (3, 3, [1, 1, 1]), (4, 3, [1, 2, 1]), (7, 3, [1, 3, 3]), (8, 3, [1, 4, 3]), (4, 1, [1, 3]), (4, 2, [1, 3])],
)  # fmt: skip
def test_neighbours_are_one_row(number: int, most: int, sizes: list[int]) -> None:
    names = ("operators", "recompilations", "host_syncs", "collectives", "host_to_device_bytes", "device_to_host_bytes")  # fmt: skip
    entries = tuple(_entry(step=n + 1, in_use_bytes=n, peak_bytes=100 - n, **{name: 10**at for at, name in enumerate(names)}) for n in range(number))  # fmt: skip
    found = stages(Steps(number, 1, entries), most)
    assert [one.steps for one in found] == sizes
    begin = 1
    for one, size in zip(found, sizes, strict=True):
        assert (one.operators, one.recompilations, one.host_syncs, one.collectives, one.to_device, one.to_host) == tuple(size * 10**at for at in range(6))  # fmt: skip
        assert (one.first, one.in_use, one.peak) == (begin, begin + size - 2, 101 - begin)
        assert one.label == (str(begin) if size == 1 else f"{begin}–{begin + size - 1}")
        assert (one.a_step(3), msgspec.structs.replace(one, steps=0).a_step(3)) == (3 / size, 0.0)
        begin += size


@pytest.mark.parametrize(
    ("kind", "what", "text", "weight"),
    [
        ("host_sync", "item", "a value is read on the host, which waits for the device", "costs"), ("host_sync", "copy to the host", "copied to the host, which waits for the device", "costs"), ("host_sync", "aten::nonzero", "the result size of nonzero depends on data: the host waits for the device", "costs"),
        ("cpu_fallback", "aten::nobody_zq", "nobody_zq runs on the CPU on a Gaudi", "costs"), ("compute_on_cpu", "aten::mm", "mm ran on the CPU: its tensors are not on hpu", "costs"), ("recompilation", "aten::mm", "compiled again: mm", "costs"), ("recompilation_by_number", "aten::mm", "compiled again for another number: mm", "costs"),
        ("demotion", "w", "w", "changes"), ("refused_dtype", "w", "w", "blocks"), ("unsupported", "w", "w does not work on a Gaudi", "blocks"), ("collective", "all_reduce_ in group 1", "collective: all_reduce in group 1", "shows"), ("host_to_device", "copy", "copied to the device", "shows"),
        ("host_argument", "aten::add", "add: a CPU tensor among its arguments was copied to the device", "shows"), ("graph_end", "item", "a graph ended here, by a value that is read", "shows"), ("graph_end", "copy to the host", "a graph ended here, by a copy to the host", "shows"), ("graph_end", "mark_step", "a graph ended here, by mark_step", "shows"),
        ("synchronize", "w", "the host waits for the device", "costs"), ("operator", "aten::_scaled_dot_product_x_overrideable_backward", "scaled_dot_product_attention_backward", "shows"), ("another_kind", "w", "another kind: w", "shows"), ("held", "w", "held: w", "blocks"),
    ],
)  # fmt: skip
def test_what_happened_at_a_line_in_words(kind: str, what: str, text: str, weight: str) -> None:
    (found,) = events.events_of([Site("a.py", 1, kind, what, 2, 8), Site("a.py", 1, kind, what, 3, 8)], [], M)  # fmt: skip
    assert (found.kind, found.text, found.weight, found.count, found.bytes) == (kind, text, weight, 5, 16)  # fmt: skip


@pytest.mark.parametrize(("marks", "ended", "alone"), [(3, 0, 3), (3, 2, 1), (3, 3, 0), (2, 3, 0)])
def test_marks_that_end_no_graph_and_copies_that_wait_are_told_once(marks: int, ended: int, alone: int) -> None:  # fmt: skip
    sites = [Site("a.py", 1, "mark_step", "mark_step", marks), *[Site("a.py", 1, "graph_end", "mark_step", ended)] * bool(ended)]  # fmt: skip
    found = {one.text: one.count for one in events.events_of(sites, [], M)}
    assert found == {**({"a mark_step() without a graph before it": alone} if alone else {}), **({"a graph ended here, by mark_step": ended} if ended else {})}  # fmt: skip
    copies = [Site("a.py", 1, "device_to_host", "copy", 2, 80), Site("a.py", 1, "host_sync", "copy to the host", 2, 1)]  # fmt: skip
    assert [(one.kind, one.count, one.bytes) for one in events.events_of(copies, [], M)] == [("host_sync", 2, 81)]  # fmt: skip
    order = [Site("a.py", 1, kind, "w", count) for kind, count in (("operator", 9), ("synchronize", 1), ("demotion", 1), ("unsupported", 1), ("host_sync", 5))]  # fmt: skip
    assert [one.kind for one in events.events_of(order, [], M)] == ["unsupported", "demotion", "host_sync", "synchronize", "operator"]  # fmt: skip


def _sizes(*sizes: str, argument: str = "self", kind: str = "dimension", dimension: int | None = 0) -> list[Difference]:  # fmt: skip
    return [Difference(argument, before, after, kind, dimension) for before, after in itertools.pairwise(sizes)]  # fmt: skip


@pytest.mark.parametrize(
    ("causes", "others", "text", "count"),
    [
        ([()], 0, "mm compiled again: no difference is known", 1), ([(one,) for one in _sizes("4", "7")], 0, "mm compiled again: self dimension 0: 4, then 7", 1), ([(one,) for one in _sizes("4", "7")], 2, "mm compiled again: self dimension 0: 4, then 7, …", 3),
        ([(one,) for one in _sizes(*"1234567")], 0, "mm compiled again: self dimension 0: 1, then 2, 3, 4, 5, 6, 7", 6), ([(one,) for one in _sizes(*"12345678")], 0, "mm compiled again: self dimension 0: 1, then 2, 3, 4, 5, 6, 7, …", 7), ([(one,) for one in _sizes("4", "4")], 0, "mm compiled again: self dimension 0: 4, then 4", 1),
        ([(one,) for one in _sizes("1", "2", kind="number", dimension=None)], 0, "mm compiled again: self (a number): 1, then 2", 1), ([(one,) for one in _sizes("a", "b", kind="tensor", dimension=None)], 0, "mm compiled again: self (its dtype, or how many dimensions): a, then b", 1), ([(one,) for one in _sizes("a", "b", kind="layout", dimension=None)], 0, "mm compiled again: self (its layout): a, then b", 1),
        ([(*_sizes("4", "7"), *_sizes("4", "7", argument="mat2"), *_sizes("1", "2", argument="x", dimension=1))], 0, "mm compiled again: self, mat2 dimension 0: 4, then 7; x dimension 1: 1, then 2", 1),
        ([tuple(one for n in range(2) for one in _sizes("4", "7", argument=f"t[{n}]"))], 0, "mm compiled again: t[0], t[1] dimension 0: 4, then 7", 1), ([tuple(one for n in range(3) for one in _sizes("4", "7", argument=f"t[{n}]"))], 0, "mm compiled again: t[0] … t[2] dimension 0: 4, then 7", 1),
    ],
)  # fmt: skip
def test_what_was_another_in_words(causes: list[tuple[Difference, ...]], others: int, text: str, count: int) -> None:  # fmt: skip
    found = events.events_of([], [Cause("aten::mm", 1, one, others) for one in causes], M)
    assert [(one.text, one.count) for one in found] == [(text, count)]
    number = causes[0] and causes[0][0].kind == "number"
    assert found[0].kind == ("recompilation_by_number" if number else "recompilation") and found[0].advice  # fmt: skip


def _found(code: str, line: int = 5, end: int = 5) -> Finding:
    return Finding(code, "n", "warning", "safe", f"of {code}", Span(line, end + 1), line, 1, end, 2)


def _event(kind: str, count: int = 1, bytes: int = 0, advice: Advice | None = None) -> Event:
    return Event(kind, "costs", f"a {kind}", count, bytes, advice)


def _held(findings: list[Finding], *lines: Line, after: dict[str, int] | None = None) -> join.Joined:  # fmt: skip
    report = Report("hpushim", Target(), (FileResult("t.py", "unchanged", None, tuple(findings)), FileResult("u.py", "unchanged")), root="/p")  # fmt: skip
    told = Summary("l.json", "v", (), (), lines, Steps(), after or {}, notes=("the first", "more"))
    return join.join(report, told)


def _at(line: int, *events: Event, file: str = "/p/t.py", change: int = 0) -> Line:
    return Line(file, line, True, "t.py", f"line {line}", events, change)


@pytest.mark.parametrize(
    ("code", "line", "end", "kind", "happened"),
    [
        ("HPU513", 5, 5, "host_sync", True), ("HPU513", 4, 6, "host_sync", True), ("HPU513", 5, 0, "host_sync", True), ("HPU513", 6, 7, "host_sync", False), ("HPU513", 3, 4, "host_sync", False), ("HPU117", 5, 5, "host_sync", False),
        ("HPU117", 5, 5, "demotion", True), ("HPU313", 5, 5, "collective_limit", True), ("HPU514", 5, 5, "recompilation", True), ("HPU514", 5, 5, "recompilation_by_number", True), ("HPU515", 5, 5, "recompilation_by_number", False), ("HPU209", 5, 5, "refused_dtype", True), ("HPU124", 5, 5, "cpu_fallback", True),
    ],
)  # fmt: skip
def test_what_was_predicted_at_a_line_and_happened_there(code: str, line: int, end: int, kind: str, happened: bool) -> None:  # fmt: skip
    finding = _found(code, line, end)
    found = _held([finding], _at(5, _event(kind)))
    one = join.Happened("t.py", 5, "line 5", _event(kind), (finding,) if happened else ())
    assert (found.happened, found.unpredicted) == (((one,), ()) if happened else ((), (one,)))
    assert found.unseen == (() if happened else (join.Predicted("t.py", finding),))
    assert (found.ledger, found.seen_files, found.notes) == ("l.json", 1, ("more",))


def test_what_no_ledger_can_show_is_not_joined() -> None:
    found = _held([_found("HPU101")], _at(5, _event("other")), _at(5, _event("host_sync"), file="/q/t.py"))  # fmt: skip
    assert (found.happened, found.unpredicted, found.unseen, found.seen_files) == ((), (), (), 1)
    assert _held([], _at(5, _event("host_sync"), file="/q/t.py")).seen_files == 0


@pytest.mark.parametrize(
    ("after", "bytes", "kind", "seen"),
    [(None, 4, "host_sync", True), ({"host_syncs": 2}, 4, "host_sync", False), ({"host_syncs": 1}, 4, "host_sync", True), ({"host_syncs": 2}, 0, "host_sync", True), ({"host_syncs": 9}, 4, "demotion", True), ({"x": 1}, 4, "host_sync", True)],
)  # fmt: skip
def test_copies_after_the_last_step_are_no_surprise(after: dict[str, int] | None, bytes: int, kind: str, seen: bool) -> None:  # fmt: skip
    assert bool(_held([], _at(5, _event(kind, 2, bytes)), after=after).unpredicted) is seen


@pytest.mark.parametrize("predicted", [True, False])
def test_one_size_that_changes_is_told_once_where_it_came_first(predicted: bool) -> None:
    """Every line that it reaches is compiled again; a finding about shapes in the file has said so."""
    lines = [_at(7, _event("recompilation", 3), change=2), _at(8, _event("recompilation", 4), change=1), _at(9, _event("recompilation", 5))]  # fmt: skip
    shapes = [_found("HPU524", 1, 1), _found("HPU526", 2, 2)] * predicted
    found = _held(shapes, *lines)
    one = join.Happened("t.py", 8, "line 8", _event("recompilation", 4), tuple(shapes[:1]))
    assert (found.happened, found.unpredicted) == (((one,), ()) if predicted else ((), (one,)))
    assert found.unseen == ()


def test_a_report_beside_a_run_in_words() -> None:
    advice = Advice("a row", "HPU9", "n", "documented")
    found = _held([_found("HPU513"), _found("HPU120"), _found("HPU117", 9, 9)], _at(5, _event("host_sync", 1234)), _at(6, _event("demotion", 2, advice=advice)), _at(7, _event("cpu_fallback")))  # fmt: skip
    assert join.text_of(found).splitlines() == [
        "Beside the run of l.json (emulated)", "  predicted and observed: 1", "    t.py:5: HPU120, HPU513 1,234 × a host_sync", "  observed but not predicted: 2", "    t.py:6: 2 × a demotion [HPU9]", "    t.py:7: 1 × a cpu_fallback",
        "  predicted but not observed in this run: 1", "    t.py:9: HPU117 of HPU117", "  more",
    ]  # fmt: skip
    other = _held([], _at(5, _event("host_sync"), file="/q.py"))
    assert join.text_of(other).splitlines() == ["Beside the run of l.json (emulated)", "  The ledger has no lines of these files: it belongs to another project or another copy."]  # fmt: skip
