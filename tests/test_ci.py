"""`check` in CI: only what is new fails, from the severity that is asked for, and the files that ship for CI are right."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
import yaml

from hpushim.cli import check, main, migrate

ROOT = Path(__file__).resolve().parents[1]
OLD = 'import torch\n\nx = torch.zeros(2, device="cuda")\n'
NEW = 'y = torch.ones(2, device="cuda")\n'


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "old.py").write_text(OLD)
    monkeypatch.chdir(folder)
    return folder


def git(folder: Path, *words: str) -> None:
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder.parent),
        "GIT_CONFIG_GLOBAL": os.devnull,
        **{f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }  # fmt: skip
    subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, env=env)


def places(text: str) -> list[str]:
    return re.findall(r"^(.+?:\d+):\d+: HPU", text, re.M)


def told(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[str], str]:
    code = main(["check", ".", "--format", "concise", *words])
    out, err = capsys.readouterr()
    return code, places(out), err


def test_a_baseline_holds_what_is_known(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", ".", "--baseline", "known.json", "--write-baseline"]) == 0
    assert json.loads((project / "known.json").read_text())["findings"]
    (project / "old.py").write_text(f"# moved\n\n{OLD}")
    code, found, _ = told(capsys, "--baseline", "known.json")
    assert (code, found) == (0, [])  # the baseline itself, which quotes CUDA names, is not judged
    (project / "old.py").write_text(f"# moved\n\n{OLD}{NEW}")
    code, found, err = told(capsys, "--baseline", "known.json")
    assert (code, found) == (1, ["old.py:6"]), err
    (project / "old.py").write_text("x = 1\n")
    code, found, err = told(capsys, "--baseline", "known.json")
    assert code == 0 and "no longer occur" in err


def test_a_baseline_that_is_none_stops_before_work(project: Path, capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    assert told(capsys, "--baseline", "nowhere.json")[0] == 2
    for text in ("{", '{"schema_version": 9, "tool": "x"}', "[]", '{"findings": 1}'):
        (project / "bad.json").write_text(text)
        code, found, err = told(capsys, "--baseline", "bad.json")
        assert code == 2 and not found and "--write-baseline" in err
    assert told(capsys, "--write-baseline")[0] == 2
    assert told(capsys, "--baseline", "old.py", "--write-baseline")[0] == 2
    assert (project / "old.py").read_text() == OLD


def test_settings_name_the_baseline_inside_the_project(project: Path, capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    (project / "pyproject.toml").write_text('[tool.hpushim]\nbaseline = "known.json"\n')
    assert main(["check", ".", "--write-baseline"]) == 0
    assert told(capsys)[:2] == (0, [])
    (project / "pyproject.toml").write_text('[tool.hpushim]\nbaseline = "../known.json"\n')
    code, _, err = told(capsys)
    assert code == 2 and "outside of the project" in err


def test_since_takes_the_lines_that_changed(project: Path, capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    git(project, "init", "-qb", "main")
    (project / "b\u00e9 c.py").write_text(OLD)
    git(project, "add", ".")
    git(project, "commit", "-qm", "1")
    git(project, "checkout", "-qb", "mine")
    (project / "old.py").write_bytes((OLD + NEW).replace("\n", "\r\n").encode())
    (project / "b\u00e9 c.py").write_text(OLD.replace("zeros", "ones"))
    git(project, "commit", "-qam", "2")
    (project / "new.py").write_text(OLD)
    code, found, err = told(capsys, "--since", "main", "--select", "HPU105,HPU101")
    assert code == 1 and found == ["b\u00e9 c.py:3", "new.py:3", "old.py:4"], err
    assert told(capsys, "--since", "mine", "--select", "HPU105,HPU101")[1] == ["new.py:3"]
    for wrong in ("nowhere", "--upload-pack=x"):
        code, found, err = told(capsys, f"--since={wrong}")
        assert code == 2 and not found and "nothing was checked" in err


def test_since_runs_nothing_of_the_repository(project: Path, capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    git(project, "init", "-qb", "main")
    git(project, "add", ".")
    git(project, "commit", "-qm", "1")
    trap = project / "trap.sh"
    trap.write_text("#!/bin/sh\ntouch ran\ncat\n")
    trap.chmod(0o755)
    (project / ".gitattributes").write_text("* filter=trap diff=trap\n")
    for name in ("filter.trap.clean", "filter.trap.smudge", "diff.trap.textconv", "core.fsmonitor", "diff.external"):  # fmt: skip
        git(project, "config", name, str(trap))
    (project / "old.py").write_text(OLD + NEW)
    assert told(capsys, "--since", "main", "--select", "HPU105")[1] == ["old.py:4"]
    assert not (project / "ran").exists()


@pytest.mark.parametrize(("level", "code"), [("error", 0), ("warning", 0), ("note", 1)])
def test_fail_on(project: Path, capsys: pytest.CaptureFixture[str], level: str, code: int) -> None:
    (project / "old.py").write_text("import torch\n\ntorch.backends.cudnn.benchmark = True\n")
    assert told(capsys, "--fail-on", level)[0] == code
    (project / "pyproject.toml").write_text(f'[tool.hpushim]\nfail-on = "{level}"\n')
    assert told(capsys)[0] == code


def test_reports_in_the_project_are_not_judged(project: Path, capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    before = told(capsys)[1]
    for form, name in (("json", "r.json"), ("gitlab", "q.json"), ("markdown", "r.md"), ("sarif", "r.sarif"), ("html", "r.html")):  # fmt: skip
        assert main(["check", "old.py", "--format", form, "-o", name]) == 1
    assert told(capsys)[1] == before


def _words(line: str) -> list[str]:
    return re.findall(r"--[a-z-]+", line)


def test_what_ships_for_ci_names_options_that_exist() -> None:
    known = {
        name: {word for option in command.params for word in option.opts}
        for name, command in (("check", check.command), ("migrate", migrate.command))
    }
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    for hook in hooks:
        _, name, *words = hook["entry"].split()
        assert {word for word in words if word.startswith("--")} <= known[name]
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    script = action["runs"]["steps"][-1]
    assert set(_words(script["run"])) - {"--"} <= known["check"]
    asked = {re.sub(r"\W", "_", name).upper() for name in action["inputs"]} - {"PYTHON_VERSION"}
    assert asked == script["env"].keys()
    assert "${{" not in script["run"], "a value in a script is a script"
    assert isinstance(check.command, click.Command)


def test_the_steps_of_the_action_run(project: Path, tmp_path: Path) -> None:
    """As GitHub runs them: each input is a variable of the environment."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    summary, sarif = tmp_path / "summary.md", project / "found.sarif"
    values = {"PATHS": ".", "FAIL_ON": "error", "OPTIONS": "--ignore HPU9", "SARIF": str(sarif)}
    env = dict.fromkeys(action["runs"]["steps"][-1]["env"], "") | values
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", "hpushim() { python -m hpushim \"$@\"; }\n" + action["runs"]["steps"][-1]["run"]],
        cwd=project, capture_output=True, text=True, check=False,
        env={**os.environ, **env, "GITHUB_STEP_SUMMARY": str(summary), "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"},
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "::error file=old.py,line=3," in done.stdout
    assert summary.read_text().startswith("## hpushim: ") and json.loads(sarif.read_text())["runs"]


