"""Looks for input that hpushim does not hold: drawn, for as long as is asked, each by a number with which it is drawn again.

    python tests/hostile/fuzz.py --seconds 7200 --files FOLDER… --keep found
    python tests/hostile/fuzz.py --only python:1234                   # one of them again, with the program

Prints what was found by kind, with the smallest number that shows it, and a last line with the totals. Exit code 0 when nothing was.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import faulthandler
import io
import json
import os
import random
import re
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pieces

from hpushim.engine.base.edits import Places, composed, overlap, splice
from hpushim.engine.context import Context, Unparsable
from hpushim.engine.files.kinds import by_name
from hpushim.engine.files.source import Unreadable, decode, rewritten
from hpushim.engine.one_file import examine, settle
from hpushim.engine.python.changes import Insert, Remove, Replace
from hpushim.engine.python.module import Module
from hpushim.engine.python.narrow import narrowed
from hpushim.engine.python.rewrite import NotRewritable, rewrite
from hpushim.matrix import load
from hpushim.model import Edit, Finding, Span, Target
from hpushim.pycode.steps import TooManySteps

#: Of processor time: nothing here is larger than some ten kilobytes.
SECONDS = 90.0
VERSION = sys.version_info[1]


class Wrong(Exception):
    """Something does not hold; ``text`` shows it."""

    def __init__(self, why: str, text: str = "") -> None:
        super().__init__(why)
        self.text = text


@cache
def context(style: str = "native", unsafe: bool = False) -> Context:
    return Context(Target(style=style), load(), unsafe=unsafe)  # type: ignore[arg-type]


# -- Python ---------------------------------------------------------------------------------


def python(choose: random.Random) -> None:
    """A program by grammar: found, rewritten and come to rest; the same whatever its layout."""
    _program(pieces.Grammar(choose, choose.choice((10, 11, VERSION, 14))), choose)


def known(choose: random.Random) -> None:
    """The same of the names that rules ask for, with values that go in circles."""
    _program(pieces.Known(choose, choose.choice((10, VERSION)), _words()), choose)


@cache
def _words() -> dict[str, list[str]]:
    """What rules ask for, by the kind of word, and what the matrix has rows of."""
    from hpushim.engine.rules.registry import rules

    found = {
        kind: sorted({word for rule in rules() for word in getattr(rule.wants, kind)})
        for kind in ("names", "attributes", "calls", "keywords", "strings", "imports")
    }
    rows = [name for row in load().rows if row.kind == "python" for name in row.names]
    found["names"] = sorted({name.removesuffix(".*") for name in (*found["names"], *rows)})
    return found


def _program(grammar: pieces.Grammar, choose: random.Random) -> None:
    text = grammar.program()
    if not _held(text, choose, parses=grammar.needs <= VERSION):
        return
    plain = ast.unparse(ast.parse(text))
    _same_findings(text, plain)
    _same_rewrite(text, plain)


#: What is refused with a reason that its reader can do something about.
_CANNOT = re.compile("cannot share a line|part of a line|another rewrite overlaps")


def _held(text: str, choose: random.Random, *, parses: bool | None = None) -> bool:
    """Whether a text is Python. What must hold of any text is held."""
    asked = context(choose.choice(("native", "native", "dual", "agnostic")), choose.random() < 0.3)
    try:
        found = examine(text, "python", "a.py", asked)
    except Unparsable as error:
        if parses:
            raise Wrong(f"does not parse: {error.finding.message}", text) from None
        return False
    _places(found, text)
    done = settle(text, "python", "a.py", asked)
    try:
        ast.parse(done.text)
    except (SyntaxError, ValueError) as error:
        raise Wrong(
            f"the rewritten text does not parse: {error}", f"{text}\n#### became\n{done.text}"
        ) from None
    if bad := [
        finding.message
        for finding in done.findings
        if finding.code == "HPU004" and not _CANNOT.search(finding.message)
    ]:
        raise Wrong(f"taken back: {bad[0]}", text)
    edits = composed(text.encode(), done.steps)
    if splice(text.encode(), edits).decode() != done.text:
        raise Wrong("the edits do not make the text", text)
    again = settle(done.text, "python", "a.py", asked)
    if again.text != done.text:
        raise Wrong(
            "a second run changes it",
            f"{text}\n#### became\n{done.text}\n#### became\n{again.text}",
        )
    return True


def _places(found: tuple[Finding, ...], text: str) -> None:
    lines, size = text.count("\n") + text.count("\r") + 1, len(text.encode())
    for finding in found:
        if not (0 <= finding.span.start <= finding.span.end <= size and 1 <= finding.line <= lines):
            raise Wrong(f"{finding.code} is nowhere: {finding.span}", text)


_OF_LINES = ("HPU010", "HPU107")


def _codes(text: str) -> Counter[str]:
    """What is found, without what is said only of lines of which nothing else is: lines depend on the layout."""
    found = examine(text, "python", "a.py", context())
    return Counter(finding.code for finding in found if finding.code not in _OF_LINES)


def _same_findings(one: str, other: str) -> None:
    before, after = _codes(one), _codes(other)
    if before != after:
        raise Wrong(
            f"findings depend on the layout: {sorted((before - after) + (after - before))}",
            f"{one}\n#### as\n{other}",
        )


def _same_rewrite(one: str, other: str) -> None:
    before, after = (settle(text, "python", "a.py", context()).text for text in (one, other))
    if ast.dump(ast.parse(before)) != ast.dump(ast.parse(after)):
        raise Wrong(
            "the rewrite depends on the layout",
            f"{one}\n#### became\n{before}\n#### the other\n{after}",
        )


# -- files of projects, changed ----------------------------------------------------------------


def real(choose: random.Random) -> None:
    """A project's file with some of its text moved, doubled, cut or exchanged, in another encoding or with other line ends."""
    path = Path(choose.choice(_files()))
    kind = by_name(path)
    data = path.read_bytes()
    if kind is None or len(data) > 60_000:
        return
    for _ in range(choose.choice((0, 1, 2, 5))):
        data = _mutated(data, choose)
    _file(data, kind, path.name, choose)


