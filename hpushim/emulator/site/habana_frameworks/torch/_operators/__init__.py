"""The vendor's own operators, ``torch.ops.hpu.*``: those that programs call by name, computed from torch operators.

Their schemas are those of the bridge's public sources. Each is one operator on the device, as on a Gaudi: the ledger
counts it once, ``torch.compile`` sees one node, and CPU tensors are refused. Results are right, not fast.
"""

from __future__ import annotations

from habana_frameworks.torch._operators import (  # noqa: F401 (importing registers them)
    attention,
    experts,
    fbgemm,
    fp8,
    indexing,
    int4,
    optimizers,
    quantized,
    softmax,
)
