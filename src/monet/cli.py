"""The command line. What it runs is imported when it runs: an interrupt is answered from the first moment on."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from monet import commands
from monet.commands import INTERRUPTED, TERMINATED
from monet.errors import ModelWarning, MonetError


def __getattr__(name: str) -> Any:
    """``app``, the commands, and ``command_named``; imported when it is asked for."""
    if name in ("app", "command_named"):
        from monet.commands import application

        return getattr(application, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _shown(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    """A word about the model as one line; what libraries warn their own authors of is not for users of a command."""
    if issubclass(category, ModelWarning):
        sys.stderr.write(f"monet: note: {message}\n")


def main() -> None:
    """Entry point. Bad input is one message on standard error and exit code 2, never a traceback; exit codes are 0,
    1 (where a command says so), 2, 3 (infeasible), 130 (interrupted) and 143 (terminated)."""
    signal.signal(signal.SIGINT, _at_once)
    signal.signal(signal.SIGTERM, _terminated)
    for library in ("OPENBLAS", "MKL"):  # products of executed steps are small: waiting threads cost more than they do
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
    import atexit  # after the signals, which are answered while modules are read
    import gc
    import warnings

    warnings.showwarning = _shown
    commands.started = True
    atexit.register(gc.freeze)  # what a process leaves to the end goes with it: not searched for cycles first, 0.1 s
    for stream in (sys.stdout, sys.stderr):  # a terminal that knows only ASCII gets question marks, not a traceback
        if stream is not None and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    code = _code()
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        code = _lost(error)
    sys.exit(code)


def _code() -> int:
    """Run a command; what the process is to end with."""
    try:
        from monet.commands.application import app

        signal.signal(signal.SIGINT, _interrupted)  # from here on there may be something to put in order
        app()
    except SystemExit as stop:
        if isinstance(getattr(stop.__context__, "__cause__", None), KeyboardInterrupt):  # as typer passes it on
            _say("interrupted")
            return INTERRUPTED
        if stop.code == TERMINATED:
            _say("terminated")
        return stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 2
    except KeyboardInterrupt:
        _say("interrupted")
        return INTERRUPTED
    except MonetError as error:
        _say(str(error))
    except MemoryError as error:
        _say(f"this computer has not enough memory for sizes this large{f': {error}' if str(error) else ''}")
    except RecursionError:
        _say("what was given is nested too deeply")
    except OSError as error:
        return _lost(error)
    except Exception as error:
        if os.environ.get("MONET_DEBUG"):
            raise
        from traceback import extract_tb

        where = extract_tb(error.__traceback__)[-1]
        _say(
            f"internal error: {type(error).__name__}: {error} ({os.path.basename(where.filename)}, line {where.lineno})"
            ". This is a bug of monet; MONET_DEBUG=1 shows where it comes from"
        )
    return 2


def _say(text: str) -> None:
    """A message on standard error, if anyone listens there."""
    try:
        sys.stderr.write(f"monet: {text}\n")
    except (OSError, ValueError, AttributeError):  # closed, or full
        return


def _lost(error: OSError) -> int:
    """The code for output that cannot be written: silently 1 where the reader has gone, else 2 with the reason."""
    for stream in (sys.stdout, sys.stderr) if isinstance(error, BrokenPipeError) else (sys.stdout,):
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())  # the end of Python flushes once more
        except (OSError, ValueError, AttributeError):
            continue
    if isinstance(error, BrokenPipeError):
        return 1
    _say(f"{error.filename or 'output'}: {error.strerror or error}")
    return 2


def _at_once(*_: object) -> None:
    """End while nothing has begun."""
    _say("interrupted")
    os._exit(INTERRUPTED)


def _interrupted(*_: object) -> None:
    """End by an exception, so that what is half-written is removed and workers are ended."""
    sys.unraisablehook = _again
    raise KeyboardInterrupt


def _terminated(*_: object) -> None:
    """The same as if by sys.exit."""
    sys.unraisablehook = _again
    raise SystemExit(TERMINATED)


def _again(lost: sys.UnraisableHookArgs) -> None:
    """What a destructor could not pass on: a signal that came while it ran is sent once more; objects that a signal
    left half-made are none of the user's business."""
    if isinstance(lost.exc_value, (KeyboardInterrupt, SystemExit)):
        from threading import Timer

        sent = signal.SIGINT if isinstance(lost.exc_value, KeyboardInterrupt) else signal.SIGTERM
        Timer(0.01, os.kill, [os.getpid(), sent]).start()  # not at once: what is raised in here is lost, too


if __name__ == "__main__":
    main()
