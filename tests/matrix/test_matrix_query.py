"""Asking the matrix: verdicts for a target, searches, releases, operators."""

from __future__ import annotations

import pytest

from hpushim.matrix import load, version
from hpushim.model import Target

M = load()


@pytest.mark.parametrize(
    ("stack", "since", "until", "inside"),
    [("1.24", "", "", True), ("1.24", "1.24", "1.24", True), ("1.24", "1.24.0", "", True), ("1.24", "1.24.1", "", False), ("1.24.1", "1.24", "", True), ("1.24.1", "", "1.24", True), ("1.24.1", "", "1.24.0", False),
     ("1.25", "", "1.24", False), ("1.23.9", "1.24", "", False), ("1.10", "1.9", "1.20", True), ("2", "1.20", "", True), ("1.24.0.1", "1.24", "1.24.0.1", True)],
)  # fmt: skip
def test_both_ends_of_a_range_belong_to_it(stack: str, since: str, until: str, inside: bool) -> None:  # fmt: skip
    assert version.within(stack, since, until) is inside


@pytest.mark.parametrize(
    ("name", "target", "status"),
    [
        ("torch.cuda.synchronize", Target(), "renamed"),
        ("torch.cuda.graph", Target(stack="1.24", mode="eager"), "unsupported"),
        ("torch.cuda.graph", Target(stack="1.24", mode="lazy"), "changed"),
        ("torch.cuda.graph", Target(stack="1.20"), "changed"),  # lazy is the default there
        ("torch.cuda.graph", Target(stack="1.21"), "unsupported"),
        ("torch.float16", Target(gaudi="gaudi1"), "unsupported"),
        ("torch.float16", Target(gaudi="gaudi2"), "partial"),
        ("torch.float8_e4m3fn", Target(gaudi="gaudi1"), "unsupported"),
        ("torch.float8_e4m3fn", Target(gaudi="gaudi3"), "native"),
        ("torch.int64", Target(mode="lazy"), "emulated"),
        ("torch.int64", Target(mode="compile"), "native"),
        ("torch.int64", Target(gaudi="gaudi1", mode="eager"), "emulated"),
        ("torch.compile", Target(mode="lazy"), "unsupported"),
        ("habana_frameworks.torch.core.mark_step", Target(mode="eager"), "noop"),
        ("habana_frameworks.torch.core.mark_step", Target(mode="lazy"), "native"),
        ("PT_HPU_AUTOLOAD", Target(stack="1.17"), "unsupported"),
        ("mpirun --rank-by core", Target(stack="1.22"), "native"),
        ("mpirun --rank-by core", Target(stack="1.23"), "changed"),
    ],
)
def test_a_verdict_depends_on_the_target(name: str, target: Target, status: str) -> None:
    assert M.verdict(name, target).status == status


def test_a_limit_ends_with_the_patch_releases_of_its_last_release() -> None:
    row = M.row("PT_HPU_LAZY_MODE")
    assert row is not None
    old, new = row.limits
    for stack, expected in (("1.20", old), ("1.20.1", old), ("1.21", new), ("1.24.1", new)):
        assert M.assess(row, Target(stack=stack)).limits == (expected,)


def test_versions_of_packages_are_told_and_never_decide() -> None:
    verdict = M.verdict("lightning.Trainer(accelerator=)")
    assert verdict.status == "unsupported"
    assert [limit.package for limit in verdict.limits] == ["pytorch-lightning"]


def test_every_name_of_a_row_finds_it() -> None:
    row = M.row("torch.autocast")
    assert row is not None
    for name in row.names:
        assert M.row(name) is row


def test_a_kind_picks_among_rows_of_one_name() -> None:
    assert M.row("deepspeed", "command") is not M.row("deepspeed", "package")
    assert M.row("torch.cuda.synchronize", "env") is None


def test_what_a_module_says_holds_for_its_names_only_when_it_must() -> None:
    flash = M.verdict("flash_attn.bert_padding.unpad_input")
    assert (flash.status, flash.inherited) == ("unsupported", True)
    norm = M.verdict("torch.linalg.norm")
    assert (norm.status, norm.inherited) == ("emulated", True)
    made_up = M.verdict("torch.distributed.made_up")
    assert (made_up.status, made_up.inherited, made_up.known) == ("unknown", True, False)
    assert M.row("torch.distributed.made_up") is None


def test_a_family_answers_for_its_members() -> None:
    verdict = M.verdict("NCCL_MADE_UP")
    assert verdict.row is not None
    assert (verdict.row.name, verdict.status) == ("NCCL_*", "noop")
    longest = M.covering("TORCH_NCCL_MADE_UP")
    assert longest is not None
    assert longest.name == "TORCH_NCCL_*"


def test_an_unknown_name_is_unknown_and_says_so() -> None:
    verdict = M.verdict("nowhere.at_all")
    assert (verdict.status, verdict.row, verdict.known) == ("unknown", None, False)
    assert "no row" in verdict.note


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("torch.cuda.synchronise", "torch.cuda.synchronize"),
        ("empty_cache", "torch.cuda.empty_cache"),
        ("set_devise", "torch.cuda.set_device"),
        ("torch.cuda.max_memory_alocated", "torch.cuda.max_memory_allocated"),
    ],
)
def test_near_misses_are_suggested(wrong: str, right: str) -> None:
    assert right in M.near(wrong)


