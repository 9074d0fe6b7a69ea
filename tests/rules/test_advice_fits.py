"""What a message advises fits the line that it is about: the name, the place, the file and the target."""

from __future__ import annotations

import pytest

from hpushim.engine.context import Context
from hpushim.engine.one_file import settle
from hpushim.matrix import load
from hpushim.model import Target


def said(text: str, code: str, kind: str = "python", name: str = "ops.py", stack: str = "1.24") -> list[tuple[str, str]]:  # fmt: skip
    """Message and severity of the findings of a code."""
    done = settle(text, kind, name, Context(Target(stack=stack), load()))  # type: ignore[arg-type]
    return [(each.message, each.severity) for each in done.findings if each.code == code]


@pytest.mark.parametrize("form", ["gen = torch.Generator(device)", "gen = torch.Generator(device=device)", "gen = torch.Generator(model.device)"])  # fmt: skip
@pytest.mark.parametrize(("stack", "words", "level"), [("1.19", "is rejected by", "warning"), ("1.20", "may be rejected by", "warning"), ("1.24", "works in", "note")])  # fmt: skip
def test_a_generator_is_told_for_the_target(form: str, stack: str, words: str, level: str) -> None:
    ((message, severity),) = said(f"import torch\n\n\ndef f(model, device):\n    {form}\n    return gen\n", "HPU409", stack=stack)  # fmt: skip
    assert f"{words} this Gaudi release" in message and severity == level


@pytest.mark.parametrize(("form", "value"), [("{}()", False), ("if {}():\n        pass", True), ("left = {}()", True), ("print({}())", True)])  # fmt: skip
@pytest.mark.parametrize("name", ["torch.get_device_module(device).ipc_collect", "getattr(torch, device.type).empty_cache"])  # fmt: skip
def test_a_missing_function_is_advised_on_by_its_place(form: str, value: bool, name: str) -> None:
    ((message, _),) = said(f"import torch\n\n\ndef f(device):\n    {form.format(name)}\n", "HPU421")
    assert ("use a value for Gaudi instead" in message) is value
    assert ("call it only where" in message) is not value and "remove the call" not in message


@pytest.mark.parametrize(("code", "name", "told", "other"), [
    ("HPU718", "apex_C.unflatten", "._unflatten_dense_tensors", "._flatten_dense_tensors"), ("HPU718", "apex_C.flatten", "._flatten_dense_tensors", "._unflatten_dense_tensors"),
    ("HPU718", "apex.normalization.FusedLayerNorm", "torch.nn.LayerNorm", "memory_efficient"), ("HPU718", "apex.normalization.MixedFusedLayerNorm", "dtype of the parameters", "memory_efficient"),
    ("HPU212", "apex.amp.master_params", "param_groups", "remove the call"), ("HPU212", "apex.amp._amp_state.loss_scalers", "loss scalers", "remove the call"),
    ("HPU118", "torch.nn.AdaptiveMaxPool2d", "no Gaudi kernel", "gather"), ("HPU118", "torch.nn.MaxUnpool2d", "runs on the CPU", "max_unpool"),
    ("HPU118", "torch.lgamma", "the gradient", "cdist"), ("HPU118", "torch.cdist", "the gradient", "25 rows"),
])  # fmt: skip
@pytest.mark.parametrize("form", ["y = {}(x)", "if {}(x):\n        pass"])
def test_a_row_speaks_of_its_name_alone(
    code: str, name: str, told: str, other: str, form: str
) -> None:
    found = said(f"import torch\nimport {name.partition('.')[0]}\nimport apex.amp, apex.normalization\nd = torch.device('cuda')\n\n\ndef f(x):\n    {form.format(name)}\n", code)  # fmt: skip
    (message,) = [message for message, _ in found if name in message.split(":")[0]]
    assert told in message and other not in message


@pytest.mark.parametrize(("kind", "name", "form"), [("requirements", "requirements.txt", "{}\n"), ("yaml", "environment.yml", "dependencies:\n  - pip:\n    - {}\n")])  # fmt: skip
@pytest.mark.parametrize(("package", "end"), [("apex==0.1", "; take it out of the requirements for Gaudi"), ("diffusers>=0.25", "where the code moves a pipeline")])  # fmt: skip
def test_a_requirement_is_told_what_to_do(kind: str, name: str, form: str, package: str, end: str) -> None:  # fmt: skip
    ((message, _),) = said(form.format(package), "HPU815", kind, name)
    assert message.endswith(end)


@pytest.mark.parametrize(("line", "end"), [("pytorch=1.1.0", "with or without a version"), ("pytorch==1.1.0", "with or without a version"), ("torchvision=0.3.0=py37", "with or without a version"), ("torchvision==0.3.0", "remove the version")])  # fmt: skip
def test_conda_takes_its_own_torch(line: str, end: str) -> None:
    ((message, _),) = said(f"dependencies:\n  - {line}\n", "HPU817", "yaml", "environment.yml")
    assert message.endswith(end)


@pytest.mark.parametrize(("use", "told"), [("saved._metadata = meta", False), ("print(saved.lr)", True)])  # fmt: skip
def test_setting_an_attribute_shows_no_class(use: str, told: bool) -> None:
    text = f"import torch\n\n\ndef f(path, meta):\n    saved = torch.load(path, map_location='cpu')\n    {use}\n    return saved\n"
    assert bool(said(text, "HPU615")) is told


