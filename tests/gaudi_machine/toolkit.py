"""Stands for the vendor's migration toolkit on the pretend machine, where PT_HPU_GPU_MIGRATION=1 asks for it.

Written from what its public documentation says that it does (CUDA calls go to the hpu), not from the toolkit itself, which is closed:
just enough to see who answers a CUDA call.
"""

from __future__ import annotations

import torch

torch.cuda.is_available = lambda: True
torch.Tensor.cuda = lambda self, *args, **kwargs: self.to("hpu")
