"""The device at hand: what the code around a place calls the device that it computes on.

In the order in which they are preferred: what is compared around the place; a variable whose value is plainly the accelerator or
the CPU; what the same function, then the class, then the file moves other things to; what the class, or a base class of the project, stores.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from hpushim.engine.python.module import Module
from hpushim.matrix import signatures
from hpushim.patterns import lazily
from hpushim.pycode.places import last_name
from hpushim.pycode.scope import Binding
from hpushim.pycode.walk import walk

#: The function of a file that gives the device, and what it is called where the first name is taken; the same where the program
#: fails without an accelerator.
OR_CPU = ("default_device", "accelerator_or_cpu")
OR_FAIL = ("accelerator_device", "current_accelerator_device")
FUNCTIONS = (*OR_CPU, *OR_FAIL)
ACCELERATOR = "torch.accelerator.current_accelerator"
#: The project's facts: the classes with their bases, and those that store ``self.device``.
CLASSES = "classes and their bases"
HOLDERS = "classes that store a device"
#: Of the names that a device may get, those that a file of the project has at its top.
TAKEN = "names of devices at the top of files"
#: That a file takes the text of a device apart, or looks for a part of it.
PARSED = "files that read the text of a device"
CUDA = lazily(r"cuda(:\d+)?")
DEVICE = lazily(r"(cuda|cpu|mps|xpu|npu)(:\d+)?")
_NAMED = lazily(r"(?:^|_)(dev|device)$", re.I)
#: A device that is called so is another one than that of the computation.
_HOST = lazily(r"cpu|host|map|load|save|stor|offload|buffer|src|source|old", re.I)
_ACCELERATE = ("accelerate.Accelerator", "accelerate.accelerator.Accelerator")
DEFINED = (ast.FunctionDef, ast.AsyncFunctionDef)
_FUNCTIONS = (*DEFINED, ast.Lambda)


def at_hand(module: Module, node: ast.AST, *, types: bool = False) -> tuple[str, str] | None:
    """What holds the device at ``node``, and how: ``"device"``, ``"type"``, ``"text"``, ``"any"`` of these."""
    known = compared_around(module, node)
    if known is not None:
        return known, "device"
    for name in sorted(_names(module, types=types), key=lambda name: (name != "device", name)):
        bound = module.scope(node).lookup(name)
        if not bound or not all(b.kind == "assign" and b.value is not None for b in bound):
            continue
        kinds = {held_device(module, b.value) for b in bound if b.value is not None}
        if types and not kinds <= {"device", "type"}:
            continue
        if None in kinds or not any(
            b.value is not None and _names_accelerator(module, b.value) for b in bound
        ):
            continue
        if _is_set(module, bound, node):
            only = next(iter(kinds)) if len(kinds) == 1 else "text"
            wide = any(b in module.global_scope.bindings.get(name, ()) for b in bound)
            return (wide and _of_self(module, node, types=types)) or (name, str(only))
    return (
        _moved_to(module, node, near=True)
        or _of_self(module, node, types=types)
        or _of_accelerate(module, node)
        or _moved_to(module, node, near=False)
        or _of_base(module, node)
    )


# -- what other things are moved to -----------------------------------------------------------


def _moved_to(module: Module, node: ast.AST, *, near: bool) -> tuple[str, str] | None:
    """A device by its name that the code around moves other things to: ``x.to(args.device)``; ``near``: in the same function."""
    here = function_around(module, node)
    for use, kind in module.view(_uses):
        there = function_around(module, use)
        same = here is there or (there is not None and there in module.ancestors(node))
        if same is near and _is_seen(module, use, node, same=same):
            return module.source(use), kind
    return None


def _uses(module: Module) -> list[tuple[ast.expr, str]]:
    """The devices that something is moved to or made on, the plainest first."""
    moves = [call.args[0] for call in module.index.calls("to") if call.args]
    moves += [keyword.value for keyword in module.index.keywords("device")]
    types = [each.value for each in module.index.attributes("type") if isinstance(each.ctx, ast.Load)]  # fmt: skip
    typed = {module.source(each) for each in types}
    found: dict[str, list[ast.expr]] = {}
    for place in (*moves, *types):
        if _path(place) and _NAMED.search(last_name(place)) and not _HOST.search(last_name(place)):
            found.setdefault(module.source(place), []).append(place)
    return [
        (use, "device" if text in typed else "any")
        for text in sorted(found, key=lambda text: (text.count("."), text))
        for use in found[text]
    ]


def _path(node: ast.expr) -> list[str]:
    """``["self", "model", "device"]``; nothing for what is no path of names."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.insert(0, node.attr)
        node = node.value
    return [node.id, *names] if isinstance(node, ast.Name) else []


