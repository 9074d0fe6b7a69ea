"""What was found before: a cached answer equals a new one, whatever was changed, damaged or written at the same time.

Two stores hold answers: ``.whole`` for a project in which nothing changed, ``.found`` for each file of one in which something did.
"""

from __future__ import annotations

import multiprocessing
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hpushim.engine import cache, project, run, store
from hpushim.engine.base.text import Project
from hpushim.engine.project import analyse
from hpushim.model import Report, Style, Target

TRAIN = """\
import torch
from helpers import make
import apex_c
def step(model, x):
    return model.amp(x.cuda(0)).half()
device = torch.device("cuda")
make(0, device=0)
optimizer = torch.optim.Adam([])
for x in []:
    step(None, x)
    optimizer.step()
"""
#: Helpers that rules ask the project about: methods, modules, options, imported names, devices by number, versions, flags.
HELPERS = {
    "helpers.py": ["def make(n, device=None):\n    import torch\n    torch.cuda.set_device(device)\n", "def make(n):\n    pass\n", "import tensorflow\n", ""],
    "other.py": ["class Net:\n    def amp(self, x): return x\n    def half(self): return self\n", "class Net:\n    pass\n", "import train\n", "from train import device\n"],
    "options.py": ["import argparse\np = argparse.ArgumentParser()\np.add_argument('--device', default='cuda')\n", "import jax\n"],
    "requirements.txt": ["torch>=2.0\n", "torch==1.4\n", ""],
    "apex_c.py": ["x = 1\n", ""],
    "run.sh": ["python train.py --device cuda\n", "python train.py --gpu 0\n"],
    "config.yaml": ["device: cuda\n", "backend: nccl\n"],
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HPUSHIM_CACHE_DIR", str(tmp_path / "kept"))
    root = tmp_path / "project"
    root.mkdir()
    (root / "train.py").write_text(TRAIN)
    return root


def _found(root: Path, *, cached: bool = True) -> Report:
    return analyse([root], Target(), cache=cached)


def _stores(root: Path) -> dict[str, Path]:
    return {path.suffix: path for path in root.parent.glob("kept/found/*")}


#: Besides what is written: a file that has another name, one that is ignored, a folder copied from elsewhere, CUDA sources, a link.
def _moved(root: Path, chance: random.Random) -> None:
    files = sorted(path for path in root.rglob("*.*") if path.is_file() and path.name[0] != ".")
    file = chance.choice(files)
    what = chance.choice(["renamed", "ignored", "taken back", "vendored", "kernel", "link", "touched", "same"])  # fmt: skip
    if what == "renamed":
        (root / "inner").mkdir(exist_ok=True)
        file.rename(chance.choice([root, root / "inner"]) / f"n{chance.randrange(9)}{file.suffix}")
    elif what in ("ignored", "taken back"):
        lines = [file.name, "inner/"] if what == "ignored" else ["*.yaml", f"!{file.name}"]
        (root / ".gitignore").write_text("\n".join(lines) + "\n")
    elif what == "vendored":
        (root / "third_party").mkdir(exist_ok=True)
        (root / "third_party" / "a.py").write_text(TRAIN)
    elif what == "kernel":
        (root / "k.cu").write_text("\n" * chance.randrange(3))
    elif what == "link":
        (root / f"l{chance.randrange(3)}.py").unlink(missing_ok=True)
        (root / f"l{chance.randrange(3)}.py").symlink_to(chance.choice([file, root / "nowhere"]))
    elif what == "touched":
        os.utime(file, (1, 1))


#: The options of each run in turn: each set has answers of its own.
ASKED: list[dict[str, Any]] = [{}, {"select": ["HPU1"]}, {"ignore": ["HPU1"]}, {"exclude": ["o*.py"]}, {"propose": True}]  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_after_random_edits_it_finds_what_a_new_run_finds(folder: Path, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(20):
        name = chance.choice(list(HELPERS))
        text = chance.choice([*HELPERS[name], None])
        if chance.random() < 0.4:
            _moved(folder, chance)
        elif text is None:
            (folder / name).unlink(missing_ok=True)
        else:
            (folder / name).write_text(text)
        if chance.random() < 0.2 or not (folder / "train.py").exists():
            (folder / "train.py").unlink(missing_ok=True)
            (folder / "train.py").write_text(TRAIN + f"# {chance.randrange(3)}\n")
        if chance.random() < 0.2 and _stores(folder):
            file = chance.choice(sorted(_stores(folder).values()))
            data = bytearray(file.read_bytes())
            data[chance.randrange(len(data))] ^= 1
            file.write_bytes(data)
        words = chance.choice(ASKED)
        style: Style = chance.choice(["native", "agnostic"])
        found = [analyse([folder], Target(style=style), cache=cached, **words) for cached in (True, True, False)]  # fmt: skip
        assert found[0] == found[1] == found[2]


def _works(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Notes whenever something has to be worked out."""
    worked: list[str] = []
    made = run.Run.__init__
    monkeypatch.setattr(run.Run, "__init__", lambda self, *words, **more: worked.append("run") or made(self, *words, **more))  # type: ignore[func-returns-value]  # fmt: skip
    return worked


def test_where_nothing_changed_nothing_is_worked_out(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "third_party").mkdir()
    (folder / "third_party" / "a.py").write_text(TRAIN)
    (folder / "k.cu").write_text("\n\n")
    worked = _works(monkeypatch)
    every = [analyse([folder], Target(), cache=True, **words) for words in (*ASKED, *ASKED)]
    assert len(worked) == len(ASKED)
    assert every[: len(ASKED)] == every[len(ASKED) :]


#: What makes another project of it, for a run that finds the first one in its store.
CHANGES: dict[str, Callable[[Path], object]] = {
    "a file": lambda root: (root / "helpers.py").write_text("x = 2\n"),
    "a file of settings": lambda root: (root / "config.yaml").write_text("device: cpu\n"),
    "a file more": lambda root: (root / "more.py").write_text(""),
    "a file less": lambda root: (root / "helpers.py").unlink(),
    "a name": lambda root: (root / "helpers.py").rename(root / "helpers2.py"),
    "two names": lambda root: [(root / "config.yaml").rename(root / "x"), (root / "b.yaml").rename(root / "config.yaml"), (root / "x").rename(root / "b.yaml")],
    "a kind": lambda root: (root / "b.yaml").rename(root / "b.json"),
    "an ignored file": lambda root: (root / ".gitignore").write_text("helpers.py\n"),
    "a file that is left out": lambda root: (root / "gone.py").symlink_to(root / "nowhere"),
    "lines of CUDA": lambda root: (root / "k.cu").write_text("\n" * 9),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_changes_is_worked_out_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    for name, text in {"helpers.py": "x = 1\n", "config.yaml": "device: cuda\n", "b.yaml": "{}\n", "k.cu": "\n"}.items():  # fmt: skip
        (folder / name).write_text(text)
    _found(folder)
    worked = _works(monkeypatch)
    _found(folder)
    assert not worked
    CHANGES[change](folder)
    assert _found(folder) == _found(folder, cached=False)
    assert len(worked) == 2
    _found(folder)
    assert len(worked) == 2


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="needs rights of files")
def test_what_could_not_be_read_is_tried_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "closed.py").write_text(TRAIN)
    (folder / "closed.py").chmod(0)
    _found(folder)
    (folder / "closed.py").chmod(0o600)
    assert _found(folder) == _found(folder, cached=False)


def test_a_file_that_did_not_parse_is_tried_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "old.py").write_text("import torch\nprint torch.cuda\n")
    worked = _works(monkeypatch)
    assert _found(folder) == _found(folder)
    assert len(worked) == 2


def test_only_files_that_asked_about_a_change_are_looked_at_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "helpers.py").write_text("import torch\ndef make(n):\n    return n.cuda()\n")
    (folder / "alone.py").write_text("import torch\nprint(torch.cuda.is_available())\n")
    looked: list[str] = []
    assessed = run._assessed
    monkeypatch.setattr(run, "_assessed", lambda item, *rest: looked.append(item[1].shown) or assessed(item, *rest))  # type: ignore[func-returns-value]  # fmt: skip
    _found(folder)
    assert sorted(looked) == ["alone.py", "helpers.py", "train.py"]
    looked.clear()
    _found(folder)
    assert looked == []
    (folder / "models.py").write_text("class Net:\n    def half(self):\n        return self\n")
    _found(folder)
    assert looked == ["models.py", "train.py"]  # which asks for methods named `half`


def test_other_options_have_other_answers(folder: Path) -> None:
    every = _found(folder)
    some = analyse([folder], Target(), select=["HPU1"], cache=True)
    dual = analyse([folder], Target(style="dual"), cache=True)
    proposed = analyse([folder], Target(), propose=True, cache=True)
    assert some == analyse([folder], Target(), select=["HPU1"]) != every
    assert dual == analyse([folder], Target(style="dual")) != every
    assert proposed == analyse([folder], Target(), propose=True)


@pytest.mark.parametrize("ending", [".whole", ".found"])
@pytest.mark.parametrize("damage", ["cut", "flipped", "foreign", "empty", "folder", "link", "old"])
def test_a_damaged_store_is_none(folder: Path, damage: str, ending: str) -> None:
    expected = _found(folder)
    store = _stores(folder)[ending]
    data = store.read_bytes()
    if ending == ".found":
        _stores(folder)[".whole"].unlink()
    if damage in ("folder", "link"):
        store.unlink()
        store.mkdir() if damage == "folder" else store.symlink_to(folder / "train.py")
    elif damage == "old":  # of other files, with the digest of its own bytes
        (folder / "train.py").write_text("x = 1\n")
        _found(folder)
        other = store.read_bytes()
        (folder / "train.py").write_text(TRAIN)
        store.write_bytes(other)
    else:
        middle = len(data) // 2
        flipped = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
        cases = {"cut": data[:middle], "flipped": flipped, "foreign": b"x" * 1000, "empty": b""}
        store.write_bytes(cases[damage])
    assert _found(folder) == expected
    assert _found(folder) == expected
    assert (folder / "train.py").read_text() == TRAIN


def test_answers_of_another_hpushim_are_none(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = _found(folder)
    monkeypatch.setattr(project, "state", lambda _matrix: b"another")
    worked = _works(monkeypatch)
    read: list[dict[bytes, cache.Entry]] = []
    original = cache.Cache._read
    monkeypatch.setattr(cache.Cache, "_read", lambda self: read.append(original(self)) or read[-1])  # type: ignore[func-returns-value]
    assert _found(folder) == expected
    assert read[0] == {} and worked


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="needs rights of files")
def test_a_folder_that_others_can_write_to_is_not_used(folder: Path) -> None:
    kept = folder.parent / "kept" / "found"
    kept.mkdir(parents=True)
    kept.chmod(0o777)
    assert _found(folder) == _found(folder, cached=False)
    assert not list(kept.iterdir())


@pytest.mark.parametrize("place", ["a file", "no parent"])
def test_where_nothing_can_be_kept_it_finds_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    blocked = folder.parent / "blocked"
    blocked.write_text("")
    monkeypatch.setenv(
        "HPUSHIM_CACHE_DIR", str(blocked if place == "a file" else blocked / "in" / "it")
    )
    assert _found(folder) == _found(folder, cached=False)
    monkeypatch.setenv("HPUSHIM_CACHE_DIR", "relative")
    monkeypatch.chdir(folder)
    assert _found(folder) == _found(folder, cached=False)
    assert not (folder / "relative").exists()


def _often(root: str, seed: int) -> None:
    for number in range(8):
        Path(root, f"of_{seed}.py").write_text(f"import torch\nx = torch.zeros({number}).cuda()\n")
        assert analyse([Path(root)], Target(), cache=True).files


def test_several_processes_at_once(folder: Path) -> None:
    context = multiprocessing.get_context("fork")
    others = [context.Process(target=_often, args=(str(folder), seed)) for seed in range(3)]
    for other in others:
        other.start()
    for other in others:
        other.join()
    assert [other.exitcode for other in others] == [0, 0, 0]
    assert _found(folder) == _found(folder, cached=False)
    kept = folder.parent / "kept" / "found"
    assert sorted(path.suffix for path in kept.iterdir()) == [".found", ".whole"]


def test_stores_together_are_bounded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _found(folder)
    old = _stores(folder)
    for path in old.values():
        os.utime(path, (1, 1))
    monkeypatch.setattr(store, "_ALL", sum(path.stat().st_size for path in old.values()) + 10)
    analyse([folder], Target(style="dual"), cache=True)
    assert not any(path.exists() for path in old.values())
    assert _stores(folder).keys() == {".found", ".whole"}


def test_what_was_asked_is_asked_again_in_the_same_words() -> None:
    given = Project(frozenset({"a"}), imported=frozenset({("m", "n")}), pins=(("torch", ">=2"),))
    kept = cache.Cache.__new__(cache.Cache)
    kept._answered, kept._project = {}, {}
    watched = kept.watch(given)
    assert "a" in watched.methods
    assert ("m", "n") in watched.imported
    assert [name for name, _ in watched.pins] == ["torch"]
    assert not watched.files
    assert watched.modules & {"x"} == set()
    questions = kept.questions()
    assert [(name, question) for name, question, _ in questions] == [
        ("methods", "a"), ("imported", ("m", "n")), ("pins", 1), ("files", 0), ("modules", "x")
    ]  # fmt: skip
    assert all(kept._answers(*each) for each in questions)
    kept.watch(Project(frozenset({"a"}), imported=frozenset({("m", "n")})))
    assert [kept._answers(*each) for each in questions] == [True, True, False, True, True]
