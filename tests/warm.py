"""``run``: ``subprocess.run`` for a Python whose third-party imports are free.

Most of what a small program costs is the import of torch. A server holds it, hidden: a program that it forks finds nothing of it in
``sys.modules``, until its own ``import torch`` brings it back. Finders, hooks and entry points see an import as in any other process, in
the order in which the program asks. hpushim itself is imported anew by each program.

Where start-up is the subject (options of the interpreter, its variables, ``sitecustomize``), or there is no ``fork``, a process is
started as ever; so should tests of start-up, of endings and of what lives in more than one process.
"""

from __future__ import annotations

import atexit
import contextlib
import copy
import functools
import gc
import importlib
import importlib.util
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

#: Loaded once, in this order; what each brings with it comes back with it, and so does what it stands after.
PRELOADED = {
    "numpy": (),
    "torch": ("numpy",),
    "torch._dynamo": (),
    "torch.distributed": (),
    "torch.utils.data": (),
    "yaml": (),
    "libcst": ("yaml",),
    "libcst.matchers": (),
    "msgspec": (),
    "click": (),
    "rich.console": (),
    "packaging.requirements": (),
    "tree_sitter_bash": (),
    "tree_sitter_toml": (),
}
#: What the interpreter, the loader and torch read when they begin: a difference asks for a process of its own.
READ_AT_START = ("PYTHON", "LD_", "TORCH", "PYTORCH", "OMP_", "MKL_", "KMP_", "GOMP_", "ATEN_")
#: These are looked at, or are read late; the last is set by torch itself, in the process of the tests too.
ALLOWED = {"PYTHONPATH", "OMP_NUM_THREADS", "TORCH_DEVICE_BACKEND_AUTOLOAD", "TORCHINDUCTOR_CACHE_DIR"}  # fmt: skip
#: ``HPUSHIM_TESTS=processes`` gives every program its own process, as ``make test-all`` does.
AVAILABLE = sys.platform == "linux" and os.environ.get("HPUSHIM_TESTS") != "processes"


# The side of the tests.


def run(words: Sequence[str | Path], **how: Any) -> subprocess.CompletedProcess[Any]:
    """Like ``subprocess.run``, without a process of its own where one with everything loaded serves as well."""
    asked = _Asked.of([os.fspath(word) for word in words], dict(how))
    if asked is None:
        return subprocess.run(words, check=how.pop("check", False), **how)
    return asked.answered()


class _Asked:
    """A call of ``subprocess.run`` that the server can answer."""

    def __init__(self, words: list[str], how: dict[str, Any]) -> None:
        self.words = words
        self.cwd = os.fspath(how.pop("cwd", None) or Path.cwd())
        given = how.pop("env", None)
        self.env = dict(os.environ if given is None else given)
        self.input = how.pop("input", None)
        self.timeout = how.pop("timeout", None)
        self.check = how.pop("check", False)
        captured = subprocess.PIPE if how.pop("capture_output", False) else None
        self.out = how.pop("stdout", captured)
        self.err = how.pop("stderr", captured)
        text = how.pop("text", False)
        self.encoding = how.pop("encoding", "utf-8" if text else None)
        self.errors = how.pop("errors", "strict")
        self.left = how

    @classmethod
    def of(cls, words: list[str], how: dict[str, Any]) -> _Asked | None:
        if how.get("stdin") == subprocess.DEVNULL:
            del how["stdin"]
        asked = cls(words, how)
        outs = (subprocess.PIPE, subprocess.DEVNULL)
        known = not asked.left and asked.out in outs and asked.err in (*outs, subprocess.STDOUT)
        program = _program(words)
        if not AVAILABLE or not known or words[0] != sys.executable or program is None:
            return None
        places = [place for place in asked.env.get("PYTHONPATH", "").split(os.pathsep) if place]
        script = [] if program[1] else [str(Path(asked.cwd, program[2]).parent)]
        if _differ(asked.env, _server_environment()) or _hide([asked.cwd, *script, *places]):
            return None
        return asked

    def answered(self) -> subprocess.CompletedProcess[Any]:
        with tempfile.TemporaryDirectory(prefix="warm") as folder:
            files = {name: str(Path(folder, name)) for name in ("in", "out", "err")}
            given = b"" if self.input is None else self.input
            Path(files["in"]).write_bytes(given.encode() if isinstance(given, str) else given)
            if self.err == subprocess.STDOUT:
                files["err"] = files["out"]
            status = _server().ask(self.words, self.cwd, self.env, files, self.timeout)
            out = self._read(files["out"]) if self.out == subprocess.PIPE else None
            err = self._read(files["err"]) if self.err == subprocess.PIPE else None
        if status is None:
            raise subprocess.TimeoutExpired(self.words, self.timeout, out, err)
        done = subprocess.CompletedProcess(self.words, status, out, err)
        if self.check:
            done.check_returncode()
        return done

    def _read(self, file: str) -> Any:
        data = Path(file).read_bytes()
        if self.encoding is None:
            return data
        return io.TextIOWrapper(io.BytesIO(data), self.encoding, self.errors).read()