def test_a_pattern_finds_names_and_other_names() -> None:
    found = {row.name for row in M.find("torch.cuda.memory_*")}
    assert {"torch.cuda.memory_allocated", "torch.cuda.memory_stats"} <= found
    assert all(
        any(name.startswith("torch.cuda.memory_") for name in row.names)
        for row in M.find("torch.cuda.memory_*")
    )
    assert any(row.name == "torch.cuda.synchronize" for row in M.find("SYNCHRONIZE"))


def test_a_gaudi_name_leads_back() -> None:
    assert [row.name for row in M.reverse("torch.hpu.synchronize")] == ["torch.cuda.synchronize"]
    assert {row.name for row in M.reverse("hccl")} >= {"nccl"}
    back = {row.name for row in M.reverse("torch.hpu.reset_peak_memory_stats")}
    assert "torch.cuda.reset_max_memory_allocated" in back


def test_arguments_of_a_callable_are_found_together() -> None:
    names = {row.name for row in M.arguments("torch.load")}
    assert names == {"torch.load(map_location=)", "torch.load(weights_only=)"}


def test_rows_of_a_rule_and_of_an_action() -> None:
    assert all(row.rule == "HPU401" for row in M.by_rule("HPU401"))
    assert M.by_rule("HPU401")
    assert {row.name for row in M.by_runtime("block")} >= {"flash_attn", "triton"}
    assert all(row.kind == "image" for row in M.by_kind("image"))


def test_releases_know_their_torch() -> None:
    assert M.releases["1.22"].torch == ("2.7.1",)
    newest = M.release("1.24")
    assert newest is not None
    assert newest.stack == "1.24.1"
    assert M.release("1.20.1") is M.releases["1.20"]
    assert M.release("9.9") is None
    assert M.torch_mismatch("1.22", "2.7.1+hpu_1.22.0") is None
    warning = M.torch_mismatch("1.22", "2.6.0+cpu")
    assert warning is not None
    assert "2.7.1" in warning
    assert "1.20, 1.21" in warning
    assert M.torch_mismatch("1.23", "2.9.0") is None
    assert "which is 2.9.0" in (M.torch_mismatch("1.23", "2.6.0") or "")
    assert "known releases" in (M.torch_mismatch("9.9", "2.6.0") or "")


def test_a_generation_that_a_release_leaves_out_is_told() -> None:
    assert M.generation_mismatch(Target(gaudi="gaudi2", stack="1.24")) is None
    assert "Gaudi 2 and Gaudi 3" in (
        M.generation_mismatch(Target(gaudi="gaudi1", stack="1.24")) or ""
    )


def test_a_portable_target_runs_in_the_mode_of_its_release() -> None:
    assert M.mode(Target(stack="1.20")) == "lazy"
    assert M.mode(Target(stack="1.21")) == "eager"
    assert M.mode(Target(stack="1.21", mode="compile")) == "compile"


def test_sources_resolve_to_addresses() -> None:
    row = M.row("torch.cuda.synchronize")
    assert row is not None
    (title, url), *_ = M.citations(row)
    assert title.startswith("gaudi-pytorch-bridge 1.19.0")
    assert url.startswith("https://github.com/HabanaAI/gaudi-pytorch-bridge/blob/1.19.0/python")


def test_operators_have_a_class_each() -> None:
    support = M.operators.support
    assert len(support) == 3012
    assert support["aten::add.Tensor"] == "native"
    assert support["aten::_cudnn_rnn"] == "none"
    assert support["aten::linalg_qr"] == "fallback"
    assert M.operators.of("aten::linalg_qr", "fallback")


def test_dtype_gates_differ_by_generation() -> None:
    old, new = (M.operators.dtypes("aten::mm", gaudi) for gaudi in ("gaudi1", "gaudi2"))
    assert old == {"*": frozenset({"float32", "bfloat16"})}
    assert new is not None
    assert new["*"] > old["*"]
    named = M.operators.dtypes("aten::native_batch_norm", "gaudi3")
    assert named is not None
    assert named["weight"] == {"float32"}
    assert "float16" in named["input"]
    assert M.operators.dtypes("aten::made_up", "gaudi2") is None
    assert any("five dimensions" in note for note in M.operators.notes["aten::index_select"])


def test_autocast_lists_and_memory_are_there() -> None:
    assert "softmax" in M.autocast.lower.split()
    assert "cross_entropy_loss" in M.autocast.fp32.split()
    assert [info.memory_gb for info in M.generations.values()] == [32, 96, 128]
    # A GB of the vendor's is 2**30 bytes, of which torch is given 928 MiB and a page less, where a machine's own words were published.
    assert [info.memory_bytes for info in M.generations.values()] == [
        32 << 30, (96 << 30) - (928 << 20) - 4096, (128 << 30) - (928 << 20) - 4096,
    ]  # fmt: skip
    assert [info.tensor_cores for info in M.generations.values()] == [0, 24, 64]
