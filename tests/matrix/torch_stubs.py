"""Reads the signatures of torch's public names from its type stubs and annotations, without importing torch.

``python tests/matrix/torch_stubs.py FOLDER…`` writes ``hpushim/matrix/torch_signatures.txt`` from the ``torch`` folders of several releases.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from hpushim.matrix.signatures import FILE, Signature, line

#: Parts of torch that say nothing of the code that trains a model.
_APART = frozenset(["testing", "onnx", "fx", "ao", "quantization", "package", "contrib", "export", "include", "share", "lib", "bin"])  # fmt: skip
_PARTS_APART = frozenset(["intrinsic", "qat", "quantizable", "quantized", "benchmark", "hipify", "viz", "_sympy", "rpc"])  # fmt: skip
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
#: Classes whose methods are all of interest; of others, those that have to do with a device, a dtype or a tensor.
_WHOLE = frozenset(["torch.Tensor", "torch.nn.Module", "torch.optim.Optimizer", "torch.optim.lr_scheduler.LRScheduler", "torch.Generator"])  # fmt: skip
#: What an object of a class is, by the class that it derives from.
_ROOTS = {
    "torch._C.TensorBase": "tensor",
    "torch._C.device": "device",
    "torch._C.dtype": "dtype",
    "torch._C.Size": "size",
    "torch._C.Generator": "generator",
    "torch._C.Stream": "stream",
    "torch._C.Event": "event",
    "torch.nn.modules.module.Module": "module",
    "torch.optim.optimizer.Optimizer": "optimizer",
    "torch.optim.lr_scheduler.LRScheduler": "scheduler",
    "torch.optim.lr_scheduler.ReduceLROnPlateau": "scheduler",
    "torch.amp.grad_scaler.GradScaler": "scaler",
    "torch.utils.data.dataloader.DataLoader": "loader",
    "torch.utils.data.dataset.Dataset": "dataset",
    "torch.utils.data.sampler.Sampler": "sampler",
    "torch.distributions.distribution.Distribution": "distribution",
    "torch.autograd.function.Function": "function",
    "torch.storage.UntypedStorage": "storage",
    "torch.storage.TypedStorage": "storage",
}
#: A parameter without a telling annotation, by its name.
_NAMED = {"device": "device", "device_type": "device", "map_location": "device", "device_id": "device", "pin_memory_device": "device", "dtype": "dtype"}  # fmt: skip
_DEVICE = re.compile(r"\b(DeviceLikeType|_device|torch\.device|Device|MAP_LOCATION)\b")
_DTYPE = re.compile(r"\b(_dtype|torch\.dtype|dtype)\b")
_TENSOR = re.compile(r"\b(\w*Tensor|Parameter)\b")
_SEVERAL = re.compile(
    r"^(builtins\.)?(tuple|list|Tuple|List|Sequence|Iterable|Iterator|PackedSequence)\b|return_types"
)
_PLAIN = {
    **dict.fromkeys(
        ["_int", "_float", "int", "float", "Number", "_complex", "complex", "SymInt", "_size_1_t"],
        "number",
    ),
    **dict.fromkeys(["_bool", "bool", "builtins.bool"], "bool"),
    **dict.fromkeys(["str", "_str", "builtins.str"], "text"),
    **dict.fromkeys(["_size", "Size", "torch.Size"], "size"),
    **dict.fromkeys(["_device", "torch.device", "device"], "device"),
    **dict.fromkeys(["_dtype", "torch.dtype", "dtype"], "dtype"),
    **dict.fromkeys(["ndarray", "np.ndarray", "numpy.ndarray"], "array"),
    **dict.fromkeys(["None"], "none"),
}
#: What torch's own files leave out, by its documentation.
_UNTYPED = {
    "torch.Tensor.numpy": "array",
    "torch.Tensor.tolist": "list|number",
    **dict.fromkeys(
        [
            "torch.norm",
            "torch.Tensor.norm",
            "torch.Tensor.resize",
            "torch.Tensor.resize_as",
            "torch.Tensor.stft",
        ],
        "tensor",
    ),
    **dict.fromkeys(
        ["torch.Tensor.as_subclass", "torch.Tensor.share_memory_", "torch.Tensor.to_sparse_coo"],
        "tensor",
    ),
    **dict.fromkeys(
        [
            "torch.unique",
            "torch.unique_consecutive",
            "torch.Tensor.unique",
            "torch.Tensor.unique_consecutive",
        ],
        "tensor|tensors",
    ),
}
_DOCUMENTED = re.compile(r"^\s*(?:[\w.]+\.)?(\w+)\((.*?)\)\s*->\s*(.+)$", re.M)


class Stubs:
    """The definitions of one installed torch, by where they stand."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.release = _release_of(folder)
        self._modules: dict[str, dict[str, list[ast.AST | str]]] = {}

    @cached_property
    def signatures(self) -> dict[str, Signature]:
        """By public name: what its parameters take and what it returns."""
        homes: dict[str, list[str]] = {}
        for module in self._public():
            for name in self._exported(module):
                home, nodes = self._resolved(module, name)
                if nodes:
                    homes.setdefault(home, []).append(f"{module}.{name}")
        found: dict[str, Signature] = {}
        for home, names in homes.items():
            self._take(found, sorted(names, key=lambda name: (name.count("."), name)), home)
        return found

    # -- where names stand ------------------------------------------------------------------

    def _public(self) -> Iterator[str]:
        for path in sorted(self.folder.rglob("*.py")):
            parts = list(path.relative_to(self.folder).with_suffix("").parts)
            if parts[-1] == "__init__":
                parts.pop()
            hidden = any(part.startswith("_") or part in _PARTS_APART for part in parts)
            if not hidden and (not parts or parts[0] not in _APART):
                yield ".".join(["torch", *parts])

    def _exported(self, module: str) -> Iterator[str]:
        """The names that others may take from a module: defined there, listed, or taken over by a package without a list."""
        package = (self.folder.joinpath(*module.split(".")[1:]) / "__init__.py").exists()
        names = self._module(module)
        listed = _listed(names)
        taken_over = names.get("as", ())
        for name, nodes in names.items():
            own = not all(isinstance(node, str) and node.startswith("=") for node in nodes)
            taken = module == "torch" or (package and not listed) or name in listed
            taken = taken or name in taken_over
            if not name.startswith("_") and (own or taken):
                yield name

    def _resolved(self, module: str, name: str) -> tuple[str, list[ast.AST | str]]:
        """The full name of a definition, and its nodes: those of all overloads, a class, a documented signature."""
        for _ in range(12):  # a name taken over from a module that took it over, and so on
            nodes = self._module(module).get(name, [])
            if not nodes and module == "torch._C":
                nodes = self._module("torch._C._VariableFunctions").get(name, [])
            moved = [node for node in nodes if isinstance(node, str) and node.startswith("=")]
            if not nodes or len(moved) < len(nodes):
                return f"{module}.{name}", [node for node in nodes if node not in moved]
            module, _, name = moved[-1][1:].rpartition(".")
        return "", []

    def _module(self, name: str) -> dict[str, list[ast.AST | str]]:
        known = self._modules.get(name)
        if known is None:
            known = self._modules[name] = {}
            if name == "torch":
                known.update(self._public_of("torch._C._VariableFunctions"))
                known.update(self._public_of("torch._C"))
            base = self.folder.joinpath(*name.split(".")[1:])
            for path in (base / "__init__.py", base.with_suffix(".py"), base / "__init__.pyi", base.with_suffix(".pyi")):  # fmt: skip
                if path.is_file():
                    package = name if path.stem == "__init__" else name.rpartition(".")[0]
                    body = ast.parse(path.read_text(encoding="utf-8")).body
                    for defined, nodes in self._read(body, name, package).items():
                        known[defined] = nodes
        return known

    def _public_of(self, module: str) -> dict[str, list[ast.AST | str]]:
        return {n: [f"={module}.{n}"] for n in self._module(module) if not n.startswith("_")}

    def _read(
        self, body: list[ast.stmt], module: str, package: str
    ) -> dict[str, list[ast.AST | str]]:
        found: dict[str, list[ast.AST | str]] = {}
        for node in _statements(body):
            if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
                before = [x for x in found.get(node.name, ()) if isinstance(x, _FUNCTIONS)]
                overloads = [x for x in before if _is_overload(x)]
                found[node.name] = [*overloads, node] if isinstance(node, _FUNCTIONS) else [node]
            elif isinstance(node, ast.ImportFrom):
                source = _source(node, package)
                for alias in node.names if source.startswith("torch") else ():
                    if alias.name == "*":
                        found.update(self._starred(source))
                    else:
                        found[alias.asname or alias.name] = [f"={source}.{alias.name}"]
                        if alias.asname:  # `import x as x` takes a name over for others
                            found.setdefault("as", []).append(alias.asname)
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    if isinstance(target, ast.Name):
                        found.update(self._assigned(target.id, node.value, found, module))
            elif isinstance(node, ast.AugAssign) and getattr(node.target, "id", "") == "__all__":
                found.setdefault("__all__", []).append(" ".join(_texts(node.value)))
        return found

    def _starred(self, source: str) -> dict[str, list[ast.AST | str]]:
        names = self._module(source)
        taken = _listed(names) or {name for name in names if not name.startswith("_")}
        return {name: [f"={source}.{name}"] for name in taken if name in names and name != "as"}

    def _assigned(self, name: str, value: ast.expr | None, found: dict[str, list[ast.AST | str]], module: str) -> dict[str, list[ast.AST | str]]:  # fmt: skip
        if name == "__all__" and value is not None:
            return {name: [" ".join(_texts(value))]}
        if isinstance(value, ast.Name) and value.id in found:
            return {name: found[value.id]}
        if isinstance(value, ast.Call):
            called = getattr(value.func, "attr", getattr(value.func, "id", ""))
            if called == "_add_docstr":
                told = [text for text in _texts(value) if _DOCUMENTED.search(text)]
                return {name: [*told]} if told else {}
            if called == "boolean_dispatch":
                halves = [k.value.id for k in value.keywords if k.arg in ("if_true", "if_false") and isinstance(k.value, ast.Name)]  # fmt: skip
                return {name: [node for half in halves for node in found.get(half, ())]}
        return {}

    # -- what they say ----------------------------------------------------------------------

    def _take(self, found: dict[str, Signature], names: list[str], home: str) -> None:
        """Takes a definition under all its names; the methods of a class under its shortest."""
        nodes = self._resolved(*_split(home))[1]
        if isinstance(nodes[0], ast.ClassDef):
            signature = self._take_class(found, names[0], home, nodes[0])
        else:
            signature = self._signature(nodes, "function")
            if not signature.returns and names[0].count(".") == 1:
                plain = self._signature(self._plain(names[0]), "function")
                signature = plain if plain.returns else signature
        typed = signature._replace(returns=_UNTYPED.get(names[0], signature.returns))
        found.update(dict.fromkeys(names, typed))

    def _plain(self, name: str) -> list[ast.AST | str]:
        """The stub of ``torch.norm``, which torch writes again in Python, without annotations."""
        return self._module("torch._C._VariableFunctions").get(_split(name)[1], [])

    def _take_class(
        self, found: dict[str, Signature], name: str, home: str, node: ast.ClassDef
    ) -> Signature:
        kind = self._kind(home)
        members = self._members(home, node) if name == "torch.Tensor" else _members(node.body)
        for member, nodes in members.items():
            if member.startswith("_"):
                continue
            form = "attribute" if any(_is_attribute(each) for each in nodes) else "function"
            one = self._signature(nodes, form, kind)
            if not one.returns and name == "torch.Tensor":
                one = one._replace(returns=self._signature(self._plain(member), form).returns)
            whole = f"{name}.{member}"
            found[whole] = one._replace(returns=_UNTYPED.get(whole, one.returns))
        made = members.get("__init__") or members.get("__new__") or []
        return self._signature(made, "class", kind)._replace(returns=kind)

    def _members(self, home: str, node: ast.ClassDef) -> dict[str, list[ast.AST]]:
        """Those of a class and of the classes that it derives from."""
        found: dict[str, list[ast.AST]] = {}
        for base in self._bases(home, node):
            inner = self._resolved(*_split(base))
            if inner[1] and isinstance(inner[1][0], ast.ClassDef):
                found.update(self._members(inner[0], inner[1][0]))
        # what torch writes in Python may lack the annotations that the stub has
        return found | {n: [*found.get(n, ()), *nodes] for n, nodes in _members(node.body).items()}

    def _bases(self, home: str, node: ast.ClassDef) -> Iterator[str]:
        module = home.rpartition(".")[0]
        for base in node.bases:
            written = ast.unparse(base.value if isinstance(base, ast.Subscript) else base)
            whole = written.removeprefix("torch.") if written.startswith("torch.") else ""
            yield f"torch.{whole}" if whole else f"{module}.{written}"

    def _kind(self, home: str, seen: frozenset[str] = frozenset()) -> str:
        if home in _ROOTS:
            return _ROOTS[home]
        nodes = self._resolved(*_split(home))[1]
        if home in seen or not nodes or not isinstance(nodes[0], ast.ClassDef):
            return "object"
        for base in self._bases(home, nodes[0]):
            kind = self._kind(self._resolved(*_split(base))[0], seen | {home})
            if kind != "object":
                return kind
        return "object"

    def _signature(self, nodes: Sequence[ast.AST | str], form: str, owner: str = "") -> Signature:
        """What the overloads say together; ``owner`` is what the class is that they are methods of."""
        takes: dict[tuple[str, str], int | None] = {}
        returns: dict[str, None] = {}
        for node in nodes:
            if isinstance(node, str):
                _documented(node, takes, returns)
            elif isinstance(node, _FUNCTIONS):
                static = any(getattr(d, "id", "") == "staticmethod" for d in node.decorator_list)
                _parameters(node.args, takes, 1 if owner and not static else 0)
                returns.update(dict.fromkeys(_kinds(node.returns, owner)))
            elif isinstance(node, ast.AnnAssign):
                returns.update(dict.fromkeys(_kinds(node.annotation, owner)))
        return Signature(
            form,
            "|".join(sorted(returns)),
            tuple((kind, name, place) for (kind, name), place in takes.items()),
        )


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        if isinstance(node, (ast.If, ast.Try)):
            if isinstance(node, ast.If):
                yield from _statements(node.orelse)
            yield from _statements(node.body)
        else:
            yield node