def made(choose: random.Random) -> None:
    """A small file of each kind that is not Python, changed in the same way."""
    name = choose.choice(sorted(_SMALL))
    data = _SMALL[name].encode()
    for _ in range(choose.choice((1, 2, 3, 8))):
        data = _mutated(data, choose)
    kind = by_name(Path(name))
    assert kind
    _file(data, kind, name, choose)


def _file(data: bytes, kind: Any, name: str, choose: random.Random) -> None:
    try:
        source = decode(data, python=kind == "python")
    except Unreadable:
        return
    if source.data != data:
        raise Wrong("does not come back as it was", repr(data))
    if kind == "python":
        if _held(source.text, choose):
            plain = ast.unparse(ast.parse(source.text))
            _same_findings(plain, _laid_out(plain, choose))
        return
    asked = context(unsafe=choose.random() < 0.5)
    try:
        _places(examine(source.text, kind, name, asked), source.text)
        done = settle(source.text, kind, name, asked)
    except Unparsable:
        return
    if bad := [
        finding.message
        for finding in done.findings
        if finding.code == "HPU004" and not _CANNOT.search(finding.message)
    ]:
        raise Wrong(f"taken back: {bad[0]}", source.text)
    try:
        rewritten(source, composed(source.text.encode(), done.steps))
    except Unreadable:
        return  # the encoding has no letter for it, which is told
    again = settle(done.text, kind, name, asked)
    if again.text != done.text:
        raise Wrong(
            "a second run changes it",
            f"{source.text}\n#### became\n{done.text}\n#### became\n{again.text}",
        )


