"""Training: what is an optimizer, a scaler, an engine; which calls are steps; what runs once in each. From the value graph.

What a value was made with says what it is, by whatever way it came; then the class that it is declared as; its name says it last.
"""

from __future__ import annotations

import ast
import enum
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from hpushim.engine.python.module import Module
from hpushim.patterns import lazily
from hpushim.pycode.answers import Answers, Circular
from hpushim.pycode.places import FUNCTIONS, At, Cell, Function
from hpushim.pycode.values import Values
from hpushim.pycode.walk import walk

from ..analysis.kinds import (
    Bases,
    base_words,
    bases_of,
    enclosing_class,
    is_in_module,
    of_project,
    said,
)
from ..analysis.names import calls_like, word
from ..analysis.project_facts import SCALERS
from ..analysis.training_facts import CALLED, COLLATES, FORWARD, LOOP, STEP, STEP_CALLS

# -- what a value is ------------------------------------------------------------------------


class Is:
    """What a value may be in training: bits of a number."""

    OPTIMIZER = 1 << 0
    SCALER = 1 << 1
    ENGINE = 1 << 2  #: of DeepSpeed: it has ``backward`` and ``step``
    LIGHTNING = 1 << 3  #: its strategies for HPU mark the steps
    OTHER = 1 << 4  #: something else that steps: a scheduler, a profiler, an environment
    NAMED = 1 << 5  #: called an optimizer, or made by what is called so
    UNSEEN = 1 << 6  #: nothing in the file shows what it is


LIGHTNING = ("lightning", "pytorch_lightning", "lightning_fabric")
#: Names of things that step and are no optimizers, or that step by themselves.
_OTHERS = lazily(
    r"sched|profil|\bprof\b|\benv|environment|simul|engine|accelerator|fabric|trainer|deepspeed|ds_|"
    r"warmup|anneal|timer|meter|progress|pbar|debugg|stepper|metric|callback|solver_lr|world|agent",
    re.I,
)
_NAMED = lazily(r"optim", re.I)
#: Names that an optimizer often has, and parsed options as well.
_SHORT = lazily(r"^opts?$|^opts?_|_opts?$|^opt[a-zA-Z0-9]$|optG|optD|^opt(Gen|Disc)", re.I)
_OPTIMIZERS = lazily(
    r"(^|\.|_)(Adam|AdamW|Adamax|NAdam|RAdam|SparseAdam|SGD|RMSprop|Adagrad|Adadelta|LBFGS|Rprop|ASGD|"
    r"LAMB|Lamb|LARS|Lars|Lion|Adafactor|AdaBelief|Ranger|Muon|NovoGrad|Shampoo|Sophia|SAM|"
    r"Fused\w*(Adam|AdamW|SGD|LAMB|Lamb|NovoGrad|Adagrad)|ZeroRedundancyOptimizer|\w*Optimizer|\w*Optim)$"
)
#: What holds several of them by name: ``optims.generator``.
_SEVERAL = lazily(r"(^|_)optim(izer)?s$", re.I)
_MADE = ("torch.optim.", "apex.optimizers.", "bitsandbytes.optim.")
#: The step of this one runs on other machines.
_REMOTE = "torch.distributed.optim.DistributedOptimizer"
_SCALED = lazily(r"scaler$|^_?(grad_?)?scaler|^amp_scaler|scaler_?\w$", re.I)
#: Scalers of data.
_OF_DATA = ("sklearn.", "cuml.")
_FABRIC = lazily(r"^_?fabric$|_fabric$", re.I)
#: Names that people give to what they call ``backward`` on.
LOSS = lazily(r"loss|cost|^err(or)?$", re.I)


