"""Comparisons of device types are widened; everything else stays as it is written."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from hpushim.shim.run import import_hook, rewrite


def rewritten(source: str) -> str:
    tree, _ = rewrite.apply(ast.parse(source))
    return ast.unparse(tree)


WIDENED = {
    'x.device.type == "cuda"': "x.device.type in ('cuda', 'hpu')",
    '"cuda" == x.device.type': "x.device.type in ('cuda', 'hpu')",
    'd.type != "cuda"': "d.type not in ('cuda', 'hpu')",
    'args.device == "cuda"': "args.device in ('cuda', 'hpu')",
    'device_type == "cuda:0"': "device_type in ('cuda:0', 'hpu:0')",
    'str(x.device) == "cuda:0"': "str(x.device) in ('cuda:0', 'hpu:0')",
    'x.device.type in ("cuda", "xpu")': "x.device.type in ('cuda', 'xpu', 'hpu')",
    'x.device.type not in ["cuda"]': "x.device.type not in ['cuda', 'hpu']",
    'x.device.type in {"cuda"}': "x.device.type in {'cuda', 'hpu'}",
    '"cuda" in str(x.device)': "'cuda' in str(x.device) or 'hpu' in str(x.device)",
    '"cuda" not in device': "'cuda' not in device and 'hpu' not in device",
    'device.startswith("cuda")': "device.startswith(('cuda', 'hpu'))",
    'str(device).startswith(("cuda", "mps"))': "str(device).startswith(('cuda', 'mps', 'hpu'))",
    '{"cuda": 1, "cpu": 2}[x.device.type]': (
        "{'cuda': 1, 'cpu': 2}['cuda' if x.device.type == 'hpu' else x.device.type]"
    ),
    '{"cuda": 1}.get(x.device.type, 0)': (
        "{'cuda': 1}.get('cuda' if x.device.type == 'hpu' else x.device.type, 0)"
    ),
}


@pytest.mark.parametrize("source", list(WIDENED))
def test_widened(source: str) -> None:
    assert rewritten(source) == WIDENED[source]


@pytest.mark.parametrize("source", list(WIDENED))
def test_a_script_that_compares_is_read_for_the_warning(source: str, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(f'x = make(device="cuda")\nx.to("cuda")\nif {source}:\n    pass\n')
    assert [one.line for one in import_hook.comparisons(str(script))] == [3]


def test_a_script_that_only_moves_is_not_even_parsed(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(rewrite, "find", lambda data: pytest.fail("parsed"))
    script = tmp_path / "train.py"
    script.write_text(
        'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'
        'x = x.to("cuda:0")\nmodel = Model(device="cuda").to(\'cuda\')\nd = "cpu" if off else "cuda"\n'
    )
    assert import_hook.comparisons(str(script)) == []


@pytest.mark.parametrize(
    "source",
    [
        'backend == "cuda"',
        '"cuda" in path',
        'path.startswith("cuda")',
        'name == "cuda_time"',
        'log("cuda")',
        'x.device.type == "cpu"',
        "x.device.type == other",
        'table["cuda"]',
        "words[device.type]",
        'option in ("fp16", "cuda")',
        'get_device() == "gpu"',
        '"cuda" in make(device)',
        'x.device.type == "hpu" or x.device.type == "cuda"',
    ],
)
def test_left_alone(source: str) -> None:
    assert rewritten(source) == ast.unparse(ast.parse(source))


def test_name_bound_to_a_type() -> None:
    source = 'kind = x.device.type\nif kind == "cuda":\n    pass'
    assert "kind in ('cuda', 'hpu')" in rewritten(source)
    assert "kind == 'cuda'" in rewritten('kind = other\nif kind == "cuda":\n    pass')


def test_table_by_name_only_when_assigned_once() -> None:
    once = 'T = {"cuda": 1}\nT[device.type]'
    assert "'cuda' if device.type == 'hpu'" in rewritten(once)
    assert "'hpu'" not in rewritten('T = {"cuda": 1}\nT = load()\nT[device.type]')


def test_match_statement() -> None:
    source = 'match device.type:\n    case "cuda":\n        a\n    case "cpu" | "mps":\n        b'
    assert "case 'cuda' | 'hpu':" in rewritten(source)
    assert "case 'cpu' | 'mps':" in rewritten(source)


def test_lines_stay_and_sites_are_told() -> None:
    source = '\n\nif (x.device\n    .type == "cuda"):\n    raise ValueError\n'
    tree, done = rewrite.apply(ast.parse(source))
    assert [(one.line, one.before) for one in done] == [(3, "x.device.type == 'cuda'")]
    assert tree.body[0].body[0].lineno == 5  # type: ignore[attr-defined]


def test_source_that_does_not_parse() -> None:
    assert rewrite.find("def (") == [] and rewrite.find(b"\xff\xfe\x00") == []


def test_hook_covers_the_users_files_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = 'def on_gpu(device_type):\n    return device_type == "cuda"\n'
    vendored = tmp_path / "site-packages"
    vendored.mkdir()
    (tmp_path / "own_module.py").write_text(body)
    (vendored / "vendored_module.py").write_text(body)
    monkeypatch.syspath_prepend(str(vendored))
    monkeypatch.syspath_prepend(str(tmp_path))
    import_hook.install(tmp_path)
    import_hook.install(tmp_path)
    try:
        import own_module  # type: ignore[import-not-found]
        import vendored_module  # type: ignore[import-not-found]
    finally:
        import_hook.uninstall()
    assert own_module.on_gpu("hpu") and own_module.on_gpu("cuda") and not own_module.on_gpu("cpu")
    assert not vendored_module.on_gpu("hpu")
    assert not list((tmp_path / "__pycache__").glob("own_module*")), "rewritten code was cached"
