"""The agnostic style: what a maintainer writes for every accelerator that torch knows, with no vendor's name.

A choice keeps its form (``"cuda" if torch.cuda.is_available() else "cpu"``); elsewhere the device that the code has at hand is
reused, or the file gets one function, which the rule ``dual_constant`` defines: devices are not looked up while a file is imported, a
default is evaluated or a parser is built. What torch has no neutral word for is spelled :data:`NONE`: the fix that would
write it is not offered, and the place is reported.
"""

from __future__ import annotations

import ast
import re

from hpushim.engine.python import imports
from hpushim.engine.python.module import Module
from hpushim.matrix import signatures
from hpushim.model import Span
from hpushim.patterns import lazily
from hpushim.pycode.control import ends
from hpushim.pycode.places import last_name
from hpushim.pycode.scope import Binding
from hpushim.pycode.values import Values
from hpushim.pycode.walk import walk

from .at_hand import (
    ACCELERATOR,
    CUDA,
    DEVICE,
    FUNCTIONS,
    OR_CPU,
    OR_FAIL,
    PARSED,
    TAKEN,
    at_hand,
    compared_around,
    function_around,
    required,
    unwrapped,
)
from .floor import held
from .without_cuda import CUDA_OR_NOT, needs_accelerator

#: In place of a neutral word that torch does not have; no fix may write it in this style.
NONE = "hpu"
_REFUSED = "no accelerator is available"
#: torch's names for every accelerator, in place of those in ``torch.hpu``; all are there since torch 2.6.
NAMES = {
    f"torch.hpu.{name}": f"torch.{neutral}"
    for name, neutral in {
        "is_available": "accelerator.is_available",
        "device_count": "accelerator.device_count",
        "current_device": "accelerator.current_device_index",
        "set_device": "accelerator.set_device_index",
        "synchronize": "accelerator.synchronize",
        "current_stream": "accelerator.current_stream",
        "set_stream": "accelerator.set_stream",
        "Stream": "Stream",
        "Event": "Event",
    }.items()
}
_CHOICE = lazily(
    rb"\.current_accelerator\(\)(?:\.type)?\s+if\s[\w.]*accelerator\.is_available\(\)\s+else\b"
)
_NUMBERED = lazily(r"cuda:")
#: Devices of other vendors, and where a file names them.
OTHERS = ("mps", "xpu", "npu", "xla", "tpu", "mlu", "musa", "hip")
OTHER_TEXTS = lazily(rf"""["']({"|".join(OTHERS)})(?::\d+)?["']""")
_DOUBLE = ("torch.float64", "torch.double", "torch.DoubleTensor")
#: A condition that is true only where there is an accelerator.
_CHECKS = lazily(r"cuda|gpu|accel", re.I)
#: A line as long as the longest of its file may be, between these two.
_LINES = (88, 120)
#: Calls that keep their arguments for later, so that none of them is a device in use.
_OPTIONS = ("add_argument", "option", "Option", "Field", "field", "get", "getattr", "setdefault", "pop")  # fmt: skip
#: Methods of tensors and modules that take a device in any form.
_METHODS = ("to", "new_zeros", "new_ones", "new_empty", "new_full", "new_tensor", "to_empty")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
#: What is true where there is an accelerator: as it was written, and as it is written now.
_THERE = ("torch.cuda.is_available", "torch.accelerator.is_available")
#: What fails where there is none.
_SETS = ("torch.cuda.set_device", "torch.accelerator.set_device_index")


# -- a device -------------------------------------------------------------------------------


def current(module: Module, node: ast.AST) -> str:
    """``torch.accelerator.current_accelerator()``, where the file has torch under a name."""
    name, needed = imports.through(module, node, ACCELERATOR)
    if not all(each.there for each in needed) or comes_before_torch(module, node):
        return NONE
    if stays(module):
        return NONE
    if not module.view(held):
        return f"{name}()"
    return f"{_named(module, OR_CPU if _is_there(module, node) else OR_FAIL)}()"


