"""CUDA and NCCL words of which no rule has said anything: none is passed over in silence."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, NamedTuple

from hpushim.engine.rules.rule import Found, Rule, Yield
from hpushim.engine.rules.wants import Wants
from hpushim.model import Span

from ..analysis.cuda_words import CudaWord, inside, told_of, whole
from ..analysis.device_texts import glued, is_switch
from ..analysis.devices import Devices
from ..analysis.names import word
from ..analysis.words import words_with

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hpushim.engine.python.module import Module
    from hpushim.engine.python.scope import Binding
    from hpushim.engine.rules.told import Told

_MODULE = "torch.cuda"
_VARIABLES = ("CUDA_", "NCCL_")
#: Calls that write a text out, or make a larger one of it.
_LOGGING = frozenset(
    [
        *("print", "debug", "info", "warning", "warn", "error", "exception", "critical", "log", "fatal"),
        *("write", "format", "skip", "skipIf", "skipUnless", "xfail", "echo", "title", "set_title"),
        *("getLogger", "get_logger", "simplefilter", "filterwarnings", "match", "search", "sub"),
        *("plot", "legend", "label", "set_label", "add_scalar", "range_push", "record_function"),
    ]
)  # fmt: skip
#: A text of several lines that is longer is no command line.
_PROSE = 400
_FAILURES = ("Error", "Exception", "Warning")
#: Arguments that hold prose or a name of the author's own.
_PROSE_KEYS = frozenset(["help", "description", "title", "label", "msg", "message", "reason", "desc", "name", "metavar", "doc", "prefix", "suffix", "match"])  # fmt: skip
#: What people call the settings of a program, whose ``cuda`` is a switch.
_SETTINGS = frozenset(["self", "cls", "args", "arg", "opt", "opts", "options", "config", "cfg", "conf", "params", "hparams", "hps", "flags", "FLAGS", "settings", "gpu", "use"])  # fmt: skip
#: A regular expression, or one of a shell's, that devices of CUDA match.
_PATTERN = re.compile(r"\^?\(*(\?:|\?P<\w+>)?cuda($|[^\w\-./ ])")
_DEVICES = frozenset(["cpu", "mps", "xpu", "npu", "hip", "xla"])
_TESTS = (ast.If, ast.IfExp, ast.While, ast.BoolOp, ast.UnaryOp, ast.Compare, ast.Assert)


class LeftOver(Rule):
    """``methodcaller("cuda")``, ``build(where="cuda")``, ``map(Module.cuda, parts)``."""

    code = "HPU010"
    name = "cuda-word-unknown"
    severity = "unknown"
    safety = "manual"
    wants = Wants(
        names=(_MODULE, f"{_MODULE}.*"),
        attributes=("cuda",),
        strings=("cuda", "nccl", "CUDA", "NCCL"),
        imports=(_MODULE,),
        words=("cuda", "nccl"),
        hints=frozenset(["cuda", "CUDA"]),
        texts=_VARIABLES,
    )

    def __init__(self) -> None:
        self._seen: dict[ast.AST, _Seen] = {}

    def on_name(self, module: Module, node: ast.expr, name: str) -> Yield:
        """A use of the name itself; what a variable holds is told of where it is assigned."""
        held = isinstance(node, ast.Name) and not all(_imports(b) for b in module.bindings(node))
        if (
            not held
            and not isinstance(module.parent(node), ast.Attribute)
            and not _probed(module, node, name)
        ):
            self._seen.setdefault(node, _Seen("name", name, module.source(node)))
        return ()

    def on_attribute(self, module: Module, node: ast.Attribute) -> Yield:
        """``x.cuda``, as a call or as a value; a switch of that name is none."""
        parent = module.parent(node)
        called = isinstance(parent, ast.Call) and parent.func is node
        value = isinstance(node.ctx, ast.Load) and not isinstance(parent, (ast.Attribute, *_TESTS))
        if called or (value and word(node.value) not in _SETTINGS):
            shown = module.source(node)
            self._seen.setdefault(
                node, _Seen("method", "cuda", shown if "\n" not in shown else "….cuda")
            )
        return ()

    def on_import(self, module: Module, node: ast.alias, name: str) -> Yield:
        """An import without a use that is known to be CUDA's; others are told of where they are used."""
        bound = node.asname or node.name.partition(".")[0]
        uses = module.index.names(bound)
        idle = not uses and module.matrix.covering(name) is not None
        if isinstance(module.parent(node), ast.ImportFrom) or node.asname:
            uses = [use for use in uses if (module.qualified(use) or "").startswith(_MODULE)]
        if bound != "*" and not uses:
            self._seen.setdefault(node, _Seen("import" if idle else "name", name, name))
        return ()

    def on_string(self, module: Module, node: ast.Constant) -> Yield:
        if node in module.index.lost:
            return ()
        parent = module.parent(node)
        if isinstance(parent, ast.Expr) or not isinstance(node.value, str):
            return ()
        found = _word(module, node, parent)
        if found is None and _matches_devices(module, node, parent):
            self._seen[node] = _Seen("device", node.value, module.source(node))
        elif found is not None and not _is_text(module, node, found):
            shown = found.text if isinstance(parent, ast.JoinedStr) else module.source(node)
            shown = shown if "\n" not in shown else found.text
            self._seen[node] = _Seen(found.kind, found.text, shown)
        return ()

    def on_rest(self, module: Module, told: Told) -> Iterable[Found]:
        for name, keyword in _variables(module):
            self._seen.setdefault(keyword, _Seen("variable", name, name))
        for keyword in _tables(module):
            self._seen.setdefault(keyword, _Seen("device", "cuda", "cuda="))
        for node, seen in self._seen.items():
            span = _span(module, node)
            if told.covers(span, module.position(span.start)[0]) or _beside(module, node, seen):
                continue
            message, row, severity = told_of(module, *seen)
            yield self.finding(module, span, message, row=row, severity=severity, node=node)