def _laid_out(text: str, choose: random.Random) -> str:
    """The same program with other spaces: brackets over lines, another indentation, empty lines."""
    import tokenize

    made: list[str] = []
    depth, unit = 0, choose.choice(("\t", "  ", "        "))
    for line in text.split("\n"):
        bare = line.lstrip(" ")
        made.append(
            unit * ((len(line) - len(bare)) // 4) + bare
            if '"""' not in text and "'''" not in text
            else line
        )
    text = "\n".join(made)
    found: list[tuple[int, int]] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.OP and token.string in "([{":
                depth += 1
            elif token.type == tokenize.OP and token.string in ")]}":
                depth -= 1
            elif (
                token.type == tokenize.OP
                and token.string == ","
                and depth
                and choose.random() < 0.3
            ):
                found.append(token.end)
    except tokenize.TokenError:
        return text
    if "f'" in text or 'f"' in text:
        return text  # a comma of a format is no place for a line's end
    lines = text.split("\n")
    for line, column in reversed(found):
        held = lines[line - 1]
        lines[line - 1] = (
            held[:column] + choose.choice(("\n", "\n   ", "  ", "\n\n")) + held[column:]
        )
    changed = "\n".join(lines)
    try:
        same = ast.dump(ast.parse(changed)) == ast.dump(ast.parse(text))
    except SyntaxError:
        same = False
    return changed if same else text


def _mutated(data: bytes, choose: random.Random) -> bytes:
    lines = data.splitlines(keepends=True) or [b""]
    at = choose.randrange(len(lines))
    way = choose.randrange(14)
    if way == 0:
        del lines[at]
    elif way == 1:
        lines.insert(at, choose.choice(lines))
    elif way == 2:
        other = choose.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    elif way == 3:
        lines[at] = choose.choice((b" ", b"\t", b"    ", b"\x0c")) + lines[at]
    elif way == 4:
        lines[at] = lines[at].lstrip()
    elif way == 5:
        lines[at] = lines[at][: choose.randrange(len(lines[at]) + 1)]
    elif way == 6:
        words = re.split(rb"(\W+)", lines[at])
        if len(words) > 1:
            words[choose.randrange(len(words))] = choose.choice(_WORDS)
        lines[at] = b"".join(words)
    elif way == 7:
        place = choose.randrange(len(data) + 1)
        return data[:place] + choose.choice(_WORDS) + data[place:]
    elif way == 8:
        place = choose.randrange(len(data) + 1)
        return data[:place] + bytes([choose.randrange(256)]) + data[place + 1 :]
    elif way == 9:
        return data.replace(b"\r\n", b"\n").replace(b"\n", choose.choice((b"\r\n", b"\r", b"\n\n")))
    elif way == 10:
        return (
            choose.choice(
                (b"\xef\xbb\xbf", b"#!/bin/sh\n", b"# -*- coding: latin-1 -*-\n", b"\x0c")
            )
            + data
        )
    elif way == 11:
        start, end = sorted((choose.randrange(len(lines)), choose.randrange(len(lines))))
        lines = lines[:end] + lines[start:end] + lines[end:]
    elif way == 12:
        place = choose.randrange(len(data) + 1)
        return data[:place] + choose.choice(_OPENING) * choose.choice((1, 3, 60)) + data[place:]
    else:
        lines[at] = re.sub(rb"\bcpu\b|\bgpu\b|0", b"cuda", lines[at])
    return b"".join(lines)


_WORDS = (
    b"cuda", b'"cuda"', b"torch.cuda", b".cuda()", b"=", b":", b",", b")", b"]", b"}", b"\\", b"'", b'"', b"#", b"\n", b"${X}", b"{{ x }}", b"nccl",
    b"fp16", b"nvidia.com/gpu", b"CUDA_VISIBLE_DEVICES=0", b"if x:", b"else:", b"0", "é".encode(), b"\t", b"lambda: ", b"*", b"await ",
    b"if torch.cuda.is_available():", b"cuda:0", b"&a ", b"*a", b"|-", b"- ", b"<<EOF", b"EOF", b"`", b"$(", b"--gpus all", b"FROM nvidia/cuda", b"\xff",
)  # fmt: skip
_OPENING = (
    b"(",
    b"[",
    b"{",
    b"'''",
    b'"',
    b"((",
    b"{[",
    b"not ",
    b"- ",
    b"if x: ",
    b"$(",
    b"`",
    b"f'{",
    b"\\\n",
    b"lambda: ",
)
_SMALL = {
    "a.yaml": "device: cuda\ntrainer:\n  accelerator: gpu\n  devices: [0, 1]\n  precision: 16\nlist:\n- cuda:0\n- {backend: nccl, a: &x cuda}\ntext: |\n  cuda\n",
    "pod.yaml": "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: a\n    image: nvidia/cuda:12.1.0\n    resources:\n      limits:\n        nvidia.com/gpu: 8\n    command: ['sh', '-c', 'CUDA_VISIBLE_DEVICES=0 python a.py']\n",
    "a.json": '{"device": "cuda", "fp16": {"enabled": true}, "a": [1, {"backend": "nccl"}], "zero_optimization": {"stage": 2}}\n',
    "a.toml": '[train]\ndevice = "cuda"\nfp16 = true\na.b = ["cuda:0", {x = "nccl"}]\n[[t]]\ns = """\ncuda"""\n',
    "setup.cfg": "[train]\ndevice = cuda\nbackend: nccl\n[options]\ninstall_requires =\n  torch==2.1.0+cu118\n  apex\n",
    "a.sh": "#!/bin/bash\nexport CUDA_VISIBLE_DEVICES=0,1\nif nvidia-smi; then\n  torchrun --nproc_per_node=$(nvidia-smi -L | wc -l) a.py --device cuda \\\n    --fp16\nfi\ncat <<EOF > b.py\nx.cuda()\nEOF\nfor i in 0 1; do CUDA_VISIBLE_DEVICES=$i python a.py & done\nNCCL_DEBUG=INFO python -c 'import torch; print(torch.cuda.is_available())'\n",
    "Dockerfile": 'FROM nvidia/cuda:12.1.0-cudnn8-devel-ubuntu22.04 AS a\nARG X=1\nENV CUDA_HOME=/usr/local/cuda NCCL_DEBUG=INFO\nRUN pip install torch==2.1.0 \\\n  apex && python a.py --device cuda\nRUN <<EOF\nnvidia-smi\nEOF\nCMD ["python", "a.py", "--device", "cuda"]\n',
    "Makefile": "D ?= cuda\ntrain:\n\tCUDA_VISIBLE_DEVICES=0 python a.py --device $(D)\n\t@nvidia-smi\n",
    "requirements.txt": "torch==2.1.0+cu118\n--extra-index-url https://download.pytorch.org/whl/cu118\napex ; python_version < '3.11'\nflash-attn>=2 # x\nnvidia-cublas-cu12\nbitsandbytes[extra]==0.41\n-r other.txt\n",
    "a.ipynb": json.dumps({"cells": [{"cell_type": "code", "source": ["import torch\n", "x = torch.zeros(2).cuda()\n", "!CUDA_VISIBLE_DEVICES=0 python a.py"], "metadata": {}, "outputs": [], "execution_count": 1}, {"cell_type": "markdown", "source": "cuda", "metadata": {}}, {"cell_type": "code", "source": "%%bash\nnvidia-smi", "metadata": {}, "outputs": []}], "metadata": {"accelerator": "GPU"}, "nbformat": 4, "nbformat_minor": 5}, indent=1),
}  # fmt: skip
_folders: list[Path] = []


@cache
def _files() -> tuple[str, ...]:
    found = (
        f"{where}/{name}"
        for folder in _folders
        for where, _, names in os.walk(folder)
        for name in names
    )
    return tuple(
        sorted(
            path
            for path in found
            if by_name(Path(path)) not in (None, "markdown") and not Path(path).is_symlink()
        )
    )


# -- edits ------------------------------------------------------------------------------------


def edits(choose: random.Random) -> None:
    """Edits of text in several steps are one, places are followed there and back, and differences make the other text."""
    letters = "ab \n\r\té—𝄞()'#"
    text = "".join(choose.choice(letters) for _ in range(choose.randrange(80)))
    data, steps = text.encode(), []
    for _ in range(choose.randrange(1, 5)):
        step = _drawn(data, choose)
        after = splice(data, step)
        places = Places(step)
        for _ in range(4):
            at = choose.randrange(len(data) + 1)
            if (
                not any(edit.span.start <= at <= edit.span.end for edit in step)
                and places.before(places.after(at)) != at
            ):
                raise Wrong(f"{at} does not come back", repr((data, step)))
        steps.append(step)
        data = after
    joined = composed(text.encode(), steps)
    if splice(text.encode(), joined) != data:
        raise Wrong("several steps are not one", repr((text, steps)))
    if any(overlap(one, other) for one, other in pairwise(joined)):
        raise Wrong("edits overlap", repr(joined))
    other = data.decode()
    if splice(text.encode(), narrowed(0, text, other)) != data:
        raise Wrong("the differences do not make the text", repr((text, other)))


def _drawn(data: bytes, choose: random.Random) -> list[Edit]:
    text = data.decode()
    cuts = sorted(choose.randrange(len(text) + 1) for _ in range(2 * choose.randrange(4)))
    made: list[Edit] = []
    last = -1
    for start, end in zip(cuts[::2], cuts[1::2], strict=False):
        if start <= last:
            continue
        last = end
        span = Span(len(text[:start].encode()), len(text[:end].encode()))
        made.append(Edit(span, text[start:end], choose.choice(("", "x", "é\n", "abc", "𝄞"))))
    return made


class _Changed(ast.NodeTransformer):
    """The tree with some of its expressions exchanged."""

    def __init__(self, nodes: set[ast.AST]) -> None:
        self.nodes = nodes

    def visit(self, node: ast.AST) -> Any:
        return (
            ast.parse("new(1)", mode="eval").body
            if node in self.nodes
            else self.generic_visit(node)
        )


def changes(choose: random.Random) -> None:
    """Nodes of a program by grammar are exchanged, statements put in or taken: the text becomes what the tree does."""
    grammar = pieces.Grammar(choose, VERSION)
    module = Module(grammar.program(), "a.py", Target(), load())
    tree = module.tree
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.expr) and _free(module, node)]
    picked = choose.sample(nodes, min(len(nodes), choose.choice((1, 1, 2, 5))))
    inside = {inner for node in picked for inner in ast.walk(node) if inner is not node}
    picked = [node for node in picked if node not in inside]
    asked: list[Any] = [Replace(node, "new(1)") for node in picked]
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    way = choose.randrange(4)
    anchor = choose.choice(statements) if statements else None
    if anchor is not None and way == 0:
        asked = [Insert(anchor, "new(1)", after=choose.random() < 0.5)]
    elif anchor is not None and way == 1:
        asked = [Remove(anchor)]
    try:
        made, _ = rewrite(module, asked)
    except NotRewritable:
        return
    after = splice(module.data, sorted(made, key=lambda edit: edit.span)).decode()
    try:
        found = ast.parse(after)
    except SyntaxError as error:
        raise Wrong(
            f"{type(asked[0]).__name__}: the result does not parse: {error}",
            f"{module.text}\n#### {asked}\n#### became\n{after}",
        ) from None
    if way > 1 or anchor is None:
        wanted = ast.unparse(ast.fix_missing_locations(_Changed(set(picked)).visit(tree)))
        if ast.unparse(found) != wanted:
            raise Wrong(
                "the result is not what was asked for",
                f"{module.text}\n#### became\n{after}\n#### not\n{wanted}",
            )
    else:
        want = len(statements) + (
            1 if way == 0 else -sum(isinstance(n, ast.stmt) for n in ast.walk(anchor))
        )
        have = sum(isinstance(node, ast.stmt) for node in ast.walk(found))
        # `pass` where a block would be empty; with the last statement of a block goes an `if` or `try` that is left with nothing.
        if have > want + 1 or (have < want and way == 0):
            raise Wrong(
                f"{have} statements, not {want}",
                f"{module.text}\n#### {asked}\n#### became\n{after}",
            )


