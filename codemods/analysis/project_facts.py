"""What rules ask of a whole project: collected from the bytes of every Python file before the files are looked at."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from hpushim.compare.subjects import is_named
from hpushim.engine.rules.wants import (
    ELSEWHERE,
    FRAMEWORKS,
    OFF,
    SHARED,
    TAKE_DEVICES,
    ProjectFact,
)
from hpushim.matrix import load, signatures
from hpushim.patterns import lazily
from hpushim.pycode.composed import put_together
from hpushim.pycode.walk import walk

from ..edits import at_hand, floor
from ..edits.without_cuda import CUDA_OR_NOT, cuda_or_not
from .device_texts import device_name
from .names import is_made_of_torch

# -- what a project trains with ------------------------------------------------------------------

#: What is imported at the beginning of a line, in a notebook behind a quote.
_IMPORT = lazily(rb'\n[ \t"]*(?:import|from)[ \t]+([A-Za-z_]\w*)')
_NAMES = {name.encode(): shown.encode() for name, shown in load().policy.frameworks.items()}
_ELSEWHERE = frozenset(name.encode() for name in load().policy.other_makers)


def _frameworks(data: bytes) -> Iterable[bytes]:
    names = set(_IMPORT.findall(data))
    if any(is_made_of_torch(name.decode()) for name in names):
        return [b""] if names.isdisjoint(_ELSEWHERE) else [b"", ELSEWHERE]
    return [_NAMES[name] for name in names & _NAMES.keys()]


FRAMEWORKS_USED = ProjectFact(FRAMEWORKS, _frameworks, kinds=("python", "notebook"))

# -- options whose values are devices ----------------------------------------------------------

_OPTION = lazily(rb"[\"'](--[A-Za-z0-9][A-Za-z0-9_-]*)[\"']")
#: What a declaration is given, with one level of parentheses; a CUDA device in it, and what shows that it is one.
_DECLARATION = lazily(rb"(?:add_argument|add_option|click\.option)\(((?:[^()]|\([^()]*\))*)\)")
_DEVICE = lazily(rb"[\"']cuda(:\d+)?[\"']")
_OTHER_DEVICE = lazily(rb"[\"'](?:cpu|mps|xpu)(?::\d+)?[\"']")
_NEGATIVE = lazily(rb"\bdefault\s*=\s*-\s*\d")
_CHOICES = lazily(rb"\bchoices\s*=\s*([\[({][^\])}]*)")
_TEXT = lazily(rb"[\"']([^\"'\s]+)[\"']")
#: An option that is given indices.
_NUMBERED = lazily(rb"\b(?:default\s*=\s*[\"']?\d|type\s*=\s*int\b)")


@lru_cache(maxsize=1)
def _declared(data: bytes) -> list[bytes]:
    """What options are declared with in a file that mentions CUDA, without switches."""
    if b"cuda" not in data or (b"add_argument(" not in data and b"option(" not in data):
        return []
    found = _DECLARATION.findall(data)
    return [each for each in found if b"store_" not in each and b"is_flag" not in each]


def _options(declared: bytes) -> list[bytes]:
    """The options of a declaration, as they are read: ``where`` for ``--where``."""
    return [option.lstrip(b"-").replace(b"-", b"_") for option in _OPTION.findall(declared)]


def _device_options(data: bytes) -> Iterable[bytes]:
    """The options, without their dashes, that are declared with a CUDA device beside another one, or with an indexed one."""
    for declared in _declared(data):
        indices = _DEVICE.findall(declared)
        if any(indices) or (indices and _OTHER_DEVICE.search(declared)):
            yield from _options(declared)


def _negative_options(data: bytes) -> Iterable[bytes]:
    """The options, as they are read, whose default is a negative number."""
    if b"add_argument(" not in data and b"option(" not in data:
        return
    for declared in _DECLARATION.findall(data):
        if _NEGATIVE.search(declared):
            yield from _options(declared)


def _option_choices(data: bytes) -> Iterable[bytes]:
    """``model_dtype=fp16`` for each text that an option takes, where it takes no others."""
    if b"choices" not in data:
        return
    for declared in _DECLARATION.findall(data):
        texts = [text for taken in _CHOICES.findall(declared) for text in _TEXT.findall(taken)]
        yield from (name + b"=" + text for name in _options(declared) for text in texts)


_DEFAULT = lazily(rb"\bdefault\s*=(?!\s*None\b)|\b(?:required|action)\s*=")


def _optional_options(data: bytes) -> Iterable[bytes]:
    """The options, as they are read, that have no value where the command line gives none."""
    if b"add_argument(" not in data:
        return
    for declared in _DECLARATION.findall(data):
        if declared.lstrip()[1:3] == b"--" and not _DEFAULT.search(declared):
            yield from _options(declared)


_WORD = lazily(rb"[\w.]+")
#: What keeps or sends what it is given, with one level of parentheses; a value that is kept under its own name.
_KEEPS = lazily(rb"(?:dumps?|save|submit|spawn|Process|map_array)\(((?:[^()]|\([^()]*\))*)\)")
_KEPT = lazily(rb"[\"'](\w+)[\"'][ \t]*:[ \t]*(?:vars\()?(\w+)\b(?![\w.(\[])")


def _kept_options(data: bytes) -> Iterable[bytes]:
    """The names of what is written to a file or sent to another process; "" where submitit sends whole objects."""
    if b"submitit" in data:
        yield b""
    for given in _KEEPS.findall(data):
        yield from _WORD.findall(given.replace(b".__dict__", b""))
    yield from (name for key, name in _KEPT.findall(data) if key == name)


OPTIONAL_OPTIONS = ProjectFact("options without a default", _optional_options)
KEPT_OPTIONS = ProjectFact("what is written or sent", _kept_options)
OPTION_CHOICES = ProjectFact("choices of options", _option_choices)
NEGATIVE_OPTIONS = ProjectFact("options that are negative by default", _negative_options)
DEVICE_OPTIONS = ProjectFact("options that hold devices", _device_options)


#: ``os.environ["CUDA_VISIBLE_DEVICES"] = args.devices``: what an option lists there are numbers.
_VISIBLE = lazily(rb"VISIBLE_DEVICES[\"']?\]?[ \t]*[=,][ \t]*(?:str\()?[\w.]*\.(\w+)")


def _named_for_devices(data: bytes) -> Iterable[bytes]:
    """The options that a command line gives a device to, as they are written there."""
    sure, numbers = set(_device_options(data)), set(_VISIBLE.findall(data))
    for declared in _declared(data):
        indexed = _NUMBERED.search(declared)
        for option in _OPTION.findall(declared):
            named = not indexed and device_name(option.decode())
            read = option.lstrip(b"-").replace(b"-", b"_")
            if read in sure or (named and read not in numbers):
                yield option


COMMAND_OPTIONS = ProjectFact(TAKE_DEVICES, _named_for_devices)

_TEXT_OF_CUDA = lazily(rb"[\"']cuda(?::\d+)?[\"']")
#: What is in front of such a text where something is compared with it, and what is behind one.
_COMPARED = lazily(rb"((?<!\w)|\.)(\w+)(?:[ \t]*[!=]=[ \t]*|\.startswith\([ \t]*|[ \t]+(?:not[ \t]+)?in[ \t]*[\[({][^\n]*)$")  # fmt: skip
_BEHIND = lazily(rb"[ \t]*(?:[!=]=|(?:not[ \t]+)?in\b)[ \t]*\w+(\.)(\w+)\b(?!\.)")
_SO_FAR = 200


def _compared_devices(data: bytes) -> Iterable[bytes]:
    """The names for devices that a file compares with CUDA, whose comparisons turn, and so does what gives the names a value; ``.device`` for
    attributes: where one is an option's value, the comparison stays."""
    for text in _TEXT_OF_CUDA.finditer(data) if b"cuda" in data else ():
        start = max(data.rfind(b"\n", 0, text.start()) + 1, text.start() - _SO_FAR)
        for found in (_COMPARED.search(data, start, text.start()), _BEHIND.match(data, text.end())):
            if found and (found[1] or is_named(found[2].decode())):
                yield found[1] + found[2]


