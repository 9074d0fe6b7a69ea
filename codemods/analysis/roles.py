"""What a device text is to the code around it: one word for each, and one rule for each."""

from __future__ import annotations

import ast
import enum
from dataclasses import dataclass


class Role(enum.Enum):
    """The place that a device text reaches, or what is done with it."""

    #: ``torch.device("cuda")``.
    DEVICE = "device"
    #: ``x.to("cuda")``.
    TO = "to"
    #: ``torch.zeros(3, device="cuda")``.
    ARGUMENT = "argument"
    #: ``torch.load(path, map_location="cuda")``.
    LOAD = "load"
    #: ``torch.set_default_device("cuda")``.
    DEFAULT = "default"
    #: ``torch.Generator(device="cuda")``.
    GENERATOR = "generator"
    #: ``add_argument("--device", default="cuda")``.
    OPTION = "option"
    #: Stored under a name that holds a device, or one that reaches such a place.
    NAME = "name"
    #: Beside ``"cpu"`` in a choice.
    BRANCH = "branch"
    #: ``device.type == "cuda"``, a key of a table by device.
    COMPARE = "compare"
    #: A comparison that chooses kernels made for NVIDIA hardware: it stays.
    KERNELS = "kernels"
    #: A comparison of an entry of the settings that is no device: it stays.
    SETTING = "setting"
    #: ``device.replace("cuda:", "")``.
    CUT = "cut"
    #: Nothing shows that it is a device.
    UNPROVEN = "unproven"
    #: The argument of a call that a rule of precision or of distributed training takes whole.
    OTHER_RULE = "other rule"


@dataclass(frozen=True)
class Evidence:
    """That a value is a device: the role that shows it, and the node."""

    role: Role
    node: ast.AST