def _is_seen(module: Module, use: ast.expr, node: ast.AST, *, same: bool) -> bool:
    """Has what is written at ``use`` the same meaning, and its value, at ``node``?"""
    first = next(part for part in walk(use) if isinstance(part, ast.Name))
    method = _method(module, use)
    own = method is not None and first.id == _first(method)
    if isinstance(use, ast.Attribute) and not (own and use.value is first) and _is_tensor(module, use.value):  # fmt: skip
        return False
    if own and isinstance(use, ast.Attribute):
        return _is_kept(module, use, node)
    bound, there = (module.scope(at).lookup(first.id) for at in (node, first))
    if not bound or [b.node for b in bound] != [b.node for b in there]:
        return False
    if any(_is_host(module, b.value) for b in bound if b.value is not None):
        return False
    given = [b for b in bound if b.kind == "param"]
    made = [b for b in bound if b.kind == "assign"]
    if len(given) + len(made) != len(bound):
        return (
            all(b.kind == "import" for b in bound)
            and function_around(module, bound[0].node) is None
        )
    if isinstance(use, ast.Attribute) and len(bound) > 1:
        return False
    if given:
        if isinstance(node, ast.stmt) or (not made and any(map(_may_be_none, given))):
            return False  # there it gets its value; it may have none
        return len(given) == 1 and all(_before(module.statement(b.node), node) for b in made)
    wide = any(b in module.global_scope.bindings.get(first.id, ()) for b in bound)
    if wide and same and function_around(module, node) is not None:
        return True
    return _is_set(module, bound, node)


def _is_kept(module: Module, use: ast.expr, node: ast.AST) -> bool:
    """Does the object have ``self.device`` at ``node``: since it was made, or by a property once it is?"""
    method, owner = _method(module, node), _owner(module, node)
    path = _path(use)
    if method is None or owner is None or not path or path[0] != _first(method) or owner is not _owner(module, use):  # fmt: skip
        return False
    stored = _stored(module, path[1], owner)
    makers = [each for each in stored if getattr(module.function(each), "name", "") == "__init__"]
    if any(_is_host(module, getattr(module.parent(each), "value", None)) for each in stored):
        return False
    if getattr(method, "name", "") != "__init__":
        return bool(makers) or not stored
    if len(path) > 2 or not stored:
        return False
    around = [*module.ancestors(node)]
    return any(module.parent(s) in around and _before(s, node) for s in map(module.statement, makers))  # fmt: skip


def _stored(module: Module, name: str, owner: ast.ClassDef) -> list[ast.Attribute]:
    """Where a class gives an attribute its value."""
    places = module.index.attributes(name)
    return [each for each in places if isinstance(each.ctx, ast.Store) and owner in module.ancestors(each)]  # fmt: skip


def _may_be_none(given: Binding) -> bool:
    return isinstance(given.value, ast.Constant) and given.value.value is None


def unwrapped(module: Module, node: ast.expr) -> ast.expr:
    """``"cuda"`` of ``torch.device("cuda")``, else the expression itself."""
    alone = isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords
    return node.args[0] if alone and isinstance(node, ast.Call) and module.qualified(node.func) == "torch.device" else node  # fmt: skip


def _is_host(module: Module, value: ast.AST | None) -> bool:
    """``"cpu"``, ``torch.device("cpu")``, alone."""
    return isinstance(value, ast.expr) and module.constant(unwrapped(module, value)) == "cpu"


