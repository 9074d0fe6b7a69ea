"""What an expression may be: a tensor, on the host or not, a mask, a module, an optimizer, a number; requested from the value graph.

What torch's functions and methods return is said by :mod:`hpushim.matrix.signatures`. Each value is looked at once.
"""

from __future__ import annotations

import ast
import re
from collections import OrderedDict
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple, cast

from hpushim.engine.python.module import Module
from hpushim.matrix import signatures
from hpushim.pycode.answers import Answers, Circular, Needed
from hpushim.pycode.places import FUNCTIONS, At, Cell, Edge, How, Way
from hpushim.pycode.values import Values
from hpushim.pycode.walk import walk

from ..analysis.kinds import defines_method, enclosing_class, is_in_module, is_module_class
from ..analysis.names import FOREIGN, is_none, word
from ..analysis.placement import is_on_device, reaches_a_device
from .training import is_called_in_step


class Is:
    """What a value may be: bits of a number, several when it may be several things. They are joined for every edge, where an enumeration's cost most."""

    TENSOR = 1 << 0
    MASK = 1 << 1  #: a tensor of truth values
    CPU = 1 << 2  #: a tensor that lies on the CPU
    MODULE = 1 << 3
    OPTIMIZER = 1 << 4
    NUMBER = 1 << 5
    SIZE = 1 << 6  #: ``x.shape``
    OTHER = 1 << 7  #: a list, a text, an array of numpy
    OWN = 1 << 8  #: an object of a class of the file that is no module
    NONE = 1 << 9
    FIGURE = 1 << 10  #: a number that something is worked out with
    READ = 1 << 11  #: what was read from a tensor to the host: an array, a list
    UNSEEN = 1 << 12  #: nothing in the file shows what it is
    LIKELY = 1 << 13  #: used as tensors are
    LIKELY_MASK = 1 << 14  #: what such a value is compared with
    PART = 1 << 15  #: what is no number, or not known to be one, that something is worked out with


NOTHING = 0
TENSORS = Is.TENSOR | Is.MASK | Is.CPU
_LIKELY = Is.LIKELY | Is.LIKELY_MASK
_ON_HOST = Is.CPU | Is.READ | Is.NUMBER | Is.SIZE
#: What may be beside without a doubt about the rest.
_BESIDE = Is.NONE | Is.FIGURE | Is.PART | _LIKELY

#: What the signatures call kinds; what is missing here is something else.
_RETURNED = {"tensor": Is.TENSOR, "module": Is.MODULE, "optimizer": Is.OPTIMIZER, "number": Is.NUMBER, "bool": Is.NUMBER, "size": Is.SIZE, "none": Is.NONE, "?": Is.UNSEEN, "": Is.UNSEEN}  # fmt: skip
#: Libraries whose functions give arrays, tables or pictures.
_ARRAYS = FOREIGN | {"numpy", "pandas", "scipy", "PIL", "sklearn"}
_MODELS = ("torchvision.models.", "timm.create_model")
#: Methods and functions of torch that give truth values, element by element; the stubs say only that they give a tensor.
_MASKS = frozenset(["eq", "ne", "gt", "lt", "ge", "le", "bool", "isnan", "isinf", "isfinite", "isin", "logical_and", "logical_or", "logical_not", "logical_xor", "all", "any"])  # fmt: skip
#: Methods that give the same values in another shape.
_SHAPED = frozenset(["unsqueeze", "expand", "expand_as", "repeat", "view", "reshape", "squeeze", "flatten", "t", "T", "mT", "transpose", "permute", "clone", "detach", "contiguous"])  # fmt: skip
#: Functions that put tensors together: of truth values, they give such a one.
_JOINED = frozenset(f"torch.{name}" for name in ("stack", "cat", "concat", "hstack", "vstack"))
#: What says a number or sizes, of a tensor as of an array.
_READ = frozenset(["shape", "size", "numel", "dim", "ndim", "item"])
_OF_MODULES = frozenset(["weight", "bias"])
#: Methods that give tensors, whatever has them.
_OF_TENSORS = frozenset(["parameters", "named_parameters", "buffers", "named_buffers"])
_ON_CPU = frozenset(["cpu", "pin_memory"])
_MOVES = frozenset(["cuda", "hpu", "to"])
#: How a value comes somewhere unchanged.
_PLAIN_EDGES = Values.SAME | {"given", "defined"}
_BOOL = ("torch.bool", "torch.BoolTensor")
_CLASSES = ("torch.Tensor", "torch.nn.Module", "torch.nn.Parameter", "torch.nn.parameter.Parameter")
#: What arrays of numpy and tables of pandas have as well.
_OF_ARRAYS = frozenset((
    "all", "any", "argmax", "argmin", "argsort", "clip", "cumprod", "cumsum", "cummax", "cummin", "data", "diagonal", "diff", "dot", "dtype", "flatten", "item", "itemsize", "log", "map",
    "max", "mean", "median", "min", "mode", "name", "names", "nbytes", "ndim", "nonzero", "prod", "put", "quantile", "ravel", "reshape", "resize", "round", "select", "shape", "size",
    "sort", "squeeze", "std", "sub", "sum", "swapaxes", "take", "tolist", "trace", "transpose", "type", "unique", "unstack", "var", "view", "where", "abs", "add", "div", "mul",
    "ne", "eq", "gt", "lt", "ge", "le", "pow", "floordiv", "truediv", "mod", "rename", "repeat", "T", "mT", "apply", "align", "stack", "stride", "rot90", "inner",
    "outer", "cross", "log2", "exp", "sqrt", "index", "is_shared",
))  # fmt: skip
#: Methods that only arrays of numpy, matrices of scipy and tables of pandas have.
_ARRAYS_ALONE = frozenset(["astype", "todense", "toarray", "tocsr", "tocoo", "to_numpy"])
_MASK_NAMES = re.compile(r"(.*_)?masks?")
_COMPARES = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_BITS = (ast.BitAnd, ast.BitOr, ast.BitXor)
_PLAIN = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp, ast.GeneratorExp, ast.JoinedStr, ast.Tuple, ast.Lambda)  # fmt: skip
_NUMBERS = frozenset(["len", "int", "float", "round", "abs", "bool", "ceil", "floor", "prod", "isinstance", "hasattr", "device_count"])  # fmt: skip
_TEXTS = frozenset(["str", "repr", "list", "dict", "set", "tuple", "sorted", "range", "zip", "enumerate", "open", "type"])  # fmt: skip
_TENSOR_NOTE = re.compile(r"(torch\.)?\w*[Tt]ensor( \| None)?")
_NOTES = dict.fromkeys(("int", "float", "bool"), Is.NUMBER) | dict.fromkeys(("str", "dict", "list"), Is.OTHER)  # fmt: skip


