"""Training programs out of a grammar of idioms: a choice for each slot, and some pieces more.

An idiom is a piece of a file in ``idioms/``::

    == slot: name          which slot it may fill
    @section               lines of the program for that section; imports, options, helpers, setup, before, after, end …
    @expect                lines that a run on a CUDA card would print

In the text ``$device`` and ``$flag`` are the program's device and its answer to "is CUDA used", ``<<a||b>>`` is ``a``, and ``b``
in the program for the plain CPU run, and ``$name`` alone on a line is the section of that name of another slot.
"""

from __future__ import annotations

import functools
import random
import re
import textwrap
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import checks

IDIOMS = Path(__file__).resolve().parent / "idioms"
SLOTS = ("device", "place", "batch", "precision", "optimizer", "step", "loader", "network")
#: How the code is laid out, and how often.
STRUCTURES = {
    **{"flat": 4, "main": 3, "function": 3, "class": 3, "config": 2, "two_files": 3},
    **{"class_in_file": 3, "settings_file": 2, "settings_module": 2, "base_class": 2, "ranks": 1},
}
_SECTION = re.compile(
    r"^@(imports|options|helpers|choose|device_name|flag_name|words|config_yaml|config_json|setup|network|place_model|"
    r"optimize|ready|loop|begin_epoch|move|before|forward|backward|unscale|update|after|after_epoch|end|expect|without|only|note)\n",
    re.MULTILINE,
)
_ALTERNATIVE = re.compile(r"<<(.*?)\|\|(.*?)>>", re.DOTALL)


@dataclass(frozen=True)
class Piece:
    """One idiom: its slot, its name and its sections of code."""

    slot: str
    name: str
    sections: dict[str, str]

    def section(self, name: str) -> str:
        """The lines of one section, or nothing."""
        return self.sections.get(name, "")


@functools.cache
def pieces() -> dict[str, dict[str, Piece]]:
    """Every idiom: slot to name to piece, in the order of the files."""
    found: dict[str, dict[str, Piece]] = defaultdict(dict)
    for path in sorted(IDIOMS.glob("*.txt")):
        for part in re.split(r"^== ", path.read_text(), flags=re.MULTILINE)[1:]:
            head, _, body = part.partition("\n")
            slot, _, name = head.partition(": ")
            parts = _SECTION.split(body)
            sections = {
                key: text.rstrip() for key, text in zip(parts[1::2], parts[2::2], strict=True)
            }
            if name in found[slot]:
                raise ValueError(f"{path.name}: {slot}: {name} is there twice")
            found[slot][name] = Piece(slot, name.strip(), sections)
    return found


@dataclass(frozen=True)
class Program:
    """The choices that make a program; the first idiom of a slot is its simplest."""

    chosen: dict[str, str]
    structure: str = "flat"
    extras: tuple[str, ...] = ()
    checks: tuple[checks.Check, ...] = ()

    @property
    def idioms(self) -> list[str]:
        """The names of everything in it."""
        named = [f"{slot}: {name}" for slot, name in self.chosen.items()]
        told = [f"check: {part}" for check in self.checks for part in check.parts]
        return [
            *named,
            f"structure: {self.structure}",
            *(f"extra: {name}" for name in self.extras),
            *told,
        ]

    def simpler(self) -> Iterator[Program]:
        """The programs that have one thing less, or one thing simpler."""
        for index in range(len(self.extras)):
            yield replace(self, extras=self.extras[:index] + self.extras[index + 1 :])
        for index in range(len(self.checks)):
            yield replace(self, checks=self.checks[:index] + self.checks[index + 1 :])
        if self.structure != "flat":
            yield replace(self, structure="flat")
        for slot, name in self.chosen.items():
            first = next(iter(pieces()[slot]))
            if name != first:
                changed = replace(self, chosen={**self.chosen, slot: first})
                if fits(changed):
                    yield changed