def at_least(module: Module, node: ast.AST) -> str:
    """The same where there surely is one when ``node`` runs, or the program stopped without CUDA as well."""
    if is_early(module, node) or _is_given_again(module, node):
        return NONE
    return _surely(module, node)


def _surely(module: Module, node: ast.AST, test: ast.expr | None = None) -> str:
    """The accelerator at ``node``, or behind ``test``; where nothing shows that there is one, the function that raises an error if there is none."""
    now = current(module, node)
    if now == NONE or module.view(held) or _is_there(module, node) or (test is not None and _is_true_there(module, test)):  # fmt: skip
        return now
    return f"{_named(module, OR_FAIL)}()"


def _is_given_again(module: Module, node: ast.AST) -> bool:
    """Does the variable get another value further down, such as the CPU where there is no CUDA?"""
    if is_chosen(module, node):
        return False
    statement = module.statement(node)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    sides = [above for above in module.ancestors(statement) if isinstance(above, ast.If)]
    return any(
        module.statement(bound.node).lineno > statement.lineno
        and not (bound.value is not None and _is_surely_cuda(bound.value))
        and not any(side in module.ancestors(bound.node) for side in sides)
        for target in targets
        if isinstance(target, ast.Name)
        for bound in module.scope(target).bindings.get(target.id, ())
    )


def _is_surely_cuda(value: ast.expr) -> bool:
    """``"cuda:0"``, ``f"cuda:{rank}"``: a text that names CUDA, and no choice."""
    texts = [part.value for part in walk(value) if isinstance(part, ast.Constant)]
    plain = isinstance(value, (ast.Constant, ast.JoinedStr, ast.BinOp, ast.Call))
    return plain and any(CUDA.match(str(text)) for text in texts) and "cpu" not in texts


def is_replaced(module: Module, check: ast.AST) -> bool:
    """Does a branch behind the check give another device to a variable that holds a numbered one of CUDA's, which stays?"""
    guard = next((above for above in module.ancestors(check) if isinstance(above, ast.If)), None)
    stored = [s for s in (*guard.body, *guard.orelse) if isinstance(s, ast.Assign)] if guard else []
    return any(
        _NUMBERED.match(str(module.constant(part))) and at_least(module, bound.value) == NONE
        for statement in stored
        for target in statement.targets
        if isinstance(target, ast.Name)
        for bound in module.scope(target).bindings.get(target.id, ())
        if bound.value is not None
        for part in walk(bound.value)
        if isinstance(part, ast.Constant)
    )


def comes_before_torch(module: Module, node: ast.AST) -> bool:
    """Is the node run where the file is loaded, above the import of torch?"""
    if function_around(module, node) is not None:
        return False
    first = min((s.lineno for s in module.imports if _is_of_torch(s)), default=0)
    return getattr(node, "lineno", first) < first


def or_cpu(module: Module, node: ast.AST, mark: str, *, text: bool) -> str:
    """The accelerator where there is one, else the CPU: its type, or the device."""
    now = current(module, node)
    if now == NONE or is_early(module, node) or is_lacking(module, node):
        return NONE
    if is_needed(module) or module.view(held):
        return f"{_default(module, node)}{'.type' * text}"
    return choice(module, node, now, mark, text=text)


def choice(
    module: Module, node: ast.AST, now: str, mark: str, *, text: bool, test: str = ""
) -> str:
    """The same as a conditional expression in place of ``node``, over several lines where one would be too long."""
    if not test and has_function(module):
        return f"{_named(module, OR_CPU)}(){'.type' * text}"
    torch = imports.local_name(module, "torch")
    parts = _parts(torch, now, mark, text=text, test=test)
    plain = " ".join(parts)
    above = module.parent(node)
    whole = isinstance(above, (ast.Assign, ast.AnnAssign, ast.Return)) and above.value is node
    if not whole or _fits(module, node, plain):
        return plain
    assert above is not None
    return _in_lines(module.deeper(above), parts)


def names_device(text: str) -> bool:
    """Does a text call one of the functions that give the device?"""
    return any(f"{name}()" in text for name in FUNCTIONS)