COMPARED_DEVICES = ProjectFact("names that are compared with a device", _compared_devices)

# -- classes that pick a device ----------------------------------------------------------------

#: Packages of which only these classes pick a device: a file, and a project, that names none of them needs nothing.
MAKERS = {
    "lightning": ("Trainer", "Fabric", "LightningCLI", "LightningLite"),
    "diffusers": ("Pipeline", "DiffusionPipeline"),
    "transformers": ("Trainer", "TrainingArguments", "Seq2SeqTrainer", "Seq2SeqTrainingArguments", "HfArgumentParser"),
    "torchrl": ("Collector", "SyncDataCollector", "MultiSyncDataCollector", "MultiaSyncDataCollector", "aSyncDataCollector"),
}  # fmt: skip
_MAKER = lazily(
    rb"\b(?:%s)\b" % b"|".join(name.encode() for names in MAKERS.values() for name in names)
)
#: Comments and texts of several lines, where such a word means itself.
_NO_CODE = lazily(
    rb"""#[^\n]*|"{3}(?:[^"\\]+|\\[\s\S]|"(?!""))*(?:"{3})?|'{3}(?:[^'\\]+|\\[\s\S]|'(?!''))*(?:'{3})?"""
)
#: ``import pytorch_lightning as pl``; a path that has such a word in it is no import.
_IMPORTED = lazily(rb"\n[ \t]*(?:from|import)[ \t]+(?:[\w.]+[ \t]*,[ \t]*)*(?:pytorch_)?(%s)\b" % b"|".join(name.encode() for name in MAKERS))  # fmt: skip
#: All that is behind ``import`` where names are brought from such a package, or from one built on it.
_BROUGHT = lazily(rb"\n[ \t]*from[ \t]+(?:pytorch_)?(?:%s)\b[\w.]*[ \t]+import\b(?:[ \t\\]*\([^()]*|[^\n\\(]*(?:\\\r?\n[^\n\\]*)*)" % b"|".join(name.encode() for name in MAKERS))  # fmt: skip


@lru_cache(maxsize=1)
def makers(data: bytes) -> Sequence[bytes]:
    imported = {*_IMPORTED.findall(data)}
    if not imported:
        return ()
    code = _NO_CODE.sub(b"", data) if _MAKER.search(data) else b""
    brought = b" ".join(found[0] for found in _BROUGHT.finditer(code))
    # A name is the package's where an import brings it, or it is read from a module.
    named = {
        found[0].decode()
        for found in _MAKER.finditer(code)
        if code[found.start() - 1 : found.start()] == b"." or b"*" in brought
    } | {name.decode() for name in _MAKER.findall(brought)}
    if b"Pipeline" in data:  # of diffusers' any
        named.add("Pipeline")
    return [
        f"{package.decode()}.{name}".encode()
        for package in sorted(imported)
        for name in sorted(named.intersection(MAKERS[package.decode()]))
    ]


#: Of these classes, those that a file which imports their package names: ``lightning.Trainer``.
MAKERS_NAMED = ProjectFact("classes that pick a device", makers)