def fits(program: Program) -> bool:
    """Whether the choices go together: pieces may say ``@without`` and ``@only`` with names of others."""
    names = {*program.chosen.values(), program.structure, *program.extras}
    for piece in chosen_pieces(program):
        if names & set(piece.section("without").split()):
            return False
        only = set(piece.section("only").split())
        if only and not names & only:
            return False
    return True


def chosen_pieces(program: Program) -> list[Piece]:
    """The idioms of a program, slots first."""
    found = [pieces()[slot][name] for slot, name in program.chosen.items()]
    return [*found, *(pieces()["extra"][name] for name in program.extras)]


def drawn(seed: int) -> Program:
    """The program of a seed."""
    draw = random.Random(seed)
    while True:
        chosen = {slot: draw.choice(list(pieces()[slot])) for slot in SLOTS}
        # Half of what is rare in training scripts is left out, so that programs stay small.
        for slot in ("precision", "step", "optimizer", "network", "loader"):
            if draw.random() < 0.4:
                chosen[slot] = next(iter(pieces()[slot]))
        extras = draw.sample(list(pieces()["extra"]), draw.choice((0, 1, 1, 2, 3, 4)))
        some = tuple(checks.drawn(draw) for _ in range(draw.choice((0, 0, 1, 1, 2))))
        structure = draw.choices(list(STRUCTURES), list(STRUCTURES.values()))[0]
        program = Program(chosen, structure, tuple(sorted(extras)), some)
        if fits(program):
            return program


# -- from choices to files --------------------------------------------------------------------


@dataclass
class _Text:
    """Sections filled with the code of every chosen idiom."""

    sections: dict[str, str]
    device: str
    flag: str
    expect: list[str] = field(default_factory=list)


_NAMES = {
    "function": ("device", "use_cuda"),
    "two_files": ("device", "use_cuda"),
    "class": ("self.device", "self.use_cuda"),
    "class_in_file": ("self.device", "self.use_cuda"),
    "config": ("cfg.device", "cfg.use_cuda"),
    "settings_file": ("DEVICE", "USE_CUDA"),
    "settings_module": ("settings.DEVICE", "settings.USE_CUDA"),
    "base_class": ("self.device", "self.use_cuda"),
    "ranks": ("device", "use_cuda"),
}
_HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F"


def rendered(
    program: Program, *, plain: bool = False
) -> tuple[dict[str, str], list[str], list[str]]:
    """The files (name to text), the words to run it, and the lines that a CUDA card would have it print."""
    text = _joined(program)
    files = _LAYOUTS[program.structure](text)
    for piece in chosen_pieces(program):
        for name in ("config.yaml", "config.json"):
            if body := piece.section(name.replace(".", "_")):
                files[name] = body + "\n"
    words = ["train.py", *" ".join(p.section("words") for p in chosen_pieces(program)).split()]
    side = 2 if plain else 1
    done = {name: _ALTERNATIVE.sub(lambda m: m[side], body) for name, body in files.items()}
    words = _ALTERNATIVE.sub(lambda m: m[side], " ".join(words)).split()
    return done, words, text.expect


def _joined(program: Program) -> _Text:
    parts: dict[str, list[str]] = defaultdict(list)
    for piece in chosen_pieces(program):
        for name, body in piece.sections.items():
            parts[name].append(body)
    for number, check in enumerate(program.checks):
        for name, body in checks.code(check, number).items():
            parts[name].append(body)
    sections = {name: "\n".join(bodies) for name, bodies in parts.items()}
    for name in list(sections):
        for _ in range(4):
            sections[name] = _filled(sections[name], sections)
    device, flag = sections["device_name"].strip(), sections["flag_name"].strip()
    return _Text(sections, device, flag, sections.get("expect", "").splitlines())


def _filled(text: str, sections: dict[str, str]) -> str:
    """``$name`` alone on a line becomes that section, indented as the line is; gone where there is none."""

    def put(match: re.Match[str]) -> str:
        body = sections.get(match[2], "")
        return textwrap.indent(body, match[1]) + "\n" if body.strip() else ""

    return re.sub(r"^([ ]*)\$(?!device\b|flag\b)(\w+)[ ]*(?:\n|\Z)", put, text, flags=re.MULTILINE)


