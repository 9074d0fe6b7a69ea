"""Checks for CUDA: every way to ask, in every shape, before everything that may be asked for."""

from __future__ import annotations

import random
import textwrap
from dataclasses import dataclass

#: What is asked. All are true on a card.
ASKED = {
    "available": "torch.cuda.is_available()",
    "flag": "$flag",
    "type_equals": 'torch.device($device).type == "cuda"',
    "equals_type": '"cuda" == torch.device($device).type',
    "not_cpu": 'torch.device($device).type != "cpu"',
    "device_not_cpu": 'torch.device($device) != torch.device("cpu")',
    "text_begins": 'str($device).startswith("cuda")',
    "text_holds": '"cuda" in str($device)',
    "text_cut": 'str($device)[:4] == "cuda"',
    "text_split": 'str($device).split(":")[0] == "cuda"',
    "among": 'torch.device($device).type in ("cuda", "xpu")',
    "among_set": 'torch.device($device).type in {"cuda", "mps"}',
    "counted": "torch.cuda.device_count() > 0",
    "counted_one": "torch.cuda.device_count() >= 1",
    "counted_truth": "torch.cuda.device_count()",
    "parameter": "next(model.parameters()).is_cuda",
    "parameter_device": 'next(model.parameters()).device.type == "cuda"',
    "parameter_index": "next(model.parameters()).get_device() >= 0",
    "all_parameters": "all(p.is_cuda for p in model.parameters())",
    "tensor": "torch.ones(1, device=$device).is_cuda",
    "tensor_type": 'torch.ones(1, device=$device).type() == "torch.cuda.FloatTensor"',
    "tensor_class": "isinstance(torch.ones(1, device=$device), torch.cuda.FloatTensor)",
    "both": "torch.cuda.is_available() and $flag",
    "either": '$flag or torch.device($device).type == "cuda"',
    "not_not": "not (not torch.cuda.is_available())",
    "not_cpu_flag": "not (torch.device($device).type == 'cpu')",
    "getattr": 'getattr(torch, "cuda").is_available()',
    "bool": "bool(torch.cuda.is_available())",
    "is_true": "torch.cuda.is_available() is True",
    "equals_true": "$flag == True",
    "index_not_none": 'torch.device($device).type == "cuda" and torch.cuda.current_device() == 0',
    "backend_built": "torch.cuda.is_available() and torch.backends.cudnn.enabled",
    "has_module": 'hasattr(torch, "cuda") and torch.cuda.is_available()',
}

#: How it is asked: ``?`` is the question, ``yes`` and ``no`` the bodies.
SHAPES = {
    "if": "if ?:\n    $yes\nelse:\n    $no\n",
    "if_not": "if not (?):\n    $no\nelse:\n    $yes\n",
    "if_alone": 'told# = "no"\nif ?:\n    told# = "yes"\n    $yes\nif told# == "no":\n    $no\n',
    "name": "on# = ?\nif on#:\n    $yes\nelse:\n    $no\n",
    "name_not": "off# = not (?)\nif off#:\n    $no\nif not off#:\n    $yes\n",
    "function": "def ask#():\n    return ?\n\nif ask#():\n    $yes\nelse:\n    $no\n",
    "early_return": "def act#():\n    if not (?):\n        $no\n        return\n    $yes\n\nact#()\n",
    "early_return_yes": "def act#():\n    if ?:\n        $yes\n        return\n    $no\n\nact#()\n",
    "lambda": "ask# = lambda: ?\nif ask#():\n    $yes\nelse:\n    $no\n",
    "attribute": "class State#:\n    pass\n\nstate# = State#()\nstate#.gpu = ?\nif state#.gpu:\n    $yes\nelse:\n    $no\n",
    "dictionary": 'options# = {"gpu": ?, "n": 1}\nif options#["gpu"]:\n    $yes\nelse:\n    $no\n',
    "default": "def act#(gpu=?):\n    if gpu:\n        $yes\n    else:\n        $no\n\nact#()\n",
    "loop": "for _ in range(2):\n    if not (?):\n        $no\n        continue\n    $yes\n    break\n",
    "assertion": "try:\n    assert ?\n    $yes\nexcept AssertionError:\n    $no\n",
    "raises": 'try:\n    if not (?):\n        raise RuntimeError("needs a card")\n    $yes\nexcept RuntimeError as problem:\n    if "needs" not in str(problem):\n        raise\n    $no\n',
    "elif": "if model is None:\n    pass\nelif ?:\n    $yes\nelse:\n    $no\n",
    "while": "turn# = 0\nwhile (?) and turn# < 1:\n    $yes\n    turn# += 1\nelse:\n    if not turn#:\n        $no\n",
    "and_more": "if (?) and epoch_count > 0:\n    $yes\nelse:\n    $no\n",
    "nested": "if epoch_count:\n    if ?:\n        $yes\n    else:\n        $no\n",
    "walrus": "if on# := (?):\n    $yes\nelse:\n    $no\n",
    "conditional_function": "def yes#():\n    $yes\n\ndef no#():\n    $no\n\n(yes# if ? else no#)()\n",
    "dispatch": "def yes#():\n    $yes\n\ndef no#():\n    $no\n\n{True: yes#, False: no#}[bool(?)]()\n",
    "match": "match bool(?):\n    case True:\n        $yes\n    case _:\n        $no\n",
    "filter": "for _ in [1 for _ in range(1) if ?]:\n    $yes\n",
    "decorator": "def guarded#(f):\n    return f if ? else (lambda: None)\n\n@guarded#\ndef act#():\n    $yes\n\nact#()\n",
}

