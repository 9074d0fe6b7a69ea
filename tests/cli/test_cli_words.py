"""Each command in this process: what it says for each state of its files and options, where, and with which exit code."""

from __future__ import annotations

import io
import json
import os
import sys
import types
from pathlib import Path
from typing import Any

import click
import pytest

import hpushim
from hpushim import cli
from hpushim.cli import explain, options, output, proofs
from hpushim.errors import HpushimError
from hpushim.matrix import load
from hpushim.model import FileResult, Finding, Report, Span, Target

CUDA = 'import torch\nx = torch.ones(2, device="cuda")\n'
M = load()


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(hpushim, "disarm", lambda: None)
    monkeypatch.setattr(output, "quiet", False)


@pytest.fixture
def ran(capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*words: str | Path) -> tuple[int, str, str]:
        code = cli.main(list(map(str, words)))
        return (code, *capsys.readouterr())

    return run


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (click.exceptions.Abort(), 130, "hpushim: stopped\n"), (HpushimError("why"), 2, "hpushim: why\n"), (OSError(2, "gone", "a.py"), 2, "hpushim: a.py: gone; check that path and try again\n"),
        (OSError("odd"), 2, "hpushim: odd; check that path and try again\n"), (MemoryError(), 3, "hpushim: not enough memory; name fewer files, or give --jobs 1\n"),
        (click.UsageError("how"), 2, "Error: how\n"), (ValueError("odd"), 4, "ValueError: odd\nhpushim: internal error (ValueError: odd); nothing was left half done. Please report it with the lines above.\n"),
    ],
)  # fmt: skip
def test_each_error_has_its_words_and_code(monkeypatch: pytest.MonkeyPatch, ran: Any, error: BaseException, code: int, said: str) -> None:  # fmt: skip
    def fails(**_: Any) -> None:
        raise error

    monkeypatch.setattr(cli.cli, "main", fails)
    found = ran("check")
    assert found[:2] == (code, "") and found[2].endswith(said)


def test_a_reader_that_left_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def left(**_: Any) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(cli.cli, "main", left)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert cli.main(["check"]) == 0
    assert getattr(sys.stdout, "name", "") == os.devnull


@pytest.mark.parametrize("result", [0, 3, None, "text", True])
def test_the_exit_code_is_that_of_the_command(monkeypatch: pytest.MonkeyPatch, result: Any) -> None:  # fmt: skip
    asked: list[Any] = []
    monkeypatch.setattr(cli.cli, "main", lambda **how: asked.append(how) or result)
    monkeypatch.setattr(sys, "stderr", None)
    assert cli.main(["x"]) == (result if isinstance(result, int) else 0)
    assert asked == [{"args": ["x"], "prog_name": "hpushim", "standalone_mode": False}]
    assert getattr(sys.stderr, "name", "") == os.devnull


@pytest.mark.parametrize("words", [["check", "."], ["report"], ["migrate"], []])
@pytest.mark.parametrize("broken", [None, OSError, ValueError])
def test_commands_that_only_read_end_at_once(monkeypatch: pytest.MonkeyPatch, words: list[str], broken: Any) -> None:  # fmt: skip
    ended: list[Any] = []

    class Stream(io.StringIO):
        def flush(self) -> None:
            ended.append("flushed")
            if broken:
                raise broken

    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, Stream())
    monkeypatch.setattr(sys, "argv", ["hpushim", *words])
    monkeypatch.setattr(cli, "main", lambda: 7)
    monkeypatch.setattr(cli.gc, "disable", lambda: ended.append("no circles"))
    monkeypatch.setattr(os, "_exit", ended.append)
    found = cli.script()
    quick = words[:1] in (["check"], ["report"])
    if not quick or broken:
        assert found == 7
    whole = ["no circles", "flushed", "flushed", 7]
    assert ended == (whole[:2] if broken else whole) * quick


