"""Kernels for NVIDIA hardware: compiled extensions of a project, the calls that end in them, and the tests for CUDA that choose them."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import PurePath

from hpushim.engine.python.module import Module
from hpushim.engine.rules.wants import ProjectFact
from hpushim.pycode.values import Values
from hpushim.pycode.walk import walk

from .device_texts import read
from .kinds import base_words, said
from .names import packages, word
from .project_facts import EXTENSIONS, KERNEL_USERS, NVIDIA_METHODS, PACKAGE_FLAGS, PACKAGE_USERS

#: The execution providers of ONNX Runtime that are NVIDIA's.
PROVIDERS = ("CUDAExecutionProvider", "TensorrtExecutionProvider")
#: The method of Transformers' models that puts their layers on several CUDA devices.
SPREADS = "parallelize"
#: Names of compiled extensions: ``selective_scan_cuda``, ``cuda_corr``.
_EXTENSION = re.compile(r"_?cuda_\w+|\w+_cuda(_kernels?|_ext|_lib)?")
#: What they are called as parts of a package: ``from ._ext import …``, ``from project import _C``.
_OWN_PARTS = frozenset(["_C", "_ext"])
#: Packages whose ``_C`` is no kernel of the project's.
_OTHERS = frozenset(["torch", "torchvision", "torchaudio", "torchtext", "numpy", "scipy"])
#: The part of such a package that has the kernels.
_BRANCHES = ("gpu", "cuda")
#: What is given to a compiler for kernels: their sources and objects, and the macro that puts them in.
_SOURCE = re.compile(r".*\.cu(?:h|\.o)?|(?:-D)?WITH_CUDA(?:=1)?")
#: What is before a name whose package only the build knows.
_ANYWHERE = "*."
#: The method of a storage that gives another process CUDA's handle of it.
_HANDLES = "_share_cuda_"
_LOADERS = {
    "load": "torch.utils.cpp_extension.load",
    "load_inline": "torch.utils.cpp_extension.load_inline",
}


def chooses_kernels(
    module: Module, compare: ast.Compare, is_device: Callable[[ast.AST], bool]
) -> bool:
    """Is the comparison of a device beside one of a setting with the same word, or guard such kernels alone?

    ``if impl == "cuda" and x.device.type == "cuda": return _kernel(x)``: Gaudi takes the reference code below.
    """
    above = module.parent(compare)
    if isinstance(above, ast.BoolOp) and isinstance(above.op, ast.And):
        return any(True for _ in settings_beside(module, compare, is_device))
    if isinstance(above, ast.If) and above.test is compare and not above.orelse:
        used = [s for s in above.body if not isinstance(s, (ast.Import, ast.ImportFrom))]
        return bool(used) and all(nvidia_only(module, statement) for statement in above.body)
    return False


#: Words of names that are about the precision of what is computed.
_PRECISIONS = frozenset(["fp16", "fp32", "float16", "float32", "half", "bf16"])
#: What turns a whole condition into another value, or into a part of one.
_CONDITIONS = (ast.BoolOp, ast.UnaryOp)


def chooses_precision(module: Module, node: ast.AST) -> bool:
    """Does a question for the device decide nothing but whether float16 is computed in: ``half = half and device.type == "cuda"``?

    It is known to be right on CUDA alone.
    """
    child, above = node, module.parent(node)
    while isinstance(above, _CONDITIONS):
        child, above = above, module.parent(above)
    if isinstance(above, ast.IfExp) and above.test is child:
        return _is_of_precision(above.body)
    if isinstance(above, ast.If) and above.test is child:
        return not above.orelse and all(map(_sets_precision, above.body))
    return isinstance(above, ast.stmt) and _sets_precision(above)


def _sets_precision(statement: ast.stmt) -> bool:
    """``use_fp16 = …``, ``model.half()``."""
    if isinstance(statement, (ast.AugAssign, ast.AnnAssign)):
        return _is_of_precision(statement.target)
    if isinstance(statement, ast.Assign) and all(map(_is_of_precision, statement.targets)):
        return True
    value = getattr(statement, "value", None)
    return isinstance(statement, (ast.Assign, ast.Expr)) and _is_of_precision(value)


def _is_of_precision(node: ast.AST | None) -> bool:
    """Is it a name, or one of torch's dtypes, that is named for a precision, or a call of such a method which moves nothing?"""
    if isinstance(node, ast.Call):
        return word(node.func) == "half" and not any(word(part.func) in ("to", "cuda") for part in walk(node) if isinstance(part, ast.Call))  # fmt: skip
    return not _PRECISIONS.isdisjoint(word(node).lower().split("_"))


