"""The whole way: a script, its three runs, the verdict; the user's folder as it was."""

from __future__ import annotations

from pathlib import Path

from proofs import TRAIN, prove


def test_a_script_is_proved_and_its_folder_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    done = prove("--steps", "0", "train.py", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("equal: over 6 optimizer steps"), done.stdout
    assert "by its option --no-cuda" in done.stderr
    assert "compute operators on hpu: 100.0%" in done.stdout
    assert "train.py:26 HPU414 cuda-synchronize" in done.stdout  # behind an option
    assert sorted(p.name for p in tmp_path.iterdir()) == ["train.py"]
