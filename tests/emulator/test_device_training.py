"""Training on the emulated device gives the CPU's numbers."""

from __future__ import annotations

import copy

import pytest
import torch
from crossed import crossed
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (
            part.view(b, t, self.heads, c // self.heads).transpose(1, 2)
            for part in self.qkv(self.before(x)).split(c, 2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, c)
        x = x + self.out(y)
        return x + self.mlp(self.after(x))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.token, self.place = nn.Embedding(17, 32), nn.Embedding(12, 32)
        self.blocks = nn.Sequential(Block(32, 4), Block(32, 4))
        self.head = nn.Linear(32, 17, bias=False)

    def forward(self, ids):
        x = self.token(ids) + self.place(torch.arange(ids.shape[1], device=ids.device))
        return self.head(self.blocks(x)).flatten(0, 1)


def conv_net():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, groups=2),
        nn.GroupNorm(2, 8),
        nn.ConvTranspose2d(8, 4, 2, stride=2),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(16, 5),
    )


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.cells = kind(6, 8, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        return self.head(self.cells(x)[0][:, -1])


def images():
    return torch.randn(4, 3, 8, 8), torch.randint(0, 5, (4,))


def sequences():
    return torch.randn(4, 7, 6), torch.randint(0, 5, (4,))


def tokens():
    ids = torch.randint(0, 17, (4, 12))
    return ids, ids.roll(-1, 1).flatten()


MODELS = {
    "gpt": (Gpt, tokens),
    "conv": (conv_net, images),
    "lstm": (lambda: Recurrent(nn.LSTM), sequences),
    "gru": (lambda: Recurrent(nn.GRU), sequences),
    "encoder": (
        lambda: nn.Sequential(
            nn.TransformerEncoderLayer(6, 2, 12, dropout=0.0, batch_first=True),
            nn.Flatten(),
            nn.Linear(42, 5),
        ),
        sequences,
    ),
}
OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=1e-2),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-2),
    "adamw_foreach": lambda p: torch.optim.AdamW(p, lr=1e-2, foreach=True),
    "adam_fused": lambda p: torch.optim.Adam(p, lr=1e-2, fused=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=1e-3),
}


def packed(cells):
    lengths = torch.tensor([7, 3, 5, 1])

    def run(x):
        rows = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return nn.utils.rnn.pad_packed_sequence(cells(rows)[0], batch_first=True)[0]

    return run


class Calls(nn.Module):
    """Parameters, and a function of them that is not a layer."""

    def __init__(self, made, run):
        super().__init__()
        self.made, self.run = made, run

    def forward(self, *inputs):
        return self.run(self.made, *inputs)


def attention(_, x):
    heads = x.view(4, 7, 2, 3).transpose(1, 2)
    return F.scaled_dot_product_attention(heads, heads, heads)


LAYERS = {
    "conv_norm": (lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)), images),
    "conv_transpose": (lambda: nn.ConvTranspose2d(3, 4, 3, stride=2), images),
    "embedding": (lambda: nn.Embedding(17, 8), tokens),
    "embedding_bag": (lambda: nn.EmbeddingBag(17, 8, mode="mean"), tokens),
    "dropout": (lambda: nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5)), sequences),
    "cross_entropy": (
        lambda: Calls(
            nn.Linear(6, 5), lambda m, x: F.cross_entropy(m(x[:, 0]), x[:, 1].argmax(-1) % 5)
        ),
        sequences,
    ),
    "lstm": (lambda: Calls(nn.LSTM(6, 8, batch_first=True), lambda m, x: m(x)[0]), sequences),
    "gru": (lambda: Calls(nn.GRU(6, 8, batch_first=True), lambda m, x: m(x)[0]), sequences),
    "packed": (
        lambda: Calls(nn.LSTM(6, 8, batch_first=True), lambda m, x: packed(m)(x)),
        sequences,
    ),
    "attention": (lambda: Calls(nn.Linear(6, 6), lambda m, x: attention(m, m(x))), sequences),
    "encoder_layer": (
        lambda: nn.TransformerEncoderLayer(6, 2, 12, dropout=0.0, batch_first=True),
        sequences,
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_equal_the_cpu(name):
    """Output and gradients, element by element; dropout draws what a CPU generator of the seed draws."""
    make, data = LAYERS[name]
    torch.manual_seed(3)
    here = make()
    there = copy.deepcopy(here).to("hpu")
    inputs = data()[0]
    results = []
    for model, where in ((here, "cpu"), (there, "hpu")):
        torch.manual_seed(5)
        out = model(inputs.to(where))
        out.square().sum().backward()
        results.append([out.detach(), *(p.grad for p in model.parameters())])
    for a, b in zip(*results, strict=True):
        assert b.device.type == "hpu"
        torch.testing.assert_close(b.cpu(), a, rtol=1e-5, atol=1e-6)


def train(model, data, optimizer, device):
    inputs, targets = (part.to(device) for part in data)
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs), targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize(("optimizer", "name"), crossed(OPTIMIZERS, MODELS, rounds=1))
def test_four_steps_equal_the_cpu(name, optimizer):
    torch.manual_seed(0)
    make, data = MODELS[name]
    here = make()
    there = copy.deepcopy(here)
    batch = data()
    parameters = list(there.parameters())
    made_before_the_move = OPTIMIZERS[optimizer](parameters)
    there.to("hpu")
    assert [id(p) for p in there.parameters()] == [id(p) for p in parameters], (
        "Module.to keeps the parameters"
    )
    expected = train(here, batch, OPTIMIZERS[optimizer](here.parameters()), "cpu")
    got = train(there, batch, made_before_the_move, "hpu")
    assert got == pytest.approx(expected, rel=1e-5)
    for p, q in zip(here.parameters(), there.parameters(), strict=True):
        assert q.device.type == "hpu" and type(q) is nn.Parameter
        torch.testing.assert_close(q.detach().cpu(), p.detach(), rtol=1e-4, atol=1e-5)


