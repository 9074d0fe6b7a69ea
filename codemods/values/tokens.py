"""Every CUDA token of a file, and why one that no rule reports does nothing on the device."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from hpushim.engine.base.accounted import Accounted, Outcome
from hpushim.engine.python.module import Module
from hpushim.engine.rules.claims import Said
from hpushim.model import Finding, Span
from hpushim.patterns import lazily
from hpushim.pycode.values import SAME, At, Cell, Edge, How, Values

from ..analysis.cuda_words import CudaWord, inside, whole
from ..analysis.device_texts import glued, is_switch
from ..analysis.devices import Devices
from ..analysis.names import in_annotation, word
from .never_run import NeverRun

_WORD = lazily(r"(?<![A-Za-z0-9_])(?:cuda|nccl)(?![A-Za-z0-9_])|(?<![A-Za-z0-9])(?:CUDA|NCCL)_[A-Z]", re.IGNORECASE)  # fmt: skip
_WORDS = ("cuda", "nccl")
#: A text of several lines that is longer is no command line.
_PROSE = 400
#: A text that it is put in, and what is looked up with it, do no more than the places that they go to.
_MADE: frozenset[How] = frozenset(["text", "index"])
_FORWARD = SAME | _MADE
#: What shows or records all that it is given, and what makes or opens a path.
_SHOWING = ("print", "input", "logging", "warnings", "sys.stdout", "sys.stderr", "traceback", "pytest.skip", "pytest.xfail", "unittest.skip")  # fmt: skip
#: The methods of a logger, wherever it was made, whose calls give nothing.
_LOGS = frozenset(["debug", "info", "warning", "error", "critical"])
_PATHS = ("os.path", "pathlib", "open")

#: A regular expression, or one of a shell's, that devices of CUDA match.
_PATTERN = lazily(r"\^?\(*(\?:|\?P<\w+>)?cuda($|[^\w\-./ ])")
#: What people call the settings of a program, whose ``cuda`` is a switch.
SETTINGS = frozenset(["self", "cls", "args", "arg", "opt", "opts", "options", "config", "cfg", "conf", "params", "hparams", "hps", "flags", "FLAGS", "settings", "gpu", "use"])  # fmt: skip
#: What separates the parts of a text.
_BETWEEN = lazily(r"[\s,;|/+]+")
_TESTS = (ast.If, ast.IfExp, ast.While, ast.BoolOp, ast.UnaryOp, ast.Compare, ast.Assert)


class Token(NamedTuple):
    """A string with ``cuda`` or ``nccl`` as a word, or a name, an attribute or an import that is one."""

    node: ast.AST
    span: Span
    text: str


class Account:
    """What the rules have said of a file, for later readers: ``module.view(Account)``."""

    def __init__(self, module: Module) -> None:
        self.said = Said(module, ())


def entries(module: Module, findings: Iterable[Finding]) -> Iterator[Accounted]:
    """What becomes of each token, in source order."""
    account = module.view(Account).said
    findings = list(findings)
    rows = {f.row for f in findings} - {None}  # some say what they have to say once in a file
    for token in tokens(module):
        line, column = module.position(token.span.start)
        said, why = account.of(token.span), ""
        outcome: Outcome = "unknown"
        here = [f for f in findings if f.span.start < token.span.end and token.span.start < f.span.end]  # fmt: skip
        if any(f.severity == "unknown" and f.fix is None for f in here):
            pass
        elif said == "kept":
            outcome = "inert"
            why = module.view(Reasons).of(token.node) or "a rule keeps this code as it is"
        elif said or here or _row(module, token.node) in rows:
            outcome = said or "found"
        elif why := module.view(Reasons).of(token.node):
            outcome = "inert"
        else:
            why = "not reported"
        yield Accounted(line, column, token.text, outcome, why)


def tokens(module: Module) -> Iterator[Token]:
    """The CUDA tokens of a file, in source order."""
    index = module.index
    nodes: set[ast.AST] = set()
    for each in _WORDS:
        nodes.update(index.names(each), index.attributes(each), index.keywords(each))
    for text in (*_WORDS, *map(str.upper, _WORDS), *map(str.title, _WORDS)):
        nodes.update(n for n in index.strings(text) if _WORD.search(str(n.value)))
    for statement in index.imports:
        base = getattr(statement, "module", None) or ""
        for alias in statement.names:
            if not set(_WORDS).isdisjoint((*base.split("."), *alias.name.split("."))):
                nodes.add(alias)
    found = [Token(n, word_span(module, n), module.source(n)) for n in nodes - index.lost]
    yield from sorted(found, key=lambda token: (token.span.start, token.span.end))


def word_span(module: Module, node: ast.AST) -> Span:
    """Where a word is: at the end of a chain of attributes, which may begin lines above."""
    span = module.span(node)
    if isinstance(node, ast.Attribute) and node.attr in _WORDS:
        return Span(span.end - len(node.attr), span.end)
    return span


def value_of(module: Module, node: ast.Constant) -> CudaWord | None:
    """The word that a string, or a part of an f-string, is or gives as a value."""
    text, parent = str(node.value), module.parent(node)
    if isinstance(parent, ast.JoinedStr):
        first = parent.values[0] is node
        found = whole(text) if first and text in ("cuda", "cuda:") else None
    else:
        found = whole(text)
    if found is None and (len(text) < _PROSE or "\n" not in text):
        found = next(inside(text), None)
    return found


class Reasons:
    """Why a token does nothing on the device, by what the value graph shows: ``module.view(Reasons)``."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._values = module.view(Values)

    def of(self, node: ast.AST) -> str:
        """The reason; "" where there is none, and the token is to be reported."""
        if in_annotation(self._module, node) and not self._is_literal(node):
            return "an annotation"
        if self.beside(node):
            return "the choice for Gaudi is next to it"
        if self._module.view(NeverRun).holds(node):
            return "never runs"
        if isinstance(node, ast.Constant):
            return self._of_text(node)
        return _of_name(self._module, node)

    def _is_literal(self, node: ast.AST) -> bool:
        """``Literal["gloo", "nccl"]``: command lines read their choices out of annotations."""
        above = self._module.parent(node)
        if isinstance(above, ast.Tuple):
            above = self._module.parent(above)
        return isinstance(above, ast.Subscript) and word(above.value) == "Literal"

    def beside(self, node: ast.AST) -> bool:
        """Is the other choice of the same expression Gaudi's?"""
        if self._module.view(Devices).handles_hpu(node):
            return True
        found = value_of(self._module, node) if isinstance(node, ast.Constant) else None
        return (
            found is not None
            and found.kind == "backend"
            and any(
                isinstance(above, ast.expr) and "hccl" in self._module.source(above)
                for above in self._module.ancestors(node)
            )
        )

    def _of_text(self, node: ast.Constant) -> str:
        if isinstance(self._module.parent(node), ast.Expr):
            return "not used, such as a docstring"
        found = value_of(self._module, node)
        if found is None:
            used = (
                matches_devices(self._module, node)
                or self._taken_apart(node)
                or self._module.view(Devices).is_parsed(node)
            )
            return "" if used else "prose, not a value"
        if self._is_help(self._module.parent(node)):
            return "the help of an option"
        if is_switch(self._module, node):
            return "the name of a setting that is True or False"
        whole_text: ast.AST = node
        above = self._module.parent(node) or node
        filled = isinstance(above, ast.BinOp) and above.left is node
        if isinstance(above, ast.JoinedStr) or (filled and found.text.startswith("cuda:")):
            whole_text = above
        made = above if filled or isinstance(above, ast.JoinedStr) else node
        if why := self.of_value(node) or self.of_value(made):
            return why
        if found.kind == "name" and self._is_key(node):
            return "a key of a table of this project"
        if found.text != node.value and self._is_logged(made):
            return "only shown, by a logger"
        if found.text == node.value and glued(self._module, whole_text):
            return "part of a longer word or of a path"
        return ""

    def _is_key(self, node: ast.AST) -> bool:
        """Is a text only what something is stored under, by a function of the file maybe: ``self.states[name] = state``?

        Or what the file stores something under and reads it by.
        """
        value = getattr(node, "value", None)
        texts = self._module.index.strings(str(value))
        above = [(each, self._module.parent(each)) for each in texts if each.value == value]
        keys = all(each is getattr(one, "slice", None) or each in getattr(one, "keys", ()) for each, one in above)  # fmt: skip
        if keys and any(isinstance(getattr(one, "ctx", None), ast.Load) for _, one in above):
            return True
        reached = [*self._values.reach(node, self._values.uses)]
        stored = [e for e in reached if e.how == "index" and isinstance(getattr(e.node, "ctx", None), ast.Store)]  # fmt: skip
        return bool(stored) and all(e.same or e in stored or e.how == "passed" for e in reached)

    def _is_logged(self, node: ast.AST) -> bool:
        """``logger.info("CUDA_VISIBLE_DEVICES=%s" % devices)``, whatever made the logger."""
        call = self._module.parent(node)
        if not isinstance(call, ast.Call) or word(call.func) not in _LOGS:
            return False
        return isinstance(self._module.parent(call), ast.Expr)

    def _taken_apart(self, node: ast.Constant) -> bool:
        """Is a device one of the parts of ``"cpu,cuda".split(",")``?"""
        reached = self._values.reach(node, self._values.uses)
        return any(edge.how == "part" and edge.at.way for edge in reached) and any(map(whole, _BETWEEN.split(str(node.value))))  # fmt: skip

    def of_value(self, node: ast.AST) -> str:
        """Why a value does nothing: what all the places have in common that it goes to."""
        ends = list(self._ends(node))
        return ends[0] if ends and all(ends) else ""

    def _ends(self, node: ast.AST) -> Iterator[str]:
        """The reason of each place where the value's way ends; "" for one that may use it."""
        onward = self._values.reach(node, self._values.uses, _FORWARD)
        arrived = [At(node), *(edge.at for edge in onward if edge.how in _FORWARD)]
        for at in arrived:
            edges = self._values.uses(at)
            if isinstance(at.node, Cell):
                if not edges:
                    yield self._unread(at.node)
                continue
            taken = {self._call(e.node) for e in edges if e.how == "argument"}
            passed = any(e.how in _FORWARD for e in edges)
            for edge in edges:
                if edge.how not in _FORWARD and not (passed and edge.how == "passed" and taken):
                    yield self._end(edge)
            if not edges:
                yield self._without_use(at.node)

    def _call(self, node: ast.AST | Cell) -> ast.AST | None:
        return self._module.parent(node) if isinstance(node, ast.keyword) else None

    def _unread(self, cell: Cell) -> str:
        """A variable of a function that nothing reads; others may be read by other files."""
        local = isinstance(cell.owner, (ast.FunctionDef, ast.AsyncFunctionDef))
        return "a variable that nothing reads" if cell.kind == "variable" and local else ""

    def _without_use(self, node: ast.AST) -> str:
        parent = self._module.parent(node)
        if isinstance(parent, ast.Expr):
            return "not used"
        if isinstance(parent, ast.Raise):
            return "only in the message of an error"
        return "only in the message of an assertion" if isinstance(parent, ast.Assert) else ""

    def _end(self, edge: Edge) -> str:
        node = edge.node
        if edge.how == "test":
            test = isinstance(node, ast.Assert)
            return "only in the message of an assertion" if test else "only tested for truth"
        if edge.how != "passed" or not isinstance(node, ast.AST):
            return ""
        call = self._module.parent(node) if isinstance(node, ast.keyword) else node
        if not isinstance(call, ast.Call):
            return ""
        if self._is_help(node):
            return "the help of an option"
        return self._passed(call)

    def _is_help(self, node: ast.AST | None) -> bool:
        """``add("--device", help=…)``, whatever is called."""
        call = self._module.parent(node) if isinstance(node, ast.keyword) and node.arg == "help" else None  # fmt: skip
        if not isinstance(call, ast.Call):
            return False
        named = any(str(getattr(arg, "value", "")).startswith("-") for arg in call.args)
        return named or bool(self._values.options.name(call))

    def _passed(self, call: ast.Call) -> str:
        """By what the called function is: of Python's own, a logger, or an error that is raised."""
        module = self._module
        if isinstance(module.parent(call), ast.Raise):
            return "only in the message of an error"
        name = module.qualified(call.func) or self._made_by(call.func)
        name = name.removeprefix("builtins.")
        if _is_below(name, _SHOWING):
            return f"only shown, by {name}"
        if _is_below(name, _PATHS):
            return f"only part of a path, in {name}"
        kind = getattr(builtins, name, None)
        if isinstance(kind, type) and issubclass(kind, BaseException):
            return "only in the message of an error"
        return ""

    def _made_by(self, func: ast.expr) -> str:
        """``logging.getLogger`` for a method of what that gives."""
        if isinstance(func, ast.Attribute):
            for origin in self._values.origins(func.value):
                if isinstance(origin, ast.Call) and (name := self._module.qualified(origin.func)):
                    return name
        return ""