class Roles(Circular):
    """The answers for one file; request it as a view."""

    def __init__(self, module: Module) -> None:
        self._module = module
        values = module.view(Values)
        self._answers: Answers[int] = Answers(
            self._own,
            values.sources,
            lambda edge, known: known if edge.same or edge.how == "given" else 0,
        )

    def of(self, node: ast.AST) -> int:
        """Everything that the value may be."""
        return self._answers.of(At(node))

    def _own(self, at: At) -> int:
        node = at.node
        match node:
            case ast.Call():
                return self._made(node, at.way)
            case ast.arg(annotation=ast.expr() as note):
                return self._of_class(self._module.source(note).strip("'\"")) or self._called(node.arg)  # fmt: skip
            case ast.arg():
                return self._called(node.arg)
            case Cell():
                return self._called(node.name) | (0 if self._module.view(Values).sources(at) else Is.UNSEEN)  # fmt: skip
            case ast.Attribute(value=ast.Name() | ast.Attribute() as holder):
                several = _SEVERAL.search(word(holder)) and not _OTHERS.search(node.attr)
                return Is.NAMED if several else self._called(node.attr)
            case ast.Name() | ast.Attribute():
                return self._called(word(node))
            case ast.Constant(value=int() | float()):
                return Is.OTHER
        return 0

    @staticmethod
    def _called(label: str) -> int:
        return Is.NAMED if _NAMED.search(label) and not _OTHERS.search(label) else 0

    def _made(self, call: ast.Call, way: tuple[object, ...]) -> int:
        """What a call gives, by the name of what is called."""
        if self._module.qualified(call.func) == "deepspeed.initialize":
            return Is.ENGINE if way[:1] == (0,) else Is.UNSEEN
        found = 0
        for name in self._names(call.func):
            last = name.rpartition(".")[2]
            known = self._of_class(name)
            if last == "optimizers" and not call.args:  # Lightning's, whose trainer marks
                known = Is.OTHER
            elif not known and last not in ("get", "pop", "setdefault", "list", "tuple", "dict"):
                known = Is.UNSEEN | self._called(last)
            found |= known or Is.UNSEEN
        return found

    def _names(self, func: ast.expr) -> list[str]:
        """What is called, by name: itself, what a partial, a table or ``getattr(torch.optim, name)`` has for it."""
        module = self._module
        name = module.qualified(func)
        if name is not None:
            return [name]
        found = [word(func)]
        for origin in module.view(Values).origins(func):
            if isinstance(origin, ast.Call) and origin.args:
                inner = module.qualified(origin.args[0]) or ""
                how = module.qualified(origin.func)
                if how == "functools.partial":
                    found.append(inner)
                elif how == "builtins.getattr":
                    found.append(f"{inner}.?")
            elif isinstance(origin, (ast.Name, ast.Attribute)):
                found.append(module.qualified(origin) or "")
        return list(filter(None, found))

    def _of_class(self, name: str) -> int:
        """What objects of a class are, by its name and those of its bases; 0 where neither says."""
        last = name.rpartition(".")[2]
        if name.partition(".")[0] in LIGHTNING:
            return Is.LIGHTNING
        if ".lr_scheduler" in name or name == _REMOTE or name.startswith(_OF_DATA):
            return Is.OTHER
        for each in (last, *sorted(base_words(self._module, last))):
            if each.endswith("Scaler"):
                return Is.SCALER
            if name.startswith(_MADE) or _OPTIMIZERS.search(each):
                return Is.OPTIMIZER
        return Is.OTHER if _OTHERS.search(last) and not _NAMED.search(last) else 0


def is_optimizer(module: Module, node: ast.expr) -> bool:
    """Does ``node`` surely, or by its name and its use, hold an optimizer?"""
    label = word(node)
    if label and not isinstance(node, ast.Call) and _OTHERS.search(label):
        return False
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return bool(node.elts) and all(is_optimizer(module, item) for item in node.elts)
    if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
        return is_optimizer(module, node.elt)
    found = module.view(Roles).of(node)
    if found & Is.OPTIMIZER:
        return True
    cleared = bool(label) and module.source(node) in module.view(_cleared)
    if found & Is.OTHER and not found & Is.UNSEEN:
        return cleared and bool(found & Is.NAMED)  # `AdamWScheduleFree`
    if found & Is.NAMED:
        return True
    if label and _SHORT.search(label) and _is_beside_backward(module, node):
        return True
    return cleared


def _is_beside_backward(module: Module, node: ast.expr) -> bool:
    """Does the function around ``node`` run a backward pass, too?"""
    around = module.function(node)
    return any(module.function(call) is around for call in module.index.calls("backward"))


def _cleared(module: Module) -> frozenset[str]:
    """What the file calls ``zero_grad`` on: optimizers have that beside ``step``, schedulers do not."""
    return frozenset(_receiver(module, call) for call in module.index.calls("zero_grad"))