def _free(module: Module, node: ast.expr) -> bool:
    """Whether a call may stand in its place."""
    if not isinstance(getattr(node, "ctx", ast.Load()), ast.Load) or isinstance(
        node, (ast.Starred, ast.FormattedValue, ast.JoinedStr, ast.Slice)
    ):
        return False
    for above in module.ancestors(node):
        if isinstance(
            above,
            (ast.JoinedStr, ast.match_case, ast.Delete, ast.pattern, ast.AnnAssign, ast.Global),
        ) or type(above).__name__ in ("TypeAlias", "TypeVar"):
            return False
    return not (module.index.lost and node in module.index.lost)


# -- the command ------------------------------------------------------------------------------


def words(choose: random.Random) -> None:
    """A command line of known and unknown words, over a small project, with settings and rows: an exit code that is documented."""
    from hpushim.cli import COMMANDS

    name = choose.choice(
        [
            one
            for one in COMMANDS
            if one not in ("run", "prove", "plan", "doctor", "merge-driver", "portfolio")
        ]
    )
    line = [name, *(choose.choice(_SAID) for _ in range(choose.randrange(6)))]
    _command(line, {"a.py": "import torch\nx = torch.zeros(2).cuda()\n"})


def settings(choose: random.Random) -> None:
    """Settings with changes to them, read by commands."""
    data = _SETTINGS.encode()
    for _ in range(choose.choice((1, 2, 4))):
        data = _mutated(data, choose)
    name = choose.choice(("pyproject.toml", "hpushim.toml"))
    if name == "hpushim.toml":
        data = data.replace(b"[tool.hpushim]\n", b"")
    line = choose.choice(
        (
            ["check", "."],
            ["migrate", "--diff", "."],
            ["report", "."],
            ["api", "torch.cuda"],
            ["init"],
        )
    )
    _command(
        line, {"a.py": "import torch\nx = torch.zeros(2).cuda()\n", name: data, "rows.toml": _ROWS}
    )


