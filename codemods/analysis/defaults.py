"""Defaults that are a device, of parameters, options and fields: in the agnostic style it is looked up when the default is used."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from hpushim.engine.python import imports
from hpushim.engine.python.changes import Change, Insert, Replace
from hpushim.engine.python.module import Module
from hpushim.pycode.options import Options
from hpushim.pycode.places import last_name

from ..edits import neutral
from .entry import PARSES
from .kinds import base_words
from .names import word
from .project_facts import CLASSES, COMPARED_DEVICES, KEPT_OPTIONS

_DEVICES = ("cuda", "cuda:0")
_FIELD = "dataclasses.field"
#: What the options are called where a function returns them at once.
_READ = "args"
#: What files call the options that another one reads for them.
_HOLDERS = (_READ, "opt", "opts", "options", "cfg", "config", "params", "flags")


def resolved(module: Module, node: ast.expr) -> tuple[Change, ...] | None:
    """What is written where ``"cuda"`` is a default; None where it is none, or nothing can be written."""
    if module.constant(node) not in _DEVICES:
        return None
    above = module.parent(neutral.whole(module, node) or node)
    if isinstance(above, ast.arguments):
        return _of_parameter(module, node)
    if isinstance(above, ast.keyword) and above.arg == "default":
        call = module.parent(above)
        if isinstance(call, ast.Call) and word(call.func) == "add_argument":
            return _of_option(module, node, call)
        own = isinstance(call, ast.Call) and module.qualified(call.func) == _FIELD
        return _of_field(module, node, module.parent(call)) if own and call is not None else None
    return _of_field(module, node, above)


def _of_parameter(module: Module, node: ast.expr) -> tuple[Change, ...] | None:
    """``def f(device="cuda")``: None, and the device in its place when the function is called."""
    made = neutral.whole(module, node)
    default = made or node
    first = _body(module, default)
    if first is None:
        return None
    function = module.parent(first)
    assert isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
    if _is_handed_on(module, function, _parameter(function.args, default)):
        return (Replace(default, "None"),)
    given = neutral.device(module, first) if made else neutral.kind(module, first)
    if neutral.current(module, first) == neutral.NONE:
        return None
    return given_later(module, default, given)


def _of_option(module: Module, node: ast.expr, call: ast.Call) -> tuple[Change, ...] | None:
    """``add_argument("--device", default="cuda")``: None, and the device in its place once the options are read."""
    given_types = [each.value for each in call.keywords if each.arg == "type"]
    if any(word(each) != "str" for each in given_types) or module.index.calls("add_subparsers"):
        return None  # the option makes something else of its text, or only one command has it
    name = module.view(Options).name(call)
    reads = [call for name in PARSES for call in module.index.calls(name)]
    statement = module.statement(reads[0]) if len(reads) == 1 else None
    if not name or not isinstance(statement, (ast.Assign, ast.Return)) or statement.value is not reads[0]:  # fmt: skip
        return None
    given = neutral.kind(module, statement)
    if given == neutral.NONE or why_kept(module, call):
        return None
    if isinstance(statement, ast.Return):
        taken = last_name(reads[0].func) != "parse_args" or module.scope(reads[0]).lookup(_READ)
        if taken or len([*_device_options(module)]) > 1:
            return None
        code = f"{_READ} = {module.source(reads[0])}\n{_set_later(_READ, name, given)}"
        return Replace(node, "None"), Insert(statement, code, after=False), Replace(reads[0], _READ)
    read = _kept_in(statement)
    if not isinstance(read, ast.Name):
        return None
    return Replace(node, "None"), Insert(statement, _set_later(read.id, name, given))


def why_kept(module: Module, call: ast.Call) -> str:
    """Why another file, or another machine, would not know another default of an option; "" where nothing shows that."""
    name = module.view(Options).name(call)
    if f".{name}" in module.project.names(COMPARED_DEVICES.name):
        return f"a file of the project compares `.{name}` with it"
    kept = module.project.names(KEPT_OPTIONS.name)
    statements = [module.statement(each) for name in PARSES for each in module.index.calls(name)]
    reads = [each.id for each in map(_kept_in, statements) if isinstance(each, ast.Name)]
    returned = _HOLDERS if any(isinstance(each, ast.Return) for each in statements) else ()
    if "" in kept or not kept.isdisjoint((*reads, *returned)):
        return "the project saves its options, or sends them to another process"
    return ""


def _kept_in(statement: ast.stmt | None) -> ast.expr | None:
    """What the options are kept in that a statement reads."""
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    return target.elts[0] if isinstance(target, ast.Tuple) and target.elts else target


def _set_later(options: str, name: str, given: str) -> str:
    return f"if {options}.{name} is None:\n    {options}.{name} = {given}"


def _device_options(module: Module) -> Iterator[ast.Call]:
    """The options whose default is CUDA's device."""
    for call in module.index.calls("add_argument"):
        default = next((each.value for each in call.keywords if each.arg == "default"), None)
        if module.constant(default) in _DEVICES:
            yield call


