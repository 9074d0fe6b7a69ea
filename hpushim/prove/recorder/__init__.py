"""What is noted inside a process of a run that ``hpushim prove`` started: torch and the standard library only.

``startup/sitecustomize.py`` calls :func:`hpushim.prove.recorder.enable.begin` in each Python of the run, ranks and workers
included, because its folder is on their ``PYTHONPATH``.
"""

from __future__ import annotations
