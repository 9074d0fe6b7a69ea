"""Findings become pieces of work, and the pieces a verdict that a person can plan by."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from hpushim.engine.around import around
from hpushim.engine.links import Links
from hpushim.engine.project import analyse
from hpushim.model import (
    ABSENT,
    Basis,
    Dependency,
    FileResult,
    Finding,
    Kernels,
    Report,
    Span,
    Target,
)
from hpushim.report import assess
from hpushim.report.narrowing import Baseline, without
from hpushim.report.text import render_text
from hpushim.report.verdict import Verdict
from hpushim.report.work import Work, in_words

#: The functions at some lines of the file that the findings below are in.
FUNCTIONS = {5: "Loss.forward", 6: "Loss.forward", 10: "Loss.other"}


def at(line: int, message: str, code: str = "HPU515", **more: object) -> Finding:
    fields = {
        "severity": "warning",
        "safety": "manual",
        "effort": "hours",
        "effect": "speed",
        "function": FUNCTIONS.get(line, ""),
    } | more
    return Finding(code, "a-b", message=message, span=Span(0, 1), line=line, column=1, end_line=line, end_column=2, **fields)  # type: ignore[arg-type]  # fmt: skip


def report(*files: FileResult, **more: object) -> Report:
    aside = around([file.path for file in files], (), (), (), Links({})).around
    return Report("hpushim", Target(), files, around=aside, **more)  # type: ignore[arg-type]


def python(*findings: Finding, path: str = "loss.py") -> FileResult:
    return FileResult(path, "unchanged", None, findings, b"x = 1\n")


def test_one_cause_is_one_piece_and_each_further_function_adds_little() -> None:
    here = (at(5, "`x[m]`: size"), at(6, "`x[n]`: size"))
    (one,) = assess(report(python(*here))).summary.work
    (two,) = assess(report(python(*here, at(10, "`x[k]`: size")))).summary.work
    assert (one.function, len(one.places)) == ("Loss.forward", 2)
    assert (two.function, len(two.places)) == ("", 3)
    assert one.least < two.least < 2 * one.least
    (same,) = assess(report(python(*here, at(10, "`x[m]`: size")))).summary.work
    assert one.least < same.least < two.least
    assert len(assess(report(python(*here, at(10, "`x[k]`: slow")))).summary.work) == 2


@pytest.mark.parametrize(("code", "name", "pieces"), [
    ("HPU118", "a `{}`: complex", 1),  # one cause, whatever it is called
    ("HPU118", "{}: in its own words", 2),  # in two functions
    ("HPU709", "`{}`: no counterpart", 3),  # packages are apart
])  # fmt: skip
def test_what_is_in_one_function_for_one_code_is_one_piece(code: str, name: str, pieces: int) -> None:  # fmt: skip
    stops = {"severity": "error", "effect": None}
    found = [at(line, name.format(word), code, **stops) for line, word in ((5, "p"), (6, "q"), (10, "r"))]  # fmt: skip
    made = assess(report(python(*found))).summary
    assert len(made.work) == pieces
    assert sum(len(work.places) for work in made.work) == 3


def test_each_further_file_is_a_piece_of_code_of_its_own() -> None:
    def takes(*paths: str) -> tuple[int, int]:
        found = assess(report(*(python(at(5, "`x`: stops"), path=path) for path in paths)))
        (one,) = found.summary.work
        return one.least, one.most

    assert takes("a.py") < takes("a.py", "b.py") < takes("a.py", "b.py", "c.py")


PREPARED = """
import torch
from accelerate import Accelerator

