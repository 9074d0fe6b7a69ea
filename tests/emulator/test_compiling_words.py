"""How the device is compiled and linked, with no compiler: which words it gets, and what is said where it fails."""

from __future__ import annotations

import os
import types
from pathlib import Path
from typing import Any

import pytest

from hpushim.emulator import compiling
from hpushim.errors import EmulatorError


def _torch(version: str = "2.6.0+cpu", *, distributed: bool = True, **known: Any) -> Any:
    return types.SimpleNamespace(
        __version__=version, __file__="/t/torch/__init__.py", _C=types.SimpleNamespace(**known), distributed=types.SimpleNamespace(is_available=lambda: distributed)
    )  # fmt: skip


@pytest.mark.parametrize(("version", "standard", "number"), [("2.6.0+cpu", 17, 206), ("2.13.1", 17, 213), ("2.14.0a0", 20, 214), ("3.0", 20, 300)])  # fmt: skip
@pytest.mark.parametrize("distributed", [True, False])
def test_flags_are_those_of_torch(version: str, standard: int, number: int, distributed: bool) -> None:  # fmt: skip
    found = compiling.flags(_torch(version, distributed=distributed, _PYBIND11_STDLIB="_x", _PYBIND11_BUILD_ABI=None, _GLIBCXX_USE_CXX11_ABI=False))  # fmt: skip
    assert found == [
        f"-std=c++{standard}", "-fPIC", "-fvisibility=hidden", "-DAT_PER_OPERATOR_HEADERS", f"-DHPU_TORCH_VERSION={number}", "-D_GLIBCXX_USE_CXX11_ABI=0", '-DPYBIND11_STDLIB="_x"', *["-DHPU_DISTRIBUTED"] * distributed,
    ]  # fmt: skip
    assert "-D_GLIBCXX_USE_CXX11_ABI=1" in compiling.flags(_torch())
    include = compiling.folders(_torch())
    assert include[0] == f"-I{compiling.SOURCES}" and include[1::2] == ["-isystem"] * 3
    assert include[2:6:2] == ["/t/torch/include", "/t/torch/include/torch/csrc/api/include"]


@pytest.mark.parametrize(
    ("asked", "there", "found"),
    [(None, ["g++", "c++"], "g++"), (None, ["clang++", "c++"], "c++"), (None, ["clang++"], "clang++"), ("icpx", ["icpx", "g++"], "icpx"), ("icpx", ["g++"], None), (None, [], None)],
)  # fmt: skip
def test_which_compiler_is_used(monkeypatch: pytest.MonkeyPatch, asked: str | None, there: list[str], found: str | None) -> None:  # fmt: skip
    monkeypatch.delenv("CXX", raising=False)
    if asked:
        monkeypatch.setenv("CXX", asked)
    monkeypatch.setattr(compiling.shutil, "which", lambda name: f"/b/{name}" if name in there else None)  # fmt: skip
    if found:
        assert compiling.compiler() == f"/b/{found}"
        return
    with pytest.raises(EmulatorError, match=rf"no C\+\+ compiler found \(looked for {'icpx' if asked else 'g.., c.., clang..'}\)"):  # fmt: skip
        compiling.compiler()


@pytest.mark.parametrize(("command", "gcc"), [("/b/g++-12", True), ("/b/c++", True), ("/b/clang++", False), ("/g++/icpx", False)])  # fmt: skip
@pytest.mark.parametrize("platform", ["linux", "darwin"])
@pytest.mark.parametrize("strip", [True, False])
def test_the_words_of_the_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str, gcc: bool, platform: str, strip: bool) -> None:  # fmt: skip
    ran: list[Any] = []

    def run(words: list[str], work: Path, doing: str, *began: Any) -> None:
        ran.append((words, work, doing, len(began)))
        if "-shared" in words:
            Path(words[words.index("-o") + 1]).touch()

    monkeypatch.setattr(compiling, "run", run)
    monkeypatch.setattr(compiling, "compiler", lambda: command)
    monkeypatch.setattr(compiling, "flags", lambda torch: ["-flag"])
    monkeypatch.setattr(compiling, "folders", lambda torch: ["-folder"])
    monkeypatch.setattr(compiling.sys, "platform", platform)
    target, work = tmp_path / "made/lib.so", tmp_path / "work"
    compiling.library(_torch(), target, work, extra=["-extra"], strip=strip)
    less = ["--param=ggc-min-expand=100", "--param=ggc-min-heapsize=524288"] * (gcc and platform == "linux")  # fmt: skip
    units = {doing: (words, at, began) for words, at, doing, began in ran[:-1]}
    assert sorted(units) == sorted(f"compiling {unit}.cpp" for unit in compiling.UNITS)
    for unit, level in compiling.UNITS.items():
        source = str(compiling.SOURCES / "units" / f"{unit}.cpp")
        assert units[f"compiling {unit}.cpp"] == ([command, level, "-flag", "-folder", *less, "-extra", "-c", source, "-o", str(work / f"{unit}.o")], work, 1)  # fmt: skip
    words, at, doing, began = ran[-1]
    objects = [str(work / f"{unit}.o") for unit in compiling.UNITS]
    assert words == [
        command, "-shared", *["-s"] * strip, "-extra", *objects, "-o", str(target), "-L/t/torch/lib", "-lc10", "-ltorch_cpu", "-ltorch_python", "-ltorch", "-Wl,-rpath,/t/torch/lib",
        *["-undefined", "dynamic_lookup"] * (platform == "darwin"),
    ]  # fmt: skip
    assert (at, doing, began) == (tmp_path, "linking", 0)
    assert (target.stat().st_mode & 0o777, target.parent.stat().st_mode & 0o777 & ~0o755) == (0o755, 0)  # fmt: skip


@pytest.mark.parametrize(
    ("said", "code", "first"),
    [("", 0, None), ("x\n a.h: Error: b \nerror: c\n", 1, "a.h: Error: b"), ("one\ntwo\n\n", 2, "two"), (" ", 3, "exit 3"), ("No space left on device", 1, ""), ("Disk quota exceeded", 1, "")],
)  # fmt: skip
def test_what_a_compiler_says_that_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: str, code: int, first: str | None) -> None:  # fmt: skip
    began: list[int] = []

    class Process:
        pid, returncode = 7, code

        def __init__(self, command: list[str], **how: Any) -> None:
            env = how.pop("env")
            assert (env["TMPDIR"], env["LC_ALL"], env["PATH"]) == (str(tmp_path), "C", os.environ["PATH"])  # fmt: skip
            assert how["text"] is True

        def __enter__(self) -> Process:
            return self

        def __exit__(self, *given: Any) -> None:
            pass

        def communicate(self) -> tuple[None, str]:
            return None, said

    monkeypatch.setattr(compiling.subprocess, "Popen", Process)
    if first is None:
        compiling.run(["cc"], tmp_path, "compiling x", began.append)
        assert began == [7]
        return
    with pytest.raises((EmulatorError, OSError)) as told:
        compiling.run(["cc"], tmp_path, "compiling x")
    if first:
        assert str(told.value).startswith(f"compiling x for the emulated HPU failed with cc (exit {code}): {first}; expected GCC 9")  # fmt: skip
    else:
        assert isinstance(told.value, OSError) and told.value.errno == 28
