"""What every command has in common: help that fits, colours, quiet, standard input, completion, and faults of the surroundings."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import warm
from click.testing import CliRunner, Result

from hpushim.cli import COMMANDS, cli

ROOT = Path(__file__).resolve().parent.parent
CUDA = "import torch\nx = torch.ones(2).cuda()\n"
HPU = 'import torch\nx = torch.ones(2).to("hpu")\n'


def run(*words: str, given: bytes | str = "", env: dict[str, str] | None = None) -> Result:
    result = CliRunner().invoke(cli, words, input=given, env=env, standalone_mode=False)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def process(*words: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[bytes]:
    return warm.run(
        [sys.executable, "-m", "hpushim", *words],
        cwd=cwd, env={**os.environ, **env}, capture_output=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(CUDA)
    monkeypatch.chdir(folder)
    return folder


# -- help ---------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_fits_eighty_columns_and_says_what_each_option_does(command: str) -> None:
    words = [command] if command else []
    text = run(*words, "--help", env={"COLUMNS": "80"}).output
    assert [line for line in text.splitlines() if len(line) > 80] == []
    assert text.startswith("Usage: ")


@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in ("run", "matrix")])
def test_every_option_has_help(command: str) -> None:
    import click

    found = cli.get_command(click.Context(cli), command)
    assert found is not None
    options = [one for one in found.params if isinstance(one, click.Option)]
    bare = [one.name for one in options if not one.help and one.name != "format_"]
    assert bare == []


# -- explain ------------------------------------------------------------------------------


def test_explain_begins_with_the_code_asked() -> None:
    text = run("explain", "HPU109").stdout
    assert text.startswith("HPU109 `check-guards-nvidia-only-code` (note)\n")
    assert text.index("A check that guards nothing but packages") < text.index("# HPU108")
    assert run("explain", "108").stdout.startswith("# HPU108 ")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("nccl backend", "HPU301"),
        ("loss scaling", "HPU204"),
        ("pinned memory of a data loader", "HPU607"),
        ("flash attention", "HPU703"),
        ("map location of checkpoints", "HPU612"),
    ],
)
def test_explain_finds_codes_by_words(words: str, code: str) -> None:
    found = [line.split()[0] for line in run("explain", *words.split()).stdout.splitlines()]
    assert code in found[:3]


def test_explain_says_that_nothing_speaks_of_it() -> None:
    result = run("explain", "qwertz")
    assert (result.return_value, result.stdout) == (1, "")
    assert "--all" in result.stderr


def test_an_unknown_code_gets_those_near_it_with_their_names() -> None:
    import click

    with pytest.raises(click.UsageError, match=r"no rule gives HPU1O1; near it: HPU\d{3} [a-z]"):
        run("explain", "HPU1O1")
    with pytest.raises(click.UsageError, match="no rule gives HUP102; near it: HPU102 cuda-call"):
        run("explain", "HUP102")
    assert run("explain", "fp16").return_value == 0  # a word, not a code
    with pytest.raises(click.UsageError, match="HPU904 is reported while a program runs"):
        run("explain", "HPU904")


# -- standard input -----------------------------------------------------------------------


def test_migrate_rewrites_standard_input(project: Path) -> None:
    result = run("migrate", "-", "--stdin-filename", "pkg/new.py", given=CUDA)
    assert (result.return_value, result.stdout, result.stderr) == (0, HPU, "")
    assert sorted(path.name for path in project.iterdir()) == ["train.py"]


def test_what_does_not_parse_comes_back_as_it_was(project: Path) -> None:
    broken = "import torch\nx = torch.ones(2).cuda(\n"
    result = run("migrate", "-", given=broken)
    assert (result.return_value, result.stdout) == (3, broken)
    assert "stdin.py:2:" in result.stderr


def test_bytes_come_back_as_they_were(project: Path) -> None:
    odd = b"\xef\xbb\xbfx = 1  # \xe2\x82\xac\r\ny = 2"
    assert run("migrate", "-", given=odd).stdout_bytes == odd


def test_check_names_what_came_on_standard_input(project: Path) -> None:
    (project / "setup.py").write_text("")
    result = run("check", "-", "--stdin-filename", "pkg/new.py", "--format", "json", given=CUDA)
    (file,) = json.loads(result.stdout)["files"]
    assert (result.return_value, file["path"]) == (1, "pkg/new.py")
    assert run("check", "-", given="x = 1\n").return_value == 0


def test_the_kind_is_told_by_the_name(project: Path) -> None:
    result = run(
        "migrate", "-", "--stdin-filename", "run.sh", given="CUDA_VISIBLE_DEVICES=0 python a.py\n"
    )
    assert "HABANA_VISIBLE_DEVICES" in result.stdout or "HABANA" in result.stdout


@pytest.mark.parametrize(
    "words", [("check", "-", "train.py"), ("check", "--stdin-filename", "a.py")]
)
def test_standard_input_stands_alone(project: Path, words: tuple[str, ...]) -> None:
    import click

    with pytest.raises(click.UsageError, match="standard input"):
        run(*words)


# -- quiet and colours --------------------------------------------------------------------


def test_a_diff_says_what_it_leaves_unless_quiet(project: Path) -> None:
    (project / "more.py").write_text("import triton\n")
    told = run("migrate", "--diff", ".")
    assert "findings not in the diff: 1 to review by hand" in told.stderr
    assert "by hand" not in told.stdout
    quiet = run("migrate", "--diff", "--quiet", ".")
    assert (quiet.stderr, quiet.stdout) == ("", told.stdout)


def test_a_stage_that_takes_long_tells_of_itself(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hpushim.cli import output

    monkeypatch.setattr(output, "_PATIENCE", -1.0)
    result = run("check", ".")
    first, last = result.stderr.splitlines()
    assert first == "hpushim: checking 1 file …"
    assert last.startswith("hpushim: 1 file in ")
    assert run("check", "-q", ".").stderr == ""


def test_no_color_means_none(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pty

    def shown(**env: str) -> bytes:
        leader, follower = pty.openpty()
        done = subprocess.Popen(
            [sys.executable, "-m", "hpushim", "migrate", "--diff", "."], stdout=follower, stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL, env={**os.environ, "TERM": "xterm", **env},
        )  # fmt: skip
        os.close(follower)
        data = b""
        while True:
            try:
                part = os.read(leader, 65536)
            except OSError:
                break
            if not part:
                break
            data += part
        done.wait()
        os.close(leader)
        return data

    monkeypatch.delenv("NO_COLOR", raising=False)
    assert b"\x1b[32m" in shown()
    plain = shown(NO_COLOR="1")
    assert b"\x1b[" not in plain
    assert b"+x = torch" in plain
    assert b"\x1b[" not in shown(TERM="dumb")


# -- surroundings -------------------------------------------------------------------------


def test_a_locale_without_unicode_loses_nothing(project: Path) -> None:
    name = "\u53d8\u91cf"
    (project / "train.py").write_text(CUDA.replace("x =", f"{name} ="), encoding="utf-8")
    narrow = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for words in (("check", "."), ("migrate", "--diff", "."), ("explain", "101")):
        done = process(*words, cwd=project, **narrow, PYTHONIOENCODING="ascii")
        assert done.returncode in (0, 1), done.stderr
        assert b"Traceback" not in done.stderr
    done = process("check", ".", cwd=project, **narrow, PYTHONIOENCODING="latin-1")
    assert rb"\u53d8\u91cf = torch" in done.stdout


@pytest.mark.parametrize("words", [("api", "torch.cuda.*"), ("explain", "--all"), ("check", ".")])
def test_a_reader_that_leaves_is_no_fault(project: Path, words: tuple[str, ...]) -> None:
    for number in range(300):
        (project / f"more{number}.py").write_text(CUDA)
    read, write = os.pipe()
    os.close(read)
    done = warm.run(
        [sys.executable, "-m", "hpushim", *words],
        cwd=project,
        stdout=write,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(write)
    # A slow machine sees two lines of progress; nothing else belongs there.
    assert re.sub(rb"hpushim: .* files( \xe2\x80\xa6| in .* files/s)\n", b"", done.stderr) == b""
    assert done.returncode in (0, 1)


@pytest.mark.parametrize(
    "words",
    [
        ("check", "nowhere"),
        ("migrate", "nowhere"),
        ("init", "nowhere"),
        ("merge-driver", "a", "b", "c"),
    ],
)
def test_missing_paths_are_named(project: Path, words: tuple[str, ...]) -> None:
    done = process(*words, cwd=project)
    assert done.returncode == 2
    assert (b"nowhere" in done.stderr) or (b"a:" in done.stderr)
    assert b"Traceback" not in done.stderr


def test_a_place_that_cannot_be_written_is_named(project: Path) -> None:
    # A folder where a file should be made stops even root.
    (project / "hpushim.toml").mkdir()
    done = process("init", cwd=project)
    assert done.returncode == 2
    assert b"hpushim.toml" in done.stderr
    assert b"Traceback" not in done.stderr
    done = process("check", "-o", "nowhere/report.txt", cwd=project)
    assert done.returncode == 2
    assert b"nowhere/report.txt" in done.stderr


def test_shells_complete_commands_codes_and_names(project: Path) -> None:
    def completed(line: str) -> list[str]:
        done = process(
            cwd=project,
            _HPUSHIM_COMPLETE="bash_complete",
            COMP_WORDS=line,
            COMP_CWORD=str(len(line.split(" ")) - 1),
        )
        return [one.partition(b",")[2].decode() for one in done.stdout.splitlines()]

    assert "merge-driver" in completed("hpushim m")
    assert "HPU101" in completed("hpushim explain HPU1")
    assert "torch.cuda.synchronize" in completed("hpushim api torch.cuda.syn")
    assert "--stdin-filename" in completed("hpushim check --st")
    for shell in ("bash", "zsh", "fish"):
        assert (
            b"_HPUSHIM_COMPLETE" in process(cwd=project, _HPUSHIM_COMPLETE=f"{shell}_source").stdout
        )


# -- doctor -------------------------------------------------------------------------------


def test_every_problem_that_doctor_tells_has_a_remedy() -> None:
    tree = ast.parse((ROOT / "hpushim/shim/diagnosis.py").read_text(encoding="utf-8"))
    told = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Fact" and len(node.args) > 1
        and getattr(node.args[1], "value", "") == "problem"
    ]  # fmt: skip
    assert len(told) > 7
    assert [node.lineno for node in told if len(node.args) < 4] == []


def test_doctor_tells_what_to_do(project: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the emulated device needs torch")
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    env = {"HPUSHIM_CACHE_DIR": str(shared), "HPUSHIM_GAUDI": "gaudi9", "HPUSHIM_LEDGRE": "x"}
    done = process("doctor", "--json", cwd=project, **env)
    assert done.returncode == 1
    found = {fact["topic"]: fact for fact in json.loads(done.stdout)}
    assert "chmod go-w" in found["emulated HPU"]["remedy"]
    assert "expected gaudi1, gaudi2 or gaudi3" in found["HPUSHIM_GAUDI"]["text"]
    assert found["HPUSHIM_GAUDI"]["remedy"] == "unset it or choose one of these"
    assert all(fact["remedy"] for fact in found.values() if fact["state"] == "problem")
    assert b"do: unset HPUSHIM_LEDGRE" in process("doctor", cwd=project, **env).stdout
