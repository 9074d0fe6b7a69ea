"""The lines of a story, a ledger and a join, one for each state that a run may be in."""

from __future__ import annotations

from typing import Any

import pytest

from hpushim.ledgers import advice, events, join, story, text
from hpushim.ledgers.model import (  # fmt: skip
    Advice,
    Break,
    Cause,
    Difference,
    Event,
    Fact,
    Line,
    Site,
    Steps,
    Summary,
)
from hpushim.matrix import load
from hpushim.model import Finding, Span

M = load()


def _process(hpu: int = 0, cpu: int | None = 0, operators: int = 0, **more: Any) -> dict[str, Any]:
    return {"compute_operators": {"hpu": hpu, "cpu": cpu}, "operators": operators, "gaudi": "gaudi3", "mode": "lazy", **more}  # fmt: skip


RAN = "what ran where: "
LOOK = "where to look: `hpushim run --ledger FILE …` records the lines; then `hpushim ledger FILE`"


@pytest.mark.parametrize(
    ("processes", "first"),
    [
        ([_process(5, 0, 1200)], "1,200 operators ran on the emulated Gaudi 3, lazy mode, among them all 5 matrix products, convolutions and the like"),
        ([_process(0, 0, 1)], "1 operator ran on the emulated Gaudi 3, lazy mode"),
        ([_process(1, None, 2)], "2 operators ran on the emulated Gaudi 3, lazy mode, among them all 1 matrix products, convolutions and the like"),
        ([_process(3, 1, 7, first_elsewhere="a.py:3")], "7 operators ran on the emulated Gaudi 3, lazy mode; of 4 matrix products, convolutions and the like 75 % ran on hpu and 1 on the CPU, the first a.py:3"),
        ([_process(3, 1, 7)], "7 operators ran on the emulated Gaudi 3, lazy mode; of 4 matrix products, convolutions and the like 75 % ran on hpu and 1 on the CPU"),
        ([_process(3, 0, 7, parameters={"cpu": 1000})], "7 operators ran on the emulated Gaudi 3, lazy mode, among them all 3 matrix products, convolutions and the like; 1,000 parameters that an optimizer steps lie on the CPU"),
        ([_process(3, 0, 7), _process(2, 0, 1), _process()], "8 operators ran on the emulated Gaudi 3 in 2 processes, lazy mode, among them all 5 matrix products, convolutions and the like"),
        ([_process(3, 0, 7), {"unfinished": True}], "7 operators ran on the emulated Gaudi 3 (at least: 1 process with the emulated hpu ended before the totals could be kept, by a signal or os._exit), lazy mode, among them all 3 matrix products, convolutions and the like"),
        ([{"operators": 2}], "2 operators ran on the emulated Gaudi,  mode"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("ledger", ["", "l.json"])
def test_what_ran_where(processes: list[dict[str, Any]], first: str, ledger: str) -> None:
    said = story.lines(story.Run(ledger=ledger, processes=processes))
    assert said == [RAN + first, *(["where to look: hpushim ledger l.json"] if ledger else [])]


NOTHING = "NOTHING RAN ON HPU: all 2 matrix products, convolutions and the like ran on the CPU"
TODO = "check how the program selects its device: an option (--device, --no-cuda, accelerator=), a default of cpu, a missing .to(device)"


@pytest.mark.parametrize("hidden", ["", "CUDA_VISIBLE_DEVICES=-1"])
@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("on_cpu", [0, 3])
@pytest.mark.parametrize("place", ["", "a.py:1"])
def test_why_nothing_ran_on_hpu(hidden: str, native: bool, on_cpu: int, place: str) -> None:
    one = _process(0, 2, 0, parameters={"cpu": on_cpu}, first_elsewhere=place)
    why = [f"{hidden} makes the program see no CUDA device"] * bool(hidden)
    why += ["--native leaves CUDA calls as they are, and the program does not use hpu"] * native
    why += [f"the {on_cpu} parameters that its optimizer steps lie on the CPU"] * bool(on_cpu)
    why = why or ["no tensor was created on cuda or hpu"]
    todo = "unset CUDA_VISIBLE_DEVICES" if hidden else f"omit --native for a CUDA script; in a migrated one {TODO}" if native else TODO  # fmt: skip
    assert story.lines(story.Run(native=native, hidden=hidden, processes=[one])) == [
        NOTHING + (f", the first {place}" if place else ""),
        f"why: {'; '.join(why)}. So this run shows nothing of a Gaudi",
        f"what to do: {todo}",
    ]


@pytest.mark.parametrize("failed", [True, False])
def test_a_run_without_operators_or_without_its_totals(failed: bool) -> None:
    none = ["nothing ran on the emulated hpu: the program ran no tensor operators, on hpu or on the CPU"]  # fmt: skip
    assert story.lines(story.Run(failed=failed, processes=[_process()])) == ([] if failed else none)
    for number, who in ((1, "1 process"), (2, "2 processes")):
        cut = [{"unfinished": True}] * number
        assert story.lines(story.Run(failed=failed, processes=[*cut, _process(0, 1000)])) == [
            f"it is unknown what ran on hpu: {who} with the emulated hpu ended before the totals could be kept, by a signal or os._exit",
            "the others ran 1,000 matrix products, convolutions and the like on the CPU and none on the emulated hpu",
            "what to do: let workers exit normally, or call hpushim.ledger() in the worker and pass --ledger",
        ]  # fmt: skip


def _cause(kind: str, argument: str = "self", dimension: int | None = 0) -> dict[str, Any]:
    return {"operator": "aten::mm", "differences": [{"kind": kind, "argument": argument, "dimension": dimension}]}  # fmt: skip


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"fallback_operators": {"aten::nonzero": 1000, "aten::unique": 2000}}, "3,000 calls that run on the CPU there (unique, nonzero)"),
        ({"fallback_operators": {"a": 3, "b": 2, "c": 1}}, "6 calls that run on the CPU there (a, b, 1 more)"),
        ({"recompilations": 2, "recompilation_causes": [_cause("dimension"), _cause("number"), _cause("dimension")]}, "2 recompilations by shapes that change (mm, self dimension 0)"),
        ({"recompilations": 3, "recompilations_by_number": 1, "recompilation_causes": [_cause("number", "other", None)]}, "2 recompilations by shapes that change, 1 recompilation by numbers that change (mm, other)"),
        ({"recompilations": 1, "recompilations_by_number": 1, "recompilation_causes": [{"operator": "x"}]}, "1 recompilation by numbers that change"),
        ({"steps": {"entries": [{"steps": 1, "host_syncs": 99}, {"steps": 2, "host_syncs": 2}]}}, "1 host sync a step"),
        ({"steps": {"entries": [{"steps": 1, "host_syncs": 99}, {"steps": 4, "host_syncs": 6}, {"steps": 4, "host_syncs": 6}]}}, "1.5 host syncs a step"),
        ({"refused": [{"code": "E1", "text": "one"}, {"code": "E1", "text": "one"}, {"code": "", "text": "two"}, {"code": "E3", "text": "x" * 200}]}, "E1 one; two; 1 more"),
        ({"refused": [{"code": "E", "text": "x" * 118}]}, "E " + "x" * 118), ({"refused": [{"code": "E", "text": "x" * 119}]}, "E " + "x" * 117 + "…"),
        ({"demoted": ["d", "e"], "refused": [{"code": "E", "text": "r"}]}, "E r, d; e"),
    ],
)  # fmt: skip
def test_what_differs_on_a_gaudi(more: dict[str, Any], said: str) -> None:
    found = story.lines(story.Run(processes=[_process(1, 0, 1, **more)]))
    assert found[1:] == [f"on a Gaudi: {said}", LOOK]
    assert story.syncs_a_step([{"steps": {"entries": [{"steps": 1, "host_syncs": 5}]}}]) == 0


