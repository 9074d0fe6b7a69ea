"""Makes what Accelerate's first example asks for: a few images of two kinds, and random weights where timm looks for its own.

Usage: pets.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from PIL import Image
from safetensors.torch import save_file
from timm import create_model

torch.manual_seed(0)
place = Path(sys.argv[1])
(place / "images").mkdir()
for kind, colour in (("cat", (200, 80, 40)), ("dog", (40, 80, 200))):
    for number in range(8):
        noisy = tuple(part + 4 * number for part in colour)
        Image.new("RGB", (48, 48), noisy).save(place / "images" / f"{kind}_{number}.jpg")

model = create_model("resnet50d", pretrained=False)
hub = place / "hf" / "hub" / f"models--{model.pretrained_cfg['hf_hub_id'].replace('/', '--')}"
(hub / "refs").mkdir(parents=True)
(hub / "refs" / "main").write_text("0" * 40)
(hub / "snapshots" / ("0" * 40)).mkdir(parents=True)
save_file(model.state_dict(), hub / "snapshots" / ("0" * 40) / "model.safetensors")
