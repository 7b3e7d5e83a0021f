"""Compile kernels with numba: one signature each, machine code kept on disk, and said the first time ever.

The machine code of a kernel lies in a directory named by a digest of all that is compiled into it, so that numba (which
looks only at the file of the kernel itself) finds nothing of older sources there, and an edit elsewhere compiles
nothing again. ``python -m monet.compiled`` compiles all kernels ahead, in as many processes as there are processors;
the command line does so by itself when it meets the first kernel that was never compiled.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType
from typing import Annotated, Any, TypeVar, cast, get_args, get_origin, get_type_hints

from monet.arrays import Table
from monet.processes import begin_worker
from monet.sources import PACKAGE, cache_directory, keep_newest

Function = TypeVar("Function", bound=Callable[..., Any])
MOST_DIGESTS = 6  # of a kernel, kept on disk
SECONDS_OF_ALL = 50  # of processor time that all kernels take, as measured on one machine
OPTIONS = {"nogil": True, "boundscheck": False, "no_cfunc_wrapper": True}
INDICES = "from the start"  # how kernels count; part of what their machine code depends on

announce: Callable[[str], None] = lambda text: print(text, file=sys.stderr)  # noqa: E731 - replaced by user interfaces

_ahead = True  # whether all kernels may still be compiled when the first is missing
_kernels: dict[str, tuple[Callable[..., Any], Callable[[], Any]]] = {}  # name → the function, what compiles it
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

    _kernels[_name(function)] = function, prepare
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
        return numba.types.BaseTuple.from_types([_numba_type(field) for field in fields.values()], hint)
    return {int: numba.int64, float: numba.float64, bool: numba.boolean}[hint]


def compile_kernels() -> None:
    """Compile (or load) every kernel imported so far; call it before a pool of processes forks."""
    for _, prepare in list(_kernels.values()):
        prepare()


def compile_ahead(processes: int | None = None) -> None:
    """Compile every kernel of the package, the longest first, in processes of their own; by default one a processor."""
    from multiprocessing import Pool

    _import_kernels()
    processes = processes or os.cpu_count() or 1
    about = f"about {SECONDS_OF_ALL / processes:.0f} s"
    announce(f"monet: compiling {len(_kernels)} kernels in {processes} processes, once: {about} if nothing else runs")
    names = sorted(_kernels, key=lambda name: -sum(len(code.co_code) for code, _ in _reached(_kernels[name][0])))
    with Pool(processes, _begin, (os.getpid(),)) as pool:
        for _ in pool.imap_unordered(_compile_named, names, chunksize=1):
            pass


def _begin(parent: int) -> None:
    """In a process of a pool: whoever started it says what is compiled, and ends it when interrupted."""
    global announce
    announce = lambda text: None  # noqa: E731
    begin_worker(parent)


def _compile_named(name: str) -> None:
    _import_kernels()
    _kernels[name][1]()


def _compile_all_first() -> None:
    """In the command line's process, when a kernel was never compiled: all of them, in parallel, in a process of their
    own. Once, whatever comes of it: what is not compiled then is compiled when it is called."""
    global _ahead
    if not _ahead or not getattr(sys.modules.get("monet.commands"), "started", False):
        return
    _ahead = False
    subprocess.run([sys.executable, "-m", "monet.compiled"], stdout=sys.stderr.fileno(), check=False)


def _import_kernels() -> None:
    """Import every file that has a kernel."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if "\n@kernel\n" in path.read_text(encoding="utf-8"):
            import_module(".".join((PACKAGE.name, *path.relative_to(PACKAGE).with_suffix("").parts)))


def _name(function: Callable[..., Any]) -> str:
    return f"{function.__module__.rpartition('.')[2]}.{function.__name__}"


def _import_numba() -> None:
    """Import numba as kernels need it. It looks for SciPy's BLAS, which takes nearly as long to import as numba itself.
    No kernel calls it, so where nobody else has code for numba, in the command line's process, it finds none."""
    blas = "scipy.linalg.cython_blas"
    hidden = "monet.commands" in sys.modules and blas not in sys.modules
    if hidden:
        sys.modules[blas] = None  # type: ignore[assignment]
    try:
        import numba.np.arraymath  # noqa: F401
    finally:
        if hidden:
            del sys.modules[blas]


def _compile(function: Callable[..., Any]) -> Callable[..., Any]:
    _import_numba()
    import numba

    _link(function)
    compiled_types = argument_types(function)
    folder, given = _directory(function, str(compiled_types)), numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(folder or given)
    try:
        dispatcher = numba.njit(cache=folder is not None, **OPTIONS)(function)
    finally:
        numba.config.CACHE_DIR = given
    done = folder / f"{_stamp(function)}.compiled" if folder else None
    if done is not None and not done.exists():
        _compile_all_first()
    if done is None or not done.exists():
        announce(f"monet: compiling the {function.__name__} kernel, once ...")
    with _indices_from_the_start():
        dispatcher.compile(compiled_types)
    if done is not None and not done.exists():
        done.touch()
    return cast(Callable[..., Any], dispatcher)


