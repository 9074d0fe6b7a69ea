"""Results whose size depends on data: what a mask selects, the indices where it holds, ``topk`` of a computed number."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hpushim.engine.python.changes import Replace, Rewrite
from hpushim.engine.rules.rule import Code, Found, Module, Rule, Wants, Yield
from hpushim.pycode.walk import walk

from ..analysis.kinds import base_words, enclosing_class
from ..analysis.names import called, word
from ..analysis.placement import DEVICES, reaches_a_device
from ..analysis.training_facts import STEP_CALLS
from ..analysis.verdict import ask, inside, sentence
from ..edits.arguments import argument
from ..edits.spelling import agnostic
from ..values.changing import Changing, changes_each_step
from ..values.masks import Masked, masked
from ..values.tensors import (
    becomes_tensor,
    is_of_objects,
    is_of_values,
    is_read_off,
    is_tensor,
    lies_on_host,
    may_be_on_device,
    proven,
)
from ..values.training import runs_in_step, runs_once

if TYPE_CHECKING:
    import libcst as cst  # loaded where something is written, which `check` never does

_READ = "indexing with a boolean mask"
_WRITE = "writing through a boolean mask"
_COUNT = "sizes given by a changing number"
#: Methods whose result is as long as the data make it, with the row that says so.
_METHODS = {
    "nonzero": "torch.nonzero",
    "masked_select": "torch.nonzero",
    "argwhere": "torch.nonzero",
    "unique": "torch.unique",
    "unique_consecutive": "torch.unique",
}
_NUMBERS = (int, float)
#: A slice with a bound that is no number; functions whose arguments are sizes.
_BOUND = re.compile(rb"\[[^\n\"'{}]*(?::[ \t]*-?[A-Za-z_(]|[\w)\]][ \t]*:[ \t]*[\],])")
#: A project without one reads batches from an object of its own, by what these methods return.
_LOADER = "DataLoader"
_GIVES = ("__getitem__", "__iter__", "__next__", "next", "next_batch", "get_batch")
_MAKES = ("arange", "zeros", "ones", "full", "empty")


#: What puts the samples' parts one behind the other.
_JOINS = ("torch.cat", "torch.concat")


class DataShape(Rule):
    """``x[mask]``, ``x[x < 0] = 0``, ``torch.where(mask)``, ``x.nonzero()``, ``x.topk(int(n * 0.7))``."""

    HPU515 = Code("size-from-data", fix=("safe", "manual"), effect="speed")
    wants = Wants(
        calls=(*_METHODS, "arange", "topk"),
        texts=("mask]", "]]", ":int(", *(f"def {name}(" for name in _GIVES)),
        shapes=(r"]] \w\[[^\n\[\]:]*:[^\n\[\]]*\[[^\n\[\]]*\]\]",),
        required=("cuda", "hpu", "device", "import torch", "from torch"),
        project=(*DEVICES, _LOADER),
    )
    also = Wants(
        names=("torch.where", *_JOINS),
        texts=("]", *(f"torch.{name}(" for name in _MAKES)),
        facts=(STEP_CALLS,),
    )

    def on_name(self, module: Module, node: ast.expr, name: str) -> Yield:
        """``torch.where`` with a condition alone; the samples' own parts in one tensor."""
        call = called(module, node)
        if name in _JOINS:
            if call is not None and _is_of_samples(module, call) and runs_in_step(module, call):
                yield self._shape_finding(module, call, f"`{_shown(module, call)}` is as long as the parts of this batch's samples together", _COUNT)  # fmt: skip
            return
        if call is None or len(call.args) != 1 or call.keywords:
            return
        if is_tensor(module, call) and not runs_once(module, call) and not lies_on_host(module, call.args[0]):  # fmt: skip
            yield self._shape_finding(
                module,
                call,
                f"`{_shown(module, call)}` returns indices",
                "torch.nonzero",
            )

    def on_call(self, module: Module, node: ast.Call) -> Yield:
        if not isinstance(node.func, ast.Attribute):
            return
        if node.func.attr == "topk":
            yield from self._topk(module, node, node.func)
        elif (
            node.func.attr in _METHODS
            and module.qualified(node.func) is None
            and (
                is_tensor(module, node.func.value)
                or (may_be_on_device(module, node) and becomes_tensor(module, node))
            )
            and not runs_once(module, node)
            and not lies_on_host(module, node.func.value)
        ):
            row = _METHODS[node.func.attr]
            yield self.finding(node, f"`{_shown(module, node)}`: {inside(ask(module, row).note)}", row=row)  # fmt: skip

    def on_module(self, module: Module) -> Yield:
        for node, size in _sized(module):
            why = "is random" if changes_each_step(module, size, Changing.RANDOM) else "depends on the data"  # fmt: skip
            yield self._shape_finding(module, node, f"`{module.source(size)}`, a size in `{_shown(module, node)}`, {why}", _COUNT)  # fmt: skip
        reported: set[tuple[ast.stmt, str]] = set()
        writes_first = sorted(module.view(masked), key=lambda f: isinstance(f.node.ctx, ast.Load))
        for found in writes_first:
            place = (module.statement(found.node), module.source(found.mask))
            if place in reported or runs_once(module, found.node) or lies_on_host(module, found.node.value):  # fmt: skip
                continue  # one mask on both sides of one statement
            reported.add(place)
            if isinstance(found.node.ctx, ast.Store):
                yield self._written(module, found)
            else:
                what = (
                    f"`{_shown(module, found.node)}` reads the elements that a boolean mask selects"
                )
                yield self._shape_finding(module, found.node, what, _READ)

    def _written(self, module: Module, found: Masked) -> Found:
        return self._shape_finding(
            module,
            found.node,
            f"`{_shown(module, found.node)}` assigns through a boolean mask",
            _WRITE,
            _filled(module, found),
        )

    def _topk(self, module: Module, node: ast.Call, func: ast.Attribute) -> Yield:
        of_torch = module.qualified(func) == "torch.topk"
        if not of_torch and (
            module.qualified(func) is not None or not is_tensor(module, func.value)
        ):
            return
        count = argument(node, "k", 1 if of_torch else 0)
        if count is not None and _is_computed(module, count):
            yield self._shape_finding(
                module, count, f"`{_shown(module, count)}`, the `k` of `topk`, changes", _COUNT
            )

    def _shape_finding(
        self, module: Module, node: ast.expr, what: str, row: str, fix: Rewrite | None = None
    ) -> Found:
        answer = ask(module, row)
        return self.finding(node, f"{what}. {sentence(answer.note)}", row=answer.row, fix=fix)


