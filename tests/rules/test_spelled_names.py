"""Names of functions that are put together from the name of a backend."""

from __future__ import annotations

import ast

import pytest
from crossed import crossed

from hpushim.engine.context import Context
from hpushim.engine.one_file import settle
from hpushim.matrix import load
from hpushim.model import Style, Target

TEMPLATES = [
    'f"is_{{{0}}}_available"',
    '"is_" + {0} + "_available"',
    '"is_%s_available" % {0}',
    '"is_%s_available" % ({0},)',
    '"is_{{}}_available".format({0})',
    '"is_{{0}}_available".format({0})',
]
IMPORTS = {
    "dist": "import torch.distributed as dist",
    "torch.distributed": "import torch",
    "distributed": "from torch import distributed",
}


def migrated(text: str, style: Style = "native") -> str:
    context = Context(Target(mode="eager", style=style), load())
    after = settle(text, "python", "train.py", context).text
    ast.parse(after)
    assert settle(after, "python", "train.py", context).text == after
    return after


@pytest.mark.parametrize(
    ("style", "where", "backend", "template"),
    crossed(["native", "dual"], IMPORTS, ["name", "self.name"], TEMPLATES, rounds=4),
)
def test_backends_are_asked_for_by_name(
    template: str, backend: str, where: str, style: Style
) -> None:
    head = f'{IMPORTS[where]}\nname = "nccl"\n'
    for default in ("", ", None", ", lambda: False"):
        call = f"getattr({where}, {template.format(backend)}{default})"
        after = migrated(f"{head}ok = {call}()\nlater = {call}\n", style)
        assert f"ok = {where}.is_backend_available({backend})\n" in after
        assert f"later = functools.partial({where}.is_backend_available, {backend})\n" in after
        assert "import functools\n" in after


@pytest.mark.parametrize("template", TEMPLATES)
def test_questions_to_others_stay(template: str) -> None:
    text = f"ok = getattr(mine, {template.format('name')})()\n"
    assert migrated(f'import torch.distributed as dist\n\nname = "nccl"\n{text}').endswith(text)


@pytest.mark.parametrize(
    ("name", "call"),
    crossed(
        [
            'f"self_{device_str}_time"',
            '"self_" + device_str',
            '"%s_time" % device_str',
            '"{}_time".format(device_str)',
        ],
        ["getattr(e, {}, 0)", "hasattr(e, {})", "setattr(e, {}, 1)"],
        rounds=3,
    ),
)
def test_a_word_of_an_attribute_is_no_device(call: str, name: str) -> None:
    text = f'import torch\n\ndevice_str = "cuda"\nuse({call.format(name)})\n'
    assert migrated(text) == text
    moved = migrated(f"{text}x = x.to(device_str)\n")
    assert 'device_str = "hpu"' in moved
