"""The compiler's part of building the device: flags, units, links, and what is said meanwhile."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hpushim.errors import EmulatorError

SOURCES = Path(__file__).parent / "csrc"
# The translation units, the longest to compile first, and how well each is optimized: what is not on the way of every
# operator is compiled faster.
UNITS = {"distributed": "-O0", "device": "-O1", "python": "-O0", "profiler": "-O1"}
JOBS = 2  # the compiler wants up to a gigabyte each
#: Seconds of processor time that each takes, measured with GCC 12: their shares are what is shown while they are compiled.
COSTS = {"distributed": 17, "device": 17, "python": 10, "profiler": 8, "link": 1}
_UPDATE_S = 1.0


def flags(torch: Any) -> list[str]:
    """Compiler flags that do not depend on where torch and Python are installed."""
    major, minor = (int(part) for part in torch.__version__.split(".")[:2])
    found = [
        "-std=c++17" if (major, minor) < (2, 14) else "-std=c++20",  # what torch's headers request
        "-fPIC",
        "-fvisibility=hidden",
        "-DAT_PER_OPERATOR_HEADERS",  # each file names the operators that it calls
        f"-DHPU_TORCH_VERSION={major * 100 + minor}",
        f"-D_GLIBCXX_USE_CXX11_ABI={int(new_abi(torch))}",
    ]
    for name in ("COMPILER_TYPE", "STDLIB", "BUILD_ABI"):  # pybind11 types are shared with torch's
        value = getattr(torch._C, f"_PYBIND11_{name}", None)
        if value is not None:
            found.append(f'-DPYBIND11_{name}="{value}"')
    if torch.distributed.is_available():
        found.append("-DHPU_DISTRIBUTED")
    return found


def new_abi(torch: Any) -> bool:
    """Whether torch is built with the C++ library's new strings."""
    return bool(getattr(torch._C, "_GLIBCXX_USE_CXX11_ABI", True))


def folders(torch: Any) -> list[str]:
    """The flags for headers: torch's and Python's warn by themselves, and nobody here can mend that."""
    include = Path(torch.__file__).parent / "include"
    system = (include, include / "torch/csrc/api/include", Path(sysconfig.get_path("include")))
    return [f"-I{SOURCES}", *(word for folder in system for word in ("-isystem", str(folder)))]


def compiler() -> str:
    """The C++ compiler to use. Raises EmulatorError when there is none."""
    chosen = os.environ.get("CXX")
    for candidate in [chosen] if chosen else ["g++", "c++", "clang++"]:
        found = shutil.which(candidate)
        if found:
            return found
    raise EmulatorError(
        f"no C++ compiler found (looked for {chosen or 'g++, c++, clang++'}); the emulated HPU is compiled once for "
        "each torch; install one (Debian, Ubuntu: apt install g++), set CXX, or install a hpushim-device wheel that "
        "python -m hpushim.emulator.prebuild has made elsewhere"
    )


def library(
    torch: Any, target: Path, work: Path, *, extra: Sequence[str] = (), strip: bool = True
) -> None:
    """Compile and link the device into ``target``; temporary files go below ``work``.

    ``extra`` flags are for builds that look for faults (sanitizers, warnings). Raises EmulatorError, OSError.
    """
    command = compiler()
    common = [*flags(torch), *folders(torch)]
    name = Path(command).name
    gcc = "clang" not in name and ("g++" in name or name == "c++")
    if gcc and sys.platform == "linux":  # collects its garbage less often: a tenth of the time
        common += ["--param=ggc-min-expand=100", "--param=ggc-min-heapsize=524288"]

    def one(unit: str) -> Path:
        built = work / f"{unit}.o"
        source = SOURCES / "units" / f"{unit}.cpp"
        words = [command, UNITS[unit], *common, *extra, "-c", str(source), "-o", str(built)]
        with progress.part(unit) as began:
            run(words, work, f"compiling {source.name}", began)
        return built

    with Progress(torch.__version__) as progress:
        with ThreadPoolExecutor(JOBS) as pool:
            objects = list(pool.map(one, UNITS))
        with progress.part("link"):
            _link(torch, command, objects, target, extra, strip)


