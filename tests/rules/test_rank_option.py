"""The option of the rank, by how the program is started and how it declares the option."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpushim.engine.project import analyse, migrate, undo
from hpushim.model import Style, Target

RUN = "python -m torch.distributed.launch --nproc_per_node=8 {0}train.py --lr 1\n"
#: Texts of a project, and whether they start programs by a launcher that passes the option.
STARTS = {
    "run.sh": (RUN.format(""), True),
    "README.md": (f"# Own\n\n```\n{RUN.format('')}```\n", True),
    "Makefile": (f"train:\n\t{RUN.format('')}", True),
    "lines.sh": (RUN.format("\\\n  "), True),
    "env.sh": (RUN.format("--use_env "), False),
    "env2.sh": (RUN.format("\\\n  --use-env "), False),
    "torchrun.sh": ("torchrun --nproc_per_node=8 train.py\n", False),
    "prose.md": ("Once started by torch.distributed.launch.\n", False),
}
DECLARES = {
    'p.add_argument("--local_rank", type=int, default=-1)': 'p.add_argument("--local_rank", "--local-rank", type=int, default=-1)',
    "p.add_argument('--local_rank', type=int)": "p.add_argument('--local_rank', '--local-rank', type=int)",
    'p.add_argument(r"--local_rank", type=int)': 'p.add_argument(r"--local_rank", "--local-rank", type=int)',
    'p.add_argument("-r", "--local_rank", dest="rank")': 'p.add_argument("-r", "--local_rank", "--local-rank", dest="rank")',
    'p.add_argument("--local-rank", "--local_rank")': "",
    'p.add_argument("--local-rank")\np.add_argument("--local_rank")': "",
    'p.add_argument("--rank")': "",
}


@pytest.mark.parametrize("style", ["native", "dual", "agnostic"])
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("declared", DECLARES)
def test_the_rank_is_taken_under_both_names(tmp_path: Path, declared: str, start: str, style: Style) -> None:  # fmt: skip
    head = "import argparse\n\np = argparse.ArgumentParser()\n"
    text, passes = STARTS[start]
    files = {start.replace("2", ""): text, "options.py": f"{head}{declared}\n"}
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    found = analyse([tmp_path], Target(style=style))
    told = [f for file in found.files for f in file.findings if f.code == "HPU327"]
    assert len(told) == (passes and bool(DECLARES[declared]))
    migrate([tmp_path], Target(style=style), allow_dirty=True)
    after = (tmp_path / "options.py").read_text()
    assert after == f"{head}{(DECLARES[declared] if passes else '') or declared}\n"
    if told:
        names: dict[str, object] = {}
        exec(compile(after, "options.py", "exec", dont_inherit=True), names)
        parsed = names["p"].parse_args(["--local-rank=3"])  # type: ignore[attr-defined]
        assert str(getattr(parsed, "rank" if "dest" in declared else "local_rank")) == "3"
    again = migrate([tmp_path], Target(style=style), allow_dirty=True)
    assert not [file.path for file in again.files if file.status == "changed"]
    while undo(tmp_path).run:
        pass
    assert {name: (tmp_path / name).read_text() for name in files} == files
