"""Which of the shim's targets a torch release has, read from its sources; nothing of that release is run.

``python tests/shim/torch_facts.py DIRECTORY`` writes ``torch_targets.json`` anew. ``DIRECTORY/<release>/torch`` holds the
``*.py`` and ``*.pyi`` files of each release, unpacked from a wheel of any platform (the smallest will do)::

    pip download --no-deps --no-cache-dir --only-binary=:all: --python-version 3.11 --platform macosx_14_0_arm64 \\
        -d wheels torch==2.15.0
    unzip -q wheels/torch-2.15.0-*.whl 'torch/*.py' 'torch/*.pyi' -d DIRECTORY/2.15.0

For each target: ``null`` where the release lacks it, ``"C"`` where it is one of torch's compiled names, else the
names of its parameters, or the kind of thing that it is.
"""

from __future__ import annotations

import ast
import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TABLE = HERE / "torch_targets.json"

# Torch's own classes over a compiled base: what their source does not define is looked up there.
_STUBS = ("_C/__init__.pyi", "_C/_VariableFunctions.pyi", "_C/_distributed_c10d.pyi")
_C_BASES = ("torch._C", "_C")


class Release:
    """The sources of one release."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @cache  # noqa: B019
    def module(self, name: str) -> ast.Module | None:
        """The parsed module, None where the release has none of that name."""
        base = self.root.joinpath(*name.split("."))
        for path in (base / "__init__.py", base.with_suffix(".py")):
            if path.is_file():
                return ast.parse(path.read_text(encoding="utf-8"))
        return None

    @cache  # noqa: B019
    def stubs(self) -> dict[str, ast.AST]:
        """The names of torch's compiled part, by the stubs that ship with it."""
        found: dict[str, ast.AST] = {}
        for stub in _STUBS:
            path = self.root / "torch" / stub
            if path.is_file():
                tree = ast.parse(path.read_text(encoding="utf-8"))
                found.update(dict(_definitions(tree.body)))
        return found

    def fact(self, module: str, path: str) -> Any:
        """What a target is here, see the module's docstring."""
        if module.startswith("torch._C."):
            return self._called(f"{module}.{path}")
        if self.module(module) is None and module != "torch._C":
            return None
        if not path:
            return "module"
        first, *rest = path.split(".")
        found = self.stubs().get(first) if module == "torch._C" else self._name(module, first)
        if found is None:
            return None
        for part in rest:
            if not isinstance(found, ast.ClassDef):
                return "C" if found == "C" else None
            found = self._member(module, found, part)
            if found is None:
                return None
        return _described(found)

    def _called(self, name: str) -> str | None:
        """``"C"`` for a function of a compiled module, which has no stub, where torch's own modules call it."""
        text = (self.root / "torch" / "nn" / "modules" / "module.py").read_text(encoding="utf-8")
        return "C" if f"{name}(" in text else None

    def _name(self, module: str, name: str, depth: int = 0) -> Any:
        """The definition of a module's attribute: a node, ``"C"``, or None."""
        tree = self.module(module)
        if tree is None or depth > 6:
            return None
        here = dict(_definitions(tree.body))
        if name in here:
            found = here[name]
            if isinstance(found, ast.ImportFrom):
                return self._imported(module, found, name, depth)
            return found
        for node in _statements(tree.body):
            if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
                source = _absolute(module, self.is_package(module), node)
                inner = self._name(source, name, depth + 1)
                if inner is not None:
                    return inner
        # ``torch.zeros`` and its like are copied from the compiled part in a loop.
        if module == "torch" and name in self.stubs():
            return "C"
        return "module" if self.module(f"{module}.{name}") is not None else None

    def _imported(self, module: str, node: ast.ImportFrom, name: str, depth: int) -> Any:
        source = _absolute(module, self.is_package(module), node)
        original = next(a.name for a in node.names if (a.asname or a.name) == name)
        if source.startswith("torch._C"):
            return self.stubs().get(original, "C")
        found = self._name(source, original, depth + 1)
        return found if found is not None or source.startswith("torch") else "other"

    def is_package(self, module: str) -> bool:
        return (self.root.joinpath(*module.split(".")) / "__init__.py").is_file()

    def _member(self, module: str, cls: ast.ClassDef, name: str, depth: int = 0) -> Any:
        here = dict(_definitions(cls.body))
        if name in here:
            return here[name]
        for base in cls.bases:
            text = ast.unparse(base)
            if text.startswith(_C_BASES):
                node = self.stubs().get(text.rpartition(".")[2])
            else:
                node = self._name(module, text.partition(".")[0]) if depth < 6 else None
            if isinstance(node, ast.ClassDef):
                found = self._member(module, node, name, depth + 1)
                if found is not None:
                    return "C" if text.startswith(_C_BASES) else found
            elif node == "C" or text.startswith(_C_BASES):
                return "C"
        return None


