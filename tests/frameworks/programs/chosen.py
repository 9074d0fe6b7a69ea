"""Says which device Accelerate has chosen."""

from __future__ import annotations

import json
import sys

import torch
from accelerate import Accelerator

accelerator = Accelerator()
model = accelerator.prepare(torch.nn.Linear(2, 1))
found = {"device": accelerator.device.type, "weight": next(model.parameters()).device.type}
sys.stdout.write(f"RESULT {json.dumps(found)}\n")