def _members(owner: str) -> dict[str, signatures.Signature]:
    return signatures.members(f"torch.{owner}")


class Kinds(Circular):
    """The answers for one file; request it as a view."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._values = module.view(Values)
        self._spelled: dict[str, bool] = {}
        self._again: dict[ast.expr, frozenset[str]] = {}
        self._answers = Answers[int](self._own, self._edges, _carry, _needs)
        self._used: Answers[int] = Answers(
            self._use, self._values.uses, lambda edge, known: known if edge.same else NOTHING
        )

    def has(self, node: ast.AST, kinds: int) -> bool:
        """May the value be one of these kinds?"""
        return self._answers.has(At(node), kinds)

    def is_surely(self, node: ast.AST, kind: int) -> bool:
        """Is the value one of these kinds, whatever way it came?"""
        return not self.has(node, ~(kind | _BESIDE)) and self.has(node, kind)

    def is_used(self, node: ast.AST) -> bool:
        """Is the value used as only tensors and torch modules are, where it goes or where the file has the same name?

        A method that the project defines somewhere says nothing: it may be the project's own object.
        """
        if self._is_spelled(word(node)):
            return True
        at: ast.AST | Cell | None = node
        if isinstance(node, ast.Name):
            at = self._values.variable(node)
        elif isinstance(node, ast.Attribute):
            at = self._values.attribute(node)
        return at is not None and bool(self._used.of(At(at)))

    def _is_spelled(self, name: str) -> bool:
        known = self._spelled.get(name)
        if known is None:
            index = self._module.index
            owners: list[ast.expr] = [*index.names(name), *index.attributes(name)] if name else []
            known = self._spelled[name] = any(self._use(At(owner)) for owner in owners)
        return known

    # -- what a node says by itself ---------------------------------------------------------

    def _own(self, at: At) -> int:
        node, way = at
        if way:
            if isinstance(node, ast.Call) and self._named(node.func) == "torch.from_numpy":
                return Is.CPU
            return Is.TENSOR if self._signature(node) and self._gives_several(node) else NOTHING
        match node:
            case Cell():
                found = Is.LIKELY if any(map(self.is_tensors_use, node.loads)) else NOTHING
                if self._values.sources(at):
                    return found
                if found and _MASK_NAMES.fullmatch(node.name):
                    found |= Is.LIKELY_MASK
                return found | Is.UNSEEN if node.kind == "variable" else found
            case ast.Constant():
                return Is.NONE if node.value is None else Is.NUMBER if isinstance(node.value, (int, float)) else Is.OTHER  # fmt: skip
            case ast.Call():
                return self._own_call(node)
            case ast.arg():
                return self._own_parameter(node)
            case ast.Compare():
                return Is.FIGURE if isinstance(node.ops[0], _COMPARES) else Is.NUMBER
            case ast.UnaryOp(op=ast.Not()):
                return Is.NUMBER
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                return Is.OTHER
            case ast.BinOp() | ast.UnaryOp():
                return NOTHING
            case ast.Name() | ast.Attribute():
                name = self._named(node)
                if name.startswith("torch."):
                    return Is.OTHER
                if isinstance(node, ast.Attribute):
                    if self._module.source(node) in self._module.view(_buffers):
                        return Is.TENSOR
                    known = node.attr in _members("Tensor")  # what it is read from says what it is
                    return (
                        NOTHING
                        if known or self._is_stored(self._values.attribute(node))
                        else Is.UNSEEN
                    )
                return NOTHING if any(self._edges(at)) else Is.UNSEEN
        if isinstance(node, _PLAIN):
            return Is.OTHER
        return NOTHING if any(self._edges(at)) else Is.UNSEEN

    def _own_call(self, node: ast.Call) -> int:
        func, name = node.func, self._named(node.func)
        last = name.rpartition(".")[2]
        if name == "torch.from_numpy":
            return Is.CPU
        signature = self._signature(node)
        if signature is not None:
            found = NOTHING
            for kind in signature.kinds:
                found |= _RETURNED.get(kind, Is.OTHER)
            if "tensor" in signature.kinds:
                found = Is.MASK if last in _MASKS or self._is_of_bools(node) else found & ~Is.OTHER
            return found
        if name.startswith(_MODELS) or last == "from_pretrained" or getattr(func, "attr", "") == "from_pretrained":  # fmt: skip
            return Is.MODULE
        if name.partition(".")[0] in _ARRAYS:
            return Is.OTHER
        if last in _NUMBERS and name.startswith(("builtins.", "math.", "torch.")):
            return Is.NUMBER
        if last in _TEXTS and name.startswith("builtins."):
            return Is.OTHER
        if isinstance(func, ast.Name) and func.id == "super":
            owner = enclosing_class(self._module, node)
            return Is.MODULE if owner is not None and is_module_class(self._module, owner) else Is.UNSEEN  # fmt: skip
        made = self._values.calls.class_named(func)
        if made is not None:
            return Is.MODULE if is_module_class(self._module, made) else Is.OWN
        if isinstance(func, ast.Attribute) and not name:
            if func.attr in _ARRAYS_ALONE:
                return Is.OTHER
            if gives_tensor(func.attr) and func.attr in _tensors_alone() and not defines_method(self._module, func.attr):  # fmt: skip
                return Is.LIKELY
            return NOTHING
        return NOTHING if any(self._edges(At(node))) else Is.UNSEEN

    def _own_parameter(self, node: ast.arg) -> int:
        function = self._module.parent(self._module.parent(node) or node)
        owner = self._module.parent(function) if isinstance(function, FUNCTIONS) else None
        if isinstance(owner, ast.ClassDef) and isinstance(function, ast.FunctionDef):
            first = (*function.args.posonlyargs, *function.args.args)[:1]
            if node in first and not function.decorator_list:
                return Is.MODULE if is_module_class(self._module, owner) else Is.OWN
        note = self._module.source(node.annotation) if node.annotation is not None else ""
        if "Tensor" in note or note == "torch.tensor":
            return Is.TENSOR if _TENSOR_NOTE.fullmatch(note) else Is.LIKELY | Is.UNSEEN  # fmt: skip
        if note in _NOTES:
            return _NOTES[note]
        if note.endswith("nn.Module"):
            return Is.MODULE
        sources = [*self._values.sources(At(node))]
        made = getattr(function, "name", "") == "__init__" or any(edge.how == "default" and isinstance(edge.node, ast.Constant) and edge.node.value is not None for edge in sources)  # fmt: skip
        likely = (
            Is.LIKELY if not note and not made and is_in_module(self._module, node) else NOTHING
        )
        if likely and _MASK_NAMES.fullmatch(node.arg):
            likely |= Is.LIKELY_MASK
        known = any(edge.how != "default" for edge in sources)
        return likely | (NOTHING if known else Is.UNSEEN)

    def _named(self, node: ast.expr) -> str:
        """The full name of what is imported or built in."""
        name = self._module.qualified(node) or ""
        return "" if name.startswith("builtins.") and isinstance(node, ast.Attribute) else name

    def _is_of_bools(self, call: ast.Call) -> bool:
        kind = next((k.value for k in call.keywords if k.arg == "dtype"), None)
        if kind is None and word(call.func) in ("to", "type") and call.args:
            kind = call.args[-1]
        return kind is not None and self._named(kind) in _BOOL

    def _signature(self, node: ast.AST | Cell) -> signatures.Signature | None:
        name = self._named(node.func) if isinstance(node, ast.Call) else None
        return signatures.of(name) if name and name.startswith("torch.") else None

    # -- what else it depends on ------------------------------------------------------------

    def _edges(self, at: At) -> Iterator[Edge]:
        node, way = at
        if isinstance(node, ast.arg) and node.annotation is not None and not way and _TENSOR_NOTE.fullmatch(self._module.source(node.annotation)):  # fmt: skip
            return  # what it is, it says
        if isinstance(node, ast.Name) and not way and self._values.calls.is_self(node):
            # What it is, its parameter says: not what else a file does with it, which is most of the file.
            yield Edge(At(self._module.bindings(node)[0].node), "given")
            return
        inside = False
        if not isinstance(node, ast.BinOp) or way:
            guessed = isinstance(node, ast.Call) and self._is_guessed(node)
            for edge in self._values.sources(at):
                inside = inside or edge.at.node is not node
                if len(edge.at.way) > 1 and _recurs(edge.at.way):
                    continue
                if isinstance(node, Cell) and edge.how == "assigned" and self._is_again(node, edge.node):  # fmt: skip
                    yield Edge(edge.at, _how("home" if _comes_home(edge.node) else "again"))
                elif not guessed or edge.how != "returned":
                    yield edge
        if way and not (isinstance(node, Cell) and node.kind == "written"):
            inside = inside or self._gives_several(node)
            yield Edge(At(node, way[:-1]), _how("inner" if inside else "element"))
        match node:
            case ast.Call(args=[ast.List() | ast.Tuple() as parts, *_]) if (
                not way and self._named(node.func) in _JOINED
            ):
                for part in parts.elts:
                    yield Edge(At(part), _how("joined"))
            case ast.Call(func=ast.Attribute() as func):
                if self._signature(node) is None and not self._named(func):
                    form = "items" if way else "bools" if self._is_of_bools(node) else "method"
                    if func.attr == "to" and form == "method" and not self._names_a_device(node):
                        form = "keeps"
                    yield Edge(At(func.value), _how(f"{form} {func.attr}"))
                    if self._is_stored(self._values.attribute(func)):
                        yield Edge(At(func, way), _how("object"))
            case ast.Call() if not way and not self._named(node.func):
                yield Edge(At(node.func), _how("object"))
            case ast.Attribute() if not way and not self._named(node):
                if node.attr in _members("Tensor") or node.attr in _OF_MODULES:
                    stored = self._is_stored(self._values.attribute(node))
                    yield Edge(At(node.value), _how(f"{'seen' if stored else 'read'} {node.attr}"))
            case ast.BinOp() if not way:
                how = "bits" if isinstance(node.op, _BITS) or _is_both(node) else "operand"
                yield Edge(At(node.left), _how(how))
                yield Edge(At(node.right), _how(how))
            case ast.UnaryOp() if not way and not isinstance(node.op, ast.Not):
                yield Edge(At(node.operand), _how("bits" if isinstance(node.op, ast.Invert) else "operand"))  # fmt: skip
            case ast.Compare() if isinstance(node.ops[0], _COMPARES):
                if not any(isinstance(self._module.constant(side), str) for side in (node.left, *node.comparators)):  # fmt: skip
                    yield Edge(At(node.left), _how("sides"))

    def _is_again(self, cell: Cell, value: ast.AST | Cell) -> bool:
        """Is a variable given what is made of its own earlier value: ``x = x.numpy()``, ``loss, n = loss.item(), 1``?"""
        if cell.kind != "variable" or not isinstance(value, ast.expr):
            return False
        found = self._again.get(value)
        if found is None:
            found = self._again[value] = frozenset(part.id for part in walk(value) if isinstance(part, ast.Name))  # fmt: skip
        return cell.name in found

    def _is_stored(self, cell: Cell) -> bool:
        """Does the file say anywhere what the attribute holds?"""
        edges = self._values.sources(At(cell))
        return any(
            not isinstance(e.node, Cell)
            or (e.node.kind != "any attribute" and self._is_stored(e.node))
            for e in edges
        )

    def _is_guessed(self, call: ast.Call) -> bool:
        """Is a method that torch's objects have found by its name alone: ``x.cuda()``, where a class of the file has one?"""
        func = call.func
        return (
            isinstance(func, ast.Attribute)
            and (func.attr in _members("Tensor") or func.attr in _members("nn.Module"))
            and not self._values.calls.classes_of(func.value)
        )

    def _gives_several(self, node: ast.AST | Cell) -> bool:
        """Is it a call that gives tensors, one beside the other?"""
        signature = self._signature(node)
        if signature is None and isinstance(node, ast.Call):
            last = word(node.func)
            signature = _members("Tensor").get(last) or _members("nn.Module").get(last)
        return signature is not None and not {"tensor", "tensors"}.isdisjoint(signature.kinds)

    def _names_a_device(self, call: ast.Call) -> bool:
        """Does ``x.to(…)`` move? A dtype, and another tensor's dtype, leave it where it is."""
        given = [*call.args[:1], *(k.value for k in call.keywords if k.arg == "device")]
        name = self._named(given[0]) if given else "torch."
        return not name.startswith("torch.") and self._module.constant(given[0] if given else None) != "cpu"  # fmt: skip

    # -- what is done with it ---------------------------------------------------------------

    def is_tensors_use(self, node: ast.expr) -> bool:
        """Is ``node`` read as a tensor alone is, or handed to a function of torch that takes a tensor?"""
        parent = self._module.parent(node)
        if isinstance(parent, ast.Attribute):
            above = self._module.parent(parent)
            if parent.attr in ("size", "dim") and isinstance(above, ast.Call):
                return above.func is parent
            return parent.attr in _tensors_alone() and not defines_method(self._module, parent.attr)
        if isinstance(parent, ast.Call) and node in parent.args:
            signature = self._signature(parent)
            places = (
                [at for kind, _, at in signature.takes if kind == "tensor"] if signature else []
            )
            return any(at is not None and parent.args[at : at + 1] == [node] for at in places)
        return False

    def _use(self, at: At) -> int:
        """Is the value read here as only torch's are?"""
        node, way = at
        parent = self._module.parent(node) if isinstance(node, ast.expr) and not way else None
        used = (
            isinstance(parent, ast.Attribute)
            and parent.attr in _torchs_alone()
            and not defines_method(self._module, parent.attr)
            # `config.train.rate` is a setting: what methods of modules are is never read further.
            and (
                parent.attr in _members("Tensor")
                or not isinstance(self._module.parent(parent), ast.Attribute)
            )
        )
        return Is.LIKELY if used else NOTHING


