"""What apex is here, on the CPU: which parts of torch stand for it, and the arithmetic that is its own."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from hpushim.errors import HpushimError
from hpushim.shim.imports.apex import amp, fp16_utils, kernels, optimizers, parallel


def _parameter(value: float, slope: float | None) -> torch.nn.Parameter:
    made = torch.nn.Parameter(torch.tensor([value, 0.0]))
    made.grad = None if slope is None else torch.tensor([slope, 0.0])
    return made


def _refused(function: Any, *args: Any, **how: Any) -> bool:
    try:
        function(*args, **how)
    except (HpushimError, RuntimeError):
        return True
    return False


def test_kernels_that_are_not_there_say_so() -> None:
    applier = kernels.multi_tensor_applier
    assert (applier.available, applier.chunk_size, kernels.MultiTensorApply().chunk_size) == (False, 65536, 0)  # fmt: skip
    assert _refused(applier, None)
    one = _parameter(1.0, 3.0)
    assert kernels.clip_grad_norm_([one], 1.5).item() == 3.0 and one.grad is not None
    assert one.grad.tolist() == pytest.approx([1.5, 0.0], abs=1e-5)


@pytest.mark.parametrize("clip", [True, False])
@pytest.mark.parametrize(("value", "slope", "decay"), [(2.0, 4.0, 0.0), (2.0, 4.0, 0.5), (0.0, 4.0, 0.5), (2.0, 0.0, 0.5), (2.0, None, 0.5), (200.0, 0.25, 0.0)])  # fmt: skip
def test_rates_are_scaled_by_layer(clip: bool, value: float, slope: float | None, decay: float) -> None:  # fmt: skip
    one = _parameter(value, slope)
    inner = torch.optim.SGD([one], lr=0.1, weight_decay=decay)
    larc = optimizers.LARC(inner, trust_coefficient=0.1, clip=clip, eps=0.5)
    seen: list[Any] = []
    inner.register_step_pre_hook(lambda *_: seen.append((inner.param_groups[0]["weight_decay"], None if one.grad is None else one.grad.clone().tolist())))  # fmt: skip
    assert larc.step() is None
    local = 0.1 * value / ((slope or 0.0) + value * decay + 0.5)
    local = min(local / 0.1, 1.0) if clip else local
    scaled = (slope + decay * value) * local if slope and value else slope
    ((decayed, grads),) = seen
    assert decayed == 0 and inner.param_groups[0]["weight_decay"] == decay
    assert grads == (None if slope is None else pytest.approx([scaled, 0.0]))
    assert larc.param_groups is inner.param_groups
    with pytest.raises(AttributeError, match="optim"):
        optimizers.LARC.__new__(optimizers.LARC).optim  # noqa: B018
    default = optimizers.LARC(inner)
    assert (default.trust_coefficient, default.clip, default.eps) == (0.02, True, 1e-8)


@pytest.mark.parametrize("adam_w", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("amsgrad", [True, False])
def test_adam_is_torch_s_of_the_kind_that_is_asked_for(adam_w: bool, bias: bool, amsgrad: bool) -> None:  # fmt: skip
    def make() -> Any:
        return optimizers.FusedAdam([_parameter(1.0, 1.0)], lr=0.5, betas=(0.1, 0.2), eps=0.25, weight_decay=0.125, adam_w_mode=adam_w, bias_correction=bias, amsgrad=amsgrad, set_grad_none=True)  # fmt: skip

    if amsgrad or not bias:
        assert _refused(make)
        return
    made = make()
    assert type(made) is (optimizers.FusedAdam if adam_w else torch.optim.Adam)
    assert {name: made.defaults[name] for name in ("lr", "betas", "eps", "weight_decay")} == {"lr": 0.5, "betas": (0.1, 0.2), "eps": 0.25, "weight_decay": 0.125}  # fmt: skip
    plain = optimizers.FusedSGD([_parameter(1.0, 1.0)], 0.5, momentum=0.25, wd_after_momentum=True, materialize_master_grads=True, set_grad_none=True)  # fmt: skip
    assert (plain.defaults["lr"], plain.defaults["momentum"]) == (0.5, 0.25)


@pytest.mark.parametrize("affine", [True, False])
def test_a_network_in_16_bits(affine: bool) -> None:
    inner = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Sequential(torch.nn.BatchNorm1d(2, affine=affine)))  # fmt: skip
    inner[0].weight.requires_grad_(False)
    made = fp16_utils.network_to_half(inner)
    assert (inner[0].weight.dtype, inner[1][0].running_mean.dtype) == (torch.bfloat16, torch.float32 if affine else torch.bfloat16)  # fmt: skip
    assert made[0](torch.ones(2)).dtype is torch.bfloat16 and made[1] is inner
    own, copies = fp16_utils.prep_param_lists(inner)
    assert len(own) == len(copies) == 1 + 2 * affine
    assert [one.dtype for one in copies] == [torch.float32] * len(copies)
    assert all(one.grad is not None and not one.grad.any() for one in copies)
    assert _refused(fp16_utils.prep_param_lists, inner, flat_master=True)
    own[0].grad = torch.full_like(own[0], 2.0)
    fp16_utils.model_grads_to_master_grads(own, copies)
    assert copies[0].grad is not None and copies[0].grad.tolist() == [2.0, 2.0]
    assert copies[0].grad.dtype is torch.float32 and all(one.grad is None for one in copies[1:])
    copies[0].data.fill_(3.0)
    fp16_utils.master_params_to_model_params(own, copies)
    assert own[0].tolist() == [3.0, 3.0]
    assert (fp16_utils.to_python_float(torch.tensor(2.5)), fp16_utils.to_python_float([1, 2])) == (2.5, 1.0)  # fmt: skip


def test_an_optimizer_whose_loss_needs_no_scaling() -> None:
    one = _parameter(1.0, None)
    inner = torch.optim.SGD([one], lr=0.5)
    made = fp16_utils.FP16_Optimizer(inner, static_loss_scale=128)
    made.backward((one * 2).sum(), retain_graph=False)
    assert one.grad is not None and one.grad.tolist() == [2.0, 2.0]
    assert made.update_master_grads() is None and made.param_groups is inner.param_groups
    assert made.clip_master_grads(10.0).item() == pytest.approx(8**0.5)
    assert made.clip_master_grads(10.0, norm_type=1).item() == pytest.approx(4.0)
    state = made.state_dict()
    assert state.keys() == {"optimizer_state_dict", "loss_scaler"} and state["loss_scaler"] is None
    for given in (state, state["optimizer_state_dict"]):
        given = dict(given)
        inner.param_groups[0]["lr"] = 0.25
        made.load_state_dict(given)
        assert inner.param_groups[0]["lr"] == 0.5
    assert (made.loss_scale, made.overflow) == (1.0, False)


@pytest.mark.parametrize("level", ["O0", "O1", "O3", "O4"])
@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("several", [True, False])
def test_models_run_under_autocast_from_the_first_level_on(monkeypatch: pytest.MonkeyPatch, level: str, enabled: bool, several: bool) -> None:  # fmt: skip
    asked: list[Any] = []
    real = torch.autocast
    monkeypatch.setattr(torch, "autocast", lambda device, **how: asked.append((device, how)) or real("cpu", **{"dtype": torch.bfloat16, **how}))  # fmt: skip
    models = [torch.nn.Linear(2, 2) for _ in range(2)]
    given = models if several else models[0]
    if level == "O4":
        with pytest.raises(RuntimeError, match="apex opt_level 'O4': expected one of O0, O1, O2, O3"):  # fmt: skip
            amp.initialize(given, opt_level=level)
        return
    assert amp.initialize(given, enabled=enabled, opt_level=level, num_losses=3) is given
    assert amp.initialize(torch.nn.Linear(1, 1), "optimizers", enabled=False)[1] == "optimizers"
    assert len(amp._amp_state.loss_scalers) == 1
    assert amp._amp_state.loss_scalers[0].loss_scale() == 1.0
    found = [model(torch.ones(2)).dtype for model in (models if several else models[:1])]
    assert found == [torch.float32] * len(found)
    casts = enabled and level != "O0"
    assert asked == [("hpu", {"dtype": torch.bfloat16})] * (len(found) * casts)
    with amp.scale_loss(loss := torch.ones(1), None) as scaled:
        assert scaled is loss
    assert [*amp.master_params(torch.optim.SGD([one := _parameter(1.0, None)], lr=0.1))] == [one]
    with amp.disable_casts():
        assert asked[-1] == ("hpu", {"enabled": False})
    assert (amp.state_dict(), amp.load_state_dict({}), amp.init(), amp.half_function(level)) == ({}, None, None, level)  # fmt: skip
    assert amp._to_float([torch.ones(1, dtype=torch.float64), torch.ones(1, dtype=torch.bfloat16), 3])[0].dtype is torch.float64  # fmt: skip


@pytest.mark.parametrize(("group", "rank", "mine"), [(0, 1, None), (4, 1, None), (2, 1, (0, 1)), (2, 2, (2, 3)), (1, 3, (3,)), (3, 0, ValueError), (8, 0, ValueError)])  # fmt: skip
def test_groups_of_neighbours(monkeypatch: pytest.MonkeyPatch, group: int, rank: int, mine: Any) -> None:  # fmt: skip
    import torch.distributed as dist

    made: list[list[int]] = []
    monkeypatch.setattr(dist, "get_world_size", lambda: 4)
    monkeypatch.setattr(dist, "get_rank", lambda: rank)
    monkeypatch.setattr(dist, "new_group", lambda ranks: made.append(ranks) or tuple(ranks))
    if mine is ValueError:
        with pytest.raises(ValueError, match=rf"^4 processes do not divide into groups of {group}$"):  # fmt: skip
            parallel.create_syncbn_process_group(group)
        return
    assert parallel.create_syncbn_process_group(group) == mine
    assert made == ([] if mine is None else [list(range(n, n + group)) for n in range(0, 4, group)])


@pytest.mark.parametrize("module", [True, False])
def test_a_reducer_averages(monkeypatch: pytest.MonkeyPatch, module: bool) -> None:
    import torch.distributed as dist

    sent: list[Any] = []
    monkeypatch.setattr(dist, "get_world_size", lambda: 4)
    monkeypatch.setattr(dist, "broadcast", lambda tensor, source: sent.append((tuple(tensor.shape), source)))  # fmt: skip
    monkeypatch.setattr(dist, "all_reduce", lambda tensor: tensor.mul_(8))
    model = torch.nn.Linear(2, 1)
    model.bias.grad = torch.ones(1)
    made = parallel.Reducer(model if module else [torch.ones(2), torch.ones(3)])
    assert sent == ([((1, 2), 0), ((1,), 0)] if module else [])
    made.reduce()
    assert [one.tolist() for one in made.grads] == ([[2.0]] if module else [[2.0] * 2, [2.0] * 3])
