"""What the page and the tables of a portfolio say, field by field, and how a repository without a report comes into them."""

from __future__ import annotations

import csv
import io
import re
import sys
import types
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hpushim.errors import HpushimError
from hpushim.matrix import load
from hpushim.model import Target
from hpushim.portfolio import assessing, engines, page, rows
from hpushim.portfolio.assessing import Done, Job, assess
from hpushim.portfolio.folder import Folder
from hpushim.portfolio.rows import Blocker, Portfolio, Row

VERDICTS = page._ORDER


def _row(name: str, verdict: Any = "ready", **how: Any) -> Row:
    return Row(name, verdict, how.pop("sentence", "as it is"), **how)


def _made(*made: Row) -> Portfolio:
    return rows.gather([], made, Target(), "hpushim 1")


def _texts(element: ET.Element) -> list[str]:
    return ["".join(cell.itertext()) for cell in element]


def _lines(portfolio: Portfolio) -> list[ET.Element]:
    return list(page._table(portfolio).iter("tr"))[1:]


@pytest.mark.parametrize(
    ("row", "cells", "by"),
    [
        (_row("a"), ["a", "ready", "–", "–", "0", "–", "0"], ["0", "100", "0", "0"]),
        (_row("a", least=1, most=90, lines=2000, share=50, files=1234, unread=1001), ["a", "ready", page.in_words(1, 90), "50% of 2,000", "1,234 (1,001 not read)", "–", "0"], ["90", "50", "1234", "0"]),
        (_row("a", "failed", sentence="it is gone"), ["a", "failed", "–", "–", "0", "it is gone", "0"], ["0", "100", "0", "0"]),
        (_row("a", "failed", blockers=(Blocker("k", 1),)), ["a", "failed", "–", "–", "0", "k", "0"], ["0", "100", "0", "0"]),
        (_row("a", lines=1, unread=1, files=1), ["a", "ready", "–", "100% of 1", "1 (1 not read)", "–", "0"], ["0", "100", "1", "0"]),
        (_row("a", blockers=tuple(Blocker(f"b{n}", 1) for n in range(3))), ["a", "ready", "–", "–", "0", "b0, b1, b2", "0"], ["0", "100", "0", "0"]),
        (_row("a", blockers=tuple(Blocker(f"b{n}", 1) for n in range(4)), not_assessed=("x", "y")), ["a", "ready", "–", "–", "0", "b0, b1, b2 and 1 more", "2"], ["0", "100", "0", "2"]),
    ],
)  # fmt: skip
def test_a_row_says_each_field(row: Row, cells: list[str], by: list[str]) -> None:
    (line,) = _lines(_made(row))
    assert _texts(line) == cells
    assert [*[cell.get("data-by") for cell in line][2:5], line[6].get("data-by")] == by
    assert line.get("data-verdict") == row.verdict
    assert line[6].get("title") == (", ".join(row.not_assessed) or None)
    assert [cell.get("class") for cell in line] == [None, None, "n", "n", "n", None, "n"]
    link = line[0].find("a")
    assert link is None
    (linked,) = _lines(_made(msgspec.structs.replace(row, page="r/a.html")))
    link = linked[0].find("a")
    assert link is not None and (link.get("href"), link.text) == ("r/a.html", "a")


@pytest.mark.parametrize("verdict", VERDICTS)
def test_each_verdict_has_its_badge_and_place(verdict: Any) -> None:
    badge = "none" if verdict == "failed" else page.BADGES[verdict]
    others = [other for other in reversed(VERDICTS) if other != verdict]
    made = _made(*(_row(name, name) for name in [verdict, *others]), _row("again", verdict))
    line = next(line for line in _lines(made) if line.get("data-verdict") == verdict)
    dot = line[1].find("i")
    assert dot is not None and dot.get("class") == f"dot {badge}"
    top = page._top(made, "a title")
    key = [(entry.find("i").get("class"), "".join(entry.itertext())) for entry in top.iter("li")]  # type: ignore[union-attr]  # fmt: skip
    wanted = [(name, 2 if name == verdict else 1) for name in VERDICTS]
    assert [text for _, text in key] == [f"{name}: {number}" for name, number in wanted]
    assert key[VERDICTS.index(verdict)][0] == badge
    widths = [re.findall(r"width:(.*)%", span.get("style", ""))[0] for span in top.iter("span")]
    assert widths == [f"{100 * number / 10:.2f}" for _, number in wanted]
    said = "; ".join(f"{name}: {number}" for name, number in wanted)
    assert _texts(top)[:2] == ["a title", f"{said}."]
    options = [(option.get("value"), option.text) for option in page._table(made).iter("option")]
    assert options == [("", "all"), *((name, name) for name in VERDICTS)]