def _buffers(module: Module) -> frozenset[str]:
    """``self.count`` for ``self.register_buffer("count", torch.zeros(1))``."""
    named = (module.constant(c.args[0]) for c in module.index.calls("register_buffer") if c.args[1:] and not is_none(c.args[1]))  # fmt: skip
    return frozenset(f"self.{name}" for name in named if isinstance(name, str))


def _comes_home(value: ast.AST | Cell) -> bool:
    """Does a value move to the CPU: ``x.cpu().float()``?"""
    return isinstance(value, ast.AST) and any(isinstance(part, ast.Attribute) and part.attr in _ON_CPU for part in walk(value))  # fmt: skip


def _how(text: str) -> How:
    """How an answer comes here from another, in words of this classifier's."""
    return cast("How", text)


_BUILTIN = frozenset(name for kind in (str, bytes, list, dict, set, int, float, complex, OrderedDict) for name in dir(kind))  # fmt: skip


def is_of_values(name: str) -> bool:
    """Is it what tensors, states of modules, or Python's own numbers, texts and containers have under a name?"""
    return name in _BUILTIN or name == "_metadata" or name in _members("Tensor")


def is_of_objects(name: str) -> bool:
    """Is it what tensors and torch's modules have under a name, weights among them?"""
    return name in _OF_MODULES or name in _members("Tensor") or name in _members("nn.Module")