def _is_below(name: str, names: tuple[str, ...]) -> bool:
    return any(name == each or name.startswith(f"{each}.") for each in names)


def matches_devices(module: Module, node: ast.Constant) -> bool:
    """``re.match(r"cuda(:\\d+)?$", str(device))``, ``fnmatch(str(device), "cuda*")``."""
    call = module.parent(node)
    if not isinstance(call, ast.Call) or not _PATTERN.match(str(node.value)):
        return False
    return (module.qualified(call.func) or "").startswith(("re.", "fnmatch."))


def probed(module: Module, node: ast.expr, name: str) -> bool:
    """``getattr(torch.cuda.amp, "autocast") is not None``: what torch has, with CUDA or without."""
    call = module.parent(node)
    if not isinstance(call, ast.Call) or word(call.func) not in ("getattr", "hasattr") or len(call.args) < 2:  # fmt: skip
        return False
    is_test = isinstance(module.parent(call), _TESTS) or word(call.func) == "hasattr"
    return is_test and module.matrix.row(f"{name}.{module.constant(call.args[1])}") is not None


def _longest(module: Module, node: ast.AST) -> ast.expr:
    """``torch.cuda.memory_allocated`` for the ``torch.cuda`` in it."""
    while isinstance(above := module.parent(node), ast.Attribute):
        node = above
    assert isinstance(node, ast.expr)
    return node


