"""Every error Dragoman raises on purpose.

DragomanError
├── BadInput            something from outside is wrong; nothing was stored
│   ├── BadText         a message that cannot be taken
│   ├── BadJSON         bytes that are not one strict JSON value
│   └── BadSetting      a setting that is unknown or could never work
├── Conflict            the same key was used for something else
├── QueueFull           a home has as many jobs waiting as it may
├── Refused             the state or the role does not allow it
├── NotFound            there is no such thing
├── LeaseLost           the job moved on without us: stop, no side effect
├── Invariant           our own code broke a rule: page somebody
└── DatabaseError       mapped once, at the edge, without detail or context
    ├── DataRefused     the database refused these values (data or guard)
    ├── TryAgain        deadlock, lock time-out, serialization
    ├── CommitUnknown   the reply of COMMIT was lost: ask again what is done
    └── DatabaseDown    no server, or it is recovering
        ├── ServerDown  the embedded one, which says where its log is (store/cluster.py)
        └── Unfit       it answers, and could not keep our promises (store/preflight.py)
"""

from __future__ import annotations


class DragomanError(Exception):
    """Dragoman could not do this."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())


class BadInput(DragomanError):
    """The input is not acceptable; nothing was stored."""


class BadText(BadInput):
    """The message cannot be taken; nothing was stored."""


class BadJSON(BadInput):
    """The bytes are not one strict JSON value."""


class BadSetting(BadInput):
    """A setting is unknown or could never work."""


class Conflict(DragomanError):
    """The same key was used before for something else; nothing was written."""


class QueueFull(DragomanError):
    """A home has as many jobs waiting as it may; nothing was stored."""


class Refused(DragomanError):
    """The state or the role does not allow this."""


class NotFound(DragomanError):
    """There is no such thing."""


class LeaseLost(DragomanError):
    """The job moved on without this worker; its result was not stored."""


class Invariant(DragomanError):
    """Our own code broke one of its rules."""


class DatabaseError(DragomanError):
    """The database did not do this."""

    def __init__(self, sqlstate: str | None = None, constraint: str | None = None) -> None:
        self.sqlstate = sqlstate
        self.constraint = constraint
        facts = ", ".join(f for f in (sqlstate, constraint) if f)
        told = (type(self).__doc__ or "").strip()
        super().__init__(f"{told} ({facts})" if facts else told)


class DataRefused(DatabaseError):
    """The database refused these values."""


class TryAgain(DatabaseError):
    """The database was busy with a conflicting transaction; run it again."""


class CommitUnknown(DatabaseError):
    """The answer to COMMIT was lost; ask again what is done."""


class DatabaseDown(DatabaseError):
    """The database cannot be reached or is recovering."""