def _link(
    torch: Any, command: str, objects: list[Path], target: Path, extra: Sequence[str], strip: bool
) -> None:
    folder = Path(torch.__file__).parent / "lib"
    target.parent.mkdir(mode=0o755)  # whatever the umask: it must not be others' to write
    words = [command, "-shared", *(["-s"] if strip else []), *extra]
    words += [*map(str, objects), "-o", str(target), f"-L{folder}"]
    words += ["-lc10", "-ltorch_cpu", "-ltorch_python", "-ltorch", f"-Wl,-rpath,{folder}"]
    if sys.platform == "darwin":
        words += ["-undefined", "dynamic_lookup"]
    run(words, target.parent.parent, "linking")
    target.chmod(0o755)


def run(
    command: list[str], work: Path, doing: str, began: Callable[[int], None] = lambda process: None
) -> None:
    """One call of the compiler, whose process ``began`` hears of.

    Raises OSError for a full disk, EmulatorError with its first error otherwise.
    """
    environment = {**os.environ, "TMPDIR": str(work), "LC_ALL": "C"}
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment
    ) as result:
        began(result.pid)
        try:
            output = result.communicate()[1]
        except BaseException:
            result.kill()
            raise
    if result.returncode == 0:
        return
    if "No space left on device" in output or "Disk quota exceeded" in output:
        raise OSError(errno.ENOSPC, "No space left on device")
    errors = [line.strip() for line in output.splitlines() if "error" in line.lower()]
    first = (
        errors[0] if errors else (output.strip().splitlines() or [f"exit {result.returncode}"])[-1]
    )
    raise EmulatorError(
        f"{doing} for the emulated HPU failed with {command[0]} (exit {result.returncode}): {first[:300]}; expected "
        "GCC 9 or Clang 10 or newer and torch 2.6 or newer; set CXX to another compiler, or report this line"
    )


class Progress:
    """What is said while the device is built: on a terminal one line that goes on, elsewhere a line at start and end.

    What is done is measured by the compiler's processor time, so that it goes on evenly, on a busy machine too.
    """

    def __init__(self, version: str) -> None:
        self._what = f"hpushim: building the emulated HPU for torch {version}"
        self._done = 0.0
        self._running: dict[str, int] = {}  # parts by their processes
        self._begun = time.monotonic()
        self._over = threading.Event()
        self._terminal = sys.stderr.isatty()
        self._ticker = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> Progress:
        say(
            f"{self._what}, once, which takes about half a minute (a wheel made with `python -m hpushim.emulator.prebuild` "
            f"saves it) …\n"
        )
        if self._terminal:
            self._ticker.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._over.set()
        if self._terminal:
            self._ticker.join()
            say("\r\033[K")
        if kind is None:
            say(f"hpushim: the emulated HPU is built, in {self._seconds():.0f} s\n")

    @contextmanager
    def part(self, name: str) -> Iterator[Callable[[int], None]]:
        """While one part is made; the block says which process makes it."""

        def began(process: int) -> None:
            self._running[name] = process

        yield began
        self._running.pop(name, None)
        self._done += COSTS[name]

    def share(self) -> float:
        """How much of all is done, from 0 to 1."""
        running = list(self._running.items())
        under_way = sum(min(processor_time(pid), 0.95 * COSTS[name]) for name, pid in running)
        return (self._done + under_way) / sum(COSTS.values())

    def _tick(self) -> None:
        while not self._over.wait(_UPDATE_S):
            say(f"\r\033[Khpushim: {progress_text(self.share(), self._seconds())}")

    def _seconds(self) -> float:
        return time.monotonic() - self._begun


def progress_text(share: float, seconds: float) -> str:
    """``45 %, 14 s, about 17 s more``; what is left follows once there is something to estimate it from."""
    left = f", about {seconds / share - seconds:.0f} s more" if share > 0.05 else ""
    return f"{100 * share:.0f} %, {seconds:.0f} s{left}"


def processor_time(process: int) -> float:
    """Seconds of processor time of a process and of its children; 0 where the system has no such record."""
    found = 0.0
    try:
        tick = os.sysconf("SC_CLK_TCK")
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
        for pid in (str(process), *children):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            found += sum(map(int, fields[11:15])) / tick  # its own, and that of children that ended
    except (OSError, ValueError, IndexError):
        pass
    return found


def say(text: str) -> None:
    """Write to standard error, unless HPUSHIM_LOG=quiet."""
    if os.environ.get("HPUSHIM_LOG", "").strip().lower() != "quiet":
        sys.stderr.write(text)
        sys.stderr.flush()
