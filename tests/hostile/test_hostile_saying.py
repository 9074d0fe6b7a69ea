"""What is wrong with the input is said as such: never "internal error", and the same everywhere."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
import runs
from crossed import crossed

from hpushim.cli import COMMANDS, main
from hpushim.engine.files import pool

pytestmark = [pytest.mark.hostile("saying")]
Run = Callable[..., runs.Done]

SETTINGS = {
    "no TOML": b"[tool.hpushim\n",
    "not UTF-8": b"[tool.hpushim]\nmode = '\xff'\n",
    "UTF-16": "[tool.hpushim]\n".encode("utf-16"),
    "a byte order mark": b"\xef\xbb\xbf[tool.hpushim]\nmood = 1\n",
    "NUL": b"[tool.hpushim]\n\0",
    "tool is no table": b"tool = 5\n",
    "hpushim is no table": b"[tool]\nhpushim = 5\n",
    "hpushim is a list": b"[[tool.hpushim]]\n",
    "an unknown name": b"[tool.hpushim]\nmood = 1\n",
    "a wrong type": b"[tool.hpushim]\nselect = 5\n",
    "a wrong choice": b'[tool.hpushim]\nmode = "fast"\n',
    "an unknown release": b'[tool.hpushim]\nstack = "99"\n',
    "deep arrays": b"[tool.hpushim]\nx = " + b"[" * 100_000,
    "deep tables": b"[tool.hpushim]\nx = " + b"{a=" * 100_000,
    "deep keys": b"[tool.hpushim]\n" + b"a." * 100_000 + b"a = 1\n",
    "a long number": b"[tool.hpushim]\nx = " + b"9" * 10_000 + b"\n",
    "a date": b"[tool.hpushim]\nmode = 9999-99-99\n",
    "twice": b"[tool.hpushim]\n[tool.hpushim]\n",
    "no matrix": b'[tool.hpushim]\nmatrix = ["nowhere.toml"]\n',
    "matrix is a word": b'[tool.hpushim]\nmatrix = "ours.toml"\n',
}
FINE = ("tool is no table", "NUL")


@pytest.mark.parametrize(("content", "words"), crossed(SETTINGS, [("check", "."), ("migrate", "."), ("api", "torch.cuda"), ("matrix", "show")], rounds=2))  # fmt: skip
def test_settings_that_cannot_be_used(
    project: Path, hpushim: Run, content: str, words: tuple[str, ...]
) -> None:
    """pyproject.toml is broken or says what means nothing"""
    (project / "pyproject.toml").write_bytes(SETTINGS[content])
    before = runs.state(project)
    done = hpushim(*words)
    assert done.code == 2 or content in FINE, done.said
    assert "internal error" not in done.said and "Traceback" not in done.said
    assert done.code != 2 or "pyproject.toml" in done.err or "release" in done.err or "nowhere.toml" in done.err  # fmt: skip
    assert done.code == 0 or runs.state(project) == before


ROWS = {
    "no TOML": b"[[row\n",
    "not UTF-8": b'[[row]]\nname = "\xff"\n',
    "deep": b"row = " + b"[" * 100_000,
    "row is a number": b"row = 5\n",
    "rows are numbers": b"row = [5]\n",
    "nothing in it": b"[[row]]\n",
    "a wrong status": b'[[row]]\nname = "a"\nstatus = "x"\nnote = "n"\n',
    "of an unknown source": b'[[row]]\nname = "a"\nstatus = "native"\nnote = "n"\nsource = ["x:y"]\n',
    "a format to come": b"format = 99\n",
    "a long number": b"format = " + b"9" * 10_000 + b"\n",
    "twice": b'[[row]]\nname = "a"\nstatus = "native"\nnote = "n"\n' * 2,
}


@pytest.mark.parametrize(("content", "words"), crossed(ROWS, [("check", "."), ("matrix", "check"), ("api", "a")], rounds=2))  # fmt: skip
def test_rows_that_cannot_be_used(
    project: Path, hpushim: Run, content: str, words: tuple[str, ...]
) -> None:
    """rows of the project's own are broken"""
    (project / "pyproject.toml").write_text('[tool.hpushim]\nmatrix = ["ours.toml"]\n')
    (project / "ours.toml").write_bytes(ROWS[content])
    done = hpushim(*words)
    assert done.code == 2 and "ours.toml" in done.err, done.said
    assert "internal error" not in done.said and len(done.err.strip().split("\n")) == 1