def _row(module: Module, node: ast.AST) -> str:
    """The row of the matrix that the name of a token has; "" for none."""
    if not isinstance(node, (ast.Name, ast.Attribute)):
        return ""
    name = module.qualified(_longest(module, node))
    row = module.matrix.covering(name) if name else None
    return row.name if row is not None else ""


def _of_name(module: Module, node: ast.AST) -> str:
    """Why a name, an attribute, a keyword or an import does nothing by itself."""
    if isinstance(node, ast.keyword):
        return "the name of a parameter; its value is listed separately"
    if isinstance(node, ast.alias):
        return _of_import(module, node)
    if isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del)):
        return "a name that this project defines"
    if isinstance(node, ast.Name) and any(not b.qualified for b in module.bindings(node)):
        return "a variable; the value assigned to it is listed separately"
    longest = _longest(module, node)
    name = module.qualified(longest) or ""
    if name.startswith("torch."):
        return "only tests whether torch has it" if probed(module, longest, name) else ""
    if name and not name.startswith("builtins."):
        return f"of {name.partition('.')[0]}, not of torch"
    if isinstance(node, ast.Name):
        return "a name that is not torch's"
    parent = module.parent(node)
    if isinstance(parent, ast.Attribute):
        return "an attribute that this project defines"
    called = isinstance(parent, ast.Call) and parent.func is node
    tested = isinstance(parent, _TESTS) and getattr(parent, "test", node) is node
    if not called and tested:
        return "only tested for truth"
    own = isinstance(node, ast.Attribute) and word(node.value) in SETTINGS
    return "a setting of this project, judging by the name of its container" if own and not called else ""  # fmt: skip


def _of_import(module: Module, node: ast.alias) -> str:
    statement = module.parent(node)
    base = getattr(statement, "module", None) or ""
    if (base or node.name).partition(".")[0] != "torch" or getattr(statement, "level", 0):
        return "an import that is not torch's"
    return "an import; its uses are listed separately"
