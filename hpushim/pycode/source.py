"""One Python text and its tree: what encloses what, who is bound to what, what names mean."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from hpushim.pycode import scope as scopes
from hpushim.pycode.answers import Circular
from hpushim.pycode.index import Index
from hpushim.pycode.lines import starts_of_lines
from hpushim.pycode.names import Names
from hpushim.pycode.steps import Steps
from hpushim.pycode.values import Values
from hpushim.pycode.walk import walk

S = TypeVar("S", bound="Source")
T = TypeVar("T")


class _AnyLines(Sequence[int]):
    """The starts of lines that nobody has seen: far enough apart that places come in the order of a text."""

    def __len__(self) -> int:
        return 0

    def __getitem__(self, line: Any) -> Any:
        return line << 32


class Source:
    """A parsed text. What is requested from it is found when it is first requested.

    ``ambient`` are packages that an unbound name of the same spelling represents (see :class:`Names`).
    Raises SyntaxError (or ValueError for NUL bytes) when ``text`` is not Python.
    """

    def __init__(self, text: str, ambient: tuple[str, ...] = ()) -> None:
        data = text.encode()
        self._read(ast.parse(text), data, starts_of_lines(data), ambient)

    @classmethod
    def of_tree(cls, tree: ast.Module) -> Source:
        """A tree whose text is not at hand. All of it is indexed at once."""
        source = cls.__new__(cls)
        source._read(tree, b"", _AnyLines(), ())
        return source

    def _read(
        self, tree: ast.Module, data: bytes, line_starts: Sequence[int], ambient: tuple[str, ...]
    ) -> None:
        self.tree = tree
        #: The bound of the work on it; of a tree without a text, each node counts as ten bytes.
        self.steps = Steps(len(data) or 10 * sum(1 for _ in walk(tree)))
        self.index = Index(self.tree, data, line_starts, self.steps)
        self.names = Names(self.index, ambient)
        #: The dotted name that an expression certainly means, or None; every one that it may mean.
        self.qualified = self.names.qualified
        self.possible_names = self.names.possible
        #: The node that holds a node; None for the module.
        self.parent: Callable[[ast.AST], ast.AST | None] = self.index.parent
        #: The scope in which a node is evaluated.
        self.scope = self.index.scope
        self._views: dict[Any, Any] = {}
        self.names.origins = lambda node: self.view(Values).origins(node)
        self._places: dict[ast.stmt, tuple[list[ast.stmt], int]] = {}

    def view(self: S, kind: Callable[[S], T]) -> T:
        """``kind(source)``, made when it is first requested and kept: what several ask of a text."""
        try:
            found: T = self._views[kind]
            return found
        except KeyError:
            made = self._views[kind] = kind(self)
            return made

    def forget(self) -> None:
        """Lets go of the views, which point back here, and empties those that point at themselves."""
        self.names.origins = lambda _: []
        views = list(self._views.values())
        self._views.clear()
        for view in views:
            if isinstance(view, Circular):
                view.empty()

    # -- structure --------------------------------------------------------------------------

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """From the parent outwards to the module."""
        above, spend = self.index.parent, self.steps.spend
        parent = above(node)
        while parent is not None:
            spend()
            yield parent
            parent = above(parent)

    def upwards(self, node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
        """Each of the ancestors with the child of it that ``node`` is, or is in."""
        for above in self.ancestors(node):
            yield node, above
            node = above

    def statement(self, node: ast.AST) -> ast.stmt:
        """The innermost statement that holds ``node`` (itself, when it is one)."""
        while not isinstance(node, ast.stmt):
            above = self.parent(node)
            assert above is not None, "every expression is in a statement"
            node = above
        return node

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        """The list of statements that ``statement`` is a member of."""
        return self.place(statement)[0]

    def place(self, statement: ast.stmt) -> tuple[list[ast.stmt], int]:
        """The list of statements that ``statement`` is a member of, and its position there."""
        if statement not in self._places:
            parent: Any = self.parent(statement)
            for name in ("body", "orelse", "finalbody"):
                block = getattr(parent, name, None)
                if isinstance(block, list):
                    self._places.update((item, (block, at)) for at, item in enumerate(block))
        return self._places.get(statement) or ([statement], 0)

    def before(self, statement: ast.stmt) -> list[ast.stmt]:
        """The statements in front of ``statement`` in its block."""
        block, at = self.place(statement)
        return block[:at]

    def function(self, node: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """The innermost ``def`` around ``node``."""
        for above in self.ancestors(node):
            if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef)):
                return above
        return None

    # -- names ------------------------------------------------------------------------------

    @property
    def imports(self) -> list[ast.Import | ast.ImportFrom]:
        return self.index.imports

    @property
    def global_scope(self) -> scopes.Scope:
        return self.index.root

    def scope_of(self, node: ast.AST) -> scopes.Scope | None:
        """The scope that a function, class, comprehension or module node opens."""
        return self.index.scopes.get(node)

    def bindings(self, name: ast.Name) -> list[scopes.Binding]:
        """Every binding that ``name`` may refer to; empty for builtins."""
        return self.scope(name).lookup(name.id)

    def bindings_of(self, name: str) -> list[scopes.Binding]:
        """Every binding of ``name`` in any scope of the file; for "is this name taken?"."""
        self.index.names(name)  # lambdas and comprehensions that bind it
        return [
            binding
            for scope in self.index.scopes.values()
            for binding in scope.bindings.get(name, ())
        ]

    @property
    def import_bindings(self) -> list[scopes.Binding]:
        """What the imports of the file bind, in any scope."""
        return self.index.import_bindings

    def uses(self, binding: scopes.Binding) -> list[ast.Name]:
        """Every place that reads the name which a binding gives its value."""
        return [
            node
            for node in self.index.names(binding.name)
            if isinstance(node.ctx, ast.Load) and any(b is binding for b in self.bindings(node))
        ]

    def constant(self, node: ast.expr | None) -> object:
        """The value of a literal, of ``"a" + "b"``, of a negated number; None when not constant."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            left, right = self.constant(node.left), self.constant(node.right)
            if isinstance(left, str) and isinstance(right, str):
                return left + right
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            value = self.constant(node.operand)
            if isinstance(value, (int, float)):
                return -value
        return None
