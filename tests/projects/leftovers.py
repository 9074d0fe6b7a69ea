"""CUDA and NCCL words in code positions that no finding tells of: ``python leftovers.py ROOT [ROOT …]``.

It shares nothing with the rules: it has its own walk over :mod:`ast`, and plain readers for notebooks, shell, Dockerfiles and data files.
Comments, docstrings and prose are left out, and so is what only looks like a device (:data:`LOOKS`): a part of a path, a text
that is logged. ``--after`` looks at the migrated tree, ``-v`` prints every place.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, cast

DEVICE = re.compile(r"cuda(:(\d+|\{[^{}]*\}|%[dsi])?)?|nccl|(cpu:gloo,)?cuda:nccl", re.I)
VARIABLE = re.compile(r"(TORCH_)?NCCL_[A-Z][A-Z_0-9]*|CUDA_[A-Z][A-Z_0-9]*|PYTORCH_CUDA_ALLOC_CONF")
DOTTED = re.compile(r"(^|[\w.]\.)torch\.cuda(\.\w+)*$|^torch\.cuda")
#: A value inside a command line, an override or a default of an expansion.
VALUE = re.compile(
    r"(?:(?<=[=\s:,'\"])|(?<=[(\[{])|(?<=:-))(cuda(:\d+)?|nccl)(?=$|[\s,'\"})\];|&])"
)
OPTION = re.compile(r"(--?[\w.-]+[= ]|\b[\w.]+=)['\"]?(cuda(:\d+)?|nccl)(?=$|[\s,'\"])")
#: In a file of which one finding says that it stays as a whole.
WHOLE = "in a file that stays whole"
LOGGING = {
    *(
        "print",
        "info",
        "debug",
        "warning",
        "warn",
        "error",
        "exception",
        "log",
        "write",
        "critical",
    ),
    *("skip", "skipIf", "skipUnless", "echo", "format", "title", "set_title", "field"),
}
PROSE = {"help", "description", "title", "label", "msg", "reason", "desc", "name", "match"}
PATHS = {
    "join",
    "open",
    "exists",
    "isfile",
    "isdir",
    "Path",
    "glob",
    "joinpath",
    "replace",
    "makedirs",
}
LOOKS = "looks like one"
#: A choice beside Gaudi's own: its author has decided.
BESIDE = "beside hpu"
FLAGS = {
    "args",
    "opt",
    "opts",
    "options",
    "config",
    "cfg",
    "conf",
    "params",
    "hparams",
    "flags",
    "FLAGS",
}


class Site(NamedTuple):
    """A word in a code position; ``first`` to ``last`` are the lines of the statement that it stands in."""

    line: int
    kind: str
    text: str
    first: int
    last: int
    #: The line of the import that makes the word what it is.
    origin: int = 0


# -- Python ---------------------------------------------------------------------------------


class Walk:
    """The sites of one Python text."""

    def __init__(self, text: str) -> None:
        self.tree = ast.parse(text)
        self.found: list[Site] = []
        self.above: dict[ast.AST, ast.AST] = {
            child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)
        }
        self.torch = {"torch"}
        self.modules: set[str] = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                self.torch |= {a.asname for a in node.names if a.name == "torch" and a.asname}
            if isinstance(node, ast.ImportFrom) and node.module == "torch" and not node.level:
                self.modules |= {a.asname or a.name for a in node.names if a.name == "cuda"}
        for node in ast.walk(self.tree):
            self.look(node)

    def add(self, node: ast.AST, kind: str, text: str) -> None:
        statement: Any = node
        while not isinstance(statement, (ast.stmt, ast.excepthandler, ast.pattern)):
            statement = self.above[statement]
        first, last = statement.lineno, statement.end_lineno
        if body := getattr(
            statement, "body", None
        ):  # what stands in the header of a compound statement
            last = max(statement.lineno, body[0].lineno - 1)
        first = min([first, *(d.lineno for d in getattr(statement, "decorator_list", []))])
        kind = BESIDE if kind != LOOKS and self.beside_hpu(node) else kind
        self.found.append(Site(cast("Any", node).lineno, kind, text, first, last))

    def beside_hpu(self, node: ast.AST) -> bool:
        """Is it one of several choices, of which another is Gaudi's?"""
        child = node
        while child in self.above:
            parent = self.above[child]
            tests: list[ast.AST] = []
            if isinstance(parent, (ast.If, ast.IfExp)):
                tests = [*self.tests(parent)]
            elif isinstance(parent, (ast.Dict, ast.List, ast.Tuple, ast.Set, ast.BoolOp)):
                tests = [parent]
            if any("hpu" in ast.unparse(test).lower() for test in tests):
                return True
            child = parent
        return False

    def tests(self, choice: ast.AST) -> Iterator[ast.AST]:
        """The tests of a choice and of the ones behind its ``else``."""
        while isinstance(choice, (ast.If, ast.IfExp)):
            yield choice.test
            rest = choice.orelse
            choice = (
                (rest[0] if len(rest) == 1 else choice.test) if isinstance(rest, list) else rest
            )

    def look(self, node: ast.AST) -> None:
        if isinstance(node, ast.Attribute) and node.attr == "cuda":
            if isinstance(node.value, ast.Name) and node.value.id in self.torch:
                self.add(node, "torch.cuda", "torch.cuda")
            else:
                self.method(node)
        elif isinstance(node, ast.Name) and node.id in self.modules:
            self.add(node, "torch.cuda", node.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            self.imported(node)
        elif isinstance(node, ast.keyword) and node.arg and VARIABLE.fullmatch(node.arg):
            self.add(node.value, "variable", node.arg)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            self.string(node, node.value)

    def imported(self, node: ast.Import | ast.ImportFrom) -> None:
        base = node.module or "" if isinstance(node, ast.ImportFrom) else ""
        if isinstance(node, ast.ImportFrom) and node.level:
            return
        for alias in node.names:
            name = f"{base}.{alias.name}" if base else alias.name
            if name.startswith("torch.cuda") and name != "torch.cuda":
                bound = alias.asname or alias.name
                uses = [n for n in ast.walk(self.tree) if isinstance(n, ast.Name) and n.id == bound]
                for use in uses or [node]:
                    self.add(use, "torch.cuda", name)
                    self.found[-1] = self.found[-1]._replace(origin=node.lineno)

    def method(self, node: ast.Attribute) -> None:
        parent = self.above[node]
        if isinstance(parent, ast.Call) and parent.func is node:
            self.add(node, ".cuda()", ast.unparse(parent)[:80])
            return
        if isinstance(node.ctx, ast.Store) or isinstance(parent, ast.Attribute):
            return
        receiver = ast.unparse(node.value).split(".")[-1]
        flag = receiver in FLAGS or isinstance(
            parent, (ast.If, ast.IfExp, ast.BoolOp, ast.UnaryOp, ast.Compare)
        )
        self.add(node, LOOKS if flag or receiver == "self" else ".cuda", ast.unparse(node)[:80])

    def string(self, node: ast.Constant, text: str) -> None:
        parent = self.above[node]
        if isinstance(parent, ast.Expr):
            return
        whole = text
        if isinstance(parent, ast.JoinedStr):
            place = parent.values.index(node)
            if place == 0 and text == "cuda:" and len(parent.values) == 2:
                whole = "cuda"
            elif len(parent.values) > 1:
                self.inside(node, text)
                return
        if DEVICE.fullmatch(whole):
            kind = "'nccl'" if "nccl" in whole.lower() else "'cuda'"
            self.add(node, LOOKS if self.looks(node) else kind, ast.unparse(parent)[:80])
        elif VARIABLE.fullmatch(text):
            self.add(node, LOOKS if self.looks(node) else "variable", text)
        elif DOTTED.search(text) and " " not in text:
            self.add(node, "torch.cuda", text[:80])
        else:
            self.inside(node, text)

    def inside(self, node: ast.Constant, text: str) -> None:
        if OPTION.search(text) and not self.looks(node) and len(text) < 400:
            self.add(node, "in a command", text[:80])

    def looks(self, node: ast.AST) -> bool:
        """Is it logged, or a part of a path or of a larger word?"""
        child = node
        while True:
            parent = self.above[child]
            if isinstance(parent, (ast.JoinedStr, ast.FormattedValue)) and not (
                isinstance(parent, ast.JoinedStr) and parent.values[0] is child
            ):
                return True
            added = isinstance(parent, ast.BinOp) and not isinstance(parent.op, ast.Mod)
            if added and not isinstance(child, ast.List) and getattr(child, "value", "") != "cuda:":
                return True
            if isinstance(parent, ast.keyword) and parent.arg in PROSE:
                return True
            if isinstance(parent, ast.Raise):
                return True
            if isinstance(parent, ast.Call) and child is not parent.func:
                name = getattr(parent.func, "attr", getattr(parent.func, "id", ""))
                failing = name.endswith(("Error", "Exception", "Warning"))
                return failing or name in LOGGING or name in PATHS
            if isinstance(parent, (ast.stmt, ast.Compare, ast.Dict)):
                return False
            child = parent


def python(text: str) -> list[Site]:
    return Walk(text).found


# -- other files ----------------------------------------------------------------------------


def notebook(text: str) -> list[Site]:
    """The cells of a notebook, at the lines of the file where each of their lines is a string of its own."""
    found: list[Site] = []
    at = 0
    for cell in json.loads(text).get("cells", ()):
        source = cell.get("source", "")
        lines = source if isinstance(source, list) else [source]
        places = [1]
        for line in lines:
            written = (json.dumps(line, ensure_ascii=form) for form in (False, True))
            starts = [start for text_ in written if (start := text.find(text_, at)) >= 0]
            at = min(starts, default=at)
            places.append(text.count("\n", 0, at) + 1)
        if cell.get("cell_type") != "code":
            continue
        code = "".join(lines)
        plain = "\n".join(
            "pass" if re.match(r"\s*[!%]", line) else line for line in code.split("\n")
        )
        try:
            inside = python(plain)
        except (SyntaxError, ValueError):
            continue
        for site in inside:
            first, line, last = (
                places[min(number, len(places) - 1)]
                for number in (site.first, site.line, site.last)
            )
            found.append(site._replace(first=first, line=line, last=last))
    return found


def shell(text: str) -> Iterator[Site]:
    first = 1
    for number, line in enumerate(text.splitlines(), 1):
        if not (number > 1 and text.splitlines()[number - 2].endswith("\\")):
            first = number
        code = re.sub(r"(^|\s)#.*", "", line)
        if re.match(r"\s*(echo|printf)\b", code) or not code.strip():
            continue
        for match in VARIABLE.finditer(code):
            if re.match(r"[\w]", code[match.start() - 1 : match.start()] or " "):
                continue
            yield Site(number, "variable", match.group(), first, number)
        for match in VALUE.finditer(code):
            yield Site(
                number,
                "'nccl'" if "nccl" in match.group() else "'cuda'",
                code.strip()[:80],
                first,
                number,
            )


def data(text: str) -> Iterator[Site]:
    """YAML, TOML and JSON, line by line: values and items, overrides, defaults of interpolations."""
    for number, line in enumerate(text.splitlines(), 1):
        code = re.sub(r"(^|\s)(#|//).*", "", line)
        value = re.search(
            r"(?:^|[:=\-\[,{(])\s*['\"]?(cuda(:\d+)?|nccl)['\"]?\s*($|[,}\])])", code, re.I
        )
        inner = OPTION.search(code) or re.search(r"\$\{[^}]*[:,\-](cuda(:\d+)?|nccl)\}", code)
        if value or inner:
            yield Site(
                number,
                "'nccl'" if "nccl" in code.lower() else "'cuda'",
                code.strip()[:80],
                number,
                number,
            )
        for match in re.finditer(rf"(?<![\w$])({VARIABLE.pattern})(?!\w)", code):
            yield Site(number, "variable", match.group(), number, number)


READERS = {
    ".py": python, ".ipynb": notebook, ".sh": shell, ".bash": shell, ".slurm": shell, ".sbatch": shell,
    ".yaml": data, ".yml": data, ".toml": data, ".json": data,
}  # fmt: skip
#: Where the word names a build or a package; hpushim's rules leave these files out on purpose.
BUILD = re.compile(
    r"(^|/)\.(github|gitlab|circleci|azure|buildkite)(/|-)|(^|/)(package|tsconfig|pyproject|environment|conda|meta|recipe|mkdocs|vcpkg|Pipfile|poetry|\.pre-commit)[^/]*$"
)


def sites(path: str, text: str) -> list[Site]:
    """The sites of one file; empty for what is no code and what does not parse."""
    pure = PurePosixPath(path)
    reader = READERS.get(pure.suffix.lower())
    if reader is None:
        if (
            not re.match(r"(docker|container)file", pure.name.lower())
            and pure.suffix.lower() != ".dockerfile"
        ):
            return []
        reader = shell
    if reader is data and BUILD.search(path):
        return []
    if not re.search("cuda|nccl", text, re.I):
        return []
    try:
        return list(reader(text))
    except (SyntaxError, ValueError, RecursionError):
        return []


def silent(path: str, text: str, told: Iterable[tuple[int, int, str]]) -> list[Site]:
    """The sites of a file that none of the findings tells of; those are given by their first and last lines and their messages.

    A variable is told of where one finding of the file names it.
    """
    findings = list(told)
    names = " ".join(message for _, _, message in findings)
    return [
        site
        for site in sites(path, text)
        if not any(first <= site.last and site.first <= last for first, last, _ in findings)
        and not any(first <= site.origin <= last for first, last, _ in findings)
        and not (site.kind == "variable" and re.search(rf"\b{site.text}\b", names))
    ]


def assessed(root: Path, totals: Counter[str], *, verbose: bool) -> Counter[str]:
    """The silent sites of one tree by kind; all sites are added to ``totals``."""
    from hpushim.engine.project import analyse
    from hpushim.model import Target

    report = analyse([root], Target(), jobs=1)
    here: Counter[str] = Counter()
    for file in report.files:
        if file.status in ("skipped", "failed"):
            continue
        text = (Path(report.root) / file.path).read_bytes().decode("utf-8", "replace")
        totals.update(site.kind for site in sites(file.path, text))
        told = [(f.line, f.end_line, f.message) for f in file.findings if f.code != "HPU009"]
        own = any(f.code == "HPU009" for f in file.findings)
        whole = any(f.code == "HPU026" for f in file.findings)
        for site in silent(file.path, text, told):
            if (
                own and site.kind != LOOKS
            ):  # a branch for Gaudi governs it, or it should be told: read these
                site = site._replace(kind="in a file that handles Gaudi")
            elif whole and site.kind != LOOKS:  # one finding says that the file stays as it is
                site = site._replace(kind=WHOLE)
            here[site.kind] += 1
            if verbose:
                print(f"{root.name}/{file.path}:{site.line}: {site.kind}: {site.text}")
    return here


def main(arguments: list[str]) -> None:
    from hpushim.engine.project import migrate
    from hpushim.model import Target

    after, verbose = "--after" in arguments, "-v" in arguments
    every: Counter[str] = Counter()
    totals: Counter[str] = Counter()
    for root in (Path(a) for a in arguments if not a.startswith("-")):
        if after:
            with tempfile.TemporaryDirectory() as folder:
                copy = Path(folder) / root.name
                shutil.copytree(root, copy, symlinks=True, ignore=shutil.ignore_patterns(".git"))
                migrate([copy], Target(), jobs=1, allow_dirty=True)
                here = assessed(copy, every, verbose=verbose)
        else:
            here = assessed(root, every, verbose=verbose)
        totals += here
        print(root.name, dict(here), flush=True)
    print("sites", dict(every))
    print("silent", dict(totals))


if __name__ == "__main__":
    main(sys.argv[1:])