def _receiver(module: Module, call: ast.Call) -> str:
    return module.source(call.func.value) if isinstance(call.func, ast.Attribute) else ""


def is_scaler(module: Module, node: ast.expr) -> bool:
    """Is ``node`` a gradient scaler, by what it was made with or by its name?"""
    found = module.view(Roles).of(node)
    if found & (Is.SCALER | Is.OPTIMIZER | Is.OTHER):
        return bool(found & Is.SCALER)
    return _SCALED.search(word(node)) is not None


def _is_scaler_call(module: Module, call: ast.Call) -> bool:
    """``loss_scaler(loss, optimizer, …)``: a scaler of another package, which runs backward and steps."""
    if len(call.args) < 2 or not LOSS.search(word(call.args[0])):
        return False
    if not is_scaler(module, call.func) or not is_optimizer(module, call.args[1]):
        return False
    made = [each for each in module.view(Values).origins(call.func) if isinstance(each, ast.Call)]
    if not made:
        return not module.project.names(SCALERS.name)
    names = {(module.qualified(each.func) or "").partition(".")[0] for each in made}
    return not names & (module.project.modules | {""})


# -- engines, and Lightning -----------------------------------------------------------------


def is_lightning(module: Module, node: ast.expr) -> bool:
    """Does ``node`` come from Lightning, whose strategies for HPU mark the steps?"""
    return bool(_FABRIC.search(word(node)) or module.view(Roles).of(node) & Is.LIGHTNING)


def hands_loss(call: ast.Call) -> bool:
    """``engine.backward(loss)``: a tensor's own method takes a gradient, not a loss."""
    given = [*call.args, *(k.value for k in call.keywords if k.arg in (None, "loss", "losses"))]
    return any(LOSS.search(_first_word(arg)) for arg in given)


def _first_word(node: ast.expr) -> str:
    """The word of what an expression starts with: ``loss`` for ``self.loss / n``."""
    while isinstance(node, (ast.BinOp, ast.Subscript, ast.Starred, ast.Call)):
        if isinstance(node, ast.BinOp):
            node = node.right if isinstance(node.left, ast.Constant) else node.left
        elif isinstance(node, ast.Call):
            if not isinstance(node.func, ast.Attribute):
                return word(node.func)
            node = node.func.value
        else:
            node = node.value
    return word(node)


def has_engine(module: Module) -> bool:
    """Is there an engine? Only what runs on a device is one."""
    return bool(module.view(_engines))


def _engines(module: Module) -> frozenset[str]:
    """What has a loss handed to its ``backward``; or anything, where it has a ``step`` too: no tensor has both."""
    stepped = {_receiver(module, call) for call in module.index.calls("step")} - {"self", "cls"}
    found: set[str] = set()
    for call in module.index.calls("backward"):
        func = call.func
        if isinstance(func, ast.Attribute) and (module.qualified(func) or "builtins.").startswith("builtins."):  # fmt: skip
            handed = hands_loss(call) and not LOSS.search(_first_word(func.value))
            name = module.source(func.value)
            if handed or (call.args and name in stepped):
                found.add(name)
    return frozenset(found)


# -- methods around a step ------------------------------------------------------------------

#: What wrappers of optimizers call the method that steps, or steps and does something else besides.
_STEPS = lazily(r"step|step_and_\w+|\w+_and_step|(first|second|ascent|descent)_step")
#: How classes are called that represent an optimizer, or the scaler that steps one.
_LIKE = lazily(r"[Oo]ptim(?!\w*Sched)|Opt($|[A-Z_])|Scaler($|[A-Z_])")
_MORE_THAN_ONE = lazily(r"trainer|agent|learner|runner|env|callback|hook", re.I)