def _line(number: int, *happened: Event, own: bool = True, file: str = "/p/a.py", source: str = "x = 1") -> Line:  # fmt: skip
    return Line(file, number, own, file.rpartition("/")[2], source, happened)


def _event(count: int = 1, words: str = "w", weight: Any = "costs", **more: Any) -> Event:
    return Event("host_sync", weight, words, count, **more)


def _told(lines: tuple[Line, ...] = (), **more: Any) -> Summary:
    how: dict[str, Any] = {"steps": Steps(), "after": {}, "notes": ("the note",), **more}
    return Summary("l.json", "the verdict", (Fact("name", "value"), Fact("longer name", "2")), (Fact("peak", "1 GB"),), lines, **how)  # fmt: skip


def test_a_ledger_has_its_parts_in_this_order() -> None:
    said = text.render_text(_told()).split("\n")
    assert said[:6] == ["the verdict", "", "  name         value", "  longer name  2", "", "Memory"]
    assert said[6:8] == ["  peak  1 GB", ""] and said[8].startswith("Steps: ")
    assert said[9:] == ["", "the note", ""]
    full = text.render_text(_told((_line(3, _event(1000, "own")), _line(4, _event(), own=False, file="/l/b.py")), breaks=(Break("why", 1234),))).split("\n")  # fmt: skip
    assert full[9:] == ["", "Your files", "  a.py", "       3  x = 1", "          1,000 × own", "", "Libraries", "  b.py", "       4  x = 1", "          1 × w",
                        "", "Graphs that torch.compile ended, in its own words", "  1,234 × why", "", "the note", ""]  # fmt: skip