def _named(body: str, device: str, flag: str) -> str:
    return re.sub(r"\$flag\b", flag, re.sub(r"\$device\b", device, body))


def _begin(text: _Text) -> str:
    """What finds the device: options and the choice."""
    return _block(text, "options", "choose")


def _training(text: _Text) -> str:
    """What trains, and prints at its end what came out."""
    trains = _block(text, "setup", "network", "place_model", "optimize", "ready", "loop", "end")
    return trains + "\n" + _SUMS


_SUMS = """\
print("params", *(float(p.detach().float().cpu().abs().sum()) for p in model.parameters()))
print("devices", *sorted({p.device.type for p in model.parameters()}))"""


def _block(text: _Text, *names: str) -> str:
    return "\n".join(filter(None, (text.sections.get(name, "") for name in names)))


def _tops(text: _Text) -> str:
    return "\n".join([_HEAD, *sorted(set(text.sections.get("imports", "").splitlines()))])


def _helpers(text: _Text) -> str:
    return text.sections.get("helpers", "")


def _file(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part.strip()) + "\n"


def _indent(body: str, depth: int = 1) -> str:
    return textwrap.indent(body, "    " * depth)


def _flat(text: _Text) -> dict[str, str]:
    body = _file(_tops(text), _helpers(text), _begin(text), _training(text))
    return {"train.py": _named(body, text.device, text.flag)}


def _main(text: _Text) -> dict[str, str]:
    inside = _named(_begin(text) + "\n" + _training(text), text.device, text.flag)
    main = "def main():\n" + _indent(inside)
    end = 'if __name__ == "__main__":\n    main()'
    return {"train.py": _file(_tops(text), _helpers(text), main, end)}


def _function(text: _Text) -> dict[str, str]:
    body = _named(_training(text), *_NAMES["function"])
    function = "def train(device, use_cuda):\n" + _indent(body)
    begin = _named(_begin(text), text.device, text.flag) + f"\ntrain({text.device}, {text.flag})"
    return {"train.py": _file(_tops(text), _helpers(text), function, begin)}


_INIT = "class Trainer:\n    def __init__(self, device, use_cuda):\n        self.device = device\n        self.use_cuda = use_cuda\n\n    def run(self):\n"


def _class(text: _Text) -> dict[str, str]:
    body = _INIT + _indent(_named(_training(text), *_NAMES["class"]), 2)
    begin = (
        _named(_begin(text), text.device, text.flag)
        + f"\nTrainer({text.device}, use_cuda={text.flag}).run()"
    )
    return {"train.py": _file(_tops(text), _helpers(text), body, begin)}


def _config(text: _Text) -> dict[str, str]:
    begin = _named(_begin(text), text.device, text.flag)
    head = "class Config:\n    epochs = 2\n\n\ncfg = Config()"
    body = f"cfg.device = {text.device}\ncfg.use_cuda = {text.flag}\n" + _named(
        _training(text), *_NAMES["config"]
    )
    return {"train.py": _file(_tops(text), _helpers(text), head, begin, body)}


def _two_files(text: _Text) -> dict[str, str]:
    body = "def train(device, use_cuda):\n" + _indent(_named(_training(text), *_NAMES["two_files"]))
    begin = (
        _named(_begin(text), text.device, text.flag)
        + f"\nengine.train({text.device}, use_cuda={text.flag})"
    )
    helpers = _file(_tops(text), _helpers(text), body)
    return {"train.py": _file(_tops(text), "import engine", begin), "engine.py": helpers}


def _class_in_file(text: _Text) -> dict[str, str]:
    body = _INIT + _indent(_named(_training(text), *_NAMES["class"]), 2)
    inside = _named(_begin(text), text.device, text.flag)
    inside += f"\ntrainer = Trainer({text.device}, {text.flag})\ntrainer.run()"
    main = "def main():\n" + _indent(inside) + '\n\n\nif __name__ == "__main__":\n    main()'
    return {
        "train.py": _file(_tops(text), "from trainer import Trainer", main),
        "trainer.py": _file(_tops(text), _helpers(text), body),
    }


