"""What a ``try`` catches, and which one a place is in."""

from __future__ import annotations

import ast

import pytest

from hpushim.pycode.source import Source
from hpushim.pycode.tries import ANY_ERROR, NO_MODULE, around, catches

HANDLERS = {
    "except:": {""},
    "except ImportError:": {"ImportError"},
    "except (OSError, socket.error) as e:": {"OSError", "error"},
    "except builtins.Exception:": {"Exception"},
    "except ():": set(),
}
PLACES = {
    "try:\n    HERE\n{0}\n    pass": True,
    "try:\n    pass\n{0}\n    HERE": False,
    "try:\n    pass\n{0}\n    pass\nelse:\n    HERE": False,
    "try:\n    pass\n{0}\n    pass\nfinally:\n    HERE": False,
    "try:\n    if x:\n        HERE\n{0}\n    pass": True,
    "try:\n    def f():\n        HERE\n{0}\n    pass": False,
    "try:\n    try:\n        pass\n    finally:\n        HERE\n{0}\n    pass": True,
}


@pytest.mark.parametrize("handler", HANDLERS)
@pytest.mark.parametrize("place", PLACES)
def test_a_try_around_a_place_catches_what_its_handlers_name(place: str, handler: str) -> None:
    source = Source(place.format(handler))
    (here,) = (each for each in ast.walk(source.tree) if isinstance(each, ast.Name) and each.id == "HERE")  # fmt: skip
    found = list(around(source, here, (ast.FunctionDef,)))
    assert bool(found) is PLACES[place]
    for tried in found:
        names = HANDLERS[handler]
        assert catches(tried, frozenset(names)) is bool(names)
        assert catches(tried, NO_MODULE) is ("ImportError" in names)
        assert catches(tried, ANY_ERROR) is bool(names & {"", "Exception"})
