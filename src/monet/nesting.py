"""How deep a text nests, seen before a reader descends into it: a few levels are meant, thousands are a mistake."""

from __future__ import annotations

import re

from monet.errors import MonetError

MOST_LEVELS = 100
_OPENING = re.compile(r"[\[{]|(?:^|(?<=[-?:] ))[ ]*[-?] ", re.MULTILINE)


def check_nesting(text: str, source: str) -> None:
    """Refuse a YAML text that nests more than ``MOST_LEVELS`` deep."""
    deepest = max((len(line) - len(line.lstrip(" ")) for line in text.splitlines()), default=0)
    if deepest <= MOST_LEVELS and len(_OPENING.findall(text)) <= MOST_LEVELS:
        return  # cannot be: every level takes a space or a sign
    import yaml

    depth = 0
    try:
        for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            if depth > MOST_LEVELS:
                line = event.start_mark.line + 1
                raise MonetError(f"{source}: line {line}: nested more than {MOST_LEVELS} levels deep")
    except yaml.YAMLError:
        return  # its reader says what is wrong