def settings_beside(
    module: Module, compare: ast.Compare, is_device: Callable[[ast.AST], bool]
) -> Iterator[ast.expr]:
    """The names beside a comparison of a device that are compared with the same word: ``impl`` of ``impl == "cuda" and …``."""
    above = module.parent(compare)
    if not isinstance(above, ast.BoolOp) or not isinstance(above.op, ast.And):
        return
    for value in above.values:
        if value is compare or not isinstance(value, ast.Compare) or len(value.comparators) != 1:
            continue
        left, right = value.left, value.comparators[0]
        named, other = (left, right) if read(left) is not None else (right, left)
        if (
            read(named) is not None
            and isinstance(value.ops[0], ast.Eq)
            and isinstance(other, (ast.Name, ast.Attribute))
            and not is_device(other)
        ):
            yield other


def nvidia_only(module: Module, statement: ast.stmt) -> bool:
    """Does a statement import or use a package, or a compiled extension, that only NVIDIA hardware runs?"""
    if isinstance(statement, ast.Import):
        return all(_is_nvidia(module, alias.name) for alias in statement.names)
    if isinstance(statement, ast.ImportFrom):
        return not statement.level and _is_nvidia(module, statement.module or "")
    for part in walk(statement):
        name = module.qualified(part) if isinstance(part, (ast.Name, ast.Attribute)) else None
        if name and _is_nvidia(module, name):
            return True
    return False


def _is_nvidia(module: Module, name: str) -> bool:
    package = name.split(".", maxsplit=1)[0]
    if package in module.matrix.policy.nvidia_only:
        return True
    return bool(_EXTENSION.fullmatch(package)) and package not in module.project.modules


def kernel_calls(module: Module) -> Iterator[ast.expr]:
    """What is called of an extension or of torch's code for CUDA, and ``apply`` of a Function of this file that calls one."""
    functions: set[str] = set()
    yield from module.index.attributes(_HANDLES)
    for loader, name in _LOADERS.items():
        for made in module.index.calls(loader):
            if module.qualified(made.func) == name and _has_cuda_source(module, made):
                yield made.func
    for branch in _BRANCHES:
        yield from (
            each for each in module.index.attributes(branch) if _is_own_kernel(module, each)
        )
    for name in _names(module):
        for use in module.index.names(name):
            above = module.parent(use)
            called = above if isinstance(above, ast.Attribute) else use
            call = module.parent(called)
            if called is use and _is_handed_on(call, use):
                yield use
            if not isinstance(call, ast.Call) or call.func is not called:
                continue
            yield call.func
            functions |= {
                above.name
                for above in module.ancestors(use)
                if isinstance(above, ast.ClassDef) and is_function(above)
            }
    for attribute in module.index.attributes("apply") if functions else ():
        if isinstance(attribute.value, ast.Name) and attribute.value.id in functions:
            yield attribute
            yield from _under_another_name(module, attribute)


def _is_handed_on(above: ast.AST | None, use: ast.Name) -> bool:
    """``run = own_cuda if x.is_cuda else plain``: is the name given to another one, which is called later?"""
    if not isinstance(use.ctx, ast.Load):
        return False
    if isinstance(above, ast.IfExp):
        return use is not above.test
    return isinstance(above, (ast.Assign, ast.Return)) and above.value is use


def _is_own_kernel(module: Module, attribute: ast.Attribute) -> bool:
    """``src.gpu.forward(…)``, where ``src`` is a package beside the file."""
    above, owner = module.parent(attribute), attribute.value
    called = isinstance(above, ast.Attribute) and isinstance(module.parent(above), ast.Call)
    bound = module.bindings(owner) if isinstance(owner, ast.Name) and called else []
    froms = [module.parent(b.node) for b in bound if b.kind == "import"]
    return bool(froms) and all(isinstance(f, ast.ImportFrom) and f.level for f in froms)