def shared(data: bytes) -> set[str]:
    """The functions that give the device where a file has them, or does in place what they do."""
    done = {OR_CPU[0]: _CHOICE.search(data), OR_FAIL[0]: _REFUSED.encode() in data}
    return {name for name, there in done.items() if there or f"def {name}(".encode() in data}


def has_function(module: Module) -> bool:
    """Does a function choose the device in this project, so that no expression does beside it?"""
    return module.view(held) is not None or _is_given_by_another(module)


def chosen_by_function(module: Module, node: ast.AST) -> str:
    """The call of that function; nothing where it would come too early, or the check stays."""
    return NONE if comes_before_torch(module, node) or stays(module) else f"{_named(module, OR_CPU)}()"  # fmt: skip


def named(module: Module, node: ast.expr) -> tuple[str, str]:
    """The device that a text, or a ``torch.device`` made of one, names, and which of both it is."""
    inner = unwrapped(module, node)
    return str(module.constant(inner)), "text" if inner is node else "device"


def _is_given_by_another(module: Module) -> bool:
    """Does the file import the function that gives the device, or define it for others?"""
    return module.project.home(module.path, OR_CPU[0]) is not None


def _parts(torch: str, now: str, mark: str, *, text: bool, test: str = "") -> tuple[str, str, str]:
    test = test or f"{torch}.accelerator.is_available()"
    cpu = f"{mark}cpu{mark}" if text else f"{torch}.device({mark}cpu{mark})"
    return (f"{now}.type" if text else now, f"if {test}", f"else {cpu}")


def _in_lines(deeper: str, parts: tuple[str, ...]) -> str:
    return "(" + "".join(f"\n{deeper}{part}" for part in parts) + "\n)"


def is_needed(module: Module) -> bool:
    """Does the program fail without CUDA because of what this file does, so that the CPU must not take its place unnoticed?

    As far as the files of the project show.
    """
    known = any(map(module.holds, OR_FAIL)) or bool(module.index.strings(_REFUSED))
    return (known and not any(map(module.holds, OR_CPU))) or needs_accelerator(
        module.data, module.project.names(CUDA_OR_NOT)
    )


def refusal(torch: str, mark: str) -> str:
    """The statement that ends such a program where there is no accelerator."""
    return (
        f"if not {torch}.accelerator.is_available():\n"
        f"    raise RuntimeError({mark}{_REFUSED}{mark})"
    )


def assigned(
    module: Module, first: ast.stmt, name: str, torch: str, mark: str, *, needed: bool
) -> str:
    """The statements in front of ``first`` that give ``name`` the device."""
    if needed:
        now = f"{torch}.accelerator.current_accelerator()"
        return f"{refusal(torch, mark)}\n{name} = {now}"
    parts = _parts(torch, f"{torch}.accelerator.current_accelerator()", mark, text=False)
    plain = f"{name} = {' '.join(parts)}"
    if len(module.indent(first)) + len(plain) <= _width(module):
        return plain
    return f"{name} = {_in_lines('    ', parts)}"


def _fits(module: Module, node: ast.AST, text: str) -> bool:
    """Is the line of a node short enough with another text in its place?"""
    span = module.span(node)
    first = module.line_span(node.lineno).start  # type: ignore[attr-defined]
    last = module.line_span(node.end_lineno)  # type: ignore[attr-defined]
    before = module.source(Span(first, span.start))
    behind = module.source(Span(span.end, last.end)).rstrip("\r\n")
    return len(before) + len(text) + len(behind) <= _width(module)


def _width(module: Module) -> int:
    least, most = _LINES
    return max(least, min(most, module.view(_longest_line)))


def _longest_line(module: Module) -> int:
    return max(map(len, module.text.splitlines()), default=0)


def device(module: Module, node: ast.AST | None) -> str:
    """A device for ``node``, whatever takes it: the one at hand, or the one that the file's function gives."""
    found = at_hand(module, node) if node is not None else None
    return found[0] if found else _default(module, node)


