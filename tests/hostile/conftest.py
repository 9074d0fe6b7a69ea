"""What hostile tests share: a project, a place outside of it that must not change, and the table of what was tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import runs

TRAIN = "import torch\n\nmodel = torch.nn.Linear(4, 2).cuda()\n"
SECRET = b"not part of the project\n"


@pytest.fixture(scope="session")
def zygote() -> Iterator[runs.Zygote]:
    started = runs.Zygote()
    yield started
    started.close()


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder beside the project, with a file that nobody may touch."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret").write_bytes(SECRET)
    (folder / "secret.py").write_text(TRAIN)
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN)
    return folder


@pytest.fixture
def hpushim(zygote: runs.Zygote, project: Path) -> Callable[..., runs.Done]:
    """``hpushim(word, …)`` in the project."""

    def run(*words: str | Path, cwd: Path = project, **env: str) -> runs.Done:
        return zygote.run(*words, cwd=cwd, env=env)

    return run


@pytest.fixture
def untouched(outside: Path) -> Iterator[None]:
    """Fails a test after which anything outside of the project is not what it was."""
    before = runs.state(outside)
    yield
    assert runs.state(outside) == before


# -- the table ------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--hostile-table", metavar="FILE", help="write what was tried, by class")


@pytest.fixture(autouse=True)
def _noted(request: pytest.FixtureRequest, record_property: Callable[[str, object], None]) -> None:
    marker = request.node.get_closest_marker("hostile")
    doc = (getattr(request.function, "__doc__", None) or request.function.__name__).split("\n")[0]
    if marker:
        record_property("hostile", (marker.args[0], doc))


_tried: Counter[tuple[str, str, str]] = Counter()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or report.outcome != "passed":
        for name, value in report.user_properties:
            if name == "hostile":
                _tried[(*value, report.outcome)] += 1  # type: ignore[misc]


def pytest_sessionfinish(session: pytest.Session) -> None:
    target = session.config.getoption("--hostile-table", None)
    if not target or not _tried:
        return
    lines = ["| class | tried | held | not run | what |", "|---|---:|---:|---:|---|"]
    for kind in sorted({kind for kind, _, _ in _tried}):
        mine: dict[str, Any] = {}
        for (other, what, outcome), count in _tried.items():
            if other == kind:
                mine.setdefault(what, Counter())[outcome] += count
        for what, counts in mine.items():
            held, skipped = counts["passed"], counts["skipped"]
            tried = sum(counts.values()) - skipped
            lines.append(f"| {kind} | {tried} | {held} | {skipped or ''} | {what} |")
    total = sum(n for (_, _, outcome), n in _tried.items() if outcome != "skipped")
    held = sum(n for (_, _, outcome), n in _tried.items() if outcome == "passed")
    lines.append(f"| all | {total} | {held} | | |")
    Path(target).write_text("\n".join(lines) + "\n", encoding="utf-8")
