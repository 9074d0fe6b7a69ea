"""What Ray's requests for devices become: a job that requests GPUs gets Gaudi devices."""

from __future__ import annotations

import json
import os

from hpushim.shim import log
from hpushim.shim.mechanisms.in_place import Undo
from hpushim.shim.patch import APPROXIMATE, patch

#: Read by Ray where a node starts: the resources that it offers besides those that Ray finds.
_RESOURCES = "RAY_OVERRIDE_RESOURCES"


@patch("ray", how="hook", row="devices requested from Ray", level=APPROXIMATE)
def gpus_are_devices() -> Undo | None:
    """A Ray that this process starts offers its devices under the name "GPU" too.

    Ray counts a Gaudi as the resource "HPU" alone, and what requests "GPU" (``use_gpu=True``, ``num_gpus=1``) waits for ever. A cluster
    that runs already offers what its nodes were started with.
    """
    import torch

    if _RESOURCES in os.environ:
        return None
    given = json.dumps({"GPU": int(torch.hpu.device_count())})
    os.environ[_RESOURCES] = given
    log.note("HPU716", f'Ray offers the devices as "GPU" too ({_RESOURCES}={given})')

    def undo() -> bool:
        return os.environ.pop(_RESOURCES, None) == given

    return undo
