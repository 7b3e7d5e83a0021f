"""Options of commands from the declarations of a request: what is declared there is an option of every command here."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from monet.errors import MonetError, OptionError
from monet.options import Option, options_of
from monet.request import Request

EVERYTHING = tuple(options_of(Request))


def with_request(
    *names: str, without: Sequence[str] = (), needs_hardware: bool = True, **helps: str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of a request: those of some groups, all if none are named. Its body is called with
    the ``Request``, and with the options it declares itself. ``helps`` says what an option means to this command."""
    declared = options_of(Request)
    chosen = [
        one for one in declared.values() if (not names or {one.group, one.name} & {*names}) and one.name not in without
    ]

    def decorate(body: Callable[..., None]) -> Callable[..., None]:
        taken = [*inspect.signature(body, eval_str=True).parameters.values()][1:]
        own = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in taken]

        def command(**given: Any) -> None:
            values = {one.name: given.pop(one.name) for one in chosen}
            try:
                body(Request(**values), **given)
            except OptionError as error:
                raise MonetError(in_words(error)) from None

        made = [_parameter(one, helps.get(one.name, one.help), needs_hardware) for one in chosen]
        command.__signature__ = inspect.Signature([*made, *own])  # type: ignore[attr-defined]
        command.__annotations__ = {one.name: one.annotation for one in (*made, *own)}
        command.__name__, command.__doc__ = body.__name__, body.__doc__
        return command

    return decorate


def flag_of(one: Option) -> str:
    """How an option is written on the command line."""
    return one.flag or f"--{one.name.replace('_', '-')}"


def in_words(error: OptionError) -> str:
    """What is wrong with an option, as it was written on the command line."""
    declared = options_of(Request).get(error.option)
    return f"{flag_of(declared) if declared else error.option} {error.value!r}: {error.reason}"


def _parameter(one: Option, text: str, needs_hardware: bool) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    if one.name == "model":
        return inspect.Parameter("model", kind, annotation=Annotated[str, typer.Argument(help=text)])
    shown = one.usual or one.default not in ("", None, (), {})
    panel = f"{one.group.capitalize()} options"
    typed = _typed(one)
    made = typer.Option(
        flag_of(one), help=text, show_default=shown, rich_help_panel=panel, metavar="FILE" if one.name == "allocation" else None
    )  # fmt: skip
    if one.name == "hardware" and needs_hardware:
        return inspect.Parameter(one.name, kind, annotation=Annotated[str, made])
    default = one.default if typed in (str, int) else None
    if one.separator:
        default = one.separator.join(one.default)
    return inspect.Parameter(one.name, kind, default=default, annotation=Annotated[typed, made])


def _typed(one: Option) -> Any:
    """What the command line reads: numbers as such, texts, or an option that is given several times."""
    if one.type.startswith(("tuple", "Mapping")):
        return str if one.separator else list[str] | None
    return {"int": int, "int | None": int | None, "float | None": float | None}.get(one.type, str)
