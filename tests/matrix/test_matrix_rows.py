"""The shipped rows, held both ways: facts, names of torch, rules, patches, the vendor's names, the sources."""

from __future__ import annotations

import importlib
import pkgutil
import re
import types
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest

from hpushim.matrix import Row, load, vendor_names
from hpushim.matrix.summary import flaws, json_schema
from hpushim.report import rows as drawing

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
M = load()

torch = pytest.importorskip("torch", reason="the rows are compared with an installed torch")


class _Rows:
    """Rows that are looked at alone."""

    def __init__(self, rows: tuple[Row, ...], sources: Any) -> None:
        self.rows, self.sources = rows, sources


def _lines(name: str) -> list[str]:
    return (HERE / name).read_text().splitlines()


# ---- facts and sources


def test_every_collected_fact_is_stated_by_a_row() -> None:
    collected = {word for line in _lines("fact_ids.txt")[1:] for word in line.split()}
    stated = {fact for row in M.rows for fact in row.facts}
    assert len(collected) == 824
    assert collected - stated == set()
    assert stated - collected == set()


def test_no_row_lacks_what_a_shipped_row_needs() -> None:
    assert [f"{row.name}: {field}: {text}" for row, field, text in flaws(M)] == []


def test_what_is_documented_cites_a_document() -> None:
    """A page, a README or what somebody reported; code and logs are confidence `source`."""
    told = re.compile(r"\.(md|mdx|rst|txt|html|ipynb)\b|/(issues|pull|commit)/", re.IGNORECASE)

    def document(citation: str) -> bool:
        at = citation.partition("#")[0]
        key = at.partition(":")[0]
        address = M.sources[key].url if key in M.sources else at
        return bool(told.search(at)) or "github.com" not in address

    rows = [row for row in M.rows if row.confidence == "documented"]
    assert len(rows) > 150
    assert [row.name for row in rows if not any(map(document, row.source))] == []


@pytest.mark.parametrize(
    "note",
    [
        "Nothing was found.",
        "No mention of hpu in its code.",
        "No source shows its use on Gaudi.",
        "Whether it runs on Gaudi is unknown.",
        "It is not known to have run on a Gaudi.",
        "It sets the variable; what reads it is not public.",
    ],
)
def test_a_note_that_says_that_nothing_was_found_states_its_searches(note: str) -> None:
    import msgspec

    row = msgspec.structs.replace(M.row("torch.cuda.synchronize"), note=note)
    complaints = [
        text for _, field, text in flaws(cast(Any, _Rows((row,), M.sources))) if field == "searched"
    ]
    assert complaints == ["missing: the note says that nothing was found; add what was searched"]


#: What is wrong of a row, and the columns that are complained of.
FLAWED = {
    "no source": ({"source": ()}, {"source", "confidence"}),
    "no source, and it says so": ({"source": (), "confidence": "inferred"}, {"source"}),
    "no sentence": ({"note": "It waits"}, {"note"}),
    "a question": ({"note": "Does it wait?"}, set()),
    "a remark": ({"note": "It waits (for all streams)"}, set()),
    "no target": ({"status": "renamed", "target": ""}, {"target"}),
    "a target": ({"status": "renamed", "target": "torch.hpu.synchronize"}, set()),
    "no rule of that code": ({"rule": "HPU999"}, {"rule"}),
    "no rule": ({"rule": ""}, set()),
    "of a user, who need not say more": ({"origin": "ours.toml", "source": (), "note": "x"}, set()),
    "of a user, whose code is none": ({"origin": "ours.toml", "rule": "HPU999"}, {"rule"}),
}  # fmt: skip


@pytest.mark.parametrize("what", FLAWED)
def test_each_flaw_of_a_row_is_said_of_its_column_and_no_other(what: str) -> None:
    import msgspec

    changes, columns = FLAWED[what]
    sound = M.row("torch.cuda.synchronize")
    row = msgspec.structs.replace(sound, **changes)
    rows = cast(Any, _Rows((sound, row), M.sources))
    found = list(flaws(rows, {sound.rule}))
    assert {field for _, field, _ in found} == columns
    assert all(one is row for one, _, _ in found)
    assert {field for _, field, _ in flaws(rows)} == columns - {"rule"}


def test_every_source_is_used_and_none_points_into_a_team() -> None:
    cited = {item.partition(":")[0] for row in M.rows for item in row.source}
    cited |= {item.partition(":")[0] for release in M.releases.values() for item in release.source}
    cited |= {"torch", "bridge"}  # the operator table cites them
    assert set(M.sources) - cited == set()
    for row in M.rows:
        for title, url in M.citations(row):
            assert "seed" not in title
            assert not url or url.startswith("https://")


