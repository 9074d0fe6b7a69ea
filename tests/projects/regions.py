"""What the checks of migrated code control: CUDA behind a check for Gaudi, found without any of the rules.

A check that became one for ``hpu`` is True on Gaudi, and what it guards runs there. Code that still says CUDA in such a place
worked before, for the check was False, and stops the program now. This reads plain :mod:`ast` and follows flags by name;
it knows nothing of what the rules know, so that it can find what they miss::

    python tests/projects/regions.py BEFORE AFTER    # two folders, or two files
"""

from __future__ import annotations

import ast
import re
import sys
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from answers import NOTHING, Owned, Source, Truth, joined, last

#: What torch without CUDA answers without an error, below ``torch.cuda``.
HARMLESS = re.compile(
    r"torch\.cuda\.(is_\w+|device_of|device_count|empty_cache|(manual_)?seed(joined)?|[gs]et_rng_state_all|"
    r"(max_)?memory_(allocated|reserved|cached|stats)\w*|stream|StreamContext|get_arch_list|get_gencode_flags|OutOfMemoryError|"
    r"amp(\.\w+)*|random\.(manual_)?seed(joined)?|memory\.(empty_cache|(max_)?memory_\w+))$"
)
_DEVICE = re.compile(r"(cuda(:\d+)?|nccl)$")
_TELLS = frozenset(
    [
        *("print", "info", "debug", "warning", "warn", "error", "critical", "exception", "log"),
        *("write", "format", "replace", "add_argument", "startswith", "endswith", "hasattr"),
        *("skip", "skipif", "skipIf", "skipUnless", "xfail", "fail", "field", "isinstance"),
    ]
)
_ENDS = frozenset(["exit", "_exit", "skip", "SkipTest", "skipTest", "abort", "fail", "error", "quit"])  # fmt: skip
_ROUNDS = 3
NVIDIA = frozenset(
    [
        *("apex", "cupy", "flash_attn", "pynvml", "transformer_engine", "tensorrt", "pycuda"),
        *("numba.cuda", "amp_C", "apex_C"),
    ]
)


@dataclass(frozen=True)
class Site:
    """CUDA on ``line`` of a file that runs since the checks on ``checks`` were turned."""

    path: str
    line: int
    text: str
    checks: tuple[int, ...]

    def __str__(self) -> str:
        checks = ", ".join(map(str, self.checks))
        return f"{self.path}:{self.line}: {self.text}  (checked on {checks})"


def controlled(after: str, before: str = "", path: str = "file.py") -> list[Site]:
    """CUDA in ``after`` that is controlled by checks for ``hpu`` which ``before`` does not have."""
    source, turned = read(after, before)
    if not turned:
        return []
    theirs = Truth(source, set(source.checks("cuda")))
    return walk(source, Truth(source, turned), theirs, path)