def _has_cuda_source(module: Module, call: ast.Call) -> bool:
    """Is a file of CUDA's compiled, or a text?"""
    return any(keyword.arg == "cuda_sources" for keyword in call.keywords) or any(
        isinstance(part, ast.Constant) and str(part.value).endswith(".cu") for part in walk(call)
    )


def kernel_sources(module: Module) -> Iterator[ast.Constant]:
    """Where a file that builds extensions names sources of CUDA's: ``sources += ["ops_kernel.cu"]``, ``("WITH_CUDA", None)``."""
    if module.holds("xtension"):
        for part in (".cu", "WITH_CUDA"):
            yield from (s for s in module.index.strings(part) if _SOURCE.fullmatch(str(s.value)))


def kernel_users(module: Module) -> Iterator[ast.expr]:
    """The uses of what runs kernels of this file, or of the file of the project from which this one imports it."""
    yield from _uses_of(module, KERNEL_USERS)
    yield from _nvidia_methods(module)


def package_users(module: Module) -> Iterator[ast.expr]:
    """The same for functions that packages for NVIDIA GPUs alone provide, and for those of the project that call them whatever happens."""
    yield from _uses_of(module, PACKAGE_USERS)
    yield from module.view(package_flags).values()


def spread_models(module: Module) -> Iterator[ast.expr]:
    """``model.parallelize()`` of Transformers, which divides the layers of a model by the number of CUDA devices."""
    if "transformers" not in module.view(packages) or module.index.definitions(SPREADS):
        return
    for call in module.index.calls(SPREADS):
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        if isinstance(call.func, ast.Attribute) and all("map" in word(each) for each in given):
            yield call.func


def package_flags(module: Module) -> dict[ast.AST, ast.expr]:
    """The arguments under which a function of another file uses such a package, each with the function: ``use_gpu=…`` of ``mine(x, y, use_gpu=…)``.

    Request it as a view.
    """
    found: dict[ast.AST, ast.expr] = {}
    given: list[ast.expr | ast.keyword]
    flags = [each.split(":") for each in module.project.names(PACKAGE_FLAGS.name)]
    own = [s for s in module.imports if isinstance(s, ast.ImportFrom) and _is_own(module, s)] if flags else []  # fmt: skip
    for owner, flag, place in flags:
        names = {
            alias.asname or alias.name for s in own for alias in s.names if alias.name == owner
        }
        calls = [call for name in {owner, *names} for call in module.index.calls(name)]
        for call in calls:
            if isinstance(call.func, ast.Attribute) or word(call.func) in names:
                given = [*call.args[int(place) :][:1], *(k for k in call.keywords if k.arg == flag)]
                found.update((each, call.func) for each in given if not _is_off(each))
    return found


def _is_off(given: ast.expr | ast.keyword) -> bool:
    value = given.value if isinstance(given, ast.keyword) else given
    return isinstance(value, ast.Constant) and not value.value


def _uses_of(module: Module, fact: ProjectFact) -> Iterator[ast.expr]:
    """The uses of names that a fact has of this file, or of the file of the project from which this one imports them."""
    for name in fact.find(b"\n" + module.data):
        yield from (n for n in module.index.names(name.decode()) if isinstance(n.ctx, ast.Load))
    users = module.project.names(fact.name)
    for statement in module.imports if users else ():
        if not isinstance(statement, ast.ImportFrom) or not _is_own(module, statement):
            continue
        for alias in statement.names:
            for use in (
                module.index.names(alias.asname or alias.name) if alias.name in users else ()
            ):
                if isinstance(use.ctx, ast.Load):
                    yield use


def _nvidia_methods(module: Module) -> Iterator[ast.expr]:
    """``model.load_engine`` where ``model = Model()``, whose method needs a package for NVIDIA GPUs."""
    found = said(module, NVIDIA_METHODS)
    values = module.view(Values)
    for method in sorted({name.rpartition(".")[2] for name in found}):
        owners = {name.partition(".")[0] for name in found if name.endswith(f".{method}")}
        for use in module.index.attributes(method):
            made = [each for each in values.origins(use.value) if isinstance(each, ast.Call)]
            classes = {word(call.func) for call in made}
            if any(owners & {name, *base_words(module, name)} for name in classes):
                yield use