def _members(body: list[ast.stmt]) -> dict[str, list[ast.AST]]:
    found: dict[str, list[ast.AST]] = {}
    for node in _statements(body):
        if isinstance(node, _FUNCTIONS):
            found.setdefault(node.name, []).append(node)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.setdefault(node.target.id, []).append(node)
    return found


def _listed(names: dict[str, list[ast.AST | str]]) -> set[str]:
    """What ``__all__`` of a module has."""
    lists = names.get("__all__", ())
    return {name for node in lists if isinstance(node, str) for name in node.split()}


def _is_overload(node: ast.AST) -> bool:
    return any("overload" in ast.unparse(d) for d in getattr(node, "decorator_list", ()))


def _is_attribute(node: ast.AST) -> bool:
    return isinstance(node, ast.AnnAssign) or any(
        "property" in ast.unparse(d) for d in getattr(node, "decorator_list", ())
    )


def _source(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    parts = package.split(".")
    return ".".join(
        [*parts[: len(parts) - node.level + 1], *([node.module] if node.module else [])]
    )


def _split(name: str) -> tuple[str, str]:
    module, _, last = name.rpartition(".")
    return module, last


def _texts(node: ast.AST) -> list[str]:
    return [
        n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)
    ]


def _parameters(
    args: ast.arguments, takes: dict[tuple[str, str], int | None], skipped: int
) -> None:
    for place, arg in enumerate([*args.posonlyargs, *args.args][skipped:]):
        if kind := _taken(arg):
            takes.setdefault((kind, arg.arg), place)
    for arg in args.kwonlyargs:
        if kind := _taken(arg):
            takes.setdefault((kind, arg.arg), None)


