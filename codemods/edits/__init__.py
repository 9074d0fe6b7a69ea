"""What rules say of a change: arguments, imports, and the one place that spells Gaudi's words."""

from __future__ import annotations
