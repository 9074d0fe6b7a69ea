"""Fused optimizers against torch's own, or against the formula written out, over several steps."""

from __future__ import annotations

import copy
import importlib
import math

import pytest

torch = pytest.importorskip("torch")


def _optimizers():
    return importlib.import_module("habana_frameworks.torch.hpex.optimizers")


def _params(seed=3, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    shapes = [(4, 3), (5,), (2, 2, 2)]
    return [
        torch.randn(*s, generator=generator).to(dtype).to("hpu").requires_grad_() for s in shapes
    ]


def _run(params, optimizer, steps=6):
    """Steps with the same gradients for every optimizer; the last parameter gets none at first."""
    generator = torch.Generator().manual_seed(17)
    for step in range(steps):
        for place, p in enumerate(params):
            grad = torch.randn(p.shape, generator=generator).to(p.dtype).to(p.device)
            p.grad = None if place == 2 and step < 2 else grad
        optimizer.step()
    return [p.detach().cpu() for p in params]


def _equal(ours, theirs, tolerance=1e-6):
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_adamw_is_torchs_but_for_defaults(decay):
    ours, theirs = _params()[:2], _params()[:2]
    fused = _optimizers().FusedAdamW(ours, lr=0.01, eps=1e-8, weight_decay=decay)
    # eps is added after the bias correction in torch and before it here: 1e-8 makes no difference.
    plain = torch.optim.AdamW(theirs, lr=0.01, eps=1e-8, weight_decay=decay)
    _equal(_run(ours, fused), _run(theirs, plain), 1e-5)


def test_adamw_formula_and_defaults():
    params = _params()
    optimizer = _optimizers().FusedAdamW(params)
    assert optimizer.defaults["eps"] == 1e-6
    assert optimizer.defaults["weight_decay"] == 0.0
    start = params[0].detach().clone()
    params[0].grad = torch.ones_like(params[0])
    optimizer.step()
    moved = start - params[0].detach()
    size = 1e-3 * math.sqrt(1 - 0.999) / (1 - 0.9)
    expected = size * 0.1 / (math.sqrt(1e-3) + 1e-6)
    torch.testing.assert_close(moved, torch.full_like(moved, expected), rtol=1e-4, atol=1e-7)


def test_adamw_without_bias_correction():
    params = _params()
    optimizer = _optimizers().FusedAdamW(params, bias_correction=False)
    start = params[0].detach().clone()
    params[0].grad = torch.ones_like(params[0])
    optimizer.step()
    expected = 1e-3 * 0.1 / (math.sqrt(1e-3) + 1e-6)
    moved = start - params[0].detach()
    torch.testing.assert_close(moved, torch.full_like(moved, expected), rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(
    "moments",
    [torch.bfloat16, (torch.bfloat16, torch.float32), (torch.float8_e4m3fn, torch.float8_e5m2)],
)
def test_adamw_with_narrow_moments(moments):
    ours, theirs = _params(), _params()
    narrow = _optimizers().FusedAdamW(ours, lr=0.01, moments_dtype=moments)
    wide = _optimizers().FusedAdamW(theirs, lr=0.01)
    first = moments[0] if isinstance(moments, tuple) else moments
    _equal(_run(ours, narrow), _run(theirs, wide), 0.05)
    assert narrow.state[ours[0]]["exp_avg"].dtype == first
    assert narrow.moments_in_fp8 == (first == torch.float8_e4m3fn)


def test_adamw_state_survives_saving():
    params = _params()
    optimizer = _optimizers().FusedAdamW(params, lr=0.01)
    _run(params, optimizer, 3)
    again = [p.detach().clone().requires_grad_() for p in params]
    other = _optimizers().FusedAdamW(again, lr=0.01)
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert other.param_groups[0]["step"] == 3
    _equal(_run(params, optimizer, 2), _run(again, other, 2))


def test_functional_adamw_is_the_fused_one():
    distributed = importlib.import_module("habana_frameworks.torch.hpex.optimizers.distributed")
    ours, theirs = _params(), _params()
    functional = distributed.FusedAdamW(ours, lr=0.01, weight_decay=0.1)
    fused = _optimizers().FusedAdamW(theirs, lr=0.01, weight_decay=0.1)
    for step in range(4):
        grads = [torch.full_like(p, 0.1 * (step + 1)) for p in ours]
        functional.step(grads)
        for p, grad in zip(theirs, grads, strict=True):
            p.grad = grad
        fused.step()
    _equal([p.detach() for p in ours], [p.detach() for p in theirs])
    with pytest.raises(NotImplementedError, match="emulated HPU"):
        functional.step_param(ours[0], None)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"weight_decay": 0.1},
        {"momentum": 0.9},
        {"momentum": 0.9, "dampening": 0.5, "weight_decay": 0.1},
        {"momentum": 0.9, "nesterov": True},
    ],
)
def test_sgd(settings):
    ours, theirs = _params(), _params()
    fused = _optimizers().FusedSGD(ours, lr=0.1, **settings)
    _equal(_run(ours, fused), _run(theirs, torch.optim.SGD(theirs, lr=0.1, **settings)))