# -- the function of the agnostic style ----------------------------------------------------------

_DEVICE_FUNCTION = lazily(rb"\ndef[ \t]+(default_device|accelerator_device)\([ \t]*\)")


def _shared(data: bytes) -> Iterable[bytes]:
    return _DEVICE_FUNCTION.findall(data) if b"r_device" in data or b"t_device" in data else ()


SHARED_HERE = ProjectFact(SHARED, _shared)


_BODIES = lazily(
    rb"\n(?:@[^\n]*\n)*(?:async[ \t]+)?(?:def|class)\b[^\n]*(?:\n[ \t)][^\n]*|\n(?=\n))*"
)
#: ``from torch import *`` brings ``device`` as well.
_TAKEN = lazily(rb"\n[ \t]*(?:(?:device|%s)[ \t]*[=:,]|from[ \t][^\n]*import[^\n]*[( ,]device\b|from[ \t]+torch[\w.]*[ \t]+import[ \t]+\*)" % b"|".join(each.encode() for each in at_hand.FUNCTIONS))  # fmt: skip


def _taken(data: bytes) -> Iterable[bytes]:
    if b"device" in data or b"import *" in data:
        yield from (b"device" for _ in _TAKEN.findall(_BODIES.sub(b"", data)))


#: Whether a star import may bring a name for a device.
TAKEN_HERE = ProjectFact(at_hand.TAKEN, _taken)


def _with_cuda(data: bytes) -> Iterable[bytes]:
    return cuda_or_not(data)


CUDA_HERE = ProjectFact(CUDA_OR_NOT, _with_cuda)

# -- switches of the command line ------------------------------------------------------------------

_SWITCH = lazily(
    rb"\badd_argument\(\s*((?:[\"']--?[\w-]+[\"']\s*,\s*)+)[^()]{0,400}?\baction\s*=\s*[\"']store_true[\"']"
)
_LONG = lazily(rb"--([\w-]+)")
#: A field of a class of settings, not a parameter, behind which a comma is.
_OFF_FIELD = lazily(rb"\n[ \t]+(\w+)[ \t]*:[ \t]*bool[ \t]*=[ \t]*False[ \t]*(?=[#\r\n])")

_HPARAMS = lazily(rb"\bHParams\((?:[^()]|\([^()]*\))*\)")
_OFF_SETTING = lazily(rb"[(,\n]\s*(\w+)[ \t]*=[ \t]*False\b")


#: ``fast: false`` in YAML and JSON, ``_C.MODEL.FAST = False`` of yacs, and whether it is off: whatever is not surely so is on.
_SETTING = lazily(rb"[\n{,][ \t-]*[\"']?(\w+)[\"']?[ \t]*:[ \t]*(?:([Ff]alse|off|no|null)(?=[ \t]*(?:[\r\n#,}]|\Z))|(?=[^\s#]))")  # fmt: skip
_NODE = lazily(rb"\n_C\.(?:\w+\.)*(\w+)[ \t]*=[ \t]*(False)?")
_CODE = lazily(rb"^(?:import|from)[ \t]+\w", re.MULTILINE)


def _switches(data: bytes) -> Iterable[bytes]:
    """``compile_model`` for ``add_argument("--compile-model", action="store_true")``, ``compile_model: bool = False``, ``HParams(compile_model=False)``."""
    some = _NODE if b"_C." in data else _SETTING if _CODE.search(data) is None else None
    yield from (
        b"+" * (not off) + name for name, off in (some.findall(b"\n" + data) if some else ())
    )
    if b"bool" in data:
        yield from _OFF_FIELD.findall(data)
    if b"HParams(" in data:
        for made in _HPARAMS.findall(data):
            yield from _OFF_SETTING.findall(made)
    if b"store_true" not in data:
        return
    for found in _SWITCH.finditer(data):
        if name := _LONG.search(found[1]):
            yield name[1].replace(b"-", b"_")


#: The options and settings that are off unless somebody gives them, by the names that they are read by; with ``+`` those that a file turns on.
SWITCHES = ProjectFact("options that are off by default", _switches, ("python", "yaml", "json"))
_ABOUT_DEVICES = lazily(rb"cuda|gpu|device|dist|ddp|accel", re.IGNORECASE)


def _off(data: bytes) -> Iterable[bytes]:
    """Of these, those that do not choose the device: on Gaudi that one is given."""
    return (name for name in _switches(data) if not _ABOUT_DEVICES.search(name))


OFF_HERE = ProjectFact(OFF, _off, ("python", "yaml", "json"))

#: An argument by its name: off, an option of the command line, or anything else.
_ARGUMENT = lazily(
    rb"[(,]\s*(\w+)[ \t]*=(?!=)[ \t]*(?:(False|None)\b"
    rb"|(?:self\.)?(?:args|opts?|options|cfg|config|flags|FLAGS)(?:\.|\[[\"'])(\w+)(?:[\"']\])?[ \t]*[,)\n]|(\w+)[ \t]*[,)\n])?"
)

_HEADER = lazily(rb"\bdef[ \t]+\w+\([^)]*\)")


def _arguments(data: bytes) -> Iterable[bytes]:
    """``jit`` where something is given ``jit=True``, ``jit=trace`` for ``jit=args.trace``; nothing for ``jit=False`` and ``jit=jit``."""
    for found in _ARGUMENT.finditer(_HEADER.sub(b"", data)):
        if not found[2] and found[4] != found[1]:
            yield found[1] + b"=" + found[3] if found[3] else found[1]


#: The names of the arguments that are more than False.
ARGUMENTS = ProjectFact("arguments that are given", _arguments)

