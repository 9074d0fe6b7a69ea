"""The process group's backend: nccl becomes hccl, together with everything that asks for it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, ClassVar

from hpushim.engine.rule import Rule
from hpushim.model import Edit, Finding, Fix

from . import _imports
from ._arguments import argument, drop
from ._claims import claim, kept_whole
from ._strings import quoted, retext
from ._verdict import ask

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module

_PAIR = re.compile(r"\b(cuda|nccl)\b", re.I)
_WHOLE = re.compile(r"(?:cpu:(?:gloo|mpi),)?(?:cuda:)?nccl(?:,cpu:(?:gloo|mpi))?", re.I)
#: Whose own backends are called nccl too; what they do on Gaudi is not told by the string.
_FOREIGN = frozenset({"ray", "horovod", "cupy", "cupyx", "jax", "paddle", "mxnet", "tensorflow", "vllm", "sglang", "setuptools", "raft_dask"})  # fmt: skip
#: Keywords whose values are names of something else.
_NOT_BACKENDS = re.compile(
    r"librar|extra_|define|include|path|sources|help|description|name$|tag|label|msg|message|prefix|key",
    re.I,
)
_TORCH = frozenset(
    {"torch", "deepspeed", "accelerate", "transformers", "lightning", "pytorch_lightning"}
)
_OTHERS = frozenset({"tensorflow", "horovod", "mxnet", "paddle", "jax", "cupy"})
_NAMED = re.compile(r"backend|process_group|dist", re.I)
#: Names that say torch.distributed wherever they stand, such as an entry in another library's table of settings.
_OF_TORCH = re.compile(r"(^|_)(dist|distributed|ddp|pg|process_group)_?backend$", re.I)
_AVAILABLE = "torch.distributed.is_nccl_available"
_BACKENDS = frozenset(
    {"torch.distributed.Backend.NCCL", "torch.distributed.distributed_c10d.Backend.NCCL"}
)
_INIT = (
    "torch.distributed.init_process_group",
    "torch.distributed.distributed_c10d.init_process_group",
)
_NATIVE = (
    "torch.distributed.ProcessGroupNCCL",
    "torch.distributed.distributed_c10d.ProcessGroupNCCL",
    "torch._C._distributed_c10d.ProcessGroupNCCL",
)
_LIBRARY = "torch.cuda.nccl."
_GROUP = "nccl"


class Nccl(Rule):
    """Every ``"nccl"`` that names the backend, in one group for the file."""

    code = "HPU301"
    name = "nccl-backend"
    severity = "error"
    markers = (b"nccl", b"NCCL", b"init_process_group")
    also: ClassVar[dict[str, str]] = {
        "HPU302": "nccl-value",
        "HPU303": "nccl-compared",
        "HPU304": "nccl-available",
        "HPU305": "nccl-per-device",
        "HPU314": "cuda-nccl",
    }

    def __init__(self) -> None:
        self._available: list[ast.expr] = []

    def on_Constant(self, module: Module, node: ast.Constant) -> Iterator[Finding]:
        if kept_whole(module):
            return
        if not isinstance(node.value, str) or not _WHOLE.fullmatch(node.value):
            return
        if _OF_TORCH.search(_named(module, node)):
            code: str | None = "HPU302"
        else:
            code = self._code(module, node) if _concerns_torch(module, node) else None
        if code is None:
            return
        answer = ask(module, "torch.distributed.init_process_group(backend='nccl')")
        new = _PAIR.sub(_on_gaudi, node.value)
        fix = Fix("use hccl", answer.safety, (retext(module, node, new),), _GROUP)
        yield self.finding(
            module,
            node,
            f"`{module.source(node)}` has no library on Gaudi; the backend is `{new}`",
            fix=fix if answer.fixable else None,
            row=answer.row,
            code=code,
        )

    def _code(self, module: Module, node: ast.Constant) -> str | None:
        """Which of the codes; None where the word is no backend of torch."""
        if any(isinstance(a, ast.IfExp) and _has_hccl(a) for a in module.ancestors(node)):
            return None  # the other branch is Gaudi's
        if ":" in str(node.value):
            return "HPU305"
        child: ast.AST = node
        for above in module.ancestors(node):
            if isinstance(above, (ast.Dict, ast.Tuple, ast.List, ast.Set)) and _has_hccl(above):
                return None
            if isinstance(above, (ast.Compare, ast.MatchValue)):
                return "HPU303"
            if isinstance(above, (ast.JoinedStr, ast.FormattedValue)):
                return None
            if isinstance(above, ast.Expr):
                return None if child is node else "HPU302"
            if isinstance(above, ast.Subscript) and above.slice is child:
                return None
            if isinstance(above, ast.Assign) and not _sets_backend(module, above):
                return None
            if isinstance(above, ast.Dict) and any(key is child for key in above.keys):
                return "HPU303" if _is_dispatch(above) else None
            if isinstance(above, ast.keyword):
                if above.arg and _NOT_BACKENDS.search(above.arg):
                    return None
            elif isinstance(above, ast.Call):
                return self._call(module, above, child)
            elif isinstance(above, ast.stmt):
                return "HPU302"
            child = above
        return "HPU302"

    def _call(self, module: Module, call: ast.Call, child: ast.AST) -> str | None:
        name = module.qualified(call.func) or ""
        if name.split(".")[0] in _FOREIGN or name in ("builtins.print",):
            return None
        last = name.rpartition(".")[2] or getattr(call.func, "attr", "")
        if last in ("init_process_group", "new_group", "init_distributed"):
            return "HPU301"
        if last in ("startswith", "endswith", "count", "find", "index", "__eq__"):
            return "HPU303"
        if last in (
            "info",
            "debug",
            "warning",
            "warn",
            "error",
            "log",
            "join",
            "replace",
            "skip",
            "skipIf",
        ):
            return None
        return "HPU302"

    def on_Call(self, module: Module, node: ast.Call) -> Iterable[Finding]:
        """``device_id=`` binds the group to a CUDA device early; hccl has no such start."""
        if module.qualified(node.func) not in _INIT or kept_whole(module):
            return ()
        return self._bound_early(module, node)

    def _bound_early(self, module: Module, node: ast.Call) -> Iterator[Finding]:
        given = argument(node, "device_id")
        if given is None or (isinstance(given, ast.Constant) and given.value is None):
            return
        claim(module, given)
        answer = ask(module, "torch.distributed.init_process_group(device_id=)")
        yield self.finding(
            module,
            given,
            "`device_id` binds the process group to a CUDA device; hccl takes the card of the process",
            fix=Fix("drop the device", "safe", tuple(drop(module, node, "device_id"))),
            row=answer.row,
            severity="warning",
        )

    # -- asking for the library -------------------------------------------------------------

    def on_Attribute(self, module: Module, node: ast.Attribute) -> Iterable[Finding]:
        name = module.qualified(node)
        if name is not None and (name in _BACKENDS or name.startswith((*_NATIVE, _LIBRARY))):
            return () if kept_whole(module) else self._library(module, node, name)
        if _AVAILABLE.endswith(node.attr) and not kept_whole(module):
            self._question(module, node)
        return ()

    def _library(self, module: Module, node: ast.Attribute, name: str) -> Iterator[Finding]:
        if name in _BACKENDS:
            fix = Fix("use hccl", "safe", (module.replace(node, quoted(module, "hccl")),), _GROUP)
            text = f"`{module.source(node)}` has no library on Gaudi; the backend is `hccl`"
            yield self.finding(module, node, text, fix=fix, code="HPU302")
        elif name.startswith(_NATIVE):
            text = f"`{module.source(node)}` is NCCL's own class; hccl has none to configure"
            row = ask(module, "torch.distributed.ProcessGroupNCCL").row
            yield self.finding(module, node, text, row=row, code="HPU304")
        else:
            answer = ask(module, "torch.cuda.nccl")
            text = f"`{module.source(node)}` calls NCCL itself; use `torch.distributed` over hccl"
            yield self.finding(module, node, text, row=answer.row, code="HPU314")

    def on_Name(self, module: Module, node: ast.Name) -> Iterable[Finding]:
        self._question(module, node)
        return ()

    def _question(self, module: Module, node: ast.expr) -> None:
        names = module.possible_names(node)
        if not names or not all(name.endswith(".is_nccl_available") for name in names):
            return
        call = module.parent(node)
        if not all(name.startswith("torch.distributed") for name in names):
            return
        if isinstance(call, ast.Call) and call.func is node and not call.args:
            self._available.append(node)
            if isinstance(node, ast.Name):
                _imports.of(module).want(node, None, _GROUP)

    def on_module(self, module: Module) -> Iterator[Finding]:
        imports = _imports.of(module)
        for node in self._available:
            call = module.parent(node)
            assert call is not None
            name, needed = imports.through(node, "torch.distributed.is_backend_available")
            if isinstance(node, ast.Attribute):
                name = f"{module.source(node.value)}.is_backend_available"
                needed = ()
            new = f"{name}({quoted(module, 'hccl')})"
            edits: list[Edit] = [module.replace(call, new), *needed, *imports.edits(node)]
            fix = Fix("ask for hccl", "safe", tuple(edits), imports.group(node, group=_GROUP))
            text = f"`{module.source(node)}()` asks for NVIDIA's library; on Gaudi it is hccl"
            yield self.finding(
                module, node, text, fix=fix, row=ask(module, _AVAILABLE).row, code="HPU304"
            )


def _sets_backend(module: Module, statement: ast.Assign) -> bool:
    """False for ``os.environ["OTHER_LIBRARY"] = "NCCL"``."""
    target = statement.targets[0]
    if isinstance(target, ast.Subscript) and module.qualified(target.value) == "os.environ":
        return _NAMED.search(str(module.constant(target.slice))) is not None
    return True


def _named(module: Module, node: ast.Constant) -> str:
    """The keyword, key, attribute or name that the word is given to, "" where it is given to none."""
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
    return target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")


def _concerns_torch(module: Module, node: ast.AST) -> bool:
    """Does the file use torch, or does the code around the word call it a backend?"""
    found: bool | None = module.notes.get("uses torch")
    if found is None:
        roots = {
            name.partition(".")[0]
            for statement in module.imports
            for name in (
                [statement.module or ""]
                if isinstance(statement, ast.ImportFrom)
                else [alias.name for alias in statement.names]
            )
        }
        found = module.notes["uses torch"] = bool(roots & _TORCH)
        module.notes["uses another"] = bool(roots & _OTHERS)
    if found:
        return True
    statement = module.source(module.statement(node))
    return not module.notes["uses another"] and _NAMED.search(statement) is not None


def _on_gaudi(found: re.Match[str]) -> str:
    word = found.group()
    new = "hpu" if word.lower() == "cuda" else "hccl"
    return new.upper() if word.isupper() else new


def _has_hccl(table: ast.AST) -> bool:
    """Whether the table speaks of hccl already, so that its entry for nccl is CUDA's own."""
    return any(isinstance(part, ast.Constant) and part.value == "hccl" for part in ast.walk(table))


def _is_dispatch(table: ast.Dict) -> bool:
    """``{"nccl": …, "gloo": …}``: keyed by backends."""
    keys = {key.value for key in table.keys if isinstance(key, ast.Constant)}
    return bool(keys & {"gloo", "mpi", "ccl", "hccl", "xccl", "ucc"})