def test_no_command_of_that_name(ran: Any) -> None:
    assert ran("chek")[0] == 2 and "no command 'chek'; did you mean 'check'?" in ran("chek")[2]
    assert f"no command 'zzz'; the commands are {', '.join(cli.COMMANDS)}" in ran("zzz")[2]
    assert ran("check\udcff\ud800")[2] == "Error: argument 'check\\udcff\\ud800': not valid Unicode\n"  # fmt: skip
    said = ran("--help")[1]
    assert [name for name in cli.COMMANDS if f"  {name} " not in said] == []
    assert cli.cli.get_command(click.Context(cli.cli), "zzz") is None
    assert ran("--version")[1] == f"hpushim {hpushim.__version__}\n"


# Files to write to.


@pytest.mark.parametrize("option", ["--output", "--baseline"])
def test_what_cannot_be_written_is_said_before_any_work(tmp_path: Path, option: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "code.py").write_text("")
    (tmp_path / "old.txt").write_text("")
    assert output.ready(None, tmp_path) is None
    for name in ("new.py", "old.txt", "new.txt"):
        output.ready(tmp_path / name, tmp_path, option)
    for name, why in (("folder", "a folder, not a regular file"), ("code.py", "it is python code, which a report would replace"), ("gone/x", "No such file or directory")):  # fmt: skip
        with pytest.raises(HpushimError) as error:
            output.ready(tmp_path / name, tmp_path, option)
        assert str(error.value) == f"{option} {tmp_path / name}: no report can be written there: {why}; nothing was done"  # fmt: skip


@pytest.mark.parametrize("place", [None, "x.txt", "gone/x.txt"])
def test_a_text_goes_to_its_file_or_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str | None) -> None:  # fmt: skip
    file = tmp_path / place if place else None
    for kind in ("output", "report"):
        if kind == "output":
            written = output.show_text("text\n", file, tmp_path)
        else:
            written = output.show(_report(), "json", file, tmp_path)
        said = capsys.readouterr()
        if place == "x.txt":
            assert file is not None and file.read_text()
            assert (written, said.out, said.err) == (True, "", f"{'' if kind == 'output' else 'report '}written to {file}\n")  # fmt: skip
        else:
            assert written is (place is None)
            assert said.out == "text\n" if kind == "output" else json.loads(said.out)
            assert said.err == (f"hpushim: the {kind} cannot be written to {file}: No such file or directory\n" if place else "")  # fmt: skip


def _finding(**how: Any) -> Finding:
    fields = {"code": "HPU101", "name": "n", "severity": "warning", "safety": "safe", "message": "m", "span": Span(0, 1), "line": 3, "column": 4, "end_line": 3, "end_column": 5}  # fmt: skip
    return Finding(**{**fields, **how})


def _report(*findings: Finding, status: Any = "unchanged", **how: Any) -> Report:
    return Report(tool="hpushim 1", target=Target(), files=(FileResult("a.py", status, None, findings, b"x\n", **how),))  # fmt: skip


@pytest.mark.parametrize("severity", ["error", "warning", "unknown", "note"])
@pytest.mark.parametrize("fail_on", list(output._FAILING))
@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.parametrize("status", ["unchanged", "changed", "failed"])
@pytest.mark.parametrize("pending", [True, False])
def test_exit_codes(severity: Any, fail_on: str, applied: bool, status: str, pending: bool) -> None:
    found = output.exit_code(_report(_finding(severity=severity, applied=applied), status=status), pending=pending, fail_on=fail_on)  # fmt: skip
    fails = severity in output._FAILING[fail_on] and not applied
    assert found == (3 if status == "failed" else 1 if pending and status == "changed" else int(fails))  # fmt: skip
    assert output._FAILING == {"note": ("error", "warning", "unknown", "note"), **output._FAILING} and "note" not in output._FAILING["warning"]  # fmt: skip
    for code in output._TROUBLE:
        assert output.exit_code(_report(_finding(code=code, severity="note"))) == 3


@pytest.mark.parametrize(
    ("findings", "said"),
    [
        ([], ""), ([{"applied": True}, {"severity": "note"}], ""),
        ([{}], "findings not in the diff: 1 to review by hand; `hpushim check` lists them\n"),
        ([{"safety": "unsafe"}], "findings not in the diff: 1 with an unsafe rewrite (add --unsafe); `hpushim check` lists them\n"),
        ([{"safety": "unsafe"}, {}, {}], "findings not in the diff: 1 with an unsafe rewrite (add --unsafe), 2 to review by hand; `hpushim check` lists them\n"),
    ],
)  # fmt: skip
def test_a_diff_says_what_it_does_not_show(capsys: pytest.CaptureFixture[str], findings: list[dict[str, Any]], said: str) -> None:  # fmt: skip
    output.show_diff(_report(*(_finding(**one) for one in findings), after=b"y\n"))
    shown = capsys.readouterr()
    assert shown.out == "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x\n+y\n"
    assert shown.err == said
    output.show_diff(_report())
    assert capsys.readouterr().out == ""


