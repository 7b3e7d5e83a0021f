"""Options of commands from the declarations of a request: what is declared there is an option of every command here."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from monet.errors import MonetError, OptionError
from monet.options import Option, options_of
from monet.request import Request
from monet.request.system_request import SystemRequest


def with_request(
    *names: str,
    without: Sequence[str] = (),
    needs_hardware: bool = True,
    several: bool = False,
    of: type[Request] = Request,
    **helps: str,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of a request: those of some groups, all if none are named. Its body is called with
    the ``Request`` (``of`` a kind that has more options), and with the options it declares itself. ``helps`` says what an
    option means to this command. ``several``: it takes any number of models, and is called with a list of requests."""
    declared = options_of(of)  # type: ignore[arg-type]  # a class is hashable
    chosen = [
        option
        for option in declared.values()
        if (not names or {option.group, option.name} & {*names}) and option.name not in without
    ]

    def decorate(body: Callable[..., None]) -> Callable[..., None]:
        taken = [*inspect.signature(body, eval_str=True).parameters.values()][1:]
        own = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in taken]

        def command(**given: Any) -> None:
            values = {option.name: given.pop(option.name) for option in chosen}
            try:
                if several:
                    body([of(**values | {"model": model}) for model in values["model"]], **given)
                else:
                    body(of(**values), **given)
            except OptionError as error:
                raise MonetError(in_words(error)) from None

        made = [_parameter(option, helps.get(option.name, option.help), needs_hardware, several) for option in chosen]
        command.__signature__ = inspect.Signature([*made, *own])  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in (*made, *own)}
        command.__name__, command.__doc__ = body.__name__, body.__doc__
        return command

    return decorate


def refuse_unused(why: str, given: dict[str, object], request: Request | None = None, *fields: str) -> None:
    """Refuse options that would have no effect: flag → what was given, nothing if it was not; and ``fields`` of a
    request that differ from their defaults. What is asked for is done or refused, never passed over."""
    declared = options_of(Request)
    asked = {flag_of(declared[name]): getattr(request, name) != declared[name].default for name in fields}
    for flag, value in (given | asked).items():
        if value:
            raise MonetError(f"{flag}: has no effect {why}; leave it out")


def flag_of(option: Option) -> str:
    """How an option is written on the command line."""
    return option.flag or f"--{option.name.replace('_', '-')}"


def in_words(error: OptionError) -> str:
    """What is wrong with an option, as it was written on the command line."""
    declared = options_of(SystemRequest).get(error.option)
    return f"{flag_of(declared) if declared else error.option} {error.value!r}: {error.reason}"


def _parameter(option: Option, text: str, needs_hardware: bool, several: bool) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    if option.name == "model":
        read: Any = list[str] if several else str
        return inspect.Parameter("model", kind, annotation=Annotated[read, typer.Argument(help=text)])
    shown = option.usual or option.default not in ("", None, (), {})
    panel = f"{option.group.capitalize()} options"
    typed = _typed(option)
    made = typer.Option(
        flag_of(option), help=text, show_default=shown, rich_help_panel=panel, metavar="FILE" if option.name == "allocation" else None
    )  # fmt: skip
    if option.name == "hardware" and needs_hardware:
        return inspect.Parameter(option.name, kind, annotation=Annotated[str, made])
    default = option.default if typed in (str, int, bool) else None
    if option.separator:
        default = option.separator.join(option.default)
    return inspect.Parameter(option.name, kind, default=default, annotation=Annotated[typed, made])


def _typed(option: Option) -> Any:
    """What the command line reads: numbers as such, texts, or an option that is given several times."""
    if option.type.startswith(("tuple", "Mapping")):
        return str if option.separator else list[str] | None
    return {"int": int, "int | None": int | None, "float | None": float | None, "bool": bool}.get(option.type, str)
