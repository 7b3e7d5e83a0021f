"""Compile kernels with numba: one signature each, cached on disk, and say so the first time ever."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FunctionType
from typing import Annotated, Any, TypeVar, cast, get_args, get_origin, get_type_hints

from monet.arrays import Table

Function = TypeVar("Function", bound=Callable[..., Any])

announce: Callable[[str], None] = lambda text: print(text, file=sys.stderr)  # noqa: E731 - replaced by user interfaces


def user_cache_directory() -> Path:
    """Where monet keeps what it can compute again: MONET_CACHE_DIR, else the platform's cache directory."""
    given = os.environ.get("MONET_CACHE_DIR")
    if given:
        return Path(given)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home())) / "monet" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "monet"
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "monet"


_kernels: list[Callable[[], Any]] = []
_allocates: dict[Callable[..., Any], bool] = {}  # of every part
_parts: dict[Callable[..., Any], Any] = {}  # and what numba made of it


def part(allocates: bool = False) -> Callable[[Function], Function]:
    """Decorate a function that only kernels call, of any file: compiled into them, and kept on disk with them only.

    One that makes arrays itself counts references to all it is given. Counting in and out takes as long as the work of
    a short function, so others do not; and they are always inlined, as a call passes some hundred words: arrays go by
    value, with their shapes and strides.
    """

    def decorate(function: Function) -> Function:
        _allocates[function] = allocates
        return function

    return decorate


def kernel(function: Function) -> Function:
    """Decorate a kernel: compiled at its first call, for the types that it is annotated with, with its machine code
    kept on disk. Arguments are numbers, arrays and tables (``monet.arrays``), and named tuples of these."""
    compiled: Callable[..., Any] | None = None

    def prepare() -> Callable[..., Any]:
        nonlocal compiled
        if compiled is None:
            compiled = _compile(function)
        return compiled

    def call(*arguments: Any) -> Any:
        return (compiled or prepare())(*arguments)

    _kernels.append(prepare)
    call.__name__, call.__doc__, call.__wrapped__ = function.__name__, function.__doc__, function  # type: ignore[attr-defined]
    return cast(Function, call)


def argument_types(function: Callable[..., Any]) -> tuple[Any, ...]:
    """What numba calls the types of a kernel's arguments."""
    hints = get_type_hints(function, include_extras=True)
    return tuple(_numba_type(hint) for name, hint in hints.items() if name != "return")


def _numba_type(hint: Any) -> Any:
    import numba

    if get_origin(hint) is Annotated:
        array, dimensions, *layout = get_args(hint)
        element = get_args(get_args(array)[1])[0]
        return numba.types.Array(numba.from_dtype(element), dimensions, *layout or "C")
    if issubclass(hint, Table):
        return numba.types.Array(numba.from_dtype(hint.row), 1, "C")
    if hasattr(hint, "_fields"):
        fields = get_type_hints(hint, include_extras=True)
        return numba.types.BaseTuple.from_types([_numba_type(one) for one in fields.values()], hint)
    return {int: numba.int64, float: numba.float64, bool: numba.boolean}[hint]


def compile_kernels() -> None:
    """Compile (or load) every kernel imported so far; call it before a pool of processes forks."""
    for prepare in _kernels:
        prepare()


def _compile(function: Callable[..., Any]) -> Callable[..., Any]:
    import numba

    package = Path(__file__).parent
    if not os.access(package, os.W_OK) and "NUMBA_CACHE_DIR" not in os.environ:
        numba.config.CACHE_DIR = str(user_cache_directory() / "kernels")
    _link(function)
    dispatcher = numba.njit(cache=True, nogil=True, boundscheck=False, no_cfunc_wrapper=True)(function)
    _mark(dispatcher, fingerprint(function))
    compiled_types = argument_types(function)
    if not _is_on_disk(dispatcher, compiled_types):
        announce(f"monet: compiling the {function.__name__} kernel, once ...")
    dispatcher.compile(compiled_types)
    return cast(Callable[..., Any], dispatcher)


def _link(function: Callable[..., Any]) -> None:
    """Have a kernel, and the parts it calls, find compiled parts under their names."""
    import numba

    todo = [function]
    while todo:
        one = todo.pop()
        for name in one.__code__.co_names:
            called = one.__globals__.get(name)
            if not isinstance(called, FunctionType) or called not in _allocates:
                continue
            if called not in _parts:
                _parts[called] = numba.njit(
                    _nrt=_allocates[called],
                    forceinline=not _allocates[called],
                    no_cpython_wrapper=True,
                    no_cfunc_wrapper=True,
                )(called)
                todo.append(called)
            one.__globals__[name] = _parts[called]


def fingerprint(function: Callable[..., Any]) -> str:
    """A digest of all that is compiled into a kernel, from its own file or others: the functions it calls, and the
    constants and records that all of them name."""
    digest, seen, todo = hashlib.sha256(), set[int](), [function]
    while todo:
        one = todo.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        codes = [one.__code__]
        while codes:
            code = codes.pop()
            codes += [value for value in code.co_consts if isinstance(value, CodeType)]
            digest.update(code.co_code)
            digest.update(repr(code.co_names).encode())
            for value in code.co_consts:
                if isinstance(value, int | float | str | tuple):
                    digest.update(repr(value).encode())
            for name in code.co_names:
                value = one.__globals__.get(name)
                called = getattr(value, "py_func", None)
                if isinstance(value, FunctionType) and value in _allocates:  # a part that is not compiled yet
                    called = value
                if called is not None:
                    todo.append(called)
                elif isinstance(value, int | float | str | tuple):
                    digest.update(f"{name}={value!r};".encode())
                elif isinstance(value, type) and hasattr(value, "_fields"):  # a record: its fields, in order
                    digest.update(f"{name}={value._fields!r};".encode())
    return digest.hexdigest()


def _mark(dispatcher: Any, digest: str) -> None:
    """Have numba keep a kernel under a digest as well: by itself it looks at the file of the kernel only, and does not
    notice when a function or a constant changes that the kernel takes from another."""
    file = dispatcher._cache._cache_file
    file._source_stamp = (file._source_stamp, digest)


def _is_on_disk(dispatcher: Any, signature: Any) -> bool:
    """Whether machine code for this signature is in numba's cache (an index that cannot be read counts as no)."""
    try:
        index = dispatcher._cache._cache_file._load_index()
        return dispatcher._cache._index_key(signature, dispatcher.targetctx.codegen()) in index
    except Exception:
        return False