#: What is done with a card.
ACTIONS = {
    "nothing": "pass",
    "synchronize": "torch.cuda.synchronize()",
    "empty_cache": "torch.cuda.empty_cache()",
    "seed": "torch.cuda.manual_seed_all(1)",
    "move": "extra = torch.ones(2).cuda()\nassert extra.is_cuda",
    "move_to": 'extra = torch.ones(2).to("cuda:0")\nassert extra.device.type == "cuda"',
    "make": 'extra = torch.zeros(2, device="cuda")\nassert extra.sum().item() == 0',
    "name": 'print("card", torch.cuda.get_device_name(0) != "")',
    "memory": 'print("memory", torch.cuda.memory_allocated() >= 0, torch.cuda.max_memory_allocated() >= 0)',
    "memory_text": 'print("memory", f"{torch.cuda.max_memory_reserved() / 2 ** 20:.0f}" != "")',
    "reset": "torch.cuda.reset_peak_memory_stats()",
    "benchmark": "torch.backends.cudnn.benchmark = True",
    "deterministic": "torch.backends.cudnn.deterministic = True\ntorch.backends.cudnn.benchmark = False",
    "tf32": "torch.backends.cuda.matmul.allow_tf32 = True\ntorch.backends.cudnn.allow_tf32 = True",
    "set_device": "torch.cuda.set_device(0)",
    "event": "tick = torch.cuda.Event(enable_timing=True)\ntick.record()",
    "stream": "side = torch.cuda.Stream()\nwith torch.cuda.stream(side):\n    torch.ones(2, device='cuda')\ntorch.cuda.current_stream().wait_stream(side)",
    "typed": "extra = torch.cuda.FloatTensor([1.0, 2.0])\nassert extra.sum().item() == 3",
    "state": "state = torch.cuda.get_rng_state()\ntorch.cuda.set_rng_state(state)",
    "properties": "memory = torch.cuda.get_device_properties(0).total_memory\nassert memory > 0",
    "device_context": "with torch.cuda.device(0):\n    torch.ones(1).cuda()",
}

#: Where it stands.
PLACES = ("ready", "begin_epoch", "after", "end", "after_epoch")


@dataclass(frozen=True)
class Check:
    """One check: what is asked, in which shape, what is done, where."""

    asked: str
    shape: str
    action: str
    place: str

    @property
    def parts(self) -> tuple[str, ...]:
        """Its idioms, by name."""
        return (f"asks {self.asked}", f"as {self.shape}", f"does {self.action}")


def drawn(draw: random.Random) -> Check:
    """A check at random."""
    return Check(*(draw.choice(list(table)) for table in (ASKED, SHAPES, ACTIONS, PLACES)))


def code(check: Check, number: int) -> dict[str, str]:
    """The lines of a check by section."""
    yes = f'print("said", "yes {number}")\n{ACTIONS[check.action]}'
    no = f'print("said", "no {number}")'
    lines = []
    for line in (
        SHAPES[check.shape].replace("?", ASKED[check.asked]).replace("#", str(number)).splitlines()
    ):
        text = line.strip()
        if text in ("$yes", "$no"):
            body = yes if text == "$yes" else no
            lines.append(textwrap.indent(body, line[: len(line) - len(text)]))
        else:
            lines.append(line)
    return {
        "imports": "",
        "setup": "epoch_count = 2",
        check.place: "\n".join(lines),
        "expect": f"said yes {number}",
    }