def test_sgd_needs_a_rate():
    with pytest.raises(ValueError, match="lr"):
        _optimizers().FusedSGD(_params())


@pytest.mark.parametrize(
    "settings", [{}, {"lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.5}]
)
def test_adagrad(settings):
    ours, theirs = _params(), _params()
    fused = _optimizers().FusedAdagrad(ours, lr=0.1, **settings)
    _equal(_run(ours, fused), _run(theirs, torch.optim.Adagrad(theirs, lr=0.1, **settings)))


@pytest.mark.parametrize("averaging", [True, False])
@pytest.mark.parametrize("limit", [1.0, 0.01, None])
def test_lamb_formula(averaging, limit):
    params = _params()[:1]
    optimizer = _optimizers().FusedLamb(
        params, lr=0.01, weight_decay=0.1, max_grad_norm=limit, grad_averaging=averaging
    )
    weight = params[0].detach().clone()
    first, second = torch.zeros_like(weight), torch.zeros_like(weight)
    for step in range(1, 4):
        grad = torch.full_like(weight, 0.05 * step)
        params[0].grad = grad.clone()
        optimizer.step()
        norm = grad.norm()
        if limit is not None and norm > limit:
            grad = grad / (norm / limit)
        first = 0.9 * first + (0.1 if averaging else 1.0) * grad
        second = 0.999 * second + 0.001 * grad * grad
        update = (first / (1 - 0.9**step)) / ((second / (1 - 0.999**step)).sqrt() + 1e-6)
        update = update + 0.1 * weight
        weight = weight - 0.01 * (weight.norm() / update.norm()) * update
    torch.testing.assert_close(params[0].detach(), weight, rtol=1e-5, atol=1e-6)


def test_lars_scales_gradients_for_the_wrapped_optimizer():
    params = _params()
    inner = torch.optim.SGD(params, lr=0.5, weight_decay=0.1)
    optimizer = _optimizers().FusedLars(inner, skip_mask=[1, 0, 1], eeta=0.01, eps=1e-8)
    before = [p.detach().clone() for p in params]
    for p in params:
        p.grad = torch.full_like(p, 0.3)
    optimizer.step()
    for place, (p, old) in enumerate(zip(params, before, strict=True)):
        grad = torch.full_like(old, 0.3)
        if place == 1:
            scaled = grad * 0.5
        else:
            ratio = 0.01 * old.norm() / (grad.norm() + 0.1 * old.norm() + 1e-8)
            scaled = (grad + 0.1 * old) * ratio * 0.5
        torch.testing.assert_close(p.detach(), old - 0.5 * scaled)
    assert inner.param_groups[0]["weight_decay"] == 0.1


def test_resource_apply_momentum():
    params = _params()[:1]
    optimizer = _optimizers().FusedResourceApplyMomentum(params, lr=0.1, momentum=0.9)
    weight = params[0].detach().clone()
    buffer = torch.full_like(weight, 0.2)
    for step in range(3):
        params[0].grad = torch.full_like(weight, 0.2)
        optimizer.step()
        buffer = buffer if step == 0 else 0.9 * buffer - 0.2
        weight = weight + buffer
    torch.testing.assert_close(params[0].detach(), weight)


@pytest.mark.parametrize("name", ["Adam", "AdamW"])
def test_marking_optimizers_are_torchs(name):
    ours, theirs = _params(), _params()
    marking = getattr(_optimizers(), name)(ours, lr=0.01)
    _equal(_run(ours, marking), _run(theirs, getattr(torch.optim, name)(theirs, lr=0.01)))


def test_moving_average():
    average = importlib.import_module("habana_frameworks.torch.hpex.movingavrg")
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)).to("hpu")
    ema = average.FusedEMA(model, decay=0.9)
    before = [v.clone() for v in ema.ema.state_dict().values()]
    with torch.no_grad():
        for p in model.parameters():
            p.add_(1.0)
    ema.update(model)
    kept = 0.9 * (1 - math.exp(-1 / 2000))
    for old, new, value in zip(
        before, ema.ema.state_dict().values(), model.state_dict().values(), strict=True
    ):
        if new.is_floating_point():
            torch.testing.assert_close(new, old * kept + (1 - kept) * value)
    assert not ema.ema.training