_COUNTED = lazily(rb"\n[ \t]*(?:[\w.]+\.)?(\w+)[ \t]*=(?!=)[^\n]*\bdevice_count\(")


def _counts(data: bytes) -> Iterable[bytes]:
    return _COUNTED.findall(data) if b"device_count" in data else ()


#: What holds the number of devices: ``ngpu`` of ``args.ngpu = torch.cuda.device_count()``.
COUNTS = ProjectFact("numbers of devices", _counts)

# -- extensions that the project builds --------------------------------------------------------

_BUILT = lazily(rb"\b\w{0,60}?(?i:ext)\w{0,20}\(\s*(?:name\s*=\s*)?[\"']([A-Za-z_][\w.]*)[\"']")
#: A build with torch's own functions that puts CUDA sources in, under a check maybe.
_WITH_CUDA = lazily(rb"CUDAExtension|torch\.utils\.ffi(?s:.*)WITH_CUDA")
_CPP_ONLY = lazily(rb"CppExtension\(")


#: setuptools' own class, which compiles C and Cython.
_PLAIN = lazily(rb"Extension\(")
#: The same, which is given what nvcc compiles.
_PLAIN_CUDA = lazily(
    rb"\bExtension\(\s*(?:name\s*=\s*)?[\"']([A-Za-z_][\w.]*)[\"'](?:[^()]|\([^()]*\)){0,2000}?[\"'](?:[^\"'\n]*\.cu|nvcc)[\"']"
)
_HELPER = lazily(rb"def[ \t]+(\w+)\(")


def _extensions(data: bytes) -> Iterable[bytes]:
    """The names in ``CUDAExtension("ours._C", …)``, also through a variable that may be that class, and those that are put together.

    A function of the file that makes extensions may put a package before the name: ``*.ours_cuda`` for one in any package.
    """
    if b"xtension" not in data:
        return
    for name in _PLAIN_CUDA.findall(data):
        yield from (name, b"*." + name)  # built beside its source
    if not _WITH_CUDA.search(data):
        return
    helpers = frozenset(_HELPER.findall(data))
    whole = {
        name.encode()
        for called, name in put_together(data, "name")
        if "ext" in called.lower() and called != "CppExtension"
    }
    yield from whole
    for found in _BUILT.finditer(data):
        if not _CPP_ONLY.match(data, found.start()) and not _PLAIN.match(data, found.start()):
            helped = found[0].partition(b"(")[0] in helpers and b"." not in found[1]
            if helped and any(found[1] in name.split(b".")[:-1] for name in whole):
                continue  # a part of those
            yield found[1]
            if helped:
                yield b"*." + found[1]


#: The names under which they are imported.
EXTENSIONS = ProjectFact("CUDA extensions that the project builds", _extensions)

# -- the default type of tensors ------------------------------------------------------------------

_SETS_TYPE = re.compile(rb"\bset_default_tensor_type\([^)\n]*\bcuda\b")


def _sets_type(data: bytes) -> Iterable[bytes]:
    return (b"",) if b"set_default_tensor_type" in data and _SETS_TYPE.search(data) else ()


#: Whether a file runs where the default type of tensors is CUDA's.
SETS_TYPE = ProjectFact("files that set CUDA's default tensor type", _sets_type, spreads="around")

# -- what ends in kernels for NVIDIA GPUs ----------------------------------------------------------

#: What a kernel of the file itself is: one that Triton or Numba compiles, or an operator of an extension that the project builds.
_KERNEL = lazily(
    rb"@(?:triton|numba\.cuda|cuda)\.jit\b|\btorch\.ops\.(?!aten\b|prim|torchvision\b|_?c10d|_C\b|higher_order\b|load_library|hpu\b)\w+\.\w+"
)
#: The rest of a line, with the whole of a text that goes on in others: the place of such a text is no matter of blocks.
_REST = rb"""(?:[^\n#"']+|#[^\n]*|"{3}(?:[^"\\]+|\\[\s\S]|"(?!""))*(?:"{3})?|'{3}(?:[^'\\]+|\\[\s\S]|'(?!''))*(?:'{3})?|"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?)*"""
#: A definition at the left margin with its decorators, up to the next line there.
BLOCK = lazily(rb"\n((?:@[^\n]*(?:\n[ \t)][^\n]*)*\n)*(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)[^\n]*(?:\n(?:[ \t)\]}#]%s|(?=\n)))*)" % _REST)  # fmt: skip
_NAME = lazily(rb"\w+")
#: What works on Gaudi in part, or without its kernels, is none.
_NVIDIA_ONLY = [
    name.encode()
    for name in load().policy.nvidia_only
    if (row := load().row(name, "package")) is not None and row.status == "unsupported"
]


#: What is CUDA code in a package that runs elsewhere without it.
FAISS = tuple(f"faiss.{name}" for name in ("StandardGpuResources", "index_cpu_to_gpu", "index_cpu_to_all_gpus", "GpuIndexFlatL2", "GpuIndexFlatIP"))  # fmt: skip
#: The import of a package that NVIDIA's hardware alone runs, and what it binds; the same in a function.
_IMPORTS = lazily(rb"\n[ \t]*(?:import|from)[ \t]+(%s)\b[\w.]*(?:[ \t]+as[ \t]+(\w+)|[ \t]+import[ \t]+(\([^)]*\)|[^\n]*))?" % b"|".join(sorted(_NVIDIA_ONLY)))  # fmt: skip
_LOCAL = lazily(rb"\n([ \t]+)(?:import|from)[ \t]+(?:%s)\b" % b"|".join(sorted(_NVIDIA_ONLY)))
_LINE = lazily(rb"\n([ \t]+)([^\s#][^\n]*)")
_METHOD = lazily(rb"\n([ \t]+)(?:async[ \t]+)?def[ \t]+(\w+)")
_COMMENT = lazily(rb"#[^\n]*")
_CALLED = lazily(rb"(?<![\w.])((\w+)(?:\.\w+)*)\(")
_MAY_CHOOSE = lazily(rb"\b(?:if|and|or|lambda)\b")