def gives_tensor(method: str) -> bool:
    """Is it a method with which a tensor gives a tensor?"""
    known = _members("Tensor").get(method)
    return known is not None and "tensor" in known.kinds


@cache
def _tensors_alone() -> frozenset[str]:
    """What tensors have, and neither arrays nor Python's own types."""
    return frozenset(_members("Tensor")) - _OF_ARRAYS - _BUILTIN


@cache
def _torchs_alone() -> frozenset[str]:
    """What tensors or modules have, and none of Python's own types; what any object on a device has says nothing."""
    both = frozenset(_members("Tensor")) | frozenset(_members("nn.Module"))
    return both - _BUILTIN - {"to", "cuda", "data", "device", "type", "apply", "compile", "names", "log"}  # fmt: skip


def _recurs(way: Way) -> bool:
    """Does a way go through the same key twice? A table in itself, which a call of itself with ``**`` makes without end."""
    keys = [step for step in way if isinstance(step, str)]
    return len(set(keys)) < len(keys)


class _Through(NamedTuple):
    """What an answer becomes on its way: what goes on unchanged, and what something of it makes."""

    passes: int = NOTHING
    #: Something of the first makes the second, unless something of the third is there; nothing: it is made in any case.
    makes: tuple[tuple[int, int, int], ...] = ()


