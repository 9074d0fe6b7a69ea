"""The readers of files that are not Python: what they give stands where they say."""

from __future__ import annotations

import json
from typing import Any

import pytest
import tomli
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from hpushim.engine.base.kind import Kind
from hpushim.engine.data.document import Document
from hpushim.engine.data.entries import Entry
from hpushim.model import Target


def document(text: str, kind: Kind) -> Document:
    return Document(text, "a", kind, Target(), None)  # type: ignore[arg-type]


def at(data: Any, entry: Entry) -> Any:
    for part in entry.path:
        data = data[part]
    return data


YAML = """# c
a: cuda  # x
b: &anchor "nccl"
é: !!str cuda
list:
- 1
- {x: yes, 'y': 'q', z: 1e3}
- - nested
  - plain text
m: *anchor
t: |
  block
u: >-
  folded
  text
empty:
"""


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_yaml_values_stand_where_they_say(mark: str) -> None:
    """Also behind a mark of the byte order, of which a file may have a second one."""
    doc = document(mark + YAML, "yaml")
    data = yaml.safe_load(YAML)
    seen = {entry.dotted: doc.source(entry.span) for entry in doc.entries if entry.kind == "scalar"}
    assert seen["a"] == "cuda" and seen["b"] == '"nccl"' and seen["é"] == "cuda"
    assert seen["list.1.y"] == "'q'" and seen["list.2.1"] == "plain text"
    for entry in doc.entries:
        if entry.kind == "scalar":
            assert entry.value == at(data, entry)
            assert yaml.safe_load(doc.source(entry.span)) == at(data, entry) or entry.quote in "|>"
        if entry.key is not None:
            assert yaml.safe_load(doc.source(entry.key)) == entry.path[-1]


def test_yaml_that_is_not_simple() -> None:
    many = document("a: 1\n---\nb: [x, y]\n---\n- z\n", "yaml").entries
    assert [(e.document, e.dotted) for e in many if e.kind == "scalar"] == [
        (0, "a"), (1, "b.0"), (1, "b.1"), (2, "0"),
    ]  # fmt: skip
    tagged = document("a: !!python/object:os.system {x: cuda}\n? [1, 2]\n: v\na: again\n", "yaml")
    assert [e.value for e in tagged.entries if e.name == "x"] == ["cuda"]
    assert [e.value for e in tagged.entries if e.dotted == "a"][-1] == "again"
    for broken in ("{{ x }}: {% y", "a: [", "\ta: b", "a: \x01"):
        with pytest.raises(ValueError, match=r"."):
            document(broken, "yaml").entries  # noqa: B018


@pytest.mark.parametrize(
    "text", ['{"a": 1}\n{"a": 2}\n', "[1]\n\n[2]", '{"a": {"b": "cuda"}}\r\n{"c": [1]}', "{}\n{"]
)
def test_a_value_on_each_line_is_records_and_no_settings(text: str) -> None:
    assert document(text, "json").entries == ()


@pytest.mark.parametrize("text", ['{"a": 1} {"a": 2}', '{"a": 1}\nx', '{"a": 1}}', "1\n2"])
def test_other_text_after_a_value_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="after the value"):
        document(text, "json").entries  # noqa: B018