def test_what_came_on_standard_input_goes_out(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    code = sorted(output._TROUBLE)[0]
    output.show_result(_report(_finding(code=code)), b"before\n")
    shown = capfdbinary.readouterr()
    assert (shown.out, shown.err) == (b"before\n", f"a.py:3:4: {code} m\n".encode())
    output.show_result(_report(after=b"after\n"), b"before\n")
    assert capfdbinary.readouterr().out == b"after\n"


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("slow", [True, False])
def test_a_stage_that_takes_long_says_so_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: int, slow: bool) -> None:  # fmt: skip
    import time

    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    with output.progress("reading") as update:
        assert update is not None
        clock[0] += output._PATIENCE
        update(0, number, "a.py")
        clock[0] += 1.0 if slow else 0.0
        update(1, number, "a.py")
        update(number, number, "b.py")
        clock[0] += 3.0
    said = capsys.readouterr().err.splitlines()
    took = output._PATIENCE + 4
    files = "1 file" if number == 1 else "2 files"
    assert said == ([f"hpushim: reading {files} …", f"hpushim: {files} in {took:.0f} s, {number / took:.1f} files/s"] if slow else [])  # fmt: skip
    monkeypatch.setattr(output, "quiet", True)
    with output.progress("reading") as none:
        assert none is None


def test_a_bar_of_a_terminal_goes_when_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    from rich import progress

    made: list[Any] = []

    class Bar:
        tasks = (types.SimpleNamespace(elapsed=0.5), types.SimpleNamespace(elapsed=2.0), types.SimpleNamespace(elapsed=None))  # fmt: skip

        def __init__(self, *columns: Any, **how: Any) -> None:
            made.append(how)

        def __enter__(self) -> Bar:
            return self

        def __exit__(self, *given: Any) -> None:
            made.append("ends")

        def add_task(self, what: str, **how: Any) -> int:
            made.append((what, how))
            return 1

        def update(self, task: int, **how: Any) -> None:
            made.append((task, how))

    monkeypatch.setattr(progress, "Progress", Bar)
    with output._bar("reading", "files") as update:
        update(3, 4, "a.py")
        for elapsed in (0.5, None):
            Bar.tasks[1].elapsed = elapsed  # type: ignore[assignment]
            update(4, 4, "a b")
    how = made[0]
    assert how.pop("console").stderr and how == {"transient": True, "expand": True}
    assert made[1] == ("reading", {"total": None, "path": "reading the project", "rate": ""})
    shown = [(1, {"completed": 3, "total": 4, "path": "a.py", "rate": "1.5 files/s"})]
    shown += [(1, {"completed": 4, "total": 4, "path": output.showing.quoted("a b"), "rate": ""})] * 2  # fmt: skip
    assert made[2:] == [*shown, "ends"]


@pytest.mark.parametrize(("errors", "set_"), [("strict", ["backslashreplace"]), ("replace", []), ("surrogateescape", []), (None, [])])  # fmt: skip
def test_a_stream_of_a_narrow_encoding_shows_the_rest_as_escapes(monkeypatch: pytest.MonkeyPatch, errors: str | None, set_: list[str]) -> None:  # fmt: skip
    asked: list[tuple[str, str]] = []
    for name in ("stdout", "stderr"):
        stream = types.SimpleNamespace(errors=errors, reconfigure=lambda errors, name=name: asked.append((name, errors)))  # fmt: skip
        monkeypatch.setattr(sys, name, stream)
    output._takes_all(False)
    output._takes_all(True)
    assert asked == [(name, one) for name in ("stdout", "stderr") for one in set_]
    monkeypatch.setattr(sys, "stdout", types.SimpleNamespace(errors="strict"))
    output._takes_all(False)


# Commands.