@pytest.mark.parametrize("number", [0, 1, 2])
def test_the_page_names_how_many_and_what_was_asked(number: int) -> None:
    made = _made(*(_row(f"r{n}", least=10, most=60 * n) for n in range(number)))
    text = page.render_html(made)
    title = f"{number} {'repository' if number == 1 else 'repositories'} on Gaudi"
    assert f"<h1>{title}</h1>" in text and f"<title>{title}</title>" in text
    takes = f" {page.in_words(20, 60)} by hand in all." if number == 2 else ""
    verdicts = f"ready: {number}" if number else ""
    assert f'<p class="verdict">{verdicts}.{takes}</p>' in text
    t = made.target
    assert f"Checked for {t.gaudi}, release {t.stack}, mode {t.mode}, style {t.style}." in text
    assert "Made by hpushim 1." in text and "Nothing was run" not in text and "run on a Gaudi" in text  # fmt: skip
    for kept in ('<a href="#repositories" class="skip">Skip to the repositories</a>', 'lang="en"', 'aria-label="Filter repositories"', 'aria-live="polite"', "<script>", 'tabindex="-1"'):  # fmt: skip
        assert kept in text, kept
    assert '<form class="filter" hidden' in text
    assert (page._shared(made), 'class="bar" aria-hidden="true"' in text) == ([], True)


@pytest.mark.parametrize("blockers", [1, 2, 25, 26, 27])
@pytest.mark.parametrize("owners", [1, 3, 4])
def test_what_blocks_most_of_them(blockers: int, owners: int) -> None:
    all_ = tuple(Blocker(f"b{n:02}", 1000 - n) for n in range(blockers))
    made = _made(*(_row(f"r{n}", "needs work", blockers=all_) for n in range(owners)))
    (section,) = page._shared(made)
    lines = list(section.iter("tr"))
    assert _texts(lines[0]) == ["what", "repositories", "places", "which"]
    assert not any("data-sorts" in cell.attrib for cell in lines[0])
    assert all("data-sorts" in cell.attrib for cell in next(page._table(made).iter("tr")))
    assert [cell.get("class") or "" for cell in lines[0]] == ["", "n", "n", ""]
    assert len(lines) == 1 + min(blockers, 25)
    names = ", ".join(f"r{n}" for n in range(min(owners, 3))) + (" and 1 more" if owners > 3 else "")  # fmt: skip
    assert _texts(lines[1]) == ["b00", str(owners), f"{1000 * owners:,}", names]
    more = [p.text for p in section.findall("p")]
    left = blockers - 25
    assert more == ([f"{left} more blocker{'s' if left > 1 else ''} in portfolio.json."] if left > 0 else [])  # fmt: skip
    region = section.find("div")
    assert region is not None
    assert (region.get("role"), region.get("tabindex"), region.get("aria-label"), region.get("class")) == ("region", "0", "What blocks most of them", "scroll")  # fmt: skip


def test_blockers_are_ordered_by_repositories_then_places_then_name() -> None:
    made = _made(_row("b", blockers=(Blocker("x", 1), Blocker("many", 9))), _row("a", blockers=(Blocker("x", 1), Blocker("few", 3), Blocker("also", 3))))  # fmt: skip
    assert [(b.what, b.places, b.repositories) for b in made.blockers] == [
        ("x", 2, ("a", "b")), ("many", 9, ("b",)), ("also", 3, ("a",)), ("few", 3, ("a",)),
    ]  # fmt: skip
    assert (made.schema_version, made.tool, made.verdicts) == (1, "hpushim 1", {"ready": 2})


