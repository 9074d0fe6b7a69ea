"""Whatever stands in names, sources and settings: the terminal, Markdown, JSON and diffs stay what they are."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import runs
from hypothesis import example, given
from hypothesis import strategies as st

from hpushim import showing
from hpushim.model import FileResult, Finding, Report, Span, Target
from hpushim.report import FORMATS, render
from hpushim.report.diff import unified
from hpushim.report.markup import code, prose

pytestmark = [pytest.mark.hostile("showing")]
Run = Callable[..., runs.Done]

#: Orders to a terminal, and characters that turn a line around or hide in it.
ORDERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ud800-\udfff]"
)
NAMES = {
    "escape": b"a\x1b[31mb.py",
    "title": b"\x1b]0;owned\x07.py",
    "newline": b"a\nb.py",
    "two newlines": b"\n\n.py",
    "carriage return": b"safe.py\rb.py",
    "tab": b"a\tb.py",
    "backspace": b"a\x08\x08b.py",
    "delete": b"a\x7f.py",
    "C1": "a\u009b31mb.py".encode(),
    "right to left": "a\u202eyp.b.py".encode(),
    "isolate": "a\u2066b\u2069.py".encode(),
    "line separator": "a\u2028b.py".encode(),
    "tag characters": "a\U000e0041.py".encode(),
    "not UTF-8": b"caf\xe9.py",
    "half of a character": b"\xed\xa0\x80.py",
    "all bytes": bytes(set(range(1, 256)) - {47})[:200] + b".py",
    "quotes": b'"a".py',
    "backslash": b"a\\033b.py",
    "blanks": b" a  b .py",
    "pipe and backtick": b"a|b`c.py",
    "HTML": b"<img src=x onerror=alert(1)>.py",
    "a comment": b"<!-- a.py",
    "a link": b"[x](javascript:alert(1)).py",
    "markup of rich": b"[red]x[[bold].py",
    "a diff": b"a.py\n+++ b\n@@ -1 +1 @@\n.py",
    "a workflow command": b"\n::set-output name=x::y.py",
    "dashes": b"--allow-dirty.py",
    "a bidirectional mark": "a\u200f\u061c.py".encode(),
    "emoji": "\U0001f469\u200d\U0001f680.py".encode(),
    "long": b"n" * 250 + b".py",
}


def named(turn: int) -> pytest.MarkDecorator:
    """Each name in two of four tests; in all of them with ``make test-all``."""
    marked = [pytest.param(name, marks=[pytest.mark.slow] if (place + turn) % 2 else []) for place, name in enumerate(NAMES)]  # fmt: skip
    return pytest.mark.parametrize("odd", marked, indirect=True)


@pytest.fixture
def odd(request: pytest.FixtureRequest, project: Path) -> Path:
    """The project with its file under a hostile name, in a folder of that name."""
    raw = NAMES[request.param]
    file = project / os.fsdecode(raw.removesuffix(b".py")[:200]) / os.fsdecode(raw)
    try:
        file.parent.mkdir()
        (project / "train.py").rename(file)
    except OSError as error:
        pytest.skip(f"no such name here: {error.strerror}")
    return file


@pytest.mark.parametrize("form", FORMATS)
def test_names_in_a_report(project: Path, hpushim: Run, form: str) -> None:
    """names of files in each format"""
    text = (project / "train.py").read_text()
    (project / "train.py").unlink()
    made = {raw for raw in NAMES.values() if _made(project, raw, text)}
    assert len(made) > 20
    done = hpushim("check", ".", "--format", form)
    assert done.code == 1 and not ORDERS.search(done.said), ascii(done.said)
    if form == "json":
        files = json.loads(done.out)["files"]
        assert len(files) == len(made) and all(file["findings"] for file in files)
        plain = {b"/".join(_parts(raw)).decode() for raw in made if _is_plain(b"/".join(_parts(raw)))}  # fmt: skip
        assert plain and plain <= {file["path"] for file in files}
    if form == "concise":
        places = [line for line in done.out.split("\n") if " HPU102 " in line]
        assert len(places) == len(made)
        for line in places:
            assert re.match(r'(?:"(?:[^"\\]|\\.)*"|[^"\\]*):3:\d+: HPU102 ', line), line
    if form == "text":  # which shows a few places of each code: one by one
        for raw in made:
            done = hpushim("check", project / os.fsdecode(_parts(raw)[0]), "--format", form)
            assert done.code == 1 and not ORDERS.search(done.said), ascii(done.said)
            places = [line for line in done.out.split("\n") if line.startswith("    ")]
            assert any(re.match(r' {4}(?:"(?:[^"\\]|\\.)*"|[^"\\]*):3:\d+: ', line) for line in places)  # fmt: skip


def _parts(raw: bytes) -> tuple[bytes, bytes]:
    """The folder and the file of a hostile name."""
    return raw.removesuffix(b".py")[:200], raw


def _made(project: Path, raw: bytes, text: str) -> bool:
    folder, name = map(os.fsdecode, _parts(raw))
    try:
        (project / folder).mkdir()
        (project / folder / name).write_text(text)
    except OSError:  # no such name here
        return False
    return True


def _is_plain(raw: bytes) -> bool:
    try:
        return not raw.decode().startswith('"')
    except UnicodeDecodeError:
        return False


@named(0)
def test_a_name_in_a_diff(odd: Path, project: Path, hpushim: Run, tmp_path: Path) -> None:
    """names of files in a diff, which git applies to the file that is meant"""
    done = hpushim("migrate", "--diff", ".")
    assert done.code == 1
    headers = [line for line in done.out.split("\n") if line.startswith(("--- ", "+++ "))]
    assert len(headers) == 2 and not ORDERS.search("".join(headers).replace("\t", ""))
    copy = tmp_path / "copy"
    shutil.copytree(project, copy)
    (tmp_path / "d").write_bytes(done.out.encode("utf-8", "surrogateescape"))
    applied = subprocess.run(
        ["git", "apply", "-p1", "../d"], cwd=copy, capture_output=True, check=False,
        env={"GIT_CEILING_DIRECTORIES": str(tmp_path), "PATH": os.environ["PATH"], "HOME": str(tmp_path)},
    )  # fmt: skip
    assert applied.returncode == 0, applied.stderr
    hpushim("migrate", ".")
    there = copy / odd.relative_to(project)
    assert there.read_bytes() == odd.read_bytes() and b"hpu" in odd.read_bytes()


@named(1)
def test_a_name_that_is_put_back(odd: Path, project: Path, hpushim: Run) -> None:
    """names of files in the list of --undo, and in what it refuses"""
    before = runs.state(project)
    assert hpushim("migrate", ".").code == 0
    odd.write_bytes(odd.read_bytes() + b"# mine\n")
    refused = hpushim("migrate", "--undo", ".")
    assert refused.code == 3 and not ORDERS.search(refused.said)
    assert len(refused.err.strip().split("\n")) == 1
    done = hpushim("migrate", "--undo", "--force", ".")
    assert done.code == 0 and not ORDERS.search(done.said)
    assert len(done.out.strip().split("\n")) == 2
    assert runs.state(project) == before


@named(2)
def test_a_name_in_a_refusal(odd: Path, project: Path, hpushim: Run) -> None:
    """names of files with uncommitted changes, and of files that cannot be read"""
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    done = hpushim("migrate", ".")
    assert done.code == 2 and "--allow-dirty" in done.err and not ORDERS.search(done.said)
    assert len(done.err.strip().split("\n")) == 1
    odd.write_bytes(b"x = '\xff'  # cuda\n")
    done = hpushim("check", ".")
    assert done.code == 3 and not ORDERS.search(done.said)


@named(3)
def test_a_name_on_the_command_line(odd: Path, project: Path, hpushim: Run) -> None:
    """names of files that are given, that are missing, and that a report goes to"""
    assert not ORDERS.search(hpushim("check", odd).said)
    missing = odd.with_name("no " + odd.name[:200])
    done = hpushim("check", missing)
    assert done.code == 2 and not ORDERS.search(done.said)
    report = odd.with_name("r" + odd.name[:200])
    done = hpushim("check", odd, "-o", report.with_suffix(".txt"))
    assert done.code == 1 and not ORDERS.search(done.said)


CHARACTERS = [
    "\x1b[2J",
    "\x1b]52;c;eA==\x07",
    "\u202e",
    "\u2066",
    "\x9b1m",
    "\x7f",
    "\x0c",
    "\u2028",
    "\x85",
    "\u200f",
]


def _shown(project: Path, hpushim: Run, form: str) -> list[runs.Done]:
    """Reports that show each of the files a0, a1 and so on; some formats show a few places of each code."""
    (project / "train.py").unlink()
    if form in ("text", "markdown"):
        return [hpushim("check", path, "--format", form) for path in sorted(project.iterdir())]
    done = hpushim("check", ".", "--format", form)
    assert all(f"a{number}" in done.said for number in range(len(CHARACTERS)))
    return [done]


@pytest.mark.parametrize("form", FORMATS)
def test_lines_of_source(project: Path, hpushim: Run, form: str) -> None:
    """source lines that are shown"""
    for number, character in enumerate(CHARACTERS):
        text = f'import torch\nx = torch.zeros(2, device="cuda")  # {character}{character}\ny = "{character}", x.cuda()\n'
        (project / f"a{number}.py").write_bytes(text.encode())
    for done in _shown(project, hpushim, form):
        assert done.code in (1, 3) and not ORDERS.search(done.said), ascii(done.said)


@pytest.mark.parametrize("form", FORMATS)
def test_names_in_source(project: Path, hpushim: Run, form: str) -> None:
    """strings of the source that messages repeat"""
    for number, character in enumerate(CHARACTERS):
        folder = project / f"a{number}"
        folder.mkdir()
        (folder / "train.py").write_text(
            f'import torch\nx = "cuda{character}"\ntorch.cuda.set_device("{character}")\n'
        )
        (folder / "run.sh").write_text(
            f'export CUDA_VISIBLE_DEVICES="{character}"\nNCCL_{character}=1 python a.py\n'
        )
        (folder / "c.yaml").write_text(f'device: cuda\n"{character}": nccl\n')
    for done in _shown(project, hpushim, form):
        assert not ORDERS.search(done.said), ascii(done.said)


@pytest.mark.parametrize(
    "character", ["\\u001b[2J", "\\u202e", "\\u009b", "\\u0007", "\\n", "\\u2028"]
)
def test_settings_and_rows(project: Path, hpushim: Run, character: str) -> None:
    """settings and rows of the project's own that are shown"""
    (project / "pyproject.toml").write_text('[tool.hpushim]\nmatrix = ["ours.toml"]\n')
    (project / "ours.toml").write_text(
        f'[[row]]\nname = "ours.x"\nstatus = "unsupported"\nrule = "HPU021"\nnote = "No{character.replace(chr(92) + "n", "")} `|`."\n'
        f'target = "{character}"\n'
    )
    (project / "train.py").write_text("import ours\nours.x()\n")
    for words in (
        ("check", "."), ("check", ".", "--format", "markdown"), ("api", "ours.x"), ("api", "ours.x", "--json"), ("api", "ours.x", "--markdown"),
        ("matrix", "show", "--kind", "api"), ("matrix", "show", "--json"), ("matrix", "check"),
    ):  # fmt: skip
        assert not ORDERS.search(hpushim(*words).said), words
    for setting in ("stack", "target", "mood", "ignore"):
        (project / "pyproject.toml").write_text(f'[tool.hpushim]\n{setting} = "{character}"\n')
        done = hpushim("check", ".")
        assert done.code == 2 and not ORDERS.search(done.said)
    (project / "pyproject.toml").write_text(f'[tool.hpushim]\n"{character}" = 1\n')
    assert not ORDERS.search(hpushim("check", ".").said)