def test_notes_are_for_a_user() -> None:
    short = [row.name for row in M.rows if len(row.note) < 6]
    assert short == []
    long = [row.name for row in M.rows if len(row.note) > 420]
    assert long == []
    # Words of the collection, which mean nothing to a user.
    jargon = re.compile(r"\b(labelled|toolkit log|permitted source|fact)\b", re.IGNORECASE)
    assert [row.name for row in M.rows if jargon.search(row.note)] == []


def test_unknown_is_never_dressed_up() -> None:
    for row in M.rows:
        if row.status == "unknown":
            assert row.runtime not in ("constant", "noop"), row.name
        if row.runtime == "raise":
            assert row.status in ("unsupported", "unknown", "changed"), row.name


# ---- rows ↔ names of torch


@cache
def _exists(name: str) -> bool:
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:end]))
        except ImportError:
            continue
        return all(
            hasattr(found, part) and ((found := getattr(found, part)), True)[1]
            for part in parts[end:]
        )
    return False


# Present only in a torch that was built with CUDA.
_CUDA_BUILD = {
    "torch.cuda.Stream.cuda_stream",
    "torch.cuda.Stream.priority_range",
    "torch.distributed.ProcessGroupNCCL",
    "torch.distributed.ProcessGroupNCCL.Options",
}


def _in_this_torch(row: Row) -> bool:
    from packaging.specifiers import SpecifierSet

    return SpecifierSet(row.torch).contains(torch.__version__.split("+")[0], prereleases=True)


def _torch_names() -> list[str]:
    return [
        name.split("(")[0]
        for row in M.rows
        if row.kind in ("python", "argument") and _in_this_torch(row)
        for name in row.names
        if name.startswith("torch.") and not name.startswith(("torch.hpu", "torch.ops."))
    ]


def test_every_torch_name_of_a_row_exists() -> None:
    wrong = [
        name
        for name in _torch_names()
        if name not in _CUDA_BUILD and "._" not in name and not _exists(name)
    ]
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) != (2, 13):
        pytest.skip(f"rows are written against torch 2.13, here is {torch.__version__}: {wrong}")
    assert wrong == []


def _public(module: types.ModuleType) -> list[str]:
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return list(listed)
    # torch.backends.cudnn is an object with flags as attributes, wrapped around the module itself.
    flags = [name for name in vars(type(module)) if not name.startswith("_")]
    return flags + [
        name
        for name, value in vars(getattr(module, "m", module)).items()
        if not name.startswith("_")
        and not isinstance(value, types.ModuleType)
        and getattr(value, "__module__", "") == module.__name__
    ]


def _public_names(*roots: str) -> list[str]:
    names = []
    for root in roots:
        module = importlib.import_module(root)
        found = [root]
        if hasattr(module, "__path__"):
            found += [
                info.name
                for info in pkgutil.walk_packages(module.__path__, f"{root}.")
                if not any(part.startswith("_") for part in info.name.split("."))
            ]
        for name in found:
            names += [f"{name}.{item}" for item in _public(importlib.import_module(name))]
    return names


@pytest.mark.parametrize(
    "root", ["torch.cuda", "torch.backends.cuda", "torch.backends.cudnn", "torch.amp"]
)
def test_every_public_name_has_a_row_of_its_own(root: str) -> None:
    names = _public_names(root)
    assert names
    assert [name for name in names if M.row(name) is None] == []


def test_the_cuda_side_of_the_rest_of_torch_has_rows() -> None:
    import torch.distributed  # noqa: F401

    wanted = [
        *(f"torch.Tensor.{name}" for name in ("cuda", "is_cuda", "pin_memory", "is_pinned", "record_stream", "get_device", "device", "to", "type", "half")),
        *(f"torch.nn.Module.{name}" for name in ("cuda", "to", "to_empty", "half", "type")),
        *(f"torch.distributed.{name}" for name in (
            "init_process_group", "new_group", "get_backend", "is_nccl_available", "all_reduce", "reduce", "broadcast",
            "all_gather", "all_gather_into_tensor", "reduce_scatter", "reduce_scatter_tensor", "all_to_all",
            "all_to_all_single", "gather", "scatter", "send", "recv", "isend", "irecv", "batch_isend_irecv", "barrier",
            "monitored_barrier", "all_gather_object", "broadcast_object_list", "gather_object", "scatter_object_list",
            "init_device_mesh", "ReduceOp.AVG", "ReduceOp.PRODUCT", "fsdp.FullyShardedDataParallel", "fsdp.fully_shard")),
        *(f"torch.utils.data.DataLoader({name})" for name in ("pin_memory=True", "pin_memory_device=", "num_workers=", "drop_last=")),
        "torch.profiler.profile", "torch.profiler.ProfilerActivity.CUDA", "torch.autograd.profiler.profile",
        "torch.load", "torch.load(map_location=)", "torch.save", "torch.compile", "torch.Generator", "torch.manual_seed",
        "torch.nn.parallel.DistributedDataParallel", "torch.nn.DataParallel", "torch.nn.SyncBatchNorm",
        "torch.utils.checkpoint.checkpoint", "torch.version.cuda", "torch.set_default_device", "torch.is_autocast_enabled",
    ]  # fmt: skip
    assert [name for name in wanted if M.row(name) is None] == []


