"""What the device is called and what it can: names, capabilities, properties, CUDA's version."""

from __future__ import annotations

import ast
from typing import Any

from hpushim.engine.python.changes import Change, Remove, Replace, Rewrite
from hpushim.engine.rules.rule import Code, Found, Module, Yield
from hpushim.model import Span

from ..analysis.names import called, word
from ..analysis.optional_packages import caught
from ..analysis.verdict import inside, known
from ..bases.torch_name import LOGS, Name, NameRule, respell, runs_on_nvidia
from ..edits.spelling import agnostic, shared

_CUDA_VERSION = ("torch.version.cuda", "torch.backends.cuda.is_built")
#: Their answers are taken apart, and are something else on Gaudi.
_TAKEN_APART = ("get_device_properties", "get_device_capability")
#: Numbers that Gaudi lacks; where a file only keeps and shows them, they are 0.
_CAPABILITY = frozenset(["major", "minor"])
#: What people read from the properties, and the call that answers it on Gaudi.
_PROPERTIES = {"total_memory": ("torch.hpu.mem_get_info", "()[1]"), "name": ("torch.hpu.get_device_name", "()")}  # fmt: skip
_PLAIN = (ast.Constant, ast.JoinedStr, ast.FormattedValue, ast.Name, ast.Attribute, ast.BinOp)
_TEST = (ast.BoolOp, ast.UnaryOp, ast.Compare, ast.Name, ast.Attribute, ast.Constant, ast.Subscript, ast.Tuple)  # fmt: skip


class DeviceInfo(NameRule):
    """``torch.cuda.get_device_name`` and other questions about the hardware."""

    HPU112 = Code("cuda-device-info", fix=("safe", "manual"))
    HPU113 = Code(
        "cuda-capability",
        severity="error",
        fix=("safe", "unsafe", "manual"),
        lower={"warning": "the program goes on without the answer"},
    )
    HPU116 = Code("cuda-initialisation", fix=("safe", "manual"))
    HPU122 = Code("cuda-version", lower={"note": "the result is only printed"})
    further = tuple(name for front in _CUDA_VERSION for name in (front, f"{front}.*"))

    def takes(self, module: Module, use: Name) -> str:
        return "HPU122" if use.name.startswith(_CUDA_VERSION) else super().takes(module, use)

    def finding(self, where: ast.AST | Span, message: str, **given: Any) -> Found:
        """What the program stops at says so; all else of that code is a warning."""
        if given.get("code") == "HPU113" and not given.get("severity"):
            given["severity"] = "warning"
        return super().finding(where, message, **given)

    def special(self, module: Module, use: Name, code: str) -> Yield | None:
        if use.below == "get_device_capability" and not shared(module):
            branch = _advice(module, use.node)
            if branch is not None:
                return [self._advice(module, use, code, branch)]
        if use.below == "get_device_properties":
            return [self._properties(module, use, code)]
        if use.below == "_lazy_call":
            return [self._later(module, use, code)]
        if code == "HPU122" and _is_written_out(module, use.node):
            part, _ = known(module, use.name)
            said = (
                f"`{module.source(use.node)}` describes CUDA, which Gaudi does not have; its result "
                "is only printed here"
            )
            return [self.finding(use.node, said, row=part, code=code, severity="note", safety="manual")]  # fmt: skip
        if not use.below or use.below in _TAKEN_APART:
            return [self._answer(module, use, code)]
        return None

    def _advice(self, module: Module, use: Name, code: str, branch: ast.If) -> Found:
        """``if torch.cuda.get_device_capability()[0] < 7: logger.info(…)``: nothing else hangs on it."""
        return self.finding(
            use.node,
            f"`{module.source(use.node)}` decides whether to print advice about NVIDIA GPUs, "
            "which does not apply to Gaudi",
            fix=Rewrite("remove the advice", "safe", tuple(map(Remove, branch.body))),
            row=use.name,
            code=code,
            claims=(use.node,),
        )

    # -- get_device_properties --------------------------------------------------------------

    def _properties(self, module: Module, use: Name, code: str) -> Found:
        call = called(module, use.node)
        if call is None:
            return self._answer(module, use, code)
        read = module.parent(call)
        if isinstance(read, ast.Attribute) and read.attr in _PROPERTIES:
            return self._read(module, use, code, call, read)
        if isinstance(read, ast.Assign) and read.value is call:
            reads = _reads_of(module, read)
            if reads:
                return self._each(module, use, code, call, read, reads)
        _, verdict = known(module, use.name)
        if _is_written_out(module, use.node) and verdict is not None and not agnostic(module):
            return self.rename(
                module, use, code, self.target(module, use), "safe", verdict, claims=call.args
            )
        return self._answer(module, use, code, call.args)

    def _read(
        self, module: Module, use: Name, code: str, call: ast.Call, read: ast.Attribute
    ) -> Found:
        """``get_device_properties(i).name``."""
        target, tail = _PROPERTIES[read.attr]
        return self.finding(
            read,
            f"`{module.source(read)}` is `{target}{tail}` on Gaudi",
            fix=Rewrite(f"ask {target}", "safe", respell(module, read, target, tail)),
            row=use.name,
            code=code,
            claims=call.args,
        )

    def _each(
        self,
        module: Module,
        use: Name,
        code: str,
        call: ast.Call,
        statement: ast.Assign,
        reads: list[ast.Attribute],
    ) -> Found:
        """``p = get_device_properties(i)``, and what is read from ``p``."""
        changes: list[Change] = [Remove(statement)]
        stays = not any(read.attr in _CAPABILITY for read in reads)  # which only CUDA has
        for read in reads:
            if read.attr in _CAPABILITY:
                changes.append(Replace(read, "0"))
            else:
                changes += respell(module, read, *_PROPERTIES[read.attr])
        return self.finding(
            use.node,
            f"`{module.source(use.node)}` returns the properties of an NVIDIA GPU; on Gaudi, read each "
            "property that the code uses with a call of its own, such as `torch.hpu.get_device_name()`",
            fix=Rewrite("query each property separately", "safe", tuple(changes), harmless=stays),
            row=use.name,
            code=code,
            claims=call.args,
        )

    def _later(self, module: Module, use: Name, code: str) -> Found:
        """``torch.cuda._lazy_call(f)``, which waits for CUDA and runs ``f`` then."""
        return self.finding(
            use.node, f"`{module.source(use.node)}` defers its argument until CUDA starts, which never "
                              "happens on Gaudi; call the function directly",
            row=use.name, code=code, safety="manual",
        )  # fmt: skip

    def _answer(
        self, module: Module, use: Name, code: str, claims: list[ast.expr] | None = None
    ) -> Found:
        """An answer that is something else on Gaudi, in code that nothing more is known of."""
        part, verdict = known(module, use.name)
        note = inside(verdict.note) if verdict is not None else "it has no counterpart on Gaudi"
        said, stops = f"`{module.source(use.node)}` describes NVIDIA hardware", False
        if (
            verdict is not None and verdict.target and use.below in _TAKEN_APART
        ):  # the note is about that
            stops = code == "HPU113" and called(module, use.node) is not None and not caught(module, use.node) and not runs_on_nvidia(module, use.node)  # fmt: skip
            said = f"`{module.source(use.node)}` fails on Gaudi, and `{verdict.target}` does not replace it"
        return self.finding(
            use.node, f"{said}: {note}",
            row=part if verdict is not None else None, code=code, safety="manual", claims=claims or (),
            severity="error" if stops else None,
        )  # fmt: skip