@pytest.mark.parametrize(
    ("encoding", "form"),
    [
        *(("ascii", form) for form in FORMATS),
        *((e, "text") for e in ("latin-1", "cp1252", "utf-8")),
    ],
)
def test_a_terminal_of_a_narrow_encoding(
    project: Path, hpushim: Run, form: str, encoding: str
) -> None:
    """output that cannot hold every character"""
    (project / "caf\u00e9\u4e2d.py").write_text(
        "import torch\nx = torch.zeros(2).cuda()  # \u4e2d \u00e9\n"
    )
    for words in (
        ("check", ".", "--format", form),
        ("migrate", "--diff", "."),
        ("check", "\u4e2d\u00e9"),
    ):
        done = hpushim(*words, PYTHONIOENCODING=f"{encoding}:strict")
        assert done.code in (1, 2) and "Traceback" not in done.said
        assert "Error:" not in done.err.replace("Error: Invalid", "")


# -- generated --------------------------------------------------------------------------------

_text = st.text(
    st.characters() | st.sampled_from("`|\\<>&[]()*_~\"'\n\r\t\x1b\u202e\udcff"), max_size=30
)


@given(_text)
def test_any_text_on_one_line(text: str) -> None:
    """generated text through each of the escaping functions"""
    for shown in (showing.one_line(text), showing.quoted(text)):
        assert not ORDERS.search(shown) and "\n" not in shown
        shown.encode()
    assert not ORDERS.search(showing.lines(text).replace("\n", ""))