def _probed(module: Module, node: ast.expr, name: str) -> bool:
    """``getattr(torch.cuda.amp, "autocast") is not None``: what torch has, with CUDA or without."""
    call = module.parent(node)
    if not isinstance(call, ast.Call) or word(call.func) not in ("getattr", "hasattr") or len(call.args) < 2:  # fmt: skip
        return False
    asked = isinstance(module.parent(call), _TESTS) or word(call.func) == "hasattr"
    return asked and module.matrix.row(f"{name}.{module.constant(call.args[1])}") is not None


def _imports(binding: Binding) -> bool:
    return isinstance(binding.node, (ast.alias, ast.Import, ast.ImportFrom))


class _Seen(NamedTuple):
    kind: str
    name: str
    shown: str


def _span(module: Module, node: ast.AST) -> Span:
    """Where a word stands: at the end of a chain of attributes, which may begin lines above."""
    span = module.span(node)
    if isinstance(node, ast.Attribute) and node.attr == "cuda":
        return Span(span.end - len(node.attr), span.end)
    return span


def _word(module: Module, node: ast.Constant, parent: ast.AST | None) -> CudaWord | None:
    """The word that a string, or a part of an f-string, is or gives as a value."""
    text = str(node.value)
    if isinstance(parent, ast.JoinedStr):
        first = parent.values[0] is node
        found = whole(text) if first and text in ("cuda", "cuda:") else None
    else:
        found = whole(text)
    if found is None and (len(text) < _PROSE or "\n" not in text):
        found = next(inside(text), None)
    return found


def _is_text(module: Module, node: ast.Constant, found: CudaWord) -> bool:
    """Is it written out, a part of a path or of a larger word, or the author's own prose?"""
    above = module.parent(node)
    if is_switch(module, node):
        return True
    child: ast.AST = node
    if isinstance(above, ast.JoinedStr) or (above is not None and _spells(above, node)):
        child = above
    alone = found.text == node.value
    if alone and isinstance(child, ast.expr) and glued(module, child):
        return True
    for outer in module.ancestors(child):
        match outer:
            case ast.keyword() if outer.arg in _PROSE_KEYS:
                return True
            case ast.Call() if child is not outer.func:
                name = word(outer.func)
                return name in _LOGGING or name.endswith(_FAILURES)
            case ast.Raise() | ast.Assert():
                return isinstance(outer, ast.Raise) or child is outer.msg
            case ast.FormattedValue() | ast.Expr():
                return True
            case ast.stmt():
                return False
        child = outer
    return False


def _spells(above: ast.AST, node: ast.Constant) -> bool:
    """Does an operation add the number of a card: ``"cuda:" + str(rank)``, ``"cuda:%d" % rank``?"""
    text = str(node.value)
    return isinstance(above, ast.BinOp) and above.left is node and text.startswith("cuda:")


def _matches_devices(module: Module, node: ast.Constant, parent: ast.AST | None) -> bool:
    """``re.match(r"cuda(:\\d+)?$", str(device))``, ``fnmatch(str(device), "cuda*")``."""
    if not isinstance(parent, ast.Call) or not _PATTERN.match(str(node.value)):
        return False
    return (module.qualified(parent.func) or "").startswith(("re.", "fnmatch."))


def _tables(module: Module) -> Iterator[ast.keyword]:
    """``dict(cuda=1, cpu=2)``, a table by device."""
    for keyword in module.index.keywords("cuda"):
        call = module.parent(keyword)
        if not isinstance(call, ast.Call) or module.qualified(call.func) != "builtins.dict":
            continue
        if any(other.arg in _DEVICES for other in call.keywords):
            yield keyword


def _variables(module: Module) -> Iterator[tuple[str, ast.keyword]]:
    """``dict(os.environ, CUDA_VISIBLE_DEVICES="0")``."""
    for name in {name for part in _VARIABLES for name in words_with(module, part)}:
        found = whole(name)
        if found is not None and found.kind == "variable":
            yield from ((name, keyword) for keyword in module.index.keywords(name))


def _beside(module: Module, node: ast.AST, seen: _Seen) -> bool:
    """Is the other choice of the same expression Gaudi's?"""
    if module.view(Devices).handles_hpu(node):
        return True
    return seen.kind == "backend" and any(
        isinstance(above, ast.expr) and "hccl" in module.source(above)
        for above in module.ancestors(node)
    )