def _carry(edge: Edge, known: int) -> int:
    return known if edge.how in _PLAIN_EDGES else _apply(_through(edge.how), known)


def _apply(through: _Through, known: int) -> int:
    passes, makes = through
    found = known & passes
    for of, made, unless in makes:
        if (known & of or not of) and not known & unless:
            found |= made
    return found


def _needs(edge: Edge, wanted: int) -> Needed[int]:
    """What of an answer is enough for something that is wanted of what it becomes."""
    how = edge.how
    if how in _PLAIN_EDGES:
        return wanted, ()
    passes, makes = _through(how)
    found = wanted & passes
    for of, made, unless in makes:
        if made & wanted and not unless:
            found |= of
    # What goes without the second for what also makes something that is wanted, goes with it.
    others = [(of, unless & ~found) for of, made, unless in makes if made & wanted and (unless or not of)]  # fmt: skip
    for of, left in others:
        found |= of if not left else NOTHING
    return found, tuple(each for each in others if each[1] or not each[0])


_KEPT = TENSORS | _LIKELY | Is.MODULE
_WORKED_OUT = (
    (~(Is.NUMBER | Is.FIGURE | Is.SIZE | Is.NONE), Is.PART, 0),
    (Is.NUMBER | Is.FIGURE, Is.FIGURE, 0),
)
_OPERAND = _Through(Is.LIKELY | Is.TENSOR | Is.CPU, ((Is.MASK, Is.TENSOR, 0), *_WORKED_OUT))
_WAYS = {
    # Made of what it was before: it may be that at the places between.
    "again": _Through(_KEPT | Is.OPTIMIZER | Is.SIZE),
    "home": _Through(TENSORS ^ Is.CPU | _LIKELY, ((Is.CPU, Is.TENSOR, 0),)),  # on the device until then
    "slice": _Through(_KEPT | Is.SIZE | Is.OTHER | Is.UNSEEN),
    "inner": _Through(_KEPT, ((Is.SIZE, Is.NUMBER, 0),)),
    "element": _Through(_KEPT, ((Is.SIZE, Is.NUMBER, 0), (Is.UNSEEN | Is.OTHER | Is.OWN | Is.READ, Is.UNSEEN, 0))),
    "operand": _OPERAND,
    "added": _OPERAND,
    "bits": _Through(Is.LIKELY | Is.LIKELY_MASK | TENSORS, _WORKED_OUT),
    "joined": _Through(Is.MASK | Is.LIKELY_MASK),
    "sides": _Through(NOTHING, ((TENSORS, Is.MASK, 0), (Is.LIKELY, Is.LIKELY_MASK, 0))),
    "object": _Through(NOTHING, ((Is.MODULE, Is.LIKELY, 0), (Is.UNSEEN, Is.UNSEEN, Is.MODULE))),
}  # fmt: skip


