"""Import statements after migration: moved, split, dropped, added once, and left alone where others depend on them."""

from __future__ import annotations

import ast
import textwrap

import pytest
from crossed import crossed

from hpushim.engine.base.text import ALONE, Project
from hpushim.engine.context import Context
from hpushim.engine.one_file import settle
from hpushim.matrix import load
from hpushim.model import Mode, Style, Target


def migrated(
    text: str,
    path: str = "train.py",
    mode: Mode = "eager",
    project: Project = ALONE,
    unsafe: bool = False,
) -> str:
    """What migrate makes of one file; the result parses and a second run leaves it."""
    context = Context(Target(mode=mode), load(), project, unsafe=unsafe)
    after = settle(text, "python", path, context).text
    ast.parse(after)
    assert settle(after, "python", path, context).text == after
    return after


def lines(text: str) -> str:
    return textwrap.dedent(text).lstrip("\n")


USE = """

def forward(model, x, optimizer):
    scaler = GradScaler()
    with autocast():
        scaler.scale(model(x)).backward()
    scaler.step(optimizer)
"""
USED = """

def forward(model, x, optimizer):
    with autocast(device_type="hpu", dtype=torch.bfloat16):
        model(x).backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "import torch\nfrom torch.cuda.amp import GradScaler, autocast\n",
            "import torch\nfrom torch.amp import autocast\n",
            id="one goes, one moves",
        ),
        pytest.param(
            "import torch\nfrom torch.cuda.amp import (\n    autocast,\n    GradScaler,\n)\n",
            "import torch\nfrom torch.amp import autocast\n",
            id="in parentheses",
        ),
        pytest.param(
            "import torch\nfrom torch.cuda.amp import autocast; from torch.cuda.amp import GradScaler\n",
            "import torch\nfrom torch.amp import autocast\n",
            id="two on a line",
        ),
        pytest.param(
            "import torch\ntry:\n    from torch.cuda.amp import GradScaler, autocast\n"
            "except ImportError:\n    pass\n",
            "import torch\ntry:\n    from torch.amp import autocast\nexcept ImportError:\n    pass\n",
            id="under try",
        ),
        pytest.param(
            "import torch\ntry:\n    from torch.cuda.amp import GradScaler\nexcept ImportError:\n"
            "    raise\nfrom torch.cuda.amp import autocast\n",
            "import torch\nfrom torch.amp import autocast\n",
            id="the only statement of a block",
        ),
    ],
)
def test_names_go_and_move(before: str, after: str) -> None:
    assert migrated(before + USE) == after + USED


def test_a_comment_between_the_names_stays_with_the_rest() -> None:
    before = lines(
        """
        import torch
        from torch.cuda.amp import (
            GradScaler,  # keep me: the type is used below
            autocast,
        )


        def forward(model, x, kind=GradScaler):
            with autocast():
                return model(x), kind
        """
    )
    after = lines(
        """
        import torch
        from torch.amp import autocast
        from torch.cuda.amp import (
            GradScaler,  # keep me: the type is used below
        )


        def forward(model, x, kind=GradScaler):
            with autocast(device_type="hpu", dtype=torch.bfloat16):
                return model(x), kind
        """
    )
    assert migrated(before) == after


def test_an_import_inside_a_function_moves_there() -> None:
    before = lines(
        """
        def forward(model, x):
            import torch
            from torch.cuda.amp import autocast as cast

            with cast(enabled=True):
                return model(x)
        """
    )
    after = lines(
        """
        def forward(model, x):
            import torch
            from torch.amp import autocast as cast

            with cast(device_type="hpu", dtype=torch.bfloat16, enabled=True):
                return model(x)
        """
    )
    assert migrated(before) == after


def test_torch_is_imported_where_only_its_parts_were() -> None:
    before = lines(
        """
        from torch.cuda.amp import autocast


        def forward(model, x):
            with autocast():
                return model(x)
        """
    )
    after = lines(
        """
        from torch.amp import autocast
        import torch


        def forward(model, x):
            with autocast(device_type="hpu", dtype=torch.bfloat16):
                return model(x)
        """
    )
    assert migrated(before) == after


@pytest.mark.parametrize("how", ["package", "all"])
def test_names_that_others_may_import_stay(how: str) -> None:
    exported = '__all__ = ["autocast"]\n' if how == "all" else ""
    before = (
        f"import torch\nfrom torch.cuda.amp import autocast\n{exported}\n"
        "def forward(model, x):\n    with autocast():\n        return model(x)\n"
    )
    path = "pkg/__init__.py" if how == "package" else "amp.py"
    after = migrated(before, path)
    assert "from torch.cuda.amp import autocast\n" in after
    assert 'with torch.autocast(device_type="hpu", dtype=torch.bfloat16):' in after


TRAIN = """

