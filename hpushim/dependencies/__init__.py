"""The third-party packages that a project imports: what the matrix says of each, else what its own files say, else that nobody assessed it.

Nothing is imported, run or downloaded. Files are looked for in the project's virtual environments, in environments and folders of wheels that
the user names, and beside hpushim itself.
"""

from __future__ import annotations

from hpushim.dependencies.assessing import assess
from hpushim.dependencies.places import Places

__all__ = ["Places", "assess"]
