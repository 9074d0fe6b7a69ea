"""Comparisons with CUDA in the agnostic style: with the CPU instead, where any accelerator is meant."""

from __future__ import annotations

import ast

from hpushim.engine.python import imports
from hpushim.engine.python.module import Module
from hpushim.pycode.places import last_name
from hpushim.pycode.values import Values

from . import neutral
from .at_hand import held_device, unwrapped


def type_read(module: Module, made: ast.AST | None) -> tuple[ast.Compare, ast.Attribute] | None:
    """The comparison with ``torch.device("cuda").type``, and that attribute."""
    read = module.parent(made) if isinstance(made, ast.Call) else None
    compare = (
        module.parent(read) if isinstance(read, ast.Attribute) and read.attr == "type" else None
    )
    return (compare, read) if isinstance(compare, ast.Compare) and isinstance(read, ast.Attribute) else None  # fmt: skip


def compared(module: Module, owner: ast.AST, node: ast.expr, mark: str) -> tuple[ast.expr, str] | None:  # fmt: skip
    """A comparison with CUDA that means any accelerator: what is replaced, and by what; None where that cannot be known.

    Only what is surely the type, or the text, of a device is compared with other devices: a ``torch.device`` equals no text, and
    an option may have any other value.
    """
    cpu = f"{mark}cpu{mark}"
    if module.constant(node) != "cuda":
        return None
    if isinstance(made := module.parent(node), ast.Call) and (found := type_read(module, made)):
        owner, node = found
    others = module.view(_known)
    if isinstance(owner, ast.Call) and isinstance(owner.func, ast.Attribute):
        if owner.func.attr != "startswith" or owner.args != [node] or others:
            return None
        if not _is_text(module, owner.func.value):
            return None
        has_type = f"{module.source(owner.func)}({cpu})"
        above = module.parent(owner)
        if isinstance(above, ast.UnaryOp) and isinstance(above.op, ast.Not):
            return above, has_type
        return owner, f"not {has_type}"
    if not isinstance(owner, ast.Compare) or len(owner.ops) != 1:
        return None
    left, right, op = owner.left, owner.comparators[0], owner.ops[0]
    if isinstance(op, (ast.In, ast.NotIn)):
        if left is node:
            choice = module.parent(owner)
            if isinstance(op, ast.In) and isinstance(choice, ast.IfExp) and choice.test is owner:
                whole = _type_of(module, choice, right)
                if whole is not None:
                    return choice, whole
            if others or not _is_text(module, right):
                return None  # a text with an index is in no list
            turned = "not in" if isinstance(op, ast.In) else "in"
            return owner, f"{cpu} {turned} {module.operand(right)}"
        if isinstance(right, (ast.Tuple, ast.List, ast.Set)) and _is_text(module, left):
            rest = {str(module.constant(each)) for each in right.elts} - {"cuda"}
            left_out = [one for one in others if one not in rest]
            if "cpu" not in rest and rest <= {"", *neutral.OTHERS}:
                return owner, _unlike(
                    module.operand(left), left_out, mark, same=isinstance(op, ast.NotIn)
                )
        return None
    side = left if right is node else right
    if not isinstance(op, (ast.Eq, ast.NotEq)) or not _is_text(module, side):
        return None
    shown = module.operand(side)
    if isinstance(side, ast.Subscript) and isinstance(side.slice, ast.Slice):
        if side.slice.lower is not None or module.constant(side.slice.upper) != 4:
            return None
        shown = f"{module.operand(side.value)}[:3]"
    return owner, _unlike(shown, others, mark, same=isinstance(op, ast.NotEq))


def moved_if_elsewhere(module: Module, made: ast.Call, mark: str) -> tuple[ast.expr, str] | None:
    """``if x.device != torch.device("cuda"): x = x.to(…)`` moves what is on the CPU: a tensor's device has a number, so it equals no such device."""
    compare = module.parent(made)
    guard = module.parent(compare) if isinstance(compare, ast.Compare) else None
    if not isinstance(compare, ast.Compare) or not isinstance(guard, ast.If) or guard.test is not compare:  # fmt: skip
        return None
    left, moved = compare.left, guard.body[0]
    value = moved.value if isinstance(moved, ast.Assign) and len(guard.body) == 1 else None
    if guard.orelse or not isinstance(compare.ops[0], ast.NotEq) or getattr(left, "attr", "") != "device":  # fmt: skip
        return None
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
        return None
    shown = module.source(left)
    same = value.func.attr in ("to", "cuda") and f"{module.source(value.func.value)}.device" == shown  # fmt: skip
    return (compare, _unlike(f"{shown}.type", [], mark, same=True)) if same else None


def _unlike(shown: str, others: list[str], mark: str, *, same: bool) -> str:
    """``device.type != "cpu"``; the devices that the file treats in a way of their own stay apart from it."""
    if not others:
        return f"{shown} {'==' if same else '!='} {mark}cpu{mark}"
    named = ", ".join(f"{mark}{one}{mark}" for one in ("cpu", *others))
    return f"{shown} {'in' if same else 'not in'} ({named})"


def _type_of(module: Module, choice: ast.IfExp, subject: ast.expr) -> str | None:
    """``"cuda" if "cuda" in device else "cpu"`` is the type of the device."""
    if module.constant(choice.body) != "cuda" or module.constant(choice.orelse) != "cpu":
        return None
    name, needed = imports.through(module, choice, "torch.device")
    if not all(each.there for each in needed):
        return None
    return f"{name}({module.source(_inner(subject))}).type"


def of_tensor(module: Module, choice: ast.AST | None) -> tuple[ast.expr, str] | None:
    """``torch.device("cuda") if x.is_cuda else torch.device("cpu")`` is the device of ``x``: what is replaced, and by what."""
    if not isinstance(choice, ast.IfExp) or getattr(choice.test, "attr", "") != "is_cuda":
        return None
    tensor = module.operand(choice.test.value)  # type: ignore[attr-defined]
    (cuda, kind), (cpu, other) = (neutral.named(module, side) for side in (choice.body, choice.orelse))  # fmt: skip
    if (cuda, cpu) != ("cuda", "cpu") or kind != other:
        return None
    above = module.parent(choice)
    if isinstance(above, ast.Call) and unwrapped(module, above) is choice:
        return above, f"{tensor}.device"
    return choice, f"{tensor}.device" if kind == "device" else f"{tensor}.device.type"


def _inner(subject: ast.expr) -> ast.expr:
    """The device in ``str(device)``."""
    if (
        isinstance(subject, ast.Call)
        and last_name(subject.func) == "str"
        and len(subject.args) == 1
    ):
        return subject.args[0]
    return subject


def _is_text(module: Module, node: ast.expr) -> bool:
    """Is it surely the type, or the text, of one device?"""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        return _is_text(module, node.value)
    if _inner(node) is not node or getattr(node, "attr", "") == "type":
        return True
    if isinstance(node, ast.Name) and any(b.kind == "param" for b in module.bindings(node)):
        return False
    found = [each for each in module.view(Values).origins(node) if each is not node]
    return bool(found) and all(
        isinstance(each, ast.expr)
        and (getattr(each, "attr", "") == "type" or held_device(module, each) in ("type", "text"))
        and not any(isinstance(a, ast.Call) and neutral.stays_in(a) for a in module.ancestors(each))
        for each in found
    )


def _known(module: Module) -> list[str]:
    """The other devices that the file knows by name, or cannot work on: a comparison with CUDA does not mean these."""
    return sorted(
        {
            *neutral.OTHER_TEXTS.findall(module.text),
            *(("mps",) if neutral.pins_memory(module) else ()),
        }
    )
