"""``run``: ``subprocess.run`` for a Python whose third-party imports are free; ``PYTHON``: the name of such a Python.

Most of what a small program costs is the import of torch. A server holds it, hidden: a program that it forks finds nothing of it in
``sys.modules``, until its own ``import torch`` brings it back. Finders, hooks and entry points see an import as in any other process, in
the order in which the program asks. hpushim itself is imported anew by each program.

What a test starts is a small program that hands its words, environment and open files to the server, and ends as the fork ends. What
the fork starts goes the same way: the ranks of a launcher, spawned workers, the runs of a proof. Where start-up is the subject (options
of the interpreter, its variables), or there is no ``fork``, a process is started as ever; so should tests of start-up, of endings and of
what lives in more than one process.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import copy
import fcntl
import gc
import importlib
import importlib.util
import io
import marshal
import os
import select
import signal
import site
import socket
import subprocess
import sys
import tempfile
import threading
import types
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

#: Loaded once, in this order; what each brings with it comes back with it, and so does what it stands after.
PRELOADED = {
    "numpy": (),
    "torch": ("numpy",),
    "torch._dynamo": (),
    "torch._subclasses.schema_check_mode": (),
    "torch.profiler._cupti_monitor": (),
    "torch.distributed": (),
    "torch.distributed.fsdp": (),
    "torch._functorch.aot_autograd": (),
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
#: These are looked at, done as Python would do them, or read late.
ALLOWED = {
    "PYTHONPATH",
    "PYTHONHASHSEED",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONUNBUFFERED",
    "OMP_NUM_THREADS",
    "TORCH_DEVICE_BACKEND_AUTOLOAD",
    "TORCHINDUCTOR_CACHE_DIR",
    "TORCHINDUCTOR_COMPILE_THREADS",
}
#: Of launchers, for their workers.
ALLOWED_STARTS = ("TORCHELASTIC_", "TORCH_NCCL_", "TORCH_DISABLE_")
#: ``HPUSHIM_TESTS=all`` gives every program its own process, as ``make test-all`` does.
AVAILABLE = sys.platform == "linux" and os.environ.get("HPUSHIM_TESTS") != "all"


# The side of the tests.


def run(words: Sequence[str | Path], **how: Any) -> subprocess.CompletedProcess[Any]:
    """Like ``subprocess.run``, without a process of its own where one with everything loaded serves as well."""
    first = python() if os.fspath(words[0]) == sys.executable else words[0]
    how.setdefault("stdin", None if how.get("input") is not None else subprocess.DEVNULL)
    if how["stdin"] is None:
        del how["stdin"]
    return subprocess.run([first, *words[1:]], check=how.pop("check", False), **how)


@contextlib.contextmanager
def serving() -> Iterator[None]:
    """What this process starts meanwhile, by whatever code, is served as by :func:`run`."""
    undo = _have_children_served(python())
    try:
        yield
    finally:
        undo()


def python() -> str:
    """The name of a Python that takes its words as any other and has its work done by the server."""
    theirs = os.environ.get("HPUSHIM_WARM")  # of who started these tests
    return theirs if theirs and AVAILABLE else like(sys.executable, os.environ)


_served: dict[str, str] = {}


def like(real: str, environment: Mapping[str, str]) -> str:
    """Such a name for the Python of another environment; ``environment``: what its programs start with."""
    if not AVAILABLE:
        return real
    if real not in _served:
        _served[real] = _started(real, environment)
    return _served[real]


def _started(real: str, environment: Mapping[str, str]) -> str:
    folder = tempfile.TemporaryDirectory(prefix="warm")
    atexit.register(folder.cleanup)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(Path(folder.name, "server")))
    listening.listen(64)
    client = Path(folder.name, "python")
    client.write_text(_CLIENT.format(real=real, server=listening.getsockname()))
    client.chmod(0o700)
    left = {k: v for k, v in environment.items() if not k.startswith(("HPUSHIM", "PYTHON"))}
    env = {**left, "HPUSHIM": "off", "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    process = subprocess.Popen(
        [real, __file__, str(listening.fileno()), str(client)],
        stdin=subprocess.PIPE,
        pass_fds=[listening.fileno()],
        env={**env, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "TORCHINDUCTOR_COMPILE_THREADS": "1"},
    )
    listening.close()

    def end() -> None:
        assert process.stdin
        process.stdin.close()
        process.wait()

    atexit.register(end)
    return str(client)


#: Passes on what it was asked, and the signals that it gets. Small, for it costs each program its own start.
_CLIENT = """\
#!{real} -IS
import _signal as signal, _socket, fcntl, marshal, os, sys

