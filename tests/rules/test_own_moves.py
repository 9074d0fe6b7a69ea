"""Classes of the project with a `cuda` method of their own: their calls stay, tensors beside them move."""

from __future__ import annotations

from pathlib import Path

import pytest
from crossed import crossed

from hpushim.engine.project import analyse
from hpushim.model import Target

#: How the class takes the call; whether the method is given anything.
METHODS = {
    "def cuda(self):": False,
    "def cuda(\n        self,\n    ):": False,
    "def cuda(self, device=None):": True,
}
BODY = "\n        self.use_cuda = True\n        self.network = self.network.cuda()\n        return self\n"
#: How others come to an object of it.
MAKERS = [
    "model = Reader(path)",
    "model = Reader.load(path)",
    "model = reader.Reader(path)",
    "model = reader.Reader.load(path) if path else Reader(None)",
    "model = fresh(path)",
    "model = Longer(path)",
]
GUARDS = ["if {0}:\n        model.cuda()", "args.cuda = {0}\n    if args.cuda:\n        model.cuda()", "if not {0}:\n        return model\n    model.cuda()"]  # fmt: skip
#: What only a tensor, or a method that takes it, is given.
GIVEN = ["non_blocking=True", "0", "args.gpu, non_blocking=True", "device=args.gpu"]


def project(tmp_path: Path, method: str, main: str) -> dict[str, tuple[str, bool]]:
    """What is found in the program by its line: the code, and whether it is rewritten by itself."""
    own = f"import torch\n\n\nclass Reader:\n    def __init__(self, path):\n        self.network = torch.nn.Linear(2, 2)\n\n    @staticmethod\n    def load(path):\n        return Reader(path)\n\n    {method}{BODY}"
    (tmp_path / "reader.py").write_text(own)
    (tmp_path / "main.py").write_text(main)
    found = {f.path: f.findings for f in analyse([tmp_path], Target(), jobs=1).files}
    lines = main.splitlines()
    return {
        lines[main.count("\n", 0, finding.span.start)].strip(): (finding.code, bool(finding.fix) and finding.safety == "safe")
        for finding in found["main.py"]
    }  # fmt: skip


FRONT = "import torch\nimport reader\nfrom reader import Reader\n\n\nclass Longer(Reader):\n    pass\n\n\ndef fresh(path):\n    made = Reader(path)\n    return made\n\n\n"


@pytest.mark.parametrize(("method", "maker", "guard"), crossed(METHODS, MAKERS, GUARDS, rounds=2))
def test_its_call_stays_and_the_check_before_it_turns(
    tmp_path: Path, method: str, maker: str, guard: str
) -> None:
    check = guard.format("torch.cuda.is_available()")
    main = f"{FRONT}def main(args, path):\n    {maker}\n    {check}\n    return model\n"
    found = project(tmp_path, method, main)
    assert found["model.cuda()"] == ("HPU011", False)
    assert [found[line] for line in found if "is_available" in line] == [("HPU108", True)]


@pytest.mark.parametrize(("method", "given"), crossed(METHODS, GIVEN, rounds=2))
def test_what_no_method_takes_is_given_to_a_tensor(tmp_path: Path, method: str, given: str) -> None:
    main = f"{FRONT}def main(args, batch):\n    batch = [\n        e.cuda({given})\n        for e in batch\n    ]\n    return batch\n"
    found = project(tmp_path, method, main)
    assert found[f"e.cuda({given})"] == (("HPU103", False) if METHODS[method] else ("HPU102", True))


@pytest.mark.parametrize("method", METHODS)
def test_of_an_unknown_object_nothing_is_certain(tmp_path: Path, method: str) -> None:
    main = f"{FRONT}def main(args, model):\n    model.cuda()\n    return model\n"
    assert project(tmp_path, method, main)["model.cuda()"] == ("HPU103", False)


#: The class of such an object, and whether `.to` of it surely fails.
HEADS = {
    "class Batch:": True,
    "class Batch(object):": True,
    "class Batch(dict):": True,
    "class Batch(NamedTuple):": True,
    "class Batch(collections.abc.Sequence):": True,
    "class Batch(torch.nn.Module):": False,
    "class Batch(UnknownBase):": False,
}
MORE = {"": False, "\n    def to(self, device):\n        return self\n": True, "\n    def __getattr__(self, name):\n        return getattr(self.x, name)\n": True}  # fmt: skip
UNKNOWN = ["batch.cuda(0, non_blocking=True)", "batch['image'].cuda(device=args.gpu)", "{k: batch[k].cuda(args.gpu) for k in KEYS}", "[each.cuda() for each in batch]"]  # fmt: skip


@pytest.mark.parametrize(("head", "more", "call"), crossed(list(HEADS), list(MORE), UNKNOWN, rounds=3))  # fmt: skip
def test_what_has_no_to_is_never_given_one(tmp_path: Path, head: str, more: str, call: str) -> None:
    own = f"import collections.abc\nfrom typing import NamedTuple\n\nimport torch\nfrom other import UnknownBase\n\n\n{head}\n    def cuda(self, device=None, non_blocking=False):\n        self.x = self.x.cuda(device, non_blocking)\n        return self\n{more}"
    (tmp_path / "batch.py").write_text(own)
    (tmp_path / "main.py").write_text(f"import torch\n\n\ndef main(args, batch):\n    return {call}\n")  # fmt: skip
    files = {f.path: f.findings for f in analyse([tmp_path], Target(), jobs=1).files}
    (told,) = [each for each in files["main.py"] if each.code == "HPU103"]
    assert (told.safety == "manual") == (HEADS[head] and not MORE[more])
    assert ("`Batch`" in told.message) == (told.safety == "manual")