def _taken(arg: ast.arg) -> str:
    written = ast.unparse(arg.annotation) if arg.annotation is not None else ""
    if _DEVICE.search(written):
        return (
            "devices"
            if re.search(r"\b([Ss]equence|[Ll]ist|[Tt]uple|dict|Dict)\[", written)
            else "device"
        )
    if _DTYPE.search(written):
        return "dtype"
    kinds = set(_kinds(arg.annotation, "")) - {"none"}
    if kinds and kinds <= {"tensor", "tensors"}:
        return "tensor"
    return _NAMED.get(arg.arg, "") if written in ("", "str", "str | None", "Optional[str]", "Any", "_int", "int | None") else ""  # fmt: skip


def _kinds(node: ast.expr | None, owner: str) -> Iterator[str]:
    """What an annotation says, ``Tensor | None``, one kind after the other."""
    written = ast.unparse(node) if node is not None else ""
    last = written.rpartition(".")[2]
    if isinstance(node, ast.BinOp):
        yield from (*_kinds(node.left, owner), *_kinds(node.right, owner))
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield from _kinds(ast.parse(node.value, mode="eval").body, owner)
    elif isinstance(node, ast.Subscript) and written.startswith(("Optional[", "Union[")):
        for part in node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]:
            yield from _kinds(part, owner)
    elif _SEVERAL.search(written):
        yield "tensors" if _TENSOR.search(written) or "return_types" in written else "list"
    elif written in ("Self", "T") and owner:
        yield owner
    elif written.startswith(("TypeIs[", "TypeGuard[", "_TypeIs[", "_TypeGuard[")):
        yield "bool"
    elif last == "Module":
        yield "module"
    elif written:
        yield "tensor" if _TENSOR.fullmatch(last) else _PLAIN.get(written, "?")