def _program(words: Sequence[str]) -> tuple[list[str], str, str, list[str]] | None:
    """What warnings ``-W`` names, how the program is named, its name, its words; None for a command line that a server cannot take up."""
    rest, warned = list(words[1:]), []
    while rest[:1] == ["-W"]:
        warned.append(rest[1])
        del rest[:2]
    if not rest:
        return None
    if rest[0] in ("-c", "-m") and len(rest) > 1:
        return warned, rest[0], rest[1], rest[2:]
    is_script = rest[0].endswith(".py") and not rest[0].startswith("-")
    return (warned, "", rest[0], rest[1:]) if is_script else None


def _differ(env: Mapping[str, str], server: Mapping[str, str]) -> bool:
    """Whether a process with this environment would start otherwise than the server did."""
    read = {name for name in (*env, *server) if name.startswith(READ_AT_START)} - ALLOWED
    return (
        any(env.get(name) != server.get(name) for name in read)
        or env.get("OMP_NUM_THREADS", "1") != "1"
    )


def _hide(places: Sequence[str]) -> bool:
    """Whether a module in one of these folders would be found before one that is loaded, or by the interpreter at its start."""
    names = {"sitecustomize", "usercustomize", *(name.partition(".")[0] for name in PRELOADED)}
    return any(
        Path(place, file).exists()
        for place in set(places)
        for name in names
        for file in (name, f"{name}.py")
    )


@functools.cache
def _server_environment() -> dict[str, str]:
    left = {k: v for k, v in os.environ.items() if not k.startswith(("HPUSHIM", "PYTHONPATH"))}
    return {**left, "HPUSHIM": "off", "OMP_NUM_THREADS": "1"}


@functools.cache
def _server() -> _Server:
    return _Server()