def test_json_with_comments_and_commas() -> None:
    text = '{ // c\n\t"fp16": {"on": true, "x": [1,2,{"é\\"":"cuda"},],},/* d */\n "b": -1.5e3 }\n'
    doc = document(text, "json")
    values = {entry.path: entry.value for entry in doc.entries if entry.kind == "scalar"}
    assert values == {("fp16", "on"): True, ("fp16", "x", 0): 1, ("fp16", "x", 1): 2,
                      ("fp16", "x", 2, 'é"'): "cuda", ("b",): -1500.0}  # fmt: skip
    for broken in ("", "{", '{"a" 1}', "[1 2]", '{"a": }', "{} {}", "nope", "[1]]"):
        with pytest.raises(ValueError, match=r"."):
            document(broken, "json").entries  # noqa: B018
    assert len(document("[" * 400 + "]" * 400, "json").entries) == 400
    for kind in ("json", "yaml", "toml"):
        lead = "a = " if kind == "toml" else ""
        with pytest.raises(ValueError, match=r"nested|depth|deep"):
            document(lead + "[" * 20_000 + "]" * 20_000, kind).entries  # noqa: B018


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(values, st.sampled_from([None, 1, 4]), st.booleans())
def test_json_agrees_with_json(value: Any, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    doc = document(text, "json")
    assert doc.entries
    for entry in doc.entries:
        assert json.loads(doc.source(entry.span)) == at(value, entry)


TOML = '''# c
title = "x # no"
[tool.x]
a.b = 'cuda'
"q k" = """
é"""
arr = [1, "cuda", # c
 {z=true, w = 1979-05-27 07:32:00}, [[]]]
[[p]]
d = 1
[[p]]
d = 2
[p.sub]
e = +1_000
[[p.sub.deep]]
f = 0x1F
'''


def test_toml_values_stand_where_they_say() -> None:
    doc = document(TOML, "toml")
    data = tomli.loads(TOML)
    assert len([e for e in doc.entries if e.kind == "scalar"]) == 11
    for entry in doc.entries:
        value = at(data, entry)
        shown = tomli.loads(f"x = {doc.source(entry.span)}")["x"]
        assert shown == value
        assert entry.kind != "scalar" or entry.value in (value, str(value))
    with pytest.raises(ValueError, match=r"."):
        document("a = ", "toml").entries  # noqa: B018


def test_a_scalar_keeps_its_quotes() -> None:
    doc = document("a: 'cuda'\nb: cuda\nc: |\n  cuda\n", "yaml")
    edits = [
        doc.rewrite(e, "hpu").new for e in doc.entries if e.kind == "scalar" and e.quote != "|"
    ]
    assert edits == ["'hpu'", "hpu"]
    with pytest.raises(ValueError, match="one line"):
        doc.rewrite(doc.entries[-1], "hpu")


SHELL = r"""#!/bin/bash
export CUDA_VISIBLE_DEVICES=0,1 FOO="x y"
A=1 B='q' python -m torch.distributed.launch --n=8 train.py --device cuda --backend="nccl" $ARGS \
   --x "a $B c" device=cuda | tee "lög"
ARGS=(--lr 1e-4 --device cuda)
OPTS="--fp16 --backend nccl --z=é"
if [[ $X == cuda ]]; then /usr/bin/nvidia-smi; fi
cat <<EOF
python cuda
EOF
x=$(nvcc --version)
f() { srun -n 4 python a.py; }
"""


def test_shell_commands_and_assignments() -> None:
    doc = document(SHELL, "shell")
    commands = {command.program: command for command in doc.script.commands}
    assert set(commands) == {"python", "tee", "nvidia-smi", "cat", "nvcc", "srun"}
    python = commands["python"]
    assert [a.name for a in python.assignments] == ["A", "B"]
    backend = next(word for word in python.words if word.key == "--backend")
    assert backend.value and backend.value.inner
    assert (doc.source(backend.value.span), doc.source(backend.value.inner)) == ('"nccl"', "nccl")
    assert not next(word for word in python.words if word.text == "$ARGS").constant
    assert commands["tee"].words[1].text == "lög"
    for command in doc.script.commands:
        for word in command.words:
            assert word.inner is None or doc.source(word.inner) == word.text
    named = {a.name: a for a in doc.script.assignments}
    assert named["CUDA_VISIBLE_DEVICES"].exported and not named["ARGS"].exported
    assert [word.text for word in named["ARGS"].items] == ["--lr", "1e-4", "--device", "cuda"]
    inner = named["OPTS"].value.inner  # type: ignore[union-attr]
    assert inner is not None
    words = doc.words(inner)
    assert [doc.source(word.span) for word in words] == ["--fp16", "--backend", "nccl", "--z=é"]


def test_broken_shell_is_said_and_the_rest_read() -> None:
    script = document("if x; then\npython a.py\n", "shell").script
    assert script.partial


DOCKER = r"""# syntax=docker/dockerfile:1
ARG BASE=nvidia/cuda:12.1-devel
FROM --platform=linux/amd64 ${BASE} AS build
ENV A=1 B="x y" \
    C=2
ENV OLD some value
RUN --mount=type=cache,target=/x apt-get update && \
    # a comment
    pip install torch==2.1+cu118 \
      --extra-index-url https://x/cu118
RUN <<EOF
nvidia-smi
FROM nothing
EOF
from x
CMD ["python", "train.py", "--device", "cuda"]
ENTRYPOINT torchrun --n=8 train.py
"""


def test_dockerfile() -> None:
    doc = document(DOCKER, "dockerfile")
    assert [i.keyword for i in doc.instructions] == [
        "ARG", "FROM", "ENV", "ENV", "RUN", "RUN", "FROM", "CMD", "ENTRYPOINT",
    ]  # fmt: skip
    assert [i.stage for i in doc.instructions] == [-1, 0, 0, 0, 0, 0, 1, 1, 1]
    environment = {a.name: a.value.text for i in doc.instructions for a in i.assignments if a.value}
    assert environment == {
        "BASE": "nvidia/cuda:12.1-devel", "A": "1", "B": "x y", "C": "2", "OLD": "some value",
    }  # fmt: skip
    assert [[w.text for w in c.words] for c in doc.script.commands] == [
        ["apt-get", "update"],
        ["pip", "install", "torch==2.1+cu118", "--extra-index-url", "https://x/cu118"],
        ["nvidia-smi"],
        ["FROM", "nothing"],
        ["torchrun", "--n=8", "train.py"],
    ]
    for instruction in doc.instructions:
        for word in instruction.words:
            assert word.inner is None or doc.source(word.inner) == word.text
    assert [w.text for w in doc.instructions[7].words] == ["python", "train.py", "--device", "cuda"]


REQUIREMENTS = r"""# c
torch==2.3.0+cu121  # pin
--extra-index-url https://wheels.example.org/whl/cu121
-r base.txt
Flash_Attn>=2.0,<3 ; python_version > "3.8"
nvidia-cublas-cu12
apex @ git+https://github.com/NVIDIA/apex.git
git+https://github.com/x/y.git#egg=bitsandbytes
https://h/flash_attn-2.5.8+cu122-cp310.whl
xformers[a,b] == 0.0.2 \
   --hash=sha256:abc
-e git+https://x#egg=foo
--find-links=https://y

numpy
"""


def test_requirements() -> None:
    doc = document(REQUIREMENTS, "requirements")
    items = doc.requirements
    assert [(r.name, r.specifier) for r in items if r.name] == [
        ("torch", "==2.3.0+cu121"), ("flash-attn", ">=2.0,<3"), ("nvidia-cublas-cu12", ""), ("apex", ""),
        ("bitsandbytes", ""), ("flash-attn", ""), ("xformers", "== 0.0.2"), ("foo", ""), ("numpy", ""),
    ]  # fmt: skip
    assert [(r.option, r.value) for r in items if r.option] == [
        ("--extra-index-url", "https://wheels.example.org/whl/cu121"), ("-r", "base.txt"),
        ("-e", "git+https://x#egg=foo"), ("--find-links", "https://y"),
    ]  # fmt: skip
    for item in items:
        assert item.specifier_span is None or doc.source(item.specifier_span) == item.specifier
        assert item.value_span is None or doc.source(item.value_span) == item.value
        assert doc.source(item.line).startswith(doc.source(item.span))
    covered = "".join(doc.source(item.line) for item in items)
    assert covered == REQUIREMENTS.replace("# c\n", "").replace("\n\n", "\n")


def test_makefile_and_markdown_commands() -> None:
    make = document(
        "a: b\n\t@-python train.py $(DEV) \\\n\t  --x 1\n\techo hi\nB = 1\n", "makefile"
    )
    assert [[make.source(w.span) for w in c.words] for c in make.script.commands] == [
        ["python", "train.py", "$(DEV)", "--x", "1"], ["echo", "hi"],
    ]  # fmt: skip
    page = document(
        "hi `x`\n```bash\n$ torchrun --n 8 é.py\n```\n```python\nimport x\n```\n", "markdown"
    )
    assert [[page.source(w.span) for w in c.words] for c in page.script.commands] == [
        ["torchrun", "--n", "8", "é.py"]
    ]


KINDS: list[Kind] = [
    "yaml",
    "json",
    "toml",
    "shell",
    "dockerfile",
    "requirements",
    "makefile",
    "markdown",
    "notebook",
]
PARTS = st.sampled_from(
    [
        "a",
        ": ",
        "\n",
        "- ",
        "{",
        "}",
        "[",
        "]",
        '"',
        "'",
        "=",
        "#",
        "\\",
        "$",
        "é",
        "RUN ",
        "FROM x\n",
        "<<EOF\n",
        "\t",
        "---\n",
        "\r\n",
        ",",
        "|",
        "&b ",
    ]
)


@settings(max_examples=200)
@given(st.sampled_from(KINDS), st.lists(PARTS, max_size=14).map("".join))
def test_a_reader_raises_nothing_else_and_every_place_is_in_the_text(kind: Kind, text: str) -> None:
    doc = document(text, kind)
    try:
        spans = [entry.span for entry in doc.entries]
    except ValueError:
        spans = []
    spans += [word.span for command in doc.script.commands for word in command.words]
    spans += [word.span for item in doc.instructions for word in item.words]
    spans += [item.span for item in doc.requirements]
    for span in spans:
        assert 0 <= span.start <= span.end <= len(doc.data)
        doc.source(span)


@settings(max_examples=200)
@given(
    st.lists(
        PARTS | st.sampled_from(["a: ", "- ", "\n", "\n  ", "é", "😀", "'x'"]), max_size=14
    ).map("".join)
)
def test_both_yaml_parsers_see_the_same(text: str) -> None:
    """Where libyaml is not there, PyYAML's own parser reads; what both take, both see at the same places."""
    import yaml

    from hpushim.engine.data import yaml as reader

    fast = getattr(yaml, "CSafeLoader", None)
    if fast is None:
        pytest.skip("PyYAML without libyaml")
    seen = []
    for loader in (fast, yaml.SafeLoader):
        try:
            seen.append(reader._Reader(text).read(yaml.parse(text, Loader=loader)))
        except (yaml.YAMLError, ValueError):
            return
    assert seen[0] == seen[1]