def test_a_baseline_is_written_and_leaves_out_what_it_holds(tmp_path: Path, ran: Any) -> None:
    (tmp_path / "a.py").write_text(CUDA)
    assert ran("check", ".", "--write-baseline")[2].endswith("Error: --write-baseline needs --baseline FILE\n")  # fmt: skip
    assert ran("check", ".", "--write-baseline", "--baseline", "b", "--since", "x")[2].endswith("Error: --write-baseline records the whole project; leave --since out\n")  # fmt: skip
    assert ran("check", ".", "--baseline", "b")[::2] == (2, "hpushim: --baseline b: cannot be read: No such file or directory; --write-baseline creates it\n")  # fmt: skip
    (tmp_path / "d").mkdir()
    assert ran("check", ".", "--write-baseline", "--baseline", "d")[::2] == (2, "hpushim: --baseline d: no report can be written there: a folder, not a regular file; nothing was done\n")  # fmt: skip
    assert ran("check", ".", "--write-baseline", "--baseline", "b") == (0, "", "baseline written to b\n")  # fmt: skip
    number = len(json.loads((tmp_path / "b").read_text())["findings"])
    code, said, err = ran("check", ".", "--baseline", "b")
    assert (code, err) == (0, f"hpushim: {number} findings are in the baseline and not shown\n")
    assert "a.py" not in said
    (tmp_path / "a.py").write_text("print(1)\n")
    (tmp_path / "c.py").write_text(CUDA)
    code, said, err = ran("check", ".", "--baseline", "b")
    assert code == 1 and "c.py:2:" in said
    assert err == f"hpushim: 0 findings are in the baseline and not shown; {number} of its findings no longer occur, --write-baseline removes them\n"  # fmt: skip
    for data, why in ((b"{", r"b: not a baseline ("), (b'{"schema_version": 99, "tool": "x"}', "b: a baseline of version 99, expected ")):  # fmt: skip
        (tmp_path / "b").write_bytes(data)
        code, _, err = ran("check", ".", "--baseline", "b")
        assert (code, why in err, "write it anew with --write-baseline" in err or "write one with --write-baseline" in err) == (2, True, True)  # fmt: skip
    (tmp_path / "broken.py").write_text("x = (cuda\n")
    assert ran("check", ".", "--write-baseline", "--baseline", "b")[0] == 3
    assert ran("check", "c.py", "--exit-zero")[0] == 0