def _documented(
    text: str, takes: dict[tuple[str, str], int | None], returns: dict[str, None]
) -> None:
    """The signature in a docstring of what is written in C++: ``linalg.cross(input, other, *, dim=-1, out=None) -> Tensor``."""
    for given, result in ((m[2], m[3]) for m in _DOCUMENTED.finditer(text)):
        positional = True
        for place, part in enumerate(p.strip() for p in given.split(",")):
            name = part.partition("=")[0].strip().lstrip("*")
            positional = positional and part != "*"
            told = re.search(rf"^\s*{re.escape(name)}\s*\((.*)$", text, re.M) if name else None
            kind = _NAMED.get(name, "tensor" if told and re.match(r"\S*Tensor", told[1]) else "")
            if kind:
                takes.setdefault((kind, name), place if positional else None)
        several = re.match(r"\(|[Tt]uple|[Ll]ist|seq", result)
        kind = (
            "tensors" if several and "ensor" in result else "tensor" if "Tensor" in result else "?"
        )
        returns[_PLAIN.get(result.strip(), kind)] = None
        return


_FUNCTION = Signature("function", "", ())


def write(folders: Iterable[Path]) -> str:
    """The text of ``torch_signatures.txt``: the newest release's signatures, and in which releases each name is."""
    stubs = sorted((Stubs(folder) for folder in folders), key=lambda each: each.release)
    releases = [each.release for each in stubs]
    lines: dict[str, list[str]] = {}
    names: dict[str, list[int]] = {}
    for place, each in enumerate(stubs):
        for name in each.signatures:
            names.setdefault(name, []).append(place)
    newest = {name: stubs[places[-1]].signatures[name] for name, places in names.items()}
    for name, places in sorted(names.items()):
        signature = newest[name]
        if not is_kept(name, newest):
            continue
        since = releases[places[0]] if places[0] else None
        until = releases[places[-1]] if places[-1] < len(stubs) - 1 else None
        lines.setdefault(line(signature), []).append(
            name
            + (f">{_release(since)}" if since else "")
            + (f"<{_release(until)}" if until else "")
        )
    head = f"# releases {' '.join(map(_release, releases))}"
    return (
        "\n".join([head, *(f"{what}\t{' '.join(who)}" for what, who in sorted(lines.items()))])
        + "\n"
    )


def is_kept(name: str, all_names: Mapping[str, Signature]) -> bool:
    """Methods only where they have to do with a device, a dtype or a tensor, but for the classes of interest."""
    owner = name.rpartition(".")[0]
    if owner in _WHOLE or all_names.get(owner, _FUNCTION).form != "class":
        return True
    return bool(all_names[name].takes) or not {"tensor", "tensors"}.isdisjoint(
        all_names[name].kinds
    )


def _release_of(folder: Path) -> tuple[int, ...]:
    text = (folder / "version.py").read_text(encoding="utf-8")
    found = re.search(r"__version__ = '(\d+)\.(\d+)", text)
    assert found is not None, folder
    return int(found[1]), int(found[2])


def _release(release: tuple[int, ...]) -> str:
    return ".".join(map(str, release))


if __name__ == "__main__":
    FILE.write_text(write(map(Path, sys.argv[1:])), encoding="utf-8")