@pytest.mark.parametrize("number", [15, 16, 17])
@pytest.mark.parametrize("everything", [True, False])
def test_of_libraries_the_heaviest_lines_are_shown(number: int, everything: bool) -> None:
    lines = tuple(_line(n, _event(n), _event(10**6 * (number - n), weight="shows"), own=False) for n in range(1, number + 1))  # fmt: skip
    said = text.render_text(_told(lines), everything=everything)
    shown = [int(line.split()[0]) for line in said.splitlines() if line.endswith("x = 1")]
    most = number if everything else 15
    assert shown == list(range(number - most + 1, number + 1))
    assert (f"  {number - 15} further lines (--all)" in said) == (not everything and number > 15)
    assert ("further lines" in said) == (not everything and number > 15)


@pytest.mark.parametrize("number", [5, 6, 7])
@pytest.mark.parametrize("everything", [True, False])
def test_of_a_line_the_first_events_are_shown(number: int, everything: bool) -> None:
    said = text.render_text(_told((_line(1, *(_event(1000, f"w{n}") for n in range(number))),)), everything=everything)  # fmt: skip
    assert said.count(" × w") == (number if everything else 5)
    left = number - 5
    more = f"          {left} further kind{'s' if left > 1 else ''}, {1000 * left:,} times (--all)\n"  # fmt: skip
    assert (more in said) == (left > 0 and not everything)


@pytest.mark.parametrize("length", [89, 90, 91])
def test_a_long_line_is_cut_and_a_long_event_wrapped(length: int) -> None:
    said = text.render_text(_told((_line(1, _event(1, "word " * 40, bytes=1500, advice=Advice("row", "HPU1", "n", "source")), source="y" * length),)))  # fmt: skip
    assert ("y" * length in said) == (length <= 90) and ("y" * 89 + "…" in said) == (length > 90)
    wrapped = [line for line in said.splitlines() if "word" in line]
    assert len(wrapped) == 3 and wrapped[0].startswith(" " * 10 + "1 × word") and wrapped[1].startswith(" " * 14 + "word")  # fmt: skip
    assert (all(len(line) <= 110 for line in wrapped) and wrapped[2].endswith(", 1.5 kB  [HPU1]".replace("  [", " ["))) or "[HPU1]" in said  # fmt: skip
    assert "[HPU1] n" in said and "  More: hpushim explain HPU1" in said


@pytest.mark.parametrize(("code", "confidence"), [("HPU1", "source"), ("", "source"), ("HPU1", "inferred"), ("", "documented")])  # fmt: skip
def test_what_the_matrix_says_is_marked_where_no_source_states_it(code: str, confidence: str) -> None:  # fmt: skip
    one = Advice("the row", code, "a note", confidence)
    said = text.render_text(_told((_line(1, _event(advice=one), _event(2, advice=one)),)))
    doubt = " (inferred)" if confidence == "inferred" else ""
    assert said.count(f"  [{code or 'the row'}] a note{doubt}\n") == 1
    assert ("More: hpushim explain HPU1" in said) == bool(code)
    assert f"          1 × w  [{code or 'the row'}]".replace("  [", " [") in said.replace("  [", " [")  # fmt: skip


ENTRY = {"step": 1, "steps": 1, "operators": 1200, "recompilations": 3, "host_syncs": 4, "host_to_device_bytes": 1500, "device_to_host_bytes": 7, "peak_bytes": 10**9}  # fmt: skip


@pytest.mark.parametrize("after", [{}, {"operators": 0, "recompilations": 0, "host_syncs": 0, "device_to_host_bytes": 9}, {"operators": 1, "recompilations": 0, "host_syncs": 2, "device_to_host_bytes": 5}])  # fmt: skip
def test_a_table_of_steps(after: dict[str, int]) -> None:
    said = text.render_text(_told(steps=Steps(2, 1, (ENTRY, {**ENTRY, "step": 2})), after=after)).splitlines()  # fmt: skip
    at = next(n for n, line in enumerate(said) if line.startswith("Steps: "))
    assert said[at + 1].split() == ["step", "operators", "recompiled", "host", "syncs", "to", "the", "device", "to", "the", "host", "peak"]  # fmt: skip
    assert said[at + 2].split() == ["1", "1,200", "3", "4", "1.5", "kB", "7", "bytes", "1", "GB"]
    assert len({len(line) for line in said[at + 1 : at + 4]}) == 1
    assert said[at + 4] == "  Step 1 holds what came before the training too."
    told = (
        "  After the last step: 1 operator, 0 recompiled, 2 host syncs, 5 bytes copied to the host."
    )
    assert (told in said) == (after.get("operators") == 1)
    assert ("After the last step" in "\n".join(said)) == (after.get("operators") == 1)