def test_where_a_baseline_cannot_be_written(tmp_path: Path, ran: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    from hpushim import safe_files

    def fails(*_: Any, **__: Any) -> None:
        raise OSError(28, "disk full")

    monkeypatch.setattr(safe_files, "write", fails)
    (tmp_path / "a.py").write_text(CUDA)
    assert ran("check", ".", "--write-baseline", "--baseline", "b") == (3, "", "hpushim: b cannot be written: disk full\n")  # fmt: skip
    code, said, err = ran("check", ".", "--output", "o")
    assert (code, err) == (3, "hpushim: the report cannot be written to o: disk full\n") and "a.py" in said  # fmt: skip


def test_pages_are_opened_by_code_and_found_by_words(ran: Any) -> None:
    from hpushim.engine.rules.catalogue import reported_at_run_time

    assert ran("explain")[0] == 2
    for asked in ("HPU101", "hpu101", "101"):
        code, said, _ = ran("explain", asked)
        assert code == 0 and "HPU101" in said.splitlines()[0]
    rows = ran("explain", "HPU101", "--rows")[1].partition("\n## Matrix rows\n")[2]
    assert [line for line in rows.splitlines() if line] == [f"- `{r.name}` ({r.status}{f', use `{r.target}`' if r.target else ''}): {r.note}" for r in M.by_rule("HPU101")]  # fmt: skip
    late = sorted(reported_at_run_time())[0]
    assert explain._unknown(late) == f"{late} is reported while a program runs, and has no page; look the name in its message up with `hpushim api`"  # fmt: skip
    assert explain._unknown("XYZQW") == "no rule gives XYZQW; `hpushim explain --all` lists all codes, `hpushim explain WORDS` searches"  # fmt: skip
    assert "; near it: HPU" in explain._unknown("HPU199") and ran("explain", "HPU199")[0] == 2
    code, said, err = ran("explain", "mixed", "precision")
    assert (code, err) == (0, "") and len(said.splitlines()) > 1
    first = said.split()[0]
    assert said.splitlines()[-1] == f"`hpushim explain {first}` opens a page; `hpushim api NAME` looks up a name"  # fmt: skip
    assert ran("explain", "zzqqzz") == (1, "", "no page mentions 'zzqqzz'; `hpushim explain --all` lists all codes\n")  # fmt: skip
    assert ran("explain", "--all")[1].startswith("#") and ran("explain", "--new", "a-rule")[0] in (0, 2)  # fmt: skip


def test_names_are_looked_up_in_each_form(ran: Any) -> None:
    name = "torch.cuda.synchronize"
    code, said, err = ran("api", name)
    assert (code, err) == (0, "") and said.startswith(name)
    data = json.loads(ran("api", name, "--json")[1])
    assert data["known"] is True
    table = ran("api", name, "--markdown")[1]
    assert table.startswith("|") and name in table
    code, said, err = ran("api", "torch.cuda.synchroniz")
    assert (code, said) == (1, "") and name in err
    code, said, _ = ran("api", "nobody_zq", "--json")
    assert code == 1 and json.loads(said)["known"] is False
    assert ran("api", "nobody_zq", "--markdown")[:2] == (1, "")
    pattern = "torch.cuda.mem*"
    rows = [row.name for row in M.find(pattern)]
    for form in ("json", "markdown", None):
        code, said, err = ran("api", pattern, *([f"--{form}"] if form else []))
        assert (code, err, [row for row in rows if row not in said]) == (0, "", [])
    answer = json.loads(ran("api", pattern, "--json")[1])
    assert (answer["query"], answer["known"], len(answer["found"])) == (pattern, True, len(rows))
    operator = next(iter(M.operators.support))
    assert f"{operator}: {M.operators.support[operator]}\n" in ran("api", f"{operator[:-1]}?")[1]
    assert f"{operator}: " not in ran("api", f"{operator[:-1]}?", "--markdown")[1]
    assert ran("api", "zz*zq") == (1, "", "nothing matches zz*zq; see `hpushim matrix show`\n")
    known = ", ".join(M.releases)
    assert ran("api", name, "--stack", "0.1")[::2] == (2, f"hpushim: release 0.1 is not in the matrix; one of {known}\n")  # fmt: skip


@pytest.mark.parametrize("name", ["hpushim.toml", "pyproject.toml"])
def test_settings_are_those_of_the_nearest_file(tmp_path: Path, name: str) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    head = "" if name == "hpushim.toml" else "[tool.hpushim]\n"
    (tmp_path / name).write_text(f'{head}target = "gaudi3"\n')
    assert (options.settings(inner)[0].target, options.settings(inner)[1]) == ("gaudi3", tmp_path / name)  # fmt: skip
    (tmp_path / "a" / "pyproject.toml").write_text("[tool.other]\n")
    assert options.settings(inner) == (options.Settings(), None)
    (tmp_path / "a" / "pyproject.toml").write_text("tool = 3\n")
    assert options.settings(inner) == (options.Settings(), None)
    for data, why in ((b"x = [", "not valid TOML"), (b"\xff", "not valid TOML")):
        (inner / name).write_bytes(data)
        with pytest.raises(HpushimError, match=f"{name}: {why} .*; fix the file"):
            options.settings(inner)
    (inner / name).write_bytes(b" " * (options._MAX_BYTES + 1))
    with pytest.raises(HpushimError, match=f"{name}: cannot be read: larger than .*; fix the file"):
        options.settings(inner)
    (inner / name).write_text(f"{head}target = 7\n")
    with pytest.raises(HpushimError, match=name):
        options.settings(inner)


@pytest.mark.parametrize(("name", "inside"), [("x.toml", True), ("a/../x.toml", True), ("../x.toml", False), ("/etc/x", False), ("link/x.toml", False), ("a\0b", False)])  # fmt: skip
def test_a_project_names_files_of_its_own_alone(tmp_path: Path, name: str, inside: bool) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "link").symlink_to(tmp_path)
    file = tmp_path / "p" / "hpushim.toml"
    found = options.Settings(matrix=(name,))
    if inside:
        assert options.own_rows(found, file, (Path("more"),)) == (tmp_path / "p" / name, Path("more"))  # fmt: skip
    else:
        with pytest.raises(HpushimError, match=r"\[tool.hpushim\] matrix names .*, which lies outside of the project; expected a file in .*; to use it anyway, pass it with --matrix$"):  # fmt: skip
            options.own_rows(found, file, ())


