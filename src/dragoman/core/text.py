"""What a message must be before the first INSERT: checked here, never by the database."""

from __future__ import annotations

from dragoman.core.errors import BadText

MAX_CHARACTERS = 1_500


def check_text(text: object, *, limit: int = MAX_CHARACTERS) -> str:
    """Return the text if it can be stored and sent on byte for byte, or say what is wrong.

    >>> check_text("  ")
    Traceback (most recent call last):
    dragoman.core.errors.BadText: the message is empty
    """
    if not isinstance(text, str):
        raise BadText("the message is not text")
    if not text.strip():
        raise BadText("the message is empty")
    if len(text) > limit:
        raise BadText(f"the message has {len(text)} characters, {limit} are allowed")
    if "\0" in text:
        raise BadText(f"the message has a NUL character at position {text.index(chr(0))}")
    for at, letter in enumerate(text):
        if "\ud800" <= letter <= "\udfff":
            raise BadText(f"the message has a lone surrogate at position {at}")
    return text