def _is_of_samples(module: Module, call: ast.Call) -> bool:
    """``torch.cat([t["labels"] for t in targets])``, ``torch.cat([g.nodes for g in graphs], 0).to(device)``: parts of a list that the function
    is given, by a key, an attribute or from pairs, along the first dimension.
    """
    along = argument(call, "dim", 1)
    if not call.args or (along is not None and module.constant(along) != 0):
        return False
    parts = call.args[0]
    if not isinstance(parts, (ast.ListComp, ast.GeneratorExp)) or len(parts.generators) != 1:
        return False
    over, taken = parts.generators[0].iter, parts.generators[0].target
    lists = over.args if isinstance(over, ast.Call) and word(over.func) in ("zip", "enumerate") else [over]  # fmt: skip
    if not any(isinstance(each, ast.Name) and all(b.kind == "param" for b in module.bindings(each)) and module.bindings(each) for each in lists):  # fmt: skip
        return False
    part: ast.expr = parts.elt
    keyed = False
    while isinstance(part, (ast.Subscript, ast.Attribute, ast.Call)):
        if isinstance(part, ast.Call):
            method = part.func
            if not isinstance(method, ast.Attribute) or not is_of_values(method.attr):
                return False
            part = method.value
            continue
        keyed = keyed or (isinstance(module.constant(part.slice), str) if isinstance(part, ast.Subscript) else not is_of_objects(part.attr))  # fmt: skip
        part = part.value
    pairs = isinstance(taken, (ast.Tuple, ast.List)) and not isinstance(over, ast.Call)
    names = {each.id for each in walk(taken) if isinstance(each, ast.Name)}
    return isinstance(part, ast.Name) and part.id in names and (keyed or pairs)