def rows(choose: random.Random) -> None:
    """A project's own rows of the matrix, changed."""
    data = _ROWS.encode()
    for _ in range(choose.choice((1, 2, 4))):
        data = _mutated(data, choose)
    line = choose.choice((["check", ".", "--matrix", "rows.toml"], ["api", "ours.x", "--matrix", "rows.toml"], ["matrix", "check", "--matrix", "rows.toml"], ["matrix", "show", "--matrix", "rows.toml"]))  # fmt: skip
    _command(line, {"a.py": "import ours\nours.x()\nours.y(a=1)\n", "rows.toml": data})


def ledgers(choose: random.Random) -> None:
    """A ledger with changes to it, shown in each format, and two of two ranks."""
    data = json.loads(_ledger())
    for _ in range(choose.choice((1, 1, 2, 5))):
        _shaken(data, choose)
    text = json.dumps(data).encode()
    if choose.random() < 0.3:
        text = _mutated(text, choose)
    files = {"l.json": text}
    if choose.random() < 0.5:
        files["l.json.rank1"] = _ledger().encode() if choose.random() < 0.5 else text
    line = ["ledger", "l.json", "--format", choose.choice(("text", "json", "html", "markdown"))]
    if choose.random() < 0.3:
        line = ["report", "a.py", "--ledger", "l.json"]
    _command(line, {"a.py": "import torch\nx = torch.zeros(2).cuda()\n", **files})


