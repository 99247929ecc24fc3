"""Where an error came from, without a word of what it said: the error chain of a dead letter."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath
from types import FrameType, TracebackType
from typing import cast

MAX_ERRORS = 8
MAX_FRAMES = 12

_STRANGE = re.compile(r"[^A-Za-z0-9_.<>-]+")


def frames(error: BaseException) -> list[str]:
    """Type names and places of an error and of what caused it, the newest error first.

    A message, an argument, a local or a source line may hold a secret, so none is looked at. File
    names stand relative to their package, because a full path tells whose machine it was.

    >>> try:
    ...     raise KeyError("hunter2")
    ... except KeyError as error:
    ...     frames(error)[0]
    'KeyError'
    """
    return [line for one in _chain(error) for line in (_type_name(one), *_places(one))]


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The errors a traceback would show, each once: an error may cause itself."""
    waiting = [error]
    seen: set[int] = set()
    while waiting and len(seen) < MAX_ERRORS:
        one = waiting.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        waiting.extend(_behind(one))


def _behind(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        yield from cast("BaseExceptionGroup[BaseException]", error).exceptions
    if error.__cause__ is not None:
        yield error.__cause__
    elif error.__context__ is not None and not error.__suppress_context__:
        yield error.__context__


def _type_name(error: BaseException) -> str:
    kind = type(error)
    if kind.__module__ == "builtins":
        return _plain(kind.__qualname__)
    return _plain(f"{kind.__module__}.{kind.__qualname__}")


def _places(error: BaseException) -> list[str]:
    """The innermost frames, outermost first: where it happened says more than who asked."""
    found = [_place(frame, line) for frame, line in _walk(error.__traceback__)]
    left_out = len(found) - MAX_FRAMES
    if left_out > 0:
        return [f"  ... {left_out} outer frames", *found[-MAX_FRAMES:]]
    return found


def _walk(traceback: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    while traceback is not None:
        yield traceback.tb_frame, traceback.tb_lineno
        traceback = traceback.tb_next


def _place(frame: FrameType, line: int) -> str:
    """`dragoman/work/relay.py send 42`, built from the module's name and never from its path."""
    package = str(frame.f_globals.get("__package__") or "")
    file = _plain(PurePath(frame.f_code.co_filename).name)
    folder = _plain(package).replace(".", "/")
    where = f"{folder}/{file}" if folder else file
    return f"  {where} {_plain(frame.f_code.co_qualname)} {line}"


def _plain(name: str) -> str:
    """Code made at run time may be named anything; what is no name becomes an underscore."""
    return _STRANGE.sub("_", name)[:120]