def is_wrapper(module: Module, function: ast.AST) -> bool:
    """Is ``function`` a method whose callers write a step themselves: ``def backward(self, loss)``, an optimizer's ``step``?

    One of the two places is to be marked: the outer one, which is called with other steps around it. A method with any other
    name (``optimizer_step``, ``update``) is marked inside.
    """
    owner = module.parent(function)
    if not isinstance(function, ast.FunctionDef) or not isinstance(owner, ast.ClassDef):
        return False
    if function.name == "backward":
        args = function.args
        given = {arg.arg for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs)}
        return bool(given - {"self", "cls"}) or args.vararg is not None
    if not _STEPS.fullmatch(function.name):
        return False
    if any(map(_LIKE.search, (owner.name, *base_words(module, owner.name)))):
        return True
    clears = any(getattr(part, "name", "") == "zero_grad" for part in owner.body)
    return clears and not _MORE_THAN_ONE.search(owner.name)


def own_method(module: Module, func: ast.expr) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The method of this file that ``self.method`` or ``thing.method`` means, where the file shows what the thing is."""
    if not isinstance(func, ast.Attribute) or not module.index.definitions(func.attr):
        return None  # most calls
    calls = module.view(Values).calls
    owners = calls.classes_of(func.value)
    found = (calls.method(owner, func.attr) for owner in sorted(owners, key=lambda o: o.lineno))
    return next((method for method in found if method is not None), None)


# -- steps ----------------------------------------------------------------------------------


class Step(enum.Enum):
    """What a call does to the parameters of a model."""

    #: ``loss.backward()``.
    BACKWARD = "backward"
    #: ``optimizer.step()``.
    UPDATE = "update"


def steps(module: Module) -> list[tuple[ast.Call, Step]]:
    """The steps of the file that Lightning does not mark, in source order, outer calls first."""
    calls = [*module.index.calls("backward"), *module.index.calls("step")]
    calls += calls_like(module, _STEPS, "step_and_", "_and_step", "t_step", "d_step")
    found = [(call, step) for call in calls if (step := _step(module, call)) is not None]
    scalers = calls_like(module, re.compile(r"\w*scaler\w*"), "scaler")
    found += [(call, Step.UPDATE) for call in scalers if _is_scaler_call(module, call)]
    plain = [call for call, step in found if step is Step.BACKWARD]
    found = [
        each for each in found if each[1] is Step.BACKWARD or not _is_driven(module, each[0], plain)
    ]
    return sorted(found, key=lambda item: (module.span(item[0]).start, -module.span(item[0]).end))


def _step(module: Module, call: ast.Call) -> Step | None:
    func = call.func
    if not isinstance(func, ast.Attribute):
        return None
    base, name = func.value, module.qualified(func)
    if name == "torch.autograd.backward":
        return Step.BACKWARD
    of_super = isinstance(base, ast.Call) and getattr(base.func, "id", "") == "super"
    if of_super or is_lightning(module, base):
        return None
    is_step = _is_backward if func.attr == "backward" else _is_update
    method = own_method(module, func)
    if is_wrapper(module, method) if method is not None else is_step(module, call, base, name):
        return Step.BACKWARD if func.attr == "backward" else Step.UPDATE
    return None


def _is_backward(module: Module, call: ast.Call, base: ast.expr, name: str | None) -> bool:
    first = base
    while isinstance(first, ast.Attribute):
        first = first.value
    if not isinstance(first, ast.Name):
        return True
    if isinstance(base, ast.Name) and base.id in ("self", "cls", "ctx"):
        return base.id == "self" and hands_loss(call)
    bound = module.bindings(first)
    if any(b.kind == "import" for b in bound) and not (name or "").startswith("builtins."):
        return False
    return first is not base or not any(isinstance(b.node, ast.ClassDef) for b in bound)


def _is_update(module: Module, call: ast.Call, base: ast.expr, name: str | None) -> bool:
    if isinstance(base, ast.Name) and base.id in ("self", "cls"):
        return False
    if call.args and (is_scaler(module, base) or is_optimizer(module, call.args[0])):
        return (
            True  # whatever it is called on: an accelerator of some package steps with its scaler
        )
    engine = module.source(base) in module.view(_engines) or module.view(Roles).of(base) & Is.ENGINE
    return bool(engine) or is_optimizer(module, base)


def is_of_loss(call: ast.Call) -> bool:
    """Is it a loss whose gradients are taken: ``(loss_d * gain).mean().backward()``?"""
    return any(
        isinstance(part, (ast.Name, ast.Attribute)) and LOSS.search(word(part)) is not None
        for part in walk(call)
        if part is not call.func
    )


def _is_driven(module: Module, update: ast.Call, plain: Sequence[ast.Call]) -> bool:
    """Is the backward pass that goes with an update one of Lightning (``fabric.backward(loss)``), which marks both?

    ``plain`` are the other backward passes. What is in the same function decides; without any
    backward there, the whole file.
    """
    driven = module.view(_driven)
    around = module.function(update)
    if not driven or any(module.function(other) is around for other in plain):
        return False
    return any(module.function(call) is around for call in driven) or not plain


def _driven(module: Module) -> list[ast.Call]:
    """Every backward pass of the file that Lightning runs."""
    passes = [c for c in module.index.calls("backward") if isinstance(c.func, ast.Attribute)]
    found = [c for c in passes if is_lightning(module, c.func.value)]  # type: ignore[attr-defined]
    return [*found, *module.index.calls("manual_backward")]


# -- what runs in every step ----------------------------------------------------------------

_LOOPS = (ast.For, ast.While, ast.AsyncFor)
_DEFINED = (ast.FunctionDef, ast.AsyncFunctionDef)
#: Methods that run where an object is made.
_MAKES = ("__init__", "__post_init__")
#: Words of conditions that hold now and then, or in one process.
_SELDOM = lazily(r"log|print|verbose|debug|interval|freq|every|rank|main|master|last|best|eval|val|save|first|display|report", re.I)  # fmt: skip


def in_every_step(module: Module, node: ast.AST) -> bool:
    """Does ``node`` run in every step: in a loop that trains or a function that is a step, under no rare condition?"""
    regions = module.view(step_regions)
    if not regions:
        return False
    for inside, above in module.upwards(node):
        if above in regions:
            return True
        if isinstance(above, (ast.If, ast.IfExp)) and inside is not above.test:
            if _is_rare(above.test) and not _holds_pass(module, above, inside):
                return False
        elif isinstance(above, (ast.ExceptHandler, *FUNCTIONS, ast.ClassDef)):
            return False
    return False


def _holds_pass(module: Module, chosen: ast.If | ast.IfExp, inside: ast.AST) -> bool:
    """Is the branch that ``inside`` is of a training step itself: does a backward pass or an optimizer's step run in it, though once in so many turns?"""
    branch = chosen.body if isinstance(chosen, ast.If) and inside in chosen.body else chosen.orelse
    return isinstance(branch, list) and any(
        above in branch for call in _passes(module) for above in module.ancestors(call)
    )