def train(loss, optimizer, device):
    from torch import nn
    loss.to(device).backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("head", "expected", "name"),
    [
        pytest.param(
            "import os\nimport torch\nimport numpy as np\n",
            "import os\nimport torch\nimport habana_frameworks.torch.core as htcore\nimport numpy as np\n",
            "htcore",
            id="behind torch",
        ),
        pytest.param(
            '"""Trains."""\n\nfrom __future__ import annotations\n',
            '"""Trains."""\n\nfrom __future__ import annotations\n'
            "import habana_frameworks.torch.core as htcore\n",
            "htcore",
            id="behind __future__",
        ),
        pytest.param(
            '"""Trains."""\n',
            '"""Trains."""\nimport habana_frameworks.torch.core as htcore\n',
            "htcore",
            id="behind the docstring",
        ),
        pytest.param(
            "#!/usr/bin/env python\n# -*- coding: utf-8 -*-\n",
            "#!/usr/bin/env python\n# -*- coding: utf-8 -*-\n",
            "htcore",
            id="behind leading comments",
        ),
        pytest.param(
            "import torch\nhtcore = 3\n",
            "import torch\nimport habana_frameworks.torch.core as htcore_\nhtcore = 3\n",
            "htcore_",
            id="the usual name is taken",
        ),
        pytest.param(
            "import torch\nfrom habana_frameworks.torch import core\n",
            "import torch\nfrom habana_frameworks.torch import core\n",
            "core",
            id="imported already",
        ),
        pytest.param(
            "import torch\nimport habana_frameworks.torch.core\n",
            "import torch\nimport habana_frameworks.torch.core\n",
            "habana_frameworks.torch.core",
            id="imported without a name",
        ),
    ],
)
def test_the_bridge_is_imported_once(head: str, expected: str, name: str) -> None:
    after = migrated(head + TRAIN, mode="lazy")
    assert after.startswith(expected)
    assert after.count(f"{name}.mark_step()") == 2
    imports = [n for n in ast.parse(after).body if isinstance(n, (ast.Import, ast.ImportFrom))]
    assert sum("habana_frameworks" in ast.unparse(n) for n in imports) == 1


@pytest.mark.parametrize(
    ("package", "gone", "new"),
    crossed(
        ["import torch as th\n", "import torch as torch_\n"],
        [
            "{0}.cuda.empty_cache()",
            "{0}.cuda.reset_peak_memory_stats()",
            "{0}.backends.cudnn.benchmark = True",
        ],
        ["with autocast():\n        pass", "run = functools.partial(autocast, enabled=on)"],
        rounds=4,
    ),
)
def test_an_alias_stays_for_what_is_written_newly(package: str, gone: str, new: str) -> None:
    """All old uses of the alias go, and a new one is written in another statement."""
    alias = package.rsplit(maxsplit=1)[-1]
    after = migrated(
        f"{package}import functools\nfrom torch.cuda.amp import autocast\n\n\ndef step():\n"
        f"    {gone.format(alias)}\n    {new}\n"
    )
    assert f"dtype={alias}.bfloat16" in after
    assert package in after


ANNOTATED = [
    "def f(a: 'GradScaler'): pass",
    "def f() -> 'list[GradScaler]': pass",
    "def f(a: Optional['GradScaler'] = None): pass",
    "def f(*a: 'GradScaler', **k: \"GradScaler\"): pass",
    "a: 'GradScaler | None' = None",
    "class A:\n    held: 'GradScaler'",
    "a = cast('GradScaler', b)",
    "T = TypeVar('T', bound='GradScaler')",
    "Scalers = Iterable['GradScaler']",
    "def f(a):\n    # type: (GradScaler) -> None\n    pass",
    "held = []  # type: list[GradScaler]",
]


