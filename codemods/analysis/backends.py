"""The word ``nccl``: where it names the backend of torch's process groups, and what is done with it there."""

from __future__ import annotations

import ast
import enum
import re

from hpushim.engine.python.module import Module
from hpushim.pycode.walk import walk

from .names import FOREIGN, FRAMEWORKS, is_made_of_torch, packages, word

_WHOLE = re.compile(r"(?:cpu:(?:gloo|mpi),)?(?:cuda:)?nccl(?:,cpu:(?:gloo|mpi))?", re.I)
_HCCL = re.compile(r"(^|[:,])hccl($|,)")
#: Whose own backends are called nccl too; the string does not say what they do on Gaudi.
_FOREIGN = FOREIGN | {"ray", "horovod", "vllm", "sglang", "setuptools", "raft_dask"}
#: Keywords whose values are names of something else.
_NOT_BACKENDS = re.compile(
    r"librar|extra_|define|include|path|sources|help|description|name$|tag|label|msg|message|prefix|key",
    re.I,
)
_NAMED = re.compile(r"backend|process_group|dist", re.I)
#: Names that say torch.distributed wherever they are, such as an entry in another library's table of settings.
_OF_TORCH = re.compile(r"(^|_)(dist|distributed|ddp|pg|process_group)_?backend$", re.I)
_CREATING = frozenset({"init_process_group", "new_group", "init_distributed"})
_COMPARING = frozenset({"startswith", "endswith", "count", "find", "index", "__eq__"})
_TEXTS = frozenset(
    {"info", "debug", "warning", "warn", "error", "log", "join", "replace", "skip", "skipIf"}
)
_CHOICES = (ast.IfExp, ast.MatchOr)
_BACKENDS = frozenset({"gloo", "mpi", "ccl", "hccl", "xccl", "ucc"})


class BackendUse(enum.Enum):
    """What is done with a backend's name."""

    #: ``init_process_group("nccl")``.
    GROUP = "group"
    #: Stored: a variable, a default, a choice.
    VALUE = "value"
    #: ``get_backend() == "nccl"``.
    COMPARED = "compared"
    #: ``cpu:gloo,cuda:nccl``.
    PER_DEVICE = "per device"


def backend_use(module: Module, node: ast.Constant) -> BackendUse | None:
    """How the string names torch's backend; None where it does not."""
    if not isinstance(node.value, str) or not _WHOLE.fullmatch(node.value):
        return None
    if _OF_TORCH.search(_given_to(module, node)):
        return BackendUse.VALUE
    return _use(module, node) if _concerns_torch(module, node) else None


def _use(module: Module, node: ast.Constant) -> BackendUse | None:
    if any(isinstance(a, _CHOICES) and _has_hccl(a) for a in module.ancestors(node)):
        return None  # the other one is Gaudi's
    if ":" in str(node.value):
        return BackendUse.PER_DEVICE
    for child, above in module.upwards(node):
        if _is_something_else(module, above, child):
            return None
        if isinstance(above, (ast.Compare, ast.MatchValue)) or _is_key(above, child):
            return BackendUse.COMPARED
        if isinstance(above, ast.Call):
            return _in_call(module, above)
        if isinstance(above, ast.stmt):
            break
    return BackendUse.VALUE


def _is_something_else(module: Module, above: ast.AST, child: ast.AST) -> bool:
    """Does the place say that the word is no backend of torch, or one that is chosen beside Gaudi's?"""
    match above:
        case ast.Dict():
            return _has_hccl(above) or (_is_key(above, child) and not _is_dispatch(above))
        case ast.Tuple() | ast.List() | ast.Set():
            return _has_hccl(above)
        case ast.JoinedStr() | ast.FormattedValue():
            return True
        case ast.Expr():
            return isinstance(child, ast.Constant)  # a docstring
        case ast.Subscript():
            return above.slice is child and word(above.value) != "Literal"
        case ast.Assign():
            return not _sets_backend(module, above)
        case ast.keyword():
            return bool(above.arg and _NOT_BACKENDS.search(above.arg))
    return False


def _in_call(module: Module, call: ast.Call) -> BackendUse | None:
    name = module.qualified(call.func) or ""
    if name.split(".")[0] in _FOREIGN or name == "builtins.print":
        return None
    last = name.rpartition(".")[2] or getattr(call.func, "attr", "")
    if last in _TEXTS:
        return None
    if last in _CREATING:
        return BackendUse.GROUP
    return BackendUse.COMPARED if last in _COMPARING else BackendUse.VALUE


def _sets_backend(module: Module, statement: ast.Assign) -> bool:
    """False for ``os.environ["OTHER_LIBRARY"] = "NCCL"``."""
    target = statement.targets[0]
    if isinstance(target, ast.Subscript) and module.qualified(target.value) == "os.environ":
        return _NAMED.search(str(module.constant(target.slice))) is not None
    return True


def _given_to(module: Module, node: ast.Constant) -> str:
    """The keyword, key, attribute or name that the word is given to; "" where it is given to none."""
    above = module.parent(node)
    if isinstance(above, ast.keyword):
        return above.arg or ""
    if isinstance(above, ast.Dict) and node in above.values:
        return str(module.constant(above.keys[above.values.index(node)] or node))
    if not isinstance(above, (ast.Assign, ast.AnnAssign)) or above.value is not node:
        return ""
    target = above.targets[0] if isinstance(above, ast.Assign) else above.target
    if isinstance(target, ast.Subscript):
        return str(module.constant(target.slice))
    return word(target)


def _concerns_torch(module: Module, node: ast.AST) -> bool:
    """Does the file use torch, or does the code around the word call it a backend?"""
    imported = module.view(packages)
    if any(map(is_made_of_torch, imported)):
        return True
    statement = module.source(module.statement(node))
    return (
        imported.isdisjoint((*FRAMEWORKS, "horovod", "cupy"))
        and _NAMED.search(statement) is not None
    )


def _has_hccl(table: ast.AST) -> bool:
    """Does the table, or the choice, name hccl already, so that its nccl is CUDA's own?"""
    return any(
        isinstance(part, ast.Constant) and _HCCL.search(str(part.value)) for part in walk(table)
    )


def _is_key(above: ast.AST, child: ast.AST) -> bool:
    return isinstance(above, ast.Dict) and any(key is child for key in above.keys)


def _is_dispatch(table: ast.Dict) -> bool:
    """``{"nccl": …, "gloo": …}``: keyed by backends."""
    keys = {key.value for key in table.keys if isinstance(key, ast.Constant)}
    return bool(keys & _BACKENDS)
