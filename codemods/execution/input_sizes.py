"""Inputs whose shape changes from batch to batch: a short last batch, padding to the longest, images of random size."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from hpushim.engine.python.changes import Replace, Rewrite
from hpushim.engine.rules.rule import Code, Module, Rule, Wants, Yield
from hpushim.matrix import load
from hpushim.pycode.values import Values
from hpushim.pycode.walk import walk

from ..analysis.names import called, word
from ..analysis.placement import DEVICES, is_on_device, reaches_a_device
from ..analysis.trainers import is_settings
from ..analysis.training_facts import STEP_CALLS
from ..analysis.verdict import ask, sentence
from ..edits.arguments import add, argument
from ..values.changing import Changing, changes_each_step
from ..values.tensors import is_tensor
from ..values.training import collates, serves_step

_LOADER = "torch.utils.data.DataLoader"
_LAST = "torch.utils.data.DataLoader(drop_last=)"
_BATCH, _DROPS = "per_device_train_batch_size", "dataloader_drop_last"
_EVALUATED = "the short last batch of an evaluation"
_LONGEST = "padding to the longest of a batch"
_SIZE = "images or sequences of changing size"
_RESIZE = ("torch.nn.functional.interpolate", "torch.nn.functional.upsample")
_PAD = ("torch.nn.utils.rnn.pad_sequence",)
#: What joins graphs of any size to a batch: this row's names.
_GRAPHS = "torch_geometric.loader.DataLoader"
_JOINS = row.names if (row := load().row(_GRAPHS)) is not None else ()
#: ``[x for x in batch if x is not None]``, ``filter(None, batch)``.
_CHOOSES = re.compile(rb"\bfor\b[^\n]{1,200}\bif\b|\bfilter\(")
#: Of language models, whose samples may be blocks of one length.
_OF_TEXTS = ("transformers.DataCollatorForLanguageModeling", "trl.DataCollatorForCompletionOnlyLM")
_COLLATORS = (
    "transformers.DataCollatorWithPadding",
    "transformers.DataCollatorForSeq2Seq",
    "transformers.DataCollatorForTokenClassification",
    *_OF_TEXTS,
)
#: What tokenizers and processors are given, and nothing else that has a padding.
_OF_TOKENS = frozenset(["text", "texts", "return_tensors", "truncation", "add_special_tokens", "return_attention_mask", "padding_side"])  # fmt: skip
#: Padding to so many is for the units of a processor, not for few lengths.
_FEW = 64
#: What says the greatest of several.
_GREATEST = ("builtins.max", "numpy.max", "numpy.amax", "torch.max", "torch.amax")
#: The samplers of torch that shuffle, unless `shuffle=False` is passed.
_SHUFFLES = ("DistributedSampler", "RandomSampler", "WeightedRandomSampler", "SubsetRandomSampler")
_TRAIN = re.compile(r"train|trn|(^|_)tr(_|$)", re.I)
_MULTISCALE = re.compile(rb"random_?(re)?siz|multi_?scale_?(range|train)")
_TEST = re.compile(r"test|val|eval|infer|predict", re.I)


class InputSize(Rule):
    """``DataLoader(…)`` without ``drop_last``, ``tokenizer(…, padding=True)``, ``interpolate(x, size=random…)``."""

    HPU525 = Code("changing-input-size", effect="speed")
    HPU526 = Code("short-last-batch", severity="note", fix=("unsafe", "manual"), effect="speed")
    wants = Wants(
        names=(_LOADER, *_RESIZE, *_PAD, *_JOINS),
        calls=("max", "amax"),
        keywords=(_BATCH,),
        texts=("padding=True", 'padding="longest"', "padding='longest'", "collat", "Collat"),
        required=("cuda", "hpu", "device", "accelerat", "pad_sequence", "DataLoader", "Trainer", "Tokenizer", "Processor", "import torch", "from torch"),
        project=DEVICES,
        facts=(STEP_CALLS,),
    )  # fmt: skip
    also = Wants(names=_COLLATORS, keywords=("padding",), words=("range", "trange"))

    def on_name(self, module: Module, node: ast.expr, name: str) -> Yield:
        if module.qualified(node) != name:
            return
        call = called(module, node)
        if name == _LOADER:
            for each in [call] if call is not None else _made(module, node):
                yield from self._loader(module, each)
        elif call is None:
            derived = module.parent(node)
            if name in _COLLATORS and isinstance(derived, ast.ClassDef) and node in derived.bases and not _in_blocks(module):  # fmt: skip
                yield from self._longest(module, node)
        elif name in _RESIZE:
            yield from self._resized(module, call)
        elif name in _JOINS:
            answer = ask(module, _GRAPHS)
            if reaches_a_device(module) and not module.holds("transforms.Pad") and module.constant(argument(call, "batch_size", 1)) != 1:  # fmt: skip
                yield self.finding(call.func, f"`{module.source(call.func)}` joins graphs of any size to a batch. {sentence(answer.note)}", row=answer.row)  # fmt: skip
        elif name in _PAD and not reaches_a_device(module):
            return
        elif name in _PAD or not (_is_rounded(module, call) or argument(call, "max_length")):
            padding = argument(call, "padding")
            longest = padding is None or module.constant(padding) in (True, "longest")
            if longest and not (name in _OF_TEXTS and _in_blocks(module)):
                yield from self._longest(module, call.func)

    def on_keyword(self, module: Module, node: ast.keyword) -> Yield:
        """``padding=True`` of a tokenizer, whose result goes to the device in the same file."""
        if node.arg == _BATCH:
            yield from self._trainer(module, node)
            return
        call = module.parent(node)
        if not isinstance(call, ast.Call) or not _is_of_tokens(call):
            return
        given = [node.value, *module.view(Values).origins(node.value)]
        if all(module.constant(each) not in (True, "longest") for each in given if isinstance(each, ast.expr)):  # fmt: skip
            return
        if not _is_rounded(module, call) and _trains(module, node):
            yield from self._longest(module, node)

    def _trainer(self, module: Module, node: ast.keyword) -> Yield:
        """``TrainingArguments(per_device_train_batch_size=8)``, whose trainer makes the loader."""
        call = module.parent(node)
        assert isinstance(call, ast.Call)
        given = {keyword.arg for keyword in call.keywords}
        if given & {None, _DROPS} or not is_settings(module.qualified(call.func) or ""):
            return
        answer = ask(module, _LAST)
        yield self.finding(
            node,
            f"without `{_DROPS}=True`, the last batch of an epoch may be smaller. {sentence(answer.note)}",
            fix=Rewrite("drop the last batch", "unsafe", (add(call, f"{_DROPS}=True"),)),
            row=answer.row,
            code="HPU526",
        )

    def on_module(self, module: Module) -> Yield:
        """``for i in range(0, n, size): model(x[i : i + size])``: the last slice may be shorter."""
        for loop in module.index.statements(ast.For) if module.view(is_on_device) else ():
            part = _slice(module, loop)
            if part is None:
                continue
            trains = any(isinstance(one, ast.Attribute) and one.attr == "backward" for one in walk(loop))  # fmt: skip
            answer = ask(module, _SIZE if trains else _EVALUATED)
            yield self.finding(
                part,
                f"the last `{module.source(part)}` may be shorter. {sentence(answer.note)}",
                row=answer.row,
                code="HPU526",
            )
        for choice in _chosen(module):
            answer = ask(module, _SIZE)
            yield self.finding(choice, f"`{module.source(choice).splitlines()[0]}` leaves samples out, so that a batch may be smaller. {sentence(answer.note)}", row=answer.row, code="HPU526")  # fmt: skip

    def on_call(self, module: Module, node: ast.Call) -> Yield:
        """The length of the longest sample, where a batch is made: ``n = max(len(x) for x in batch)``."""
        if module.qualified(node.func) not in _GREATEST or not reaches_a_device(module):
            return
        if (collates(module, node) or _pads_to(module, node)) and _is_of_sizes(module, node):
            yield from self._longest(module, node)

    def _longest(self, module: Module, node: ast.AST) -> Yield:
        answer = ask(module, _LONGEST)
        yield self.finding(
            node,
            f"`{module.source(node).splitlines()[0]}` pads each batch to its longest sample. {sentence(answer.note)}",
            row=answer.row,
        )

    def _resized(self, module: Module, call: ast.Call) -> Yield:
        sizes = [argument(call, "size", 1), argument(call, "scale_factor", 2)]
        random = next((s for s in sizes if s is not None and _changes(module, s)), None)
        if random is not None:
            answer = ask(module, _SIZE)
            yield self.finding(
                call,
                f"`{module.source(random).splitlines()[0]}` changes the input size in each step. "
                f"{sentence(answer.note)}",
                row=answer.row,
            )

    def _loader(self, module: Module, call: ast.Call) -> Yield:
        if not reaches_a_device(module) and not module.holds("accelerat"):
            return
        said = argument(call, "drop_last", 8)
        if said is not None and module.constant(said) is not False:
            return
        if said is None and _hidden(call) and _said_elsewhere(module, call):
            return
        use = _use(module, call)
        if use == _EVALUATED:
            answer = ask(module, _EVALUATED)
            shown = module.source(call.func)
            yield self.finding(
                call.func,
                f"the last batch of `{shown}` may be smaller. {sentence(answer.note)}",
                row=answer.row,
                code="HPU526",
            )
        if use != _LAST:
            return
        answer = ask(module, _LAST)
        change = add(call, "drop_last=True") if said is None else Replace(said, "True")
        fix = Rewrite("drop the last batch", "unsafe", (change,))
        yield self.finding(
            call.func,
            f"without `drop_last=True`, the last batch of `{module.source(call.func)}` may be "
            f"smaller. {sentence(answer.note)}",
            fix=None if said is None and _hidden(call) else fix,
            row=answer.row,
            code="HPU526",
        )


def _chosen(module: Module) -> Iterator[ast.expr]:
    """Where what makes a batch leaves samples out: ``[x for x in batch if x is not None]``, ``filter(None, batch)``."""
    units = module.index.holding(_CHOOSES) if module.view(reaches_a_device) else ()
    for part in (part for unit in units for part in module.index.within(unit)):
        match part:
            case ast.ListComp(
                generators=[ast.comprehension(iter=ast.Name() as taken, ifs=[_, *_])]
            ):
                pass
            case ast.Call(func=ast.Name(id="filter"), args=[_, ast.Name() as taken]):
                pass
            case _:
                continue
        given = module.bindings(taken)
        if any(each.kind == "param" for each in given) and collates(module, part):
            yield part


def _slice(module: Module, loop: ast.For) -> ast.Subscript | None:
    """The first slice of a tensor that a loop takes in steps, for the device: ``x[i : i + size]``, ``x[i : min(i + size, n)]``."""
    counted = loop.iter
    while isinstance(counted, ast.Call) and len(counted.args) == 1:
        counted = counted.args[0]
    if not isinstance(counted, ast.Call) or word(counted.func) not in ("range", "trange") or len(counted.args) != 3:  # fmt: skip
        return None
    if not isinstance(loop.target, ast.Name) or module.constant(counted.args[2]) in (1, -1):
        return None
    counter = loop.target.id
    for part in walk(loop):
        bounds = part.slice if isinstance(part, ast.Subscript) else None
        if isinstance(bounds, ast.Slice) and isinstance(bounds.lower, ast.Name) and bounds.lower.id == counter and bounds.upper is not None:  # fmt: skip
            assert isinstance(part, ast.Subscript)
            if isinstance(part.ctx, ast.Load) and (is_tensor(module, part.value) or _moves(loop)) and not _is_of_ranks(module, part):  # fmt: skip
                return part
    return None


def _is_of_ranks(module: Module, part: ast.expr) -> bool:
    """Is it given to a collective operation: one parameter for each rank?"""
    call = module.parent(part)
    return isinstance(call, ast.Call) and (module.qualified(call.func) or "").startswith("torch.distributed.")  # fmt: skip


def _moves(loop: ast.For) -> bool:
    """Does a loop move anything to a device?"""
    for part in walk(loop):
        func = part.func if isinstance(part, ast.Call) else None
        if isinstance(func, ast.Attribute) and func.attr in ("cuda", "hpu", "to"):
            return True
    return False


def _is_of_sizes(module: Module, node: ast.Call) -> bool:
    """``max(len(x) for x in batch)``, ``numpy.max([x.shape for x in batch])``, ``longest = max(longest, n)`` in a loop."""
    if len(node.args) != 2 or module.qualified(node.func) != "builtins.max":
        several = [value for each in node.args[:1] for value in (each, *module.values(each))]
        kinds = (ast.ListComp, ast.GeneratorExp, ast.Call, ast.List)
        return any(_says_size(each) for each in several if isinstance(each, kinds))
    statement = _kept_by(module, node)
    loops = [above for above in module.ancestors(node) if isinstance(above, ast.For)]
    if not isinstance(statement, ast.Assign) or not loops:
        return False
    kept = module.source(statement.targets[0])
    other = [each for each in node.args if module.source(each) != kept]
    turns = {part.id for loop in loops for part in walk(loop.target) if isinstance(part, ast.Name)}
    return len(other) == 1 and (
        word(other[0]) in turns or any(_says_size(value) for value in _given(module, other[0]))
    )


def _given(module: Module, node: ast.expr) -> Iterator[ast.expr]:
    """What a name is given, also with others at once: ``(n,) = row.shape``."""
    yield node
    for bound in module.bindings(node) if isinstance(node, ast.Name) else ():
        statement = module.statement(bound.node)
        if isinstance(statement, ast.Assign):
            yield statement.value


def _kept_by(module: Module, node: ast.Call) -> ast.AST | None:
    """What is given the value, as the first of two choices maybe: ``n = max(n, m) if n else m``."""
    above = module.parent(node)
    return module.parent(above) if isinstance(above, ast.IfExp) else above


def _pads_to(module: Module, node: ast.Call) -> bool:
    """Is the length kept, of several in a loop in a loop, and given to what pads: ``pad_and_concat(longest, rows)``?"""
    statement = _kept_by(module, node)
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
        return False
    loops = [above for above in module.ancestors(node) if isinstance(above, (ast.For, ast.While))]
    return len(loops) > 1 and any(
        isinstance(part, ast.Call) and "pad" in word(part.func) and any(word(each) == statement.targets[0].id for each in part.args)
        for part in walk(loops[1])
    )  # fmt: skip


def _says_size(node: ast.AST) -> bool:
    """Is a size in it: ``len(x)``, ``x.size(0)``, ``x.shape``, ``map(len, batch)``?"""
    for part in walk(node):
        if isinstance(part, ast.Call):
            given = any(isinstance(each, ast.Name) and each.id == "len" for each in part.args)
            if given or word(part.func) in ("len", "size"):
                return True
        elif isinstance(part, ast.Attribute) and part.attr == "shape":
            return True
    return False


def _is_of_tokens(call: ast.Call) -> bool:
    """``tokenizer(…)``, ``self.tokenizer.pad(…)``, ``processor(text=…)``, ``model.prepare(texts, return_tensors="pt")``."""
    func = call.func
    owner = func.value if isinstance(func, ast.Attribute) and func.attr in ("pad", "__call__", "batch_encode_plus") else func  # fmt: skip
    return "token" in word(owner).lower() or any(k.arg in _OF_TOKENS for k in call.keywords)


def _is_rounded(module: Module, call: ast.Call) -> bool:
    """Is the length padded to one of few: ``pad_to_multiple_of=128``?"""
    multiple = argument(call, "pad_to_multiple_of")
    if multiple is None:
        return False
    known = module.constant(multiple)
    if isinstance(known, int):
        return known >= _FEW
    origins = module.view(Values).origins(
        multiple
    )  # it may be None, as the field of a class that is None unless given
    return not any(isinstance(each, ast.Constant) and each.value is None for each in origins)


def _in_blocks(module: Module) -> bool:
    """Does the file make samples of one length, as language models take them?"""
    return any(map(module.holds, ("block_size", "group_texts", "max_length", "packing")))


def _trains(module: Module, node: ast.AST) -> bool:
    """Does the file use a device, or a trainer that does, or do steps of the project run this for one?"""
    if module.view(is_on_device) or module.index.names("Trainer"):
        return True
    return reaches_a_device(module) and serves_step(module, node)


def _made(module: Module, node: ast.expr) -> Iterator[ast.Call]:
    """The calls of a class that is chosen in a variable: ``loader = DataLoader if many else Other``."""
    values = module.view(Values)
    for edge in values.reach(node, values.uses):
        if edge.how == "called" and isinstance(edge.node, ast.Call):
            yield edge.node


def _hidden(call: ast.Call) -> bool:
    """Are some arguments given with a star?"""
    return any(k.arg is None for k in call.keywords) or any(
        isinstance(arg, ast.Starred) for arg in call.args
    )


def _said_elsewhere(module: Module, call: ast.Call) -> bool:
    """May the options that are not seen say how batches end? What is not made in the same function may hold anything."""
    function = module.function(call)
    text = module.source(function) if function is not None else module.text
    return "drop_last" in text or "batch_sampler" in text


def _use(module: Module, call: ast.Call) -> str:
    """The row on what a loader gives several samples at a time for: training or evaluation; "" where it is not seen."""
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    if "batch_sampler" in given or len(call.args) > 8:
        return ""
    size = argument(call, "batch_size", 1)
    if size is None and None not in given:
        return ""  # one at a time
    if size is not None and module.constant(size) in (1, None) and isinstance(size, ast.Constant):
        return ""
    statement = module.statement(call)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    named = [word(target) for target in targets]
    function = module.function(call)
    if function is not None and not any(_TRAIN.search(n) or _TEST.search(n) for n in named):
        named.append(function.name)
    if any(_TEST.search(name) for name in named):
        return _EVALUATED
    if any(_TRAIN.search(name) for name in named):
        return _LAST
    shuffle = argument(call, "shuffle", 2)
    shuffled = shuffle is not None and module.constant(shuffle) is True
    return _LAST if shuffled or _is_shuffled(module, argument(call, "sampler", 3)) else ""


def _is_shuffled(module: Module, sampler: ast.expr | None) -> bool:
    """May samples come in an order of chance, as they do in training?"""
    made = module.view(Values).origins(sampler) if sampler is not None else []
    for each in made:
        if isinstance(each, ast.Call) and word(each.func) in _SHUFFLES:
            shuffle = argument(each, "shuffle", 3)
            if shuffle is None or module.constant(shuffle) is not False:
                return True
    return False


def _changes(module: Module, size: ast.expr) -> bool:
    """Is a size random, or handed to a function of a file that mentions sizes chosen at random?"""
    if changes_each_step(module, size, Changing.RANDOM):
        return True
    given = isinstance(size, ast.Name) and any(
        isinstance(binding.node, ast.arg) for binding in module.bindings(size)
    )
    return given and module.matches(_MULTISCALE)