words = [{real!r}, *sys.argv[1:]]
numbers = []
for name in os.listdir("/proc/self/fd"):
    try:
        if not fcntl.fcntl(int(name), fcntl.F_GETFD) & fcntl.FD_CLOEXEC:
            numbers.append(int(name))
    except OSError:
        pass
asked = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2]
alone = any(signal.getsignal(number) == signal.SIG_IGN for number in asked)
try:
    if alone:
        raise OSError
    leads = os.getsid(0) == os.getpid()
    signal.pthread_sigmask(signal.SIG_BLOCK, asked)
    server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    job = marshal.dumps((words, os.getcwd(), dict(os.environ), numbers, leads))
    server.connect({server!r})
    sent = b"".join(number.to_bytes(4, sys.byteorder) for number in numbers)
    server.sendmsg([len(job).to_bytes(8, "little")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, sent)])
    server.sendall(job)
    pid = int.from_bytes(server.recv(4), "little")
except OSError:
    pid = 0
if not pid:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, asked)
    os.execv(words[0], words)
for number in asked:
    signal.signal(number, lambda number, _: (os.killpg if leads else os.kill)(pid, number))
signal.pthread_sigmask(signal.SIG_UNBLOCK, asked)
for number in numbers:
    os.close(number)
status = int.from_bytes(server.recv(4), "little", signed=True)
if status < 0:
    signal.signal(-status, signal.SIG_DFL) if -status != signal.SIGKILL else None
    os.kill(os.getpid(), -status)
