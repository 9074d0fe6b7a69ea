"""Functions of the user's own in a pipeline."""

from __future__ import annotations


class media_function:
    """A base class; pipelines that would call it cannot be made."""

    def __init__(self, params=None):
        self.params = params