def kind(module: Module, node: ast.AST | None) -> str:
    """The type of that device, as a text."""
    found = at_hand(module, node, types=True) if node is not None else None
    if found and found[1] != "text":
        if found[1] == "any":
            return _type_made(module, node, found[0])  # type: ignore[arg-type]
        return found[0] if found[1] == "type" else f"{found[0]}.type"
    given = _default(module, node)
    return given if given == NONE else f"{given}.type"


def _type_made(module: Module, node: ast.AST, given: str) -> str:
    """The type of what may be a ``torch.device``, a text or a number."""
    name, needed = imports.through(module, node, "torch.device")
    return f"{name}({given}).type" if all(each.there for each in needed) else NONE


def literal(module: Module, node: ast.expr, mark: str) -> str:
    """What is written in place of the text ``"cuda"``; nothing in a file without torch, such as one of settings."""
    if not any(_is_of_torch(statement) for statement in module.imports):
        return NONE
    made = module.parent(node)
    outer: ast.AST = node
    if isinstance(made, ast.keyword):
        if made.arg == "choices":
            return NONE
        made = module.parent(made)
    if isinstance(made, ast.Call) and module.view(Values).enumeration(made) is not None:
        return NONE  # a member by its value, which stays
    if isinstance(made, ast.Call) and module.qualified(made.func) == "torch.device":
        outer = made
    if outer is node and (known := compared_around(module, node)) and _is_given(module, node):
        return known
    if is_chosen(module, outer):
        now = _surely(module, node)
        choice = module.parent(outer)
        beside = choice.body if isinstance(choice, ast.IfExp) and outer is choice.orelse else None
        if now == NONE or module.constant(beside) in OTHERS or is_lacking(module, node):
            return NONE  # behind the choice of another device there may be none at all
        numbered = outer is node and keeps_number(module, node)
        return f"f{mark}{{{now}.type}}:0{mark}" if numbered else f"{now}.type"
    above = module.parent(outer)
    if isinstance(above, (ast.List, ast.Tuple, ast.Set)) and not isinstance(
        module.parent(above), ast.Assign
    ):
        return NONE  # one of several that are listed
    if outer is node:
        call = module.parent(above) if isinstance(above, ast.keyword) else above
        if isinstance(call, ast.Call) and node is not call.func and not stays_in(call):
            return device(module, node) if _is_given(module, node) else kind(module, node)
    return or_cpu(module, node, mark, text=True)


def keeps_number(module: Module, node: ast.expr) -> bool:
    """Does the project read the number in ``"cuda:0"``, so that the text keeps it?"""
    return module.constant(node) == "cuda:0" and bool(module.project.names(PARSED))


def _is_given(module: Module, node: ast.expr) -> bool:
    """Is the text given to what takes a ``torch.device`` as well?"""
    above = module.parent(node)
    call = module.parent(above) if isinstance(above, ast.keyword) else above
    typed = isinstance(above, ast.keyword) and above.arg == "device_type"
    return isinstance(call, ast.Call) and node is not call.func and _takes_device(module, call) and not typed  # fmt: skip


def made(module: Module, node: ast.AST, mark: str) -> str | None:
    """What is written for the whole of ``torch.device("cuda")``; None for a call that says more."""
    call = whole(module, node)
    if call is None:
        return None
    if is_chosen(module, call):
        return NONE if is_lacking(module, call) else _surely(module, call)
    above = module.parent(call)
    if isinstance(above, ast.Compare):
        return NONE
    if isinstance(above, (ast.Assign, ast.AnnAssign, ast.Return)):
        return or_cpu(module, call, mark, text=False)
    return device(module, call)


