"""Notification channels, one module each."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.channels.base import Channel
from dragoman.core.errors import BadInput


def channel_for(recipient: str, channels: Iterable[Channel]) -> Channel:
    """The channel that serves this recipient's scheme.

    >>> channel_for("mailto:ann@example.org", [smtp, file]) is smtp  # doctest: +SKIP
    True
    """
    known = {channel.scheme: channel for channel in channels}
    scheme, colon, _ = recipient.partition(":")
    found = known.get(scheme.lower()) if colon else None
    if found is None:
        names = ", ".join(f"{name}:" for name in sorted(known)) or "none"
        raise BadInput(f"no channel serves this recipient; configured schemes: {names}")
    return found
