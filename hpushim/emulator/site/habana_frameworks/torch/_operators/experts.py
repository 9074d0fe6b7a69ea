"""The mixture of experts: routed feed-forward layers in one operator."""

from __future__ import annotations

from habana_frameworks.torch._operators._library import operator

import torch

_ACTIVATIONS = {
    "gelu": torch.nn.functional.gelu,
    "relu": torch.nn.functional.relu,
    "silu": torch.nn.functional.silu,
}


def _hidden(states, gate, up, activation):
    return activation(states @ gate) * (states @ up)


def _mixture(states, table, weights, gates, ups, downs, activation, first, last, measure):
    """Sums, for each token, the chosen experts' results times their weights; experts ``first`` to ``last`` live here."""
    function = _ACTIVATIONS.get(activation)
    if function is None:
        raise RuntimeError(
            f"mixture_of_experts: activation {activation!r}; expected one of {', '.join(_ACTIVATIONS)}"
        )
    total = torch.zeros_like(states, dtype=torch.float32)
    largest = torch.zeros(len(gates), dtype=torch.float32, device=states.device)
    for number, (gate, up, down) in enumerate(zip(gates, ups, downs, strict=True)):
        share = (weights.float() * (table == number + first)).sum(-1, keepdim=True)
        inner = _hidden(states, gate, up, function)
        total = total + share * (inner @ down).float()
        if measure:
            largest[number] = inner.amax()
    total = total.to(states.dtype)
    return (total, largest) if measure else total


def _turned(matrices, permuted):
    return [matrix.t() if permuted else matrix for matrix in matrices]


def _halves(fused, permuted):
    pairs = [matrix.chunk(2, 1) for matrix in _turned(fused, permuted)]
    return [one for one, _ in pairs], [other for _, other in pairs]


_COMMON = "bool permuted_weights, str activation, int experts_min, int experts_max"
_INPUT = "Tensor hidden_states, Tensor expert_routing_table, Tensor router_weights"


@operator(
    f"mixture_of_experts({_INPUT}, Tensor[] w1, Tensor[] w2, Tensor[] w3, {_COMMON}) -> Tensor"
)
@operator(
    f"mixture_of_experts.fp8_measurement({_INPUT}, Tensor[] w1, Tensor[] w2, Tensor[] w3, {_COMMON}, "
    "bool measurement_mode) -> (Tensor, Tensor)"
)
def mixture_of_experts(
    states, table, weights, w1, w2, w3, permuted, activation, first, last, measurement_mode=None
):
    """``w1`` and ``w2`` open the hidden layer, ``w3`` closes it; with ``measurement_mode`` also each expert's largest
    activation, float32."""
    matrices = (_turned(each, permuted) for each in (w1, w2, w3))
    measure = measurement_mode is not None
    return _mixture(states, table, weights, *matrices, activation, first, last, measure)


@operator(
    f"mixture_of_experts.fused_weights({_INPUT}, Tensor[] w12, Tensor[] w3, {_COMMON}) -> Tensor"
)
@operator(
    f"mixture_of_experts.fp8_measurement_fused_weights({_INPUT}, Tensor[] w12, Tensor[] w3, {_COMMON}, "
    "bool measurement_mode) -> (Tensor, Tensor)"
)
def mixture_of_experts_fused(
    states, table, weights, w12, w3, permuted, activation, first, last, measurement_mode=None
):
    """The same with ``w1`` and ``w2`` side by side."""
    gates, ups = _halves(w12, permuted)
    downs = _turned(w3, permuted)
    measure = measurement_mode is not None
    return _mixture(states, table, weights, gates, ups, downs, activation, first, last, measure)
