"""Where a value goes: does a string reach a place that takes a device?

A device text is rewritten when there is evidence that it is one: it is given to a torch function that
takes a device, is beside ``"cpu"``, is stored under a name such as ``device``, or flows to such a place.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

from hpushim.compare import texts
from hpushim.compare.inside import is_changed_inside
from hpushim.compare.subjects import OF_SETS, SET_METHODS, Holds
from hpushim.compare.subjects import Evidence as Subjects
from hpushim.engine.python.module import Module
from hpushim.matrix import signatures
from hpushim.pycode.answers import Answers, Circular
from hpushim.pycode.cells import CHANGED, LOOK_UP, PARTS, is_enum
from hpushim.pycode.places import SAME, At, Cell, Edge, How, Part, Way, last_name
from hpushim.pycode.values import Values

from .autocast import GENERIC
from .device_texts import device_name, glued, is_type_of_text, other_device, read
from .entry import PARSES
from .names import foreign
from .roles import Evidence, Role
from .spelled_names import is_name, part_of_name

#: What a place is to the rules, by the function; ``map_location`` is one of all that read a checkpoint.
_ROLES = {"torch.device": Role.DEVICE, "torch.set_default_device": Role.DEFAULT}
#: Calls whose device argument belongs to rules of precision and of distributed training.
_ELSEWHERE = (
    "torch.autocast",
    "torch.amp.",
    "torch.cuda.amp.",
    "torch.is_autocast_",
    "torch.get_autocast_",
    "torch.set_autocast_",
    "torch.distributed.",
    "lightning.",
    "pytorch_lightning.",
)
#: Methods of unknown objects that take any text: an argument of theirs shows nothing.
ANY_TEXT = frozenset((
    "print", "write", "title", "header", "subheader", "caption", "markdown", "info", "debug", "warning", "warn", "error", "critical", "exception", "log",
    "append", "add", "insert", "extend", "remove", "discard", "join", "format", "input", "getattr", "hasattr", "delattr", "isinstance",
    "exec", "eval", "compile", "run", "check_output", "check_call", "Popen", "system", "exists", "isfile", "isdir", "open",
    "match", "search", "sub", "fullmatch", "findall", "find", "rfind", "index", "count", *CHANGED, *PARTS,
))  # fmt: skip
#: Methods that search a text for another, or cut it out; that search a list for one of its elements; functions of two equals; of a pattern.
TESTS = CHANGED | PARTS | {"startswith", "endswith", "find", "rfind", "index", "rindex", "count", "__contains__", "__eq__", "__ne__"}  # fmt: skip
_COUNTED = frozenset(("index", "count", "remove", "discard", "__contains__"))
PAIRS = frozenset(
    ("eq", "ne", "contains", "assertEqual", "assertNotEqual", "assertIn", "assertNotIn")
)
SEARCHES = frozenset(("match", "search", "fullmatch", "fnmatch", "fnmatchcase", "findall", "finditer", "sub", "subn"))  # fmt: skip
#: What reads a text as a configuration or a command line.
_PARSERS = frozenset(("json.loads", "ast.literal_eval", "shlex.split", "safe_load", "full_load", "loads", "read_string", "yaml.load", "omegaconf.OmegaConf.create", *PARSES))  # fmt: skip
#: Ways into and out of functions.
_FAR: frozenset[How] = frozenset(("argument", "returned"))
_OPTION_PARTS = ("default", "choices", "const", "value", "default_factory", "options")
#: Beginnings of functions that ask instead of choosing.
_QUESTIONS = ("is_", "has_", "supports_", "count_", "list_")


def _device_parameter(name: str) -> tuple[str, int | None]:
    """Name and place of the parameter of torch's that takes a device; nothing for a function without one."""
    signature = signatures.of(name) if name.startswith("torch.") else None
    return (signature and signature.parameter("device")) or ("", None)


def _takes_word(name: str) -> bool:
    """Is it one of the autocast family that only takes the word, by place or as ``device_type``? No other rule has them."""
    signature = signatures.of(name) if name.startswith("torch.") else None
    return (
        signature is not None
        and signature.form == "function"
        and not name.startswith("torch.distributed.")
        and any(written == "device_type" for _, written, _ in signature.takes)
    )


