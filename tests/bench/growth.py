"""How time and memory grow with the size of what is looked at: files, patterns, findings, lines, journals.

::

    python tests/bench/growth.py                    # every case for n = 1,000, 10,000, 100,000
    python tests/bench/growth.py patterns lines     # some of them
    python tests/bench/growth.py engine --sizes 500 1000 2000

Each measurement runs in a process of its own. The exponent is that of the last step: 1 is linear, 2 quadratic. CPU time is
measured, without what lays the input out; memory is what the process had at most, less what it had before.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from hpushim.engine import project
from hpushim.engine.files import git, journal, pool
from hpushim.engine.files.discover import discover
from hpushim.engine.files.ignore import Patterns
from hpushim.engine.rules.registry import every_rule
from hpushim.model import FileResult, Finding, Report, Span, Target
from hpushim.report import render
from hpushim.report.diff import unified

Work = Callable[[], object]
KINDS = frozenset(["python", "shell"])


def files(n: int, top: Path) -> Work:
    """Discovery of n files."""
    for number in range(n):
        folder = top / f"d{number % 100}"
        folder.mkdir(exist_ok=True)
        (folder / f"f{number}.py").touch()
    return lambda: discover([top], top, KINDS)  # type: ignore[arg-type]


def links(n: int, top: Path) -> Work:
    """Discovery of n links, a tenth of them in circles."""
    (top / "real.py").touch()
    for number in range(n):
        (top / f"l{number}.py").symlink_to("real.py" if number % 10 else f"l{number}.py")
    return lambda: discover([top], top, KINDS)  # type: ignore[arg-type]


def patterns(n: int, top: Path) -> Work:
    """Ten files against n ignore patterns of every kind."""
    kinds = ("*x{0}*y\n", "/a{0}/**/b\n", "name{0}\n", "*.e{0}\n", "!q{0}\n", "[a-z]{0}?\n")
    lines = [kinds[number % 6].format(number).strip() for number in range(n)]

    def work() -> None:
        mine = Patterns(lines)
        for number in range(10):
            mine.verdict(f"some/folder/file{number}.py", False)

    return work


def pattern(n: int, top: Path) -> Work:
    """One name against a pattern of n stars, at most as many as a pattern may have."""
    stars = min(n, 2000)
    return lambda: [Patterns(["*a" * stars + "b"]).verdict("a" * 250, False) for _ in range(n // 100)]  # fmt: skip


def name(n: int, top: Path) -> Work:
    """A path of n parts against a pattern with two stars."""
    mine = Patterns(["**/a/**/b*c/**/d"])
    path = "a/" * n + "x"
    return lambda: mine.verdict(path, False)


def _finding(line: int, column: int) -> Finding:
    return Finding("HPU102", "x", "error", "manual", "`x` is not there", Span(0, 1), line, column, line, column + 4)  # fmt: skip


def _report(n: int, *, one_line: bool) -> Report:
    text = "x.cuda();" * n if one_line else "x.cuda()\n" * n
    found = (_finding(1, 9 * k + 3) if one_line else _finding(k + 1, 3) for k in range(n))
    after = text.replace(".cuda()", '.to("hpu")').encode()
    file = FileResult("a.py", "changed", None, tuple(found), text.encode(), after)
    return Report("hpushim", Target(), (file,))


def findings(form: str, *, one_line: bool = False) -> Callable[[int, Path], Work]:
    def case(n: int, top: Path) -> Work:
        made = _report(n, one_line=one_line)
        return lambda: render(made, form)

    return case


def lines(kind: str) -> Callable[[int, Path], Work]:
    texts = {
        "all": ("x.cuda()\n", "x.to('hpu')\n"),
        "every other": ("x.cuda()\ny\n", "x.to('hpu')\ny\n"),
        "inserted": ("a\nb\n", "a\nb\nc\n"),
        "removed": ("a\nb\nc\nc\n", "a\nb\n"),
    }

    def case(n: int, top: Path) -> Work:
        old, new = (text.encode() * (n // text.count("\n")) for text in texts[kind])
        return lambda: unified("a", old, new)

    return case


def journals(n: int, top: Path) -> Work:
    """n files written under a journal and put back."""
    changes = []
    for number in range(n):
        path = top / f"{number}.py"
        path.write_bytes(b"old")
        changes.append(journal.Change(path, b"old", b"new"))

    def work() -> None:
        assert not journal.write(top, changes)
        assert len(journal.undo(top).restored) == n

    return work


def runs_kept(n: int, top: Path) -> Work:
    """One more run beside n that are kept."""
    path = top / "a.py"
    path.write_bytes(b"old")
    for number in range(n):
        run = top / ".hpushim" / "runs" / f"2000-{number:06d}"
        run.mkdir(parents=True)
        (run / "journal").write_bytes(b"")
        (run / "done").touch()
    return lambda: journal.write(top, [journal.Change(path, b"old", b"new")])


def repository(n: int, top: Path) -> Work:
    """Whether n files are committed."""
    for number in range(n):
        folder = top / f"d{number % 100}"
        folder.mkdir(exist_ok=True)
        (folder / f"f{number}.py").write_text(str(number))
    for words in (["init", "-q"], ["add", "."], ["-c", "user.name=t", "-c", "user.email=t", "commit", "-qm", "x"]):  # fmt: skip
        subprocess.run(["git", "-c", "gc.auto=0", *words], cwd=top, check=True)
    named = list(top.glob("d*/*.py"))
    return lambda: git.uncommitted(named)


def items(n: int, top: Path) -> Work:
    """n files through the pool in one process."""
    return lambda: list(pool.each(len, [b""] * n, [0] * n, 1, lambda item, why: 0))


def whole(
    name: str, head: str, part: str, tail: str = "", joint: str = ""
) -> Callable[[int, Path], Work]:
    """One file of n parts, looked at and rewritten from end to end."""

    def case(n: int, top: Path) -> Work:
        file = top / name
        parts = joint.join(part.format(n=k, m=k + 1) for k in range(n))
        file.write_text(head + parts + tail.replace("{n}", str(n)))
        every_rule()
        return lambda: project.migrate([file], Target(), write=False, jobs=1)

    return case


_CELL = '{{"cell_type": "code", "source": ["x{n} = y.cuda()\\n"], "outputs": [], "metadata": {{}}}}'
#: Whole files through the engine.
ENGINE: dict[str, Callable[[int, Path], Work]] = {
    "engine: calls in one function": whole("a.py", "import torch\ndef f(x):\n", "    x{n} = x.cuda()\n"),
    "engine: a name given its own value": whole("a.py", "import torch\ndef f(x):\n", "    x = x.cuda()\n"),
    "engine: a chain of names": whole("a.py", "import torch\nx0 = torch.device('cuda')\n", "x{n} = x0 if n else x{n}\nif x{n}.type == 'cuda': y.to(x{n})\n"),
    "engine: a chain, each of the last": whole("a.py", "import torch\nx_0 = 'cuda'\n", "x_{n}_ = x_{n}\nx_{m} = x_{n}_\n", "y.to(x_{n})\n"),
    "engine: keys of one table": whole("a.py", "import torch\nt = {{}}\n".format(), "t['k{n}'] = torch.device('cuda')\nif t['k{n}'].type == 'cuda': x.to(t['k{n}'])\n"),
    "engine: loops": whole("a.py", "import torch\n", "for x in range({n}):\n    y = y.cuda()\n    if y.device.type == 'cuda': y.item()\n"),
    "engine: attributes": whole("a.py", "import torch\nclass C:\n  def f(self, x):\n", "    self.device = 'cuda'\n    x.to(self.device)\n    if self.device == 'cuda': self.a{n} = x.cuda()\n"),
    "engine: calls of one function": whole("a.py", "import torch\ndef f(device): return y.to(device)\n", "x{n} = f('cuda')\n"),
    "engine: a step in each function": whole("a.py", "import torch\n", "def f{n}(m, o, x):\n    x = x.cuda()\n    loss = m(x)\n    loss.backward()\n    o.step()\n"),
    "engine: functions": whole("a.py", "import torch\n", "def f{n}(x):\n    return x.cuda()\n\n"),
    "engine: calls in one statement": whole("a.py", "import torch\ny = [", "x.cuda(),\n", "]\n"),
    "engine: arguments of one call": whole("a.py", "import torch\ny = f(", "a{n}=x.cuda(),\n", "z=1)\n"),
    "engine: items of one dictionary": whole("a.py", "import torch\ny = {{\n".format(), "{n}: x.cuda(),\n", "}\n"),
    "engine: checks": whole("a.py", "import torch\n", "d{n} = 'cuda' if torch.cuda.is_available() else 'cpu'\n"),
    "engine: suppressions": whole("a.py", "import torch\n", "x.cuda()  # hpushim: ignore[HPU102]\n"),
    "engine: cells": whole("a.ipynb", '{"cells": [', _CELL, '], "nbformat": 4, "nbformat_minor": 5, "metadata": {}}', ","),
    "engine: lines of a shell script": whole("a.sh", "", "CUDA_VISIBLE_DEVICES={n} python a.py --backend nccl\n"),
    "engine: commands of one line": whole("a.sh", "", "CUDA_VISIBLE_DEVICES={n} python a.py", "\n", " && "),
    "engine: lines of a Dockerfile": whole("Dockerfile", "FROM nvidia/cuda\n", "RUN CUDA_VISIBLE_DEVICES={n} python a.py\n"),
    "engine: keys of YAML": whole("a.yaml", "", "k{n}:\n  device: cuda\n"),
    "engine: anchors of YAML": whole("a.yaml", "a0: &b0 {{device: cuda}}\n".format(), "c{n}: &d{n} [*b0, cuda]\n"),
    "engine: keys of JSON": whole("a.json", '{"a": [', '{{"device": "cuda"}}', "]}", ","),
    "engine: keys of TOML": whole("a.toml", "", "[t{n}]\ndevice = 'cuda'\n"),
    "engine: requirements": whole("requirements.txt", "", "torch=={n}.0+cu118\n"),
    "engine: a sum": whole("a.py", "import torch\ny = (", "x.cuda()\n", ")\n", "+ "),
    "engine: names of attributes": whole("a.py", "import torch\ny = x", ".a\\\n", ".cuda()\n"),
}  # fmt: skip

CASES: dict[str, Callable[[int, Path], Work]] = {
    "files": files,
    "links": links,
    "patterns": patterns,
    "pattern of many stars": pattern,
    "parts of a path": name,
    "findings as text": findings("text"),
    "findings on one line as text": findings("text", one_line=True),
    "findings as JSON": findings("json"),
    "findings as Markdown": findings("markdown"),
    "lines, all changed": lines("all"),
    "lines, every other changed": lines("every other"),
    "lines, inserted": lines("inserted"),
    "lines, removed": lines("removed"),
    "journal": journals,
    "runs kept": runs_kept,
    "git": repository,
    "pool": items,
}


#: What takes long for other reasons than growth: three forced writes to the disk for each file.
MOST = {"journal": 20_000, "runs kept": 20_000}


def measured(case: Callable[[int, Path], Work], n: int) -> tuple[float, float]:
    """CPU seconds and MiB of one case."""
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        with tempfile.TemporaryDirectory() as folder:
            work = case(n, Path(folder))
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            begin = _cpu()
            work()
            took = _cpu() - begin
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        os.write(write, f"{took} {grown / 1024}".encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        took, grown = map(float, answer.read().split())
    os.waitpid(pid, 0)
    return took, grown


def _cpu() -> float:
    mine, theirs = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))  # fmt: skip
    return sum(use.ru_utime + use.ru_stime for use in (mine, theirs))


def table(names: list[str], sizes: list[int]) -> Iterator[str]:
    """The lines of the table."""
    yield "| case | " + " | ".join(f"n = {size:,}" for size in sizes) + " | exponent | MiB |"
    yield "|---|" + "---:|" * (len(sizes) + 2)
    for title in names:
        scale = min(1.0, MOST.get(title, sizes[-1]) / sizes[-1])
        mine = [int(size * scale) for size in sizes]
        found = [measured(CASES[title], size) for size in mine]
        seconds = [took for took, _ in found]
        exponent = "–"
        if len(found) > 1 and seconds[-2] > 0.01:
            step = math.log(seconds[-1] / seconds[-2]) / math.log(sizes[-1] / sizes[-2])
            exponent = f"{step:.2f}"
        times = " | ".join(f"{took:.3f} s" for took in seconds)
        title += "" if scale == 1 else f" (n × {scale:.2g})"
        yield f"| {title} | {times} | {exponent} | {found[-1][1]:.0f} |"


CASES.update(ENGINE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cases", nargs="*", help="parts of names of cases; all without any")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 10_000, 100_000])
    options = parser.parse_args()
    wanted = [n for n in CASES if not options.cases or any(part in n for part in options.cases)]
    with contextlib.suppress(KeyboardInterrupt):
        for line in table(wanted, options.sizes):
            print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