def read(after: str, before: str) -> tuple[Source, set[ast.AST]]:
    """A file, and the checks for ``hpu`` in it that it did not have before."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        old = Counter(ast.unparse(n) for n in Source(ast.parse(before)).checks("hpu"))
        source = Source(ast.parse(after))
    turned: set[ast.AST] = set()
    for node in source.checks("hpu"):
        text = ast.unparse(node)
        if old[text]:
            old[text] -= 1
        else:
            turned.add(node)
    return source, turned


def walk(source: Source, ours: Truth, theirs: Truth, path: str) -> list[Site]:
    """CUDA that is reached only where ``ours`` is true, and not only where ``theirs`` is."""
    return _Walk(source, ours, theirs, path).sites()


class _Walk:
    """Goes through the code with the checks that have to be true to get there."""

    def __init__(self, source: Source, ours: Truth, theirs: Truth, path: str) -> None:
        self._source, self._ours, self._theirs, self._path = source, ours, theirs, path
        self._found: dict[tuple[int, str], Site] = {}
        #: By the name of what is called: the checks of each call, and whether it is shielded.
        self._calls: dict[str, dict[ast.AST, tuple[frozenset[int], bool]]] = {}
        self._used = Counter(
            last(n)
            for n in source.nodes
            if isinstance(getattr(n, "ctx", None), ast.Load)
            and isinstance(n, (ast.Name, ast.Attribute))
        )

    def sites(self) -> list[Site]:
        for _ in range(
            _ROUNDS
        ):  # a function is as controlled as its calls were in the round before
            self._block(self._source.tree.body, frozenset(), shielded=False)
        return sorted(self._found.values(), key=lambda site: site.line)

    # -- statements -------------------------------------------------------------------------

    def _block(self, block: list[ast.stmt], checks: frozenset[int], *, shielded: bool) -> None:
        for statement in block:
            self._statement(statement, checks, shielded=shielded)
            ours, theirs = NOTHING, NOTHING
            if isinstance(statement, ast.Assert):
                ours, theirs = self._ours.of(statement.test), self._theirs.of(statement.test)
            elif isinstance(statement, ast.If):
                found = self._ours.of(statement.test), self._theirs.of(statement.test)
                if _ends(statement.body):
                    ours, theirs = (one.swapped() for one in found)
                elif _ends(statement.orelse):
                    ours, theirs = found
            elif isinstance(statement, ast.Assign) and last(statement.targets[0]) == "pytestmark":
                ours, theirs = self._skips(statement.value)
            checks = checks | ours.true
            shielded = shielded or bool(theirs.true)

    def _statement(self, node: ast.stmt, checks: frozenset[int], *, shielded: bool) -> None:
        if isinstance(node, (ast.If, ast.While)):
            self._expression(node.test, checks, shielded=shielded)
            ours, theirs = self._ours.of(node.test), self._theirs.of(node.test)
            self._block(node.body, checks | ours.true, shielded=shielded or bool(theirs.true))
            self._block(node.orelse, checks | ours.false, shielded=shielded or bool(theirs.false))
            if theirs.false and _ends(node.body) and checks and not shielded and _raises(node.body):
                self._note(node.test, checks, f"stops without CUDA: {ast.unparse(node.test)}")
            return
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for decorator in node.decorator_list:
                self._expression(decorator, checks, shielded=shielded)
                ours, theirs = self._skips(decorator)
                checks, shielded = checks | ours.true, shielded or bool(theirs.true)
            if not isinstance(node, ast.ClassDef):
                calls = self._calls.get(node.name, {})
                known = calls and len(calls) == self._used[node.name]
                if known and all(found for found, _ in calls.values()):
                    checks = checks.union(*(found for found, _ in calls.values()))
                    shielded = shielded or all(hidden for _, hidden in calls.values())
        if isinstance(node, ast.Assert):
            if checks and not shielded and self._theirs.of(node.test).true:
                self._note(node, checks, ast.unparse(node.test))
            return
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            self._imported(node, checks, shielded=shielded)
            return
        if isinstance(node, ast.For):
            shielded = shielded or bool(self._theirs.of(node.iter).true)
            checks = checks | self._ours.of(node.iter).true
        guarded = isinstance(node, ast.Try) and any(
            last(h.type) in ("ImportError", "ModuleNotFoundError", "Exception")
            if h.type is not None
            else True
            for h in node.handlers
        )
        for name, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                self._block(value, checks, shielded=shielded or (guarded and name == "body"))
            elif name != "decorator_list":
                for child in value if isinstance(value, list) else [value]:
                    if isinstance(child, (ast.ExceptHandler, ast.match_case)):
                        self._block(child.body, checks, shielded=shielded)
                    elif isinstance(child, ast.AST):
                        alone = isinstance(node, ast.Expr) and isinstance(child, ast.Constant)
                        if not alone and name not in ("annotation", "returns"):
                            self._expression(child, checks, shielded=shielded)

    def _skips(self, node: ast.expr) -> tuple[Owned, Owned]:
        """What runs only when the condition of ``skipif(not …)``, or of a name that holds one, fails."""
        if isinstance(node, ast.Name):
            for other in self._source.nodes:
                if isinstance(other, ast.Assign) and last(other.targets[0]) == node.id:
                    return self._skips(other.value)
        if isinstance(node, (ast.List, ast.Tuple)):
            pairs = [self._skips(item) for item in node.elts]
            return joined(p[0] for p in pairs), joined(p[1] for p in pairs)
        if isinstance(node, ast.Call) and (node.args or node.keywords):
            condition = node.args[0] if node.args else node.keywords[0].value
            name = last(node.func).lower()
            found = self._ours.of(condition), self._theirs.of(condition)
            if name == "skipif":
                return found[0].swapped(), found[1].swapped()
            if name == "skipunless":
                return found
        return NOTHING, NOTHING

    def _imported(
        self, node: ast.Import | ast.ImportFrom, checks: frozenset[int], *, shielded: bool
    ) -> None:
        names = (
            [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        )
        for name in names:
            top = name.split(".")[0]
            if checks and not shielded and (top in NVIDIA or name in NVIDIA):
                self._note(node, checks, ast.unparse(node))

    # -- expressions ------------------------------------------------------------------------

    def _expression(self, node: ast.AST, checks: frozenset[int], *, shielded: bool) -> None:
        if isinstance(node, ast.IfExp):
            self._expression(node.test, checks, shielded=shielded)
            ours, theirs = self._ours.of(node.test), self._theirs.of(node.test)
            self._expression(node.body, checks | ours.true, shielded=shielded or bool(theirs.true))
            self._expression(
                node.orelse, checks | ours.false, shielded=shielded or bool(theirs.false)
            )
            return
        if isinstance(node, ast.BoolOp):
            for value in node.values:
                self._expression(value, checks, shielded=shielded)
                ours, theirs = self._ours.of(value), self._theirs.of(value)
                if isinstance(node.op, ast.Or):
                    ours, theirs = ours.swapped(), theirs.swapped()
                checks, shielded = checks | ours.true, shielded or bool(theirs.true)
            return
        if isinstance(node, ast.comprehension):
            self._expression(node.iter, checks, shielded=shielded)
            return
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
            inner = checks
            for part in node.generators:
                self._expression(part, checks, shielded=shielded)
                for test in part.ifs:
                    inner = inner | self._ours.of(test).true
            parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
            for child in parts:
                self._expression(child, inner, shielded=shielded)
            return
        if isinstance(node, ast.Compare):
            return  # a check of its own, which stays False
        if isinstance(node, ast.Call) and last(node.func) in _TELLS:
            return
        if isinstance(node, ast.Call):
            self._calls.setdefault(last(node.func), {})[node] = (checks, shielded)
        if checks and not shielded:
            self._look(node, checks)
        for child in ast.iter_child_nodes(node):
            self._expression(child, checks, shielded=shielded)

    def _look(self, node: ast.AST, checks: frozenset[int]) -> None:
        if isinstance(node, (ast.Attribute, ast.Name)):
            name = self._source.dotted(node)
            parent = self._source.parents.get(node)
            whole = name.startswith("torch.cuda.") and not isinstance(parent, ast.Attribute)
            if whole and not HARMLESS.match(name):
                self._note(node, checks, name)
        elif isinstance(node, ast.Call):
            if getattr(node.func, "attr", "") == "cuda" and not self._source.dotted(node.func):
                self._note(node, checks, ast.unparse(node))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            parent = self._source.parents.get(node)
            text = node.value
            if isinstance(parent, ast.JoinedStr) and parent.values[0] is node:
                text = text.rstrip(":")
            elif isinstance(parent, ast.JoinedStr):
                return
            if isinstance(parent, ast.JoinedStr):
                parent = self._source.parents.get(parent)
            if isinstance(parent, (ast.Dict, ast.Subscript)) and (
                not isinstance(parent, ast.Dict) or node in parent.keys
            ):
                return
            if _DEVICE.match(text):
                self._note(node, checks, repr(node.value))

    def _note(self, node: ast.AST, checks: frozenset[int], text: str) -> None:
        line = getattr(node, "lineno", 0)
        self._found.setdefault(
            (line, text), Site(self._path, line, text[:90], tuple(sorted(checks)))
        )


def _raises(block: list[ast.stmt]) -> bool:
    return isinstance(block[-1], ast.Raise)


def _ends(block: list[ast.stmt]) -> bool:
    """Does nothing behind the block run after it?"""
    if not block:
        return False
    end = block[-1]
    if isinstance(end, ast.If):
        return _ends(end.body) and _ends(end.orelse)
    if isinstance(end, (ast.Return, ast.Raise, ast.Continue, ast.Break)):
        return True
    return (
        isinstance(end, ast.Expr)
        and isinstance(end.value, ast.Call)
        and last(end.value.func) in _ENDS
    )


def compare(before: Path, after: Path) -> list[Site]:
    """The same for every Python file below ``after``, with the file of that name below ``before``."""
    files = [after] if after.is_file() else sorted(after.rglob("*.py"))
    found: list[Site] = []
    for file in files:
        name = "" if after.is_file() else str(file.relative_to(after))
        old = before / name if name else before
        try:
            now = file.read_text(encoding="utf-8-sig")
            was = old.read_text(encoding="utf-8-sig") if old.is_file() else ""
            found += controlled(now, was, name or file.name)
        except (SyntaxError, UnicodeDecodeError, RecursionError) as error:
            sys.stderr.write(f"{file}: {error}\n")
    return found


if __name__ == "__main__":
    for site in compare(Path(sys.argv[1]), Path(sys.argv[2])):
        sys.stdout.write(f"{site}\n")