def test_the_table_has_each_field_in_its_column() -> None:
    row = _row("=a", "needs work", least=1, most=2, lines=3, share=4, files=5, unread=6, blockers=(Blocker("b", 1), Blocker("c", 2)), not_assessed=("d", "e"), page="p", sentence="s")  # fmt: skip
    head, line = csv.reader(io.StringIO(rows.render_csv(_made(row))))
    assert len(head) == len(line) == 12
    assert line[1:] == ["needs work", "1", "2", "3", "4", "5", "6", "b; c", "d; e", "p", "s"]
    assert line[0] != "=a" and line[0].endswith("=a")  # no formula of a spreadsheet


def _report(**how: Any) -> bytes:
    finding = {"code": "HPU001", "name": "n", "severity": "error", "line": 3, "row": "r", "trouble": "stops", "handling": "by-hand"}  # fmt: skip
    places = how.pop("places", ["a.py:3"])
    required = how.pop("required", True)
    dependencies = how.pop("dependencies", [])
    found = {
        "tool": "hpushim 1", "target": msgspec.to_builtins(Target()), "dependencies": dependencies,
        "summary": {"verdict": "needs work", "sentence": "s", "least": 1, "most": 2, "lines": msgspec.to_builtins(rows.LineCounts()), "files": 1, "failed": 0, "work": [{"places": places, "required": required}]},
        "files": [{"path": "a.py", "findings": [{**finding, **how}] * 2}],
    }  # fmt: skip
    return msgspec.json.encode(found)


_TROUBLES = msgspec.json.schema(rows.Trouble)["enum"]


@pytest.mark.parametrize("trouble", _TROUBLES)
@pytest.mark.parametrize("handling", ["by-hand", "fix"])
@pytest.mark.parametrize("places", [["a.py:3"], ["a.py:4"], []])
@pytest.mark.parametrize("required", [True, False])
def test_what_a_person_has_to_do_first_blocks(trouble: str, handling: str, places: list[str], required: bool) -> None:  # fmt: skip
    row = rows.read("x", _report(trouble=trouble, handling=handling, places=places, required=required), "p").row  # fmt: skip
    blocks = handling == "by-hand" and trouble in rows.REQUIRED and places == ["a.py:3"] and required  # fmt: skip
    assert row.blockers == ((Blocker("HPU001 n: r", 2),) if blocks else ())
    named = rows.read("x", _report(row=None), "p").row
    assert [b.what for b in named.blockers] == (["HPU001 n"] if "stops" in rows.REQUIRED else [])


_KINDS = msgspec.json.schema(rows.Dependency)["$defs"]["Dependency"]["properties"]["kind"]["enum"]


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("needed", [True, False])
@pytest.mark.parametrize("aside", [True, False])
@pytest.mark.parametrize("files", [0, 4])
def test_packages_that_need_cuda_block(kind: str, needed: bool, aside: bool, files: int) -> None:
    one = {"name": "zq", "files": files, "required": needed, "assessed_by": "files", "version": "", "kind": kind, "evidence": "", "status": "", "aside": aside}  # fmt: skip
    row = rows.read("x", _report(dependencies=[one], places=[]), "p").row
    assert row.blockers == ((Blocker(f"zq: {kind}", files),) if kind in rows.NEED_CUDA and needed else ())  # fmt: skip
    assert row.not_assessed == (("zq",) if kind == "not assessed" and files and not aside else ())


@pytest.mark.parametrize("data", [b"[]", b"{", b"\xff\xfe", b'{"tool": 1}'])
def test_another_file_is_no_report(data: bytes) -> None:
    with pytest.raises(HpushimError, match=r"^not a report of `hpushim report --format json`: "):
        rows.read("x", data, "p")


def test_reports_for_two_targets_are_named() -> None:
    one, two = Target(gaudi="gaudi2"), Target(gaudi="gaudi3")
    assert (rows.one_target([]), rows.one_target([one, one])) == (None, one)
    with pytest.raises(HpushimError, match=r"no total: gaudi2, release \S+, mode \w+, style \w+; gaudi3, .*; give --target, --stack, --mode and --style for all$"):  # fmt: skip
        rows.one_target([one, two, one])


# The folder, and what becomes of one repository.


def test_a_folder_that_cannot_be_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HpushimError, match=r"^--output .*file: no portfolio can be written there: .+; nothing was done$"):  # fmt: skip
        Folder(tmp_path / "file")