def _is_own(module: Module, statement: ast.ImportFrom) -> bool:
    """Does a statement import from a module of the project?"""
    return (
        bool(statement.level)
        or (statement.module or "").partition(".")[0] in module.project.modules
    )


def _under_another_name(module: Module, attribute: ast.Attribute) -> Iterator[ast.expr]:
    """The uses of ``focal_loss_cuda`` where the file says ``focal_loss_cuda = FocalLoss.apply``."""
    assign = module.parent(attribute)
    for target in assign.targets if isinstance(assign, ast.Assign) else ():
        for use in module.index.names(target.id) if isinstance(target, ast.Name) else ():
            if isinstance(use.ctx, ast.Load):
                yield use


def _names(module: Module) -> Iterator[str]:
    built = {each.rpartition(".")[2] for each in module.project.names(EXTENSIONS.name)}
    for statement in module.imports:
        front = getattr(statement, "module", None) or ""
        if isinstance(statement, ast.ImportFrom) and front.split(".")[0] in _OTHERS:
            continue
        for alias in statement.names:
            package, _, last = alias.name.rpartition(".")
            ours = not _OWN_PARTS.isdisjoint((last, *front.split(".")))
            ours = ours or last in built or bool(_EXTENSION.fullmatch(last))
            if package.split(".")[0] not in _OTHERS and ours:
                yield alias.asname or alias.name.split(".")[0]
    for loader, name in _LOADERS.items():
        for call in module.index.calls(loader):
            assign = module.parent(call)
            if isinstance(assign, ast.Assign) and module.qualified(call.func) == name:
                yield from (t.id for t in assign.targets if isinstance(t, ast.Name))


def is_function(node: ast.ClassDef) -> bool:
    """Does a class derive from torch's autograd Function?"""
    return any(getattr(b, "attr", getattr(b, "id", "")) == "Function" for b in node.bases)


def extension_imports(module: Module) -> Iterator[tuple[ast.alias, str]]:
    """The imports of the CUDA extensions that the project builds, each with the extension's name."""
    built = sorted(module.project.names(EXTENSIONS.name))
    for statement in module.imports if built else ():
        for alias, written in _imported(statement):
            whole = f".{_absolute(module, written)}."
            names = [each for each in built if _is_built(module, written, each)]
            if names:
                name = max(
                    (each for each in names if f".{each}." in whole), key=len, default=names[0]
                )
                yield alias, name.removeprefix(_ANYWHERE)


def _imported(statement: ast.Import | ast.ImportFrom) -> Iterator[tuple[ast.alias, str]]:
    """What a statement imports, with its dots: ``ours._C.scale`` for ``from ours._C import scale``, ``.._C`` from a package."""
    front = ""
    if isinstance(statement, ast.ImportFrom):
        front = "." * statement.level + (statement.module or "")
        front += "" if front.endswith(".") else "."
    for alias in statement.names:
        yield alias, front + alias.name


def _absolute(module: Module, written: str) -> str:
    """The name as it is from the root of the checkout: ``src.ours.nms._C`` for ``._C`` in a file of that folder."""
    name = written.lstrip(".")
    level = len(written) - len(name)
    folders = PurePath(module.path).parts[:-level] if level else ()
    return ".".join([*folders, name])


def _is_built(module: Module, written: str, built: str) -> bool:
    """Does an import name an extension, or something in it? Of a relative one only the end is known."""
    if built.startswith(_ANYWHERE):
        return "." in written and f".{written}.".endswith(built.removeprefix("*") + ".")
    if not written.startswith("."):
        return f"{written}.".startswith(f"{built}.")
    package, _, name = built.rpartition(".")
    parts = written.lstrip(".").split(".")
    if not package:  # ``setup.py build_ext --inplace`` puts it beside itself
        return parts[0] == name and name not in module.project.modules
    if name not in parts:
        return False
    place = parts.index(name)  # ``from .defaults import _C`` is something of that module
    return place == 0 or parts[place - 1] == package.rpartition(".")[2]
