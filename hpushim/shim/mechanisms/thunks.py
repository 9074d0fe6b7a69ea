"""A few bytes of machine code in the place of a C function, which hand the call on to a Python function.

A page of them is written whole, then made executable and never written again. Each piece reads what to call from a word
outside the page, so it serves for good: undoing a patch takes away the way to it, and another thread that is on that way
still ends where it should. Linux on x86-64 only, which is what a Gaudi's host runs.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import platform
import struct
import sys
from typing import Any

from hpushim.shim.mechanisms.in_place import HookUnavailable

_SLOT = 160  # bytes of code for one function


class Thunk:
    """The code for one function. ``word`` holds the address of the Python function to call."""

    def __init__(self, code: int, word: Any) -> None:
        self.call = code  #: a vectorcallfunc: (callable, arguments, count, names)
        self.bound = code + _BOUND_AT  #: a PyCFunctionWithKeywords: (self, tuple, dictionary)
        self.word = word


def check() -> None:
    """Raises HookUnavailable where this code cannot run."""
    if sys.implementation.name != "cpython" or "t" in getattr(sys, "abiflags", ""):
        raise HookUnavailable("the interpreter is not CPython with its global lock")
    if sys.platform != "linux" or platform.machine() != "x86_64" or struct.calcsize("P") != 8:
        raise HookUnavailable(
            f"this is {sys.platform} on {platform.machine()}, not Linux on x86-64"
        )


def for_object(target: object) -> Thunk:
    """The thunk of a built-in function or descriptor; the same each time."""
    if id(target) not in _taken:
        if not _free:
            _free.extend(_page())
        _taken[id(target)] = _free.pop()
    return _taken[id(target)]


def past(thunk: Thunk, kind: type, at: int, byte: int, original: object, vectorcall: int) -> int:
    """Code in the place of ``thunk.call`` that calls ``original`` by itself where the instance and one argument are given, an
    object of exactly this type that holds another byte than ``byte`` at this place; any other call goes to the thunk.
    """
    keep(kind, original)
    slow = b"\x49\xbb" + struct.pack("<Q", thunk.call) + b"\x41\xff\xe3"
    straight = (
        b"\x48\xbf" + struct.pack("<Q", id(original))  # mov rdi, original
        + b"\x49\xbb" + struct.pack("<Q", vectorcall) + b"\x41\xff\xe3"  # mov r11, address; jmp r11
    )  # fmt: skip
    code = straight
    for condition, skip in (
        (b"\x80\x78" + bytes([at, byte]), b"\x74"),  # cmp byte [rax + at], byte; je
        # mov r11, kind; mov rax, [rsi + 8], the argument after the instance; cmp [rax + 8], r11; jne
        (b"\x49\xbb" + struct.pack("<Q", id(kind)) + b"\x48\x8b\x46\x08\x4c\x39\x58\x08", b"\x75"),
        (b"\x83\xfa\x02", b"\x75"),  # cmp edx, 2; jne
        (b"\x48\x85\xc9", b"\x75"),  # test rcx, rcx: none has a name; jne
    ):  # fmt: skip
        code = condition + skip + bytes([len(code)]) + code
    (address,) = _executable([_ENTER + code + slow])
    return address


@functools.cache
def getter() -> int:
    """Code for a ``getter(self, closure)`` that calls the Python function which is the closure."""
    (address,) = _executable([_GETTER + _go("PyObject_CallFunctionObjArgs")])
    return address


_free: list[Thunk] = []
_taken: dict[int, Thunk] = {}


def keep(*objects: object) -> None:
    """Keeps objects for good, also while the interpreter ends and clears its modules: C code still points to them."""
    for one in objects:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))


def _page() -> list[Thunk]:
    count = mmap.PAGESIZE // _SLOT
    words = (ctypes.c_void_p * count)()
    keep(words)
    cells = [
        ctypes.c_void_p.from_address(ctypes.addressof(words) + n * ctypes.sizeof(ctypes.c_void_p))
        for n in range(count)
    ]
    codes = _executable([_code(ctypes.addressof(cell)) for cell in cells])
    return [Thunk(code, cell) for code, cell in zip(codes, cells, strict=True)]


def _executable(pieces: list[bytes]) -> list[int]:
    """Addresses of these pieces of code, in a page of their own."""
    page = mmap.mmap(-1, mmap.PAGESIZE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    for number, piece in enumerate(pieces):
        assert len(piece) <= _SLOT
        page[number * _SLOT : number * _SLOT + len(piece)] = piece
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    if protect(address, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_EXEC) != 0:
        raise HookUnavailable(f"the system allows no new code (errno {ctypes.get_errno()})")
    keep(page)
    return [address + number * _SLOT for number in range(len(pieces))]


def _code(word: int) -> bytes:
    # What is called is always a function; Python 3.10 exports no more than the way into one.
    entry = "PyObject_Vectorcall"
    if not hasattr(ctypes.pythonapi, entry):
        entry = "_PyFunction_Vectorcall"
    call = _ENTER + _word_to_rdi(word) + _go(entry)
    # PyObject_Call(bound, args, kwargs), then let the bound method go
    use = (
        b"\x48\x89\xc3\x48\x89\xc7"  # mov rbx, rax; mov rdi, rax
        + b"\x4c\x89\xe6\x4c\x89\xea"  # mov rsi, r12; mov rdx, r13
        + _call("PyObject_Call")
        + b"\x49\x89\xc4\x48\x89\xdf"  # mov r12, rax; mov rdi, rbx
        + _call("Py_DecRef")
        + b"\x4c\x89\xe0"  # mov rax, r12
    )
    bound = (
        _ENTER
        + b"\x53\x41\x54\x41\x55"  # push rbx, r12, r13: the stack is on 16 bytes again
        + b"\x49\x89\xf4\x49\x89\xd5"  # mov r12, rsi; mov r13, rdx
        + b"\x48\x89\xfe"  # mov rsi, rdi
        + _word_to_rdi(word)
        + _call("PyMethod_New")
        + b"\x48\x85\xc0\x74" + bytes([len(use)])  # test rax, rax; jz past its use
        + use
        + b"\x41\x5d\x41\x5c\x5b\xc3"  # pop r13, r12, rbx; ret
    )  # fmt: skip
    return call.ljust(_BOUND_AT, b"\xcc") + bound


_ENTER = b"\xf3\x0f\x1e\xfa"  # endbr64
_BOUND_AT = 40
# xchg rdi, rsi; no third argument, no vector registers
_GETTER = _ENTER + b"\x48\x87\xf7" + b"\x31\xd2" + b"\x31\xc0"


def _word_to_rdi(word: int) -> bytes:
    return b"\x48\xbf" + struct.pack("<Q", word) + b"\x48\x8b\x3f"


@functools.cache
def _address(name: str) -> bytes:
    function = getattr(ctypes.pythonapi, name)
    return struct.pack("<Q", ctypes.cast(function, ctypes.c_void_p).value)


def _go(name: str) -> bytes:
    return b"\x49\xbb" + _address(name) + b"\x41\xff\xe3"  # mov r11, address; jmp r11


def _call(name: str) -> bytes:
    return b"\x48\xb8" + _address(name) + b"\xff\xd0"  # mov rax, address; call rax
