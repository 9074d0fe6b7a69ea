"""Which statements of a program made what disagrees: the line itself, and back from there to what it read and what it hangs on.

A finding tells of a disagreement when it stands at one of these statements, in whichever file. Names are followed as they are
spelled, attributes by their last word, keywords and parameters by theirs, options by the name that they arrive under.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

Place = tuple[str, int]
_ENDS = (ast.Return, ast.Continue, ast.Break, ast.Raise)
_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(eq=False)
class Statement:
    """A simple statement, or the header of a compound one."""

    file: str
    first: int
    last: int
    reads: set[str] = field(default_factory=set)
    binds: set[str] = field(default_factory=set)
    above: list[Statement] = field(default_factory=list)  # what decides whether it runs
    inside: str = ""  # the function around it


class Program:
    """The statements of a program's files, and which of them make which names."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self.statements: list[Statement] = []
        self._files = set(files)
        self._modules: set[str] = set()
        self._parameters: dict[str, list[str]] = {}
        trees = {name: ast.parse(text) for name, text in files.items() if name.endswith(".py")}
        for tree in trees.values():
            self._know(tree)
        for name, tree in trees.items():
            self._block(tree.body, name, [], "")
        for name, text in files.items():
            if name not in trees:
                for number, line in enumerate(text.splitlines(), 1):
                    words = set(_WORD.findall(line))
                    self.statements.append(Statement(name, number, number, binds=words))
        self._makers: dict[str, list[Statement]] = defaultdict(list)
        self._readers: dict[str, list[Statement]] = defaultdict(list)
        for one in self.statements:
            for name in one.binds:
                self._makers[name].append(one)
            for name in one.reads:
                self._readers[name].append(one)

    def at(self, places: Iterable[Place]) -> list[Statement]:
        """The innermost statements at these lines; all of them where one line holds several."""
        found: list[Statement] = []
        for file, line in places:
            here = [s for s in self.statements if s.file == file and s.first <= line <= s.last]
            least = min((s.last - s.first for s in here), default=0)
            found += [s for s in here if s.last - s.first == least]
        return found

    def made(self, places: Iterable[Place]) -> dict[Statement, int]:
        """The statements that made what these lines show, with how many steps back each is."""
        steps = dict.fromkeys(self.at(places), 0)
        turn = list(steps)
        while turn:
            following = []
            for one in turn:
                before = [*one.above, *self._readers[one.inside]]
                before += [maker for name in one.reads for maker in self._makers[name]]
                for other in before:
                    if other not in steps:
                        steps[other] = steps[one] + 1
                        following.append(other)
            turn = following
        return steps

    # -- reading the files

    def _know(self, tree: ast.Module) -> None:
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and f"{node.module}.py" in self._files:
                continue  # a name of the program's own
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                self._modules |= {(a.asname or a.name).split(".")[0] for a in node.names}
            elif isinstance(node, ast.FunctionDef):
                self._parameters[node.name] = [a.arg for a in node.args.args]
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                self._modules.discard(node.name)
                made = [f for f in node.body if isinstance(f, ast.FunctionDef) and f.name == "__init__"]  # fmt: skip
                if made:
                    self._parameters[node.name] = [a.arg for a in made[0].args.args[1:]]

    def _block(self, body: list[ast.stmt], file: str, above: list[Statement], inside: str) -> None:
        above = list(above)
        for node in body:
            one = self._statement(node, file)
            one.above, one.inside = list(above), inside
            self.statements.append(one)
            if isinstance(node, ast.Return) and inside:
                one.binds.add(inside)
            around = inside
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                around = node.name
                self._block(node.body, file, [], around)
                continue
            held = [] if isinstance(node, ast.ClassDef) else [*above, one]
            for block in _blocks(node):
                self._block(block, file, held, around)
            ends = _blocks(node) and any(isinstance(n, _ENDS) for n in ast.walk(node))
            if ends or isinstance(node, ast.Assert):
                above.append(one)  # what follows hangs on it too

    def _statement(self, node: ast.stmt, file: str) -> Statement:
        inner = {id(n) for block in _blocks(node) for s in block for n in ast.walk(s)}
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        last = node.end_lineno or node.lineno
        if _blocks(node):
            last = max(first, min(s.lineno for b in _blocks(node) for s in b) - 1)
        one = Statement(file, first, last)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            one.binds.add(node.name)
        for part in ast.walk(node):
            if id(part) not in inner:
                self._enter(part, one)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            one.binds |= self._changed(node.value)
        return one

    def _changed(self, call: ast.Call) -> set[str]:
        """What a call may change that is made for nothing else: the object of a method, the arguments of the program's own."""
        if isinstance(call.func, ast.Attribute):
            root = _root(call.func)
            return {root} - self._modules - {""}
        if isinstance(call.func, ast.Name) and call.func.id in self._parameters:
            return {one.id for one in call.args if isinstance(one, ast.Name)}
        return set()

    def _enter(self, part: ast.AST, one: Statement) -> None:
        if isinstance(part, ast.Name):
            if part.id not in self._modules:
                (one.reads if isinstance(part.ctx, ast.Load) else one.binds).add(part.id)
        elif isinstance(part, ast.Attribute):
            if not isinstance(part.ctx, ast.Load):
                one.binds.add(part.attr)
            elif part.attr in self._parameters or _root(part) in {"self", "args", "cfg", "settings", "config"} or not self._library(part):  # fmt: skip
                one.reads.add(part.attr)
        elif (isinstance(part, ast.keyword) and part.arg) or isinstance(part, ast.arg):
            one.binds.add(part.arg)
        elif isinstance(part, ast.Call):
            called = part.func.attr if isinstance(part.func, ast.Attribute) else getattr(part.func, "id", "")  # fmt: skip
            one.binds.update(name for name, _ in zip(self._parameters.get(called, ()), part.args, strict=False))  # fmt: skip
            if called in ("add_argument", "option"):
                words = [a.value for a in part.args if isinstance(a, ast.Constant)]
                one.binds.update(str(w).lstrip("-").replace("-", "_") for w in words)

    def _library(self, part: ast.Attribute) -> bool:
        return _root(part) in self._modules


