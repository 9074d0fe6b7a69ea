"""What a condition on the version of torch or of Python says on every machine that the project can run on.

torch is the oldest supported release or a newer one, and so is Python; there is no newest. ``torch.__version__ < "1.6"`` is false on all
of them, ``torch.__version__ >= "2.9"`` is not known.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import NamedTuple

from hpushim.pycode.places import last_name

#: The oldest releases that run migrated code: those that the package itself requests.
TORCH = (2, 6)
#: An upper bound in a requirement.
_BELOW = re.compile(r"<=?\s*([\d.]+)")
PYTHON = (3, 10)

_RELEASE = re.compile(r"v?(\d+(?:\.\d+)*)(?:\.|\.?[a-z+-][\w.+-]*)?")
#: Calls that give a version back in another form.
_FORMS = frozenset(["str", "tuple", "list", "float", "int", "parse", "Version", "PkgVersion"])
_OPERATORS: dict[str, type[ast.cmpop]] = {
    "<": ast.Lt, "<=": ast.LtE, ">": ast.Gt, ">=": ast.GtE, "==": ast.Eq, "!=": ast.NotEq,
    "lt": ast.Lt, "le": ast.LtE, "gt": ast.Gt, "ge": ast.GtE, "eq": ast.Eq, "ne": ast.NotEq,
}  # fmt: skip
_MIRRORED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE,
    ast.Eq: ast.Eq, ast.NotEq: ast.NotEq,
}  # fmt: skip


class Release(NamedTuple):
    """A release that is not older than ``oldest``; ``form`` is ``text``, ``parts`` (its numbers) or ``pieces`` (a text cut elsewhere)."""

    oldest: tuple[int, ...]
    form: str
    package: str


#: The release that a name represents, where it does for one.
Known = Callable[[ast.expr], Release | None]
#: The value of a constant, or of a name that has only one.
Constant = Callable[[ast.expr], object]


def torch_release() -> Release:
    return Release(TORCH, "text", "torch")


def python_release() -> Release:
    return Release(PYTHON, "parts", "Python")


def release(node: ast.expr, known: Known) -> Release | None:
    """The release that an expression is, in whatever form."""
    match node:
        case ast.Call():
            return _called(node, known)
        case ast.Subscript():
            return _part(release(node.value, known), node.slice)
        case ast.ListComp() | ast.GeneratorExp():
            found = release(node.generators[0].iter, known)
            whole = len(node.generators) == 1 and not node.generators[0].ifs
            return found if found and found.form == "parts" and whole else None
        case ast.Attribute(attr="major"):
            found = release(node.value, known)
            return found._replace(oldest=found.oldest[:1], form="parts") if found else known(node)
        case ast.Attribute(attr="release"):
            found = release(node.value, known)
            return found._replace(form="parts") if found else known(node)
        case ast.Attribute(attr="base_version" | "public"):
            return release(node.value, known) or known(node)
        case ast.Name() | ast.Attribute():
            return known(node)
    return None


def _called(call: ast.Call, known: Known) -> Release | None:
    name = last_name(call.func)
    if isinstance(call.func, ast.Attribute) and name in ("split", "strip", "rstrip", "replace"):
        found = release(call.func.value, known)
        if found is None or found.form != "text":
            return None
        if name != "split":
            return found
        dots = len(call.args) > 0 and getattr(call.args[0], "value", None) == "."
        return found._replace(form="parts" if dots else "pieces")
    if name == "map" and len(call.args) == 2:
        found = release(call.args[1], known)
        return found if found and found.form == "parts" else None
    if len(call.args) == 1 and not call.keywords and _keeps(name):
        return release(call.args[0], known)
    return None


def _keeps(name: str) -> bool:
    return name in _FORMS or "version" in name.lower()


def _part(found: Release | None, place: ast.expr) -> Release | None:
    """``version.split(".")[0]``, ``version[:3]``: of ten minor releases and more, a cut text holds the first number only."""
    if found is None:
        return None
    if isinstance(place, ast.Slice):
        lower, upper = (getattr(each, "value", None) for each in (place.lower, place.upper))
        if lower not in (None, 0) or place.step is not None or not isinstance(upper, int):
            return None
        if found.form == "parts":
            return found._replace(oldest=found.oldest[:upper]) if upper > 0 else None
        return found._replace(oldest=(found.oldest[0], 0)) if found.form == "text" else None
    if getattr(place, "value", None) != 0:
        return None
    if found.form == "pieces":
        return found._replace(form="text")
    return found._replace(oldest=found.oldest[:1], form="parts")


class Answer(NamedTuple):
    """What a condition says on every such machine, and the text that names the release it requests."""

    value: bool
    package: str


def answer(node: ast.expr, known: Known, constant: Constant) -> Answer | None:
    """The answer of a comparison or a call; None where it depends on the release, or requests something else."""
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        answers = [
            _compared(left, operator, right, known, constant)
            for left, operator, right in zip(sides, node.ops, node.comparators, strict=False)
        ]
        no = next((found for found in answers if found is not None and not found.value), None)
        return no or (answers[0] if None not in answers else None)
    if not isinstance(node, ast.Call) or not node.args:
        return None
    name = last_name(node.func)
    if name == "startswith" and isinstance(node.func, ast.Attribute):
        found = release(node.func.value, known)
        return _begins(found, node.args[0], constant) if found else None
    if name == "is_torch_version" and len(node.args) == 2:
        operator = _OPERATORS.get(str(constant(node.args[0])))
        return _decided(torch_release(), operator, constant(node.args[1]))
    if name in _OPERATORS and len(node.args) == 2:
        return _compared(node.args[0], _OPERATORS[name](), node.args[1], known, constant)
    return None


def _compared(
    left: ast.expr, operator: ast.cmpop, right: ast.expr, known: Known, constant: Constant
) -> Answer | None:
    kind = type(operator)
    found = release(left, known)
    if found is None:
        found, right, mirrored = release(right, known), left, _MIRRORED.get(kind)
        if mirrored is None:
            return None
        kind = mirrored
    if found is None:
        return None
    if kind in (ast.In, ast.NotIn):
        inside = _one_of(found, right, constant)
        return inside._replace(value=kind is ast.NotIn) if inside else None
    return _decided(found, kind, _constant_of(right, constant))


def _one_of(found: Release, choices: ast.expr, constant: Constant) -> Answer | None:
    """No, where every one of them is an older release."""
    items = choices.elts if isinstance(choices, (ast.Tuple, ast.List, ast.Set)) else [choices]
    older = [_decided(found, ast.Eq, _constant_of(item, constant)) for item in items]
    return Answer(False, found.package) if older and None not in older else None


def _begins(found: Release, choices: ast.expr, constant: Constant) -> Answer | None:
    """No, where every one of them begins older releases alone: ``"2"`` begins all of 2, and ``"2.1"`` begins 2.10 too."""
    items = choices.elts if isinstance(choices, (ast.Tuple, ast.List)) else [choices]
    for item in items:
        text = constant(item)
        numbers = _numbers(text.rstrip(".")) if isinstance(text, str) else None
        if numbers is None:
            return None
        whole = len(numbers) == 1 or str(text).endswith(".")
        sure = numbers if whole else numbers[:-1]
        if sure >= found.oldest[: len(sure)]:
            return None
    return Answer(False, found.package) if items else None


def _decided(found: Release, operator: type[ast.cmpop] | None, requested: object) -> Answer | None:
    numbers = _numbers(requested)
    if numbers is None or operator is None:
        return None
    at_least, newer = numbers <= found.oldest, numbers < found.oldest
    value: bool | None = None
    if operator is ast.Lt and at_least:
        value = False
    elif operator is ast.GtE and at_least:
        value = True
    elif newer:
        value = {ast.LtE: False, ast.Gt: True, ast.Eq: False, ast.NotEq: True}.get(operator)
    return Answer(value, found.package) if value is not None else None


def _constant_of(node: ast.expr, constant: Constant) -> object:
    """The release that another is compared with: ``Version("1.6")``, ``(1, 6)``, ``1.6``."""
    node = bare(node)
    if isinstance(node, (ast.Tuple, ast.List)):
        return tuple(constant(item) for item in node.elts)
    return constant(node)


def bare(node: ast.expr) -> ast.expr:
    """``"1.6"`` of ``Version("1.6")``."""
    while isinstance(node, ast.Call) and len(node.args) == 1 and _keeps(last_name(node.func)):
        node = node.args[0]
    return node


def _numbers(requested: object) -> tuple[int, ...] | None:
    if isinstance(requested, tuple):
        return requested if requested and all(type(item) is int for item in requested) else None
    if isinstance(requested, bool) or not isinstance(requested, (str, int, float)):
        return None
    found = _RELEASE.fullmatch(str(requested).strip())
    return tuple(map(int, found[1].split("."))) if found else None


def leaves_out_gaudis(name: str, requested: str) -> bool:
    """Does a requirement for torch allow some versions alone: one, or none that hpushim supports (``torch>=1.10,<2.0``)?"""
    from packaging.version import Version

    if requested.startswith(("==", "<", "~=")):
        return True
    oldest = Version(".".join(map(str, TORCH)))
    bounds = _BELOW.findall(requested) if name == "torch" else ()
    return any(Version(bound.strip(".")) <= oldest for bound in bounds)
