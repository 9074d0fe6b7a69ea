"""Where ``torch.load`` puts tensors: in lazy mode on the CPU unless map_location names the device, in eager mode where they were."""

from __future__ import annotations

import pytest

KEPT = """
{first}
import collections, io, torch
kept = {{"w": torch.ones(2, device="{device}"), "of": [torch.zeros(1), (torch.ones(1).to("{device}"), 3)], "more": collections.OrderedDict(b=torch.ones(1).to("{device}"))}}
buffer = io.BytesIO()
torch.save(kept, buffer)
def kinds(**how):
    buffer.seek(0)
    found = torch.load(buffer, **how)
    one = lambda t: t.device.type[0]
    return one(found["w"]) + one(found["of"][0]) + one(found["of"][1][0]) + one(found["more"]["b"])
print(*[kinds(**how) for how in ({hows})])
"""
# w, of[0], of[1][0], more.b: c is the CPU, h the device
HOWS = {
    "dict()": ("hchh", "cccc"),
    "dict(weights_only=False)": ("hchh", "cccc"),
    "dict(map_location='cpu')": ("cccc", "cccc"),
    "dict(map_location='{device}')": ("hhhh", "hhhh"),
    "dict(map_location=torch.device('{device}'))": ("hhhh", "hhhh"),
    "dict(map_location=dict(cpu='{device}'))": ("hhhh", "hhhh"),
    "dict(map_location={{'{device}:0': 'cpu'}})": ("cccc", "cccc"),
    "dict(map_location=lambda held, place: held)": ("cccc", "cccc"),
    "dict(map_location='{device}', weights_only=True)": ("hhhh", "hhhh"),
}


@pytest.mark.parametrize("lazy", [0, 1])
@pytest.mark.parametrize(
    ("device", "first"), [("hpu", "import habana_frameworks.torch.core"), ("cuda", "")]
)
def test_where_a_checkpoint_is_read_to(run, device: str, first: str, lazy: int) -> None:
    hows = ", ".join(HOWS).format(device=device)
    code = KEPT.format(first=first, device=device, hows=hows)
    done = run(
        code,
        HPUSHIM="emulate",
        PT_HPU_LAZY_MODE=str(lazy),
        HPUSHIM_LOG="sites",
        HPUSHIM_POLICY="faithful",
    )
    assert done.stdout.split() == [places[lazy] for places in HOWS.values()]
    assert ("HPU613" in done.stderr) is (device == "cuda" and lazy == 1)


def test_a_function_that_reads_the_place_as_text(run) -> None:
    code = """
    import io, torch
    buffer = io.BytesIO()
    torch.save(torch.ones(1).cuda(), buffer)
    buffer.seek(0)
    print(torch.load(buffer, map_location=lambda held, place: held.cuda() if place.startswith("c") else held).device.type)
    """
    for policy in ("observe", "faithful"):
        done = run(code, HPUSHIM="emulate", PT_HPU_LAZY_MODE="1", HPUSHIM_POLICY=policy)
        assert done.stdout.split() == ["hpu"]