WORKFLOWS = [*sorted((ROOT / ".github/workflows").glob("*.yml")), ROOT / "action.yml"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_pin_actions_and_name_what_exists(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert yaml.safe_load(text)
    actions = re.findall(r"uses: (\S+)", text)
    own = {f"./{each.relative_to(ROOT)}" for each in WORKFLOWS}
    assert actions and all(
        re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action) or action in own for action in actions
    )
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    for words in re.findall(r"\bmake ([a-z -]+)", text):
        assert set(words.split()) <= targets, words
    for script in re.findall(r"python (docs/\S+\.py)", text):
        assert (ROOT / script).is_file(), script


def test_a_release_makes_the_device_for_each_torch() -> None:
    folder = ROOT / ".github/workflows"
    device = yaml.safe_load((folder / "device.yml").read_text())
    minors = [tuple(map(int, one.split(".")[:2])) for one in device["jobs"]["wheel"]["strategy"]["matrix"]["torch"]]  # fmt: skip
    oldest = re.search(r'"torch>=2\.(\d+)', (ROOT / "pyproject.toml").read_text())
    assert oldest and minors == [(2, n) for n in range(int(oldest[1]), minors[-1][1] + 1)]
    release = yaml.safe_load((folder / "release.yml").read_text())
    assert release["jobs"]["device"]["uses"] == "./.github/workflows/device.yml"