@cache
def _through(how: str) -> _Through:
    form, _, name = how.partition(" ")
    return _member(form, name) if name else _WAYS.get(form, _Through())


def _member(how: str, name: str) -> _Through:
    """What a method or an attribute of a value gives."""
    passes = NOTHING if how == "seen" else Is.UNSEEN
    if name in _READ:  # of whatever it is
        passes, makes = NOTHING, [(NOTHING, _apply(_of_tensor(how, name), Is.TENSOR), Is.OTHER)]
    else:
        of_tensor = _of_tensor(how, name)
        passes, makes = passes | of_tensor.passes, [*of_tensor.makes]
    of_module = _members("nn.Module").get(name)
    if how == "items" and name in _OF_TENSORS:
        passes, makes = NOTHING, [(NOTHING, Is.TENSOR, 0)]
    elif how == "items":
        if of_module and "tensors" in of_module.kinds:
            makes.append((Is.MODULE, Is.TENSOR, 0))
    elif how in ("read", "seen") and name in _OF_MODULES:
        makes.append((Is.MODULE, Is.TENSOR, 0))
    elif of_module is not None:
        makes.append((Is.MODULE, _returned(of_module, Is.OTHER), 0))
    if how != "items":
        of_sizes = Is.SIZE if name == "numel" else 0
        makes += [(of_sizes, Is.NUMBER, 0)] if of_sizes else []
        makes.append((Is.OTHER, Is.OTHER, of_sizes))
    return _Through(passes, tuple(makes))


def _of_tensor(how: str, name: str) -> _Through:
    signature = _members("Tensor").get(name)
    if signature is None:
        return _Through()
    kinds = set(signature.kinds)
    if how == "items":
        several = TENSORS if kinds & {"tensor", "tensors"} else NOTHING
        return (
            _Through(NOTHING, ((several, Is.TENSOR, 0), (Is.LIKELY, Is.LIKELY, several)))
            if several
            else _Through(Is.LIKELY)
        )
    if "tensor" not in kinds:
        return _Through(NOTHING, ((TENSORS | _LIKELY, _returned(signature, Is.READ), 0),))
    if name in _ON_CPU:
        return _Through(NOTHING, ((TENSORS | _LIKELY, Is.CPU, 0),))
    if how == "bools" or name in _MASKS:
        return _Through(NOTHING, ((TENSORS, Is.MASK, 0), (_LIKELY, Is.LIKELY_MASK, TENSORS)))
    if name in _SHAPED or how == "keeps":
        return _Through(TENSORS | _LIKELY)
    likely = (_LIKELY, Is.LIKELY, 0)
    if name in _MOVES:
        return _Through(NOTHING, (likely, (TENSORS, Is.TENSOR, 0)))
    on_device = Is.TENSOR | Is.MASK
    return _Through(NOTHING, (likely, (on_device, Is.TENSOR, 0), (Is.CPU, Is.CPU, on_device)))


def _returned(signature: signatures.Signature, lists: int) -> int:
    found = NOTHING
    for kind in signature.kinds:
        found |= lists if kind in ("array", "list") else _RETURNED.get(kind, Is.OTHER)
    return found


# -- what rules ask -------------------------------------------------------------------------


def proven(module: Module, node: ast.expr | None) -> bool:
    """Is the expression surely a tensor or a torch module?"""
    if node is None:
        return False
    return module.view(Kinds).is_surely(node, TENSORS | Is.MODULE) or _is_checked(module, node)


def _is_checked(module: Module, node: ast.expr) -> bool:
    """Does a condition around a name say so: ``if isinstance(x, torch.Tensor):``?"""
    below: ast.AST = node
    for above in module.ancestors(node) if isinstance(node, ast.Name) else ():
        if isinstance(above, FUNCTIONS):
            return False
        if isinstance(above, (ast.If, ast.IfExp)):
            body = above.body if isinstance(above.body, list) else [above.body]
            joined = isinstance(above.test, ast.BoolOp) and isinstance(above.test.op, ast.And)
            tests = above.test.values if joined else [above.test]  # type: ignore[attr-defined]
            if below in body and any(_checks_kind(module, test, node) for test in tests):
                return True
        below = above
    return False


def _checks_kind(module: Module, test: ast.expr, node: ast.expr) -> bool:
    """``isinstance(x, torch.Tensor)``, ``torch.is_tensor(x)``."""
    if not isinstance(test, ast.Call) or not test.args or word(test.args[0]) != word(node):
        return False
    called = module.qualified(test.func)
    if called == "builtins.isinstance" and len(test.args) == 2:
        kinds = test.args[1].elts if isinstance(test.args[1], ast.Tuple) else test.args[1:]
        return all(module.qualified(kind) in _CLASSES for kind in kinds)
    return called == "torch.is_tensor"