@pytest.mark.parametrize("value", ["x", "x[0]", "self.weight"])
@pytest.mark.parametrize(("form", "told"), [("y.type({}.type())", "write `.to({})` for"), ("f(y, {}.type())", "pass `{}` instead"), ("f(y, dtype={}.type())", "pass `{}` instead")])  # fmt: skip
def test_a_type_as_text_is_advised_on_by_its_use(value: str, form: str, told: str) -> None:
    ((message, _),) = said(f"import torch\n\n\ndef g(self, x, y):\n    return {form.format(value)}\n", "HPU126")  # fmt: skip
    assert told.format(value) in message


@pytest.mark.parametrize(("parameter", "given", "told"), [("path", "", '; pass `map_location="cpu"`'), ("path, where=None", ", map_location=where", 'None by default here: make `"cpu"` the default')])  # fmt: skip
@pytest.mark.parametrize(
    "form", ["return torch.load(path{})", "net.load_state_dict(torch.load(path{}))"]
)
def test_a_load_is_advised_on_by_what_it_is_given(parameter: str, given: str, told: str, form: str) -> None:  # fmt: skip
    text = f"import torch\n\nnet = torch.nn.Linear(2, 2).cuda()\n\n\ndef f({parameter}):\n    {form.format(given)}\n"
    assert told in said(text, "HPU613")[0][0]


@pytest.mark.parametrize(("count", "number"), [("0", 0), ("8", 1)])
@pytest.mark.parametrize("form", ["--gpus={}", "--gpus {}", "--gres=gpu:{}", "--gres=gpu:a100:{}", "-G {}"])  # fmt: skip
@pytest.mark.parametrize("line", ["#SBATCH {}", "srun {} python train.py"])
def test_no_device_is_no_request(line: str, form: str, count: str, number: int) -> None:
    text = f"#!/bin/bash\n{line.format(form.format(count))}\n"
    assert len(said(text, "HPU813", "shell", "job.sh")) == number


@pytest.mark.parametrize(("name", "value"), [("PATH", "/usr/local/cuda/bin:$PATH"), ("LD_LIBRARY_PATH", "/usr/local/cuda/lib64:$LD_LIBRARY_PATH"), ("CUDA_HOME", "/usr/local/cuda")])  # fmt: skip
def test_a_path_goes_and_not_its_variable(name: str, value: str) -> None:
    ((message, _),) = said(f"export {name}={value}\n", "HPU805", "shell", "run.sh")
    assert message.endswith("; remove that path")


@pytest.mark.parametrize(("form", "told"), [("torch.is_autocast_enabled()", "; pass the device type"), ("torch.get_autocast_gpu_dtype()", "; use `torch.get_autocast_dtype` with the device type")])  # fmt: skip
def test_a_name_that_stays_only_gets_an_argument(form: str, told: str) -> None:
    ((message, _),) = said(f"import torch\n\nx = torch.zeros(1).cuda()\nprint({form})\n", "HPU211")
    assert message.endswith(told)


@pytest.mark.parametrize("package", ["pytorch-lightning==1.4.2", "lightning==1.5"])
def test_a_version_that_is_too_old_is_no_package_to_remove(package: str) -> None:
    ((message, _),) = said(f"{package}\n", "HPU815", "requirements", "requirements.txt")
    assert "2.5.5" in message and "take it out" not in message and "can stay" not in message


@pytest.mark.parametrize("form", ["torch.zeros(3, device={})", "x.to({})", "torch.device({})", "x if torch.device(x.device) == torch.device({}) else 0", "x if str(x.device) == {} else 0", "x if x.device.type == {} else 0"])  # fmt: skip
@pytest.mark.parametrize(("old", "new"), [("'cuda'", "hpu"), ('"cuda:0"', "hpu:0")])
def test_a_message_names_the_device_that_is_written(form: str, old: str, new: str) -> None:
    if "type" in form and ":" in new:
        return  # a type has no index
    text = f"import torch\n\n\ndef f(x):\n    y = {form.format(old)}\n    return y\n"
    done = settle(text, "python", "ops.py", Context(Target(), load()))
    (message,) = [each.message for each in done.findings if "use `" in each.message or "with `" in each.message]  # fmt: skip
    assert f'`"{new}"`' in message
    assert form.format(f"{old[0]}{new}{old[0]}") in done.text


@pytest.mark.parametrize("index", ["[keep]", "[:, keep]", "[\n        keep\n    ]"])
@pytest.mark.parametrize("start", ["(torch.abs(x) /\n        2)", "torch.abs(\n        x\n    )"])
def test_an_element_on_several_lines_shows_its_mask(start: str, index: str) -> None:
    text = f"import torch\nd = torch.device('cuda')\n\n\ndef f(x):\n    x = x.to(d)\n    keep = x > 0\n    y = {start}{index}\n    return y\n"
    messages = [message for message, _ in said(text, "HPU515")]
    assert messages and all("keep" in message.split("`")[1] and "\n" not in message for message in messages)  # fmt: skip