# ---- targets ↔ names that exist


# Documented by the vendor, and not part of the package whose source is public.
_DOCUMENTED = {"habana_frameworks.mediapipe"}


def _at_vendor(name: str) -> bool:
    return name in _DOCUMENTED or vendor_names.known(name)


def test_no_rewrite_points_at_a_name_that_the_vendor_lacks() -> None:
    wrong = [
        (row.name, row.target)
        for row in M.rows
        if row.target.startswith(("torch.hpu", "habana_frameworks"))
        and not _at_vendor(row.target.split("(")[0])
    ]
    assert wrong == []


def test_no_rewrite_points_at_a_name_that_torch_lacks() -> None:
    wrong = [
        (row.name, row.target)
        for row in M.rows
        if row.target.startswith("torch.")
        and not row.target.startswith(("torch.hpu", "torch.ops.hpu"))
        and not _exists(row.target.split("(")[0])
    ]
    assert wrong == []


def test_rows_on_gaudi_names_name_what_exists() -> None:
    gone = {"habana_frameworks.torch.gpu_migration", "habana_frameworks.torch.hpex.hmp"}
    wrong = [
        name
        for row in M.rows
        if row.kind in ("python", "package")
        for name in row.names
        if name.startswith(("torch.hpu", "habana_frameworks"))
        and name not in gone
        and not _at_vendor(name)
    ]
    assert wrong == []


# ---- rows ↔ rules


def _codes() -> set[str]:
    from hpushim.engine.rules.registry import every_rule

    return {code for rule in every_rule() for code in rule.codes}


def test_every_rule_of_a_row_exists() -> None:
    codes = _codes()
    assert sorted({row.rule for row in M.rows if row.rule} - codes) == []


def test_every_rule_about_a_name_has_rows() -> None:
    # Codes that are about how code is written, not about a name that Gaudi treats in some way.
    about_code = {code for code in _codes() if code < "HPU100"} | {
        "HPU103", "HPU109", "HPU123", "HPU125", "HPU127", "HPU214", "HPU217", "HPU311", "HPU327", "HPU330", "HPU421", "HPU503", "HPU505", "HPU508", "HPU520", "HPU523", "HPU532", "HPU605", "HPU608", "HPU719", "HPU723", "HPU803", "HPU806", "HPU816", "HPU818", "HPU820", "HPU822", "HPU823", "HPU824", "HPU825", "HPU830",
    }  # fmt: skip
    assert sorted(_codes() - about_code - {row.rule for row in M.rows}) == []


def _named_in_rules() -> set[str]:
    """Row names that the rules ask for: quoted names of torch or the bridge in their source."""
    asked = re.compile(r'(?:ask|known)\(\w+, "([^"]+)"')
    return {
        name
        for path in sorted((ROOT / "codemods").rglob("*.py"))
        for name in asked.findall(path.read_text())
    }


def test_every_row_that_a_rule_asks_for_exists() -> None:
    from hpushim.codemods.libraries import chosen_devices

    names = _named_in_rules() | {*chosen_devices._FINDS}
    assert sorted(name for name in names if M.row(name) is None) == []


# ---- rows ↔ patches


def _patched_rows() -> dict[str, Row | None]:
    from hpushim.shim.patch import declared

    def row(name: str) -> Row | None:
        """Of a special method the row of its class, unless it has one of its own."""
        return M.row(name) or M.row(re.sub(r"(\.__\w+__)+$", "", name))

    return {patch.row: row(patch.row) for patch in declared()}


def test_every_patch_has_a_row_that_says_so() -> None:
    patched = _patched_rows()
    assert sorted(name for name, row in patched.items() if row is None) == []
    wrong = [(name, row.runtime) for name, row in patched.items() if row and row.runtime != "patch"]
    assert wrong == []


def test_every_row_that_says_patch_has_one() -> None:
    have = {row.name for row in _patched_rows().values() if row}
    assert sorted(row.name for row in M.by_runtime("patch") if row.name not in have) == []


# ---- what the five documents on Gaudi support name


