"""What a rule is, what it asks for, how rules are found and run, and their pages."""

from __future__ import annotations