def test_init_writes_what_fits(tmp_path: Path, ran: Any) -> None:
    (tmp_path / "a.py").write_text(CUDA)
    assert ran("init", "--undo")[2].endswith("Error: --undo needs --git; to remove settings, edit the file\n")  # fmt: skip
    code, said, _ = ran("init")
    text = (tmp_path / "hpushim.toml").read_text()
    assert code == 0 and said.startswith("wrote to hpushim.toml:\n\n" + text)
    assert 'mode = "eager"  # or eager' in text or "  # or eager, compile, lazy: the one mode that you run in" in text  # fmt: skip
    assert "  # or dual: code that still runs on CUDA and CPU; agnostic: code that names no vendor" in text  # fmt: skip
    assert "1 of 1 files have findings; `hpushim report` lists it (" in said
    assert ran("init")[1] == f"{tmp_path / 'hpushim.toml'} already has settings; hpushim keeps them\n"  # fmt: skip
    for before, gap in (("", ""), ("x = 1\n", "\n"), ("x = 1", "\n\n"), ("x = 1\r\n", "\r\n"), ("x = 1\r\ny = 2", "\r\n\r\n")):  # fmt: skip
        (tmp_path / "hpushim.toml").unlink(missing_ok=True)
        (tmp_path / "pyproject.toml").write_bytes(before.encode())
        assert ran("init", "--mode", "lazy", "--style", "dual")[0] == 0
        after = (tmp_path / "pyproject.toml").read_bytes().decode()
        newline = "\r\n" if "\r\n" in before else "\n"
        assert after.startswith(f"{before}{gap}[tool.hpushim]{newline}target = ")
        assert f'mode = "lazy"{newline}style = "dual"{newline}# exclude' in after


@pytest.mark.parametrize("state", ["ok", "note", "problem"])
def test_what_is_found_on_this_machine_is_a_table(monkeypatch: pytest.MonkeyPatch, ran: Any, state: Any) -> None:  # fmt: skip
    from hpushim.shim import diagnosis

    found = [diagnosis.Fact("a", "ok", "here"), diagnosis.Fact("long", state, "there", "this")]
    monkeypatch.setattr(diagnosis, "facts", lambda: iter(found))
    code = int(state == "problem")
    assert ran("doctor") == (code, f"a     ok      here\nlong  {state:<8}there\n{'':14}do: this\n", "")  # fmt: skip
    code, said, err = ran("doctor", "--json")
    assert (code, json.loads(said), err) == (code, [vars(fact) for fact in found], "")


def test_patches_are_numbered_in_a_folder_that_is_made(tmp_path: Path, ran: Any) -> None:
    (tmp_path / "a.py").write_text(CUDA)
    (tmp_path / "run.sh").write_text("export NCCL_DEBUG=INFO\nexport CUDA_VISIBLE_DEVICES=0\n")
    for _ in range(2):
        code, _, err = ran("migrate", ".", "--split", "deep/out", "--pr", "pr.md")
        names = sorted(file.name for file in (tmp_path / "deep" / "out").iterdir())
        assert (code, names[0]) == (0, "0001-devices.patch")
        assert [line for line in err.splitlines() if line.startswith("wrote ")] == [f"wrote deep/out/{name}" for name in names]  # fmt: skip
        text = (tmp_path / "deep" / "out" / names[0]).read_text()
        assert f"[PATCH 1/{len(names)}]" in text and '+x = torch.ones(2, device="hpu")' in text
    assert (tmp_path / "a.py").read_text() == CUDA and "devices" in (tmp_path / "pr.md").read_text()


# Proofs.