BROKEN = {
    "train.py": [b"print 'cuda'\n", b"x = 'cuda\n", b"\0cuda", b"\xff = 'cuda'\n", b"# coding: nothing\nx = 'cuda'\n",
                 b"# coding: rot13\nx = 'cuda'\n", b"\xef\xbb\xbf# coding: latin-1\n'cuda'\n", b"(" * 300 + b"'cuda'",
                 b"x = 1; y = 'cuda' if\n", b"if True:\n\tx = 'cuda'\n        y = 1\n", b"match x:\n  case 'cuda' | :\n"],
    "n.ipynb": [b"\0cuda"],
    "c.yaml": [b"device: cuda\0\n"],
    "c.json": [b'{"device": "cuda"\0}'],
    "c.toml": [b'device = "cuda"\0\n'],
}  # fmt: skip


def _is_not_judged(name: str, out: str) -> bool:
    """Is a file told of as one that could not be judged, by a finding or by a line of its own?"""
    return f"{name}: failed: " in out or ("Could not be read: 1\n" in out and f"{name}:" in out)


@pytest.mark.parametrize(
    ("name", "content"), [(name, content) for name, items in BROKEN.items() for content in items]
)
def test_a_file_that_cannot_be_judged(
    project: Path, hpushim: Run, name: str, content: bytes
) -> None:
    """a file is no text, or not what its name promises: named, exit 3, the others judged"""
    (project / "fine.py").write_text("import torch\nx = torch.zeros(2).cuda()\n")
    (project / name).write_bytes(content)
    for words in (("check", "."), ("report", "."), ("migrate", ".")):
        done = hpushim(*words)
        assert done.code == 3 and _is_not_judged(name, done.out), done.said
        assert "internal error" not in done.said
    assert (project / name).read_bytes() == content
    assert "hpu" in (project / "fine.py").read_text()


UNPARSED = {
    "c.json": b'{"device": "cuda", ',
    "c.yaml": b"device: cuda\n  x: [nccl\n",
    "c.toml": b'device = "cuda\n',
    "n.ipynb": b'{"cells": [{"cell_type":"code","source":["x.cuda()"',
    "m.ipynb": b'{"cells": {"a": "cuda"}, "nbformat": 4}',
}


@pytest.mark.parametrize("name", UNPARSED)
def test_a_data_file_that_does_not_parse(project: Path, hpushim: Run, name: str) -> None:
    """configuration and notebooks that do not parse: not judged, exit 3"""
    (project / name).write_bytes(UNPARSED[name])
    done = hpushim("check", name)
    assert done.code == 3 and _is_not_judged(name, done.out)


DEEP = {
    "attributes": "x" + "{}.a" * 1, "calls": "x{}()", "sums": "y = x.cuda(){}+x", "minus": "y = {}-x.cuda()",
    "not": "y = {}not x.cuda()", "parentheses": "y = {}(x.cuda()", "lambdas": "y = {}lambda:x.cuda()",
    "conditions": "y = {}x.cuda() if a else b", "indices": "x{}[0].cuda()", "comparisons": "y = x.cuda(){}<x",
    "ands": "y = x.cuda(){} and x", "powers": "y = x.cuda(){}**x", "strings": "y = x.cuda(){}'a'", "targets": "{}a = x.cuda()",
}  # fmt: skip