@pytest.mark.parametrize("annotation", ANNOTATED)
def test_an_import_stays_for_an_annotation_in_a_string(annotation: str) -> None:
    after = migrated(f"import torch\nfrom torch.cuda.amp import GradScaler{USE.replace('autocast()', 'y')}\n\n{annotation}\n")  # fmt: skip
    assert "import GradScaler\n" in after
    after = migrated(f"from torch import cuda\ncuda.empty_cache()\ncuda.synchronize()\n{annotation.replace('GradScaler', 'cuda.Stream')}\n")  # fmt: skip
    assert "from torch import cuda\n" in after


@pytest.mark.parametrize(
    "text",
    ["print('GradScaler')", "table = {'GradScaler': 1}", "def f():\n    'A GradScaler.'", "# GradScaler"],
)  # fmt: skip
def test_other_texts_hold_no_import(text: str) -> None:
    after = migrated(f"import torch\nfrom torch.cuda.amp import GradScaler{USE.replace('autocast()', 'y')}\n\n{text}\n")  # fmt: skip
    assert "import GradScaler" not in after


def test_a_name_that_other_files_import_stays() -> None:
    project = Project(imported=frozenset({("helpers", "GradScaler")}))
    text = f"import torch\nfrom torch.cuda.amp import GradScaler{USE.replace('autocast()', 'y')}"
    assert "import GradScaler\n" in migrated(text, "lib/helpers.py", project=project)
    assert "import GradScaler" not in migrated(text, "lib/others.py", project=project)
    kind = "FloatTensor = torch.cuda.FloatTensor if use_cuda else torch.FloatTensor"
    text = f"import torch\n\n{kind}\nz = FloatTensor(3)\n"
    named = Project(imported=frozenset({("helpers", "FloatTensor")}))
    assert "FloatTensor = " in migrated(text, "lib/helpers.py", project=named)
    assert "FloatTensor = " not in migrated(text, "lib/others.py", project=named)


#: Each statement that gives a name something else.
BINDS = ["torch = n", "torch += n", "torch: object = n", "torch, m = n", "for torch in n: pass", "with n as torch: pass", "import other as torch", "from other import torch", "def torch(): pass", "class torch: pass", "print(torch := n)", "match n:\n        case [torch]: pass", "global torch\n    torch = n"]  # fmt: skip


@pytest.mark.parametrize("bind", BINDS)
def test_a_name_that_is_given_something_else_is_torch_no_longer(bind: str) -> None:
    text = f"import torch\n\n\ndef f(n):\n    {bind}\n    torch.cuda.synchronize()\n"
    assert migrated(text) == text


#: Ways in which the name of the package has another value where a rewrite would be written through it, and what is rewritten there.
HIDING = ["def f(x, torch):\n    {0}\n", "def f(x):\n    {0}\n    with x as torch:\n        pass\n", "def f(x):\n    {0}\n    torch = x\n", "def f(x):\n    for torch in x:\n        {0}\n", "class C:\n    torch = x\n    {0}\n"]  # fmt: skip
HIDDEN = ["y = autocast()", "y = [autocast(enabled=False)]", "synchronize()", "y = current_device()", "y = FloatTensor(2)"]  # fmt: skip


@pytest.mark.parametrize("form", HIDING)
@pytest.mark.parametrize("use", HIDDEN)
@pytest.mark.parametrize("style", ["native", "dual", "agnostic"])
def test_nothing_is_written_through_a_name_that_has_another_value(
    form: str, use: str, style: Style
) -> None:
    head = "import torch\nfrom torch.cuda.amp import autocast\nfrom torch.cuda import FloatTensor, current_device, synchronize\n\n\n"
    context = Context(Target(style=style), load())
    done = settle(head + form.format(use), "python", "a.py", context)
    assert "HPU004" not in {finding.code for finding in done.findings}
    assert "torch." not in done.text.partition("\n\n\n")[2]
