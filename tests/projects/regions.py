"""What the checks of migrated code control: CUDA behind a check for Gaudi, found without any of the rules.

A check that became one for ``hpu`` is True on Gaudi, and what it guards runs there. Code that still says CUDA in such a place
worked before, for the check was False, and stops the program now. This reads plain :mod:`ast` and follows flags by name;
it knows nothing of what the rules know, so that it can find what they miss::

    python -m tests.projects.regions BEFORE AFTER    # two folders, or two files
"""

from __future__ import annotations

import ast
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

#: What torch without CUDA answers without an error, below ``torch.cuda``.
HARMLESS = re.compile(
    r"torch\.cuda\.(is_\w+|device|device_of|device_count|empty_cache|ipc_collect|(manual_)?seed(_all)?|[gs]et_rng_state_all|"
    r"(max_)?memory_(allocated|reserved|cached|stats)\w*|stream|StreamContext|get_arch_list|get_gencode_flags|OutOfMemoryError|"
    r"amp(\.\w+)*|random\.(manual_)?seed(_all)?|memory\.(empty_cache|(max_)?memory_\w+))$"
)
_DEVICE = re.compile(r"(cuda(:\d+)?|nccl)$")
_TELLS = frozenset(
    "print info debug warning warn error critical exception log write format replace add_argument "
    "startswith endswith hasattr skip skipif skipIf skipUnless xfail fail field".split()
)
_ENDS = frozenset("exit _exit skip SkipTest skipTest abort fail error quit".split())
_TENSOR = re.compile(r"torch\.cuda\.\w+(Tensor|Storage)$")
NVIDIA = frozenset(
    "apex cupy flash_attn pynvml transformer_engine tensorrt pycuda numba.cuda amp_C apex_C".split()
)

Flags = dict[tuple[object, ...], "Owned"]


@dataclass(frozen=True)
class Owned:
    """The lines of the checks that a value being true, and being false, needs."""

    true: frozenset[int] = frozenset()
    false: frozenset[int] = frozenset()

    def __or__(self, other: Owned) -> Owned:
        return Owned(self.true | other.true, self.false | other.false)

    def __bool__(self) -> bool:
        return bool(self.true or self.false)

    def swapped(self) -> Owned:
        return Owned(self.false, self.true)


NOTHING = Owned()


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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        old = Counter(ast.unparse(n) for n in _Source(ast.parse(before)).checks("hpu"))
        source = _Source(ast.parse(after))
    turned: set[ast.AST] = set()
    for node in source.checks("hpu"):
        text = ast.unparse(node)
        if old[text]:
            old[text] -= 1
        else:
            turned.add(node)
    if not turned:
        return []
    ours = _Truth(source, turned)
    theirs = _Truth(source, set(source.checks("cuda")))
    return _Walk(source, ours, theirs, path).sites()


