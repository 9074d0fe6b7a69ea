"""What the files of a project say about its training: which of them train, and what runs in each step."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Set
from functools import cache

from hpushim.engine.rules.wants import TRAINS, ProjectFact
from hpushim.matrix import signatures
from hpushim.patterns import lazily

from .project_facts import BLOCK, makers

# -- files that train --------------------------------------------------------------------------

#: With several arguments without names it is one of a kernel: ``ops.backward(grad, x)``.
_BACKWARD = lazily(
    rb"\.(?:manual_)?backward\((?!(?:[^()=]|\([^()]*\)){0,200},(?:[^()=]|\([^()]*\)){0,200}[,)])"
)
_MAIN = lazily(rb"\nif[ \t]+__name__[ \t]*==")
#: What imports modules by names that it makes.
_LOADING = (b"import_module", b"__import__", b"iter_modules")
_LOADS = lazily(rb"\b(?:import_module|__import__)\([ \t]*(?![\"'][\w.]*[\"'])|\biter_modules\(")
#: What it may load is then all that is in a folder.
_LISTS = lazily(rb"\b(?:iter_modules|walk_packages|listdir|scandir|i?glob|iterdir)\(")

#: A class of samples, which workers read on the CPU; what is none of theirs, and what they would have to do to use a device.
_SAMPLES = lazily(rb"\nclass[ \t]+\w+\([^)]*Dataset\b")
_NETWORK = lazily(rb"\bnn\.Module\b|\.(?:cuda|xpu|npu)\(|\.to\([^)\n]*dev|[\"']cuda")


def _trains(data: bytes) -> Iterable[bytes]:
    if b"Dataset" in data and _SAMPLES.search(data):
        yield b"samples"
    if _NETWORK.search(data):
        yield b"computes"
    if (b"backward(" in data and _BACKWARD.search(data)) or any(
        maker.startswith((b"lightning", b"transformers")) for maker in makers(data)
    ):
        yield b"trains"
    if b"__name__" in data and _MAIN.search(data):
        yield b"program"
    if any(word in data for word in _LOADING) and _LOADS.search(data):
        yield b"loads"
        if _LISTS.search(data):
            yield b"lists"


TRAINS_HERE = ProjectFact(TRAINS, _trains, kinds=("python", "notebook"))

# -- what runs in a training step ----------------------------------------------------------------

#: The owner of what is called where a backward pass runs.
STEP = "*"
_CALL = lazily(rb"\b([\w.]{1,100})\)?\(")
_DEFINED = lazily(rb"\n[ \t]*(?:async[ \t]+)?def[ \t]+(\w+)")
_MODULE = lazily(rb"\nimport[ \t]+(?!torch\b|numpy\b)[\w.]*?(\w+)(?:[ \t]+as[ \t]+(\w+))?[ \t]*(?=[\r\n#])")  # fmt: skip
_TAKEN_FROM = lazily(rb"\n[ \t]*from[ \t]+(?!torch\b)[\w.]+[ \t]+import[ \t]*(\([^()]*\)|[^\n]*)")
_TAKEN_AS = lazily(rb"\b(\w+)(?:[ \t]+as[ \t]+(\w+))?")
#: The same, in the loop around it, in each iteration.
LOOP = "**"
_LOOP = lazily(rb"\n([ \t]*)(?:for|while)\b")
#: What is behind the name of a class for what its ``forward`` calls each time, with the methods that this calls.
FORWARD = "()"
#: The owner of what loaders make batches of samples with.
COLLATES = "%"
_COLLATES = lazily(rb"\b(?:\w*collat\w*)[ \t]*=[ \t]*(?:(?:functools\.)?partial\([ \t]*|lambda[^:\n]*:[ \t]*)?([A-Za-z_][\w.]*)", re.I)  # fmt: skip
_CALLED_SO = lazily(rb"collat", re.I)
#: What is no code: texts that explain how a program is used, lines of comments.
_DOCUMENTED = lazily(rb'"""(?s:.*?)"""')
_COMMENT = lazily(rb"\n[ \t]*#[^\n]*")
#: What is no object of the project.
_LIBRARIES = frozenset([b"torch", b"F", b"nn", b"np", b"numpy", b"math", b"os"])
#: What runs once in so many steps, or in none.
_SELDOM = lazily(
    rb"\n([ \t]*)if\b[^\n]*(?:[\w)\]][ \t]*%[ \t]*[\w(]|(?:[lL]og|print|verbose|debug|interval|freq|every|rank|main|master|best|[eE]val|val|save|display|report|test)(?![a-z])|not[ \t]+self\.training\b)[^\n]*:[ \t]*(?:#[^\n]*)?(?:\n(?:\1[ \t]+[^\n]*|[ \t]*(?=\n)))+"
)
#: What runs where an object is made.
_MAKES = (b"__init__", b"__post_init__")
#: Methods that a framework calls in each step, with the bases that say so.
CALLED = {
    "training_step": ("LightningModule", "Trainer"),
    "training_step_end": ("LightningModule",),
    "on_train_batch_end": ("LightningModule", "Callback"),
    "on_before_optimizer_step": ("LightningModule", "Callback"),
    "compute_loss": ("Trainer",),
    "_prepare_inputs": ("Trainer",),
    "on_step_end": ("TrainerCallback",),
}
_PASSES = frozenset(name.encode() for name in ("forward", *CALLED))


def _step_calls(data: bytes) -> Iterable[bytes]:
    """``Net>loss`` for a method of ``Net`` that calls a function of the project, ``loss>spectrum`` for a function that does, and
    ``*>loss`` where a backward pass runs beside or in what calls it, ``**>loss`` where that is in each iteration, ``Net()>loss`` where
    a forward pass does. A method is ``Net.encode``, with ``Net.encode>`` where it is defined, and ``.encode`` where the text does not
    show of what class it is. What makes an object runs once.
    """
    if b"torch" not in data:
        return set()
    data = _COMMENT.sub(b"", _DOCUMENTED.sub(b"", data))
    taken = [each for line in _TAKEN_FROM.findall(data) for each in _TAKEN_AS.findall(line)]
    names = {alias or name: name for name, alias in taken}
    star = any(line.strip() == b"*" for line in _TAKEN_FROM.findall(data))
    modules = {*names} | {alias or name for name, alias in _MODULE.findall(data)}
    found = [*BLOCK.finditer(data)]
    blocks = [(each[2], each[0]) for each in found]
    classes = {
        each[2] for each in found if data[each.start() : each.start(2)].rstrip().endswith(b"class")
    }
    names |= {name: name for name, _ in blocks}
    known: set[bytes] = set()
    ends = [0, *(each.end() for each in found)]
    starts = [*(each.start() for each in found), len(data)]
    outside = b"\n".join(data[end:start] for end, start in zip(ends, starts, strict=True))
    for owner, text in [*blocks, (b"", outside)]:
        bodies = _bodies(text) if owner else {b"": text}
        calls = {name: {call.rpartition(b".")[::2] for call in _CALL.findall(body)} for name, body in bodies.items() if name not in _MAKES}  # fmt: skip
        steps = {name for name in calls if _BACKWARD.search(bodies[name])}
        while more := {called for name in steps for _, called in calls[name]} & calls.keys() - steps:  # fmt: skip
            steps |= more
        passes = [name for name in calls if _BACKWARD.search(bodies[name])]
        reached = [(STEP.encode() if name in steps else owner, calls[name]) for name in calls]
        if passes:
            reached.append((LOOP.encode(), _called_by(passes, bodies, calls.keys(), {name: _repeated(bodies[name]) for name in passes})))  # fmt: skip
        if run := [*_PASSES & calls.keys()]:
            reached.append((owner + FORWARD.encode(), _called_by(run, bodies, calls.keys(), {})))
        if owner in classes:
            known |= {owner + b"." + name + b">" for name in calls}
            reached += [(owner + b"." + name, made) for name, made in calls.items()]
        for front, made in reached:
            if front and not owner.lower().startswith(b"test") and b"TestCase" not in owner:
                if front != owner or owner not in classes:
                    known |= {
                        front + b">" + (owner if before == b"self" and called in calls else b"") + b"." + called
                        for before, called in made
                        if before and called not in _of_values() and before.rpartition(b".")[2] not in modules and before.partition(b".")[0] not in _LIBRARIES
                    }  # fmt: skip
                known |= {
                    front + b">" + names.get(called, called)
                    for before, called in made
                    if (
                        before.rpartition(b".")[2] in modules if before else star or called in names
                    )
                }
        if _CALLED_SO.search(owner):
            known.add(COLLATES.encode() + b">" + owner)
        known |= {COLLATES.encode() + b">" + owner + b"." + name for name in calls if owner in classes and _CALLED_SO.search(name)}  # fmt: skip
    if b"ollat" in data:
        known |= {
            COLLATES.encode() + b">" + each for each in _given_to_loaders(data, modules, names)
        }
    return known


def _given_to_loaders(data: bytes, modules: Set[bytes], names: Mapping[bytes, bytes]) -> Iterator[bytes]:  # fmt: skip
    """``collate`` for ``collate_fn=collate``, ``Pad`` for ``collate_fn = Pad(0)``, ``.collate`` for ``collate_fn=data.collate``."""
    for given in {*_COLLATES.findall(data)}:
        before, _, last = given.rpartition(b".")
        known = not before or before.rpartition(b".")[2] in modules
        yield names.get(last, last) if known else b"." + last
        if not before and last not in names:
            for made in re.findall(rb"\n[ \t]*%s[ \t]*=[ \t]*(\w+)\(" % last, data):
                yield names.get(made, made)


@cache
def _of_values() -> frozenset[bytes]:
    """The methods of tensors, modules and Python's own values, which say nothing of the project's."""
    members = [*signatures.members("torch.Tensor"), *signatures.members("torch.nn.Module")]
    return frozenset(name.encode() for name in (*members, *dir(str), *dir(list), *dir(dict), *dir(set)))  # fmt: skip


def _called_by(new: list[bytes], bodies: Mapping[bytes, bytes], methods: Set[bytes], inner: Mapping[bytes, bytes]) -> set[tuple[bytes, bytes]]:  # fmt: skip
    """What some methods of a definition call each time, and the methods that they call; of ``inner`` another text is read."""
    found: set[tuple[bytes, bytes]] = set()
    for name in (new := [*new]):  # grows
        made = {call.rpartition(b".")[::2] for call in _CALL.findall(inner.get(name, _SELDOM.sub(b"\n", bodies[name])))}  # fmt: skip
        new += {called for before, called in made if before in (b"", b"self")} & methods - {*new}
        found |= made
    return found


def _repeated(body: bytes) -> bytes:
    """Of a function the loop around its backward pass, without what runs once in so many steps; all of it where there is none."""
    at = _BACKWARD.search(body)
    start = body.rfind(b"\n", 0, at.start()) if at else 0
    depth = len(body[start + 1 :]) - len(body[start + 1 :].lstrip(b" \t"))
    loops = [found for found in _LOOP.finditer(body, 0, max(start, 0)) if len(found[1]) < depth]
    for loop in reversed(loops):
        if not re.search(rb"\n[ \t]{0,%d}[^\s#)\]}]" % len(loop[1]), body[loop.end() : start + 1]):
            ends = re.search(rb"\n[ \t]{0,%d}[^\s#)\]}]" % len(loop[1]), body[start + 1 :])
            body = body[loop.start() : start + 1 + ends.start() if ends else len(body)]
            break
    return _SELDOM.sub(b"\n", body)


def _bodies(text: bytes) -> dict[bytes, bytes]:
    """The functions of a definition, each with its text up to the next."""
    starts = [*_DEFINED.finditer(text)]
    ends = [found.start() for found in starts[1:]] + [len(text)]
    return {found[1]: text[found.end() : end] for found, end in zip(starts, ends, strict=False)}


#: Which functions of the project its classes and functions call, and what is called where one trains.
STEP_CALLS = ProjectFact("functions that steps may call", _step_calls)
