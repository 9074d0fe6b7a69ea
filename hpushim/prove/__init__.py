"""``hpushim prove``: a script on the CPU, under the shim, and its migrated copy natively; the three runs compared.

::

    outcome = prove(Request(words=("train.py", "--epochs", "1")))     # in scratch copies; the tree is only read
    outcome.verdict, outcome.certificate

``recorder`` is what runs inside the script's processes; everything else runs in the command's own and never imports torch.
"""

from __future__ import annotations