@contextmanager
def _indices_from_the_start() -> Iterator[None]:
    """Compile without what lets an index below zero count from the end of an array. Numba asks that of every signed
    index, which takes a quarter to a third of a kernel's time, and no kernel counts so
    (``test_no_kernel_leaves_its_arrays``). What else is compiled meanwhile, by whoever, waits."""
    from numba.core import types
    from numba.core.compiler_lock import global_compiler_lock
    from numba.np import arrayobj

    def as_it_is(context: Any, builder: Any, kind: Any, index: Any, size: Any) -> Any:
        return context.cast(builder, index, kind, types.intp if kind.signed else types.uintp)

    with global_compiler_lock:
        wrapping, arrayobj.fix_integer_index = arrayobj.fix_integer_index, as_it_is
        try:
            yield
        finally:
            arrayobj.fix_integer_index = wrapping


def _directory(function: Callable[..., Any], signature: str) -> Path | None:
    """Where the machine code of a kernel as it is now lies; None where nothing can be kept."""
    kept = os.environ.get("NUMBA_CACHE_DIR")
    every = (Path(kept) if kept else cache_directory() / "kernels") / _name(function)
    folder = (
        every / hashlib.sha256(f"{fingerprint(function)} {signature} {OPTIONS} {INDICES}".encode()).hexdigest()[:16]
    )
    try:
        if not folder.is_dir():
            keep_newest(every, MOST_DIGESTS - 1)
            folder.mkdir(parents=True, exist_ok=True)
        return folder if os.access(folder, os.W_OK) else None
    except OSError:
        return None


def _stamp(function: Callable[..., Any]) -> str:
    """What numba takes machine code to belong to besides a function's code: its file, as it lies on disk, numba, and
    the processor."""
    import llvmlite.binding
    import numba

    path = function.__code__.co_filename
    found = os.stat(path)
    parts = path, found.st_size, found.st_mtime_ns, numba.__version__, llvmlite.binding.get_host_cpu_name()
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _link(function: Callable[..., Any]) -> None:
    """Have a kernel, and the parts it calls, find compiled parts under their names."""
    import numba

    todo = [function]
    while todo:
        caller = todo.pop()
        for name in caller.__code__.co_names:
            called = caller.__globals__.get(name)
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
            caller.__globals__[name] = _parts[called]


def _reached(function: Callable[..., Any]) -> Iterator[tuple[CodeType, dict[str, Any]]]:
    """The code that is compiled into a kernel, with the names it sees: its own, and of the parts it calls, from its own
    file or others."""
    todo = [function]
    for caller in todo:  # grows while it is walked
        codes = [caller.__code__]
        for code in codes:
            codes += [value for value in code.co_consts if isinstance(value, CodeType)]
            yield code, caller.__globals__
            called = (_part_of(caller.__globals__.get(name)) for name in code.co_names)
            todo += [each for each in dict.fromkeys(called) if each is not None and each not in todo]


def _part_of(value: object) -> Callable[..., Any] | None:
    """The function that a name of a kernel calls, compiled or not; None if it stands for something else."""
    called = getattr(value, "py_func", None)
    return called or (value if isinstance(value, FunctionType) and value in _allocates else None)


def fingerprint(function: Callable[..., Any]) -> str:
    """A digest of all that is compiled into a kernel: the functions it calls, and the constants and records that all of
    them name."""
    digest = hashlib.sha256()
    for code, names in _reached(function):
        digest.update(code.co_code)
        digest.update(repr(code.co_names).encode())
        for value in code.co_consts:
            if isinstance(value, int | float | str | tuple):
                digest.update(repr(value).encode())
        for name in code.co_names:
            value = names.get(name)
            if isinstance(value, int | float | str | tuple):
                digest.update(f"{name}={value!r};".encode())
            elif (called := _part_of(value)) is not None:
                digest.update(f"{name} allocates: {_allocates.get(called)};".encode())
            elif isinstance(value, type) and hasattr(value, "_fields"):  # a record: its fields, in order
                digest.update(f"{name}={value._fields!r};".encode())
    return digest.hexdigest()


if __name__ == "__main__":
    began = time.monotonic()
    try:
        import_module("monet.compiled").compile_ahead()  # the module that kernels are noted in, not this copy of it
    except KeyboardInterrupt:
        sys.exit(130)
    print(f"all kernels are compiled ({time.monotonic() - began:.0f} s)")