def _settings_file(text: _Text, how: str = "settings_file") -> dict[str, str]:
    constants = _named(_begin(text), text.device, text.flag)
    constants += f"\nDEVICE = {text.device}\nUSE_CUDA = {text.flag}"
    line = (
        "import settings" if how == "settings_module" else "from settings import DEVICE, USE_CUDA"
    )
    body = _named(_training(text), *_NAMES[how])
    helpers = text.sections.get("helpers", "")
    return {
        "settings.py": _file(_tops(text), _choosing_helpers(text), constants),
        "train.py": _file(_tops(text), line, helpers, body),
    }


def _choosing_helpers(text: _Text) -> str:
    """The helpers again where the choice of a device needs them."""
    names = re.findall(r"^(?:def|class) (\w+)|^(\w+) = ", _helpers(text), re.MULTILINE)
    wanted = "\n".join([_begin(text), text.device, text.flag])
    return _helpers(text) if any(re.search(rf"\b{a or b}\b", wanted) for a, b in names) else ""


def _settings_module(text: _Text) -> dict[str, str]:
    return _settings_file(text, "settings_module")


_BASE = """\
class Base:
    def __init__(self, device, use_cuda=torch.cuda.is_available()):
        self.device = torch.device(device)
        self.use_cuda = use_cuda

    def run(self):
        raise NotImplementedError"""


def _base_class(text: _Text) -> dict[str, str]:
    training = _indent(_named(_training(text), *_NAMES["base_class"]), 2)
    body = "class Trainer(Base):\n    def run(self):\n" + training
    begin = _named(_begin(text), text.device, text.flag)
    begin += f"\nTrainer({text.device}, use_cuda={text.flag}).run()"
    return {
        "train.py": _file(_tops(text), "from base import Base", _helpers(text), body, begin),
        "base.py": _file("import torch", _BASE),
    }


_RANKS = """\
def worker(rank, world, device, use_cuda):
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", "0"
    store = "file://" + os.path.abspath("store")
    dist.init_process_group(<<"nccl"||"gloo">>, init_method=store, rank=rank, world_size=world)
    if use_cuda:
        torch.cuda.set_device(rank)
    torch.manual_seed(0)
"""
_RANKS_END = """\
    total = torch.ones(1, device=device) * (rank + 1)
    dist.all_reduce(total)
    if rank == 0:
        print("said", "total", total.item(), dist.get_world_size())
    dist.barrier()
    dist.destroy_process_group()
"""
_RANKS_MAIN = """
if __name__ == "__main__":
    mp.start_processes(worker, args=(2, {device}, {flag}), nprocs=2, start_method="fork")
"""


def _ranks(text: _Text) -> dict[str, str]:
    body = _named(_training(text), *_NAMES["ranks"])
    wrap = "model = DDP(model, device_ids=[rank] if use_cuda else None)"
    body = body.replace("# placed", wrap).replace("print(", "rank == 0 and print(")
    tops = (
        _tops(text)
        + "\nimport os\nimport torch.distributed as dist\nimport torch.multiprocessing as mp\nfrom torch.nn.parallel import DistributedDataParallel as DDP"
    )
    begin = _named(_begin(text), text.device, text.flag)
    main = _RANKS_MAIN.replace("{device}", text.device).replace("{flag}", text.flag)
    return {
        "train.py": _file(
            tops, _helpers(text), _RANKS + _indent(body) + "\n" + _RANKS_END, begin + "\n" + main
        )
    }


_LAYOUTS = {
    "flat": _flat,
    "main": _main,
    "function": _function,
    "class": _class,
    "config": _config,
    "two_files": _two_files,
    "class_in_file": _class_in_file,
    "settings_file": _settings_file,
    "settings_module": _settings_module,
    "base_class": _base_class,
    "ranks": _ranks,
}