def _finding(code: str, line: int = 3) -> Finding:
    return Finding(code, "n", "error", "safe", f"message of {code}", Span(0, 1), line, 1, line, 2)


def _joined(seen: int = 1, **more: Any) -> str:
    how: dict[str, Any] = {"happened": (), "unpredicted": (), "unseen": (), **more}
    return join.text_of(join.Joined("l.json", how["happened"], how["unpredicted"], how["unseen"], seen, how.get("notes", ())))  # fmt: skip


def test_a_join_as_text() -> None:
    two = (_finding("HPU2"), _finding("HPU1"), _finding("HPU2"))
    happened = (join.Happened("a.py", 3, "x", _event(1000), two),)
    unpredicted = (join.Happened('"b.py', 4, "x", _event(2, advice=Advice("row", "", "n", "source"))), join.Happened("c.py", 5, "x", _event()))  # fmt: skip
    unseen = (join.Predicted("d.py", _finding("HPU3", 7)),)
    assert _joined(1, happened=happened, unpredicted=unpredicted, unseen=unseen, notes=("a note",)).splitlines() == [
        "Beside the run of l.json (emulated)",
        "  predicted and observed: 1",
        "    a.py:3: HPU1, HPU2 1,000 × w",
        "  observed but not predicted: 2",
        '    "b.py:4: 2 × w [row]',
        "    c.py:5: 1 × w",
        "  predicted but not observed in this run: 1",
        "    d.py:7: HPU3 message of HPU3",
        "  a note",
    ]  # fmt: skip
    assert _joined(0, unseen=unseen).splitlines() == [
        "Beside the run of l.json (emulated)",
        "  The ledger has no lines of these files: it belongs to another project or another copy.",
    ]


@pytest.mark.parametrize(
    ("kind", "what", "row"),
    [("host_sync", "item", "torch.Tensor.item"), ("host_sync", "aten::nonzero", "torch.nonzero"), ("host_sync", "aten::index.Tensor", "indexing with a boolean mask"),
     ("host_sync", "aten::_index_put_impl_", "writing through a boolean mask"), ("cpu_fallback", "aten::nobody_zq", advice._FALLBACK), ("recompilation", "x", advice.SHAPES), ("recompilation_by_number", "x", advice.NUMBERS),
     ("collective_limit", "all_reduce of int64", "dtypes in collectives"), ("collective_limit", "other", None), ("unsupported", "nobody_zq", None), ("operator", "aten::nonzero", None), ("demotion", "float64 kept as float32", "torch.float64"), ("refused_dtype", "float64", "torch.float64")],
)  # fmt: skip
def test_the_row_that_states_an_event(kind: str, what: str, row: str | None) -> None:
    found = advice.of_site(M, Site("f", 1, kind, what, 1))
    assert (found.row if found else None) == (row if row is None or M.row(row) is None else M.row(row).name)  # type: ignore[union-attr]  # fmt: skip
    assert row is None or M.row(row) is not None
    assert advice.of_row(M, "nobody_zq") is None
    noted, notes = next(iter(M.operators.notes.items()))
    assert (advice.remark(M, noted), advice.remark(M, "nobody")) == (" ".join(notes), "")
    said = events._event(Site("f", 1, "cpu_fallback", noted, 1), M).text
    assert said.endswith(f"runs on the CPU on a Gaudi ({' '.join(notes)})")
    assert events._event(Site("f", 1, "cpu_fallback", "nobody", 1), M).text == "nobody runs on the CPU on a Gaudi"  # fmt: skip


@pytest.mark.parametrize("differences", [(), (Difference("self", "4", "5", "dimension", 1),), (Difference("self", "4", "5", "dimension", 0),), (Difference("alpha", "1", "2", "number"),)])  # fmt: skip
def test_a_cause_replaces_the_line_that_the_recorder_wrote_for_it(differences: tuple[Difference, ...]) -> None:  # fmt: skip
    cause = Cause("aten::mm", 2, differences)
    kind = "recompilation_by_number" if cause.by_number else "recompilation"
    texts = {"aten::mm", "aten::mm, self, dimension 1", "aten::mm, self, dimension 0", "aten::mm, alpha"}  # fmt: skip
    mine = "aten::mm" if not differences else f"aten::mm, {differences[0].argument}" + (f", dimension {differences[0].dimension}" if differences[0].dimension is not None else "")  # fmt: skip
    assert {what for what in texts if events._names(cause, what)} == {mine}
    found = events.events_of([Site("f", 1, kind, what, 1) for what in texts], [cause], M)
    assert len(found) == 4
    assert sum(one.text.startswith("mm compiled again: ") for one in found) == 1