class _Source:
    """A tree with its parents, and the dotted names that its imports give."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.nodes = list(ast.walk(tree))
        self.parents = {c: n for n in self.nodes for c in ast.iter_child_nodes(n)}
        self.names: dict[str, str] = {"torch": "torch"}
        for node in self.nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    self.names[alias.asname or alias.name.split(".")[0]] = (
                        alias.name if alias.asname else alias.name.split(".")[0]
                    )
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    self.names[alias.asname or alias.name] = f"{node.module}.{alias.name}"

    def dotted(self, node: ast.AST) -> str:
        parts = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self.names:
            return ""
        return ".".join([self.names[node.id], *reversed(parts)])

    def checks(self, word: str) -> Iterator[ast.AST]:
        """The expressions that ask for one kind of device."""
        for node in self.nodes:
            parent = self.parents.get(node)
            if isinstance(node, (ast.Attribute, ast.Name)) and isinstance(
                getattr(node, "ctx", None), ast.Load
            ):
                if not isinstance(parent, ast.Attribute) and self.dotted(node) in (
                    f"torch.{word}.is_available",
                    f"torch.{word}.device_count",
                    f"torch.{word}.is_initialized",
                ):
                    yield node
                elif word == "cuda" and isinstance(node, ast.Attribute) and node.attr == "is_cuda":
                    yield node
            elif (isinstance(node, ast.Compare) and _compares(node, word)) or (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in ("startswith", "__contains__", "count")
                and any(_spells(arg, word) for arg in node.args)
            ):
                yield node

    def scope(self, node: ast.AST | None) -> ast.AST | None:
        while node is not None:
            node = self.parents.get(node)
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
                return node
        return None


def _spells(node: ast.AST, word: str) -> bool:
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return any(_spells(item, word) for item in node.elts)
    if isinstance(node, ast.Call):  # torch.device("hpu")
        return any(_spells(item, word) for item in node.args)
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and bool(re.match(rf"{word}(:\d*)?$", node.value))
    )


def _compares(node: ast.Compare, word: str) -> bool:
    return any(_spells(side, word) for side in (node.left, *node.comparators))


class _Truth:
    """Which values are true, or false, only because one of some checks is true."""

    def __init__(self, source: _Source, checks: set[ast.AST]) -> None:
        self._source = source
        self._checks = checks
        self._flags: Flags = {}
        while True:
            known = dict(self._flags)
            for node in source.nodes:
                self._learn(node)
            if known == self._flags:
                return

    def of(self, node: ast.AST | None) -> Owned:
        if node is None:
            return NOTHING
        if node in self._checks:
            return self._asked(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self.of(node.operand).swapped()
        if isinstance(node, ast.BoolOp):
            return _all(self.of(value) for value in node.values)
        if isinstance(node, ast.IfExp):
            found = self.of(node.body) | self.of(node.orelse)
            test = self.of(node.test)
            if isinstance(node.orelse, ast.Constant) and not node.orelse.value:
                found |= Owned(true=test.true)
            if isinstance(node.body, ast.Constant) and not node.body.value:
                found |= Owned(true=test.false)
            return found
        if isinstance(node, ast.NamedExpr):
            return self.of(node.value)
        if isinstance(node, ast.Compare):
            return self._compared(node)
        if isinstance(node, ast.Call):
            return self._called(node)
        for key in self._keys(node):
            if key in self._flags:
                return self._flags[key]
        return NOTHING

    def _asked(self, node: ast.AST) -> Owned:
        line = frozenset([getattr(node, "lineno", 0)])
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.NotEq, ast.NotIn, ast.IsNot)):
            return Owned(false=line)
        return Owned(true=line)

    def _compared(self, node: ast.Compare) -> Owned:
        """``count > 0``, ``flag is True``."""
        left, right = self.of(node.left), self.of(node.comparators[0])
        found = left or right
        value = node.comparators[0] if left else node.left
        if not isinstance(value, ast.Constant) or len(node.ops) > 1:
            return NOTHING
        swap = False
        match node.ops[0]:
            case ast.Eq() | ast.Is():
                swap = not value.value
            case ast.NotEq() | ast.IsNot():
                swap = bool(value.value)
            case ast.Lt() | ast.LtE():
                swap = bool(left)
            case ast.Gt() | ast.GtE():
                swap = not left
        return found.swapped() if swap else found

    def _called(self, node: ast.Call) -> Owned:
        name = _last(node.func)
        if node.func in self._checks:
            return self._asked(node.func)
        if name in ("bool", "any", "int", "min", "max", "all", "str2bool", "len"):
            return _all(self.of(arg) for arg in node.args)
        return self._flags.get(("returned", name), NOTHING)

    # -- flags ------------------------------------------------------------------------------

    def _keys(self, node: ast.AST) -> Iterator[tuple[object, ...]]:
        if isinstance(node, ast.Name):
            scope = self._source.scope(node)
            while scope is not None:
                yield ("name", scope, node.id)
                scope = self._source.scope(scope)
            yield ("name", None, node.id)
        elif isinstance(node, ast.Attribute):
            yield ("attribute", node.attr)
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            yield ("item", node.slice.value)

    def _add(self, key: tuple[object, ...], value: Owned) -> None:
        if value:
            self._flags[key] = self._flags.get(key, NOTHING) | value

    def _learn(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._store(target, node.value)
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr, ast.AugAssign)) and node.value:
            self._store(node.target, node.value)
        elif isinstance(node, ast.Return) and node.value is not None:
            function = self._source.scope(node)
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self._returned(node, function.name)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            self._defaults(node)
        elif isinstance(node, ast.Call):
            self._arguments(node)
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant):
                    self._add(("item", key.value), self.of(value))

    def _store(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts):
                for one, other in zip(target.elts, value.elts, strict=True):
                    self._store(one, other)
            elif isinstance(value, ast.Call):
                for place, one in enumerate(target.elts):
                    found = self._flags.get(("returned", _last(value.func), place), NOTHING)
                    self._put(one, found)
            return
        self._put(target, self.of(value))

    def _put(self, target: ast.expr, found: Owned) -> None:
        if isinstance(target, ast.Name):
            self._add(("name", self._source.scope(target), target.id), found)
        else:
            for key in self._keys(target):
                self._add(key, found)

    def _returned(self, node: ast.Return, name: str) -> None:
        if isinstance(node.value, ast.Tuple):
            for place, item in enumerate(node.value.elts):
                self._add(("returned", name, place), self.of(item))
            return
        found = self.of(node.value)
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, bool):
            # `if check: return True`
            parent = self._source.parents.get(node)
            if isinstance(parent, ast.If):
                test = self.of(parent.test)
                inside = test.true if node in parent.body else test.false
                found |= Owned(true=inside) if node.value.value else Owned(false=inside)
        self._add(("returned", name), found)
        self._add(("attribute", name), found)  # a property

    def _defaults(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        args = node.args
        positional = [*args.posonlyargs, *args.args]
        pairs = list(zip(reversed(positional), reversed(args.defaults), strict=False))
        pairs += [(a, d) for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True) if d]
        for arg, default in pairs:
            self._add(("name", node, arg.arg), self.of(default))

    def _arguments(self, call: ast.Call) -> None:
        if _last(call.func) == "add_argument":
            names = [a.value for a in call.args if isinstance(a, ast.Constant)]
            for keyword in call.keywords:
                if keyword.arg == "default" and names:
                    option = str(names[-1]).lstrip("-").replace("-", "_")
                    self._add(("attribute", option), self.of(keyword.value))
            return
        if not isinstance(call.func, ast.Name):
            return
        for node in self._source.nodes:
            if isinstance(node, ast.FunctionDef) and node.name == call.func.id:
                for arg, value in zip(node.args.args, call.args, strict=False):
                    self._add(("name", node, arg.arg), self.of(value))
                for keyword in call.keywords:
                    if keyword.arg:
                        self._add(("name", node, keyword.arg), self.of(keyword.value))


def _all(found: Iterator[Owned]) -> Owned:
    result = NOTHING
    for one in found:
        result |= one
    return result


def _last(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


class _Walk:
    """Goes through the code with the checks that have to be true to get there."""

    def __init__(self, source: _Source, ours: _Truth, theirs: _Truth, path: str) -> None:
        self._source, self._ours, self._theirs, self._path = source, ours, theirs, path
        self._found: dict[tuple[int, str], Site] = {}

    def sites(self) -> list[Site]:
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
            elif isinstance(statement, ast.Assign) and _last(statement.targets[0]) == "pytestmark":
                ours, theirs = self._skips(statement.value)
            elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
                if _last(statement.value.func) in ("skipIf", "skipif", "skipUnless"):
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
        if isinstance(node, ast.Assert):
            if checks and not shielded and self._theirs.of(node.test).true:
                self._note(node, checks, ast.unparse(node.test))
            return
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            self._imported(node, checks, shielded=shielded)
            return
        guarded = isinstance(node, ast.Try) and any(
            _last(h.type) in ("ImportError", "ModuleNotFoundError", "Exception")
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
                if isinstance(other, ast.Assign) and _last(other.targets[0]) == node.id:
                    return self._skips(other.value)
        if isinstance(node, (ast.List, ast.Tuple)):
            pairs = [self._skips(item) for item in node.elts]
            return _all(p[0] for p in pairs), _all(p[1] for p in pairs)
        if isinstance(node, ast.Call) and node.args or isinstance(node, ast.Call) and node.keywords:
            condition = node.args[0] if node.args else node.keywords[0].value
            name = _last(node.func).lower()
            found = self._ours.of(condition), self._theirs.of(condition)
            if name == "skipif":
                return found[0].swapped(), found[1].swapped()
            if name == "skipunless":
                return found
        return NOTHING, NOTHING

    def _imported(
        self, node: ast.Import | ast.ImportFrom, checks: frozenset[int], *, shielded: bool
    ) -> None:
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
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
            self._expression(node.orelse, checks | ours.false, shielded=shielded or bool(theirs.false))
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
        if isinstance(node, ast.Call) and _last(node.func) in _TELLS | {"isinstance"}:
            return
        if checks and not shielded:
            self._look(node, checks)
        for child in ast.iter_child_nodes(node):
            self._expression(child, checks, shielded=shielded)

    def _look(self, node: ast.AST, checks: frozenset[int]) -> None:
        if isinstance(node, (ast.Attribute, ast.Name)):
            name = self._source.dotted(node)
            parent = self._source.parents.get(node)
            if name.startswith("torch.cuda.") and not isinstance(parent, ast.Attribute):
                if not HARMLESS.match(name):
                    self._note(node, checks, name)
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr == "cuda":
                if self._source.dotted(node.func) == "":
                    self._note(node, checks, ast.unparse(node))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            parent = self._source.parents.get(node)
            text = node.value
            if isinstance(parent, ast.JoinedStr) and parent.values[0] is node:
                text = text.rstrip(":")
            elif isinstance(parent, ast.JoinedStr):
                return
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
    last = block[-1]
    if isinstance(last, ast.If):
        return _ends(last.body) and _ends(last.orelse)
    if isinstance(last, (ast.Return, ast.Raise, ast.Continue, ast.Break)):
        return True
    return (
        isinstance(last, ast.Expr)
        and isinstance(last.value, ast.Call)
        and _last(last.value.func) in _ENDS
    )


def compare(before: Path, after: Path) -> list[Site]:
    """The same for every Python file below ``after``, with the file of that name below ``before``."""
    files = [after] if after.is_file() else sorted(after.rglob("*.py"))
    found: list[Site] = []
    for file in files:
        name = "" if after.is_file() else str(file.relative_to(after))
        old = before / name if name else before
        try:
            now = file.read_text(encoding="utf-8")
            was = old.read_text(encoding="utf-8") if old.is_file() else ""
            found += controlled(now, was, name or file.name)
        except (SyntaxError, UnicodeDecodeError, RecursionError) as error:
            sys.stderr.write(f"{file}: {error}\n")
    return found


if __name__ == "__main__":
    for site in compare(Path(sys.argv[1]), Path(sys.argv[2])):
        sys.stdout.write(f"{site}\n")