def test_attention_takes_the_kernel_of_the_cpu():
    q = torch.randn(1, 2, 8, 16, requires_grad=True)
    there = q.detach().to("hpu").requires_grad_()
    a = F.scaled_dot_product_attention(q, q, q, is_causal=True)
    b = F.scaled_dot_product_attention(there, there, there, is_causal=True)
    assert type(a.grad_fn).__name__ == type(b.grad_fn).__name__
    a.sum().backward()
    b.sum().backward()
    assert torch.equal(a, b.cpu()) and torch.equal(q.grad, there.grad.cpu())


def test_checkpointing_replays_dropout():
    from torch.utils.checkpoint import checkpoint

    torch.manual_seed(0)
    x = torch.ones(200, device="hpu", requires_grad=True)
    y = checkpoint(lambda t: F.dropout(t * 2, 0.5), x, use_reentrant=False)
    y.sum().backward()
    assert torch.equal(x.grad, torch.where(y > 0, 4.0, 0.0))


def test_hooks_and_custom_functions():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            assert grad.device.type == "hpu"
            return grad * 2

    seen = []
    x = torch.ones(2, device="hpu", requires_grad=True)
    y = Double.apply(x)
    y.register_hook(lambda g: seen.append(g.device.type))
    x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.sum().item()))
    y.sum().backward()
    assert seen == ["hpu", 4.0]


def test_custom_op_with_a_cpu_kernel_runs():
    @torch.library.custom_op("hpushim_test::triple", mutates_args=(), device_types="cpu")
    def triple(x: torch.Tensor) -> torch.Tensor:
        return x * 3

    assert triple(torch.ones(2, device="hpu")).tolist() == [3, 3]


def test_functional_transforms():
    def f(x):
        return (x.sin() ** 2).sum()

    x = torch.linspace(0, 1, 5)
    assert torch.allclose(torch.func.grad(f)(x.to("hpu")).cpu(), torch.func.grad(f)(x))
    batched = torch.func.vmap(torch.func.grad(f))(x.view(5, 1).to("hpu"))
    assert batched.device.type == "hpu" and batched.shape == (5, 1)


def test_scaler_runs_on_hpu():
    model = nn.Linear(3, 1).to("hpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("hpu", init_scale=8.0)
    scaler.scale(model(torch.ones(2, 3, device="hpu")).sum()).backward()
    scaler.unscale_(optimizer)
    assert model.bias.grad.item() == 2.0
    scaler.step(optimizer)
    scaler.update()
    model.weight.grad.fill_(float("inf"))
    before = model.weight.detach().clone()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert torch.equal(model.weight, before) and scaler.get_scale() == 4.0


def test_a_custom_compile_backend_sees_hpu():
    seen = []

    def backend(graph, inputs):
        seen.extend(i.device.type for i in inputs if isinstance(i, torch.Tensor))
        return graph.forward

    x = torch.arange(4.0, device="hpu")
    assert torch.equal(torch.compile(lambda t: t.sin() + 1, backend=backend)(x), x.sin() + 1)
    assert seen == ["hpu"]


def test_fake_tensors_follow_shapes_without_memory():
    from torch._subclasses.fake_tensor import FakeTensorMode

    before = torch.hpu.memory_allocated()
    with FakeTensorMode():
        x = torch.empty(1 << 20, 1 << 10, device="hpu")
        y = nn.functional.linear(x, torch.empty(8, 1 << 10, device="hpu"))
        assert y.shape == (1 << 20, 8) and y.device == torch.device("hpu", 0)
    assert torch.hpu.memory_allocated() == before


def test_compile_traces_what_runs():
    torch.manual_seed(0)
    model = Gpt()
    there = copy.deepcopy(model).to("hpu")
    ids = torch.randint(0, 17, (2, 12))
    model(ids).sum().backward()
    torch.compile(there, backend="aot_eager")(ids.to("hpu")).sum().backward()
    for p, q in zip(model.parameters(), there.parameters(), strict=True):
        torch.testing.assert_close(q.grad.cpu(), p.grad, rtol=1e-4, atol=1e-4)
