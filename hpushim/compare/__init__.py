"""Comparisons of devices with CUDA in Python source, for all who change them.

``x.device.type == "cuda"`` is False on HPU, and nothing at run time can change that without breaking torch.compile. So
the source changes: the shim widens such comparisons while it loads a program. Which expressions these are is decided here,
from one file's tree, with the standard library alone. The codemod turns the usual ones by rules of its own, and reports those
that are found here and that no rule spoke of::

    from hpushim.compare import Form, find
    from hpushim.pycode.source import Source
    for one in find(Source(text)):
        one.node, one.form, one.subjects, one.texts, one.sure, one.handled, one.line

What is *sure* was shown by the file: the subject is read from a device, has the name of one, or is bound to such a value.
What is not sure is a word that happens to be ``"cuda"``: ``backend == "cuda"``. What is *handled* names ``hpu`` beside it.
``tests/compare/forms.py`` is the table of the forms, with what each is held to be.
"""

from __future__ import annotations

from hpushim.compare.comparison import Comparison, Form
from hpushim.compare.finder import PART, find, find_named
from hpushim.compare.texts import PARTS

__all__ = ["PART", "PARTS", "Comparison", "Form", "find", "find_named"]
