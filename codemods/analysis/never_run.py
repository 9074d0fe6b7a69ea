"""Code that no machine reaches which the project can run on: branches for older releases of torch and of Python."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from hpushim.engine.rules.wants import ProjectFact

from .names import word
from .releases import Answer, Release, answer, python_release, release, torch_release
from .truth import ends

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module
    from hpushim.engine.python.scope import Binding

_TORCH = ("torch.__version__", "torch.version.__version__", "torch.torch_version.__version__")
#: What a name says that another file gives its value.
_NAMED = frozenset(["TORCH_VERSION", "PYTORCH_VERSION", "torch_version", "pytorch_version"])
_CAUGHT = frozenset(["ImportError", "ModuleNotFoundError", "AttributeError", "Exception", ""])
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

# -- flags that other files of the project define -----------------------------------------------


def _flags(data: bytes) -> Iterable[bytes]:
    """``TORCH_1_10=1`` for ``TORCH_1_10 = Version(torch.__version__) >= Version("1.10")`` at the top level."""
    if b"torch.__version__" not in data:
        return
    known: dict[str, Release] = {}

    def meant(node: ast.expr) -> Release | None:
        if ast.unparse(node) == _TORCH[0]:
            return torch_release()
        return known.get(node.id) if isinstance(node, ast.Name) else None

    for line in data.decode(errors="replace").splitlines():
        name, equals, value = line.partition(" = ")
        if not equals or not name.isidentifier() or not any(each in value for each in ("__version__", *known)):  # fmt: skip
            continue
        try:
            node = ast.parse(value.strip(), mode="eval").body
        except (SyntaxError, ValueError):
            continue
        if found := release(node, meant):
            known[name] = found
        elif said := answer(node, meant, lambda each: getattr(each, "value", None)):
            yield f"{name}={int(said.value)}".encode()


FLAGS = ProjectFact("flags for releases of torch", _flags)


# -- one file -----------------------------------------------------------------------------------


class Gone(msgspec.Struct, frozen=True, eq=False):
    """A condition that has one answer on every machine, and what does not run for that: statements, or one expression."""

    condition: ast.expr | ast.Try
    nodes: tuple[ast.AST, ...]
    package: str


class NeverRun:
    """``module.view(NeverRun)``."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self.gone: list[Gone] = []
        #: The statements and expressions that never run.
        self.nodes: set[ast.AST] = set()
        self._answered: dict[ast.AST, Answer] = {}
        self._waiting: list[tuple[ast.AST, Answer]] = []
        self._asking: set[str] = set()
        for statement in self._tried():
            self._leave(statement, [s for h in statement.handlers for s in h.body], "torch")
        for node, said in self._conditions():
            self._settle(node, said)
        while self._waiting:
            self._climb(*self._waiting.pop())

    def holds(self, node: ast.AST) -> bool:
        """Does a node stand in code that never runs?"""
        return bool(self.nodes) and (
            node in self.nodes or not self.nodes.isdisjoint(self._module.ancestors(node))
        )

    # -- what asks for a release ------------------------------------------------------------

    def _conditions(self) -> Iterator[tuple[ast.AST, Answer]]:
        module, index = self._module, self._module.index
        waiting: list[ast.AST] = []
        for name in ("__version__", "version_info", *sorted(_NAMED)):
            if module.holds(name):
                waiting += [*index.attributes(name), *index.names(name)]
        if module.holds("is_torch_version"):
            waiting += index.calls("is_torch_version")
        seen: set[ast.AST] = set()
        while waiting:
            node: ast.AST | None = waiting.pop()
            while node is not None and not isinstance(node, ast.stmt) and node not in seen:
                seen.add(node)
                if isinstance(node, (ast.Compare, ast.Call)) and (said := self._answer(node)):
                    yield node, said
                    break
                node = module.parent(node)
            if isinstance(node, ast.Assign) and node not in seen:
                seen.add(node)
                waiting += self._read_later(node.targets)
        for call in index.calls("hasattr") if module.holds("torch") else ():
            if self._is_there(call):
                yield call, Answer(True, "torch")
        for call in index.calls("getattr") if module.holds("torch") else ():
            compare = module.parent(call)
            if isinstance(compare, ast.Compare) and self._is_there(call):  # ``is not None``
                none = module.constant(compare.comparators[0]) is None and compare.left is call
                if none and isinstance(compare.ops[0], (ast.Is, ast.IsNot)):
                    yield compare, Answer(isinstance(compare.ops[0], ast.IsNot), "torch")
        for name, value in self._flags_of_the_project().items():
            for use in index.names(name):
                if isinstance(use.ctx, ast.Load) and self._imported(use):
                    yield use, Answer(value, "torch")

    def _answer(self, node: ast.expr) -> Answer | None:
        return answer(node, self._known, self._constant)

    def _known(self, node: ast.expr) -> Release | None:
        """The release that a name stands for here."""
        name = self._module.qualified(node)
        if name in _TORCH:
            return torch_release()
        if name == "sys.version_info":
            return python_release()
        if not isinstance(node, ast.Name) or node.id in self._asking:
            return None
        self._asking.add(node.id)  # ``a = b`` and ``b = a`` lead round
        found = [self._bound(binding) for binding in self._module.bindings(node)]
        self._asking.discard(node.id)
        return found[0] if found and all(each == found[0] for each in found) else None

    def _bound(self, binding: Binding) -> Release | None:
        if binding.kind == "import":
            return torch_release() if binding.name in _NAMED else None
        if binding.kind == "assign" and binding.value is not None:
            return release(binding.value, self._known)
        statement = binding.node  # ``major, minor = map(int, torch.__version__.split(".")[:2])``
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        first = target.elts[0] if isinstance(target, ast.Tuple) else None
        if not isinstance(statement, ast.Assign) or word(first) != binding.name:
            return None
        found = release(statement.value, self._known)
        return found._replace(oldest=found.oldest[:1]) if found and found.form == "parts" else None

    def _constant(self, node: ast.expr) -> object:
        values = self._module.values(node) if isinstance(node, ast.Name) else [node]
        return self._module.constant(values[0]) if len(values) == 1 else None

    def _read_later(self, targets: Sequence[ast.expr]) -> Iterator[ast.AST]:
        for target in targets:
            for part in target.elts if isinstance(target, ast.Tuple) else [target]:
                if isinstance(part, ast.Name):
                    yield from self._loads(part)

    def _loads(self, target: ast.Name) -> Iterator[ast.Name]:
        bound = self._module.scope(target).lookup(target.id)
        for load in self._module.index.names(target.id):
            if isinstance(load.ctx, ast.Load) and self._module.bindings(load) is bound:
                yield load

    # -- what torch has ---------------------------------------------------------------------

    def _is_there(self, call: ast.Call) -> bool:
        """``hasattr(torch.cuda.amp, "autocast")``, of what each supported release has."""
        if len(call.args) != 2:
            return False
        owner, name = self._module.qualified(call.args[0]), self._module.constant(call.args[1])
        return owner is not None and self._has(f"{owner}.{name}")

    def _has(self, name: str) -> bool:
        """Does the matrix have it, with no word of a release that lacks it?"""
        row = self._module.matrix.row(name) if name.startswith("torch.") else None
        return row is not None and not row.torch and row.kind != "package"

    def _tried(self) -> Iterator[ast.Try]:
        """``try: from torch.cuda.amp import autocast`` / ``except ImportError:``, of what each supported release has."""
        for statement in self._module.imports:
            above = self._module.parent(statement)
            if (
                isinstance(above, ast.Try)
                and above.body[0] is statement
                and all(self._succeeds(each) for each in above.body)
                and all(word(handler.type) in _CAUGHT for handler in above.handlers)
            ):
                yield above

    def _succeeds(self, statement: ast.stmt) -> bool:
        if isinstance(statement, ast.ImportFrom):
            package = statement.module or ""
            return not statement.level and all(
                self._has(f"{package}.{alias.name}") for alias in statement.names
            )
        if isinstance(statement, ast.Import):
            return all(self._has(alias.name) for alias in statement.names)
        return isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant)

    # -- flags --------------------------------------------------------------------------------

    def _flags_of_the_project(self) -> dict[str, bool]:
        said: dict[str, set[bool]] = {}
        for text in self._module.project.names(FLAGS.name):
            name, _, value = text.partition("=")
            if self._module.holds(name):
                said.setdefault(name, set()).add(value == "1")
        return {name: values.pop() for name, values in sorted(said.items()) if len(values) == 1}

    def _imported(self, use: ast.Name) -> bool:
        bindings = self._module.bindings(use)
        return bool(bindings) and all(binding.kind == "import" for binding in bindings)

    # -- where the answer leads -----------------------------------------------------------------

    def _settle(self, node: ast.AST, said: Answer) -> None:
        if node not in self._answered:
            self._answered[node] = said
            self._waiting.append((node, said))

    def _climb(self, node: ast.AST, said: Answer) -> None:
        parent = self._module.parent(node)
        match parent:
            case ast.UnaryOp(op=ast.Not()):
                self._settle(parent, said._replace(value=not said.value))
            case ast.BoolOp():
                self._joined(parent, node, said)
            case ast.Call(func=ast.Name(id="bool")):
                self._settle(parent, said)
            case ast.If() | ast.While() | ast.IfExp():
                if node is parent.test:
                    self._branch(parent, said)
            case ast.Assign():
                self._stored(parent.targets, said)
            case ast.Return():
                self._returned(parent, said)

    def _joined(self, parent: ast.BoolOp, node: ast.AST, said: Answer) -> None:
        ending = not isinstance(parent.op, ast.And)  # the value that decides the whole
        if said.value == ending:
            place = next(i for i, value in enumerate(parent.values) if value is node)
            self._leave(node, parent.values[place + 1 :], said.package)
            self._settle(parent, said)
        elif all(
            value in self._answered and self._answered[value].value != ending
            for value in parent.values
        ):
            self._settle(parent, said)

    def _branch(self, choice: ast.If | ast.While | ast.IfExp, said: Answer) -> None:
        if isinstance(choice, ast.IfExp):
            self._leave(choice.test, [choice.orelse if said.value else choice.body], said.package)
            return
        taken, other = (choice.body, choice.orelse) if said.value else (choice.orelse, choice.body)
        gone: list[ast.stmt] = list(other)
        if isinstance(choice, ast.If) and taken and ends(taken):
            block, place = self._module.place(choice)
            gone += block[place + 1 :]
        self._leave(choice.test, gone, said.package)
        for statement in other:
            if isinstance(statement, ast.Assign):
                self._flagged(statement.targets, said.package)

    def _flagged(self, targets: Sequence[ast.expr], package: str) -> None:
        """``if old: NATIVE = False`` / ``else: NATIVE = True``."""
        for target in targets:
            for load in self._loads(target) if isinstance(target, ast.Name) else ():
                values = {
                    self._module.constant(binding.value) if binding.value else None
                    for binding in self._module.bindings(load)
                    if binding.node not in self.nodes and not self.holds(binding.node)
                }
                if len(values) == 1 and isinstance(value := values.pop(), bool):
                    self._settle(load, Answer(value, package))

    def _stored(self, targets: Sequence[ast.expr], said: Answer) -> None:
        for target in targets:
            for load in self._loads(target) if isinstance(target, ast.Name) else ():
                values = [
                    self._answered.get(b.value) for b in self._module.bindings(load) if b.value
                ]
                if len(values) == len(self._module.bindings(load)) and all(
                    value is not None and value.value == said.value for value in values
                ):
                    self._settle(load, said)

    def _returned(self, statement: ast.Return, said: Answer) -> None:
        """A function that only tells which release there is."""
        function = self._module.function(statement)
        if function is None or function.body[-1] is not statement or len(function.body) > 2:
            return
        for use in self._module.index.names(function.name):
            call = self._module.parent(use)
            alone = [b.node for b in self._module.bindings(use)] == [function]
            if alone and isinstance(call, ast.Call) and call.func is use:
                self._settle(call, said)

    def _leave(self, condition: ast.AST, nodes: Iterable[ast.AST], package: str) -> None:
        found = tuple(node for node in nodes if node not in self.nodes)
        if found:
            self.nodes.update(found)
            assert isinstance(condition, (ast.expr, ast.Try))
            self.gone.append(Gone(condition, found, package))
        if isinstance(condition, ast.Try):
            for node in found:
                if isinstance(node, ast.Assign):
                    self._flagged(node.targets, package)