def is_model(module: Module, node: ast.expr) -> bool:
    """Is the expression surely a torch module?"""
    return module.view(Kinds).is_surely(node, Is.MODULE)


def used_as_torch(module: Module, node: ast.expr) -> bool:
    """Is the name, or the attribute, used as only tensors and torch modules are?"""
    return isinstance(node, (ast.Name, ast.Attribute)) and module.view(Kinds).is_used(node)


def becomes_tensor(module: Module, call: ast.Call) -> bool:
    """Is the result of the call read as only a tensor is, in another shape maybe: ``x.nonzero().squeeze().cuda()``?"""
    each: ast.AST | None = call
    while isinstance(each, ast.Call):
        if module.view(Kinds).is_tensors_use(each):
            return True
        method = module.parent(each)
        each = module.parent(method) if isinstance(method, ast.Attribute) and gives_tensor(method.attr) else None  # fmt: skip
    return False


def becomes_torch(module: Module, call: ast.Call) -> bool:
    """Is the result of the call used as only tensors and torch modules are?"""
    return module.view(Kinds).is_used(call)


def is_tensor(module: Module, node: ast.expr) -> bool:
    """May ``node`` be a tensor on the device: one by how it is made, or by how it is used?"""
    if not may_be_on_device(module, node):
        return False
    kinds = module.view(Kinds)
    if not kinds.has(node, TENSORS ^ Is.CPU | _LIKELY) or kinds.has(node, Is.OTHER | Is.OWN | Is.MODULE):  # fmt: skip
        return False
    return kinds.has(node, TENSORS ^ Is.CPU) or not kinds.has(node, _ON_HOST)


def may_be_on_device(module: Module, node: ast.expr) -> bool:
    """Does the file use a device, or a torch module what is there, or what a step of a project with one calls?"""
    return (
        is_in_module(module, node)
        or module.view(is_on_device)
        or (module.view(reaches_a_device) and is_called_in_step(module, node))
    )


def is_other(module: Module, node: ast.expr) -> bool:
    """Is the value no tensor of the device: an array, a list, something read to the host?"""
    kinds = module.view(Kinds)
    return not kinds.has(node, TENSORS ^ Is.CPU | Is.LIKELY) and kinds.has(node, Is.OTHER | Is.OWN | _ON_HOST)  # fmt: skip


def stays_on_host(module: Module, node: ast.AST) -> bool:
    """Is ``node`` a tensor that ``torch.from_numpy`` makes and that nothing moves to a device?"""
    return module.view(Kinds).is_surely(node, Is.CPU)


def lies_on_host(module: Module, node: ast.expr, depth: int = 8) -> bool:
    """Is ``node`` computed of tensors that torch makes on the CPU where nobody says otherwise: ``torch.arange(n)[mask].unique()``?

    Operators take no tensors of two devices, so one such tensor in a list shows where the others are.
    """
    if stays_on_host(module, node) or makes_on_host(module, node):
        return True
    if depth == 0:
        return False

    def inner(one: ast.expr) -> bool:
        return lies_on_host(module, one, depth - 1)

    match node:
        case ast.Name():
            given = _given_before(module, node) or module.values(node)
            return bool(given) and all(one is not node and inner(one) for one in given)
        case ast.Tuple() | ast.List():
            return any(map(inner, node.elts))
        case ast.Subscript():
            return inner(node.value)
        case ast.UnaryOp():
            return inner(node.operand)
        case ast.BinOp():
            return all(isinstance(one, ast.Constant) or inner(one) for one in (node.left, node.right))  # fmt: skip
        case ast.Compare():
            return inner(node.left)
        case ast.Call(func=ast.Attribute() as func):
            if any(k.arg == "device" for k in node.keywords) or func.attr in _MOVES | {"type_as"}:
                return False
            if func.attr in _ON_CPU:
                return True
            if (module.qualified(func) or "").startswith("torch."):
                return bool(node.args) and inner(node.args[0])
            return module.qualified(func) is None and inner(func.value)
    return False


def _given_before(module: Module, name: ast.Name) -> list[ast.expr]:
    """What a name is given by the last statement that is run before this in any case, and by those between, as ``x = x.cpu()``."""
    for inside in (name, *module.ancestors(name)):
        if isinstance(inside, FUNCTIONS):
            break
        block, place = module.place(inside) if isinstance(inside, ast.stmt) else ([], 0)
        for earlier in reversed(block[:place]):
            if isinstance(earlier, ast.Assign) and any(isinstance(each, ast.Name) and each.id == name.id for each in earlier.targets):  # fmt: skip
                between = [each.value for each in module.bindings(name) if each.value is not None and earlier.lineno < each.value.lineno < name.lineno]  # fmt: skip
                return [earlier.value, *between]
    return []


def makes_on_host(module: Module, node: ast.expr) -> bool:
    """Is it a call of torch that makes a tensor of nothing on a device, and names none: ``torch.zeros(2)``?"""
    if not _is_factory(module, node):
        return False
    given = {keyword.arg for keyword in node.keywords}  # type: ignore[attr-defined]
    chosen = module.holds("set_default_device") or module.holds("set_default_tensor_type")
    return not chosen and not given & {"device", "out", None}