def flagged(module: Module, node: ast.AST, mark: str) -> tuple[ast.Call, str] | None:
    """``torch.device("cuda" if use_cuda else "cpu")``, where a variable decides: the whole call, and the choice of devices in its place."""
    choice_ = module.parent(node)
    made = module.parent(choice_) if isinstance(choice_, ast.IfExp) else None
    if not isinstance(choice_, ast.IfExp) or choice_.body is not node or module.constant(choice_.orelse) != "cpu":  # fmt: skip
        return None
    if not isinstance(made, ast.Call) or module.qualified(made.func) != "torch.device" or made.args != [choice_] or made.keywords:  # fmt: skip
        return None
    test = choice_.test.operand if isinstance(choice_.test, ast.UnaryOp) else choice_.test
    assigned = isinstance(module.parent(made), (ast.Assign, ast.AnnAssign, ast.Return))
    now = _surely(module, made, test)
    if re.search(r"cuda|is_available", module.source(test)) and not isinstance(test, (ast.Name, ast.Attribute)):  # fmt: skip
        return None  # the check turns, too
    if getattr(test, "attr", "") == "is_cuda" or not assigned:
        return None
    if now == NONE or is_early(module, made) or is_lacking(module, made):
        return None
    if module.view(held) and _is_true_there(module, test):
        now = f"{_named(module, OR_CPU)}()"
    return made, choice(module, made, now, mark, text=False, test=module.source(choice_.test))


def _is_there(module: Module, node: ast.AST) -> bool:
    """Is there surely an accelerator when ``node`` runs: behind a check, or behind what ends the program without one?"""
    for child, above in module.upwards(node):
        if isinstance(above, (ast.If, ast.IfExp)) and child is not above.test:
            body = above.body if isinstance(above.body, list) else [above.body]
            parts = required(above.test) if child in body else ()
            if any(_is_true_there(module, part) for part in parts) or (child not in body and _is_false_there(module, above.test)):  # fmt: skip
                return True
        if isinstance(child, ast.stmt) and any(_demands(module, s) for s in module.before(child)):
            return True
        if isinstance(above, _FUNCTIONS):
            return False
    return False


def _is_false_there(module: Module, test: ast.expr) -> bool:
    """Is a condition false only where there is an accelerator: ``not use_cuda``, ``device.type == "cpu"``?"""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return any(_is_true_there(module, part) for part in required(test.operand))
    return isinstance(test, ast.Compare) and _tests(module, test, same=ast.NotEq, other=ast.Eq)


def _is_true_there(module: Module, test: ast.expr) -> bool:
    """Is a condition true only where there is an accelerator: a check, or a name for one such as ``use_cuda``?"""
    if isinstance(test, ast.Name):
        values: list[ast.AST | None] = [bound.value for bound in module.bindings(test)]
    elif isinstance(test, ast.Attribute) and test.attr != "is_cuda":
        stores = [each for each in module.index.attributes(test.attr) if isinstance(each.ctx, ast.Store)]  # fmt: skip
        values = [getattr(module.statement(each), "value", None) for each in stores]
    else:
        values = [test]
    return bool(values) and all(isinstance(value, ast.expr) and any(_tests(module, part) for part in required(value)) for value in values)  # fmt: skip


def _tests(
    module: Module,
    part: ast.AST,
    *,
    same: type[ast.cmpop] = ast.Eq,
    other: type[ast.cmpop] = ast.NotEq,
) -> bool:
    """``torch.cuda.is_available()``, ``default_device().type != "cpu"``, ``x.is_cuda``."""
    if (
        isinstance(part, ast.Compare)
        and getattr(part.left, "attr", "") == "type"
        and len(part.ops) == 1
    ):
        device = module.constant(part.comparators[0])
        return (device == "cuda" and isinstance(part.ops[0], same)) or (device == "cpu" and isinstance(part.ops[0], other))  # fmt: skip
    if isinstance(part, ast.Call):
        return module.qualified(part.func) in _THERE
    return isinstance(part, ast.Attribute) and part.attr == "is_cuda"