@given(st.binary(min_size=1, max_size=12), st.binary(min_size=1, max_size=12))
def test_any_two_names_are_shown_differently(one: bytes, other: bytes) -> None:
    """generated names: shown alike only if they are alike"""
    shown = [showing.path(name) for name in (one, other)]
    assert (shown[0] == shown[1]) == (one == other)
    assert (showing.quoted(shown[0]) == showing.quoted(shown[1])) == (one == other)


@given(_text.filter(bool))
def test_any_text_in_a_cell(text: str) -> None:
    """generated text in a table of Markdown: one cell, no HTML, no link"""
    for cell in (code(text), prose(text)):
        bare = re.sub(r"\\.", " ", cell)  # what is escaped stands for itself
        assert "|" not in bare and "\n" not in cell
        # From left to right: in code between backticks a backslash is one.
        outside = re.sub(r"\\.|`[^`]*`", " ", re.sub(r"</?code>", "", cell))
        assert "`" not in outside
        assert not re.search(r"<[A-Za-z/!?]|\]\(", outside)


@given(st.lists(_text, min_size=1, max_size=4), st.sampled_from(FORMATS))
@example(["\ud800"], "json")
@example(["\udcff\udfff"], "json")
def test_any_report(texts: list[str], form: str) -> None:
    """generated reports in each format"""
    first, *rest = (texts * 4)[:4]
    finding = Finding(
        "HPU101", "x", "warning", "manual", first, Span(0, 1), 1, 1, 1, 2, row=rest[0]
    )
    files = (
        FileResult(
            showing.path(os.fsencode(rest[1].replace("\0", "") or "a"))
            if not _halves(rest[1])
            else "a",
            "unchanged",
            None,
            (finding,),
            rest[2].encode("utf-8", "surrogatepass"),
        ),
        FileResult("b", "failed", rest[1]),
    )
    shown = render(Report("hpushim 0", Target(), files), form)
    assert not ORDERS.search(shown)
    shown.encode()
    if form == "json":
        assert len(json.loads(shown)["files"]) == 2


def _halves(text: str) -> bool:
    return any(0xD800 <= ord(c) <= 0xDFFF for c in text)


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_any_bytes_in_a_diff(before: bytes, after: bytes) -> None:
    """generated contents: the diff carries the bytes"""
    text = unified("a", before, after).encode("utf-8", "surrogateescape")
    if before == after:
        assert not text
        return
    body = [line for line in text.split(b"\n")[2:] if not line.startswith((b"@@", b"\\"))]
    kept = [line[1:] for line in body if line[:1] in b" +" and line]
    new = set(after.split(b"\n")) - set(before.split(b"\n")) - {b""}
    assert new <= set(kept)