def _shaken(data: Any, choose: random.Random) -> None:
    """Changes one value somewhere in what JSON holds."""
    places: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        for key in value if isinstance(value, dict) else range(len(value)):
            places.append((value, key))
            if isinstance(value[key], (dict, list)):
                walk(value[key])

    walk(data)
    holder, key = choose.choice(places)
    value = choose.choice(
        (
            None,
            True,
            0,
            -1,
            1 << 80,
            1e308,
            float("nan"),
            "",
            "\ud800",
            "<b>",
            [],
            {},
            {"a": 1},
            "x" * 3000,
            2**63,
            "../../etc",
            "\n\x1b[2J",
            holder[key],
        )
    )
    if isinstance(holder, dict) and choose.random() < 0.2:
        del holder[key]
    else:
        holder[key] = value


@cache
def _ledger() -> str:
    return json.dumps(
        {
            "schema_version": 1, "emulated": True, "complete": True, "gaudi": "gaudi2", "mode": "lazy", "operators": 9, "mark_steps": 2, "graphs": 1,
            "graph_runs": 2, "recompilations": 1, "recompilations_by_number": 0, "host_syncs": 1, "host_to_device": 1, "device_to_host": 1,
            "host_to_device_bytes": 8, "device_to_host_bytes": 4, "cpu_fallbacks": 1, "demotions": 1, "collectives": 1, "peak_bytes": 64,
            "compute_operators": {"hpu": 2, "cpu": 1}, "fallback_operators": {"aten::x": 1}, "parameters": {"hpu:0": 2}, "first_compute_on_cpu": "a.py:1",
            "recompilation_causes": [{"operator": "aten::add", "count": 1, "differences": [{"argument": "self", "before": "[2]", "after": "[3]", "kind": "dimension", "dimension": 0}], "others": 1, "file": "a.py", "line": 2}],
            "steps": {"count": 2, "optimizers": 1, "entries": [{"steps": 1, "operators": 4, "host_syncs": 1}, {"steps": 1, "operators": 5}]},
            "objections": [{"code": "HPU313", "text": "no", "site": "a.py:2"}], "demotion_lines": [{"file": "a.py", "line": 2, "what": "float64"}],
            "graph_breaks": [{"reason": "x", "count": 1}], "process_groups": [{"backend": "hccl", "device": "hpu", "size": 2}],
            "sites": [{"file": "a.py", "line": 2, "kind": kind, "what": "aten::x", "count": 1, "bytes": 4} for kind in ("host_sync", "graph", "recompilation", "cpu_fallback", "host_to_device", "collective", "demotion")],
            "left_out": {"recompilation_causes": 0, "sites": 1},
        }
    )  # fmt: skip