def _is_tensor(module: Module, owner: ast.expr) -> bool:
    """Is what has the device used as tensors are? It may lie on the CPU, with what is looked up in it."""
    text = module.source(owner)
    name = owner.id if isinstance(owner, ast.Name) else last_name(owner)
    uses = module.index.names(name) if isinstance(owner, ast.Name) else module.index.attributes(name)  # fmt: skip
    for each in uses:
        above = module.parent(each)
        if module.source(each) != text:
            continue
        if isinstance(above, (ast.BinOp, ast.UnaryOp)) or (isinstance(above, ast.Subscript) and above.value is each):  # fmt: skip
            return True
        if isinstance(above, ast.Attribute) and above.value is each:
            only = signatures.of(f"torch.Tensor.{above.attr}")
            if above.attr in ("shape", "dtype") or (above.attr != "device" and only and not signatures.of(f"torch.nn.Module.{above.attr}")):  # fmt: skip
                return True
    return False


def _of_accelerate(module: Module, node: ast.AST) -> tuple[str, str] | None:
    """``accelerator.device`` of Accelerate's ``Accelerator``."""
    for call in module.index.calls("Accelerator"):
        made = module.parent(call)
        target = made.targets[0] if isinstance(made, ast.Assign) else None
        if module.qualified(call.func) not in _ACCELERATE or not isinstance(target, ast.Name):
            continue
        bound = module.scope(node).lookup(target.id)
        if len(bound) != 1 or module.statement(bound[0].node) is not made:
            continue
        here = function_around(module, node)
        used = here is not None and any(
            here in module.ancestors(use) for use in module.index.names(target.id) if use is not target
        )  # fmt: skip
        wide = bound[0] in module.global_scope.bindings.get(target.id, ())
        if (wide and used) or _is_set(module, bound, node):
            return f"{target.id}.device", "device"
    return None


# -- the device of an object ------------------------------------------------------------------