os._exit(status)
"""


def _program(words: Sequence[str]) -> tuple[list[str], str, str, list[str]] | None:
    """What warnings ``-W`` names, how the program is named, its name, its words; None for a command line that a server cannot take up."""
    rest, options = list(words[1:]), []
    while rest and (rest[0] == "-u" or rest[0].startswith("-W")):
        given = rest.pop(0)
        options.append("-W" + rest.pop(0) if given == "-W" and rest else given)
    if not rest:
        return None
    if rest[0] in ("-c", "-m") and len(rest) > 1:
        return options, rest[0], rest[1], rest[2:]
    # What is installed beside a Python is a script, too.
    is_script = rest[0].endswith(".py") or Path(rest[0]).parent == Path(words[0]).parent
    is_script = is_script and not rest[0].startswith("-")
    return (options, "", rest[0], rest[1:]) if is_script else None


def _takes(words: list[str], cwd: str, env: Mapping[str, str]) -> bool:
    """Whether a fork of this process can be what was asked for."""
    program = _program(words)
    if program is None:
        return False
    places = [place for place in env.get("PYTHONPATH", "").split(os.pathsep) if place]
    script = [] if program[1] else [str(Path(cwd, program[2]).parent)]
    return not _differ(env, os.environ) and not _hide([cwd, *script, *places])


def _differ(env: Mapping[str, str], server: Mapping[str, str]) -> bool:
    """Whether a process with this environment would start otherwise than the server did."""
    read = {
        name
        for name in (*env, *server)
        if name.startswith(READ_AT_START) and not name.startswith(ALLOWED_STARTS)
    } - ALLOWED
    return (
        any(env.get(name) != server.get(name) for name in read)
        or env.get("OMP_NUM_THREADS", "1") != "1"
        or env.get("TORCHINDUCTOR_COMPILE_THREADS", "1") != "1"  # set by ``hpushim run``
        or env.get("PYTHONHASHSEED", "0") != "0"
    )


def _hide(places: Sequence[str]) -> bool:
    """Whether a module in one of these folders would be found before one that is loaded."""
    names = {name.partition(".")[0] for name in PRELOADED}
    return any(
        Path(place, file).exists()
        for place in set(places)
        for name in names
        for file in (name, f"{name}.py")
    )


# The side of the server.


class _Hidden:
    """A finder of modules that are loaded and out of sight: an import brings them back."""

    def __init__(self) -> None:
        self._modules: dict[str, types.ModuleType] = {}
        #: Which of them lie in a package: asked for each of a thousand that come back.
        self._inside: dict[str, list[str]] = {}
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
                self._inside.setdefault(one.rpartition(".")[0], []).append(one)
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

    def _is_left(self, name: str) -> bool:
        """Whether each finder that is asked before this one leaves a module as it is; those without a spec were put there by hand."""
        if self._modules[name].__spec__ is None:
            return True
        package = name.rpartition(".")[0]
        path = getattr(sys.modules.get(package) or self._modules.get(package), "__path__", None)
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, None) if finder is not self and find is not None else None
            if finder is self or spec is not None:
                return finder is self or type(spec.loader) is _Loader
        return True

    def executed(self, name: str) -> None:
        """Brings back what comes with a module, each through the finders, as they would be asked."""
        package = vars(self._modules.pop(name))
        for one in self._inside.pop(name, ()):
            if one not in self._modules:
                continue
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
        came = [one for one in self._came.pop(name, ()) if one not in sys.modules]
        if sys.meta_path[0] is self:  # no other finder would be asked before
            sys.modules.update((one, self._modules.pop(one)) for one in came if one in self._modules)  # fmt: skip
        for one in came:
            if one not in sys.modules and one in self._modules:
                if self._is_left(one):
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


class _Job:
    """What one client asked for."""

    def __init__(self, connection: socket.socket) -> None:
        room = socket.CMSG_SPACE(250 * array.array("i").itemsize)
        head, passed, _, _ = connection.recvmsg(8, room)
        self.files = array.array("i")
        for _, _, files in passed:
            self.files.frombytes(files)
        size, data = int.from_bytes(head, "little"), b""
        while len(data) < size:
            more = connection.recv(size - len(data))
            if not more:
                raise ConnectionError("the client is gone")
            data += more
        self.words, self.cwd, self.env, self.numbers, self.leads = marshal.loads(data)
        self.connection = connection
        self.child = 0

    def open_files(self) -> None:
        """Gives the files that came their numbers, and closes all others."""
        above = max([2, *self.numbers]) + 1
        moved = [fcntl.fcntl(file, fcntl.F_DUPFD, above) for file in self.files]
        for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
            if int(name) not in moved:
                with contextlib.suppress(OSError):
                    os.close(int(name))
        for file, number in zip(moved, self.numbers, strict=True):
            os.dup2(file, number)
            os.close(file)

    def ended(self) -> bool:
        """Whether the child has ended; then the client knows it."""
        done, status = os.waitpid(self.child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            with contextlib.suppress(OSError):
                self.connection.sendall(code.to_bytes(4, "little", signed=True))
            self.connection.close()
        return done != 0

    def end(self) -> None:
        """Ends the child with what it leads, as its client was."""
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if self.leads else os.kill)(self.child, signal.SIGKILL)


def _serve() -> _Job:
    """Answers until nobody asks any more, and exits; in a child, returns what it was forked for."""
    del sys.path[0]
    listening = socket.socket(fileno=int(sys.argv[1]))
    hidden = _Hidden()
    for name in PRELOADED:
        hidden.load(name)
    hidden.hide()
    sys.modules.pop("sitecustomize", None)
    gc.collect()
    gc.freeze()
    # torch's libraries, which a program takes apart at its end, one by one: half of what a small one costs.
    for held in list(weakref.finalize._registry):  # type: ignore[attr-defined]
        held.atexit = False
    woken, wake = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    poll = select.poll()
    for file in (0, woken, listening.fileno()):
        poll.register(file, select.POLLIN)
    jobs: dict[int, _Job] = {}
    while True:
        # New clients last: one may get the number of a connection that is closed here.
        for file, _ in sorted(poll.poll(), key=lambda event: event[0] == listening.fileno()):
            if file == 0:
                for job in jobs.values():
                    job.end()
                os._exit(0)
            elif file == woken:
                os.read(woken, 4096)
                for number in [number for number, job in jobs.items() if job.ended()]:
                    poll.unregister(number)
                    del jobs[number]
            elif file in jobs:  # its client is gone; that is said again until the child is
                jobs[file].end()
            elif file == listening.fileno():
                try:
                    job = _Job(listening.accept()[0])
                except ConnectionError:
                    continue
                if _takes(job.words, job.cwd, job.env) and not _forked(job):
                    return job
                if job.child:
                    jobs[job.connection.fileno()] = job
                    poll.register(job.connection, select.POLLIN)
                    with contextlib.suppress(OSError):
                        job.connection.sendall(job.child.to_bytes(4, "little"))
                else:
                    job.connection.close()
                for one in job.files:
                    os.close(one)


def _forked(job: _Job) -> int:
    """The child's number in the server, 0 in the child."""
    job.child = os.fork()
    if not job.child:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if job.leads:
            os.setsid()
    return job.child