def serves_step(module: Module, node: ast.AST) -> bool:
    """Is ``node`` in what a training step runs: a method of a module, a step itself, or a function of the project that one of
    these calls, directly or through others? What makes a module runs once, and is no part of a step.
    """
    if is_in_module(module, node) or in_every_step(module, node):
        return True
    outer = [above for above in module.ancestors(node) if isinstance(above, (*_DEFINED, ast.ClassDef))]  # fmt: skip
    named = ".".join(each.name for each in reversed(outer[-2:]))
    return bool(outer) and not {outer[-1].name, named}.isdisjoint(module.view(_calls).of_steps)


def collates(module: Module, node: ast.AST) -> bool:
    """Is ``node`` in what a loader of the project makes batches of samples with, or in what that calls?"""
    outer = [above for above in module.ancestors(node) if isinstance(above, (*_DEFINED, ast.ClassDef))]  # fmt: skip
    if not outer or getattr(outer[-2:][0], "name", "") in _MAKES:
        return False
    given = {*module.view(_calls).collating}
    named = ".".join(each.name for each in reversed(outer[-2:]))
    if isinstance(outer[-1], ast.ClassDef) and not given.isdisjoint({outer[-1].name, *base_words(module, outer[-1].name)}):  # fmt: skip
        return True
    return not {outer[-1].name, named}.isdisjoint(module.view(_calls).in_batches)