def _method(module: Module, node: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The method of a class in whose body ``node`` is, maybe in a function in it."""
    for child, above in module.upwards(node):
        inside = isinstance(above, DEFINED) and child in above.body
        if inside and isinstance(module.parent(above), ast.ClassDef):
            assert isinstance(above, DEFINED)
            return above
    return None


def _owner(module: Module, node: ast.AST) -> ast.ClassDef | None:
    method = _method(module, node)
    owner = module.parent(method) if method is not None else None
    return owner if isinstance(owner, ast.ClassDef) else None


def _first(method: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """What the method calls its object; "" where it has none."""
    static = any(
        last_name(each) in ("staticmethod", "classmethod") for each in method.decorator_list
    )
    return next((arg.arg for arg in method.args.args if not static), "")


def is_own(module: Module, name: ast.Name) -> bool:
    """Is it what a method calls its object, whose methods may be named as those of a tensor are: ``self.stft(x)``?"""
    method = _method(module, name)
    return method is not None and name.id == _first(method)


def _of_base(module: Module, node: ast.AST) -> tuple[str, str] | None:
    """``self.device``, which a base class of the project stores when the object is made."""
    method, owner = _method(module, node), _owner(module, node)
    said = module.project.names(HOLDERS)
    if method is None or owner is None or not said or not _first(method):
        return None
    if _stored(module, "device", owner):
        return None
    pairs = [each.partition(":") for each in module.project.names(CLASSES)]
    ambient = f"{module.names.main}."
    todo = [last_name(base) for base in owner.bases if not (module.qualified(base) or "").startswith(ambient)]  # fmt: skip
    seen = set[str]()
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += [base for of, _, base in pairs if of == name]
    if said.isdisjoint(seen):
        return None
    if method.name == "__init__":
        made = [s for s in method.body if "super(" in module.source(s) and "__init__(" in module.source(s)]  # fmt: skip
        if not any(isinstance(s, ast.Expr) and _before(s, node) for s in made):
            return None
    return f"{_first(method)}.device", "any"


def compared_around(module: Module, node: ast.AST) -> str | None:
    """``device``, in what runs only where ``device.type`` is an accelerator's; ``x.device``, where ``x`` is on one."""
    for child, above in module.upwards(node):
        if isinstance(above, (ast.If, ast.IfExp)) and child is not above.test:
            body = above.body if isinstance(above.body, list) else [above.body]
            for part in required(above.test) if child in body else ():
                tensor, device = _tested(module, part)
                if isinstance(tensor, ast.Name) and not _is_stored(module, tensor, above, node):
                    return f"{tensor.id}.device"
                owner = getattr(device, "value", None)
                named = isinstance(device, ast.Name) or getattr(owner, "id", "") == "self"
                if device is not None and named and _NAMED.search(last_name(device)):
                    return module.source(device)
        if isinstance(above, _FUNCTIONS):
            return None
    return None


def required(test: ast.expr) -> Iterator[ast.expr]:
    """The parts of a condition that are all true where it is."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        for value in test.values:
            yield from required(value)
    else:
        yield test


def _tested(module: Module, part: ast.expr) -> tuple[ast.expr | None, ast.expr | None]:
    """What a condition finds on an accelerator: the tensor of ``x.is_cuda`` and ``x.device.type != "cpu"``, or a device."""
    if isinstance(part, ast.Attribute) and part.attr == "is_cuda":
        return part.value, None
    if not isinstance(part, ast.Compare) or len(part.ops) != 1:
        return None, None
    side, text = part.left, module.constant(part.comparators[0])
    same = isinstance(part.ops[0], ast.Eq) and text == "cuda"
    other = isinstance(part.ops[0], ast.NotEq) and text == "cpu"
    if not (same or other) or not isinstance(side, ast.Attribute) or side.attr != "type":
        return None, None
    device = side.value
    tensor = device.value if isinstance(device, ast.Attribute) and device.attr == "device" else None
    return (None, device) if getattr(tensor, "id", "self") == "self" else (tensor, None)


def _is_stored(module: Module, tensor: ast.Name, branch: ast.AST, node: ast.AST) -> bool:
    """Has a name another value at ``node`` than where the condition of a branch was read?"""
    own = module.statement(node)
    return any(
        isinstance(use.ctx, ast.Store)
        and use.lineno <= getattr(node, "lineno", 0)
        and branch in module.ancestors(use)
        and module.statement(use) is not own
        for use in module.index.names(tensor.id)
    )


def _of_self(module: Module, node: ast.AST, *, types: bool) -> tuple[str, str] | None:
    """``self.device``, where the class gives it such a value in ``__init__`` and nowhere another one."""
    method = function_around(module, node)
    owner = module.parent(method) if method is not None else None
    if not isinstance(owner, ast.ClassDef) or not isinstance(method, ast.FunctionDef):
        return None
    first = next((arg.arg for arg in method.args.args), "")
    stored = _stored(module, "device", owner)
    values: list[ast.expr] = []
    for each in stored:
        given = module.parent(each)
        if not isinstance(given, (ast.Assign, ast.AnnAssign)) or given.value is None:
            return None
        if not isinstance(each.value, ast.Name) or each.value.id != first:
            return None
        values.append(given.value)
    kinds = {held_device(module, value) for value in values}
    made = [function for each in stored if (function := module.function(each)) is not None]
    if len(kinds) != 1 or None in kinds or any(f.name != "__init__" for f in made):
        return None
    if not any(_names_accelerator(module, value) for value in values):
        return None
    if any(f is method and not _before(module.statement(e), node) for f, e in zip(made, stored, strict=False)):  # fmt: skip
        return None
    only = str(next(iter(kinds)))
    return (f"{first}.device", only) if not types or only != "text" else None


def _names(module: Module, *, types: bool) -> set[str]:
    """The names that the file gives to devices."""
    return {
        name
        for scope in module.index.scopes.values()
        for name in scope.bindings
        if _NAMED.search(name) or (types and name == "device_type")
    }


def held_device(module: Module, value: ast.expr) -> str | None:
    """``"device"`` or ``"text"`` for an expression that is plainly one; ``"type"`` where the text has no index."""
    if isinstance(value, ast.IfExp):
        sides = {held_device(module, value.body), held_device(module, value.orelse)}
        return sides.pop() if len(sides) == 1 else None if None in sides else "text"
    if isinstance(value, ast.Constant):
        text = str(value.value)
        return None if not DEVICE.fullmatch(text) else "text" if ":" in text else "type"
    if isinstance(value, ast.JoinedStr):
        first = value.values[0] if value.values else None
        return "text" if isinstance(first, ast.Constant) and str(first.value) == "cuda:" else None
    if isinstance(value, ast.Attribute) and value.attr == "type":
        return "type" if held_device(module, value.value) == "device" else None
    if isinstance(value, ast.Call):
        name = module.qualified(value.func)
        if name == ACCELERATOR or last_name(value.func) in FUNCTIONS:
            return "device"
        if name == "torch.device" and value.args:
            named = isinstance(value.args[0], (ast.Name, ast.Attribute)) and _NAMED.search(
                last_name(value.args[0])
            )
            return "device" if named or held_device(module, value.args[0]) else None
    return None


def _names_accelerator(module: Module, value: ast.expr) -> bool:
    return any(
        (isinstance(part, ast.Constant) and CUDA.match(str(part.value)))
        or (
            isinstance(part, (ast.Name, ast.Attribute))
            and _NAMED.search(last_name(part))
            and module.qualified(part) != "torch.device"
        )
        or (isinstance(part, ast.Name) and part.id in FUNCTIONS)
        or (isinstance(part, ast.Attribute) and module.qualified(part) == ACCELERATOR)
        for part in walk(value)
    )


def _is_set(module: Module, bound: list[Binding], node: ast.AST) -> bool:
    """Has the variable its value wherever ``node`` runs: given above it in its own block or one around, or at the top level?"""
    function = function_around(module, node)
    blocks = {id(above): above for above in module.ancestors(node)}
    for each in bound:
        statement = module.statement(each.node)
        inside = next((a for a in module.ancestors(statement) if isinstance(a, _FUNCTIONS)), None)
        block = _whole(module, statement, bound)
        if inside is None and function is not None:
            if isinstance(module.parent(block), ast.Module):
                return True
        elif id(module.parent(block)) in blocks and _before(block, node):
            side = _side(module.parent(block), block)
            if side is None or any(above in side for above in (node, *module.ancestors(node))):
                return True
    return False


def function_around(module: Module, node: ast.AST) -> ast.AST | None:
    """The function in whose body ``node`` is; defaults are worked out where the function is defined."""
    for child, above in module.upwards(node):
        if isinstance(above, ast.Lambda) and child is above.body:
            return above
        if isinstance(above, DEFINED) and child in above.body:
            return above
    return None


def _whole(module: Module, statement: ast.stmt, bound: list[Binding]) -> ast.stmt:
    """The ``if`` whose every branch gives the variable a value, in place of one of these."""
    above = module.parent(statement)
    if not isinstance(above, ast.If) or not above.orelse:
        return statement
    given = {id(module.statement(b.node)) for b in bound}
    for branch in _branches(above):
        if not any(id(one) in given for one in branch):
            return statement
    top: ast.stmt = above
    while isinstance(outer := module.parent(top), ast.If) and outer.orelse == [top]:
        if not any(id(one) in given for one in outer.body):
            return statement
        top = outer
    return top


def _branches(first: ast.If) -> Iterator[list[ast.stmt]]:
    yield first.body
    if len(first.orelse) == 1 and isinstance(first.orelse[0], ast.If):
        yield from _branches(first.orelse[0])
    else:
        yield first.orelse


def _side(parent: ast.AST | None, statement: ast.stmt) -> list[ast.stmt] | None:
    """The branch of an ``if``, a loop or a ``try`` that a statement is in; None where its block has one branch only."""
    for field in ("body", "orelse", "finalbody", "handlers"):
        block = getattr(parent, field, None)
        if isinstance(block, list) and statement in block:
            return block
    return None


def _before(statement: ast.stmt, node: ast.AST) -> bool:
    end = (statement.end_lineno or statement.lineno, statement.end_col_offset or 0)
    return end <= (getattr(node, "lineno", 0), getattr(node, "col_offset", 0))
