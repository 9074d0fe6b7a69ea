"""What was found before: a cached answer equals a new one, whatever was changed, damaged or written at the same time."""

from __future__ import annotations

import multiprocessing
import os
import random
from pathlib import Path

import pytest

from hpushim.engine import cache, project
from hpushim.engine.base.text import Project
from hpushim.engine.project import analyse
from hpushim.model import Report, Target

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


def _store(root: Path) -> Path:
    (store,) = (root.parent / "kept" / "found").iterdir()
    return store


@pytest.mark.parametrize("seed", range(4))
def test_after_random_edits_it_finds_what_a_new_run_finds(folder: Path, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(15):
        name = chance.choice(list(HELPERS))
        text = chance.choice([*HELPERS[name], None])
        if text is None:
            (folder / name).unlink(missing_ok=True)
        else:
            (folder / name).write_text(text)
        if chance.random() < 0.2:
            (folder / "train.py").write_text(TRAIN + f"# {chance.randrange(3)}\n")
        assert _found(folder) == _found(folder, cached=False)


def test_only_files_that_asked_about_a_change_are_looked_at_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "helpers.py").write_text("import torch\ndef make(n):\n    return n.cuda()\n")
    (folder / "alone.py").write_text("import torch\nprint(torch.cuda.is_available())\n")
    looked: list[str] = []
    judged = project._judged
    monkeypatch.setattr(project, "_judged", lambda item, *rest: looked.append(item[1].shown) or judged(item, *rest))  # type: ignore[func-returns-value]  # fmt: skip
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


@pytest.mark.parametrize("damage", ["cut", "flipped", "foreign", "empty", "folder", "link"])
def test_a_damaged_store_is_none(folder: Path, damage: str) -> None:
    expected = _found(folder)
    store = _store(folder)
    data = store.read_bytes()
    if damage in ("folder", "link"):
        store.unlink()
        store.mkdir() if damage == "folder" else store.symlink_to(folder / "train.py")
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
    monkeypatch.setattr(cache, "state", lambda _matrix: b"another")
    read: list[dict[bytes, cache.Entry]] = []
    original = cache.Cache._read
    monkeypatch.setattr(cache.Cache, "_read", lambda self: read.append(original(self)) or read[-1])  # type: ignore[func-returns-value]
    assert _found(folder) == expected
    assert read[0] == {}


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
    assert [path.suffix for path in _store(folder).parent.iterdir()] == [".found"]


def test_stores_together_are_bounded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _found(folder)
    old = _store(folder)
    os.utime(old, (1, 1))
    monkeypatch.setattr(cache, "_ALL", old.stat().st_size + 10)
    analyse([folder], Target(style="dual"), cache=True)
    assert not old.exists()
    assert _store(folder)


def test_what_was_asked_is_asked_again_in_the_same_words() -> None:
    given = Project(frozenset({"a"}), imported=frozenset({("m", "n")}), pins=(("torch", ">=2"),))
    kept = cache.Cache.__new__(cache.Cache)
    kept._asked, kept._project = {}, {}
    watched = kept.watch(given)
    assert "a" in watched.methods
    assert ("m", "n") in watched.imported
    assert [name for name, _ in watched.pins] == ["torch"]
    assert not watched.files
    assert watched.modules & {"x"} == set()
    asked = kept.asked()
    assert [(name, question) for name, question, _ in asked] == [
        ("methods", "a"), ("imported", ("m", "n")), ("pins", 1), ("files", 0), ("modules", "x")
    ]  # fmt: skip
    assert all(kept._answers(*each) for each in asked)
    kept.watch(Project(frozenset({"a"}), imported=frozenset({("m", "n")})))
    assert [kept._answers(*each) for each in asked] == [True, True, False, True, True]
