"""Numbers that are other ones in each step: counters, what is worked out of them, a scheduled learning rate, what is read from the device.

A number that is a part of a compiled graph costs a new graph for each value; the value graph says which numbers are such.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import cast

from hpushim.engine.python.module import Module
from hpushim.pycode.answers import Answers, Circular
from hpushim.pycode.places import At, Cell, Edge, How
from hpushim.pycode.values import Values

from ..analysis.names import word
from .tensors import is_other, is_tensor, lies_on_host
from .training import runs_in_step, step_regions

#: Texts of which one is in a project that changes its learning rate while it trains.
SCHEDULES = ("lr_scheduler", "get_scheduler", "['lr'] =", '["lr"] =', "['lr']=", '["lr"]=')
#: How a counter of steps is called where a function is given it by another file.
_COUNTERS = re.compile(r"(global|cur(rent)?|train)?_?(step|iter|iteration|update)s?(_?(num|idx|count))?|n_?iter|num_(updates|steps|iters)|itr?", re.I)  # fmt: skip
_RATES = ("get_last_lr", "get_lr")
_RANDOM = re.compile(r"(random|numpy\.random|torch)\.(randint|randrange|integers|choices?|sample|uniform|random|rand|normal|gauss|beta)")  # fmt: skip
_COUNTS = re.compile(r"t?range|enumerate|count")


class Changing(Circular):
    """The answers for one file; request it as a view."""

    #: A number of the step, one that is read from the device in each step, a random one.
    COUNTED, READ, RANDOM = 1, 2, 4

    def __init__(self, module: Module) -> None:
        self._module = module
        self._values = module.view(Values)
        self._answers: Answers[int] = Answers(self._own, self._edges)

    def has(self, node: ast.AST, kinds: int) -> bool:
        """May the value be one of these?"""
        return self._answers.has(At(node), kinds)

    def _own(self, at: At) -> int:
        node, module = at.node, self._module
        match node:
            case Cell():
                return self.COUNTED if any(map(self._counts_up, node.stores)) else 0
            case ast.arg():
                named = node.annotation is None or module.source(node.annotation) == "int"
                given = any(edge.how != "default" for edge in self._values.sources(at))
                return self.COUNTED if named and not given and _COUNTERS.fullmatch(node.arg) else 0
            case ast.Attribute(attr="global_step"):
                return self.COUNTED
            case ast.Subscript(slice=ast.Constant(value="step")):
                return self.COUNTED
            case ast.Subscript(slice=ast.Constant(value="lr")):
                return self.COUNTED if _schedules(module) else 0
            case ast.Call(func=func) if word(func) in _RATES:
                return self.COUNTED
            case ast.Call(func=func) if _RANDOM.fullmatch(module.qualified(func) or ""):
                return self.RANDOM
            case ast.Call(func=ast.Attribute(attr="item" | "tolist") as func):
                return 0 if is_other(module, func.value) or lies_on_host(module, func.value) else self.READ  # fmt: skip
            case ast.Call(func=ast.Name(id="int"), args=[given]):
                return self.READ if is_tensor(module, given) and not lies_on_host(module, given) else 0  # fmt: skip
        return 0

    def _counts_up(self, store: ast.expr) -> bool:
        """``n += 1`` and ``n = n + 1`` in a step, the number of the turn of a loop that trains."""
        module = self._module
        above = module.parent(store)
        if isinstance(above, ast.Tuple) and above.elts[0] is store:
            store, above = above, module.parent(above)
        if isinstance(above, ast.For) and above.target is store:
            return above in module.view(step_regions) and counts(above.iter)
        if isinstance(above, ast.Assign) and isinstance(above.value, ast.BinOp):
            more = isinstance(above.value.right, ast.Constant) and ast.dump(above.value.left) == ast.dump(store).replace("Store()", "Load()")  # fmt: skip
        else:
            more = isinstance(above, ast.AugAssign) and isinstance(above.value, ast.Constant)
        return more and runs_in_step(module, store)

    def _edges(self, at: At) -> Iterator[Edge]:
        node = at.node
        for edge in self._values.sources(at):
            if edge.same or edge.how in ("given", "added"):
                yield edge
        if at.way:
            return
        match node:
            case ast.BinOp(left=left, right=right):
                parts = [left, right]
            case ast.Tuple(elts=[*parts]):
                pass
            case ast.UnaryOp(operand=part):
                parts = [part]
            case ast.Subscript(slice=ast.Name() | ast.BinOp() as part):
                parts = [part]
            case ast.Call(func=func, args=args):
                name = self._module.qualified(func) or ("" if isinstance(func, ast.Attribute) else "its own")  # fmt: skip
                parts = args if name and not name.startswith("torch.") else []
            case _:
                parts = []
        for part in parts:
            yield Edge(At(part), cast("How", "made"))


def _schedules(module: Module) -> bool:
    """Does the project change its learning rate while it trains?"""
    return any(map(module.holds, SCHEDULES)) or not (module.project.mentions or frozenset()).isdisjoint(SCHEDULES)  # fmt: skip


def counts(node: ast.expr) -> bool:
    """``range(n)``, ``tqdm(enumerate(x))``, ``list(range(n))[::-1]``."""
    while not (isinstance(node, ast.Call) and _COUNTS.fullmatch(word(node.func))):
        if isinstance(node, ast.Call) and node.args:
            node = node.args[0]
        elif isinstance(node, ast.Subscript):
            node = node.value
        else:
            return False
    return True


def changes_each_step(module: Module, node: ast.expr, kinds: int = Changing.COUNTED | Changing.READ) -> bool:  # fmt: skip
    """Is a number another one in each step?"""
    return module.view(Changing).has(node, kinds)
