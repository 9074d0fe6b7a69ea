"""Following a made-up upstream: fewer conflicts with the driver, and the end is the newest version migrated."""

from __future__ import annotations

from pathlib import Path

import upstream

VERSIONS = [
    "import torch\n\n\ndef make(n):\n    net = torch.nn.Linear(n, n)\n    return net.cuda()\n\n\n"
    "def step(net, x):\n    x = x.cuda()\n    y = net(x)\n    return y.sum()\n\n\ndef name():\n    return 'one'\n"
]
for before, after in (
    ("x = x.cuda()", "x = x.cuda(non_blocking=True)"),
    ("'one'", "'two'"),
    ("return net.cuda()", "return net.cuda().train()"),
    ("def name", "def more(x):\n    return x.cuda() + 1\n\n\ndef name"),
    ("    y = net(x)", "    torch.cuda.synchronize()\n    y = net(x)"),
):
    assert before in VERSIONS[-1]
    VERSIONS.append(VERSIONS[-1].replace(before, after))


def test_a_made_up_history(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    upstream.git(source, "init", "-q", "-b", "main")
    for number, text in enumerate(VERSIONS):
        (source / "train.py").write_text(text)
        if number == 3:
            (source / "new.py").write_text(VERSIONS[0])
        upstream.git(source, "add", ".")
        upstream.git(source, "commit", "-qm", f"version {number}")
    chain = upstream.history(source, 50)
    assert len(chain) == len(VERSIONS)
    with_driver = upstream.follow(source, chain, tmp_path / "driver", driver=True)
    without = upstream.follow(source, chain, tmp_path / "plain", driver=False)
    assert with_driver.differing == without.differing == ()
    assert with_driver.by_hand[0] == without.by_hand[0] > 0
    assert with_driver.by_hand[1] == with_driver.by_hand[0]
    assert (with_driver.stopped, with_driver.places) == (0, 0)
    assert without.stopped >= 2