def _needs_nvidia(body: bytes, outer: int = 0) -> bool:
    """Does a function import such a package without a condition: where its own statements are?"""
    places = {len(found) for found in _LOCAL.findall(body)}
    lines = _LINE.findall(body) if places else ()
    return bool(places) and min(len(n) for n, _ in lines if len(n) > outer) in places


def _calls_at_once(body: bytes) -> set[bytes]:
    """What a function calls whatever it is given: in its own statements, before it may have returned."""
    lines = _LINE.findall(body) or [(b"", body.partition(b":")[2])]  # def f(x): return g(x)
    own = min((len(indent) for indent, _ in lines), default=0)
    called: set[bytes] = set()
    for indent, line in lines:
        if len(indent) == own and not _MAY_CHOOSE.search(line):
            called.update(name for found in _CALLED.findall(line) for name in found)
        elif line.startswith(b"return"):
            break
    return called


def _of_packages(data: bytes) -> set[bytes]:
    """What a file imports from such packages and gives no other meaning, as where an import fails: ``xops``, ``flash_attn_func``."""
    outside = _COMMENT.sub(b"", BLOCK.sub(b"\n", data))
    names: set[bytes] = set()
    for package, module, several in _IMPORTS.findall(outside):
        parts = several.strip(b"()").split(b",") if several else [module or package]
        names.update(part.split()[-1] for part in parts if part.strip())
    again = rb"\n[ \t]*(?:(?:def|class)[ \t]+%s\b|%s[ \t]*=(?![ \t]*None\b))|\bimport\b[^\n]*\b%s\b(?s:.*)\bimport\b[^\n]*\b%s\b"
    return {n for n in names if _NAME.fullmatch(n) and not re.search(again % (n, n, n, n), outside)}


def _kernel_users(data: bytes) -> Iterable[bytes]:
    """The functions and classes at the top of a file that run one of its kernels, through others of the file as well."""
    local = _LOCAL.search(data)
    if not local and not any(part in data for part in (b"triton.jit", b"cuda.jit", b"torch.ops.")):
        return ()
    blocks = [(found[2], found[1], found[0]) for found in BLOCK.finditer(data)]
    found = {name for name, text, whole in blocks if _KERNEL.search(text) or (local and not _METHOD.search(whole) and _needs_nvidia(whole))}  # fmt: skip
    words = {name: {*_NAME.findall(text)} for name, text, _ in blocks}
    while more := {name for name in words.keys() - found if words[name] & found}:
        found |= more
    return sorted(found)


def _package_users(data: bytes) -> Iterable[bytes]:
    """What a file imports from such a package, and its functions at the top that cannot do without it, through others of the file as well."""
    found = _of_packages(data) if _IMPORTS.search(data) else set()
    found |= {name.encode() for name in FAISS} if b"faiss." in data else set()
    if not found:
        return ()
    calls = {found[2]: _calls_at_once(found[0]) for found in BLOCK.finditer(data) if not _METHOD.search(found[0])}  # fmt: skip
    while more := {name for name in calls.keys() - found if calls[name] & found}:
        found |= more
    return sorted(name for name in found if b"." not in name)


def _flags(data: bytes) -> Iterable[bytes]:
    """``mine:fast:2`` for ``def mine(x, y, fast)``, which uses such a package if its third parameter is true, or gives that to what does."""
    users = {name.decode() for name in _package_users(data)}
    if not users and b"faiss." not in data:
        return
    try:
        tree = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError):
        return
    functions = [node for node in walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]  # fmt: skip
    places = {
        (function.name, arg.arg): place
        for function in functions
        for place, arg in enumerate(_parameters(function.args))
    }
    known: set[tuple[str, str]] = set()
    while more := {found for function in functions for found in _flags_of(function, users, known, places)} - known:  # fmt: skip
        known |= more & places.keys()
        yield from (f"{name}:{flag}:{places[name, flag]}".encode() for name, flag in sorted(more))


def _parameters(taken: ast.arguments) -> list[ast.arg]:
    return [arg for arg in (*taken.posonlyargs, *taken.args, *taken.kwonlyargs) if arg.arg not in ("self", "cls")]  # fmt: skip


def _flags_of(function: ast.FunctionDef | ast.AsyncFunctionDef, users: set[str], known: set[tuple[str, str]], places: Mapping[tuple[str, str], int]) -> Iterator[tuple[str, str]]:  # fmt: skip
    """The parameters of a function under which it uses something of ``users``, or that it gives to what is ``known`` to do so."""
    for node in walk(function):
        given: list[ast.expr] = []
        if isinstance(node, (ast.If, ast.IfExp)):
            body = node.body if isinstance(node.body, list) else [node.body]
            used = {ast.unparse(part) for each in body for part in walk(each) if isinstance(part, (ast.Name, ast.Attribute))}  # fmt: skip
            given = [node.test] if used & {*users, *FAISS} else []
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            name = node.func.id
            given = [each for place, each in enumerate(node.args) if any(known_name == name and places[known_name, flag] == place for known_name, flag in known)]  # fmt: skip
            given += [each.value for each in node.keywords if (name, each.arg) in known]
        yield from ((function.name, each.id) for each in given if isinstance(each, ast.Name) and (function.name, each.id) in places)  # fmt: skip