def _sized(module: Module) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What a step cuts or makes in a size that a tensor's value says: ``x[:, : lengths[i]]``, ``torch.arange(n.item())``; one in a statement."""
    reported: set[ast.AST | None] = set()
    parts: list[ast.expr] = []
    if module.holds("torch"):
        for unit in module.index.holding(_BOUND):
            parts += [part for part in module.index.within(unit) if isinstance(part, ast.Subscript)]
        for name in _MAKES:
            parts += [call for call in module.index.calls(name) if module.qualified(call.func) == f"torch.{name}"]  # fmt: skip
    for part in parts:
        sizes = [size for size in _sizes(module, part) if not _is_plain(module, size)]
        given = _is_given(module, part) if sizes else False
        place = module.function(part) if given else module.statement(part)
        if not sizes or place in reported or not (given or runs_in_step(module, part)):
            continue
        size = next((size for size in sizes if (_is_looked_up if given else _changes)(module, size)), None)  # fmt: skip
        if size is not None and (not isinstance(part, ast.Subscript) or (not _is_text(module, part.value) if given else is_tensor(module, part.value))):  # fmt: skip
            reported.add(place)
            yield part, size


def _changes(module: Module, size: ast.expr) -> bool:
    """Does a tensor's value say a size, or chance: ``box = random_box(x.shape)``?"""
    return is_read_off(module, size) or changes_each_step(module, size, Changing.RANDOM)


def _is_given(module: Module, part: ast.expr) -> bool:
    """Is it in a method that gives the steps of the project their batches, where no loader of torch makes them?"""
    if _LOADER in (module.project.mentions or (_LOADER,)):
        return False
    function = module.function(part)
    owner = enclosing_class(module, part) if getattr(function, "name", "") in _GIVES else None
    return owner is not None and base_words(module, owner.name) <= {"object"} and reaches_a_device(module)  # fmt: skip


def _is_text(module: Module, value: ast.expr) -> bool:
    """Is it a text or a list, by what it is or by what is called on it: ``self.names`` with ``self.names.append(name)``?"""
    name, index = word(value), module.index
    alike = index.attributes(name) if isinstance(value, ast.Attribute) else index.names(name)
    methods = {word(module.parent(each) or value) for each in alike if isinstance(module.parent(each), ast.Attribute)}  # fmt: skip
    own = any((hasattr(str, each) or hasattr(list, each)) and not is_of_objects(each) for each in methods)  # fmt: skip
    return own or isinstance(value, (ast.Constant, ast.JoinedStr))


def _is_looked_up(module: Module, size: ast.expr) -> bool:
    """Is a number worked out of what a table holds for the batch: ``length - 1`` with ``length = lengths[n]``?"""
    named = [each for part in walk(size) if isinstance(part, ast.Name) for each in module.values(part)]  # fmt: skip
    parts = (part for each in (size, *named) for part in walk(each))
    return any(isinstance(part, ast.Subscript) and isinstance(part.slice, ast.Name) for part in parts)  # fmt: skip


def _is_plain(module: Module, size: ast.expr) -> bool:
    """Is a size a setting, a number of its own, or a parameter, which may be any: ``self.width``, ``steps + 1``, ``shape[0]``?"""
    match size:
        case ast.Name():
            return all(bound.kind == "param" for bound in module.bindings(size))
        case ast.BinOp(left=left, right=right):
            return _is_plain(module, left) and _is_plain(module, right)
        case ast.Subscript(slice=index):
            return isinstance(index, (ast.Constant, ast.UnaryOp))
    return isinstance(size, (ast.Constant, ast.Attribute, ast.UnaryOp))


def _sizes(module: Module, part: ast.expr) -> Iterator[ast.expr]:
    """What says how long a slice is, or a new tensor. ``x[i : i + n]`` is as long as ``n``."""
    if isinstance(part, ast.Subscript):
        index = part.slice.elts if isinstance(part.slice, ast.Tuple) else [part.slice]
        for each in index:
            if isinstance(each, ast.Slice) and each.step is None:
                yield from _lengths(module, each)
    elif isinstance(part, ast.Call):
        given = part.args[:1] if word(part.func) == "full" else part.args
        for each in given:
            yield from each.elts if isinstance(each, (ast.Tuple, ast.List)) else [each]


def _lengths(module: Module, cut: ast.Slice) -> Iterator[ast.expr]:
    """What says how long a slice is: both ends; where they are counted from one place, what the upper one has besides, ``n`` for ``x[2 * i : 2 * (i + n)]``."""
    upper, lower = cut.upper, cut.lower
    if upper is None or lower is None:
        yield from (end for end in (upper, lower) if end is not None)
    elif isinstance(upper, ast.BinOp) and module.source(upper.left) == module.source(lower):
        yield upper.right
    else:
        summed = [each for each in module.values(upper) if isinstance(each, ast.BinOp)]
        parts = [part for each in summed for part in _operands(each)] or _operands(upper)
        from_here = {part.id for part in walk(lower) if isinstance(part, ast.Name)}
        others = [part for part in parts if word(part) not in from_here]
        ends: list[ast.expr] = [upper, lower]
        yield from others if len(others) < len(parts) else ends