def makes_in_full(module: Module, node: ast.expr) -> bool:
    """Does it make a tensor of torch's default type, or of another that is given and is no half: ``torch.zeros(2, dtype=torch.float32)``?"""
    if not _is_factory(module, node) or module.holds("set_default_dtype"):
        return False
    types = [k.value for k in node.keywords if k.arg in ("dtype", None)]  # type: ignore[attr-defined]
    return all((module.qualified(each) or "half").rpartition(".")[2] not in ("half", "float16", "bfloat16") for each in types)  # fmt: skip


def _is_factory(module: Module, node: ast.expr) -> bool:
    name = module.qualified(node.func) or "" if isinstance(node, ast.Call) else ""
    signature = signatures.of(name) if name.startswith("torch.") else None
    return (
        signature is not None
        and "tensor" in signature.kinds
        and signature.parameter("device") is not None
        and not name.endswith("_like")
    )


def _is_both(node: ast.expr) -> bool:
    """``(x > 0) * (x < 1)``, which is true where both are."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, *_BITS)):
        return _is_both(node.left) and _is_both(node.right)
    return isinstance(node, ast.Compare) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert))  # fmt: skip


def is_mask(module: Module, node: ast.expr) -> bool:
    """Is ``node`` a tensor of truth values, by how it is made, or by its name where nothing else is seen?"""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert) and is_tensor(module, node.operand):  # fmt: skip
        return True  # of numbers it would be none that selects
    last = _given_before(module, node) if isinstance(node, ast.Name) else []
    if last and all(module.view(Kinds).is_surely(each, Is.MASK) for each in last):
        return True  # whatever it was before
    named = isinstance(node, (ast.Name, ast.Attribute)) and _MASK_NAMES.fullmatch(word(node))
    kinds, others = module.view(Kinds), ~(TENSORS | Is.LIKELY_MASK | _BESIDE | Is.UNSEEN)
    if not named and kinds.has(node, others):
        return False
    if kinds.has(node, Is.MASK | Is.LIKELY_MASK):
        return not kinds.has(node, others)
    return bool(named) and (is_tensor(module, node) or _is_given(module, node))


def _is_given(module: Module, node: ast.expr) -> bool:
    """Does a call give the value, of which nothing is seen: ``mask = self.make_mask(x.shape)``?"""
    if not isinstance(node, ast.Name) or module.view(Kinds).has(node, ~(Is.UNSEEN | _BESIDE)):
        return False
    return any(isinstance(each, ast.Call) for each in module.view(Values).origins(node))


def is_count(module: Module, node: ast.expr) -> bool:
    """Is the value surely a number, or sizes: ``len(xs)``, ``x.shape``, ``x.size(0) * 2``?"""
    kinds = module.view(Kinds)
    return kinds.is_surely(node, Is.NUMBER | Is.SIZE | Is.FIGURE) and not kinds.has(node, Is.PART)


def is_read_off(module: Module, node: ast.expr | None, depth: int = 5) -> bool:
    """Is a number worked out of what a tensor holds, or of the sizes of a batch's parts: ``lengths[i]``, ``int(n)``, ``mask.sum().item()``?

    A parameter itself may be any number.
    """
    if node is None or depth == 0:
        return False

    def inner(one: ast.expr) -> bool:
        return is_read_off(module, one, depth - 1)

    match node:
        case ast.Name():
            return any(one is not node and inner(one) for one in module.values(node)) or (
                module.view(Kinds).has(node, Is.TENSOR) and proven(module, node)
            )
        case ast.BinOp():
            return inner(node.left) or inner(node.right)
        case ast.Subscript() if not isinstance(node.slice, (ast.Slice, ast.Tuple, ast.Constant, ast.UnaryOp)):  # fmt: skip
            return is_tensor(module, node) and not lies_on_host(module, node)
        case ast.Call(func=ast.Name(id="int" | "min" | "max"), args=[*given]):
            return any(inner(one) or is_tensor(module, one) or _is_of_parts(one) for one in given)
        case ast.Call(func=ast.Attribute(attr="item") as func):
            return not is_other(module, func.value) and not lies_on_host(module, func.value)
        case ast.Call(func=ast.Attribute(attr="sum" | "max" | "min") as func, args=given, keywords=[]):  # fmt: skip
            of_torch = module.qualified(func) is not None
            one = given[0] if of_torch and given else func.value
            return len(given) == of_torch and is_tensor(module, node) and not lies_on_host(module, one)  # fmt: skip
    return False


def _is_of_parts(node: ast.expr) -> bool:
    """``len(x) for x in targets``: the sizes of the parts of what is given, other than those of the object itself."""
    match node:
        case ast.ListComp(elt=size, generators=[ast.comprehension(iter=ast.Name(), target=ast.Name(id=part))]) | ast.GeneratorExp(elt=size, generators=[ast.comprehension(iter=ast.Name(), target=ast.Name(id=part))]):  # fmt: skip
            called = any(word(each) in ("len", "shape", "size") for each in walk(size) if isinstance(each, (ast.Name, ast.Attribute)))  # fmt: skip
            return called and any(isinstance(each, ast.Name) and each.id == part for each in walk(size))  # fmt: skip
    return False