def is_called_in_step(module: Module, node: ast.AST) -> bool:
    """Is ``node``, under no rare condition, in a function or a method of the project that a step or a forward pass calls each time?"""
    function: ast.AST | None = None
    owner = ""
    for inside, above in module.upwards(node):
        if (
            isinstance(above, (ast.If, ast.IfExp))
            and inside is not above.test
            and _is_rare(above.test)
        ):
            return False
        if isinstance(above, (ast.ExceptHandler, ast.Lambda)):
            return False
        if isinstance(above, ast.ClassDef):
            owner = f"{above.name}."
            break
        function = above if isinstance(above, _DEFINED) else function
    return (
        isinstance(function, _DEFINED)
        and not _is_test(function)
        and f"{owner}{function.name}" in module.view(_calls).called_in_steps
        and not is_switched_off(module, node)
    )


class _Calls:
    """Which functions and methods of a project call which, by name."""

    def __init__(self, every: Iterable[str]) -> None:
        #: What each calls: functions, and classes.
        self.owners: dict[str, list[str]] = {}
        #: The classes that define a method of a name.
        self.classes: dict[str, list[str]] = {}
        for each in sorted(every):
            owner, _, called = each.partition(">")
            if called:
                self.owners.setdefault(owner, []).append(called)
            else:
                kind, _, method = owner.partition(".")
                self.classes.setdefault(method, []).append(kind)
        #: The project's classes.
        self.kinds = {kind for kinds in self.classes.values() for kind in kinds}
        self._reached: dict[Bases, _Reached] = {}

    def reached(self, bases: Bases) -> _Reached:
        """What is called where, as far as these bases say."""
        return self._reached.setdefault(bases, _Reached(self, bases))


class _Reached:
    """What the steps of a project call, and its loaders."""

    def __init__(self, calls: _Calls, bases: Bases) -> None:
        self._calls = calls
        self._bases = bases
        self._known: dict[tuple[str, bool], tuple[str, ...]] = {}
        #: The functions and classes that loaders are given.
        self.collating = frozenset(calls.owners.get(COLLATES, ()))

    @cached_property
    def in_batches(self) -> frozenset[str]:
        """The functions and methods of the project that make batches, and those that these call."""
        return self._all([COLLATES, *(owner for owner in self._calls.owners if owner.partition(".")[0] in self.collating)], samples=True)  # fmt: skip

    @cached_property
    def called_in_steps(self) -> frozenset[str]:
        """The functions and methods that are called in the loop around a backward pass, or in the forward pass of a module, and those that these call."""
        passes = (owner for owner in self._calls.owners if owner.endswith(FORWARD))
        found = self._all([LOOP, *(owner for owner in passes if self._passes_each(owner.removesuffix(FORWARD)))])  # fmt: skip
        return found - self.in_batches

    @cached_property
    def of_steps(self) -> frozenset[str]:
        """The functions of the project that a step or a module calls, by name."""
        return self._all([STEP, *(owner for owner in self._calls.owners if self._bases.is_module(owner.partition(".")[0]))])  # fmt: skip

    def _passes_each(self, name: str) -> bool:
        """Is it a module, or a class whose methods a framework calls in each step?"""
        bases = self._bases.of(name)
        return self._bases.is_module(name) or any(not bases.isdisjoint(of) for of in CALLED.values())  # fmt: skip

    def _all(self, new: list[str], *, samples: bool = False) -> frozenset[str]:
        """What some of them call, directly or through others; of classes of samples, which workers read on the CPU, only on request."""
        found: set[str] = set()
        while new:
            called = {
                each
                for name in self._calls.owners.get(new.pop(), ())
                for each in self._meant(name, samples)
            }
            new += called - found
            found |= called
        return frozenset(found)

    def _meant(self, name: str, samples: bool) -> tuple[str, ...]:
        known = self._known.get((name, samples))
        if known is None:
            known = self._known[name, samples] = (*self._meanings(name, samples),)
        return known

    def _meanings(self, name: str, samples: bool) -> Iterable[str]:
        """What a name may be: of a method all that the classes which derive from one have, none where several have it that are of no one kind."""
        kind, dot, method = name.partition(".")
        if not dot:
            return (name,)
        owning = [each for each in self._calls.classes.get(method, ()) if samples or each not in self._of_samples]  # fmt: skip
        if kind:
            return (name, *(f"{each}.{method}" for each in owning if kind in self._bases.of(each)))
        if len(owning) > 1:
            kinds = [{each, *self._bases.of(each)} for each in owning]
            if not any(each in self._calls.kinds for each in set.intersection(*kinds)):
                return ()
        return (f"{each}.{method}" for each in owning)

    @cached_property
    def _of_samples(self) -> frozenset[str]:
        """The classes of samples."""
        return frozenset(kind for kind in self._calls.kinds if any(each.endswith("Dataset") for each in (kind, *self._bases.of(kind))))  # fmt: skip


