"""What a ``try`` catches."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hpushim.pycode.places import TRIES, last_name

if TYPE_CHECKING:
    from hpushim.pycode.source import Source

#: What catches every error; a bare ``except:`` is "".
ANY_ERROR = frozenset(["Exception", "BaseException", ""])
#: What catches that a module is not there.
NO_MODULE = frozenset(["ImportError", "ModuleNotFoundError"])


def kinds(handler: ast.ExceptHandler) -> frozenset[str]:
    """The last words of the errors that a handler names: ``except (OSError, socket.error):`` has OSError and error."""
    named = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return frozenset(map(last_name, named))


def catches(tried: ast.Try, errors: frozenset[str]) -> bool:
    """Does one of its handlers name one of the errors?"""
    return any(not errors.isdisjoint(kinds(handler)) for handler in tried.handlers)


def around(source: Source, node: ast.AST, until: tuple[type[ast.AST], ...]) -> Iterator[ast.Try]:
    """The statements whose body the node is in, from the inside out to the first node of the kinds ``until``."""
    for below, above in source.upwards(node):
        if isinstance(above, TRIES) and below in above.body:
            yield above
        if isinstance(above, until):
            return