def _reads_of(module: Module, statement: ast.Assign) -> list[ast.Attribute]:
    """The reads of what is assigned, where Gaudi answers each of them; none otherwise."""
    target = statement.targets[0]
    if len(statement.targets) > 1 or not isinstance(target, ast.Name):
        return []
    bound = module.scope(target).lookup(target.id)
    reads: list[ast.Attribute] = []
    for name in module.index.names(target.id):
        if name is target or module.bindings(name) is not bound:
            continue
        read = module.parent(name)
        if not isinstance(read, ast.Attribute):
            return []
        if read.attr not in _PROPERTIES and (shared(module) or not _only_shown(module, read.attr)):
            return []
        reads.append(read)
    return reads if len(bound) == 1 else []


def _only_shown(module: Module, attribute: str) -> bool:
    """Is a number that Gaudi lacks stored, written out or handed on, wherever the file reads it, and never compared?"""
    return attribute in _CAPABILITY and not any(
        isinstance(above, (ast.Compare, ast.BoolOp, ast.UnaryOp, ast.Subscript))
        for read in module.index.attributes(attribute)
        for above in (module.parent(read), module.parent(module.parent(read) or read))
    )


def _is_written_out(module: Module, node: ast.AST) -> bool:
    """Does the value only reach a line that people read: ``print(torch.version.cuda)``?"""
    statement = module.statement(node)
    call = statement.value if isinstance(statement, ast.Expr) else None
    return (
        isinstance(call, ast.Call)
        and word(call.func) in ("print", "info", "debug", "warning", "log", "write")
        and not any(
            isinstance(above, (ast.Compare, ast.Subscript)) for above in module.ancestors(node)
        )
    )


def _advice(module: Module, node: ast.expr) -> ast.If | None:
    """The ``if`` without ``else`` whose test is ``node`` (a name of torch.cuda) and flags alone, and which only prints or logs."""
    call = called(module, node)
    statement: ast.AST | None = call
    while isinstance(statement, ast.expr):
        statement = module.parent(statement)
    if call is None or not isinstance(statement, ast.If) or statement.orelse:
        return None
    if not _within(module, statement.test, call) or not _only_tests(statement.test, call):
        return None
    return statement if all(_only_prints(one) for one in statement.body) else None


def _within(module: Module, test: ast.expr, call: ast.Call) -> bool:
    return any(place is test for place in (call, *module.ancestors(call)))


def _only_tests(test: ast.expr, call: ast.Call) -> bool:
    pending: list[ast.expr] = [test]
    while pending:
        node = pending.pop()
        if node is call:
            continue
        if not isinstance(node, _TEST):
            return False
        pending += [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
    return True


def _only_prints(statement: ast.stmt) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call):
        return False
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    return bool(LOGS.fullmatch(name)) and all(isinstance(value, _PLAIN) for value in given)