@pytest.mark.parametrize("before", ["report", "failed", "nothing"])
@pytest.mark.parametrize("after", ["report", "failed", "known"])
def test_the_newest_result_is_kept(tmp_path: Path, before: str, after: str) -> None:
    folder = Folder(tmp_path / "deep" / "out")
    made = {"report": Done("x", "key1", b"{}", b"page"), "failed": Done("x", failed="no\udcff"), "known": Done("x", "key1"), "nothing": None}  # fmt: skip
    for what in (before, after):
        if (done := made[what]) is not None:
            folder.keep(done)
    each = tmp_path / "deep" / "out" / "repositories"
    names = {path.suffix for path in each.iterdir() if path.name != ".lock"}
    whole = {".json", ".html"} if "report" in (before, after) else set()
    key = {".key"} if after == "report" or (before == "report" and after == "known") else set()
    assert names == whole | key | ({".failed"} if after == "failed" else set())
    assert folder.key("x") == ("key1" if key else "")
    if key:
        for kind in ("json", "html"):
            moved = (each / f"x.{kind}").rename(each / "aside")
            assert folder.key("x") == ""
            moved.rename(each / f"x.{kind}")
    if after == "failed":
        (row,) = folder.portfolio(["x"], [], Target()).repositories
        assert (row.verdict, row.sentence) == ("failed", "no\\udcff")


def test_rows_come_from_what_is_kept(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.keep(Done("a b", "k", _report(), b"page"))
    made = folder.portfolio(["a b", "gone"], [_row("other", "failed")], Target())
    assert [(r.name, r.verdict, r.page) for r in made.repositories] == [
        ("a b", "needs work", "repositories/a%20b.html"), ("gone", "failed", ""), ("other", "failed", ""),
    ]  # fmt: skip
    assert made.repositories[1].sentence == "its report cannot be read: No such file or directory"
    assert re.fullmatch(r"hpushim \d.*", made.tool)
    folder.finish(made)
    assert {path.name for path in tmp_path.iterdir() if path.is_file()} == {"portfolio.json", "portfolio.csv", "index.html"}  # fmt: skip
    assert (tmp_path / "portfolio.json").read_text() == rows.render_json(made)


@pytest.mark.parametrize(
    ("error", "why"),
    [(HpushimError("said"), "said"), (OSError(2, "gone", "f.py"), "f.py: gone"), (OSError(2, "gone"), "PATH: gone"), (OSError("odd"), "PATH: odd"),
     (ValueError("odd"), "internal error (ValueError: odd); please report it")],
)  # fmt: skip
def test_a_fault_is_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, why: str) -> None:  # fmt: skip
    def fails(*_: object) -> str:
        raise error

    monkeypatch.setattr(assessing, "_key", fails)
    assert assess(Job("x", tmp_path, Target())) == Done("x", failed=why.replace("PATH", str(tmp_path)))  # fmt: skip


def test_a_key_is_of_all_that_a_report_depends_on(tmp_path: Path) -> None:
    (tmp_path / "all").mkdir()
    (tmp_path / "all" / "a.py").write_text("1\n")
    (rows_ := tmp_path / "rows.toml").write_text("")
    (wheels := tmp_path / "wheels").mkdir()
    (wheels / "zq-1.whl").write_text("")
    matrix = load()
    plain = Job("x", tmp_path / "all", Target())
    forms = [plain, *(msgspec.structs.replace(plain, **how) for how in ({"select": ("HPU001",)}, {"ignore": ("HPU001",)}, {"exclude": ("*.py",)}, {"extra_rows": (rows_,)}, {"wheels": wheels}, {"target": Target(gaudi="gaudi3")}))]  # type: ignore[arg-type]  # fmt: skip
    keys = [assessing._key(job, matrix) for job in forms]
    assert len(set(keys)) == len(forms)
    assert all(len(key) == 32 for key in keys)
    assert assessing._key(msgspec.structs.replace(plain, known=keys[0]), matrix) == keys[0]
    (tmp_path / "all" / "a.py").write_text("12\n")
    rows_.write_text("#")
    (wheels / "zq-1.whl").write_text("#")
    (wheels / "readme").write_text("")
    again = [assessing._key(job, matrix) for job in forms]
    assert [a == b for a, b in zip(keys, again, strict=True)] == [False] * 3 + [True] + [False] * 3
    assert assess(msgspec.structs.replace(plain, known=again[0])) == Done("x", again[0])