def _of_field(
    module: Module, node: ast.expr, statement: ast.AST | None
) -> tuple[Change, ...] | None:
    """``device: str = "cuda"`` of a dataclass, or ``field(default="cuda")``: made anew for each object."""
    owner = module.parent(statement) if isinstance(statement, ast.AnnAssign) else None
    if not isinstance(owner, ast.ClassDef) or not isinstance(statement, ast.AnnAssign):
        return None
    target = statement.target
    made = [each.func if isinstance(each, ast.Call) else each for each in owner.decorator_list]
    if not isinstance(target, ast.Name) or not any(word(each) == "dataclass" for each in made):
        return None
    if any(word(each.value) == owner.name for each in module.index.attributes(target.id)):
        return None  # it is read from the class, which has it only as a plain default
    whole = neutral.whole(module, node)
    given = neutral.device(module, None) if whole else neutral.kind(module, None)
    written = whole or node
    later = f"default_factory=lambda: {given}"
    keyword = module.parent(written)
    if isinstance(keyword, ast.keyword):
        return (Replace(keyword, later),)
    if written is not statement.value:
        return None
    name, needed = imports.through(module, node, _FIELD)
    return Replace(written, f"{name}({later})"), *needed


def given_later(
    module: Module, default: ast.expr, given: str, *, last: bool = False
) -> tuple[Change, ...] | None:
    """``def f(x=default)``: None, and ``given`` in its place when the function is called.

    Where the function may give it another value further down, not if it is to be the ``last`` one.
    """
    first = _body(module, default)
    if first is None or given == neutral.NONE:
        return None
    name = _parameter(module.parent(first).args, default)  # type: ignore[union-attr]
    if last and len(module.scope(first).bindings.get(name, ())) > 1:
        return None
    code = f"if {name} is None:\n    {name} = {given}"
    return Replace(default, "None"), Insert(first, code, after=False, above_comments=True)


def _body(module: Module, default: ast.AST) -> ast.stmt | None:
    """The first statement of the function that has the default; None where nothing can be written in front of it."""
    taken = module.parent(default)
    function = module.parent(taken) if isinstance(taken, ast.arguments) else None
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return None
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    if not body or body[0].lineno == function.lineno or _is_declared(module, function):
        return None
    return body[0]


def _is_declared(module: Module, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Is something else made of the function, by a decorator, or is it a body that nobody runs?"""
    plain = ("staticmethod", "classmethod", "no_grad", "inference_mode", "override")
    made = [each.func if isinstance(each, ast.Call) else each for each in function.decorator_list]
    # Those of click hand over what they declare and nothing else.
    names = [word(each) for each in made if not _is_of_click(module, each)]
    body = module.source(function.body[-1])
    return not set(names) <= set(plain) or body in ("...", "pass")


def _is_of_click(module: Module, decorator: ast.expr) -> bool:
    """``click.option``, or ``main.command`` of a group that click made."""
    of_group = isinstance(decorator, ast.Attribute) and decorator.attr == "command"
    return (module.qualified(decorator) or "").startswith("click.") or (
        of_group and module.holds("click")
    )


def _is_handed_on(module: Module, function: ast.AST, name: str) -> bool:
    """Does a method of a class of the project give the parameter to that of its base, and do nothing else with it?"""
    owner = module.parent(function)
    if not isinstance(owner, ast.ClassDef):
        return False
    known = {said.partition(":")[0] for said in module.project.names(CLASSES.name)}
    known |= {each.name for each in module.index.statements(ast.ClassDef)}
    if not base_words(module, owner.name) & known:
        return False
    uses = [use for use in module.index.names(name) if function in module.ancestors(use)]
    for use in uses:
        call = module.parent(use)
        if isinstance(call, ast.keyword):
            call = module.parent(call)
        func = call.func if isinstance(call, ast.Call) else None
        base = func.value if isinstance(func, ast.Attribute) else None
        if not isinstance(base, ast.Call) or word(base.func) != "super":
            return False
        if getattr(func, "attr", "") != getattr(function, "name", ""):
            return False
    return bool(uses)


def _parameter(taken: ast.arguments, default: ast.AST) -> str:
    by_place = [*taken.posonlyargs, *taken.args]
    pairs = [
        *zip(reversed(by_place), reversed(taken.defaults), strict=False),
        *zip(taken.kwonlyargs, taken.kw_defaults, strict=True),
    ]
    return next(each.arg for each, value in pairs if value is default)