def test_the_words_of_a_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    from hpushim.prove import words
    from hpushim.shim.run import launch

    monkeypatch.setattr(launch, "needs_torch", lambda: None)
    monkeypatch.setattr(words, "parse", lambda given, module: (given, module))
    for given, module, found in (
        (("a.py", "-m"), None, (("a.py", "-m"), None)), (("-m", "mod", "x"), None, (("x",), "mod")), (("-m",), None, (("-m",), None)),
        (("-m", "mod"), None, ((), "mod")), (("-m", "x"), "mod", (("-m", "x"), "mod")), ((), "mod", ((), "mod")),
    ):  # fmt: skip
        assert proofs.parsed(given, module) == found
    with pytest.raises(click.UsageError, match=r"name a script, such as `hpushim prove train.py`, or a module with -m"):  # fmt: skip
        proofs.parsed(())

    def refuses(given: Any, module: Any) -> None:
        raise ValueError("why")

    monkeypatch.setattr(words, "parse", refuses)
    with pytest.raises(click.UsageError, match=r"^why$"):
        proofs.parsed(("a.py",))


def _again(*given: str, command: str = "prove") -> str:
    @click.command(command)
    @click.option("--steps", type=int, default=3)
    @click.option("--unsafe/--no-unsafe", default=False)
    @click.option("--exclude", multiple=True)
    @click.option("--page")
    @click.option("--prove", is_flag=True)
    @click.argument("script")
    @click.pass_context
    def one(context: click.Context, **_: Any) -> str:
        return proofs.again(context, ("a b.py", "x"))

    return str(one.main([*given, "s"], standalone_mode=False))


@pytest.mark.parametrize(
    ("given", "kept"),
    [((), ""), (("--steps", "5"), " --steps 5"), (("--steps", "3"), " --steps 3"), (("--unsafe",), " --unsafe"), (("--no-unsafe",), " --no-unsafe"),
     (("--exclude", "a", "--exclude", "b c"), " --exclude a --exclude 'b c'"), (("--page", "p"), ""), (("--prove",), "")],
)  # fmt: skip
def test_the_command_line_that_repeats_a_proof(given: tuple[str, ...], kept: str) -> None:
    assert _again(*given) == f"hpushim prove{kept} 'a b.py' x"
    assert _again(*given, command="migrate") == f"hpushim migrate{kept} --prove 'a b.py' x"


@pytest.mark.parametrize("code", ["HPU213", "HPU402", "HPU613"])
def test_where_a_finding_is_less_severe_is_explained(ran: Any, code: str) -> None:
    from hpushim.engine.rules.finding_pages import entry

    about = entry(code)
    assert about is not None and about.code.lower
    status, said, _ = ran("explain", code)
    lines = said.split("\n\n")
    assert status == 0 and lines[0] == f"{code} `{about.code.name}` ({about.code.severity})"
    assert lines[1 : 1 + len(about.code.lower)] == [f"{severity} where {why}" for severity, why in about.code.lower.items()]  # fmt: skip


@pytest.mark.parametrize(("character", "escape"), [("\udc80", "\\x80"), ("\udcff", "\\xff"), ("\udc7f", "\\udc7f"), ("\udd00", "\\udd00"), ("\x1b", "\\x1b"), ("\x9f", "\\x9f"), ("\u202e", "\\u202e"), ("\U000e0001", "\\U000e0001")])  # fmt: skip
def test_what_is_not_fit_for_a_terminal_is_escaped(character: str, escape: str) -> None:
    assert output.showing.one_line(f"a{character}b") == f"a{escape}b"


@pytest.mark.parametrize("mode", [None, "eager"])
@pytest.mark.parametrize("style", [None, "native", "dual"])
def test_what_was_not_chosen_is_explained_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ran: Any, mode: str | None, style: str | None) -> None:  # fmt: skip
    from hpushim.cli import init

    monkeypatch.setattr(init, "_installed", lambda: None)
    code, said, _ = ran("init", *(["--mode", mode] if mode else []), *(["--style", style] if style else []), str(tmp_path))  # fmt: skip
    lines = said.splitlines()
    assert code == 0
    assert ("# or eager, compile, lazy" in next(one for one in lines if one.startswith("mode"))) is (mode is None)  # fmt: skip
    assert ("# or dual: code" in next(one for one in lines if one.startswith("style"))) is (style is None)  # fmt: skip
