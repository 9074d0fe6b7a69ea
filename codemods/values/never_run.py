"""Code that never runs on Gaudi: branches for older releases of torch and of Python, and for the devices of others."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from hpushim.engine.python.module import Module
from hpushim.engine.rules.wants import ProjectFact
from hpushim.pycode.control import behind, branches, ends
from hpushim.pycode.places import TRIES
from hpushim.pycode.scope import Binding
from hpushim.pycode.tries import ANY_ERROR, NO_MODULE, kinds
from hpushim.pycode.values import At, Cell, Values
from hpushim.pycode.words import words_in

from ..analysis.names import word
from .releases import Answer, Release, answer, bare, python_release, release, torch_release

_TORCH = ("torch.__version__", "torch.version.__version__", "torch.torch_version.__version__")
#: What a name says that another file gives its value.
_NAMED = frozenset(["TORCH_VERSION", "PYTORCH_VERSION", "torch_version", "pytorch_version"])
_CAUGHT = NO_MODULE | ANY_ERROR | {"AttributeError"}
#: Types of devices that no machine with a Gaudi has, each a module of torch.
ELSEWHERE = frozenset(["mps", "xpu", "npu", "mlu", "musa"])
#: What an answer is about that such a device gives.
OTHER_DEVICE = "another device"

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
        self._words = words_in(module.data).words
        self.gone: list[Gone] = []
        #: The statements and expressions that never run.
        self.nodes: set[ast.AST] = set()
        self._values = module.view(Values)
        self._answered: dict[At, Answer] = {}
        self._waiting: list[tuple[At, Answer]] = []
        self._asking: set[str] = set()
        for statement in self._tried():
            self._leave(statement, [s for h in statement.handlers for s in h.body], "torch")
        for replaced in self._replaced():
            self._leave(replaced.value, [replaced], OTHER_DEVICE)
        for node, said in self._conditions():
            self._settle(At(node), said)
        while self._waiting:
            self._follow(*self._waiting.pop())

    def holds(self, node: ast.AST) -> bool:
        """Is a node in code that never runs?"""
        return bool(self.nodes) and (
            node in self.nodes or not self.nodes.isdisjoint(self._module.ancestors(node))
        )

    # -- what requests a release ------------------------------------------------------------

    def _conditions(self) -> Iterator[tuple[ast.AST, Answer]]:
        module, index = self._module, self._module.index
        waiting: list[ast.AST] = []
        words = self._words
        for name in ("__version__", "version_info", *sorted(_NAMED)):
            if name in words:
                waiting += [*index.attributes(name), *index.names(name)]
        if "is_torch_version" in words:
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
        for call in index.calls("hasattr") if "torch" in words else ():
            if self._is_there(call):
                yield call, Answer(True, "torch")
        for call in index.calls("getattr") if "torch" in words else ():
            compare = module.parent(call)
            if isinstance(compare, ast.Compare) and self._is_there(call):  # ``is not None``
                none = module.constant(compare.comparators[0]) is None and compare.left is call
                if none and isinstance(compare.ops[0], (ast.Is, ast.IsNot)):
                    yield compare, Answer(isinstance(compare.ops[0], ast.IsNot), "torch")
        yield from self._other_devices()
        for name, value in self._flags_of_the_project().items():
            for use in index.names(name):
                if isinstance(use.ctx, ast.Load) and self._imported(use):
                    yield use, Answer(value, "torch")

    def _replaced(self) -> Iterator[ast.Assign]:
        """``torch.cuda.manual_seed = torch.xpu.manual_seed``."""
        module = self._module
        for name in sorted(ELSEWHERE & self._words):
            for node in module.index.attributes(name):
                statement = module.statement(node)
                if (
                    isinstance(statement, ast.Assign)
                    and isinstance(statement.targets[0], ast.Attribute)
                    and (module.qualified(statement.targets[0]) or "").startswith("torch.cuda.")
                    and (module.qualified(node) or "").startswith(f"torch.{name}")
                ):
                    yield statement

    def _other_devices(self) -> Iterator[tuple[ast.AST, Answer]]:
        """``torch.backends.mps.is_available()``, ``device.type == "npu"``; the agnostic style is for these devices as well."""
        module = self._module
        if module.target.style == "agnostic":
            return
        words = sorted(ELSEWHERE & self._words)
        for call in module.index.calls("is_available") if words else ():
            name = (module.qualified(call.func) or "").split(".")
            if name[0] == "torch" and name[-2] in ELSEWHERE:
                yield call, Answer(False, OTHER_DEVICE)
        for text in (each for word_ in words for each in module.index.strings(word_)):
            compare = module.parent(text)
            if (
                isinstance(text, ast.Constant)
                and text.value in ELSEWHERE
                and isinstance(compare, ast.Compare)
            ):
                operator = compare.ops[0]
                if len(compare.ops) == 1 and isinstance(operator, (ast.Eq, ast.NotEq)):
                    yield compare, Answer(isinstance(operator, ast.NotEq), OTHER_DEVICE)

    def _answer(self, node: ast.expr) -> Answer | None:
        return answer(node, self._known, self._constant)

    def _known(self, node: ast.expr) -> Release | None:
        """The release that a name represents here."""
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
        return self._module.constant(bare(values[0])) if len(values) == 1 else None

    def _read_later(self, targets: Sequence[ast.expr]) -> Iterator[ast.AST]:
        for target in targets:
            for part in target.elts if isinstance(target, ast.Tuple) else [target]:
                cell = self._values.variable(part) if isinstance(part, ast.Name) else None
                yield from cell.loads if cell is not None else ()

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
                isinstance(above, TRIES)
                and above.body[0] is statement
                and all(self._succeeds(each) for each in above.body)
                and all(kinds(handler) <= _CAUGHT for handler in above.handlers)
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
            if name in self._words:
                said.setdefault(name, set()).add(value == "1")
        return {name: values.pop() for name, values in sorted(said.items()) if len(values) == 1}

    def _imported(self, use: ast.Name) -> bool:
        bindings = self._module.bindings(use)
        return bool(bindings) and all(binding.kind == "import" for binding in bindings)

    # -- where the answer leads -----------------------------------------------------------------

    def _settle(self, at: At, said: Answer) -> None:
        if at not in self._answered:
            self._answered[at] = said
            self._waiting.append((at, said))

    def _follow(self, at: At, said: Answer) -> None:
        for edge in self._values.uses(at):
            to = edge.node
            if edge.how == "negated":
                self._settle(edge.at, said._replace(value=not said.value))
            elif edge.how == "test" and isinstance(to, (ast.If, ast.While, ast.IfExp)):
                self._branch(to, said)
            elif edge.how == "passed" and isinstance(to, ast.Call) and word(to.func) == "bool":
                self._settle(At(to), said)
            elif edge.same and isinstance(to, ast.BoolOp):
                self._joined(to, at.node, said)
            elif edge.same:
                self._meet(edge.at, said.package)

    def _joined(self, parent: ast.BoolOp, node: ast.AST | Cell, said: Answer) -> None:
        ending = not isinstance(parent.op, ast.And)  # the value that decides the whole
        if said.value == ending:
            self._leave(node, behind(parent.values, node), said.package)  # type: ignore[arg-type]
            self._settle(At(parent), said)
        elif all(
            (known := self._answered.get(At(value))) is not None and known.value != ending
            for value in parent.values
        ):
            self._settle(At(parent), said)

    def _branch(self, choice: ast.If | ast.While | ast.IfExp, said: Answer) -> None:
        taken, other = branches(choice, true=said.value)
        gone = list(other)
        if isinstance(choice, ast.If) and taken and ends(taken):  # type: ignore[arg-type]
            gone += behind(self._module.block(choice), choice)
        self._leave(choice.test, gone, said.package)

    def _meet(self, at: At, package: str) -> None:
        """Settles a value where all that it may be has one answer, what never runs apart."""
        if isinstance(at.node, Cell) and not self._alone(at.node):
            return
        values: set[bool | None] = set()
        for edge in self._values.sources(at):
            known = self._answered.get(edge.at)
            if known is not None:
                values.add(known.value)
            elif isinstance(edge.node, Cell) or not self.holds(edge.node):
                constant = getattr(edge.node, "value", None)
                values.add(constant if isinstance(constant, bool) and not edge.at.way else None)
        if len(values) == 1 and (value := values.pop()) is not None:
            self._settle(at, Answer(value, package))

    def _alone(self, cell: Cell) -> bool:
        """Does only this file give the cell its value, and always?"""
        if cell.kind != "returned":
            return cell.kind == "variable"
        function = cell.owner
        return (
            isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
            and isinstance(function.body[-1], ast.Return)
            and not isinstance(self._module.parent(function), ast.ClassDef)
        )

    def _leave(self, condition: ast.AST, nodes: Iterable[ast.AST], package: str) -> None:
        found = tuple(node for node in nodes if node not in self.nodes)
        if found:
            self.nodes.update(found)
            assert isinstance(condition, (ast.expr, *TRIES))
            self.gone.append(Gone(condition, found, package))
        for node in found:
            for target in getattr(
                node, "targets", ()
            ):  # NATIVE, where only the other branch stores it
                cell = self._values.variable(target) if isinstance(target, ast.Name) else None
                if cell is not None:
                    self._meet(At(cell), package)