@pytest.mark.parametrize(
    ("name", "status"),
    [
        # Accelerate
        ("accelerate.Accelerator", "native"),
        ("accelerate launch --cpu", "native"),
        ("accelerate.Accelerator(fast_ddp=)", "unsupported"),
        ("accelerate.Accelerator(minimize_memory=)", "unsupported"),
        ("accelerate.Accelerator(context_parallel_size=)", "unsupported"),
        # Optimum
        ("execution modes in Optimum", "partial"),
        ("several devices of one server", "native"),
        ("several servers", "native"),
        ("inference with HPU graphs", "unsupported"),  # in eager mode, the default
        ("inference in lazy mode", "noop"),
        # no "fast_ddp" in eager mode
        ("optimum.habana.GaudiTrainingArguments(distribution_strategy=)", "partial"),
        # Transformers
        ("transformers.Trainer", "native"),
        ("PT_HPU_LAZY_MODE", "native"),
        ("PT_ENABLE_INT64_SUPPORT", "native"),
        ("transformers.TrainingArguments(bf16=)", "native"),
        ("transformers.TrainingArguments(torch_compile=)", "native"),
        ("transformers.TrainingArguments(ddp_backend=)", "changed"),
        # the accelerators reference
        ("SM_MODEL_DIR", "native"),
        ("boolean argparse actions on SageMaker", "unsupported"),
        ("ec2_instance_type: local", "unknown"),
        ("Accelerate on Apple silicon", "native"),
        ("distributed training on MPS", "unsupported"),
        ("several devices on MPS", "unsupported"),
        ("collectives on Intel CPUs", "changed"),
        ("hostfile", "native"),
        ("source setvars.sh", "native"),
        ("several model and optimizer pairs in accelerator.prepare", "partial"),
        # Lightning, whose support was removed upstream
        ("lightning.Trainer(accelerator=)", "unsupported"),
        ("lightning.Trainer(devices=)", "native"),
        ("lightning.pytorch.strategies.DDPStrategy", "changed"),
        ("several optimizers in Lightning", "changed"),
        ("the Habana data loader in Lightning", "changed"),
        ("lightning.pytorch.callbacks.DeviceStatsMonitor", "changed"),
        ("memory of a device", "changed"),
    ],
)
def test_features_and_limits_of_the_frameworks(name: str, status: str) -> None:
    verdict = M.verdict(name)
    assert not verdict.inherited
    assert verdict.status == status


def test_lightning_says_that_support_was_removed() -> None:
    row = M.row("lightning.Trainer(accelerator=)")
    assert row is not None
    assert "2.5.6" in row.note
    assert "deleted" in row.note


# ---- policy


def test_a_library_stands_on_one_list_of_the_policy() -> None:
    nvidia, hpu = set(M.policy.nvidia_only), set(M.policy.knows_hpu)
    assert nvidia & hpu == set()
    assert {"flash_attn", "triton", "xformers", "bitsandbytes", "apex"} <= nvidia
    assert {"accelerate", "transformers", "lightning<2.5.6", "deepspeed"} <= hpu


# ---- generated files


def test_the_page_is_what_the_matrix_gives() -> None:
    fresh = drawing.page(load())
    assert (ROOT / "MATRIX.md").read_text() == fresh, (
        "MATRIX.md is stale: hpushim matrix show --markdown > MATRIX.md"
    )


def test_the_schema_is_what_the_columns_give() -> None:
    path = ROOT / "hpushim" / "matrix" / "compat_matrix.schema.json"
    assert path.read_bytes() == json_schema(), f"hpushim matrix schema > {path.name}"


def test_the_shipped_file_obeys_the_schema() -> None:
    import json

    import jsonschema
    import tomli

    schema = json.loads(json_schema())
    content = tomli.loads((ROOT / "compat_matrix.toml").read_text())
    jsonschema.Draft202012Validator(schema).validate(content)
    content["row"][0]["statsu"] = "x"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema).validate(content)


def test_the_conditions_of_operators_can_be_asked() -> None:
    from hpushim.emulator.objections import condition

    asked = {word: condition(word) for note in M.operators.conditions for word in note.when}
    assert asked["self.ndim >= 5"] == ("self", "ndim", ">=", 5, "")
    assert asked["self.dtype != mat2.dtype"] == ("self", "dtype", "!=", 0, "mat2")
    assert asked["reduce != amax"] == ("reduce", "", "!=", 0, "amax")
    assert asked["not include_self"] == ("include_self", "", "==", 0, "")
    assert asked["self is src"] == ("self", "", "is", 0, "src")
    # The vendor's own operators come from a list of an older release, which lacks some.
    names = {name for note in M.operators.conditions for name in note.ops.split() if "aten::" in name}  # fmt: skip
    assert sorted(names - set(M.operators.support)) == []
