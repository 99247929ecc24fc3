"""What a dead letter needs before it is replayed: a category, and evidence of what was done."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from dragoman.core.errors import BadInput, Refused
from dragoman.core.failure import FailureClass as Class

TICKET: Final = "ticket"
_MOST = 200


class Category(StrEnum):
    """What a failure was put down to."""

    TRANSIENT = "transient"
    DATA = "data"
    AUTH_CONFIG = "auth_config"
    DEFECT = "defect"


_PASSING: Final = (Category.TRANSIENT, Category.AUTH_CONFIG, Category.DEFECT)

CATEGORIES: Final[Mapping[Class, tuple[Category, ...]]] = MappingProxyType(
    {
        Class.NETWORK_TIMEOUT: _PASSING,
        Class.THROTTLED: _PASSING,
        Class.UPSTREAM_ERROR: _PASSING,
        Class.CONFLICT: _PASSING,
        Class.STALE_CLAIM: _PASSING,
        Class.NOT_EXECUTED: _PASSING,
        Class.RESULT_MISSING: _PASSING,
        Class.ACCOUNT_BLOCKED: (Category.TRANSIENT, Category.AUTH_CONFIG),
        Class.SCHEMA_INVALID: (Category.DATA,),
        Class.OUTPUT_REJECTED: (Category.DATA, Category.DEFECT),
        Class.AUTH_DENIED: (Category.AUTH_CONFIG,),
        Class.NOT_FOUND: (Category.DATA, Category.AUTH_CONFIG),
        Class.DELIVERY_REJECTED: (Category.DATA, Category.AUTH_CONFIG),
        Class.POLICY_REJECTED: (Category.DATA, Category.AUTH_CONFIG, Category.DEFECT),
        Class.RUNTIME_BUG: (Category.DEFECT,),
    }
)

_FIELDS: Final[Mapping[Category, tuple[str, ...]]] = MappingProxyType(
    {
        Category.TRANSIENT: ("recovery", "capacity"),
        Category.DATA: ("correction",),
        Category.AUTH_CONFIG: ("rotated",),
        Category.DEFECT: ("release", "staging"),
    }
)


def needed(error_class: Class, category: Category) -> tuple[str, ...]:
    """The evidence that a remedy takes, the ticket last.

    >>> needed(Class.RUNTIME_BUG, Category.DEFECT)
    ('release', 'staging', 'ticket')
    """
    metadata = ("metadata",) if error_class is Class.NOT_FOUND else ()
    return (*_FIELDS[category], *metadata, TICKET)


def check_category(error_class: Class, category: str) -> Category:
    """The category, if a failure of this class can be put down to it."""
    known = CATEGORIES[error_class]
    if category not in known:
        raise Refused(f"{error_class} can be put down to {' or '.join(known)}, and to nothing else")
    return Category(category)


def check_evidence(error_class: Class, category: Category, told: Mapping[str, str]) -> None:
    """Refuse evidence that is not whole: each field is one line that says something."""
    fields = needed(error_class, category)
    for name in fields:
        check_line(name, told.get(name, ""))
    unknown = sorted(told.keys() - set(fields))
    if unknown:
        raise BadInput(f"{error_class} put down to {category} takes {', '.join(fields)} only")


def check_line(name: str, told: str) -> str:
    """One printable line of words; it enters the history, so that it must not be long."""
    if not told.strip() or len(told) > _MOST or not told.isprintable():
        raise BadInput(f"{name} must be one line of 1 to {_MOST} characters, and not blank")
    return told
