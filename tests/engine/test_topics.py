"""A migration in parts: each patch applies alone, all of them together are the whole."""

from __future__ import annotations

import ast
import itertools
import subprocess
from pathlib import Path

import msgspec
import pytest

from hpushim.engine import topics
from hpushim.engine.project import migrate
from hpushim.engine.topics import TOPICS, Part, scope, split
from hpushim.model import FileResult, Finding, Report, Span, Style, Target
from hpushim.report import pull_request

_APART = "\n\ndef nothing_{0}(a, b):\n    c = a + b\n    d = c * a\n    return d - b\n\n\n"
_PIECES = (
    "import torch\nimport torch.distributed as dist\n\n\ndef main(device):\n    return device\n",
    'def place(x):\n    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n    return x.to(device)\n',
    'def start():\n    dist.init_process_group("nccl")\n',
    "def wait():\n    torch.cuda.synchronize()\n",
    'def mixed(x):\n    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n    with torch.cuda.amp.autocast():\n        return x.to(device)\n',
)
FILES = {
    "apart.py": "".join(piece + _APART.format(n) for n, piece in enumerate(_PIECES[:4])),
    "near.py": _PIECES[0] + _PIECES[2] + _PIECES[3] + _PIECES[1],
    "folder with blanks/mixed.py": _PIECES[0] + _APART.format(0) + _PIECES[4],
    "last.py": "import torch\n\nx = torch.ones(2)\nx = x.cuda()",  # no newline at its end
    "same.py": "print(1)\n",
}


def git(root: Path, *words: str) -> str:
    names = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "core.autocrlf=false")
    done = subprocess.run(["git", *names, *words], cwd=root, capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def parts_of(root: Path, style: Style) -> tuple[Report, list[Part]]:
    def made(codes: tuple[str, ...] = ()) -> Report:
        return migrate([root], Target(style=style, mode="eager"), select=codes, write=False, jobs=1)

    whole = made()
    return whole, split(whole, made)


@pytest.mark.parametrize("style", ["agnostic", "dual", "native"])
def test_each_patch_applies_alone_and_all_are_the_whole(tmp_path: Path, style: Style) -> None:
    root = tmp_path / "project"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text.encode())
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "base")
    base = git(root, "rev-parse", "HEAD").strip()
    whole, parts = parts_of(root, style)
    assert len(parts) >= (1 if style == "dual" else 3)  # its constant joins the others
    assert [p.topic for p in parts] == [t for t in TOPICS if t in {p.topic for p in parts}]  # fmt: skip
    assert git(root, "status", "--short") == "", "nothing is written"
    patches = []
    for number, part in enumerate(parts, 1):
        text = pull_request.patch(part.topic, part.files, part.findings, style, (number, len(parts)))  # fmt: skip
        patches.append(tmp_path / f"{number}.patch")
        patches[-1].write_bytes(text.encode())
        git(root, "am", "-q", str(patches[-1]))
        message = git(root, "log", "-1", "--format=%s%n%b")
        assert message.lower().startswith(part.topic) and "No program was run" in message
        for file in part.files:
            assert (root / file.path).read_bytes() == file.after
            ast.parse(file.after or b"")
        git(root, "reset", "-q", "--hard", base)
    for order in itertools.permutations(patches):
        for patch in order:
            git(root, "am", "-q", str(patch))
        for file in whole.files:
            assert file.before is None or (root / file.path).read_bytes() == file.after
        git(root, "reset", "-q", "--hard", base)


def test_parts_of_a_file_that_touch_are_one(tmp_path: Path) -> None:
    (tmp_path / "near.py").write_text(FILES["near.py"])
    (tmp_path / "apart.py").write_text(FILES["apart.py"])
    _, parts = parts_of(tmp_path, "agnostic")
    topics = {
        name: [part.topic for part in parts for file in part.files if file.path.endswith(name)]
        for name in ("near.py", "apart.py")
    }
    assert len(topics["near.py"]) == 1 and len(topics["apart.py"]) == 3


def test_the_description_says_what_stays(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(FILES["apart.py"] + "torch.backends.cudnn.benchmark = True\nx = torch.cuda.get_device_name(0)\n")  # fmt: skip
    whole, _ = parts_of(tmp_path, "agnostic")
    # One file that is left as it was, one that was not read: neither is changed.
    whole = msgspec.structs.replace(whole, files=(*whole.files, FileResult("b.py", "unchanged", before=b"x", after=b"x"), FileResult("c.py", "skipped")))  # fmt: skip
    text = pull_request.description(whole, scope(whole))
    every = [f for file in whole.files for f in file.findings]
    made = [f for f in every if f.applied]
    assert len(made) < len(every) and made
    assert f"Of {len(every)} places, {len(made)} are changed in 1 file; {len(every) - len(made)} stay." in text  # fmt: skip
    for said in ("| devices | 1 |", "| distributed | 1 | 1 |", "## What is left", "HPU112", "`a.py:", "| CUDA | no |"):  # fmt: skip
        assert said in text


@pytest.mark.parametrize("lines", [0, 3, 4, 5])
@pytest.mark.parametrize("same", [True, False])
def test_parts_that_stand_near_each_other_are_one(lines: int, same: bool) -> None:
    before = [b"a\n", *[b"-\n"] * lines, b"b\n"]
    one, two = [b"A\n", *before[1:]], [*before[:-1], b"B\n"]
    whole = b"".join([b"A\n", *before[1:-1], b"B\n"])
    made = {"x": whole} if same else {"x": b"".join(one), "y": b"".join(two)}
    apart = topics._apart(b"".join(before), whole, made)
    assert apart == (made if same or lines >= 4 else {})
    assert topics._apart(b"".join(before), b"".join(one), made) == {}
    over = {"x": b"A\nQ\n", "y": b"A\nR\n"}
    assert topics._apart(b"a\nq\n", b"A\nQ\n", over) == {}


def _settled(*codes: str) -> FileResult:
    findings = tuple(Finding(code, "n", "error", "safe", "m", Span(0, 1), 1, 1, 1, 2, applied=True) for code in codes)  # fmt: skip
    return FileResult("a.py", "changed", None, findings, b"x\n", b"y\n")


@pytest.mark.parametrize(("codes", "main"), [((), "devices"), (("HPU101",), "devices"), (("HPU301", "HPU201", "HPU302"), "distributed"), (("HPU201", "HPU101"), "mixed precision"), (("HPUX01",), "devices"), (("HPU801", "HPU802", "HPU101"), "launchers and settings"), (("HPU501", "HPU401", "HPU601", "HPU101"), "memory and execution")])  # fmt: skip
def test_the_topic_of_a_file_is_that_of_most_of_it(codes: tuple[str, ...], main: str) -> None:
    assert topics._main(_settled(*codes)) == main
    whole = Report("hpushim 1", Target(), (_settled(*codes), _settled(*codes)))
    number = sum(topics.topic(one) == main for one in _settled(*codes).findings)
    assert ((main, 1, 2 * number) in scope(whole)) is bool(codes)