def is_chosen(module: Module, node: ast.AST) -> bool:
    """Is the device one side of a choice, so that the other side is taken where there is no accelerator?"""
    for child, above in module.upwards(node):
        if isinstance(above, ast.IfExp):
            return child is not above.test
        if isinstance(above, ast.BoolOp):
            return isinstance(above.op, ast.And) or above.values[0] is not child
        if isinstance(above, ast.If) and child in above.body and _CHECKS.search(module.source(above.test)):  # fmt: skip
            ops = above.test.ops if isinstance(above.test, ast.Compare) else ()
            return not any(isinstance(op, ast.NotEq) for op in ops)
        if isinstance(child, ast.stmt) and any(_demands(module, s) for s in module.before(child)):
            return True
        if isinstance(above, (*_FUNCTIONS, ast.ClassDef)):
            return False
    return False


def _demands(module: Module, statement: ast.stmt) -> bool:
    """Does the program end at a statement where there is no accelerator: an assertion, ``if not …: raise``?"""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(call, ast.Call) and module.qualified(call.func) in _SETS:
        return True
    if isinstance(statement, ast.Assert):
        return any(_tests(module, part) for part in required(statement.test))
    return isinstance(statement, ast.If) and ends(statement.body) and _is_false_there(module, statement.test)  # fmt: skip


def whole(module: Module, node: ast.AST) -> ast.Call | None:
    """The whole of ``torch.device("cuda")`` or ``torch.device("cuda", 0)``."""
    call = module.parent(node)
    if isinstance(call, ast.keyword):
        call = module.parent(call)
    if not isinstance(call, ast.Call) or module.qualified(call.func) != "torch.device":
        return None
    given = (*call.args, *(keyword.value for keyword in call.keywords))
    return call if all(each is node or module.constant(each) == 0 for each in given) else None


def is_early(module: Module, node: ast.AST) -> bool:
    """Is the node evaluated while a file is imported that others import, or while the options are declared?

    There a question for the devices comes too early: before ``CUDA_VISIBLE_DEVICES`` is set, before a process is forked.
    """
    for child, above in module.upwards(node):
        if isinstance(above, ast.Call) and child is not above.func and stays_in(above):
            return True
        if isinstance(above, _FUNCTIONS):
            body = above.body
            return not (child is body or (isinstance(body, list) and child in body))
        elif isinstance(above, ast.ClassDef):
            return True
    return not module.view(_is_program)


def _is_program(module: Module) -> bool:
    """Does the file do its work where it is loaded, so that nobody imports it for a name?"""
    body = module.tree.body
    if any(isinstance(s, ast.If) and "__name__" in module.source(s.test) for s in body):
        return True
    defined = any(isinstance(s, (*_FUNCTIONS, ast.ClassDef)) for s in body)
    works = any(isinstance(s, (ast.For, ast.While, ast.With)) for s in body)
    return works or not defined


def stays_in(call: ast.Call) -> bool:
    return last_name(call.func) in _OPTIONS


def _takes_device(module: Module, call: ast.Call) -> bool:
    """Does the call take a ``torch.device`` as well as a text?"""
    name = module.qualified(call.func) or ""
    if last_name(call.func) in _METHODS:
        return True
    known = signatures.of(name)
    taken = known.parameter("device") if known is not None else None
    typed = taken is not None and taken[0] == "device_type"
    return name.startswith("torch.") and not typed and not re.search(r"autocast|\.amp\.|mesh", name, re.I)  # fmt: skip


def _default(module: Module, node: ast.AST | None) -> str:
    """A call of the file's function; nothing where the question comes too early, or above the import of torch."""
    if node is not None and stays(module):
        return NONE
    if node is not None and (is_early(module, node) or comes_before_torch(module, node)):
        return NONE
    return f"{_function(module)}()"


def _function(module: Module) -> str:
    """The name of the file's function."""
    return _named(module, OR_FAIL if is_needed(module) else OR_CPU)


def there(module: Module, node: ast.AST, mark: str) -> tuple[ast.AST, str]:
    """Whether there is an accelerator, in a project whose torch may not have ``torch.accelerator``: what is replaced, and by what."""
    above = module.parent(node)
    absent = isinstance(above, ast.UnaryOp) and isinstance(above.op, ast.Not)
    kept = comes_before_torch(module, node) or stays(module)
    now = NONE if kept else f"{_named(module, OR_CPU)}()"
    return (
        above if absent and above else node
    ), f"{now}.type {'==' if absent else '!='} {mark}cpu{mark}"