def _nvidia_methods(data: bytes) -> Iterable[bytes]:
    """``Model.load_engine`` for a method that imports a package which NVIDIA's hardware alone runs."""
    for block in BLOCK.finditer(data) if _LOCAL.search(data) else ():
        defined = [*_METHOD.finditer(block[0])]
        for number, method in enumerate(defined):
            end = defined[number + 1].start() if number + 1 < len(defined) else len(block[0])
            if _needs_nvidia(block[0][method.end() : end], len(method[1])):
                yield block[2] + b"." + method[2]


KERNEL_USERS = ProjectFact("functions and classes that run kernels for NVIDIA GPUs", _kernel_users)
PACKAGE_USERS = ProjectFact(
    "functions that a package for NVIDIA GPUs provides, or that need one", _package_users
)
PACKAGE_FLAGS = ProjectFact("parameters that choose a package for NVIDIA GPUs", _flags)
NVIDIA_METHODS = ProjectFact("methods that need a package for NVIDIA GPUs", _nvidia_methods)

# -- casts to float16 -----------------------------------------------------------------------------

#: What is rounded and comes back at once is none, nor is what autocast gets.
_HALVES = lazily(
    rb"\.half\(\)(?!\.(?:float|double)\()|(?:\.to\([^()\n]*|\n[^\n]*dtype\w*[ \t]*=[ \t]*)\btorch\.(?:half|float16)\b"
)


def _halved(data: bytes) -> Iterable[bytes]:
    some = b".half" in data or b".float16" in data
    return (b"",) if some and any(b"autocast" not in found[0] for found in _HALVES.finditer(data)) else ()  # fmt: skip


#: Whether a file makes tensors or models float16, which become bfloat16 on Gaudi.
HALVED = ProjectFact("casts to float16", _halved)

# -- functions that are given a device ---------------------------------------------------------

_SIGNATURE = lazily(rb"def[ \t]+(\w+)\(((?:[^()]|\([^()]{0,500}\)){0,3000})\)")
_HEAD = lazily(rb"\nclass[ \t]+(\w+)")
_WITHIN = lazily(rb"\[[^\[\]]*\]|\([^()]*\)|#[^\n]*")
_PARAMETER = lazily(rb"\s*(?:device|dev)\s*(?:[:=].*)?", re.S)


def _is_read(data: bytes, function: re.Match[bytes], parameter: bytes) -> bool:
    """Does a function do more with a parameter than hand it on to itself?"""
    end = data.find(b"\n", function.end())
    deeper = function.start() - data.rfind(b"\n", 0, function.start())
    inside = re.compile(rb"(?:\n(?:[ \t]{%d}[^\n]*|[ \t]*(?=\n)))*" % deeper).match(data, end)
    body = data[function.end() : inside.end() if inside else end]
    own = rb"\b%s\((?:[^()]|\([^()]*\))*\)" % function[1]
    return parameter in re.sub(own, b"", body)


def _device_parameters(data: bytes) -> Iterable[bytes]:
    """``move:1`` for ``def move(batch, device)``: the function, and the place of its device among what it is given; for ``__init__`` the class."""
    if b"device" not in data:
        return
    heads = [(found.start(), found[1]) for found in _HEAD.finditer(data)]
    for found in _SIGNATURE.finditer(data):
        given = found[2]
        if b"dev" not in given:
            continue
        while _WITHIN.search(given):
            given = _WITHIN.sub(b"", given)
        names = given.split(b",")
        if names[0].strip() in (b"self", b"cls"):
            names = names[1:]
        for place, written in enumerate(names):
            if _PARAMETER.fullmatch(written) and _is_read(data, found, written.strip()[:3]):
                name = found[1]
                if name == b"__init__":
                    name = max((head for head in heads if head[0] < found.start()), default=(0, name))[1]  # fmt: skip
                yield name + b":" + str(place).encode()


DEVICE_PARAMETERS = ProjectFact("functions that are given a device", _device_parameters)

# -- scalers and devices in other files --------------------------------------------------------

_SCALER = lazily(rb"^[ \t]*class[ \t]+(\w*Scaler\w*)", re.MULTILINE)
#: What chooses a device for the files around.
_CHOOSES = (b"cuda", b"hpu", b"accelerator", b"deepspeed")
#: ``model.to(self._device)`` in a file that does not say which: a base class of another file may. ``x.to(y.device)`` follows a tensor.
_HANDED_ON = lazily(rb"\.to\([ \t]*(?:device[ \t]*=[ \t]*)?self\.(?:\w+\.)*_*device\b")
_OF_CPU = lazily(rb"""device(?:\(|[ \t]*=[ \t]*)["']cpu""")


def _scalers(data: bytes) -> Iterable[bytes]:
    return _SCALER.findall(data) if b"Scaler" in data and b".step(" in data else ()


def _device_chosen(data: bytes) -> Iterable[bytes]:
    chosen = any(word in data for word in _CHOOSES)
    if not chosen and b"self." in data and not (b"cpu" in data and _OF_CPU.search(data)):
        chosen = _HANDED_ON.search(data) is not None
    return (b"",) if chosen else ()


#: Names of the project's own classes that scale losses (``NativeScaler``), and may step the optimizer with it.
SCALERS = ProjectFact("classes that scale losses", _scalers)
#: Whether a file is trained on a device that another file chooses: a base class, or what builds and runs its classes.
DEVICE_CHOSEN = ProjectFact("files that choose a device", _device_chosen, spreads="around")


def _contexts(data: bytes) -> Iterable[bytes]:
    return (b"",) if b"get_context(" in data else ()