@pytest.mark.parametrize(("shape", "count"), crossed(DEEP, [90, 900, 9000, 90_000], rounds=1))
def test_deep_nesting(project: Path, hpushim: Run, shape: str, count: int) -> None:
    """expressions in expressions in expressions, in a file that is named"""
    head, _, tail = DEEP[shape].partition("{}")
    part = {"x.cuda() if a else b": "x.cuda() if a else ", "a = x.cuda()": "a = "}.get(tail)
    if part is None:
        part = next((p for p in ("lambda:", "not ", "-", "(") if tail.startswith(p)), None)
    if part is None:
        inner, rest = (tail.removesuffix(".cuda()"), ".cuda()") if tail.endswith(".cuda()") and tail != ".cuda()" else (tail, "")  # fmt: skip
        text = head + inner * count + rest
    else:
        text = head + part * count + tail.removeprefix(part)
        if part == "(":
            text += ")" * count
    (project / "deep.py").write_text(f"import torch\n{text}\nz = torch.zeros(2).cuda()\n")
    for words in (("check", "deep.py"), ("migrate", "--diff", "deep.py")):
        done = hpushim(*words)
        assert done.code in (0, 1, 3), done.said[-2000:]


KINDS = (
    "a.py",
    "a.ipynb",
    "a.yaml",
    "a.json",
    "a.toml",
    "a.sh",
    "Dockerfile",
    "requirements.txt",
    "a.md",
    "a.cfg",
    "Makefile",
)
SEEDS = int(os.environ.get("HPUSHIM_HOSTILE_EXAMPLES", "60")) // 6


#: Each kind with two seeds; with all of them in ``make test-all``.
SEEDED = [pytest.param(n, marks=[pytest.mark.slow] if n > 1 else []) for n in range(SEEDS)]


@pytest.mark.parametrize(("seed", "name"), crossed(SEEDED, KINDS, rounds=2))
def test_mutilated_files(project: Path, hpushim: Run, name: str, seed: int) -> None:
    """generated: good files with bytes changed, cut and doubled"""
    good = {
        "a.py": b"import torch\n@x\ndef f(a: 'cuda' = 1):\n    with torch.cuda.amp.autocast():\n        return f'{a.cuda()}'\n",
        "a.ipynb": b'{"cells": [{"cell_type": "code", "source": ["x = 1\\n", "x.cuda()"], "outputs": [], "metadata": {}}], "nbformat": 4}',
        "a.yaml": b"a: &x {device: cuda, b: [nccl, 'cuda:0']}\nc: |\n  cuda\nd: *x\n",
        "a.json": b'{"device": "cuda", "n": [1, 2.5e3, null, {"backend": "nccl"}]}',
        "a.toml": b'[tool.x]\ndevice = "cuda"\nb = [1, """nccl"""]\nd = 2020-01-01\n',
        "a.sh": b'#!/bin/bash\nexport CUDA_VISIBLE_DEVICES="0,1"\nif [ -n "$X" ]; then python a.py --backend nccl <<EOF\ncuda\nEOF\nfi\n',
        "Dockerfile": b"FROM nvidia/cuda:12 AS a\nRUN pip install torch \\\n  && nvidia-smi\nENV NCCL_DEBUG=INFO\n",
        "requirements.txt": b"torch==2.1.0+cu118 ; python_version > '3'\n-f https://x/cu118\napex @ git+https://y\n",
        "a.md": b"```python\nx.cuda()\n```\n",
        "a.cfg": b"[options]\ninstall_requires =\n  torch==2.0+cu118\n",
        "Makefile": b"run:\n\tCUDA_VISIBLE_DEVICES=0 python a.py\n",
    }[name]
    chance = random.Random(f"{name} {seed}")
    for turn in "abcdef":
        data = bytearray(good)
        for _ in range(chance.randint(1, 6)):
            at = chance.randrange(len(data) + 1)
            what = chance.random()
            if what < 0.3:
                data[at:at] = chance.choice([b"\0", b"\xff", b"{", b"[", b'"', b"'", b"\r", b"\n", b"\t", b"\\", b"\xe2\x80\xae", b"`", b"${", b"<<", b"*", b"&"])  # fmt: skip
            elif what < 0.6:
                del data[at : at + chance.randint(1, 9)]
            elif what < 0.8:
                data[at:at] = data[chance.randrange(len(data) + 1) :][:30]
            else:
                data[at : at + 1] = bytes([chance.randrange(256)])
        (project / turn).mkdir()
        (project / turn / name).write_bytes(bytes(data))
    (project / "train.py").unlink()
    for words in (("check", "."), ("migrate", "--allow-dirty", ".")):
        done = hpushim(*words)
        assert done.code in (0, 1, 3), done.said
        assert "internal error" not in done.said, done.said