def _named(module: Module, names: tuple[str, str]) -> str:
    """The name of one of the file's functions: of the one that is there, or a free one."""
    first, second = names
    taken = (is_open(module) and module.project.home(module.path, first) is None) or not all(
        map(is_default, module.bindings_of(first))
    )
    return second if taken else first


def is_default(bound: Binding) -> bool:
    """Is a name bound to the function that gives the device, of the file or of another one of the project?"""
    node = bound.node
    if isinstance(node, ast.alias):
        return node.name in FUNCTIONS
    return isinstance(node, ast.FunctionDef) and not ast.dump(node.args).count("arg(")


def is_open(module: Module) -> bool:
    """May the file have a name for the device that it does not mention: from a star import of a module that may define one?"""
    known = TAKEN in dict(module.project.collected) and not module.project.names(TAKEN)
    return any(
        alias.name == "*" and not (known and _is_own(module, statement))
        for statement in module.imports
        for alias in statement.names
    )


def _is_own(module: Module, statement: ast.Import | ast.ImportFrom) -> bool:
    """Is what a statement imports from a module of the project?"""
    if not isinstance(statement, ast.ImportFrom):
        return False
    top = (statement.module or "").partition(".")[0]
    return bool(statement.level) or top in module.project.modules


def _is_of_torch(statement: ast.Import | ast.ImportFrom) -> bool:
    if isinstance(statement, ast.ImportFrom):
        return not statement.level and (statement.module or "").partition(".")[0] == "torch"
    return any(alias.name.partition(".")[0] == "torch" for alias in statement.names)


# -- what one accelerator lacks -------------------------------------------------------------


def is_lacking(module: Module, node: ast.AST) -> bool:
    """Does the file compute in float64, which MPS lacks, so that a host with MPS has to stay on the CPU?

    A file that names MPS knows what it does there.
    """
    return module.view(_is_double) and "mps" not in OTHER_TEXTS.findall(module.text)


def stays(module: Module) -> bool:
    """Does the file's check stay CUDA's? What it does not guard stays with it, or there would be two devices."""
    return is_lacking(module, module.tree) and module.view(_is_checked)


def _is_checked(module: Module) -> bool:
    """Does the file choose between CUDA and the CPU?"""
    name = "torch.cuda.is_available"
    return any(module.qualified(call.func) == name for call in module.index.calls("is_available"))


def _is_double(module: Module) -> bool:
    words = (name.rpartition(".")[2] for name in _DOUBLE)
    uses: list[ast.AST] = [
        node
        for word in words
        for node in module.index.attributes(word)
        if module.qualified(node) in _DOUBLE
    ]
    uses += [c for c in module.index.calls("double") if isinstance(c.func, ast.Attribute) and not c.args]  # fmt: skip
    return any(not _is_elsewhere(module, use) for use in uses)


def _is_elsewhere(module: Module, use: ast.AST) -> bool:
    """Is a tensor made for CUDA, or the CPU, whatever the program chooses; is a dtype only compared?"""
    if isinstance(use, ast.Call) and any(getattr(part, "attr", "") == "cpu" for part in walk(use)):
        return True
    for above in module.ancestors(use):
        if isinstance(above, (ast.Compare, ast.Dict, ast.Subscript, ast.arguments)):
            return True
        if isinstance(above, ast.Call):
            given = next((k.value for k in above.keywords if k.arg == "device"), None)
            helper = isinstance(given, ast.Call) and last_name(given.func) in FUNCTIONS
            if helper or DEVICE.fullmatch(str(module.constant(given))):
                return True
            if any(getattr(part, "attr", "") in ("cpu", "cuda") for part in walk(above.func)):
                return True
        if isinstance(above, ast.stmt):
            return False
    return False


def pins_memory(module: Module) -> bool:
    """Does the file pin memory by itself, which fails beside MPS?"""
    return any(isinstance(call.func, ast.Attribute) for call in module.index.calls("pin_memory"))