#: Whether a program starts processes of a context, whose own workers start as they did.
CONTEXTS = ProjectFact("files that start processes of a context", _contexts, spreads="program")

# -- checkpoints ---------------------------------------------------------------------------------

#: A table with a state in it, its entries, and what settings are called that are read by attributes.
_CHECKPOINT = lazily(rb"\{[^{}]{0,3000}?\.state_dict\(\)[^{}]{0,3000}\}")
_ITEM = lazily(rb"[\"'](\w+)[\"']\s*:\s*([^,}\n]+)")
_SETTINGS = lazily(rb"(?:self\.)?(?:args|opts?|cfg|config|hparams|hps)")


_GIVEN = lazily(rb"\n[ \t]*(?:self\.)?(\w+)[ \t]*=(?!=)[ \t]*([^\n#]+?)[ \t]*(?=[\n#])")
#: What numpy gives, unless it is turned into a number or a list of Python's at the end; what changes nothing of that.
_OF_NUMPY = lazily(
    rb"(?:np|numpy)\.(?:random\.RandomState|[a-z]\w*)\((?!.*\.(?:item|tolist)\(\)$).*|.*\.numpy\(\)"
)
_NO_OBJECT = lazily(
    rb"(?:float\()?[\"']?-?(?:np\.|math\.)?(?:inf|[\d.e+]+)[\"']?\)?|None|[\w.]+\[[\"']\w+[\"']\]"
)
_SOME = lazily(rb"(?:(?:min|max)\()?((?:self\.)?\w+(?:,[ ]*(?:self\.)?\w+)*)\)?")


def _of_numpy(data: bytes) -> set[bytes]:
    """The names that a file gives values of numpy, by way of others too, and nothing else but numbers and what was loaded."""
    if b"numpy" not in data:
        return set()
    given: dict[bytes, list[bytes]] = {}
    for name, value in _GIVEN.findall(data):
        given.setdefault(name, []).append(value)
    found: set[bytes] = set()
    while more := {name for name, values in given.items() if name not in found and _is_of_numpy(values, found)}:  # fmt: skip
        found |= more
    return found


def _is_of_numpy(values: list[bytes], known: set[bytes]) -> bool:
    def comes(value: bytes) -> bool:
        some = _SOME.fullmatch(value)
        names = {each.strip().removeprefix(b"self.") for each in some[1].split(b",")} if some else set()  # fmt: skip
        return bool(_OF_NUMPY.fullmatch(value)) or not known.isdisjoint(names)

    rest = [value for value in values if not comes(value)]
    return len(rest) < len(values) and all(map(_NO_OBJECT.fullmatch, rest))


def _objects_saved(data: bytes) -> Iterable[bytes]:
    """``args:epoch`` for each key beside an object of settings, or a value of numpy, in ``{"model": model.state_dict(), "args": args, "epoch": 3}``;
    ``:model,epoch`` for the keys of a table without one.
    """
    tables = _CHECKPOINT.findall(data) if b".state_dict()" in data else []
    arrays = _of_numpy(data) if tables else set()
    for table in tables:
        entries = {key: value.strip() for key, value in _ITEM.findall(table)}
        held = [key for key, value in entries.items() if _SETTINGS.fullmatch(value) and re.search(rb"\b%s\.[A-Za-z]\w*(?![\w(])" % re.escape(value), data)]  # fmt: skip
        held += [key for key, value in entries.items() if value.removeprefix(b"self.") in arrays or _OF_NUMPY.fullmatch(value)]  # fmt: skip
        yield from (key + b":" + other for key in held for other in entries)
        if not held:
            yield b":" + b",".join(entries)


#: What checkpoints hold beside tensors and Python's own types, with the keys of their tables.
OBJECTS_SAVED = ProjectFact("objects in checkpoints", _objects_saved)

# -- classes -------------------------------------------------------------------------------------

_CLASS = lazily(rb"\n[ \t]*class[ \t]+(\w+)\(([^()#]*)\)[ \t]*:")


def _classes(data: bytes) -> Iterable[bytes]:
    """``Net:Module`` for ``class Net(nn.Module):``."""
    for name, bases in _CLASS.findall(data):
        for base in bases.split(b","):
            last = base.strip().rpartition(b".")[2]
            if last.replace(b"_", b"").isalnum():
                yield name + b":" + last


#: Said beside the classes where one of the methods takes what it is given: ``def cuda(self, device)``.
TAKES = "("
#: In front of a class that defines no ``to`` beside ``cuda``.
IMMOVABLE = "-"
_MOVES = lazily(rb"\n[ \t]+def[ \t]+cuda\(\s*\w*\s*,?\s*(\S)")


def _movers(data: bytes) -> Iterable[bytes]:
    """``Reader`` where that class defines ``cuda``, ``-Reader`` where it has no ``to``; ``.predict`` for what else it defines, where that is no method of torch's."""
    if b"def cuda(" not in data:
        return
    for found in _CLASS_BODY.finditer(data):
        if _MOVES.search(found[0]):
            yield found[1]
            names = {name for _, name in _METHOD.findall(found[0])}
            if names.isdisjoint([b"to", b"__getattr__", b"__getattribute__"]):
                yield IMMOVABLE.encode() + found[1]
            yield from (b"." + name for name in names if not _is_torchs(name.decode()))
    if any(end != b")" for end in _MOVES.findall(data)):
        yield TAKES.encode()


def _is_torchs(name: str) -> bool:
    return any(signatures.of(f"torch.{kind}.{name}") for kind in ("Tensor", "nn.Module"))