@pytest.mark.parametrize(
    "words",
    [("check", "--stack", "x"), ("check", "--mode", "x"), ("check", "--format", "x"), ("check", "-j", "0"), ("check", "-j", "x"),
     ("check", "--select", "\udcff"), ("check", "--exclude", "["), ("check", ""), ("check", "x" * 5000), ("check", "a/" * 3000),
     ("check", "--matrix", "nowhere"), ("check", "--matrix", "."), ("check", "--no-such"), ("\udcff",), ("explain", "\udcff"),
     ("explain", ""), ("api", ""), ("api", "*" * 300), ("api", "[" * 300), ("api", "a." * 5000), ("api", "\udcff", "--json"),
     ("matrix", "diff", "x", "y"), ("matrix", "show", "--area", "\x1b"), ("matrix", "check", "."), ("matrix", "check", "train.py"),
     ("migrate", "--undo", "nowhere"), ("migrate", "--undo", ""), ("run", ""), ("run", "-m", ""), ("run", "\udcff")],
    ids=ascii,
)  # fmt: skip
def test_odd_words(hpushim: Run, words: tuple[str, ...]) -> None:
    """words of the command line that mean nothing"""
    done = hpushim(*words)
    assert done.code in (0, 1, 2), done.said
    assert "internal error" not in done.said and "Traceback" not in done.said


def test_the_same_refusal_reads_the_same(project: Path, hpushim: Run) -> None:
    """a folder in place of a file, wherever a file is expected"""
    (project / "f").mkdir()
    said = "a folder, not a regular file"
    assert said in hpushim("check", ".", "-o", "f").err
    assert said in hpushim("check", ".", "--matrix", "f").err
    assert said in hpushim("matrix", "check", "f").err
    (project / ".gitignore").mkdir()
    assert said in hpushim("check", ".").out


def test_a_file_that_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """a file takes more than its time: it is named, the others are done"""
    monkeypatch.setattr(pool, "SECONDS", 0.2)

    def work(item: int) -> str:
        while item == 1:
            try:
                sum(range(1000))
            except Exception:  # as rules do, which lose one file and not the run
                pass
        return "done"

    found = dict(pool.each(work, [0, 1, 2], [1, 1, 1], 1, lambda item, why: why))
    assert found.pop(1).startswith("took longer than") and found == {0: "done", 2: "done"}


def test_a_file_that_kills_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """a file at which a process dies: it is named, the others are done"""
    monkeypatch.setattr(pool, "_WORTH", 1)

    def work(item: int) -> str:
        if item == 3:
            os._exit(9)
        return "done"

    found = dict(pool.each(work, range(12), [5] * 12, 2, lambda item, why: why))
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one processor: nothing runs in processes")
    assert "memory" in found.pop(3) and set(found.values()) == {"done"} and len(found) == 11


@pytest.mark.parametrize(("command", "form", "word"), crossed(["", *COMMANDS], ["{}", "a.py {}", "--select {}", "--{}", "-{}", "-o {}"], ["\ud800", "a\udfff", "\udbff.py"]))  # fmt: skip
def test_words_that_name_no_file(command: str, form: str, word: str, capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    """half a character from a caller in Python: wrong usage, whatever the command and the option"""
    assert main([*filter(None, [command]), *form.format(word).split()]) == 2
    assert "not valid Unicode" in capsys.readouterr().err
