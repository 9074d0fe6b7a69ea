"""What training did, step by step: torch's own hooks of optimizers, and the calls of backward, save and collectives.

A step is one call of an optimizer's ``step``, whichever optimizer. Everything is read, nothing changed: values are copied to
the host and reduced there in float64.
"""

from __future__ import annotations

import functools
import gc
import os
import sys
from typing import Any

from hpushim.prove.recorder import files, recording
from hpushim.prove.recorder.operators import Watch


class _Training:
    def __init__(self, torch: Any, orders: recording.Orders) -> None:
        self.torch = torch
        self.orders = orders
        self.step = 0  # optimizer steps that are done
        self.losses: list[dict[str, Any]] = []
        self.gradients: dict[str, Any] | None = None
        self.optimizers: list[Any] = []
        self.names: dict[int, str] = {}
        self.operators = Watch(torch, orders)
        #: Calls of mark_step: behind the optimizer before, between two backward passes, behind the last of them.
        self.marks = [0, 0, 0]
        self.phase = 0
        self.counted = 0
        #: Frames of libraries that ran the last backward pass.
        self.behind: list[Any] = []

    def backward(self, tensors: Any) -> None:
        """Notes what backward was called on: the loss."""
        roots = [tensors] if isinstance(tensors, self.torch.Tensor) else list(tensors or ())
        self._enter(1)
        self.behind = self.operators.below()
        with self._aside():
            for root in roots:
                if isinstance(root, self.torch.Tensor):
                    self.losses.append(self._value(root))
                    if not self.step:
                        # It may never come to an optimizer: some scripts write the update themselves.
                        recording.note(self.orders.at, "pass", loss=self.losses[-1])

    def _enter(self, phase: int) -> None:
        """Counts the ``mark_step`` calls of the phase that ends here."""
        emulator: Any = sys.modules.get("hpushim.emulator.device")
        if emulator is None or not emulator.is_loaded():
            return
        total = int(emulator.load().totals().get("mark_steps", 0))
        since, self.counted = total - self.counted, total
        ended = 0 if self.phase == 0 else 1 if phase == 1 else 2
        self.marks[ended] += since
        self.phase = phase

    def before(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._enter(0)
        with self._aside():
            self.gradients = self._norm([p.grad for p in self._parameters(optimizer)])

    def after(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        with self._aside():
            parameters = self._parameters(optimizer)
            if not self.gradients or not self.gradients["count"]:
                self.gradients = self._norm([p.grad for p in parameters])  # a closure made them
            fresh = not any(optimizer is known for known in self.optimizers)
            if fresh:
                self.optimizers.append(optimizer)
                self._name(parameters)
            number = next(i for i, o in enumerate(self.optimizers) if o is optimizer)
            self.step += 1
            self.operators.flush(self.step)
            recording.note(
                self.orders.at,
                "step",
                step=self.step,
                optimizer=number,
                kind=type(optimizer).__name__,
                rank=self._rank(),
                rates=[float(group.get("lr", 0)) for group in optimizer.param_groups],
                options=[_options(group) for group in optimizer.param_groups],
                losses=self.losses,
                gradients=self.gradients,
                parameters=self._norm(parameters),
                marks=self.marks,
                place=self.operators.place(),
                loop=self._loop(),
                **({"names": self._described(parameters)} if fresh else {}),
                without=[self.names.get(id(p), "") for p in parameters if p.grad is None],
            )
        self.marks = [0, 0, 0]
        self.losses, self.gradients, self.behind = [], None, []
        first, last = self.orders.window
        if self.step + 1 < first or self.step >= last:
            self.operators.stop()
        else:
            self.operators.start()
        if self.step == self.orders.steps:
            recording.note(self.orders.at, "stopped", step=self.step)
            raise SystemExit(0)

    def _name(self, parameters: list[Any]) -> None:
        """Finds what the modules of this process call the parameters of an optimizer."""
        left = {id(one) for one in parameters} - self.names.keys()
        modules = [
            one for one in gc.get_objects() if left and issubclass(type(one), self.torch.nn.Module)
        ]
        inner = {id(child) for one in modules for child in one.children()}
        for module in (one for one in modules if id(one) not in inner):
            for name, parameter in module.named_parameters():
                self.names.setdefault(id(parameter), name.removeprefix("module."))

    def _described(self, parameters: list[Any]) -> dict[str, str]:
        """The parameters by name, with dtype and device; those that no module holds by their number."""
        kinds = [f"{str(p.dtype).removeprefix('torch.')} on {p.device.type}" for p in parameters]
        names = [self.names.get(id(p), f"number {i}") for i, p in enumerate(parameters)]
        return dict(zip(names, kinds, strict=True))

    def _loop(self) -> str | None:
        """The file of the library that calls both backward and the optimizer, so the loop is its own; None where the project does."""
        for frame in self.operators.below():
            if any(frame is other for other in self.behind):
                name = frame.f_code.co_filename.replace(os.sep, "/")
                return str(name.rpartition("-packages/")[2])
        return None

    def saved(self, path: Any, value: Any) -> None:
        with self._aside():
            leaves: dict[str, Any] = {}
            self._leaves(value, "", leaves, 0)
            name = os.path.basename(os.fsdecode(path)) if isinstance(path, (str, bytes, os.PathLike)) else ""  # noqa: PTH119  # fmt: skip
            recording.note(self.orders.at, "saved", file=name, step=self.step, leaves=leaves)

    def _leaves(self, value: Any, name: str, found: dict[str, Any], depth: int) -> None:
        """The tensors of a checkpoint by their path in it, as norm, dtype and shape; plain values as they are."""
        if isinstance(value, self.torch.Tensor):
            norm = self._norm([value])
            found[name] = [norm["norm"], norm["bits"], str(value.dtype), list(value.shape)]
        elif isinstance(value, self.torch.nn.Module):
            self._leaves(value.state_dict(), name, found, depth + 1)
        elif depth < 8 and isinstance(value, dict):
            for key, one in value.items():
                self._leaves(one, f"{name}.{key}", found, depth + 1)
        elif depth < 8 and isinstance(value, (list, tuple)):
            for number, one in enumerate(value):
                self._leaves(one, f"{name}.{number}", found, depth + 1)
        elif isinstance(value, (bool, int, float, str)):
            found[name] = [value]

    # -- reading values

    def _aside(self) -> Any:
        """A block in which nothing is recorded, differentiated, cast or handed to a mode of the user's."""
        from contextlib import ExitStack

        from torch.utils._python_dispatch import _disable_current_modes

        stack = ExitStack()
        stack.enter_context(_disable_current_modes())
        stack.enter_context(self.torch._C.DisableTorchFunction())
        stack.enter_context(self.torch.no_grad())
        return stack

    def _parameters(self, optimizer: Any) -> list[Any]:
        return [p for group in optimizer.param_groups for p in group["params"]]

    def _host(self, tensor: Any) -> Any:
        tensor = tensor.detach()
        local = getattr(tensor, "to_local", None)
        if local is not None:
            tensor = local()
        return tensor.to("cpu").to_dense() if tensor.is_sparse else tensor.to("cpu")

    def _value(self, root: Any) -> dict[str, Any]:
        host = self._host(root)
        total = host.double().sum().item() if not host.is_complex() else host.abs().sum().item()
        return {
            "value": repr(total),
            "dtype": str(root.dtype).removeprefix("torch."),
            "device": root.device.type,
            "place": self.operators.place(),
        }

    def _norm(self, tensors: list[Any]) -> dict[str, Any]:
        """Norm over all tensors and of each, an exact checksum of their bits, and how many of each dtype and device there are.

        Beside the norm of each tensor is its sum over the root of its size: neither moves farther than the tensor itself.
        """
        torch = self.torch
        squares, bits, count = 0.0, 0, 0
        kinds: dict[str, int] = {}
        each: list[list[float]] = []
        for tensor in tensors:
            if tensor is None or tensor.is_meta:
                continue
            count += 1
            kind = f"{str(tensor.dtype).removeprefix('torch.')} on {tensor.device.type}"
            kinds[kind] = kinds.get(kind, 0) + 1
            host = self._host(tensor)
            if not host.numel():
                continue
            if host.is_floating_point() or host.is_complex():
                wide = torch.complex128 if host.is_complex() else torch.float64
                norm = float(torch.linalg.vector_norm(host, dtype=wide))
                squares += norm**2
                mean = 0.0 if host.is_complex() else float(host.sum(dtype=wide))
                each.append([float(f"{x:.9g}") for x in (norm, mean / host.numel() ** 0.5)])
            bits += _bits(torch, host)
        return {
            "norm": repr(squares**0.5),
            "bits": bits % (1 << 63),
            "count": count,
            "kinds": kinds,
            "each": each,
        }

    def _rank(self) -> int | None:
        distributed = self.torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            return int(distributed.get_rank())
        rank = os.environ.get("RANK", "")
        return int(rank) if rank.isdigit() else None


#: Options of an optimizer that choose how it computes, and not what.
_KERNELS = ("params", "lr", "fused", "foreach", "capturable", "differentiable")


def _options(group: dict[str, Any]) -> dict[str, Any]:
    """What an optimizer was given beside its parameters and its rate, as far as it is plain numbers and words."""
    plain = (bool, int, float, str, type(None))
    return {
        name: value
        for name, value in group.items()
        if name not in _KERNELS
        and all(isinstance(x, plain) for x in (value if isinstance(value, (tuple, list)) else [value]))
    }  # fmt: skip


def _bits(torch: Any, host: Any) -> int:
    """A sum over the bits of a tensor, in words of 64 where they fit: equal where the values are the same."""
    flat = host.contiguous().view(-1)
    if host.is_complex():
        flat = torch.view_as_real(flat).reshape(-1)
    # -0.0 equals 0.0
    flat = flat + 0 if flat.is_floating_point() else flat
    kind = torch.int64  # the sum may wrap round, which is the same in both runs
    if flat.numel() * flat.element_size() % 8:
        kind = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[flat.element_size()]
    return int(flat.view(kind).sum(dtype=torch.int64))


def watch(torch: Any, orders: recording.Orders) -> None:
    """Hooks into the training of this process."""
    from torch.optim import optimizer as optimizers

    training = _Training(torch, orders)
    optimizers.register_optimizer_step_pre_hook(training.before)
    optimizers.register_optimizer_step_post_hook(training.after)

    def about_to_differentiate(args: Any, kwargs: Any) -> None:
        if kwargs.get("accumulate_grad", True):  # not so for torch.autograd.grad
            training.backward(args[0])

    # What Tensor.backward and torch.autograd.backward call; the shim exchanges the code of the latter.
    _wrap(torch.autograd, "_engine_run_backward", about_to_differentiate)

    def about_to_seed(args: Any, kwargs: Any) -> None:
        # Another seed may be covered later, by one for the device alone: on the emulated HPU both may share one stream.
        value = kwargs.get("seed", args[0] if args else None)
        recording.note(orders.at, "seed", value=str(value), place=training.operators.place())

    _wrap(torch, "manual_seed", about_to_seed)
    torch.random.manual_seed = torch.manual_seed

    def about_to_save(args: Any, kwargs: Any) -> None:
        value, path = (*args, kwargs.get("obj"), kwargs.get("f"))[:2]
        path = kwargs.get("f", path)
        files.own(path)
        training.saved(path, value)

    _wrap(torch, "save", about_to_save)
    if torch.distributed.is_available():

        def about_to_meet(args: Any, kwargs: Any) -> None:
            files.alone("joins a process group")

        _wrap(torch.distributed, "init_process_group", about_to_meet)
    if orders.float32:
        # Whatever uses autocast gets it through this class.
        autocast = torch.amp.autocast_mode.autocast
        entered = autocast.__enter__

        def enter(self: Any) -> Any:
            self._enabled = False
            return entered(self)

        autocast.__enter__ = enter
    if orders.window[0] <= 1:
        training.operators.start()
    os.register_at_fork(after_in_child=training.operators.stop)


def _wrap(owner: Any, name: str, first: Any) -> None:
    """Calls ``first(args, kwargs)`` before a function of torch's; what goes wrong in it is said and stops nothing."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        first(args, kwargs)
        return original(*args, **kwargs)

    setattr(owner, name, wrapped)