def _definitions(body: list[ast.stmt]) -> Any:
    """Name and node of everything that a body defines; the first definition of a name wins."""
    seen: set[str] = set()
    for node in _statements(body):
        names: list[str] = []
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names = [node.name]
        elif isinstance(node, ast.ImportFrom):
            names = [alias.asname or alias.name for alias in node.names]
        elif isinstance(node, ast.Assign):
            names = [t.id for t in node.targets if isinstance(t, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names = [node.target.id]
        for name in names:
            if name not in seen:
                seen.add(name)
                yield name, node


def _statements(body: list[ast.stmt]) -> Any:
    """The statements of a body, and of its branches."""
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try | ast.With):
            yield from _statements(node.body)
            yield from _statements(getattr(node, "orelse", []))
            for handler in getattr(node, "handlers", []):
                yield from _statements(handler.body)


def _absolute(module: str, package: bool, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parts = module.split(".")
    parts = parts[: len(parts) - node.level + (1 if package else 0)]
    return ".".join([*parts, *([node.module] if node.module else [])])


def _described(found: Any) -> Any:
    if isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef):
        a = found.args
        names = [x.arg for x in (*a.posonlyargs, *a.args)]
        names += [f"*{a.vararg.arg}"] if a.vararg else []
        names += [x.arg for x in a.kwonlyargs]
        return ", ".join([*names, *([f"**{a.kwarg.arg}"] if a.kwarg else [])])
    if isinstance(found, ast.ClassDef):
        return "class"
    return found if isinstance(found, str) else "value"


def targets() -> list[tuple[str, str]]:
    """Module and path of every declared target."""
    from hpushim.shim.patch import declared

    return sorted({(p.module, p.path) for p in declared() if p.module.startswith("torch")})


def collect(directory: Path) -> dict[str, dict[str, Any]]:
    """Release to target to fact, for the releases under the directory."""
    found = {}
    for root in sorted(directory.iterdir(), key=lambda p: _key(p.name)):
        if (root / "torch" / "__init__.py").is_file():
            release = Release(root)
            found[root.name] = {f"{m}:{p}": release.fact(m, p) for m, p in targets()}
    return found


def compact(table: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Target to its facts, each with the releases that it holds from."""
    releases = list(table)
    names = sorted({name for facts in table.values() for name in facts})
    found: dict[str, Any] = {"releases": releases, "targets": {}}
    for name in names:
        changes: dict[str, Any] = {}
        last: Any = ...
        for release in releases:
            fact = table[release].get(name)
            if fact != last:
                changes[release] = last = fact
        found["targets"][name] = changes
    return found


def _key(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split(".") if part.isdigit())


if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parents[1]))
    result = compact(collect(Path(sys.argv[1])))
    lines = [f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in result["targets"].items()]
    TABLE.write_text(
        '{\n"releases": '
        + json.dumps(result["releases"])
        + ',\n"targets": {\n'
        + ",\n".join(lines)
        + "\n}\n}\n",
        encoding="utf-8",
    )