def _blocks(node: ast.AST) -> list[list[ast.stmt]]:
    blocks = [getattr(node, name, None) for name in ("body", "orelse", "finalbody")]
    found = [b for b in blocks if isinstance(b, list) and b and isinstance(b[0], ast.stmt)]
    for handler in getattr(node, "handlers", ()):
        found.append(handler.body)
    for case in getattr(node, "cases", ()):
        found.append(case.body)
    return found


def _root(node: ast.AST) -> str:
    while isinstance(node, (ast.Attribute, ast.Call, ast.Subscript)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def original_line(before: str, after: str, line: int) -> int:
    """The line of a file as it was that became this one, or that it stands at the place of."""
    old, new = before.splitlines(), after.splitlines()
    for _, start, _, begin, end in difflib.SequenceMatcher(None, old, new, False).get_opcodes():
        if begin < line <= end:
            return min(start + line - begin, max(len(old), 1))
    return line


def stopped_at(output: str, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Place]:
    """The program's lines in the last traceback of an output, as lines of the original."""
    found = re.findall(
        r'File "[^"]*?([^"/]+)", line (\d+)', output.rpartition("Traceback (most")[2]
    )
    for name, line in found:
        if name in before:
            yield name, original_line(before[name], after[name], int(line))


def printed_by(word: str, text: str, files: Mapping[str, str]) -> Iterator[Place]:
    """The lines that print a word and what follows it."""
    for name, body in files.items():
        for number, line in enumerate(body.splitlines(), 1):
            if f'print("{word}"' in line and (
                not text or f'"{text}"' in line or f'"{text} ' in line
            ):
                yield name, number


def saying(words: str, files: Mapping[str, str]) -> Iterator[Place]:
    """The lines that hold these words; none for no words."""
    for name, body in files.items():
        for number, line in enumerate(body.splitlines(), 1):
            if words and words in line:
                yield name, number