_SETTINGS = """[tool.hpushim]
target = "gaudi3"
mode = "eager"
style = "native"
select = ["HPU1"]
ignore = ["HPU514"]
exclude = ["tests/*", "*.ipynb"]
matrix = ["rows.toml"]
unsafe = false
fail-on = "warning"
baseline = "b.json"
"""
_ROWS = """format = 1
[[row]]
name = "ours.x"
status = "unsupported"
rule = "HPU021"
note = "No."
[[row]]
name = ["ours.y", "ours.z"]
status = "native"
note = "Yes."
"""
_SAID = (
    ".", "a.py", "nowhere", "-", "--", "--format", "json", "html", "--diff", "--select", "HPU1", "HPU999", "--ignore", "--exclude", "*", "[", "-o", "out",
    "/dev/null", "--target", "gaudi2", "gaudi9", "--mode", "lazy", "--style", "dual", "agnostic", "--undo", "--unsafe", "--jobs", "1", "-1", "0", "x", "",
    "é", "\ud800", "\n", "--help", "-q", "--stack", "1.22", "--matrix", "a.py", "--baseline", "--fail-on", "error", "--all", "HPU102", "torch.cuda", "show",
    "check", "schema", "--markdown", "diff", "--git", "--no-cache", "--stdin-filename", "b.py", "--write", "--pr", "--split", "topic", "--statistics",
)  # fmt: skip


def _command(line: list[str], files: dict[str, str | bytes]) -> None:
    from hpushim.cli import main

    here = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="fuzz") as folder:
        for name, content in files.items():
            Path(folder, name).write_bytes(
                content if isinstance(content, bytes) else content.encode()
            )
        os.chdir(folder)
        said = io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace")
        said_wrong = io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace")
        held = sys.stdin
        try:
            sys.stdin = io.TextIOWrapper(io.BytesIO(b"x.cuda()\n"), "utf-8")
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said_wrong):
                code = main(line)
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else 1
        finally:
            sys.stdin = held
            os.chdir(here)
        said.flush(), said_wrong.flush()
        told = said_wrong.buffer.getvalue().decode()  # type: ignore[attr-defined]
    shown = f"{line}\n{files}\n{told}"
    if code not in (0, 1, 2, 3):
        lines = [text for text in told.splitlines() if text.startswith("hpushim: internal error")]
        raise Wrong(f"exit code {code}: {lines[-1] if lines else ''}", shown)
    if "Traceback" in told or "internal error" in told:
        raise Wrong("an internal error is told", shown)
    if code == 2 and not told.strip():
        raise Wrong("refused without a word", shown)