#: The classes with a ``cuda`` method of their own.
MOVERS = ProjectFact("classes that move themselves", _movers)

_GROUP = b"init_process_group("


def _group_makers(data: bytes) -> Iterable[bytes]:
    if _GROUP in data:
        yield from (found[2] for found in BLOCK.finditer(data) if _GROUP in found[0])


#: The functions that form a process group.
GROUP_MAKERS = ProjectFact("functions that form a process group", _group_makers)

#: The classes of the project, each with the last word of a base.
CLASSES = ProjectFact(at_hand.CLASSES, _classes)
_CLASS_BODY = lazily(rb"\nclass[ \t]+(\w+)[^\n]*(?:\n(?:[ \t)][^\n]*|(?=\n)))*")
_METHODS = lazily(rb"\n[ \t]+def[ \t]+")
_STORES = lazily(rb"\n[ \t]+self\.device[ \t]*=(?!=)")


def _holders(data: bytes) -> Iterable[bytes]:
    if b"self.device" in data and b"__init__" in data:
        for found in _CLASS_BODY.finditer(data):
            methods = _METHODS.split(found[0])
            if any(each.startswith(b"__init__") and _STORES.search(each) for each in methods):
                yield found[1]


#: The classes whose objects hold a device since they are made: ``self.device = …``.
HOLDERS = ProjectFact(at_hand.HOLDERS, _holders)


_CLASSIFIER = lazily(rb"Python[ \t]*::[ \t]*3\.(\d+)")
_PYTHONS = lazily(rb"\n[ \t]*(?:python_requires|requires-python)[ \t]*=[ \t]*[\"']([^\"'\n]+)")


def _installed(data: bytes) -> Iterable[bytes]:
    if floor.INSTALLS.search(b"\n" + data):
        yield b"installed"
        yield from (b"python" + versions for versions in _PYTHONS.findall(data))
        newest = max(map(int, _CLASSIFIER.findall(data)), default=None)
        if newest is not None:
            yield f"python==3.{newest}.*".encode()


#: The functions that rules define, which name CUDA for an old torch.
_GIVES = lazily(rf"\ndef (?:{'|'.join(at_hand.FUNCTIONS)})\(\):(?:\n[ \t]+[^\n]*)+".encode())


def _package_cuda(data: bytes) -> Iterable[bytes]:
    if b"cuda" in data and floor.FOR_CUDA.search(_GIVES.sub(b"", data)):
        yield b"cuda"


#: The versions of torch that documents, images and scripts ask for.
DOCUMENTED = ProjectFact(
    floor.DOCUMENTED,
    lambda data: (each.encode() for each in floor.documented(data.decode("utf-8", "replace"))),
    ("markdown", "dockerfile", "shell"),
    installs=True,
)
_OLDEST = lazily(rb"\b(?:py)?torch\b[^\n]{0,20}\d\.[\d.]*[ \t]+or[ \t]+[a-z]+", re.IGNORECASE)
#: What a text is for that ends or warns, the text, and what makes it a requirement.
_SAYS = lazily(rb"(?:\braise[ \t]+[\w.]+\(|\bassert\b[^#\n]*,|\b(?:print|\w*warn\w*|\w*error|critical|exit|info)\()\s*[rbfu]{0,2}[\"'](?:[^#\n]*[\"']\s*\n\s*[rbfu]{0,2}[\"'])*[^#\n]*$")  # fmt: skip
_REQUIRED = lazily(rb"requir|need|recommend|must", re.IGNORECASE)
_SO_LONG = 200


def _coded(data: bytes) -> Iterable[bytes]:
    for said in _OLDEST.finditer(data) if b"orch" in data else ():
        before = _SAYS.search(data, max(said.start() - _SO_LONG, 0), said.start())
        rest = data[said.end() : said.end() + _SO_LONG].partition(b"\n")[0]
        if before and (_REQUIRED.search(before[0]) or _REQUIRED.search(rest)):
            yield from (each.encode() for each in floor.coded(said[0].decode("utf-8", "replace")))


#: The oldest torch that messages of programs give.
CODED = ProjectFact(floor.CODED, _coded)
#: That the project is installed as a package, with its Pythons and the newest of its classifiers, and that code in the folder of a package is for CUDA.
INSTALLED = ProjectFact(floor.INSTALLED, _installed, ("python", "toml"), of=floor.is_setup)
PACKAGE_CUDA = ProjectFact(floor.PACKAGE_CUDA, _package_cuda, of=floor.is_of_package)


#: ``gpu in device``, ``device.split(":")``, ``device[-1]``, ``device == "cuda:0"``.
_READS = lazily(
    rb"(?<!for )\b\w+[\])]*[ \t]+(?:not[ \t]+)?in[ \t]+(?:str\()?(?:self\.)?device\b(?![ \t]*[.(\w])|[\"']:[\"'][ \t]+in[ \t]+(?:self\.)?device|\bdevice\.split\(|\bdevice\[-?\d|\bdevice[ \t]*[!=]=[ \t]*[\"']cuda:0"
)


def _parsed(data: bytes) -> Iterable[bytes]:
    if any(_READS.search(line) for line in _lines_with(b"device", data)):
        yield b"parsed"


def _lines_with(word: bytes, data: bytes) -> Iterator[bytes]:
    """The lines that hold a word."""
    at = data.find(word)
    while at >= 0:
        end = data.find(b"\n", at)
        end = len(data) if end < 0 else end
        yield data[data.rfind(b"\n", 0, at) + 1 : end]
        at = data.find(word, end)


#: That a file takes the text of a device apart.
PARSED = ProjectFact(at_hand.PARSED, _parsed)
