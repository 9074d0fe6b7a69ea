"""What torch.load gives back is an object of Python: with the default of today's releases of torch the load fails."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from hpushim.engine.python.changes import Rewrite
from hpushim.engine.rules.rule import Code, Module, Rule, Wants, Yield
from hpushim.pycode.values import SAME, At, Cell, Edge, Values
from hpushim.pycode.walk import walk

from ..analysis.kinds import said
from ..analysis.load_places import makes_tensor
from ..analysis.names import called, word
from ..analysis.project_facts import CLASSES, OBJECTS_SAVED
from ..edits.arguments import add
from ..values.tensors import gives_tensor, is_of_values

_LOAD = "torch.load"
#: What takes nothing but an array of numpy.
_OF_ARRAY = "torch.from_numpy"
_GIVEN = ("weights_only", None)
#: What lets torch load such objects.
_ALLOWED = frozenset(["safe_globals", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"])
#: So many parts of one object are followed to a place; no program was seen with more.
_WAYS = 64
_TYPE_TESTS = ("isinstance", "hasattr", "issubclass")


class LoadedObject(Rule):
    """``model = torch.load(path)`` and ``model(x)``."""

    HPU615 = Code("object-from-checkpoint", severity="error", fix="unsafe")
    wants = Wants(project=tuple(sorted(_ALLOWED)), facts=(CLASSES, OBJECTS_SAVED))
    also = Wants(names=(_LOAD,))

    def on_name(self, module: Module, node: ast.expr, name: str) -> Yield:
        call = called(module, node)
        if call is None or module.qualified(node) != _LOAD or not _ALLOWED.isdisjoint(module.project.mentions or ()):  # fmt: skip
            return
        if not call.args or any(keyword.arg in _GIVEN for keyword in call.keywords):
            return
        reached, remade = _reached(module, call)
        use = _used_as_object(module, reached, remade) or makes_tensor(module, call)
        saved = _saved_beside(module, reached) if use is None else ""
        if use is not None or saved:
            shown = f"`{module.source(use).splitlines()[0]}` (line {use.lineno}) uses an object of another class" if use else f"this project's checkpoints hold an object of another class under `{saved}`"  # fmt: skip
            yield self.finding(
                call,
                f"from torch 2.6 on, `{module.source(node)}` reads only tensors and Python's own types, but "
                f"{shown}, so the load fails. Pass `weights_only=False` if you trust the file",
                fix=Rewrite("load objects too", "unsafe", (add(call, "weights_only=False"),)),
                row="torch.load(weights_only=)",
            )


def _saved_beside(module: Module, reached: list[Edge]) -> str:
    """The key of an object in a table that the project saves, of which two or more keys are read here: what it loads is such a table."""
    read = {module.constant(e.node.slice) for e in reached if isinstance(e.node, ast.Subscript)}
    beside: dict[str, set[str]] = {}
    for each in said(module, OBJECTS_SAVED):
        key, _, other = each.partition(":")
        if not key and read <= {*other.split(",")}:
            return ""  # or a table that holds none
        beside.setdefault(key, set()).add(other)
    return min(
        (key for key, others in beside.items() if key and len(others & read) > 1), default=""
    )


def _used_as_object(module: Module, reached: list[Edge], remade: set[ast.AST | Cell]) -> ast.expr | None:  # fmt: skip
    """The first place that calls what is loaded, or reads what neither tensors nor Python's own types have, under no question about its type."""
    uses: list[ast.expr] = [e.node for e in reached if e.how == "called" and isinstance(e.node, ast.Call)]  # fmt: skip
    read = [e.node for e in reached if e.how == "read" and isinstance(e.node, ast.Attribute) and isinstance(e.node.ctx, ast.Load)]  # fmt: skip
    uses += [node for node in read if not is_of_values(node.attr)]
    uses = [use for use in uses if use not in remade and _is_plain(use) and not _is_tested(module, use)]  # fmt: skip
    given = [e.node for e in reached if e.how == "passed" and isinstance(e.node, ast.Call)]
    classes = {each.partition(":")[0] for each in said(module, CLASSES)}
    # Who reads a state besides takes a file of tensors as well: ``if isinstance(ck, Net): …``, ``net.load_state_dict(ck)``.
    if any(word(call.func) == "load_state_dict" for call in given) or any(isinstance(e.node, ast.Subscript) for e in reached):  # fmt: skip
        classes = set()
    uses += [call for call in given if module.qualified(call.func) == _OF_ARRAY or (word(call.func) == "isinstance" and word(call.args[-1]) in classes)]  # fmt: skip
    return min(uses, key=lambda use: module.span(use).start, default=None)


def _reached(module: Module, load: ast.Call) -> tuple[list[Edge], set[ast.AST | Cell]]:
    """Where the object gets to, through ``.cuda()`` and others that give a tensor of a tensor; and the places that may hold one made of it instead.

    ``args = Namespace(**args)`` says nothing of what was loaded; ``DataParallel(model)`` takes nothing but a module.
    """
    values = module.view(Values)

    def uses(place: At) -> Iterator[Edge]:
        for edge in values.uses(place):
            yield edge
            made = _tensors(module, edge)
            if made is not None:
                yield Edge(At(made), "taken")

    reached = [*values.reach(load, uses, SAME | {"taken"}, ways=_WAYS)]
    given = [edge.node for edge in reached if edge.how in ("passed", "unpacked") and isinstance(edge.node, ast.AST)]  # fmt: skip
    calls = dict.fromkeys(each for node in given for each in (node, module.parent(node)) if isinstance(each, ast.Call))  # fmt: skip
    others = [
        call for call in calls if not (module.qualified(call.func) or "").startswith("torch.")
    ]
    seen: set[At] = set()
    return reached, {edge.node for call in others for edge in values.reach(call, values.uses, seen=seen, ways=_WAYS)}  # fmt: skip


def _tensors(module: Module, edge: Edge) -> ast.Call | None:
    """The tensors that a step of the way makes of those that it reads: ``.cuda()``."""
    node = edge.node
    if edge.how != "read" or not isinstance(node, ast.Attribute) or not gives_tensor(node.attr):
        return None
    above = module.parent(node)
    return above if isinstance(above, ast.Call) and above.func is node else None


def _is_plain(use: ast.expr) -> bool:
    """Is it a variable's, or an attribute's of the object itself? Other objects may have another attribute of that name."""
    value: ast.expr = use.func if isinstance(use, ast.Call) else use.value  # type: ignore[attr-defined]
    while isinstance(value, ast.Subscript):
        value = value.value
    return not isinstance(value, ast.Attribute) or (isinstance(value.value, ast.Name) and value.value.id == "self")  # fmt: skip


def _is_tested(module: Module, use: ast.expr) -> bool:
    tests = [above.test for above in module.ancestors(use) if isinstance(above, (ast.If, ast.IfExp))]  # fmt: skip
    return any(
        isinstance(part, ast.Call)
        and isinstance(part.func, ast.Name)
        and part.func.id in _TYPE_TESTS
        for test in tests
        for part in walk(test)
    )
