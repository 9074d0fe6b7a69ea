"""Many repositories: a row for each whatever becomes of it, the same bytes however often a run was stopped, and one page."""

from __future__ import annotations

import csv
import html.parser
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import jsonschema
import msgspec
import pytest
from crossed import EVERY

import hpushim.portfolio.rows
from hpushim.cli import main
from hpushim.engine import store
from hpushim.errors import HpushimError
from hpushim.matrix import default_path, reader
from hpushim.model import Target
from hpushim.portfolio import engines, rows
from hpushim.portfolio.assessing import Done, Job, assess
from hpushim.portfolio.folder import Folder

READY = 'import torch\nx = torch.ones(2, device="cuda")\n'
BLOCKED = "import apex\nimport torch\nmodel = apex.normalization.FusedLayerNorm(4).cuda()\n"
PLAIN = "print(1)\n"


@pytest.fixture(autouse=True, scope="module")
def _loaded(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Rules and templates, once: each repository is assessed in a fork, which would load them anew."""
    folder = tmp_path_factory.mktemp("first")
    (folder / "train.py").write_text(BLOCKED)
    assert assess(Job("first", folder, Target())).report


def laid(found: Path) -> Path:
    """A folder of repositories: one of each kind."""
    for name, text in {"ready": READY, "kernels": BLOCKED, "plain": PLAIN, "broken": "x = (\ncuda = 1\n"}.items():  # fmt: skip
        (found / name).mkdir(parents=True)
        (found / name / "train.py").write_text(text)
    (found / "odd name #1").mkdir()
    (found / "odd name #1" / "a.py").write_text(READY)
    (found / "settings").mkdir()
    (found / "settings" / "hpushim.toml").write_text("target = 7\n")
    return found


@pytest.fixture
def repositories(tmp_path: Path) -> Path:
    return laid(tmp_path / "all")


class Whole(NamedTuple):
    """A run that nobody stopped, for all that only look at it; one place is not there."""

    places: list[Path]
    code: int
    found: dict[str, bytes]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    folder = tmp_path_factory.mktemp("whole")
    places = [*sorted(laid(folder / "all").iterdir()), folder / "gone"]
    return Whole(places, *portfolio(folder / "out", *places))


def portfolio(folder: Path, *words: str | Path) -> tuple[int, dict[str, bytes]]:
    """The exit code of a run into ``folder``, and the files there by name."""
    code = main(["portfolio", "-q", "-o", str(folder), *map(str, words)])
    return code, contents(folder)


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def by_name(found: dict[str, bytes]) -> dict[str, dict[str, object]]:
    return {row["name"]: row for row in json.loads(found["portfolio.json"])["repositories"]}


def test_each_repository_has_a_row_whatever_becomes_of_it(whole: Whole) -> None:
    _, code, found = whole
    table = by_name(found)
    verdicts = {name: row["verdict"] for name, row in table.items()}
    assert code == 3
    assert verdicts == {
        "broken": "incomplete",
        "gone": "failed",
        "kernels": "needs work",
        "odd name #1": "ready",
        "plain": "nothing to do",
        "ready": "ready",
        "settings": "failed",
    }
    assert "no such folder" in str(table["gone"]["sentence"])
    assert "hpushim.toml" in str(table["settings"]["sentence"])
    assert table["broken"]["unread"] == 1
    for name, row in table.items():
        if row["verdict"] != "failed":
            page = found[f"repositories/{name}.html"].decode()
            assert f"Can {name} move to Gaudi?" in page
    lines = list(csv.reader(io.StringIO(found["portfolio.csv"].decode())))
    assert [line[0] for line in lines[1:]] == sorted(table)


def test_the_json_obeys_its_schema_which_ships(whole: Whole) -> None:
    jsonschema.validate(json.loads(whole.found["portfolio.json"]), rows.schema())
    file = Path(hpushim.portfolio.rows.__file__).with_name("portfolio.schema.json")
    assert file.read_text(encoding="utf-8") == rows.dumps(rows.schema()), (
        "write it anew: python -c 'from hpushim.portfolio.rows import *; print(dumps(schema()), end=\"\")'"
    )


class _Links(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attrs if tag == "a" and name == "href"]


def test_links_lead_to_the_pages(whole: Whole) -> None:
    from urllib.parse import unquote

    found = whole.found
    links = _Links()
    links.feed(found["index.html"].decode())
    pages = [unquote(link) for link in links.found if not link.startswith("#")]
    assert len(pages) == 5
    assert set(pages) <= set(found)


def test_what_blocks_most_comes_first(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"r{number}").mkdir()
        (tmp_path / f"r{number}" / "a.py").write_text(BLOCKED)
    (tmp_path / "r3").mkdir()
    (tmp_path / "r3" / "a.py").write_text("import torch\nx = torch.ones(2).to_sparse().cuda()\n" * 9)  # fmt: skip
    _, found = portfolio(tmp_path / "out", *(tmp_path / f"r{n}" for n in range(4)))
    shared = json.loads(found["portfolio.json"])["blockers"]
    assert "apex" in shared[0]["what"]
    assert shared[0]["repositories"] == ["r0", "r1", "r2"]
    assert [len(each["repositories"]) for each in shared] == sorted((len(each["repositories"]) for each in shared), reverse=True)  # fmt: skip


def test_only_what_changed_is_assessed_again(repositories: Path, tmp_path: Path) -> None:
    places = sorted(repositories.iterdir())
    _, first = portfolio(tmp_path / "out", *places)
    again = tmp_path / "out" / "repositories" / "ready.json"
    before = again.stat().st_mtime_ns
    kept = (tmp_path / "out" / "repositories" / "plain.json").stat().st_mtime_ns
    (repositories / "ready" / "train.py").write_text(BLOCKED)
    _, second = portfolio(tmp_path / "out", *places)
    assert again.stat().st_mtime_ns > before
    assert (tmp_path / "out" / "repositories" / "plain.json").stat().st_mtime_ns == kept
    assert by_name(second)["ready"]["verdict"] == "needs work"
    assert by_name(first)["plain"] == by_name(second)["plain"]


@pytest.mark.parametrize("stops", [0, 1, 2] if EVERY else [2])
def test_a_run_that_was_killed_goes_on_to_the_same_bytes(
    whole: Whole, tmp_path: Path, stops: int
) -> None:
    places = whole.places
    words = [sys.executable, "-m", "hpushim", "portfolio", "-q", "-o", str(tmp_path / "cut"), *map(str, places)]  # fmt: skip
    for number in range(stops):
        run = subprocess.Popen(words, start_new_session=True)
        ends = time.monotonic() + 60
        while time.monotonic() < ends and run.poll() is None:
            if len(list((tmp_path / "cut").rglob("*.key"))) > number:
                break
            time.sleep(0.002)
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)
        run.wait()
    _, cut = portfolio(tmp_path / "cut", *places)
    assert cut == whole.found


@pytest.mark.parametrize("changes", ["nothing", "the matrix", "the packages", "a rule"])
def test_what_a_result_was_made_from_is_seen_to_change(
    repositories: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: str
) -> None:
    packages = repositories / "ready" / ".venv" / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    job = Job("ready", repositories / "ready", Target())
    first = assess(job)
    if changes == "the packages":
        (packages / "flash_attn-2.0.dist-info").mkdir()
    elif changes == "the matrix":
        other = tmp_path / "compat_matrix.toml"
        other.write_bytes(default_path().read_bytes() + b"\n# another edition\n")
        monkeypatch.setattr(reader, "default_path", lambda: other)
    elif changes == "a rule":
        (tmp_path / "rules").mkdir()
        (tmp_path / "rules" / "new.py").write_text("")
        monkeypatch.setattr(store, "_rules", lambda: [tmp_path / "rules"])
    again = assess(msgspec.structs.replace(job, known=first.key))
    assert not first.failed and not again.failed
    assert (again.key == first.key) == (changes == "nothing") == (not again.report)


def test_a_result_that_is_not_whole_is_made_again(repositories: Path, tmp_path: Path) -> None:
    _, first = portfolio(tmp_path / "out", repositories / "ready")
    (tmp_path / "out" / "repositories" / "ready.html").unlink()
    _, second = portfolio(tmp_path / "out", repositories / "ready")
    assert second == first


def test_reports_that_were_made_elsewhere(repositories: Path, tmp_path: Path) -> None:
    for name in ("ready", "kernels"):
        main(["report", str(repositories / name), "--format", "json", "-o", str(tmp_path / f"{name}.json")])  # fmt: skip
    (tmp_path / "other.json").write_text("[]")
    code, found = portfolio(tmp_path / "out", "--merge", *sorted(tmp_path.glob("*.json")))
    table = by_name(found)
    assert code == 3
    assert {name: row["verdict"] for name, row in table.items()} == {"kernels": "needs work", "other": "failed", "ready": "ready"}  # fmt: skip
    assert "report" in str(table["other"]["sentence"])
    _, here = portfolio(tmp_path / "here", repositories / "ready", repositories / "kernels")
    for name in ("ready", "kernels"):
        mine, theirs = dict(by_name(here)[name], page=""), table[name]
        assert mine == theirs


def test_reports_for_different_targets_have_no_total(repositories: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    for target in ("gaudi2", "gaudi3"):
        main(["report", str(repositories / "ready"), "--target", target, "--format", "json", "-o", str(tmp_path / f"{target}.json")])  # fmt: skip
    code, _ = portfolio(tmp_path / "out", "--merge", *sorted(tmp_path.glob("*.json")))
    assert code == 2
    said = capsys.readouterr().err
    assert "gaudi2" in said
    assert "gaudi3" in said
    (repositories / "plain" / "hpushim.toml").write_text('target = "gaudi3"\n')
    code, found = portfolio(tmp_path / "here", repositories / "plain", repositories / "ready")
    assert (code, found) == (2, {})
    code, _ = portfolio(
        tmp_path / "here", "--target", "gaudi2", repositories / "plain", repositories / "ready"
    )
    assert code == 0


def test_a_list_of_repositories(repositories: Path, tmp_path: Path) -> None:
    (repositories / "list").write_text("# those of the team\nready\n\n  kernels\n")
    code, found = portfolio(tmp_path / "out", "--from", repositories / "list")
    assert (code, sorted(by_name(found))) == (0, ["kernels", "ready"])


def test_nothing_to_assess_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    assert main(["portfolio", "-o", str(tmp_path / "out")]) == 2
    assert "--from" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written_is_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "out/repositories").mkdir(parents=True)
    (tmp_path / "out/repositories/.lock").symlink_to(tmp_path / "nowhere/lock")
    for path, why in ((tmp_path / "file", "Not a directory"), (tmp_path / "out", "No such file or directory")):  # fmt: skip
        with pytest.raises(HpushimError) as told:
            Folder(path)
        assert str(told.value) == f"--output {path}: no portfolio can be written there: {why}; nothing was done"  # fmt: skip


def test_a_second_run_in_the_same_folder_is_refused(repositories: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    Folder(tmp_path / "out")
    holds = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); sys.stdin.read()"
    lock = str(tmp_path / "out" / "repositories" / ".lock")
    with subprocess.Popen([sys.executable, "-c", holds, lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:  # fmt: skip
        assert other.stdout is not None
        other.stdout.readline()
        code, _ = portfolio(tmp_path / "out", repositories / "ready")
        other.communicate()
    assert code == 2
    assert "another run" in capsys.readouterr().err


def test_a_repository_that_ends_its_process_is_a_row(repositories: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    def dies(job: Job) -> Done:
        if job.name == "plain":
            os.kill(os.getpid(), signal.SIGKILL)
        return assess(job)

    monkeypatch.setattr(engines, "assess", dies)
    folder = Folder(repositories / "out")
    names = ["kernels", "plain", "ready"]
    list(engines.processes([Job(n, repositories / n, Target()) for n in names], 2, folder.keep))
    made = folder.portfolio(names, [], Target())
    assert {row.name: row.verdict for row in made.repositories} == {"kernels": "needs work", "plain": "failed", "ready": "ready"}  # fmt: skip


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["/a/x", "/b/y"], ["x", "y"]),
        (["/a/x", "/b/x"], ["a+x", "b+x"]),
        (["/p/q/a/x", "/p/q/b/x"], ["a+x", "b+x"]),
        (["/q/a/x", "/p/a/x", "/z"], ["q+a+x", "p+a+x", "z"]),
        (["/x", "/a/x"], ["x", "a+x"]),
        (["/"], ["root"]),
    ],
)
def test_names_tell_repositories_apart(paths: list[str], names: list[str]) -> None:
    assert rows.names([Path(path) for path in paths]) == names


def test_ray_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(HpushimError, match=r"hpushim\[ray\]"):
        list(engines.ray([], None, print))


@pytest.mark.skipif(not shutil.which("ray"), reason="Ray is not installed: pip install 'ray[default]'")  # fmt: skip
def test_a_ray_cluster_gives_the_same_bytes(repositories: Path, tmp_path: Path) -> None:
    places = sorted(repositories.iterdir())
    _, here = portfolio(tmp_path / "here", *places)
    _, there = portfolio(tmp_path / "there", "--engine", "ray", *places)
    assert here == there
