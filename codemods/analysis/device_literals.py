"""Looks through one file for CUDA device strings: what each is, what it becomes, what it belongs to."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from functools import cached_property

from hpushim.compare import texts
from hpushim.compare.other_branches import Beside, chain_mentions
from hpushim.compare.subjects import OF_SETS, SET_METHODS
from hpushim.engine.python.changes import Change, Remove, Replace
from hpushim.engine.python.module import Module
from hpushim.pycode.cells import CHANGED
from hpushim.pycode.places import last_name
from hpushim.pycode.values import Values
from hpushim.pycode.walk import walk

from ..edits import neutral, spelling
from ..edits.comparisons import of_tensor, type_read
from ..edits.spelling import on_gaudi
from .defaults import resolved
from .device_index import reads_index
from .device_lists import over_all_devices
from .device_numbers import is_current, sets_device
from .device_texts import (
    DeviceText,
    device_name,
    device_texts,
    glued,
    is_hpu,
    is_switch,
    other_device,
    other_texts,
    read,
    settings_on_gaudi,
)
from .flow import PAIRS, SEARCHES, TESTS, Flow, is_type_text
from .kernels import chooses_kernels, chooses_precision, settings_beside
from .load_places import only_loads
from .roles import Role


@dataclass(frozen=True, eq=False)
class Site:
    """A device text with what it is to the code around it; ``owner`` is the node that shows it."""

    text: DeviceText
    role: Role
    owner: ast.AST
    changes: tuple[Change, ...]
    #: What goes with it, or is a part of it: no other rule mentions these.
    claims: tuple[ast.AST, ...] = ()

    @property
    def node(self) -> ast.expr:
        return self.text.node


class Finder:
    """Finds the device texts of one file, in source order."""

    def __init__(self, module: Module, flow: Flow) -> None:
        self.module = module
        self.flow = flow
        self._values = module.view(Values)
        self._beside = module.view(Beside)

    @cached_property
    def keeps_index(self) -> bool:
        """Is an index read again, so that a device which has one must have one on Gaudi?"""
        begun = any(self.module.constant(text.node) == "cuda:" and self.flow.use(text.node) for text in self._others)  # fmt: skip
        return begun or reads_index(self.module, self.is_device) or any(map(self._is_read_text, self._texts))  # fmt: skip

    def _is_read_text(self, text: DeviceText) -> bool:
        """Is a text with an index compared with the text of a tensor's device, which has one: ``str(x.device) == f"cuda:{i}"``?"""
        if text.index in ("", "0"):
            return False
        reached = self._values.reach(text.node, self._values.uses)
        compared = [edge.node for edge in reached if edge.how == "compared"]
        return any(
            self.flow.is_reading(side)
            for compare in compared
            if isinstance(compare, ast.Compare)
            for side in (compare.left, *compare.comparators)
        )

    @cached_property
    def _texts(self) -> list[DeviceText]:
        return list(device_texts(self.module))

    def is_device(self, node: ast.AST) -> bool:
        """Does the expression hold a device, as a name that is given ``"cuda:1"`` does, whatever it is called?"""
        if self.flow.device_like(node):
            return True
        values = self._values.origins(node) if isinstance(node, ast.Name) else []
        return any(text.surely for value in values if (text := read(value)) is not None)

    def sites(self) -> list[Site]:
        """Every device text that some rule has to mention."""
        texts = [*self._texts, *self._others]
        texts.sort(key=lambda text: (text.node.lineno, text.node.col_offset))
        return [site for text in texts if (site := self._site(text)) is not None]

    @cached_property
    def _others(self) -> list[DeviceText]:
        return list(other_texts(self.module))

    def _site(self, text: DeviceText) -> Site | None:
        node = text.node
        if node in self.module.index.lost or self.beside_hpu(node):
            return None
        if any(over_all_devices(self.module, above) for above in self.module.ancestors(node)):
            text = replace(text, new=on_gaudi(self.module.source(node)))
        elif text.new and self.flow.is_parsed(node):
            new = settings_on_gaudi(self.module.source(node))
            if new != self.module.source(node):
                return Site(text, Role.NAME, node, (spelling.word(self.module, node, new),))
        elif (owner := self._test_of(node)) is not None and (both := self._for_both(owner, node)):
            return Site(text, Role.COMPARE, owner, both)
        elif not text.new and text.index.isdigit() and self._is_composed(node):
            text = replace(text, new=on_gaudi(self.module.source(node)))
        found = self._classify(text)
        if found is None or found[0] is Role.OTHER_RULE:
            return None
        role, owner = found
        changes, gone = self._changes(text, owner)
        claims = (*ast.iter_child_nodes(node), *gone)
        return Site(text, role, owner, changes, claims)

    @cached_property
    def _locations(self) -> set[ast.AST]:
        """The parameters that get the place where a storage of a checkpoint was: ``map_location=lambda storage, place: …``."""
        places = [keyword.value for keyword in self.module.index.keywords("map_location")]
        places += [call.args[1] for call in self.module.index.calls("load") if len(call.args) == 2]
        functions = [f for place in places for f in self._values.calls.functions(place)]
        return {f.args.args[1] for f in functions if len(f.args.args) == 2}

    def _for_both(self, owner: ast.AST, node: ast.expr) -> tuple[Change, ...]:
        """The place of a storage is CUDA's in a checkpoint of CUDA, and Gaudi's in one of Gaudi: compared with both, or with the CPU."""
        if not self._locations or (new := on_gaudi(source := self.module.source(node))) == source:
            return ()
        neutral = spelling.agnostic(self.module)
        replaced: ast.expr = node
        if isinstance(owner, ast.Call) and isinstance(owner.func, ast.Attribute):
            place, name = owner.func.value, owner.func.attr
            changed = f"({source}, {new})" if name in ("startswith", "endswith") else ""
            if neutral and changed:
                replaced, changed = owner, f'{self.module.operand(place)} != "cpu"'
        elif isinstance(owner, ast.Compare) and len(owner.ops) == 1:
            place = owner.comparators[0] if node is owner.left else owner.left
            replaced, word = owner, self.module.source(place)
            other = f'{word} != "cpu"'
            forms = (
                {ast.Eq: other, ast.NotEq: f'{word} == "cpu"', ast.In: other}
                if neutral
                else {
                    ast.Eq: f"{word} in ({source}, {new})",
                    ast.NotEq: f"{word} not in ({source}, {new})",
                    ast.In: f"({source} in {word} or {new} in {word})",
                }
            )
            changed = forms.get(type(owner.ops[0]), "")
        else:
            return ()
        found = changed and self._locations.intersection(self._values.origins(place))
        return (Replace(replaced, changed),) if found else ()

    def _is_composed(self, node: ast.expr) -> bool:
        """Is a text compared with one that the program puts together of a device's and a number of its own?"""
        compare = self.module.parent(node)
        return isinstance(compare, ast.Compare) and any(
            self.flow.is_composed(side) for side in (compare.left, *compare.comparators) if side is not node
        )  # fmt: skip

    # -- what a text is ---------------------------------------------------------------------

    def _classify(self, text: DeviceText) -> tuple[Role, ast.AST] | None:
        """The role of a text and the node that shows it; None where it is no device for any rule to mention."""
        node, module = text.node, self.module
        if is_switch(module, node):
            return None
        used = self.flow.use(node)
        tested = self._test_of(node)
        if (used is None or tested is not None) and (setting := self._setting(node, tested)) is not None:  # fmt: skip
            return Role.KERNELS, setting
        if isinstance(tested, ast.Match) and _has_hpu_case(tested):
            return None
        if isinstance(tested, ast.Compare) and isinstance(tested.ops[0], (ast.Eq, ast.NotEq)) and self._is_type(tested):  # fmt: skip
            return None  # never the text of a device
        if text.new and read(node) is None and not self._is_made_of_device(node, tested):
            return None
        if text.new and read(node) is None and tested is None and used is not None and _is_changed(module, node):  # fmt: skip
            return Role.NAME, used.node
        if text.new and read(node) is None and (used is None or (tested is None and used.role is not Role.NAME)):  # fmt: skip
            return None  # another rule reports it
        if tested is not None and used is not None:
            compare = tested if isinstance(tested, ast.Compare) else None
            kernels = compare and (
                chooses_kernels(module, compare, self.flow.device_like)
                or any(map(self.flow.goes_elsewhere, (compare.left, *compare.comparators)))
                or (spelling.agnostic(module) and chooses_precision(module, compare))
            )
            return (Role.KERNELS if kernels else Role.COMPARE), tested
        if used is None and not text.surely and self._is_label(node):
            return Role.SETTING, node
        if tested is not None and not text.surely and self._is_of_settings(tested):
            return Role.SETTING, tested
        if tested is not None:
            return (Role.UNPROVEN, tested) if self._may_be_tested(tested, text) else None
        if used is not None:
            chosen = used.role is Role.OTHER_RULE and self._is_chosen_for_torch(node, used.node)
            return Role.BRANCH if chosen else used.role, used.node
        if glued(module, node) or self._logged(node):
            return None
        return (Role.NAME if text.surely else Role.UNPROVEN), node

    def _setting(self, node: ast.expr, tested: ast.AST | None) -> ast.AST | None:
        """What compares a setting, ``impl == "cuda"``, or gives it its default, where such a comparison is beside one of a device."""
        if not self._settings:
            return None
        if isinstance(tested, ast.Compare) and len(tested.comparators) == 1:
            sides = [tested.left, tested.comparators[0]]
            return tested if any(self._settings.intersection(self._bound(side)) for side in sides) else None  # fmt: skip
        if tested is None and any(isinstance(edge.node, ast.Compare) and self._setting(node, edge.node) for edge in self._values.reach(node, self._values.uses)):  # fmt: skip
            return node
        return None

    @cached_property
    def _settings(self) -> set[int]:
        """The bindings of names that choose kernels by CUDA's name."""
        tested = [self._test_of(text.node) for text in self._texts]
        return {
            bound
            for compare in tested
            if isinstance(compare, ast.Compare)
            and any(map(self.flow.device_like, (compare.left, *compare.comparators)))
            for name in settings_beside(self.module, compare, self.flow.device_like)
            for bound in self._bound(name)
        }

    def _bound(self, side: ast.expr) -> set[int]:
        return {id(each.node) for each in self.module.bindings(side)} if isinstance(side, ast.Name) else set()  # fmt: skip

    def _test_of(self, node: ast.expr) -> ast.AST | None:
        """What compares a text, looks it up, searches for it or cuts by it; also as a member of a tuple or set."""
        module = self.module
        side: ast.AST = node
        parent = module.parent(node)
        if isinstance(parent, ast.MatchValue):
            return next((above for above in module.ancestors(parent) if isinstance(above, ast.Match)), None)  # fmt: skip
        if isinstance(parent, (ast.Tuple, ast.List, ast.Set)):
            side, parent = parent, module.parent(parent)
        if isinstance(parent, ast.Compare):
            return parent
        if isinstance(parent, ast.BinOp) and isinstance(parent.op, OF_SETS) and side is not node:
            return parent
        if isinstance(parent, ast.Subscript) and node is parent.slice:
            return parent
        func = parent.func if isinstance(parent, ast.Call) and side is not parent.func else None
        name = last_name(func)
        if isinstance(func, ast.Attribute) and (name in TESTS or (name in SET_METHODS and side is not node)):  # fmt: skip
            return parent
        return parent if name in PAIRS else None

    def _is_made_of_device(self, node: ast.expr, tested: ast.AST | None) -> bool:
        """May a text with more than CUDA's name in it be a device's: by its letters, as a pattern, or by what is around the name?"""
        value = str(self.module.constant(node))
        if texts.is_cased(node) or value == "cuda:" or value.startswith("device(type="):
            return True
        if all(texts.is_cuda(one) or other_device(one) for one in map(ast.Constant, value.replace(",", " ").split())):  # fmt: skip
            return True  # "cpu,cuda"
        call = self.module.parent(node)
        if isinstance(call, ast.Call) and last_name(call.func) in (*SEARCHES, "compile"):
            return texts.matches_cuda(value)
        if isinstance(tested, ast.Compare):
            made: list[ast.expr] = [tested.left, *tested.comparators]
        elif isinstance(tested, ast.Call) and isinstance(tested.func, ast.Attribute):
            made = [tested.func.value]
        else:
            return False
        origins = [origin for side in made for origin in (side, *self._values.origins(side))]
        if any(map(is_type_text, origins)):
            # A whole type has a rule of its own.
            return value.startswith(("cuda", "torch.cuda", ".cuda")) and not value.endswith("Tensor")  # fmt: skip
        parts = "".join(
            part.value
            for origin in origins
            if origin is not node
            for part in walk(origin)
            if isinstance(part, ast.Constant) and isinstance(part.value, str) and part is not node
        )
        return all(rest.rstrip("0123456789") in parts for rest in on_gaudi(value).split("hpu"))

    def _is_type(self, compare: ast.Compare) -> bool:
        """Is the whole name of a tensor's type compared?"""
        return any(is_type_text(origin) for side in (compare.left, *compare.comparators) for origin in self._values.origins(side))  # fmt: skip

    def _may_be_tested(self, owner: ast.AST, text: DeviceText) -> bool:
        """Is a text to be reported that is compared or looked up, and that nothing shows to be a device?"""
        if isinstance(owner, ast.Match):
            return True
        if isinstance(owner, ast.Compare):
            return text.surely or self._tests_a_name(owner, text.node)
        if isinstance(owner, ast.Subscript):
            return not any(isinstance(value, ast.Dict) for value in self.module.values(owner.value))
        return text.surely and isinstance(owner, ast.BinOp)

    def _is_label(self, node: ast.expr) -> bool:
        """Is it an entry of a table that has others under names which are no devices: ``{"numpy": …, "cuda": …}``, ``state["cuda"]``?"""
        above, keys = self.module.parent(node), list[ast.expr | None]()
        if isinstance(above, ast.Dict):
            keys = above.keys if node in above.keys else []
        elif isinstance(above, ast.Subscript) and above.slice is node:
            table = self.module.source(above.value)
            for use in self.module.index.names(table) if isinstance(above.value, ast.Name) else ():
                entry = self.module.parent(use)
                keys += [entry.slice] if isinstance(entry, ast.Subscript) else []
        texts = [key for key in keys if isinstance(self.module.constant(key), str)]
        return any(not other_device(key) and read(key) is None for key in texts if key is not None)

    def _is_of_settings(self, owner: ast.AST) -> bool:
        """Is what is compared an entry that is read from settings by another name than a device's? Then nothing turns its value."""
        if not isinstance(owner, ast.Compare) or len(owner.comparators) != 1:
            return False
        sides = [side for side in (owner.left, owner.comparators[0]) if not isinstance(side, ast.Constant)]  # fmt: skip
        given = self.module.values(sides[0]) if len(sides) == 1 else []
        keys = [self._key(value) for value in given if not isinstance(value, ast.Constant)]
        return bool(keys) and all(key and not device_name(key) for key in keys)

    def _key(self, node: ast.AST) -> str:
        """``mode`` of ``table["mode"]`` and ``table.get("mode")``; "" of anything else."""
        if isinstance(node, ast.Subscript):
            key = self.module.constant(node.slice)
        elif isinstance(node, ast.Call) and last_name(node.func) == "get" and node.args:
            key = self.module.constant(node.args[0])
        else:
            return ""
        return key if isinstance(key, str) else ""

    def _is_chosen_for_torch(self, node: ast.expr, call: ast.AST) -> bool:
        """``torch.autocast("cuda" if use_cuda else "cpu")``: the rule that has the call takes a plain word only."""
        parent = self.module.parent(node)
        if not isinstance(call, ast.Call) or not isinstance(parent, (ast.IfExp, ast.BoolOp)):
            return False
        return (self.module.qualified(call.func) or "").startswith("torch.")

    def _tests_a_name(self, compare: ast.Compare, node: ast.expr) -> bool:
        """``impl == "cuda"``: a word that chooses something, in a file that uses torch."""
        sides = (compare.left, *compare.comparators)
        return (
            len(compare.comparators) == 1
            and any(isinstance(side, (ast.Name, ast.Attribute)) for side in sides)
            and node in sides
            and self.module.holds("torch")
        )

    def _logged(self, node: ast.AST) -> bool:
        """Is the text written out, or given to a function that takes any text?"""
        parent = self.module.parent(node)
        if isinstance(parent, ast.keyword):
            return parent.arg in ("help", "description", "name", "label", "title", "msg", "metavar")
        return isinstance(parent, (ast.Call, ast.FormattedValue))

    def beside_hpu(self, node: ast.AST) -> bool:
        """Does the code around the text handle ``hpu`` already, in a branch or a list of its own?"""
        if not self._beside.names:
            return False
        for child, above in self.module.upwards(node):
            if isinstance(above, ast.Call) and any(is_hpu(each) for each in above.args):
                return True
            if isinstance(above, (ast.Tuple, ast.List, ast.Set)):
                if any(is_hpu(e) for e in above.elts):
                    return True
            elif isinstance(above, ast.Dict):
                if any(k is not None and is_hpu(k) for k in above.keys) and any(
                    k is child for k in above.keys
                ):
                    return True
            elif isinstance(above, ast.BoolOp) and isinstance(child, ast.Compare):
                return any(v in self._beside.names for v in above.values if v is not child)
            elif isinstance(above, (ast.IfExp, ast.If)):
                if chain_mentions(self.module, above, self._beside.names):
                    return True
                block = self.module.block(above) if isinstance(above, ast.If) and child is above.test else []  # fmt: skip
                if any(one is not above and isinstance(one.test, ast.Compare) and one.test in self._beside.texts for one in self._beside.branches(block)):  # fmt: skip
                    return True
            elif isinstance(above, ast.stmt) and not isinstance(above, (ast.Assign, ast.Return, ast.Expr)):  # fmt: skip
                return False
        return False

    # -- what it becomes --------------------------------------------------------------------

    def _changes(
        self, text: DeviceText, owner: ast.AST
    ) -> tuple[tuple[Change, ...], tuple[ast.AST, ...]]:
        """What is written instead, and the nodes that go."""
        module, node = self.module, text.node
        if spelling.agnostic(module):
            return self._neutral(text, owner), ()
        if text.new:
            return (spelling.word(module, node, text.new),), ()
        kept = text.index not in ("", "0") and self.keeps_index
        changes: list[Change] = [spelling.device(module, node, text.index, keeps_index=kept)]
        gone: tuple[ast.AST, ...] = ()
        parent = module.parent(node)
        call = module.parent(parent) if isinstance(parent, ast.keyword) else parent
        if isinstance(call, ast.Call) and module.qualified(call.func) == "torch.device":
            index = self._other_index(call)
            if index is not None:
                changes.append(self._without(index, keeps_index=self.keeps_index))
                gone = (index,)
        if isinstance(owner, ast.Compare):
            for side in (owner.left, *owner.comparators):
                changes += self._shorter_slice(side)
        return tuple(changes), gone

    def _neutral(self, text: DeviceText, owner: ast.AST) -> tuple[Change, ...]:
        """What is written in the agnostic style."""
        module, node = self.module, text.node
        if self._test_of(node) is not None:
            return spelling.comparison(module, owner, node)
        if text.new:
            return (spelling.word(module, node, text.new),)
        choice = module.parent(node)
        made = choice if isinstance(choice, ast.Call) else None
        if type_read(module, made) is not None:
            return spelling.comparison(module, node, node)
        if of_tensor(module, module.parent(made) if made is not None else choice):
            return ()  # the question for the tensor is replaced, and with it what it chooses
        if (
            isinstance(choice, ast.IfExp)
            and choice.body is node
            and isinstance(choice.test, ast.Compare)
        ):
            tested = choice.test.left
            if any(
                isinstance(c, Replace) and c.node is choice
                for c in spelling.comparison(module, choice.test, tested)
            ):
                return ()  # the comparison is replaced, and with it what it chooses
        if (
            spelling.number_in(node) is not None
            and sets_device(module)
            and only_loads(module, node)
        ):
            return (
                Replace(node, neutral.at_least(module, node)),
            )  # the process's own, whose number on Gaudi is 0
        whole = resolved(module, node) or spelling.whole_device(module, node)
        if whole:
            return whole
        changes: list[Change] = [spelling.device(module, node, text.index)]
        call = module.parent(node)
        call = module.parent(call) if isinstance(call, ast.keyword) else call
        if (
            isinstance(call, ast.Call)
            and module.qualified(call.func) == "torch.device"
            and len(call.args) + len(call.keywords) == 2
        ):
            return (Replace(call, spelling.numbered_device(module, call, node)),)
        return tuple(changes)

    def _other_index(self, call: ast.Call) -> ast.expr | ast.keyword | None:
        """The index in ``torch.device("cuda", rank)`` that is not device 0."""
        index: ast.expr | ast.keyword | None = call.args[1] if len(call.args) == 2 else None
        if index is None:
            index = next((k for k in call.keywords if k.arg == "index"), None)
        value = index.value if isinstance(index, ast.keyword) else index
        if index is None or value is None or self.module.constant(value) == 0:
            return None
        if is_current(self.module, value) or isinstance(value, ast.UnaryOp):
            return None  # Gaudi has the function, and its answer is right there; a negative index is an error everywhere
        others = [a for a in (*call.args, *call.keywords) if a is not index]
        before = [a for a in others if self.module.span(a).end <= self.module.span(index).start]
        return index if before else None

    def _without(self, index: ast.expr | ast.keyword, keeps_index: bool) -> Change:
        if keeps_index or spelling.shared(self.module):
            value = index.value if isinstance(index, ast.keyword) else index
            return spelling.zero(self.module, value)
        return Remove(index)

    def _shorter_slice(self, side: ast.expr) -> list[Change]:
        """``device[:4] == "cuda"``: the slice is as long as the word."""
        if isinstance(side, ast.Subscript) and isinstance(side.slice, ast.Slice):
            upper = side.slice.upper
            if side.slice.lower is None and upper is not None and self.module.constant(upper) == 4:
                word = spelling.ACCELERATOR if spelling.shared(self.module) else None
                length = f"len({word})" if word else str(len(spelling.DEVICE))
                return [Replace(upper, length)]
        return []


def _is_changed(module: Module, node: ast.expr) -> bool:
    """``"CUDA".lower()``."""
    above = module.parent(node)
    return isinstance(above, ast.Attribute) and above.attr in CHANGED


def _has_hpu_case(match: ast.Match) -> bool:
    return any(
        isinstance(part, ast.MatchValue) and is_hpu(part.value)
        for case in match.cases
        for part in walk(case.pattern)
    )