# -- the loop -----------------------------------------------------------------------------------

KINDS: dict[str, tuple[Callable[[random.Random], None], int]] = {
    "python": (python, 30), "real": (real, 30), "made": (made, 15), "edits": (edits, 15), "changes": (changes, 20), "words": (words, 6),
    "settings": (settings, 4), "rows": (rows, 4), "ledgers": (ledgers, 6), "known": (known, 30),
}  # fmt: skip


class _TooLong(BaseException):
    pass


def _stop(*_: object) -> None:
    raise _TooLong


def tried(name: str, number: int) -> tuple[str, str] | None:
    """What is wrong with the one of that number: in a line, and what shows it. None when nothing is."""
    choose = random.Random(f"{name}:{number}")
    before = signal.signal(signal.SIGVTALRM, _stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            KINDS[name][0](choose)
    except Wrong as error:
        return str(error).split("\n")[0][:300], error.text
    except _TooLong:
        return f"takes more than {SECONDS:.0f} seconds", "".join(traceback.format_exc(limit=-6))
    except TooManySteps as error:
        return f"TooManySteps: {error}", ""
    except RecursionError:
        return "RecursionError", "".join(traceback.format_exc(limit=-8))
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} in {Path(where.filename).name}:{where.name}: {error}"[
            :300
        ], traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    return None


def alike(why: str) -> str:
    """The words of a fault without its figures and quotes, to know it again."""
    return re.sub(r"`[^`]*`|'[^']*'|\d+", "…", why)[:120]


def run(
    kinds: list[str], seconds: float, first: int, keep: Path | None
) -> tuple[Counter[str], dict[tuple[str, str], list[int]]]:
    count: Counter[str] = Counter()
    found: dict[tuple[str, str], list[int]] = {}
    begin, number = time.monotonic(), first
    while time.monotonic() - begin < seconds:
        for name in kinds:
            for _ in range(KINDS[name][1]):
                number += 1
                if keep:
                    (keep / "now").write_text(f"{name}:{number}")
                fault = tried(name, number)
                count[name] += 1
                if fault is None:
                    continue
                seen = found.setdefault((name, alike(fault[0])), [])
                seen.append(number)
                if len(seen) == 1:
                    print(
                        f"{time.monotonic() - begin:6.0f} s  {name}:{number}  {fault[0]}",
                        flush=True,
                    )
                if keep and len(seen) <= 3:
                    (keep / f"{name}-{number}.txt").write_text(
                        f"{fault[0]}\n{fault[1]}", errors="backslashreplace"
                    )
        if keep:
            (keep / "counts.json").write_text(json.dumps({"seconds": time.monotonic() - begin, "count": count, "found": [[*key, len(n), n[:5]] for key, n in found.items()]}, indent=1))  # fmt: skip
    return count, found


def _lines(count: Counter[str], found: dict[tuple[str, str], list[int]]) -> Iterator[str]:
    for (name, why), numbers in sorted(found.items(), key=lambda item: -len(item[1])):
        yield f"{len(numbers):6} x {name}: {why}  {numbers[:4]}"
    yield f"{sum(count.values())} tried ({', '.join(f'{n} {name}' for name, n in count.items())}): {sum(map(len, found.values()))} wrong, {len(found)} kinds"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--first", type=int, default=0, help="the number before the first")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument(
        "--files", type=Path, nargs="*", default=[], help="folders with files to change"
    )
    parser.add_argument("--keep", type=Path, help="folder for what was found")
    parser.add_argument("--only", help="KIND:NUMBER, one of them again")
    options = parser.parse_args()
    faulthandler.enable()
    _folders.extend(options.files)
    if options.only:
        name, _, number = options.only.partition(":")
        fault = tried(name, int(number))
        print(*(fault or ("nothing is wrong",)), sep="\n")
        return 1 if fault else 0
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
    kinds = [name for name in options.kinds.split(",") if name != "real" or options.files]
    count, found = run(kinds, options.seconds, options.first, options.keep)
    print("\n".join(_lines(count, found)))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
