"""``hpushim api`` and ``hpushim matrix`` as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from hpushim.cli import cli


def run(*args: str, code: int = 0) -> Result:
    result = CliRunner().invoke(cli, args, standalone_mode=False)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.return_value == code
    return result


def asked(*args: str) -> Any:
    return json.loads(run(*args, "--json").stdout)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_name_is_answered_with_target_note_and_source() -> None:
    out = run("api", "torch.cuda.synchronize").stdout
    assert "torch.cuda.synchronize  →  torch.hpu.synchronize" in out
    assert "renamed on Gaudi 2, release 1.24.1, eager mode" in out
    assert "source: gaudi-pytorch-bridge 1.19.0" in out
    assert "elsewhere: lazy mode" in out


def test_the_target_decides() -> None:
    assert "unsupported on Gaudi 2" in run("api", "torch.cuda.graph", "--mode", "eager").stdout
    lazy = run("api", "torch.cuda.graph", "--mode", "lazy", "--stack", "1.20").stdout
    assert "changed on Gaudi 2, release 1.20, lazy mode" in lazy
    first = run("api", "torch.float16", "--target", "gaudi1")
    assert "unsupported on Gaudi (first generation)" in first.stdout
    assert "names Gaudi 2 and Gaudi 3, not Gaudi (first generation)" in first.stderr


def test_a_torch_of_another_release_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.metadata

    monkeypatch.setattr(importlib.metadata, "version", lambda name: "2.6.0")
    warned = run("api", "torch.cuda.synchronize", "--stack", "1.22").stderr
    assert "torch 2.6.0 is not the torch of release 1.22, which is 2.7.1" in warned
    assert run("api", "torch.cuda.synchronize", "--stack", "1.21").stderr == ""


def test_an_unknown_release_is_refused_with_the_known_ones() -> None:
    from hpushim.errors import HpushimError

    with pytest.raises(HpushimError, match=r"9\.9 is not in the matrix; one of .*1\.24\.1"):
        run("api", "torch.cuda.synchronize", "--stack", "9.9")


def test_inferred_is_always_said() -> None:
    assert "(inferred, stated nowhere)" in run("api", "torch.Tensor.cuda").stdout
    assert "(inferred)" in run("api", "torch.Tensor.cud*").stdout


def test_a_pattern_lists() -> None:
    out = run("api", "torch.cuda.*seed*").stdout
    assert out.splitlines()[0].split() == ["name", "status", "on", "Gaudi", "note"]
    assert "torch.cuda.manual_seed_all" in out
    assert "torch.cuda.synchronize" not in out


def test_a_gaudi_name_leads_back() -> None:
    out = run("api", "torch.hpu.synchronize").stdout
    assert "leads to torch.hpu.synchronize" in out
    assert "torch.cuda.synchronize" in out


def test_a_gaudi_name_with_a_row_is_answered_and_leads_back() -> None:
    out = asked("api", "habana_frameworks.torch.hpex.optimizers.FusedAdamW")
    assert out["found"][0]["status"] == "native"
    assert "apex.optimizers.FusedAdam" in [item["name"] for item in out["leads_here"]]


def test_a_misspelt_name_gets_suggestions() -> None:
    wrong = run("api", "torch.cuda.synchronise", code=1)
    assert wrong.stdout == ""
    assert "did you mean: torch.cuda.synchronize" in wrong.stderr
    assert "did you mean: torch.cuda" in run("api", "torch.cdua", code=1).stderr
    keyword = run("api", "torch.load(map_locatoin=)", code=1).stderr
    assert "did you mean: torch.load(map_location=)" in keyword
    nowhere = run("api", "qwertz.asdf", code=1)
    assert "qwertz.asdf: unknown" in nowhere.stderr
    assert not json.loads(run("api", "qwertz.asdf", "--json", code=1).stdout)["known"]


def test_an_operator_is_answered_from_the_operator_table() -> None:
    cat = run("api", "torch.cat").stdout
    assert "native: has a kernel on Gaudi: aten::cat" in cat
    assert "rejects a torch" not in cat  # a message about the package torch
    assert [one["name"] for one in asked("api", "aten::add.Tensor")["operators"]] == [
        "aten::add.Tensor"
    ]
    assert "aten::addmm: native" in run("api", "aten::addm*").stdout
    assert "float16" not in run("api", "torch.mm", "--target", "gaudi1").stdout.split("dtypes", 1)[
        1
    ].split("source")[0].replace("bfloat16", "")


def test_the_row_of_a_package_answers_for_what_is_in_it_and_says_so() -> None:
    assert (
        "flash_attn.bert  (of the whole package flash_attn)" in run("api", "flash_attn.bert").stdout
    )


def test_json_holds_the_whole_row() -> None:
    answer = asked("api", "torch.cuda.graph", "--mode", "lazy")
    assert answer["target"] == {"gaudi": "gaudi2", "stack": "1.24", "mode": "lazy"}
    (found,) = answer["found"]
    assert (found["status"], found["limits"]) == ("changed", [])
    assert found["row"]["limits"][0]["mode"] == ["eager", "compile"]
    assert found["row"]["source"][0]["url"].startswith("https://")
    assert found["row"]["origin"] == "hpushim"


def test_markdown_is_a_table() -> None:
    lines = run("api", "torch.cuda.mem*", "--markdown").stdout.splitlines()
    assert lines[1] == "| --- | --- | --- | --- |"
    assert all(line.count(" | ") == 3 for line in lines)


def test_rows_of_a_project_are_asked_and_named(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.hpushim]\nmatrix = ["ours.toml"]\n')
    (tmp_path / "ours.toml").write_text(
        '[[row]]\nname = "ours.to_gpu"\nstatus = "renamed"\ntarget = "ours.to_hpu"\nnote = "Ours."\n'
    )
    (found,) = asked("api", "ours.to_gpu")["found"]
    assert found["target"] == "ours.to_hpu"
    assert found["row"]["origin"].endswith("ours.toml")
    assert "ours.toml" in run("api", "ours.to_gpu").stdout
    assert "1 of them from 1 own files: nothing wrong" in run("matrix", "check").stdout
    assert asked("matrix", "stats")["origins"][found["row"]["origin"]] == 1


def test_show_filters() -> None:
    rows = asked("matrix", "show", "--area", "memory", "--status", "noop")
    assert "torch.cuda.empty_cache" in [item["name"] for item in rows]
    assert {item["status"] for item in rows} == {"noop"}
    assert {item["row"]["area"] for item in rows} == {"memory"}


def test_show_names_what_a_filter_may_be() -> None:
    import click

    with pytest.raises(click.UsageError, match="no area 'memmory'; one of device, tensor"):
        run("matrix", "show", "--area", "memmory")


def test_show_as_markdown_is_the_page() -> None:
    assert run("matrix", "show", "--markdown").stdout.startswith("# What Gaudi does")


def test_check_accepts_the_shipped_matrix() -> None:
    result = run("matrix", "check")
    assert result.return_value == 0, result.stderr
    assert "nothing wrong" in result.stdout


def test_check_finds_a_dangling_rule_in_own_rows(tmp_path: Path) -> None:
    own = tmp_path / "ours.toml"
    own.write_text('[[row]]\nname = "ours.x"\nstatus = "noop"\nrule = "HPU999"\nnote = "Ours."\n')
    result = run("matrix", "check", str(own), code=1)
    assert f"{own}: row 'ours.x', field `rule`: no rule gives HPU999" in result.stderr


def test_diff_tells_what_a_release_changed() -> None:
    out = run("matrix", "diff", "1.20", "1.24").stdout
    assert out.startswith("1.20 (torch 2.6.0, lazy) → 1.24.1 (torch 2.11, eager):")
    changed = {item["name"]: item for item in asked("matrix", "diff", "1.20", "1.24")}
    graph = changed["torch.cuda.graph"]
    assert (graph["before"], graph["after"]) == ("changed", "unsupported")
    assert "torch.cuda.is_available" not in changed


def test_a_release_does_not_differ_from_itself() -> None:
    assert asked("matrix", "diff", "1.24", "1.24") == []


def test_stats_add_up() -> None:
    counts = asked("matrix", "stats")
    assert sum(counts["statuses"].values()) == counts["rows"]
    assert sum(sum(line.values()) for line in counts["areas"].values()) == counts["rows"]
    assert sum(counts["confidences"].values()) == counts["rows"]
    assert (counts["facts"], counts["without_source"]) == (824, 0)
    assert "| all |" in run("matrix", "stats", "--markdown").stdout


def test_schema_is_json() -> None:
    assert "$defs" in json.loads(run("matrix", "schema").stdout)