accelerator = Accelerator()
model, optimizer = accelerator.prepare(make(), torch.optim.Adam(p))
accelerator.backward(model(x))
optimizer.step()
"""


@pytest.mark.parametrize(("asked", "verdict"), [
    ("accelerate==0.25.0", "needs work"), ("accelerate", "ready"), ("accelerate>=1.0", "ready"),
    ("accelerate==0.25.0\naccelerate>=0.17", "needs work"),  # each line for itself
])  # fmt: skip
def test_an_accelerate_that_does_not_look_for_gaudi_trains_on_the_cpu(
    tmp_path: Path, asked: str, verdict: Verdict
) -> None:
    (tmp_path / "train.py").write_text(PREPARED)
    (tmp_path / "requirements.txt").write_text(f"torch\n{asked}\n")
    made = assess(analyse([tmp_path], Target())).summary
    assert made.verdict == verdict
    assert ("Training stays on the CPU: a library puts the model there" in made.sentence) == (verdict == "needs work")  # fmt: skip


@pytest.mark.parametrize(
    ("reached", "verdict"), [((), "blocked"), (("run.py", "a.py"), "blocked"), (("run.py",), "needs work")]
)  # fmt: skip
def test_what_is_chosen_by_name_does_not_block(reached: tuple[str, ...], verdict: Verdict) -> None:
    none = at(1, "`kernels`: CUDA", "HPU709", severity="error", effort="none", effect=None)
    stops = at(1, "`fft`: stops", "HPU118", severity="error", effect=None)
    files = (python(none, path="a.py"), python(stops, path="b.py"), python(path="run.py"))
    made = assess(report(*files, program="run.py", reached=frozenset(reached))).summary
    assert made.verdict == verdict
    assert "no counterpart on gaudi: `kernels`" in made.sentence.lower()
    assert len(made.work) == 2


@pytest.mark.parametrize(("chosen", "verdict"), [((), "needs work"), (("fast.py",), "ready")])
def test_kernels_that_a_program_imports_under_a_condition_are_a_look(
    chosen: tuple[str, ...], verdict: Verdict
) -> None:
    use = kernel(1, "`own_cuda` is built", "HPU723")
    built = kernel(1, "`CUDAExtension`: CUDA")
    files = (python(use, path="fast.py"), python(built, path="setup.py"), python(use, path="tests/test_fast.py"))  # fmt: skip
    reached = frozenset({"run.py", "fast.py"})
    made = assess(report(*files, program="run.py", reached=reached, chosen=frozenset(chosen), kernels=(Kernels("a.cu", 900),), python_lines=9000)).summary  # fmt: skip
    assert made.verdict == verdict
    days = {piece.most for piece in made.work if piece.most > 8 * 60}
    assert bool(days) == (not chosen)


@pytest.mark.parametrize(
    ("more", "verdict"),
    [
        ({}, "needs work"),
        ({"unchosen": True}, "ready"),
        ({"function": "unused"}, "ready"),
        ({"function": "unused.go"}, "ready"),
    ],
)
def test_what_no_run_comes_to_by_itself_is_no_stop(more: dict[str, object], verdict: Verdict) -> None:  # fmt: skip
    stops = at(3, "`load`: stops", "HPU512", **{"severity": "error", "effect": None} | more)  # type: ignore[arg-type]
    made = assess(report(python(stops), unused=frozenset({"loss.py:unused"}))).summary
    assert (made.verdict, [work.chosen for work in made.work]) == (verdict, [bool(more)])
    assert ("In parts that the training run does not use by default: 1 piece of work by hand (1 to 4 hours)" in made.sentence) == bool(more)  # fmt: skip


@pytest.mark.parametrize("reached", [True, False])
@pytest.mark.parametrize("more", [{"severity": "unknown", "effect": None}, {"effect": "cpu"}])
def test_doubts_and_other_programs_devices_are_no_stops(more: dict[str, object], reached: bool) -> None:  # fmt: skip
    files = (python(at(1, "`gpu=`", "HPU726", **more), path="a.py"), python(path="run.py"))
    made = assess(report(*files, program="run.py", reached=frozenset({"run.py", *(["a.py"] if reached else [])}))).summary  # fmt: skip
    assert made.verdict == ("needs work" if reached else "ready")
    assert [work.chosen for work in made.work] == [not reached]


@pytest.mark.parametrize("imported", [True, False])
def test_a_package_that_stops_where_it_is_imported_is_no_work_where_it_is_required(imported: bool) -> None:  # fmt: skip
    cpu = {"effect": "cpu", "row": "lib", "effort": "minutes"}
    use = python(*([at(1, "`lib`: CPU", "HPU714", **cpu)] if imported else []))
    asked = FileResult("requirements.txt", "unchanged", None, (at(1, "`lib`: CPU", "HPU815", **cpu),), b"lib")  # fmt: skip
    work = assess(report(use, asked)).summary.work
    assert [piece.code for piece in work if piece.required] == ["HPU714" if imported else "HPU815"]
    assert not any(piece.chosen for piece in work)


@pytest.mark.parametrize(("files", "further", "first"), [(3, 17, "HPU715"), (3, 18, "HPU515"), (2, 5, "HPU515"), (1, 17, "HPU515")])  # fmt: skip
def test_a_package_that_carries_the_project_comes_first(files: int, further: int, first: str) -> None:  # fmt: skip
    slow = python(at(1, "`x[m]`: size"), path="run.py")
    partly = [python(at(1, "`graphs`: in part", "HPU715", effect=None), path=f"{n}.py") for n in range(files)]  # fmt: skip
    others = [python(path=f"o{n}.py") for n in range(further)]
    made = assess(report(slow, *partly, *others, program="run.py", reached=frozenset({"run.py"})))
    assert made.summary.work[0].code == first


def test_settings_that_could_not_be_read_come_last() -> None:
    broken = FileResult("a.yml", "failed", "not YAML", (at(1, "not YAML", "HPU001", severity="error"),), b":")  # fmt: skip
    made = assess(report(python(at(1, "`x[m]`: size")), broken)).summary
    assert [piece.code for piece in made.work] == ["HPU515", "HPU001"]


@pytest.mark.parametrize("kind", ["stops", "kernel"])
def test_what_only_builds_kernels_that_the_program_may_do_without_is_no_stop(kind: str) -> None:
    built = kernel(2, "`CUDAExtension`: CUDA") if kind == "kernel" else at(2, "`is_available()`: skips", "HPU028", severity="error", effect=None)  # fmt: skip
    use = at(1, "`own_cuda` is built", "HPU723", effort="none", effect="kernel")
    files = (python(built, path="setup.py"), python(use, path="fast.py"))
    made = assess(report(*files, program="run.py", reached=frozenset({"run.py", "fast.py"}), python_lines=9000)).summary  # fmt: skip
    assert made.verdict == "ready"


def test_kernels_of_what_is_chosen_by_its_name_are_no_stop() -> None:
    files = (python(kernel(1, "`load`: CUDA"), path="ops/conv.py"), python(path="run.py"))
    sources = (Kernels("ops/conv.cu", 90),)
    for reached, verdict in (({"run.py", "ops/conv.py"}, "needs work"), ({"run.py"}, "ready")):
        made = assess(report(*files, program="run.py", reached=frozenset(reached), kernels=sources, python_lines=9000)).summary  # fmt: skip
        assert made.verdict == verdict
        (work,) = made.work
        assert work.most > 8 * 60
        assert (work.required, work.chosen) == (verdict != "ready", verdict == "ready")


def test_what_somebody_may_choose_comes_before_what_nothing_waits_for() -> None:
    def stops(line: int, **more: object) -> Finding:
        return at(line, f"`{line}`: stops", f"HPU1{line:02}", **{"severity": "error", "effect": None} | more)  # type: ignore[arg-type]  # fmt: skip

    found = (at(7, "`x[m]`: size"), stops(2, unchosen=True), stops(3))
    work = assess(report(python(*found))).summary.work
    assert [piece.code for piece in work] == ["HPU103", "HPU102", "HPU515"]


@pytest.mark.parametrize(("file", "said"), [("ops/conv.py", True), ("tests/conv.py", False)])
def test_a_project_that_is_ready_says_that_its_kernels_do_not_run(file: str, said: bool) -> None:
    loads = at(1, "`load`: CUDA sources are not built", "HPU711", effort="minutes", effect="kernel")
    kernels = (Kernels(file.replace(".py", ".cu"), 90),)
    made = assess(report(python(loads, path=file), kernels=kernels, python_lines=9000)).summary
    assert made.verdict == "ready"
    assert ("1 CUDA source file of 90 lines does not run there" in made.sentence) == said


def test_a_function_that_exports_is_outside_of_training() -> None:
    stops = at(3, "`onnx`: stops", "HPU512", severity="error", effect=None, function="Net.export_onnx")  # fmt: skip
    file = python(stops, path="net.py")
    made = assess(report(file, program="net.py", reached=frozenset({"net.py"}))).summary
    assert (made.verdict, [piece.aside for piece in made.work]) == ("ready", [True])


def test_what_an_option_chooses_comes_after_what_every_run_meets() -> None:
    stops = {"severity": "error", "effect": None, "function": "make"}
    found = [at(line, f"`{line}`: stops", f"HPU1{line:02}", effort=effort, conditional=line < 10, **stops) for line, effort in ((5, "hours"), (7, "hours"), (10, "minutes"))]  # fmt: skip
    file = python(*found, path="run.py")
    work = assess(report(file, program="run.py", reached=frozenset({"run.py"}))).summary.work
    assert [piece.code for piece in work] == ["HPU110", "HPU105", "HPU107"]


def test_what_could_not_be_read_outside_of_training_is_named_last() -> None:
    broken = FileResult("docs/a.py", "failed", "not Python", (), b"(")
    made = assess(report(python(at(5, "`x`: slow")), broken)).summary
    assert made.verdict == "ready"
    assert made.sentence.endswith("1 file that no training program imports could not be read or rewritten in full.")  # fmt: skip


def test_what_could_not_be_read_is_named_where_there_is_work_anyway() -> None:
    broken = FileResult("a.py", "failed", "not Python", (), b"(")
    for finding, verdict in ((at(5, "`x`: stops", severity="error", effect=None), "needs work"), (at(5, "`x`: slow"), "incomplete")):  # fmt: skip
        made = assess(report(python(finding), broken)).summary
        assert made.verdict == verdict
        assert "1 file could not be read" in made.sentence


def test_what_the_program_imports_comes_first() -> None:
    long = at(1, "`a`: stops", "HPU709", severity="error", effect=None)
    short = at(1, "`b`: stops", "HPU118", severity="error", effect=None, effort="minutes")
    files = (python(long, path="a.py"), python(short, path="run.py"))
    made = assess(report(*files, program="run.py", reached=frozenset({"run.py"}))).summary.work
    assert [work.code for work in made] == ["HPU118", "HPU709"]


def test_an_extension_that_two_folders_import_is_one_piece() -> None:
    said = {"severity": "error", "effect": "kernel", "effort": "none"}
    uses = [python(at(1, "`ops_cuda`: built", "HPU723", **said), path=p) for p in ("a/heads/h.py", "a/ops/u.py")]  # fmt: skip
    (one,) = assess(report(*uses, kernels=(Kernels("a/ops/src/k.cu", 9), Kernels("a/ops/k.cu", 9)))).summary.work  # fmt: skip
    assert len(one.places) == 2


def test_the_same_words_are_one_cause_in_the_whole_project() -> None:
    image = [
        FileResult(f"{n}/Dockerfile", "unchanged", None, (at(1, f"`cuda:{n}` has no torch", "HPU801"),), b"x")
        for n in range(21)
    ]  # fmt: skip
    package = [python(at(1, "`mmcv`: no hpu", "HPU710"), path=f"{n}.py") for n in range(3)]
    made = assess(report(*image, *package))
    assert [(len(w.places), w.aside) for w in made.summary.work] == [(3, False), (21, True)]
    tested = python(at(1, "`mmcv`: no hpu", "HPU710"), path="tests/test_a.py")
    made = assess(report(*package, tested))
    assert [(len(w.places), w.aside) for w in made.summary.work] == [(3, False), (1, True)]


def test_packages_that_stop_are_pieces_of_their_own() -> None:
    stops = {"severity": "error", "effect": None}
    found = [at(1, f"`{name}`: pure CUDA kernels", "HPU712", **stops) for name in ("one", "other")]
    assert len(assess(report(python(*found))).summary.work) == 2


def kernel(line: int, message: str, code: str = "HPU711") -> Finding:
    return at(line, message, code, severity="error", effort="none", effect="kernel", row="row")


def test_kernels_are_written_once_whatever_builds_imports_and_guards_them() -> None:
    guard = at(6, "`x.is_cuda` controls `ext.run`", "HPU028", severity="error", effect=None)
    files = [
        python(kernel(1, "`load`: CUDA"), guard, path="ops/dcn/dcn.py"),
        python(kernel(1, "`box_cuda` is built", "HPU723"), path="ops/box/box.py"),
        python(kernel(2, "`box_cuda` is built", "HPU723"), path="heads/assigner.py"),
        python(kernel(1, "`CUDAExtension`: CUDA"), path="setup.py"),
    ]
    made = assess(report(*files, kernels=(Kernels("ops/box/src/box.cu", 9),), python_lines=9000))
    assert {work.effort for work in made.summary.work} == {"hours", "minutes"}
    assert sorted(len(work.places) for work in made.summary.work) == [1, 2, 2]
    (built,) = [work for work in made.summary.work if work.effort == "minutes"]
    assert built.places == ("setup.py:1",)


@pytest.mark.parametrize(
    ("severity", "verdict"), [("note", "ready"), ("warning", "ready"), ("error", "blocked")]
)
def test_kernels_that_the_project_can_do_without_do_not_block_it(
    severity: str, verdict: Verdict
) -> None:
    build = at(1, "`CUDAExtension`: CUDA", "HPU711", severity="error", effort="none", effect="kernel")  # fmt: skip
    use = at(1, "`box_cuda` is built", "HPU723", severity=severity, effort="none", effect="kernel")
    files = [python(build, path="setup.py"), python(use, path="box.py")]
    made = assess(report(*files, kernels=(Kernels("box.cu", 4000),), python_lines=900)).summary
    assert made.verdict == verdict
    (built,) = [work for work in made.work if "setup.py:1" in work.places]
    assert built.required is (severity == "error")


@pytest.mark.parametrize(
    ("files", "status", "said"),
    [
        (9, "", "Not counted: work for the package `core_zq`; to assess it, add `--env PYTHON`"),
        (9, "unknown", "No source shows whether `core_zq` works on Gaudi."),
        (1, "", "Not counted: work for the package `core_zq`; to assess it, add `--env PYTHON`"),
        (1, "unknown", "No source shows whether `core_zq` works on Gaudi."),
        (9, "native", ""),
    ],
)  # fmt: skip
def test_a_package_that_carries_the_project_is_named_first(
    files: int, status: str, said: str
) -> None:
    known = "by row" if status else "not assessed"
    each = Dependency("core_zq", files, True, "matrix" if status else "none", "", known, "", status)
    found = at(5, "stops", "HPU113", severity="error", effect=None)
    some = [python(found, path=f"{name}.py") for name in "abcdefghi"]
    sentence = assess(report(*some, dependencies=(each,))).summary.sentence
    assert (said in sentence) if said else ("core_zq" not in sentence)
    assert sentence.startswith(said or "core_zq") is (files == 9 and status != "native")


@pytest.mark.parametrize("required", [True, False])
@pytest.mark.parametrize(("found", "verdict"), [((), "nothing to do"), ((at(1, "to do", safety="safe"),), "ready"), ((at(1, "stops", severity="error", effect=None),), "needs work")])  # fmt: skip
def test_a_package_of_the_projects_own_that_is_not_there(found: tuple[Finding, ...], verdict: Verdict, required: bool) -> None:  # fmt: skip
    each = Dependency("ours.deps.core", 1, required, "none", evidence=ABSENT)
    made = assess(report(python(*found), dependencies=(each,))).summary
    said = made.sentence.startswith("`ours.deps.core` is not in this checkout: ")
    assert said is (required and verdict != "nothing to do")
    assert made.verdict == ("incomplete" if said and verdict == "ready" else verdict)


@pytest.mark.parametrize("severity", ["error", "warning"])
@pytest.mark.parametrize(("reached", "chosen", "first"), [((), (), "a"), (("b",), (), "b"), (("b", "c"), ("b",), "c"), (("c",), ("c",), "c"), (("a", "b"), (), "a")])  # fmt: skip
def test_the_first_place_is_one_that_the_program_comes_to(severity: str, reached: tuple[str, ...], chosen: tuple[str, ...], first: str) -> None:  # fmt: skip
    files = [python(at(1, "`fft` stops", "HPU118", severity=severity), path=f"{name}.py") for name in "abc"]  # fmt: skip
    made = report(*files, reached=frozenset(f"{each}.py" for each in reached), chosen=frozenset(f"{each}.py" for each in chosen))  # fmt: skip
    (piece,) = assess(made).summary.work
    assert piece.places[0] == f"{first}.py:1"


def test_what_decides_comes_first() -> None:
    found = (
        at(1, "slow"),
        at(2, "other", effect="numbers"),
        at(3, "nobody knows", severity="unknown", effect=None),
        at(4, "`load`: CUDA", "HPU711", severity="error", effort="none", effect="kernel"),
        at(5, "stops", "HPU028", severity="error", effect=None),
        at(6, "`k2`", severity="error", effect=None, effort="none"),
    )
    work = assess(report(python(*found[:3], *found[4:]), python(found[3], path="k.py"), python_lines=9000)).summary.work  # fmt: skip
    assert [w.message for w in work] == ["`k2`", "stops", "`load`: CUDA", "nobody knows", "other", "slow"]  # fmt: skip


@pytest.mark.parametrize(
    ("found", "path", "verdict"),
    [
        ((), "a.py", "nothing to do"),
        ((at(1, "slow"),), "a.py", "ready"),
        ((at(1, "stops", severity="error", effect=None),), "a.py", "needs work"),
        ((at(1, "stops", severity="error", effect=None),), "tests/test_a.py", "ready"),
        ((at(1, "nobody knows", severity="unknown", effect=None),), "a.py", "needs work"),
        ((at(1, "stays", effect="cpu"),), "a.py", "needs work"),
        ((at(1, "`k2`", severity="error", effect=None, effort="none"),), "a.py", "blocked"),
        ((at(1, "`load`", severity="error", effect="kernel", effort="none"),), "a.py", "needs work"),
    ],
)  # fmt: skip
def test_the_verdict_is_about_what_a_training_run_needs(
    found: tuple[Finding, ...], path: str, verdict: Verdict
) -> None:
    summary = assess(report(python(*found, path=path), python_lines=9000)).summary
    assert summary.verdict == verdict, summary.sentence


def test_a_file_of_a_test_that_cannot_be_read_leaves_the_verdict() -> None:
    broken = FileResult("tests/data/bad.py", "failed", "does not parse")
    summary = assess(report(python(), broken)).summary
    assert summary.verdict == "nothing to do"
    assert "1 file that no training program imports could not be read" in summary.sentence
    broken = FileResult("data/bad.py", "failed", "does not parse")
    assert assess(report(python(), broken)).summary.verdict == "incomplete"


def test_what_a_baseline_hides_is_in_the_headline() -> None:
    from hpushim.report.fingerprints import fingerprints
    from hpushim.report.narrowing import Known

    file = python(at(5, "`x[m]` …"))
    known = tuple(Known(mark, "", "", "") for mark in fingerprints(file))
    narrowed, _, _ = without(report(file), Baseline(1, "hpushim", known))
    summary = assess(narrowed).summary
    assert (summary.verdict, summary.sentence) == ("nothing new", "No new finding. 1 known finding is not shown.")  # fmt: skip


def test_nothing_was_looked_at() -> None:
    assert assess(report()).summary.verdict == "nothing looked at"
    skipped = FileResult("a.bin", "skipped", "binary")
    assert assess(report(skipped)).summary.verdict == "nothing looked at"
    kernels = assess(report(kernels=(Kernels("k.cu", 9),))).summary
    assert kernels.verdict == "blocked"


def test_a_row_that_says_more_effort_counts() -> None:
    found = at(1, "`x`", row="hard", effort="minutes")
    rows = {"hard": Basis("unsupported", "source", effort="none")}
    (work,) = assess(report(python(found), rows=rows)).summary.work
    assert (work.effort, work.most) == ("none", 0)


@pytest.mark.parametrize(
    ("minutes", "words"),
    [
        ((5, 20), "5 to 20 minutes"),
        ((60, 240), "1 to 4 hours"),
        ((10, 100), "up to 2 hours"),
        ((960, 4800), "2 to 10 days"),
        ((100, 1000), "up to 2 days"),
        ((0, 0), "up to 1 minute"),
        ((0, 1), "up to 1 minute"),
        ((30, 89), "30 to 89 minutes"),
        ((30, 90), "up to 2 hours"),
        ((30, 959), "up to 16 hours"),
    ],
)
def test_ranges_in_words(minutes: tuple[int, int], words: str) -> None:
    assert in_words(*minutes) == words


@pytest.mark.parametrize("where", ["", "Loss.forward"])
@pytest.mark.parametrize("code", ["HPU709", "HPU515"])
def test_a_finding_takes_what_its_piece_takes(where: str, code: str) -> None:
    """An optional package is a matter of minutes in the list and beside its finding."""
    found = at(5, "`pkg`: no kernels", code, function=where, conditional=bool(where))
    assessment = assess(report(python(found)))
    (piece,) = assessment.summary.work
    (item,) = assessment.items
    assert item.effort == piece.effort == ("minutes" if where and code == "HPU709" else "hours")
    assert assessment.summary.effort.hours == (piece.effort == "hours")


@pytest.mark.parametrize(
    ("messages", "also"),
    [
        (["`a.device` is CUDA; use `hpu:0`", "`b.device` is CUDA; use `hpu`"], "`b.device` with `hpu`"),
        (["`a.device` is CUDA; use `hpu:0`", "`a.device` is CUDA; use `hpu`"], "`hpu`"),
        (["`a` is CUDA; use `hpu`", "`a` is CUDA; use `hpu:1`", "`b` is CUDA; use `hpu:1`"], "`a` with `hpu:1` and `b` with `hpu:1`"),
        (["`a` is CUDA; use `hpu`", "`b` is CUDA; use `hpu`", "`c` is CUDA; use `hpu`"], "`b` and `c`"),
        (["`a` is CUDA; use `hpu`", "`a` is CUDA; use `hpu`"], ""),
    ],
)  # fmt: skip
def test_what_a_message_holds_for_as_well_is_named_by_what_it_is_about(messages: list[str], also: str) -> None:  # fmt: skip
    found = [
        at(line, message, "HPU801", severity="note") for line, message in enumerate(messages, 1)
    ]
    shown = render_text(report(python(*found)))
    assert (f"(the same for {also})" in shown) if also else ("the same for" not in shown)


@pytest.mark.parametrize("paths", [("a.py",), ("a.py", "b.py", "c.py"), ("a.py", "notebook.ipynb", "test_a.py")])  # fmt: skip
def test_a_package_is_one_piece_however_many_files_import_it(paths: tuple[str, ...]) -> None:
    def of(*paths: str) -> Work:
        files = [python(at(3, "`pkg` chooses", "HPU714", severity="error", row="pkg"), path=path) for path in paths]  # fmt: skip
        (one,) = assess(report(*files)).summary.work
        return one

    assert (of(*paths).least, of(*paths).most) == (of("a.py").least, of("a.py").most)
    assert len(of(*paths).places) == len(paths)


@pytest.mark.parametrize(
    ("code", "row", "one"),
    [("HPU715", "torch_scatter.scatter_min", True), ("HPU712", "numba.cuda", True), ("HPU118", "torch.cdist", False), ("HPU110", "torch.cuda.set_device", False)],
)  # fmt: skip
def test_a_part_of_a_package_is_one_piece_and_a_function_of_torch_is_not(code: str, row: str, one: bool) -> None:  # fmt: skip
    def of(*paths: str) -> Work:
        files = [python(at(3, f"`{row}`: no", code, severity="error", row=row), path=path) for path in paths]  # fmt: skip
        (found,) = assess(report(*files)).summary.work
        return found

    assert (of("a.py", "b.py", "c.py").most == of("a.py").most) == one


@pytest.mark.parametrize("name", ["up_native", "native_up", "up_ref", "naive_up", "up_torch"])
def test_kernels_with_plain_code_beside_them_are_hours(name: str) -> None:
    def of(text: str) -> Work:
        file = python(at(2, "`load`: builds. More", "HPU711", severity="error", effect="kernel", effort="none"), path="op.py")  # fmt: skip
        (one,) = assess(report(msgspec.structs.replace(file, before=text.encode()))).summary.work
        return one

    without, beside = of("x = load()\n"), of(f"x = load()\n\ndef {name}(x):\n    pass\n")
    assert without.least >= 8 * 60 > beside.most
    assert f"`load`: builds (`{name}` in " in beside.message


@pytest.mark.parametrize("status", ["", "unsupported", "partial", "emulated"])
@pytest.mark.parametrize("effect", ["speed", "numbers"])
@pytest.mark.parametrize("severity", ["warning", "error"])
def test_what_does_not_work_is_not_said_to_run_slower(
    status: str, effect: str, severity: str
) -> None:
    found = at(1, "`f`: m", "HPU602", severity=severity, effect=effect, row="f")
    (item,) = assess(report(python(found), rows={"f": Basis(status, "")})).items
    runs = "other" if status == "unsupported" and effect == "speed" else effect
    assert item.trouble == ("stops" if severity == "error" else runs)


@pytest.mark.parametrize(("more", "around", "later"), [
    ({}, (), ""), ({"unchosen": True}, (), ", in parts that the training run does not use by default"), ({}, ("loss.py",), ", in parts that the training run does not use by default"),
])  # fmt: skip
def test_the_heading_of_what_stops_says_what_the_list_by_hand_says(
    more: dict[str, object], around: tuple[str, ...], later: str
) -> None:
    found = at(3, "`load`: stops", "HPU512", **{"severity": "error", "effect": None} | more)  # type: ignore[arg-type]
    text = render_text(msgspec.structs.replace(report(python(found)), around=frozenset(around)))
    assert f"Stops on Gaudi{later}: 1" in text.splitlines()
    if later:
        assert f"  {later[2:]}:" in text.splitlines()


@pytest.mark.parametrize(("chosen", "part"), [((), ""), ((1,), " (1 of them to repair before it trains on Gaudi)"), ((0, 1), None)])  # fmt: skip
def test_the_heading_of_what_stops_counts_what_comes_first(
    chosen: tuple[int, ...], part: str | None
) -> None:
    found = [at(3 + 9 * n, f"`load{n}`: stops", f"HPU51{n + 1}", severity="error", effect=None, **({"unchosen": True} if n in chosen else {})) for n in (0, 1)]  # type: ignore[arg-type]  # fmt: skip
    (line,) = [each for each in render_text(report(python(*found))).splitlines() if each.startswith("Stops on Gaudi")]  # fmt: skip
    assert line == (f"Stops on Gaudi: 2{part}" if part is not None else "Stops on Gaudi, in parts that the training run does not use by default: 2")  # fmt: skip