def _calls(module: Module) -> _Reached:
    """What the steps of the module's project call; what is read of it is worked out once for all of its files."""
    shared = module.path in module.project.files
    calls = of_project(module, STEP_CALLS, _Calls) if shared else _Calls(said(module, STEP_CALLS))
    return calls.reached(module.view(bases_of))


def runs_in_step(module: Module, node: ast.AST) -> bool:
    """Does it run in each step: in the loop, in a forward pass, or in a function of the project that is called there?

    This is the one answer for what costs something in every step.
    """
    return (
        in_every_step(module, node)
        or over_parameters(module, node)
        or _in_pass(module, node)
        or is_called_in_step(module, node)
    )


def _in_pass(module: Module, node: ast.AST) -> bool:
    """Does ``node`` run in each forward pass or step, also in a method that is called there, and those that this one calls?"""
    if in_forward(module, node):
        return True
    function = module.function(node)
    return (
        function is not None
        and function.name not in _MAKES
        and isinstance(module.parent(function), ast.ClassDef)
        and function in module.view(_helpers)
        and not is_switched_off(module, node)
    )


def _helpers(module: Module) -> set[ast.AST]:
    """The methods that the ``forward`` of a torch module or a step calls, or methods called there."""
    found: set[ast.AST] = set()
    whole = module.index.statements(ast.FunctionDef)
    regions = module.view(step_regions)
    new: list[ast.AST] = [*(f for f in whole if in_forward(module, f.body[0])), *regions]
    while new:
        around = new.pop()
        reached = [
            method
            for part in walk(around)
            if isinstance(part, ast.Call)
            and (method := own_method(module, part.func)) is not None
            and method not in found
            and (
                in_every_step(module, part)
                if around in regions
                else not is_switched_off(module, part)
            )
        ]
        found.update(reached)
        new += reached
    return found


def in_forward(module: Module, node: ast.AST) -> bool:
    """Is ``node`` in the forward pass of a module, under no rare condition?"""
    function = module.function(node)
    if function is None or function.name not in ("forward", "__call__"):
        return False
    return is_in_module(module, function) and not is_switched_off(module, node)


def is_switched_off(module: Module, node: ast.AST) -> bool:
    """Does training pass ``node`` by: under ``if not self.training:``, or where a parameter has to be true that is False unless given?"""
    for inside, above in module.upwards(node):
        if isinstance(inside, ast.stmt):
            block, place = module.place(inside)
            if any(map(_returns_in_training, block[:place])):
                return True
        if isinstance(above, FUNCTIONS):
            return False
        if isinstance(above, (ast.If, ast.IfExp)) and inside is not above.test:
            body = above.body if isinstance(above.body, list) else [above.body]
            tested = _tested_in(above.test, inside in body)
            if any(_is_off(module, node, part, wanted) for part, wanted in tested):
                return True
    return False


def runs_once(module: Module, node: ast.AST) -> bool:
    """Is ``node`` run once for a model or a program: in ``__init__``, or in a block that raises in the end?"""
    function = module.function(node)
    if function is not None and function.name in _MAKES:
        return True
    statement = module.statement(node)
    return isinstance(statement, ast.Raise) or isinstance(module.block(statement)[-1], ast.Raise)


def _returns_in_training(statement: ast.stmt) -> bool:
    """``if self.training: return losses``."""
    return (
        isinstance(statement, ast.If)
        and isinstance(statement.test, ast.Attribute)
        and statement.test.attr == "training"
        and isinstance(statement.body[-1], ast.Return)
    )