class _Server:
    """The process that forks; one at a time asks."""

    def __init__(self) -> None:
        env = {**_server_environment(), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([sys.executable, __file__], stdin=pipe, stdout=pipe, env=env)  # fmt: skip
        atexit.register(self.end)

    def ask(
        self,
        words: list[str],
        cwd: str,
        env: dict[str, str],
        files: dict[str, str],
        seconds: float | None,
    ) -> int | None:
        """The status of a program, as ``subprocess`` has it; None if it was stopped when its time was up."""
        asked = {"words": words, "cwd": cwd, "env": env, "files": files, "seconds": seconds}
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps(asked).encode() + b"\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, f"the server ended with {self.process.wait()}"
        status: int | None = json.loads(answer)
        return status

    def end(self) -> None:
        with contextlib.suppress(OSError):
            assert self.process.stdin
            self.process.stdin.close()
        self.process.wait()


# The side of the server.


class _Hidden:
    """A finder of modules that are loaded and out of sight: an import brings them back."""

    def __init__(self) -> None:
        self._modules: dict[str, types.ModuleType] = {}
        #: For each of PRELOADED: what came with it, and what it changed in modules that were there.
        self._came: dict[str, list[str]] = {}
        self._changed: dict[str, list[tuple[types.ModuleType, str, Any]]] = {}

    def load(self, name: str) -> None:
        """Imports a module, keeps what came with it and puts the rest back as it was; nothing where it is not installed."""
        before, attributes = set(sys.modules), _attributes()
        try:
            importlib.import_module(name)
        except ImportError:
            return
        # The standard library is in sight from the start: who it is that imports it first makes no difference.
        self._came[name] = [
            one
            for one in sys.modules
            if one not in before and one.partition(".")[0] not in sys.stdlib_module_names
        ]
        self._changed[name] = []
        for module, old in attributes:
            for key, value in list(vars(module).items()):
                if key not in old or old[key] is not value:
                    self._changed[name].append((module, key, old.get(key, _MISSING)))

    def hide(self) -> None:
        """Takes what was loaded out of ``sys.modules``, the last first, and sets itself up to give it back."""
        for name in reversed(self._came):
            for number, (module, key, old) in enumerate(self._changed[name]):
                self._changed[name][number] = (module, key, vars(module)[key])
                if old is _MISSING:
                    delattr(module, key)
                else:
                    setattr(module, key, old)
            for one in self._came[name]:
                self._modules[one] = sys.modules.pop(one)
        sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        module = self._modules.get(name)
        spec = getattr(module, "__spec__", None)
        if spec is None:
            return None
        spec = copy.copy(spec)
        spec.loader = _Loader(self, spec.loader)
        return spec

    def create(self, name: str) -> types.ModuleType:
        return self._modules[name]

    def executed(self, name: str) -> None:
        """Brings back what comes with a module, each through the finders, as they would be asked."""
        package = vars(self._modules.pop(name))
        for one in [one for one in self._modules if one.rpartition(".")[0] == name]:
            kept = package.get(one.rpartition(".")[2], self._modules[one])
            if kept is not self._modules[one]:
                # A function with the name of its module, as torch.multiprocessing.spawn: an import would put the module there.
                importlib.import_module(one)
                package[one.rpartition(".")[2]] = kept
        for other in PRELOADED.get(name, ()):
            if other in self._came:
                importlib.import_module(other)
        for module, key, value in self._changed.pop(name, ()):
            setattr(module, key, value)
        for one in self._came.pop(name, ()):
            if one not in sys.modules and one in self._modules:
                # Modules without a spec were put there by hand.
                if self._modules[one].__spec__ is None:
                    sys.modules[one] = self._modules.pop(one)
                else:
                    importlib.import_module(one)
        if name == "torch":
            torch = sys.modules["torch"]
            if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") == "1":
                torch._import_device_backends()


_MISSING = object()


def _attributes() -> list[tuple[types.ModuleType, dict[str, Any]]]:
    """What modules hold, but for those of the standard library."""
    return [
        (module, dict(vars(module)))
        for name, module in list(sys.modules.items())
        if isinstance(module, types.ModuleType)
        and name.partition(".")[0] not in sys.stdlib_module_names
    ]


class _Loader:
    """The loader that a module had, which need not run it again."""

    def __init__(self, hidden: _Hidden, real: Any) -> None:
        self._hidden, self._real = hidden, real

    def create_module(self, spec: Any) -> types.ModuleType:
        return self._hidden.create(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__.loader = self._real
        self._hidden.executed(module.__spec__.name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def _serve() -> dict[str, Any]:
    """Answers until nobody asks any more, and exits; in a child, returns what it was forked for."""
    del sys.path[0]
    hidden = _Hidden()
    for name in PRELOADED:
        hidden.load(name)
    hidden.hide()
    gc.collect()
    gc.freeze()
    answers = os.dup(1)
    os.dup2(2, 1)
    for line in sys.stdin.buffer:
        job: dict[str, Any] = json.loads(line)
        child = os.fork()
        if not child:
            os.close(answers)
            return job
        os.write(answers, json.dumps(_wait(child, job["seconds"])).encode() + b"\n")
    os._exit(0)


def _wait(child: int, seconds: float | None) -> int | None:
    ends = None if seconds is None else time.monotonic() + seconds
    pause = 0.001
    while True:
        done, status = os.waitpid(child, 0 if ends is None else os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if ends is not None and time.monotonic() > ends:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
        time.sleep(pause)
        pause = min(0.02, pause * 1.5)


def _become(job: dict[str, Any]) -> types.ModuleType:
    """Makes this process the one that was asked for, up to its program's first line; returns its ``__main__``."""
    files = job["files"]
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    for number, name in enumerate(("in", "out", "err")):
        opened = os.open(files[name], flags if number else os.O_RDONLY, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(  # noqa: SIM115
        2, "w", encoding="utf-8", errors="backslashreplace", closefd=False, buffering=1
    )
    os.chdir(job["cwd"])
    os.environ.clear()
    os.environ.update(job["env"])
    program = _program(job["words"])
    assert program is not None
    warned, kind, name, words = program
    if warned:
        import warnings

        sys.warnoptions.extend(warned)
        warnings._processoptions(warned)  # type: ignore[attr-defined]
    sys.orig_argv = list(job["words"])
    sys.argv = [kind or name, *words]
    places = [place for place in job["env"].get("PYTHONPATH", "").split(os.pathsep) if place]
    first = "" if kind == "-c" else job["cwd"] if kind == "-m" else str(Path(name).resolve().parent)
    sys.path[:0] = [first, *(os.path.abspath(place) for place in places)]  # noqa: PTH100  as site does
    importlib.invalidate_caches()
    _read_ours()
    main = types.ModuleType("__main__")
    main.__builtins__ = sys.modules["builtins"]  # type: ignore[attr-defined]
    sys.modules["__main__"] = main
    return main


def _read_ours() -> None:
    """What the interpreter would do for ``hpushim.pth``, which asks for the environment."""
    import site

    for folder in site.getsitepackages():
        if Path(folder, "hpushim.pth").is_file():
            site.addpackage(folder, "hpushim.pth", set())


def _run(job: dict[str, Any], main: types.ModuleType) -> None:
    program = _program(job["words"])
    assert program is not None
    _, kind, name, _ = program
    if kind == "-m":
        import runpy

        runpy._run_module_as_main(name)  # type: ignore[attr-defined]
        return
    if kind == "-c":
        code = compile(name, "<string>", "exec", dont_inherit=True)
    else:
        from importlib.machinery import SourceFileLoader

        file = os.path.abspath(name)  # noqa: PTH100  links stay, as Python has it
        main.__file__, main.__loader__ = file, SourceFileLoader("__main__", file)
        try:
            source = Path(file).read_bytes()
        except OSError as error:
            print(f"{sys.executable}: can't open file {file!r}: [Errno {error.errno}] {error.strerror}", file=sys.stderr)  # fmt: skip
            sys.exit(2)
        code = compile(source, file, "exec", dont_inherit=True)
    exec(code, main.__dict__)


def _told(error: BaseException) -> None:
    """Has an uncaught exception shown as Python would, without the frames of this file."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    sys.excepthook(type(error), error.with_traceback(trace), trace)


def _end(code: int) -> None:
    """What the interpreter does at its end, but for taking apart what it holds, which costs more than most programs."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(code)


def _status(error: BaseException) -> int:
    """The status with which Python ends after this."""
    if not isinstance(error, SystemExit):
        _told(error)
        return 1
    if error.code is None or isinstance(error.code, int):
        return (error.code or 0) & 0xFF
    print(error.code, file=sys.stderr)
    return 1


if __name__ == "__main__":
    _job = _serve()
    _code = 0
    try:
        _run(_job, _become(_job))
    except BaseException as _error:
        _code = _status(_error)
        if isinstance(_error, KeyboardInterrupt):
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
    _end(_code)
