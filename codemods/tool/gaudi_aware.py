"""Files that handle Gaudi themselves: what their branches for it govern stays, the rest is reported."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from hpushim.engine.rules.rule import Claim, Code, Module, Rule, Strength, Wants, Yield

from ..analysis.names import words_with
from ..edits.at_hand import FUNCTIONS
from ..edits.spelling import ACCELERATOR

#: The word inside a name; "throughput" has its letters and is no such name.
_HPU = re.compile(r"(?<![A-Za-z])hpu(?![a-z])|(?<![A-Z])HPU(?![a-z])|Hpu(?![a-z])")
_SPELLINGS = ("hpu", "HPU", "Hpu")
_LEAVING = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_CHOICES = (ast.If, ast.IfExp, ast.While, ast.Match)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
#: The last one is what a rewrite in the dual style leaves.
_WORDS = ("cuda", "nccl", "NCCL", ACCELERATOR, *FUNCTIONS)


class GaudiAware(Rule):
    """``if is_hpu_available(): …``."""

    HPU009 = Code("file-handles-gaudi", severity="note")
    also = Wants(texts=("hpu", "HPU", "Hpu"))

    def on_module(self, module: Module) -> Yield:
        code = module.view(_GaudiCode)
        if not code.governed:
            return
        yield from map(Claim, code.governed)
        left = code.left()
        yield Claim(module.tree)
        yield from (Claim(node, Strength.OPEN) for node in left)
        if module.holds("cuda"):  # else nothing that the user would look for stays
            yield self.finding(
                min(code.named, key=module.span),
                "the file already has code for Gaudi, which is not changed, and neither are the branches for CUDA beside it"
                + ("; the rest of the file is reported as usual" if left else ""),
            )


class _GaudiCode:
    """``module.view(_GaudiCode)``."""

    def __init__(self, module: Module) -> None:
        self._module = module
        words = {word for part in _SPELLINGS for word in words_with(module, part)}
        self._names = sorted(filter(_is_own, words))
        #: The places of names that the author has given to something of Gaudi's.
        self.named: list[ast.AST] = [node for name in self._names for node in self._bearing(name)]
        #: What a branch, or a definition of such a name, decides about: it stays as it is.
        self.governed: frozenset[ast.AST] = frozenset(self._governed())

    def _bearing(self, name: str) -> Iterator[ast.AST]:
        """What bears a name: reads, attributes, functions, classes, imports; no parameter and no argument."""
        index = self._module.index
        yield from index.names(name)
        yield from index.attributes(name)
        yield from index.definitions(name)
        for statement in self._module.imports:
            for alias in statement.names:
                if (alias.asname or alias.name.rpartition(".")[2]) == name:
                    yield alias

    def _governed(self) -> Iterator[ast.AST]:
        for node in self.named:
            if isinstance(node, _DEFINITIONS):
                yield node
            elif not isinstance(node, ast.alias):
                yield from self._of_use(node)

    def _of_use(self, node: ast.AST) -> Iterator[ast.AST]:
        """What the use of such a name decides about: the choice whose test it is in, or its statement."""
        for child, above in self._module.upwards(node):
            if isinstance(above, _CHOICES) and child is _test(above):
                yield from self._choice(above)
            elif isinstance(above, _DEFINITIONS) and child in above.decorator_list:
                yield above
            elif isinstance(above, ast.match_case) and child is not above.guard:
                yield from filter(None, [self._module.parent(above)])
            if isinstance(above, ast.stmt):
                if not hasattr(above, "body"):
                    yield above
                return

    def _choice(self, choice: ast.AST) -> Iterator[ast.AST]:
        """All branches, and what follows in the block where a branch leaves it."""
        top = choice
        while True:
            outer = self._module.parent(top)
            if isinstance(outer, (ast.If, ast.IfExp)) and _is_else(outer, top):
                top = outer
            else:
                break
        yield top
        if isinstance(choice, ast.If) and isinstance(choice.body[-1], _LEAVING):
            assert isinstance(top, ast.stmt)
            block = self._module.block(top)
            yield from block[block.index(top) + 1 :]

    def left(self) -> frozenset[ast.AST]:
        """The expressions and statements with a word of CUDA's that nothing governs."""
        index = self._module.index
        sites: list[ast.AST] = [node for text in _WORDS for node in index.strings(text)]
        for word in {word for part in _WORDS for word in words_with(self._module, part)}:
            sites += [*index.names(word), *index.attributes(word)]
        found: set[ast.AST] = set()
        for site in sites:
            above = [site, *self._module.ancestors(site)]
            if self.governed.isdisjoint(above):
                found.update(_widest(above))
        return frozenset(found)


def _is_own(name: str) -> bool:
    """Is it a name of the author's own for Gaudi?

    ``torch.hpu`` and ``"hpu"`` alone are no such name: they are what a rewrite leaves behind.
    """
    small = name.lower()
    return "hpu" in small and small != "hpu" and _HPU.search(name) is not None


def _test(choice: ast.AST) -> ast.AST:
    return choice.subject if isinstance(choice, ast.Match) else choice.test  # type: ignore[attr-defined]


def _is_else(outer: ast.If | ast.IfExp, inner: ast.AST) -> bool:
    return outer.orelse == [inner] if isinstance(outer, ast.If) else outer.orelse is inner


def _widest(above: list[ast.AST]) -> Iterator[ast.AST]:
    """The simple statement that a site is in, or its whole expression in a compound one."""
    widest: ast.AST | None = None
    for node in above:
        if isinstance(node, ast.stmt):
            yield widest if hasattr(node, "body") and widest is not None else node
            return
        if isinstance(node, ast.expr):
            widest = node