def _operands(node: ast.expr) -> list[ast.expr]:
    """What a sum is made of; a loop, since a sum is as deep as it is long."""
    found: list[ast.expr] = []
    while isinstance(node, ast.BinOp):
        if isinstance(node.right, ast.BinOp):
            found += _operands(node.right)
        else:
            found.append(node.right)
        node = node.left
    return [node, *reversed(found)]


def _shown(module: Module, node: ast.AST) -> str:
    """A node on one line; of an element that spans several lines, the index is kept."""
    lines = module.source(node).splitlines()
    index = f"[{' '.join(module.source(node.slice).split())}]" if isinstance(node, ast.Subscript) else ""  # fmt: skip
    return lines[0] if len(lines) == 1 else f"{lines[0]} …{index}"


def _is_computed(module: Module, node: ast.expr) -> bool:
    """Is a number worked out from data or sizes: ``int(n * 0.7)``, ``num_pos.item()``, ``min(k, x.size(0))``?"""
    for value in module.values(node):
        if isinstance(value, ast.Call):
            name = word(value.func)
            return (
                name == "item"
                or (name in ("int", "round", "ceil", "floor") and _is_worked_out(value))
                or (name in ("min", "max") and len(value.args) > 1 and _is_open(value.args))
            )
        if isinstance(value, ast.BinOp):
            return not isinstance(module.constant(value), int)
    return False


def _is_open(numbers: list[ast.expr]) -> bool:
    """Is one of them no setting, nor the length of the last dimension, which a layer has: ``min(top_k, logits.size(-1))``?"""
    plain = (ast.Name, ast.Attribute, ast.Constant)
    last = (".size(-1)", ".shape[-1]")
    return not all(isinstance(n, plain) or ast.unparse(n).endswith(last) for n in numbers)


def _is_worked_out(call: ast.Call) -> bool:
    """``int(n * 0.7)``, ``int(mask.sum())``; ``int(args.k)`` and ``int(max(ks))`` are settings."""
    return any(
        isinstance(part, ast.BinOp)
        or (isinstance(part, ast.Attribute) and part.attr in ("sum", "item", "size", "shape"))
        for arg in call.args
        for part in walk(arg)
    )


def _filled(module: Module, found: Masked) -> Rewrite | None:
    """``x[x < 0] = 0`` is ``x.masked_fill_(x < 0, 0)``: the mask has the shape of what it is made of."""
    target, mask = found.node, found.mask
    statement = module.parent(target)
    if agnostic(module) or not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None  # other accelerators take it as it is
    value = module.constant(statement.value)
    if not isinstance(value, _NUMBERS) or mask is not target.slice:
        return None
    if not proven(module, target.value) or not _is_of(module, mask, target.value):
        return None

    def fill(there: cst.Assign) -> cst.Expr:
        import libcst as cst

        place = there.targets[0].target
        assert isinstance(place, cst.Subscript)
        index = place.slice[0].slice
        assert isinstance(index, cst.Index)
        comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
        return cst.Expr(
            cst.Call(
                cst.Attribute(place.value, cst.Name("masked_fill_")),
                [cst.Arg(index.value, comma=comma), cst.Arg(there.value)],
            )
        )

    return Rewrite("fill in place", "safe", (Replace(statement, fill),))


def _is_of(module: Module, mask: ast.expr, tensor: ast.expr) -> bool:
    """Is the mask made of this tensor and numbers alone, so that it has its shape?"""
    wanted = ast.dump(tensor).replace("Store()", "Load()")
    if isinstance(mask, ast.Compare):
        left, right = mask.left, mask.comparators[0]
        number = isinstance(module.constant(right), _NUMBERS)
        return len(mask.ops) == 1 and number and ast.dump(left) == wanted
    if isinstance(mask, ast.UnaryOp):
        return _is_of(module, mask.operand, tensor)
    if isinstance(mask, ast.Call) and len(mask.args) == 1 and not mask.keywords:
        name = module.qualified(mask.func)
        plain = name in ("torch.isnan", "torch.isinf", "torch.isfinite")
        return plain and ast.dump(mask.args[0]) == wanted
    return False
