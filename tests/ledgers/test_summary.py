"""What is told of a ledger: read from files, true to them, and nothing in it can break out of its place."""

from __future__ import annotations

import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hpushim.errors import HpushimError
from hpushim.ledgers import model
from hpushim.ledgers.advice import of_site
from hpushim.ledgers.model import Advice, Event, Fact, Line, Site, Steps, Summary
from hpushim.ledgers.reading import read
from hpushim.ledgers.rendering import FORMATS, render
from hpushim.ledgers.stages import stages
from hpushim.ledgers.summary import _Sources, bytes_text, is_own, summarize
from hpushim.matrix import load

SOURCE = "import torch\nmodel = Net().to('cuda')\nx = batch.to('cuda')\nprint(loss.item())\nloss.backward()\n"
HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e`|"


def site(
    line: int, kind: str, what: str, count: int = 1, nbytes: int = 0, file: str = ""
) -> dict[str, Any]:
    return {"file": file, "line": line, "kind": kind, "what": what, "count": count, "bytes": nbytes}


def cause(
    line: int, file: str, *changes: tuple[str, str, int | None, str, str], **more: Any
) -> dict[str, Any]:
    names = ("kind", "argument", "dimension", "before", "after")
    return {
        "operator": "aten::addmm",
        "position": 0,
        "count": 1,
        "others": 0,
        "file": file,
        "line": line,
        "before": "",
        "after": "",
        "differences": [dict(zip(names, one, strict=True)) for one in changes],
        **more,
    }


def write(folder: Path, name: str = "ledger.json", **changes: Any) -> Path:
    books = {
        "schema_version": 1,
        "emulated": True,
        "complete": True,
        "gaudi": "gaudi2",
        "mode": "eager",
        "operators": 10,
        "compute_operators": {"hpu": 4, "cpu": 0},
        **changes,
    }
    path = folder / name
    path.write_text(json.dumps(books))
    return path


def told(path: Path, below: Path | None = None) -> Summary:
    return summarize(read(path), load(), below=below)


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "train.py"
    path.write_text(SOURCE)
    return str(path)


def test_own_lines_first_with_source_count_bytes_and_advice(tmp_path, script):
    library = "/usr/lib/python3/site-packages/lib/trainer.py"
    path = write(
        tmp_path,
        sites=[
            site(7, "host_sync", "item", 3, file=library),
            site(4, "host_sync", "item", 5, file=script),
            site(3, "host_to_device", "copy", 5, 4000, script),
        ],
    )
    found = told(path, tmp_path)
    assert [(line.shown, line.line) for line in found.lines] == [
        ("train.py", 3),
        ("train.py", 4),
        ("lib/trainer.py", 7),
    ]
    copied, is_read = found.lines[0].events[0], found.lines[1].events[0]
    assert (copied.count, copied.bytes, copied.advice) == (5, 4000, None)
    assert found.lines[1].source == "print(loss.item())"
    assert is_read.advice is not None and is_read.advice.code == "HPU513"
    assert is_read.advice.note == load().row("torch.Tensor.item").note
    text = render(found, "text")
    assert "5 × copied to the device, 4 kB" in text and "[HPU513]" in text
    assert text.index("Your files") < text.index("Libraries")


def test_a_copy_to_the_host_is_one_event_and_not_two(tmp_path, script):
    sites = [
        site(4, "device_to_host", "copy", 2, 80, script),
        site(4, "host_sync", "copy to the host", 2, file=script),
        site(4, "host_sync", "item", 1, file=script),
    ]
    events = told(write(tmp_path, sites=sites)).lines[0].events
    assert [(one.kind, one.count, one.bytes) for one in events] == [
        ("host_sync", 2, 80),
        ("host_sync", 1, 0),
    ]


def test_recompilations_of_a_line_name_the_dimension_once(tmp_path, script):
    causes = [
        cause(5, script, ("dimension", "mat1", 0, "4", "7"), ("dimension", "mat2", 0, "4", "7")),
        cause(
            5,
            script,
            ("dimension", "mat1", 0, "7", "5"),
            ("dimension", "mat2", 0, "7", "5"),
            count=2,
            others=3,
        ),
        cause(5, script, ("number", "value", None, "-0.1", "-0.2")),
    ]
    sites = [
        site(5, "recompilation", "aten::addmm, mat1, dimension 0", 6, file=script),
        site(5, "recompilation_by_number", "aten::addmm, value", 1, file=script),
        site(5, "recompilation", "aten::exp", 2, file=script),  # its cause was not kept
    ]
    path = write(
        tmp_path,
        sites=sites,
        recompilation_causes=causes,
        recompilations=9,
        recompilations_by_number=1,
    )
    found = told(path)
    texts = {one.text: one.count for one in found.lines[0].events}
    assert texts == {
        "addmm compiled again: mat1, mat2 dimension 0: 4, then 7, 5, …": 6,
        "addmm compiled again: value (a number): -0.1, then -0.2": 1,
        "compiled again: exp": 2,
    }
    facts = {fact.name: fact.value for fact in found.facts}
    assert facts["recompilations by shapes"] == "8; the first at train.py:5"
    assert facts["recompilations by numbers"] == "1"


def test_graphs_and_what_ended_them(tmp_path, script):
    sites = [
        site(5, "graph_end", "mark_step", 4, file=script),
        site(5, "mark_step", "mark_step", 6, file=script),
        site(4, "graph_end", "item", 4, file=script),
    ]
    lines = told(write(tmp_path, mode="lazy", sites=sites)).lines
    assert [one.text for one in lines[0].events] == ["a graph ended here, by a value that is read"]
    assert [(one.count, one.text) for one in lines[1].events] == [
        (4, "a graph ended here, by mark_step"),
        (2, "a mark_step() without a graph before it"),
    ]


def test_memory_against_the_cards_of_the_matrix(tmp_path):
    found = told(write(tmp_path, peak_bytes=48 * 10**9))
    assert [(fact.name, fact.value) for fact in found.memory[1:]] == [
        ("of the 96 GB of a Gaudi 2", "47 %"),
        ("of the 128 GB of a Gaudi 3", "35.2 %"),
    ]
    assert "a lower bound" in found.memory[0].value
    over = told(write(tmp_path, peak_bytes=104 * 10**9)).memory
    assert "more than the device has" in over[1].value and "more" not in over[2].value


def test_processes_are_added_up_and_missing_ones_named(tmp_path, script):
    path = write(tmp_path, operators=3, sites=[site(4, "host_sync", "item", 2, file=script)])
    write(
        tmp_path,
        "ledger.json.rank1",
        operators=4,
        sites=[site(4, "host_sync", "item", 1, file=script)],
    )
    write(tmp_path, "ledger.json.rank2", complete=False)
    write(tmp_path, "ledger.1.json", operators=1000)
    found = told(path)
    assert found.lines[0].events[0].count == 3
    assert found.facts[0].value == "7 in 2 processes"
    assert any("ledger.json.rank2" in note for note in found.notes)


def test_no_figure_is_a_speed(tmp_path, ran):
    found = told(ran("gpt").file)
    assert "Emulated" in found.notes[0]
    for format in FORMATS:
        shown = render(found, format)
        assert "Emulated:" in shown
        assert " ms" not in shown and "seconds" not in shown


def test_nothing_on_hpu_is_the_verdict(tmp_path):
    place = "aten::mm at train.py:3"
    path = write(
        tmp_path, operators=0, compute_operators={"hpu": 0, "cpu": 6}, first_compute_on_cpu=place
    )
    verdict = told(path).verdict
    assert verdict.startswith("Nothing ran on hpu: 6 ") and verdict.endswith(f"{place}.")


def test_source_of_a_file_that_changed_since_is_not_shown(tmp_path, script):
    import os

    path = write(tmp_path, sites=[site(4, "host_sync", "item", file=script)])
    os.utime(path, (1, 1))
    found = told(path)
    assert found.lines[0].source == ""
    assert any("Changed since the run" in note and "train.py" in note for note in found.notes)


def test_only_source_files_are_opened(tmp_path):
    secret = tmp_path / "key"
    secret.write_text("secret\n")
    path = write(tmp_path, sites=[site(1, "host_sync", "item", file=str(secret))])
    assert told(path).lines[0].source == ""


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))


@pytest.mark.parametrize("format", FORMATS)
def test_what_others_wrote_gives_no_orders(tmp_path, format):
    """Names of files and operators, reasons of torch's: no tag, no control character, no link comes of them."""
    path = write(
        tmp_path,
        sites=[site(1, "unsupported", HOSTILE, file=f"/x/{HOSTILE}.py")],
        recompilation_causes=[
            cause(1, f"/x/{HOSTILE}.py", ("dimension", HOSTILE, 0, HOSTILE, HOSTILE))
        ],
        graph_breaks=[{"reason": HOSTILE, "count": 1}],
        first_compute_on_cpu=HOSTILE,
        gaudi=HOSTILE,
        mode=HOSTILE,
    )
    shown = render(told(path), format)
    assert "\x1b" not in shown and "\u202e" not in shown
    if format == "html":
        tags = _Tags()
        tags.feed(shown)
        assert "script" not in {tag for tag, _ in tags.seen}
        assert not [a for _, a in tags.seen for name in ("src", "onload", "onclick") if name in a]
        assert all((a.get("href") or "#").startswith("#") for _, a in tags.seen), "no network"
    elif format == "markdown":
        assert "<script>" not in shown
    elif format == "json":
        assert json.loads(shown)["emulated"] is True


@pytest.mark.parametrize(
    "content, said",
    [
        (None, "no such ledger"),
        ("import torch", "no ledger"),
        ("[]", "no ledger"),
        (
            '{"schema_version": 1, "emulated": true, "complete": false}',
            "has not ended, or was killed",
        ),
        ('{"schema_version": 9, "emulated": true}', "a ledger of version 9"),
        ('{"schema_version": 1, "emulated": true, "operators": "many"}', "no ledger"),
    ],
)
def test_what_is_no_ledger_is_said(tmp_path, content, said):
    path = tmp_path / "ledger.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(HpushimError, match=said) as told:
        read(path)
    assert str(told.value).startswith(f"{path}: "), told.value


def test_what_comes_after_the_last_step_makes_the_totals_whole(tmp_path):
    entry = {
        "step": 1,
        "steps": 1,
        "operators": 5,
        "recompilations": 2,
        "host_syncs": 1,
        "device_to_host_bytes": 4,
    }
    steps = {"count": 1, "optimizers": 1, "entries": [entry]}
    books = write(
        tmp_path, steps=steps, operators=5, recompilations=3, host_syncs=1, device_to_host_bytes=4
    )
    line = (
        "After the last step: 0 operators, 1 recompiled, 0 host syncs, 0 bytes copied to the host."
    )
    assert line in render(told(books), "text")
    assert line in render(told(books), "html")


def test_many_steps_fit_a_table(tmp_path):
    entries = [{"step": n, "steps": 1, "operators": 2, "peak_bytes": n} for n in range(1, 101)]
    found = told(write(tmp_path, steps={"count": 100, "optimizers": 2, "entries": entries}))
    rows = stages(found.steps, 12)
    assert len(rows) == 12 and rows[0].label == "1" and rows[1].label == "2–10"
    assert sum(row.operators for row in rows) == 200 and rows[-1].peak == 100
    assert "Steps: 100 steps of 2 optimizers" in render(found, "text")


def test_units_and_whose_a_file_is():
    assert [bytes_text(n) for n in (0, 999, 1000, 96_900, 1.5e9)] == [
        "0 bytes",
        "999 bytes",
        "1 kB",
        "96.9 kB",
        "1.5 GB",
    ]
    assert is_own("/home/me/train.py") and not is_own("<no Python frame>")
    assert not is_own("/opt/venv/lib/python3.11/site-packages/timm/models.py")


@pytest.mark.parametrize("confidence", ["documented", "source", "inferred"])
@pytest.mark.parametrize("format", FORMATS)
def test_advice_is_marked_where_no_source_states_it(
    tmp_path: Path, format: str, confidence: str
) -> None:
    advice = Advice("a row", "HPU501", "Do this.", confidence)
    books = msgspec.structs.replace(told(write(tmp_path)), facts=(Fact("a fact", "3", advice),))
    shown = render(books, format)
    assert "Do this." in shown
    assert ("(inferred)" in shown or '"inferred"' in shown) is (confidence == "inferred")


@pytest.mark.parametrize("more", [0, 1])
def test_a_table_says_how_many_lines_it_leaves_out(tmp_path: Path, more: int) -> None:
    events = (Event("sync", "costs", "a host sync", 3),)
    lines = tuple(Line("a.py", n, True, "a.py", events=events) for n in range(60 + more))
    shown = render(msgspec.structs.replace(told(write(tmp_path)), lines=lines), "markdown")
    assert (f"| … | | {more} more | |" in shown) is bool(more)
    assert shown.count("a host sync") == 60


FIELDS = ("steps", "operators", "recompilations", "host_syncs", "collectives", "host_to_device_bytes", "device_to_host_bytes")  # fmt: skip


@pytest.mark.parametrize("most", [1, 2, 3, 5, 20])
def test_a_table_adds_up_to_what_its_steps_say_whatever_they_leave_out(most: int) -> None:
    entries = tuple(
        {"step": n, **{name: n + place for place, name in enumerate(FIELDS) if (n + place) % 3}}
        for n in range(1, 11)
    )
    rows = stages(Steps(count=10, optimizers=1, entries=entries), most)
    assert len(rows) <= max(most, 2) and [row.first for row in rows][:2] == [1, 2]
    for name in FIELDS:
        shown = {"host_to_device_bytes": "to_device", "device_to_host_bytes": "to_host"}.get(name, name)  # fmt: skip
        assert sum(getattr(row, shown) for row in rows) == sum(entry.get(name, 0) for entry in entries)  # fmt: skip
    assert {(row.in_use, row.peak) for row in rows} == {(0, 0)}


def test_no_ledger_is_said_where_there_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "none.json", tmp_path / "none" / "a.json", tmp_path / "file" / "a.json"):  # fmt: skip
        with pytest.raises(HpushimError, match="no such ledger"):
            read(path)


def test_each_row_of_an_operator_is_its_advice_and_one_that_is_native_says_nothing() -> None:
    matrix = load()
    rows = {row.name: row for row in matrix.rows if re.fullmatch(r"torch\.[a-z0-9_]+[a-z]", row.name)}  # fmt: skip
    told = {
        name: of_site(matrix, Site("", 1, "unsupported", f"aten::{name[6:]}", 1)) for name in rows
    }
    silent = {name for name, row in rows.items() if row.status == "native"}
    other = {name for name in silent if matrix.row(f"torch.Tensor.{name[6:]}")}
    assert len(rows) > 20 and silent - other
    assert {name for name in silent - other if told[name]} == set()
    wrong = {name: advice for name, advice in told.items() if name not in silent and (advice is None or advice.row != name)}  # fmt: skip
    assert wrong == {}


def test_a_count_that_a_ledger_leaves_out_is_none() -> None:
    parts = [one for one in vars(model).values() if isinstance(one, type) and issubclass(one, msgspec.Struct)]  # fmt: skip
    counts = [(part.__name__, one.name, one.default) for part in parts for one in msgspec.structs.fields(part) if type(one.default) is int]  # fmt: skip
    assert len(parts) > 10 and len(counts) > 20
    assert [one for one in counts if one[2]] == []


@pytest.mark.parametrize("part", [0.001, 0.5, 1.0, 1.001, 1.5])
def test_more_than_a_device_has_is_said_from_there_on(tmp_path: Path, part: float) -> None:
    generations = load().generations
    for name in ("gaudi2", "gaudi3"):
        info = generations[name]
        facts = told(write(tmp_path, peak_bytes=int(part * info.memory_bytes))).memory
        (fact,) = (fact for fact in facts if fact.name == f"of the {info.memory_gb} GB of a {info.title}")  # fmt: skip
        assert fact.value.startswith(f"{100 * part:.3g} %")
        assert fact.value.endswith(": more than the device has") is (part > 1)


@pytest.mark.parametrize("later", [-1, 0, 1])
def test_a_file_is_shown_up_to_the_time_of_the_ledger(tmp_path: Path, later: int) -> None:
    (tmp_path / "a.py").write_text("first\n  second  \n")
    os.utime(tmp_path / "a.py", (1000 + later, 1000 + later))
    sources = _Sources(1000.0)
    shown = [sources.line(str(tmp_path / "a.py"), number) for number in (0, 1, 2, 3, 4)]
    assert shown == (["", "first", "second", "", ""] if later <= 0 else [""] * 5)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("left_out", ["step", "steps", "operators", "host_syncs", "peak_bytes"])
@pytest.mark.parametrize("zero", [False, True])
def test_steps_that_leave_out_a_count_are_shown(
    tmp_path: Path, format: str, left_out: str, zero: bool
) -> None:
    entry = {"step": 1, "steps": 1, "operators": 5, "host_syncs": 2, "peak_bytes": 64} | {left_out: 0}  # fmt: skip
    if not zero:
        del entry[left_out]
    path = write(tmp_path, steps={"count": 3, "optimizers": 1, "entries": [entry] * 3})
    assert render(told(path), format)


@pytest.mark.parametrize("count", [-1, 1 << 63, 10**400])
@pytest.mark.parametrize("where", ["operators", "peak_bytes", "steps", "parameters", "sites"])
def test_a_count_that_cannot_be_is_no_ledger(tmp_path: Path, where: str, count: int) -> None:
    held = {
        "steps": {"entries": [{"steps": count}]},
        "parameters": {"hpu": count},
        "sites": [site(1, "host_sync", "x", count)],
    }
    with pytest.raises(HpushimError, match="ledger"):
        read(write(tmp_path, **{where: held.get(where, count)}))