def _become(job: _Job, client: str) -> types.ModuleType:
    """Makes this process the one that was asked for, up to its program's first line; returns its ``__main__``."""
    job.connection.detach()
    job.open_files()
    program = _program(job.words)
    assert program is not None
    options, kind, name, words = program
    at_once = "-u" in options or bool(job.env.get("PYTHONUNBUFFERED"))
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = _stream(1, "strict", at_once)
    sys.stderr = sys.__stderr__ = _stream(2, "backslashreplace", at_once, line_buffering=True)
    os.chdir(job.cwd)
    os.environ.clear()
    os.environ.update(job.env)
    sys.dont_write_bytecode = bool(job.env.get("PYTHONDONTWRITEBYTECODE"))
    warned = [option[2:] for option in options if option != "-u"]
    if warned:
        import warnings

        sys.warnoptions.extend(warned)
        warnings._processoptions(warned)  # type: ignore[attr-defined]
    sys.orig_argv = list(job.words)
    sys.argv = [kind or name, *words]
    places = [place for place in job.env.get("PYTHONPATH", "").split(os.pathsep) if place]
    sys.path[:0] = [os.path.abspath(place) for place in places]  # noqa: PTH100  as Python does
    importlib.invalidate_caches()
    _read_ours()
    _have_children_served(client)
    site.execsitecustomize()
    first = "" if kind == "-c" else job.cwd if kind == "-m" else str(Path(name).resolve().parent)
    sys.path.insert(0, first)
    main = types.ModuleType("__main__")
    main.__builtins__ = sys.modules["builtins"]  # type: ignore[attr-defined]
    sys.modules["__main__"] = main
    return main


def _stream(number: int, errors: str, at_once: bool, line_buffering: bool = False) -> io.TextIOWrapper:  # fmt: skip
    raw = open(number, "wb", buffering=0 if at_once else -1, closefd=False)  # noqa: SIM115
    return io.TextIOWrapper(raw, "utf-8", errors, line_buffering=line_buffering, write_through=at_once)  # type: ignore[type-var]  # fmt: skip


def _have_children_served(client: str) -> Callable[[], None]:
    """Whatever starts this Python, in this process, starts the small program instead; returns how to undo it."""
    import _posixsubprocess

    fork_exec, execv = _posixsubprocess.fork_exec, os.execv
    ours = {os.fsencode(sys.executable): os.fsencode(client)}

    def served(args: Any, files: Sequence[bytes], *rest: Any) -> int:
        return fork_exec(args, tuple(ours.get(file, file) for file in files), *rest)  # type: ignore[no-any-return, call-arg]

    def taken_over(file: Any, words: Any) -> NoReturn:
        execv(client if file == sys.executable else file, words)

    def install(start: Any, take_over: Any) -> None:
        _posixsubprocess.fork_exec = subprocess._fork_exec = start  # type: ignore[attr-defined]
        os.execv = take_over

    install(served, taken_over)
    return lambda: install(fork_exec, execv)


def _read_ours() -> None:
    """What the interpreter would do for ``hpushim.pth``, which asks for the environment."""
    import site

    for folder in site.getsitepackages():
        if Path(folder, "hpushim.pth").is_file():
            site.addpackage(folder, "hpushim.pth", set())


def _run(job: _Job, main: types.ModuleType) -> None:
    program = _program(job.words)
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
    _client = sys.argv[2]
    _job = _serve()
    _code = 0
    try:
        _run(_job, _become(_job, _client))
    except BaseException as _error:
        _code = _status(_error)
        if isinstance(_error, KeyboardInterrupt):
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
    _end(_code)