def _tested_in(test: ast.expr, wanted: bool = True) -> Iterator[tuple[ast.expr, bool]]:
    """What has to be true, or false, for a condition to hold."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _tested_in(test.operand, not wanted)
    elif isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) == wanted:
        for part in test.values:
            yield from _tested_in(part, wanted)
    else:
        yield test, wanted


def _is_off(module: Module, node: ast.AST, part: ast.expr, wanted: bool) -> bool:
    if isinstance(part, ast.Attribute):
        return part.attr == "training" and not wanted
    function = module.function(node)
    if not wanted or not isinstance(part, ast.Name) or function is None:
        return False
    given = function.args
    pairs = [
        *zip(reversed([*given.posonlyargs, *given.args]), reversed(given.defaults), strict=False)
    ]
    pairs += [
        (arg, value)
        for arg, value in zip(given.kwonlyargs, given.kw_defaults, strict=True)
        if value
    ]
    return any(arg.arg == part.id and module.constant(value) is False for arg, value in pairs)


def step_regions(module: Module) -> set[ast.AST]:
    """The loop around each backward pass and each step of an optimizer, or the function where there is none.

    The two differ where gradients are summed over small batches: both loops run in every step. Where a function that is a step
    is called, the same holds of the loop or the function around.
    """
    found = {each for call in _passes(module) for each in _around(module, call)}
    found.update(_called_by_frameworks(module))
    new = list(found)
    while new:
        function = new.pop()
        calls = _calls_of(module, function) if isinstance(function, _DEFINED) else ()
        above = {each for call in calls for each in _around(module, call)} - found
        found |= above
        new += above
    return {each for each in found if not any(map(_is_test, (each, *module.ancestors(each))))}


def _is_test(node: ast.AST) -> bool:
    return isinstance(node, _DEFINED) and node.name.lstrip("_").startswith("test")


def _around(module: Module, node: ast.AST) -> Iterator[ast.AST]:
    around = (a for a in module.ancestors(node) if isinstance(a, (*_LOOPS, *_DEFINED)))
    return itertools.islice(around, 1)


def _calls_of(module: Module, function: Function) -> list[ast.Call]:
    """The calls of a function that the file shows to be this one's, not those of some method of the same name."""
    return [
        call
        for call in module.view(Values).calls_of(function)
        if isinstance(call.func, ast.Name) or own_method(module, call.func) is not None
    ]


def _called_by_frameworks(module: Module) -> Iterator[ast.AST]:
    for name, bases in CALLED.items():
        for function in module.index.definitions(name):
            owner = enclosing_class(module, function)
            if owner is not None and not base_words(module, owner.name).isdisjoint(bases):
                yield function


def _passes(module: Module) -> Iterator[ast.Call]:
    passes = [*module.index.calls("backward"), *module.index.calls("manual_backward")]
    passes = [call for call in passes if isinstance(call.func, ast.Attribute)]
    yield from passes
    for call in module.index.calls("step") if passes else ():
        if isinstance(call.func, ast.Attribute) and (
            is_optimizer(module, call.func.value) or is_scaler(module, call.func.value)
        ):
            loops = [a for a in module.ancestors(call) if isinstance(a, _LOOPS)]
            if any(set(loops[:1]) & set(module.ancestors(each)) for each in passes):
                yield call


def over_parameters(module: Module, node: ast.AST) -> bool:
    """Is ``node`` in a loop over parameters and their gradients, which runs in each step as well?"""
    for above in module.ancestors(node):
        if isinstance(above, (ast.For, ast.comprehension)):
            loops = [above]
        elif isinstance(above, (ast.GeneratorExp, ast.ListComp, ast.SetComp)):
            loops = list(above.generators)
        elif isinstance(above, (*FUNCTIONS, ast.ClassDef)):
            return False
        else:
            continue
        if any(map(_goes_over_parameters, loops)):
            return any(above in module.ancestors(grad) for grad in module.index.attributes("grad"))
    return False


def _goes_over_parameters(loop: ast.For | ast.comprehension) -> bool:
    return any(
        isinstance(part, ast.Attribute) and part.attr in ("parameters", "named_parameters")
        for part in walk(loop.iter)
    ) or (isinstance(loop.iter, ast.Name) and loop.iter.id in ("params", "parameters"))


def _is_rare(test: ast.expr) -> bool:
    for part in walk(test):
        if isinstance(part, (ast.Mod, ast.Call)):
            return True
        if _SELDOM.search(getattr(part, "attr", getattr(part, "id", ""))):
            return True
    trains = any(isinstance(part, ast.Constant) and part.value == "train" for part in walk(test))
    return isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq) and not trains
