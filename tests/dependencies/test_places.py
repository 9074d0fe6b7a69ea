"""What is taken from an installed package and from a wheel: names, requirements and files, and nothing of one that is damaged."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

import pytest

from hpushim.dependencies import Places, assessing, audit
from hpushim.dependencies import places as of
from hpushim.dependencies.imports import Import
from hpushim.dependencies.places import Package
from hpushim.dependencies.project import of_project
from hpushim.errors import HpushimError
from hpushim.matrix import load
from hpushim.model import Target


@pytest.mark.parametrize(
    ("member", "name"),
    [("zq/__init__.py", "zq"), ("zq.py", "zq"), ("zq.cpython-311-x86_64-linux-gnu.so", "zq"), ("zq-1.0.dist-info/RECORD", ""), ("zq.egg-info/x", ""),
     ("zq-1.0.data/scripts/x", ""), ("../../bin/zq", ""), ("__pycache__/zq.pyc", ""), ("not-a-name/x.py", ""), ("a.b/x.py", ""), ("zq/deep/er/x.py", "zq")],
)  # fmt: skip
def test_the_names_that_a_package_is_imported_by(member: str, name: str) -> None:
    found = of._package("zq", "1", [member], (), Path())
    assert (sorted(found.imports), found.members) == ([name] if name else [], (member,))


@pytest.mark.parametrize(
    ("line", "name"),
    [("torch", "torch"), ("torch>=2", "torch"), (" torch (>=2)", "torch"), ("a.b-c_d", "a.b-c_d"), ("torch; python_version>'3'", "torch"),
     ("torch; extra == 'gpu'", ""), ("torch>=2 ; extra=='gpu'", ""), ("extra-tools", "extra-tools"), ("extra-tools; os_name=='x'", "extra-tools"), ("-bad", "")],
)  # fmt: skip
def test_what_a_package_requires(line: str, name: str) -> None:
    assert of._package("zq", "1", [], (line,), Path()).requires == ((name,) if name else ())


def _installed(root: Path, folder: str = ".venv", lib: str = "lib", **texts: str | None) -> Path:
    site = root / folder / lib / "python3.11" / "site-packages"
    (about := site / "zq-2.0.dist-info").mkdir(parents=True)
    for name, text in texts.items():
        if text is not None:
            (about / name).write_text(text)
    return site


ABOUT = "Name: zq\nVersion: 2.0\nRequires-Dist: other-zq>=1\nRequires-Dist: tool; extra == 'x'\n"


@pytest.mark.parametrize(
    ("record", "imports"),
    [("zq/a.py,,\n\nzq2.py,,\n", {"zq", "zq2"}), (None, set()), ("", set())],
)
@pytest.mark.parametrize("folder", [".venv", "venv", "env"])
@pytest.mark.parametrize("lib", ["lib", "lib64"])
def test_an_installed_package(tmp_path: Path, record: str | None, imports: set[str], folder: str, lib: str) -> None:  # fmt: skip
    site = _installed(tmp_path, folder, lib, METADATA=ABOUT, RECORD=record)
    found = Places(tmp_path).named("ZQ")
    assert found is not None
    assert (found.name, found.version, found.requires, found.at) == ("zq", "2.0", ("other-zq",), site)  # fmt: skip
    assert found.imports == imports
    for name in imports:
        assert Places(tmp_path).imported(name) == found
    (python := tmp_path / folder / "bin" / "python").parent.mkdir()
    python.write_text("")
    assert [of._folders(tmp_path / "none", each)[0] for each in (python, tmp_path / folder)] == [site] * 2  # fmt: skip
    states = of.state(tmp_path)
    assert states[0] == (str(site), site.stat().st_mtime_ns) and len(states) == len(of._folders(tmp_path, None))  # fmt: skip


@pytest.mark.parametrize("about", ["", "Version: 2\n"])
def test_a_package_without_a_name_is_none(tmp_path: Path, about: str) -> None:
    _installed(tmp_path, METADATA=about, RECORD="zq/a.py,,\n")
    good = tmp_path / ".venv" / "lib" / "python3.11" / "site-packages" / "yq-1.dist-info"
    good.mkdir()
    (good / "METADATA").write_text("Name: yq\nVersion: 1\n")
    (good / "RECORD").write_text("yq.py,,\n")
    places = Places(tmp_path)
    assert places.imported("zq") is None
    assert places.imported("yq") is not None


def test_files_are_those_of_the_package_alone(tmp_path: Path) -> None:
    site = _installed(tmp_path, METADATA=ABOUT, RECORD="zq/a.py,,\nzq/gone.py,,\nzq/link.py,,\n../out.py,,\nzq/folder,,\nnul\0.py,,\n")  # fmt: skip
    (site / "zq" / "folder").mkdir(parents=True)
    (site / "zq" / "a.py").write_text("abcdef")
    (site / "zq" / "link.py").symlink_to("a.py")
    (site.parent / "out.py").write_text("out")
    package = Package("zq", "", frozenset(), (), site, ("zq/a.py", "zq/gone.py", "zq/link.py", "../out.py", "zq/folder", "nul\0.py", "zq/a.py"))  # fmt: skip
    found = [(name, size, read(4)) for name, size, read in package.files()]
    assert found == [("zq/a.py", 6, b"abcd")] * 2
    assert of._read(site / "zq" / "gone.py", 4) == b""


def _wheel(path: Path, **members: str) -> Path:
    with zipfile.ZipFile(path, "w") as made:
        for name, text in members.items():
            made.writestr(name.replace("__", "/").replace("META", "zq.dist-info/METADATA"), text)
    return path


def test_wheels_first_and_by_their_names(tmp_path: Path) -> None:
    _installed(tmp_path, METADATA=ABOUT, RECORD="zq/a.py,,\n")
    (wheels := tmp_path / "wheels").mkdir()
    path = _wheel(wheels / "zq-3.0-py3-none-any.whl", META="Name: zq\nRequires-Dist: a\nRequires-Dist:b>2\nX: c\n", zq__b="text")  # fmt: skip
    _wheel(wheels / "bare.whl", bare__c="")
    (wheels / "torn-1-py3-none-any.whl").write_bytes(path.read_bytes()[:-20])
    places = Places(tmp_path, None, wheels)
    found = places.imported("zq")
    assert found is not None
    assert (found.version, found.requires, found.at) == ("3.0", ("a", "b"), path)
    assert [(name, size, read(3)) for name, size, read in found.files()][1] == ("zq/b", 4, b"tex")
    bare = places.named("bare.whl")
    assert bare is not None and (bare.version, bare.requires) == ("", ())
    assert places.named("torn") is None
    with pytest.raises(HpushimError, match=r"^--wheels .*gone: no such folder$"):
        Places(tmp_path, None, wheels / "gone")
    data = bytearray(path.read_bytes())
    data[data.rindex(b"text") + 1 : data.rindex(b"text") + 2] = b"X"
    path.write_bytes(bytes(data))
    assert [read(9) for name, _, read in found.files() if name == "zq/b"] == [b""]


@pytest.mark.parametrize(("name", "wanted"), [("A_b", "a-b"), ("a.-_B", "a-b"), ("ab", "ab")])
def test_names_are_compared_as_indexes_do(name: str, wanted: str) -> None:
    assert of.normal(name) == wanted


class _Places(Places):
    def __init__(self, *packages: Package) -> None:
        self._imports = {package.name: package for package in packages}
        self._names = dict(self._imports)


def _package(name: str, *requires: str) -> Package:
    return Package(name, "1", frozenset({name}), requires, Path("/nowhere"), ())


@pytest.mark.parametrize(
    ("requires", "of_others", "kind", "evidence"),
    [(("b",), {"b": "compiled for CUDA"}, "compiled for CUDA", "requires b: there"), (("b",), {"b": "knows hpu"}, "plain Python", ""),
     (("b",), {"b": "chooses its device"}, "plain Python", ""), (("c", "b"), {"b": "Triton kernels", "c": "plain Python"}, "Triton kernels", "requires b: there"),
     (("b", "c"), {"b": "builds CUDA", "c": "compiled for CUDA"}, "builds CUDA", "requires b: there"), (("torch", "b"), {"torch": "compiled for CUDA", "b": "plain Python"}, "plain Python", ""),
     (("numpy_zq", "b"), {"b": "demands CUDA tensors"}, "demands CUDA tensors", "requires b: there"), (("flash_attn", "b"), {"flash_attn": "compiled for CUDA"}, "plain Python", ""),
     (("a", "b"), {"b": "builds CUDA"}, "builds CUDA", "requires b: there")],
)  # fmt: skip
def test_what_is_required_decides_where_a_package_says_nothing(monkeypatch: pytest.MonkeyPatch, requires: tuple[str, ...], of_others: dict[str, str], kind: str, evidence: str) -> None:  # fmt: skip
    packages = [_package("a", *requires), *(_package(name) for name in of_others)]
    said = {name: audit.Audit(what, "there") for name, what in of_others.items()}  # type: ignore[arg-type]
    asked: list[str] = []

    def one(files: object) -> audit.Audit:
        return said.get(asked[-1], audit.Audit("plain Python"))

    def files(self: Package) -> list[str]:
        asked.append(self.name)
        return []

    monkeypatch.setattr(assessing, "audit", one)
    monkeypatch.setattr(Package, "files", files)
    asker = assessing._Assessing(_Places(*packages), load(), Target())
    for _ in range(2):
        found = asker.one("a", Import(2, True))
        assert found is not None
        assert (found.kind, found.evidence, found.files, found.version) == (kind, evidence, 2, "1")
    assert len(asked) == len(set(asked))


@pytest.mark.parametrize("most", [2, 3, 4])
def test_a_package_of_very_many_files_is_read_up_to_a_bound(monkeypatch: pytest.MonkeyPatch, most: int) -> None:  # fmt: skip
    monkeypatch.setattr(audit, "_MAX_FILES", most)
    files = [(f"p/{n}.py", 9, lambda size, n=n: b"CUDAExtension(" if n == 3 else b"") for n in range(5)]  # type: ignore[misc]  # fmt: skip
    assert audit.audit(files).kind == ("builds CUDA" if most > 3 else "plain Python")


def test_the_first_source_is_named_and_folders_beside_are_left_out() -> None:
    data = {"p/docs/k.cu": b"", "p/Tests/a.py": b"CUDAExtension(", "p/k.cuh": b"", "p/z.cu": b"", "p/b.py": b"cpp_extension"}  # fmt: skip
    found = audit.audit((name, len(text), lambda most, text=text: text) for name, text in data.items())  # type: ignore[misc]  # fmt: skip
    assert found == audit.Audit("builds CUDA", "p/k.cuh")


@pytest.mark.parametrize("kind", [0, 1, 6, 7])
@pytest.mark.parametrize("tags", [(1, 1, 0), (5, 1, 0), (0, 1, 1), (1,)])
def test_names_for_the_loader_are_those_of_the_dynamic_section(kind: int, tags: tuple[int, ...]) -> None:  # fmt: skip
    names = b"\0liba.so\0libcudart.so.9\0"
    entries = b"".join(struct.pack("<qQ", tag, at) for tag, at in zip(tags, (1, 9, 9), strict=False))  # fmt: skip
    start = 64 + len(names)
    head = (b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, start + len(entries), 0, 64, 0, 0, 64, 3, 0))  # fmt: skip
    sections = bytes(64) + struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, 64, len(names), 0, 0, 1, 0)
    sections += struct.pack("<IIQQQQIIQQ", 0, kind, 0, 0, start, len(entries), 1, 0, 8, 16)
    found = list(audit._needed(head + names + entries + sections))
    until = tags[: tags.index(0)] if 0 in tags else tags
    wanted = [name for tag, name in zip(until, (b"liba.so", b"libcudart.so.9"), strict=False) if tag == 1]  # fmt: skip
    assert found == (wanted if kind == 6 else [])
    assert list(audit._needed(b"\x7fELF\x01" + head[5:])) == []


CHOICE = {
    "torch.cuda.is_available()": True, "torch.cuda.device_count()": True, "torch.cuda.is_built()": False, "cuda": False,
}  # fmt: skip


@pytest.mark.parametrize("test", CHOICE)
@pytest.mark.parametrize(
    ("body", "other", "both"),
    [("'cuda'", "'cpu'", True), ("'cpu'", "'cuda:1'", True), ("'cuda'", "'cuda'", False), ("'cpu'", "'cpu'", False), ("'cuda'", "3", False), ("f('cuda', 'cpu')", "'x'", False)],
)  # fmt: skip
def test_a_choice_has_both_devices_in_its_branches(test: str, body: str, other: str, both: bool) -> None:  # fmt: skip
    for text in (f"x = {body} if {test} else {other}\n", f"\nif {test}:\n    x = {body}\nelse:\n    x = {other}\n"):  # fmt: skip
        found = dict(audit._python("a.py", text.encode() + b"# cuda\n"))
        line = 1 if text.startswith("x") else 2
        assert found == ({"chooses its device": f"a.py:{line}"} if both and CHOICE[test] else {})


@pytest.mark.parametrize("size", [4 << 20, (4 << 20) + 1])
def test_a_source_is_read_up_to_its_bound(size: int) -> None:
    found = list(audit._says("a.py", size, lambda most: b"CUDAExtension" if most == 4 << 20 else b""))  # fmt: skip
    assert bool(found) == (size == 4 << 20)
    library = list(audit._says("a.so", size << 7, lambda most: b"__cudaRegisterFatBinary"))
    assert bool(library) == (size == 4 << 20)


def test_what_no_training_run_needs_is_aside(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import one_zq\n")
    (tmp_path / "demo.py").write_text("import two_zq\n")
    found = of_project([tmp_path], (), Places(tmp_path), load(), Target(), frozenset({"demo.py"}))
    assert [(each.name, each.aside) for each in found] == [("one_zq", False), ("two_zq", True)]
