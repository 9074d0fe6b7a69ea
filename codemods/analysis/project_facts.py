"""What rules ask of a whole project: collected from the bytes of every Python file before the files are looked at."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from hpushim.engine.rules.wants import FRAMEWORKS, ProjectFact

if TYPE_CHECKING:
    from hpushim.engine.base.text import Project

# -- what a project trains with ------------------------------------------------------------------

#: Frameworks with a device of their own to train on, by the name that is imported.
_OTHERS = {
    b"tensorflow": b"TensorFlow",
    b"keras": b"Keras",
    b"jax": b"JAX",
    b"flax": b"JAX",
    b"haiku": b"JAX",
    b"mxnet": b"MXNet",
    b"paddle": b"PaddlePaddle",
    b"mindspore": b"MindSpore",
    b"oneflow": b"OneFlow",
    b"chainer": b"Chainer",
    b"theano": b"Theano",
    b"caffe": b"Caffe",
    b"caffe2": b"Caffe2",
}
#: What is imported at the beginning of a line, in a notebook behind a quote.
_IMPORT = re.compile(rb'\n[ \t"]*(?:import|from)[ \t]+([A-Za-z_]\w*)')
#: torch, or what is made of it: a name with torch in it, and libraries that bring it.
_TORCH = re.compile(
    rb"torch|^(?:lightning|transformers|accelerate|diffusers|timm|fastai|ignite|monai|peft|trl|deepspeed|ultralytics|"
    rb"detectron2|mmcv|mmengine|sentence_transformers|optimum)$"
)


def _frameworks(data: bytes) -> Iterable[bytes]:
    names = set(_IMPORT.findall(data))
    return [b""] if any(map(_TORCH.search, names)) else [_OTHERS[n] for n in names & _OTHERS.keys()]


FRAMEWORKS_USED = ProjectFact(FRAMEWORKS, _frameworks, notebooks=True)

# -- options whose values are devices ----------------------------------------------------------

_OPTION = re.compile(rb"[\"'](--[A-Za-z0-9][A-Za-z0-9_-]*)[\"']")
#: What a declaration is given, with one level of parentheses; a CUDA device in it, and what shows that it is one.
_DECLARATION = re.compile(rb"(?:add_argument|add_option|click\.option)\(((?:[^()]|\([^()]*\))*)\)")
_DEVICE = re.compile(rb"[\"']cuda(:\d+)?[\"']")
_OTHER_DEVICE = re.compile(rb"[\"'](?:cpu|mps|xpu)(?::\d+)?[\"']")


def _device_options(data: bytes) -> Iterable[bytes]:
    """The options, without their dashes, that are declared with a CUDA device beside another one, or with an indexed one."""
    if b"cuda" not in data or (b"option" not in data and b"add_argument" not in data):
        return
    for found in _DECLARATION.finditer(data):
        declared = found[1]
        indices = _DEVICE.findall(declared)
        if any(indices) or (indices and _OTHER_DEVICE.search(declared)):
            for option in _OPTION.findall(declared):
                yield option.lstrip(b"-").replace(b"-", b"_")


#: As they are read: ``where`` for ``--where``.
DEVICE_OPTIONS = ProjectFact("options that hold devices", _device_options)

# -- classes that pick a device ----------------------------------------------------------------

#: Packages of which only these classes pick a device: a file, and a project, that names none of them needs nothing.
MAKERS = {
    "lightning": ("Trainer", "Fabric", "LightningCLI", "LightningLite"),
    "diffusers": ("Pipeline", "DiffusionPipeline"),
    "transformers": ("Trainer", "TrainingArguments", "Seq2SeqTrainer", "Seq2SeqTrainingArguments", "HfArgumentParser"),
}  # fmt: skip
_MAKER = re.compile(
    rb"\b(?:%s)\b" % b"|".join(name.encode() for names in MAKERS.values() for name in names)
)


def _makers(data: bytes) -> Iterable[bytes]:
    if not any(name.encode() in data for name in MAKERS):
        return ()
    any_pipeline = [b"Pipeline"] if b"diffusers" in data and b"Pipeline" in data else []
    return [*_MAKER.findall(data), *any_pipeline]


#: Of these classes, those that a file which speaks of their package names.
MAKERS_NAMED = ProjectFact("classes that pick a device", _makers)

# -- extensions that the project builds --------------------------------------------------------

_BUILT = re.compile(rb"\b\w{0,60}?(?i:ext)\w{0,20}\(\s*(?:name\s*=\s*)?[\"']([A-Za-z_][\w.]*)[\"']")
_CPP_ONLY = re.compile(rb"CppExtension\(")


def _extensions(data: bytes) -> Iterable[bytes]:
    """The names in ``CUDAExtension("ours._C", …)``, also through a variable that may be that class."""
    if b"CUDAExtension" not in data:
        return
    for found in _BUILT.finditer(data):
        if not _CPP_ONLY.match(data, found.start()):
            yield found[1]


#: The names under which they are imported.
EXTENSIONS = ProjectFact("CUDA extensions that the project builds", _extensions)

# -- functions that are given a device ---------------------------------------------------------

_SIGNATURE = re.compile(rb"def[ \t]+(\w+)\(((?:[^()]|\([^()]{0,500}\)){0,3000})\)")
_WITHIN = re.compile(rb"\[[^\[\]]*\]|\([^()]*\)|#[^\n]*")
_PARAMETER = re.compile(rb"\s*(?:device|dev)\s*(?:[:=].*)?", re.S)


def _device_parameters(data: bytes) -> Iterable[bytes]:
    """``move:1`` for ``def move(batch, device)``: the function, and the place of its device among what it is given."""
    if b"device" not in data:
        return
    for found in _SIGNATURE.finditer(data):
        given = found[2]
        while _WITHIN.search(given):
            given = _WITHIN.sub(b"", given)
        names = given.split(b",")
        if names[0].strip() in (b"self", b"cls"):
            names = names[1:]
        for place, written in enumerate(names):
            if _PARAMETER.fullmatch(written):
                yield found[1] + b":" + str(place).encode()


DEVICE_PARAMETERS = ProjectFact("functions that are given a device", _device_parameters)

# -- scalers and steps in other files ----------------------------------------------------------

_SCALER = re.compile(rb"^[ \t]*class[ \t]+(\w*Scaler\w*)", re.MULTILINE)
_FUNCTION = re.compile(rb"^[ \t]*(?:async[ \t]+)?def[ \t]+(\w+)", re.MULTILINE)
_STEP = re.compile(rb"opt\w*(?:\[[^\]\n]*\])?\.step\(|\.backward\(")
#: What shows, in any case, that a file knows of devices; its steps are marked there.
_OF_DEVICES = (b"cuda", b"gpu", b"hpu", b"device", b"rank", b"accelerat", b"deepspeed", b"apex")
_BACKWARD_OF_LOSS = re.compile(rb"backward\([\w.]*loss")


def _scalers(data: bytes) -> Iterable[bytes]:
    return _SCALER.findall(data) if b"Scaler" in data and b".step(" in data else ()


def _steps_unmarked(data: bytes) -> Iterable[bytes]:
    return () if not _steps(data) or _knows_devices(data) else _stepping(data)


def _steps_marked(data: bytes) -> Iterable[bytes]:
    return _stepping(data) if _steps(data) and _knows_devices(data) else ()


def _steps(data: bytes) -> bool:
    return (b".step(" in data or b".backward(" in data) and _STEP.search(data) is not None


def _knows_devices(data: bytes) -> bool:
    lowered = data.lower()
    return any(word in lowered for word in _OF_DEVICES) or bool(_BACKWARD_OF_LOSS.search(lowered))


def _stepping(data: bytes) -> set[bytes]:
    """The functions of a file that step, or that call one of its functions that do."""
    parts = _FUNCTION.split(data)[1:]  # name, what follows up to the next definition, name, …
    bodies = list(zip(parts[::2], parts[1::2], strict=True))
    found = {name for name, body in bodies if _STEP.search(body)}
    for name, body in bodies:
        if any(b"." + inner + b"(" in body for inner in found):
            found = found | {name}
    return found


#: Names of the project's own classes that scale losses (``NativeScaler``), and may step the optimizer with it.
SCALERS = ProjectFact("classes that scale losses", _scalers)
STEPS_UNMARKED = ProjectFact("functions that step, in files without a device", _steps_unmarked)
STEPS_MARKED = ProjectFact("functions that step, in files that are marked", _steps_marked)


def steppers(project: Project) -> frozenset[str]:
    """Functions that run a backward pass or step an optimizer, in files without a word of any device only."""
    return project.names(STEPS_UNMARKED.name) - project.names(STEPS_MARKED.name)
