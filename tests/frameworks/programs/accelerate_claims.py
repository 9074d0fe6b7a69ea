"""What Accelerate's pages promise on Gaudi, one function each.

Usage: accelerate_claims.py cpu|hpu|cuda
"""

from __future__ import annotations

import itertools
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator, cpu_offload, notebook_launcher
from accelerate.state import AcceleratorState
from accelerate.utils import set_seed
from claims import claim, report
from safetensors.torch import load_file

WHERE = sys.argv[1]


def accelerator(**options: Any) -> Accelerator:
    AcceleratorState._reset_state(True)
    return Accelerator(cpu=WHERE == "cpu", **options)


def parts() -> tuple[Any, ...]:
    set_seed(5)
    model = torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 4)
    )
    generator = torch.Generator().manual_seed(2)
    data = torch.utils.data.TensorDataset(
        torch.randn(64, 16, generator=generator), torch.randint(0, 4, (64,), generator=generator)
    )
    loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-2), loader


def losses(
    use: Accelerator, model: Any, optimizer: Any, loader: Any, steps: int = 8
) -> list[float]:
    result = []
    for inputs, labels in itertools.islice(loader, steps):
        with use.accumulate(model):
            loss = torch.nn.functional.cross_entropy(model(inputs), labels)
            use.backward(loss)
            if use.sync_gradients:
                use.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        result.append(use.gather(loss.detach().reshape(1)).mean().item())
    return result


def train(**options: Any) -> list[float]:
    use = accelerator(**options)
    return losses(use, *use.prepare(*parts()))


@claim
def device() -> str:
    return str(accelerator().device.type)


@claim
def float32() -> list[float]:
    return train()


@claim
def accumulation() -> list[float]:
    return train(gradient_accumulation_steps=2)


@claim
def bfloat16() -> list[float]:
    return train(mixed_precision="bf16")


@claim
def float16() -> list[float]:
    return train(mixed_precision="bf16" if WHERE == "cpu" else "fp16")


@claim
def compiled() -> list[float]:
    backend = {"cpu": "aot_eager", "hpu": "hpu_backend", "cuda": "inductor"}[WHERE]
    return train(dynamo_backend=backend)


@claim
def state_goes_on_where_it_was() -> list[float]:
    use = accelerator()
    model, optimizer, loader = use.prepare(*parts())
    losses(use, model, optimizer, loader, 4)
    with tempfile.TemporaryDirectory() as folder:
        use.save_state(folder)
        first = losses(use, model, optimizer, loader, 4)
        use.load_state(folder)
        assert losses(use, model, optimizer, loader, 4) == first
        kept = torch.load(Path(folder, "random_states_0.pkl"), weights_only=False)
        assert "torch_cuda_manual_seed" not in kept
        assert ("torch_hpu_manual_seed" in kept) is (WHERE != "cpu")
    return first


@claim
def saved_model() -> list[float]:
    use = accelerator()
    model, optimizer, loader = use.prepare(*parts())
    losses(use, model, optimizer, loader, 4)
    with tempfile.TemporaryDirectory() as folder:
        use.save_model(model, folder)
        state = load_file(Path(folder, "model.safetensors"))
    return [value.double().sum().item() for value in state.values()]


@claim
def saved_where_sagemaker_looks() -> list[str]:
    use = accelerator()
    model, optimizer, loader = use.prepare(*parts())
    losses(use, model, optimizer, loader, 1)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SM_MODEL_DIR"] = folder
        use.save_state(os.environ.get("SM_MODEL_DIR", "/opt/ml/model"))
        del os.environ["SM_MODEL_DIR"]
        return sorted(path.name for path in Path(folder).iterdir())


@claim
def pairs_are_prepared_one_by_one() -> list[list[float]]:
    use = accelerator()
    pairs = [(use.prepare(*parts()[:2]), use.prepare(parts()[2])) for _ in range(2)]
    return [losses(use, model, optimizer, loader, 4) for (model, optimizer), loader in pairs]


@claim
def features_of_optimum_are_refused() -> list[str]:
    names = ("fast_ddp", "minimize_memory", "context_parallel_size")
    refused = []
    for name in names:
        try:
            accelerator(**{name: 2})
        except TypeError as error:
            refused.append(f"{name}: {name in str(error)}")
    return refused


@claim
def gathering() -> list[list[float]]:
    use = accelerator()
    x = torch.arange(6.0, device=use.device)
    return [use.gather_for_metrics(x).tolist(), use.reduce(x, "mean").tolist()]


@claim
def offloading() -> list[float]:
    result: list[float] = (
        cpu_offload(parts()[0], torch.device(WHERE))(torch.ones(1, 16)).flatten().tolist()
    )
    return result


@claim
def skipping() -> int:
    use = accelerator()
    return len(list(use.skip_first_batches(use.prepare(*parts())[2], 3)))


@claim
def cpu_switch() -> str:
    AcceleratorState._reset_state(True)
    return str(Accelerator(cpu=True).device)


@claim
def notebook_refuses_an_accelerator_that_is_there() -> bool:
    accelerator()
    try:
        notebook_launcher(parts, num_processes=2)
    except ValueError as error:
        return "should only be initialized inside your training function" in str(error)
    return False


report()