class Flow(Circular):
    """Follows values through one file: to the places that take a device, and to what they are compared with or looked up in.

    A text is a device where one of these is: ``kind == x.device.type`` shows as much of ``kind`` as ``torch.zeros(1, device=kind)``.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self._values = module.view(Values)
        self._subjects = module.view(Subjects)
        self._known: dict[ast.AST, Evidence | None] = {}
        #: What a list says of its members.
        self._members: dict[ast.AST, Evidence | None] = {}
        self._questions: dict[tuple[ast.AST | Cell, bool], Cell] = {}
        self._reaches = Answers[int](self._shows, self._edges)
        #: Whether a value goes to a library with devices of its own, and whether it is assessed where it is or further on.
        self._elsewhere = Answers[int](self._leaves, self._on)
        self._here = Answers[int](lambda at: not isinstance(at.node, Cell) and self._assessed(at) is not None, self._on)  # fmt: skip

    def use(self, node: ast.AST) -> Evidence | None:
        """The evidence that ``node``'s value is a device, None without any."""
        if node not in self._known:
            self._known[node] = self._found(node)
        return self._known[node]

    def is_parsed(self, node: ast.AST) -> bool:
        """Is a text read as a configuration or a command line: ``yaml.safe_load(text)``, ``parse_args(text.split())``?"""
        reached = self._values.reach(node, self._values.uses, SAME | {"part"})
        calls = (self.module.parent(e.node) if isinstance(e.node, ast.keyword) else e.node for e in reached if e.how == "passed" and isinstance(e.node, ast.AST))  # fmt: skip
        return any(
            isinstance(call, ast.Call)
            and (last_name(call.func) in _PARSERS or self.module.qualified(call.func) in _PARSERS)
            for call in calls
        )

    def device_like(self, node: ast.AST | None) -> bool:
        """May the expression's value be compared with a device string?"""
        if not isinstance(node, ast.expr):
            return False
        return self._subjects.is_device(node) or self._reaches.has(self._ask(At(node)), True)

    def is_reading(self, node: ast.expr) -> bool:
        """Was the value surely read from a device?"""
        return self._subjects.is_reading(node)

    def is_composed(self, node: ast.expr) -> bool:
        """Is the value a text with a device's in it, and no device?"""
        return self._subjects.is_composed(node) and not self._subjects.is_reading(node)

    # -- forward ----------------------------------------------------------------------------

    def _found(self, node: ast.AST) -> Evidence | None:
        """What the expressions around show themselves comes first; then where it is stored or handed on."""
        beside: Evidence | None = None
        todo = [At(node)]
        later: list[At] = []
        for at in todo:  # grows
            found = self._assessed(at)
            if found is not None and found.role is not Role.BRANCH:
                return found
            beside = beside or found
            for edge in self._edges(at):
                (later if isinstance(edge.node, Cell) else todo).append(edge.at)
        reached = any(self._reaches.has(at, True) for at in later)
        if not (reached or beside) or self.goes_elsewhere(node):
            return None
        return Evidence(Role.NAME, node) if reached else beside

    def _edges(self, at: At) -> Iterator[Edge]:
        """Where the value goes on, and what it is compared with; not into a library with devices of its own, not into what only prints."""
        if isinstance(at.node, Cell) and at.node.kind == "read by":
            yield from self._back(at)
            return
        for edge in self._values.uses(at):
            if edge.same or edge.how == "part" or (edge.how == "text" and _is_whole(edge.node)):
                yield edge
            elif edge.how == "passed" and last_name(getattr(edge.node, "func", None)) == "compile":
                yield edge  # a pattern
        for other in self._read_by(at):
            yield Edge(self._ask(other), "compared")

    def _ask(self, at: At, *, far: bool = False) -> At:
        """The place of the question whether a value is a device; ``far`` is beyond a call, which other values may share."""
        cell = self._questions.get((at.node, far))
        if cell is None:
            cell = self._questions[at.node, far] = Cell("read by", "far" if far else "", at.node)
        return At(cell, at.way)

    def _back(self, at: At) -> Iterator[Edge]:
        """From a compared value to what it is made of, and to where its variable goes besides."""
        assert isinstance(at.node, Cell)
        owner, way, far = at.node.owner, at.way, at.node.name == "far"
        assert owner is not None
        for edge in self._values.sources(At(owner, way)):
            if (
                edge.same
                or edge.how in ("part", "given")
                or (edge.how == "text" and _is_whole(owner))
            ):
                yield Edge(self._ask(edge.at, far=far or edge.how in _FAR), edge.how)
        if isinstance(owner, Cell) and not far:
            yield Edge(At(owner, way), "name")
            if way[:1] == (Part.ITEM,):
                yield Edge(At(owner, (Part.KEY, *way[1:])), "name")
        elif not isinstance(owner, Cell) and read(owner) is not None:
            yield Edge(At(owner), "name")

    def _shows(self, at: At) -> int:
        if not isinstance(at.node, Cell) or at.node.kind != "read by":
            return self._assessed(at) is not None
        owner = at.node.owner
        if not at.way and isinstance(owner, ast.expr):
            if (text := read(owner)) is not None:
                return text.surely
            if is_type_text(owner):
                return True
            return (self._subjects.is_composed(owner) or self._subjects.is_device(owner)) and not is_changed_inside(owner)  # fmt: skip
        assert owner is not None
        return bool(self._subjects.holds(owner, at.way) & (Holds.DEVICE | Holds.READING))

    def _read_by(self, at: At) -> Iterator[At]:
        """What a value is compared with, looked up in or searched for in: one is as much a device as the other."""
        node, way = at
        parent = self.module.parent(node) if isinstance(node, ast.AST) else None
        method = parent if isinstance(parent, ast.Attribute) else None
        if method is not None:
            parent = self.module.parent(method)
            if isinstance(parent, ast.Call) and parent.func is method and parent.args and (way or method.attr in TESTS or method.attr in SEARCHES):  # fmt: skip
                yield from self._in_call(parent, method.attr, way)
            return
        match parent:
            case ast.IfExp() if node is not parent.test and not self._is_word(parent):
                yield At(parent.orelse if node is parent.body else parent.body, way)
            case ast.BoolOp():
                yield from (At(value, way) for value in parent.values if value is not node)
            case ast.Compare():
                sides = (parent.left, *parent.comparators)
                for operator, left, right in zip(parent.ops, sides, sides[1:], strict=False):
                    inside = isinstance(operator, (ast.In, ast.NotIn))
                    if node is left:
                        yield from (At(right, (Part.ITEM,)), At(right)) if inside else (At(right, way),)  # fmt: skip
                    elif node is right:
                        yield At(left, way[1:] if inside else way)
            case ast.Subscript() if node is parent.slice:
                yield At(parent.value, (Part.KEY,))
            case ast.Subscript() if way[:1] == (Part.KEY,):
                yield At(parent.slice, way[1:])
            case ast.MatchValue():
                subject = self._values.captured(parent)
                if subject is not None:
                    yield subject
            case ast.Match():
                for value in self._values.patterns(parent, way):
                    yield At(value)
            case ast.Call() if node is not parent.func:
                yield from self._given(node, parent)
            case ast.BinOp() if isinstance(parent.op, OF_SETS) and way:
                yield At(parent.right if node is parent.left else parent.left, (Part.ITEM,))
            case ast.Assign() if (owner := self._enumeration(parent)) is not None:
                for call in self.module.index.calls(owner.name):
                    yield from map(At, call.args[:1])

    def _in_call(self, call: ast.Call, name: str, way: Way) -> Iterator[At]:
        """``table.get(x)``, ``names.index(x)``, ``"cuda".__eq__(x)``."""
        if way and name in SET_METHODS:
            yield At(call.args[0], (Part.ITEM,))
        elif not way or (name in LOOK_UP and way[0] is Part.KEY) or (name in _COUNTED and way[0] is not Part.KEY):  # fmt: skip
            yield At(call.args[0], way[1:])

    def _given(self, node: ast.AST | Cell, call: ast.Call) -> Iterator[At]:
        """``device.startswith("cuda")``, ``table.get("cuda")``, ``assertEqual(device.type, "cuda")``, ``re.match("cuda", device)``."""
        name = last_name(call.func)
        if isinstance(call.func, ast.Attribute) and node in call.args[:1]:
            if name in TESTS:
                yield At(call.func.value)
            if name in LOOK_UP or name in _COUNTED or name in SET_METHODS:
                yield At(call.func.value, (Part.KEY if name in LOOK_UP else Part.ITEM,))
        if name in PAIRS or name in SEARCHES:
            yield from (At(arg) for arg in call.args if arg is not node)
        cut = self.module.parent(self.module.parent(call) or call) if name == "len" else None
        if isinstance(cut, ast.Subscript):
            yield At(cut.value)  # device[len("cuda:"):]
        owner = self._values.enumeration(call)
        for statement in owner.body if owner is not None else ():
            if isinstance(statement, ast.Assign):
                yield At(statement.value)

    def _enumeration(self, statement: ast.Assign) -> ast.ClassDef | None:
        above = self.module.parent(statement)
        return above if isinstance(above, ast.ClassDef) and is_enum(above) else None

    def _assessed(self, at: At) -> Evidence | None:
        """The evidence at one place."""
        node = at.node
        if isinstance(node, Cell):
            return self._named(node, at)
        parent = self.module.parent(node)
        if any(isinstance(step, str) or step is Part.KEY for step in at.way) and not isinstance(parent, ast.Dict):  # fmt: skip
            return (
                None  # an entry or a key of a table: what is done with the table says nothing of it
            )
        if not at.way and parent is not None and is_type_of_text(self.module, node):
            return Evidence(Role.BRANCH, parent)
        match parent:
            case ast.IfExp() | ast.BoolOp():
                return self._chosen(node, parent)
            case ast.keyword():
                return self._keyword(parent)
            case ast.Call():
                return self._argument(node, parent, at)
            case ast.List() | ast.Tuple() | ast.Set():
                return self._member(parent)
            case ast.Dict():
                return self._entry(node, parent)
            case ast.Return():
                return self._returned(parent)
            case ast.BinOp() | ast.AugAssign() if isinstance(parent.op, ast.Add) and at.way:
                return self._added(node, parent)
        return None

    def _named(self, cell: Cell, at: At) -> Evidence | None:
        """A variable, attribute, function or entry that is called after a device."""
        names = [step for step in at.way if isinstance(step, str)] or [cell.name]
        if not any(map(device_name, names)) or Part.KEY in at.way:
            return None
        if cell.kind == "variable" and any(part_of_name(self.module, load) for load in cell.loads):
            return None
        owner = next(iter((*cell.stores, *cell.loads)), None) or cell.owner
        return Evidence(Role.NAME, owner) if isinstance(owner, ast.AST) else None

    def _chosen(self, node: ast.AST, parent: ast.IfExp | ast.BoolOp) -> Evidence | None:
        if isinstance(parent, ast.BoolOp):
            beside = any(self._subjects.is_device(v) for v in parent.values if v is not node)
            return Evidence(Role.BRANCH, parent) if beside else None
        if node is parent.test:
            return None
        other = parent.orelse if node is parent.body else parent.body
        while isinstance(other, ast.IfExp) and not other_device(other.body):
            other = other.orelse
        branch = other.body if isinstance(other, ast.IfExp) else other
        if not other_device(branch) and not self._subjects.is_device(branch):
            return None
        return None if self._is_word(parent) else Evidence(Role.BRANCH, parent)

    def _is_word(self, choice: ast.expr) -> bool:
        """Does the choice become a part of a larger word, or name a method?"""
        return glued(self.module, choice) or self._names_attribute(choice)

    def _names_attribute(self, choice: ast.expr) -> bool:
        """Does the choice pick a method by its name: ``getattr(model, "cuda" if gpu else "cpu")()``?"""
        reached = self._values.reach(choice, self._values.uses)
        return is_name(self.module, choice) or any(
            edge.how == "name"
            and isinstance(edge.node, ast.Name)
            and is_name(self.module, edge.node)
            for edge in reached
        )

    def _member(self, parent: ast.List | ast.Tuple | ast.Set) -> Evidence | None:
        if isinstance(self.module.parent(parent), ast.Compare):
            return None  # a comparison, which has a rule of its own
        if parent not in self._members:
            others = [other_device(each) for each in parent.elts]
            whole = any(others) and all(other or read(each) for each, other in zip(parent.elts, others, strict=True))  # fmt: skip
            self._members[parent] = Evidence(Role.BRANCH, parent) if whole else None
        return self._members[parent]

    def _added(self, node: ast.AST, parent: ast.BinOp | ast.AugAssign) -> Evidence | None:
        """``["cpu"] + ["cuda"]``."""
        if isinstance(parent, ast.AugAssign):
            other: ast.expr = parent.target
        else:
            other = parent.right if node is parent.left else parent.left
        return Evidence(Role.BRANCH, parent) if self._holds_other(other) else None

    def _holds_other(self, node: ast.expr) -> bool:
        """May the expression be a list with ``"cpu"`` in it?"""
        return any(other_device(item) for origin in self._values.origins(node) for item in getattr(origin, "elts", ()))  # fmt: skip

    def _entry(self, node: ast.AST, parent: ast.Dict) -> Evidence | None:
        if any(node is key for key in parent.keys):
            known = all(k is not None and (other_device(k) or read(k)) for k in parent.keys)
            return (
                Evidence(Role.COMPARE, parent)
                if known and self._is_read_elsewhere(parent)
                else None
            )
        if self._elsewhere.of(At(parent)):
            return None  # parameters for a library with devices of its own
        key = self.module.constant(parent.keys[parent.values.index(node)])  # type: ignore[arg-type]
        named = isinstance(key, str) and device_name(key)
        return Evidence(Role.NAME, parent) if named else None

    def _is_read_elsewhere(self, table: ast.Dict) -> bool:
        """A constant of the module that this file never reads is read by others, by what they have: a device."""
        return len(table.keys) > 1 and any(
            edge.how == "assigned" and cell.name.isupper() and isinstance(cell.owner, ast.Module) and not cell.loads
            for edge in self._values.uses(table)
            if isinstance(cell := edge.node, Cell)
        )  # fmt: skip

    def goes_elsewhere(self, node: ast.AST) -> bool:
        """Does a value, or what a variable holds, go to a library with devices of its own, and nowhere to torch?"""
        start = self._values.variable(node) if isinstance(node, ast.Name) else node
        if start is None or not self._elsewhere.of(At(start)):
            return False
        return not any(self._here.of(edge.at) for edge in self._on(At(start)))

    def _on(self, at: At) -> Iterator[Edge]:
        yield from (edge for edge in self._values.uses(at) if edge.same)
        table = self.module.parent(at.node) if isinstance(at.node, ast.AST) else None
        if isinstance(table, ast.Dict) and at.node in table.values:
            yield Edge(At(table), "part")

    def _leaves(self, at: At) -> int:
        passed = (edge.node for edge in self._values.uses(at) if edge.how in ("passed", "unpacked"))
        calls = (self.module.parent(each) if isinstance(each, ast.keyword) else each for each in passed)  # fmt: skip
        return any(isinstance(c, ast.Call) and foreign(self.module, c.func) for c in calls)

    def _returned(self, node: ast.Return) -> Evidence | None:
        function = self.module.function(node)
        if function is None:
            return None
        if device_name(function.name):
            return Evidence(Role.NAME, function)
        for value in self._values.returns(function):
            if any(other_device(part) for part in self.module.values(value)):
                return Evidence(Role.BRANCH, function)
        return None

    # -- calls ------------------------------------------------------------------------------

    def _keyword(self, keyword: ast.keyword) -> Evidence | None:
        call = self.module.parent(keyword)
        if not isinstance(call, ast.Call):
            named = keyword.arg and device_name(keyword.arg)
            return Evidence(Role.NAME, keyword) if named else None
        if foreign(self.module, call.func):
            return None
        name = self.module.qualified(call.func) or ""
        if keyword.arg == "device_type" and _takes_word(name):
            return Evidence(Role.ARGUMENT, call)
        if name.startswith(_ELSEWHERE):
            return Evidence(Role.OTHER_RULE, call)
        if keyword.arg in _OPTION_PARTS and _declares_device(self.module, call):
            return Evidence(Role.OPTION, call)
        if keyword.arg == "map_location":
            return Evidence(Role.LOAD, call)
        if name == "torch.device":
            return Evidence(Role.DEVICE, call)
        if keyword.arg and device_name(keyword.arg):
            return Evidence(Role.GENERATOR if name == "torch.Generator" else Role.ARGUMENT, call)
        return None

    def _argument(self, node: ast.AST, call: ast.Call, at: At) -> Evidence | None:
        if node is call.func:
            return None
        place = next((i for i, arg in enumerate(call.args) if arg is node), -1)
        func = call.func
        name = self.module.qualified(func) or ""
        if foreign(self.module, func) or (name in ("getattr", "builtins.getattr") and place == 1):
            return None
        if name.startswith(_ELSEWHERE) and not _takes_word(name):
            return Evidence(Role.OTHER_RULE, call)
        written, position = _device_parameter(name)
        if position is not None:
            role = Role.LOAD if written == "map_location" else Role.ARGUMENT
            return Evidence(_ROLES.get(name, role), call) if place == position else None
        moved = last_name(func) == "methodcaller" and self.module.constant(call.args[0]) == "to"
        if (isinstance(func, ast.Attribute) and func.attr == "to") or (moved and place == 1):
            return Evidence(Role.TO, call)
        if isinstance(func, ast.Attribute) and func.attr == "cuda":
            return Evidence(Role.OTHER_RULE, call)
        for before in call.args[:place]:
            text = self.module.constant(before)
            if isinstance(text, str) and device_name(text):
                return Evidence(Role.OPTION if text.startswith("-") else Role.ARGUMENT, call)
        if isinstance(func, ast.Name) and not name and place == 0 and self._may_be_autocast(func):
            return Evidence(Role.ARGUMENT, call)
        return None if self._values.callees(call) else self._passed(node, call, name)

    def _may_be_autocast(self, func: ast.expr) -> bool:
        """``scope`` in ``scope = autocast if args.amp else nullcontext``."""
        reached = self._values.reach(func, self._values.sources)
        return any(isinstance(edge.node, ast.expr) and self.module.qualified(edge.node) in GENERIC for edge in reached)  # fmt: skip

    def _passed(self, node: ast.AST, call: ast.Call, name: str) -> Evidence | None:
        """An argument of a function that is neither torch's nor of this file: by what is likely."""
        func = call.func
        called = last_name(func)
        if isinstance(func, ast.Attribute) and called in ("append", "add", "insert") and self._holds_other(func.value):  # fmt: skip
            return Evidence(Role.BRANCH, call)
        if called in ANY_TEXT or isinstance(func, ast.Call):
            return None
        base = name.split(".", maxsplit=1)[0]
        if base == "builtins" or base in sys.stdlib_module_names:
            return None
        text = read(node)
        named = len(call.args) == 1 and device_name(called) and not called.startswith(_QUESTIONS)
        if text is not None and (text.surely or base == "torch" or named):
            return Evidence(Role.ARGUMENT, call)
        return None


def _declares_device(module: Module, call: ast.Call) -> bool:
    """Does a call declare an option that holds a device: by its name, its choices, or the name that it is given?"""
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    names = [module.constant(each) for each in (*call.args, given.get("dest"))]
    parent = module.parent(call)
    targets = parent.targets if isinstance(parent, ast.Assign) else [getattr(parent, "target", None)]  # fmt: skip
    names += [target.id for target in targets if isinstance(target, ast.Name)]
    choices = getattr(given.get("choices"), "elts", ())
    return any(isinstance(name, str) and device_name(name) for name in names) or any(map(other_device, choices))  # fmt: skip


def is_type_text(node: ast.AST) -> bool:
    """``x.type()``: ``"torch.cuda.FloatTensor"``."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "type" and not (node.args or node.keywords)  # fmt: skip


def _is_whole(node: ast.AST | Cell) -> bool:
    """Does a text show a value and nothing else: ``str(device)``, ``f"{device}"``?"""
    if not isinstance(node, ast.expr) or is_changed_inside(node):
        return False
    return texts.shown(node) is not None or (isinstance(node, ast.Call) and last_name(node.func) == "str")  # fmt: skip
