"""Commands of shells: scripts, Dockerfiles, recipes of makefiles, fenced blocks of Markdown."""

from __future__ import annotations