class _Ray(types.ModuleType):
    """Ray's few functions, as they are used: tasks end in another order than they began."""

    def __init__(self, cpus: float | None, broken: Sequence[str]) -> None:
        super().__init__("ray")
        self.exceptions = types.SimpleNamespace(RayError=LookupError)
        self.cpus, self.broken, self.most, self.how = cpus, broken, 0, {}  # type: ignore[var-annotated]

    def init(self, **how: Any) -> None:
        assert how == {"ignore_reinit_error": True, "log_to_driver": False}

    def cluster_resources(self) -> dict[str, float]:
        return {} if self.cpus is None else {"CPU": self.cpus}

    def remote(self, **how: Any) -> Any:
        assert how == {"num_cpus": 1, "max_retries": 2}
        return lambda assess: types.SimpleNamespace(remote=lambda job: job)

    def wait(self, waiting: list[Job], num_returns: int) -> tuple[list[Job], list[Job]]:
        assert num_returns == 1
        self.most = max(self.most, len(waiting))
        return waiting[-1:], waiting[:-1]

    def get(self, job: Job) -> Done:
        if job.name in self.broken:
            raise LookupError(f"\n{job.name} lost\nmore\n")
        return Done(job.name, "k")


@pytest.mark.parametrize(("cpus", "most", "bound"), [(None, None, 2), (1.0, None, 2), (3.0, None, 6), (4.0, 1, 1), (0.0, None, 2), (2.0, 3, 3)])  # fmt: skip
@pytest.mark.parametrize("number", [0, 1, 9])
def test_a_cluster_gets_as_many_as_it_has_room_for(monkeypatch: pytest.MonkeyPatch, cpus: float | None, most: int | None, bound: int, number: int) -> None:  # fmt: skip
    ray = _Ray(cpus, ["r1"])
    monkeypatch.setitem(sys.modules, "ray", ray)
    kept: list[Done] = []
    jobs = [Job(f"r{n}", Path(), Target()) for n in range(number)]
    done = list(engines.ray(jobs, most, kept.append))
    assert sorted(done) == [job.name for job in jobs] and [one.name for one in kept] == done
    assert ray.most == min(bound, number)
    assert {one.name: one.failed for one in kept if one.failed} == ({"r1": "its Ray task failed: r1 lost"} if number > 1 else {})  # fmt: skip
    assert done[:1] == [f"r{min(bound, number) - 1}"] * bool(number)


def test_what_a_repository_is_assessed_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hpushim import dependencies, report
    from hpushim.dependencies import project as of
    from hpushim.engine import project
    from hpushim.model import Report

    asked: list[Any] = []
    plain = Report("hpushim", Target(), (), around=frozenset({"a"}), root="elsewhere")
    monkeypatch.setattr(project, "analyse", lambda *given, **how: asked.append((given, how)) or plain)  # fmt: skip
    monkeypatch.setattr(dependencies, "Places", lambda *given: ("places", *given))
    monkeypatch.setattr(of, "of_project", lambda *given: asked.append(given) or ())
    monkeypatch.setattr(assessing, "project_root", lambda paths: ("root", *paths))
    monkeypatch.setattr(report, "render", lambda made, form: f"{made.root} {form} \udce9")
    matrix: Any = object()
    job = Job("name", tmp_path, Target(), ("S",), ("I",), ("e",), (), tmp_path / "wheels")
    done = assessing._assessed(job, "key", matrix)
    assert done == Done("name", "key", b"name json \\udce9", b"name html \\udce9")
    assert asked[0] == (((tmp_path,), Target()), {"matrix": matrix, "select": ("S",), "ignore": ("I",), "exclude": ("e",), "jobs": 1, "propose": True, "cache": True})  # fmt: skip
    assert asked[1] == ((tmp_path,), ("e",), ("places", ("root", tmp_path), None, tmp_path / "wheels"), matrix, Target(), frozenset({"a"}), plain.reached)  # fmt: skip
