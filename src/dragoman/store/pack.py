"""Rows as one binary array of a composite type: an element carries all its values.

psycopg would build each composite in Python code of many steps; packing them here is five times
faster and sends texts as bytes, never as quoted literals.
"""

from __future__ import annotations

import functools
import operator
import struct
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from itertools import repeat
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import orjson
from psycopg import AsyncCursor, adapt, pq
from psycopg.abc import DumperKey

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Encode: TypeAlias = Callable[[Any], bytes]  # Any: each column's own type, known to the catalog only
EncodeMany: TypeAlias = Callable[[Any], Iterable[bytes]]
Row: TypeAlias = tuple[Any, ...]

_FIELD = struct.Struct("!Ii")
_INT = struct.Struct("!i")
_LONG = struct.Struct("!iq")


@dataclass(frozen=True)
class Shape:
    """A composite type of this database: its array's oid, and its columns with their encoders."""

    oid: int
    array_oid: int
    columns: tuple[tuple[int, Encode], ...]

    @functools.cached_property
    def fixed(self) -> Fixed | None:
        """How to pack rows whose columns have one size each; the hot loop's own path."""
        if any(encode not in _SIZES for _, encode in self.columns):
            return None
        sizes = [_SIZES[encode] for _, encode in self.columns]
        form = struct.Struct("16s" + "8s".join(f"{size}s" for size in sizes))
        heads = [_FIELD.pack(oid, _SIZES[encode]) for oid, encode in self.columns]
        # The first column's head carries the row's own: its size, and how many columns it has.
        heads[0] = struct.pack("!ii", form.size - 4, len(heads)) + heads[0]
        encoders = [_MANY.get(encode, functools.partial(map, encode)) for _, encode in self.columns]
        return Fixed(form, heads, encoders)


@dataclass(frozen=True, slots=True)
class Fixed:
    """A row's form, what stands before each of its columns, and their encoders of many values."""

    form: struct.Struct
    heads: Sequence[bytes]
    encoders: Sequence[EncodeMany]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows on their way into a statement."""

    shape: Shape
    rows: Sequence[Row]


@dataclass(frozen=True, slots=True)
class Longs:
    """Whole numbers of eight bytes on their way into a statement, as one array."""

    values: Sequence[int]


@dataclass(frozen=True, slots=True)
class Uuids:
    """Ids as numbers on their way into a statement, as one array."""

    numbers: Sequence[int]


@functools.cache
def columns(kind: type[DataclassInstance]) -> Callable[[object], Row]:
    """How a frozen value becomes a row. dataclasses.astuple would copy every value deeply."""
    return operator.attrgetter(*(field.name for field in fields(kind)))


class RowsDumper(adapt.Dumper):
    """Gives psycopg the packed bytes and the oid of the array."""

    format = pq.Format.BINARY

    def get_key(self, obj: Rows, format: adapt.PyFormat) -> DumperKey:  # noqa: A002, ARG002 - theirs
        """Rows of each shape have a dumper of their own."""
        return cast("DumperKey", (self.cls, obj.shape.array_oid))

    def upgrade(self, obj: Rows, format: adapt.PyFormat) -> RowsDumper:  # noqa: A002, ARG002 - theirs
        """Return the dumper that announces the array's oid."""
        dumper = RowsDumper(self.cls)
        dumper.oid = obj.shape.array_oid
        return dumper

    def dump(self, obj: Rows) -> bytes:
        """Pack the rows."""
        return pack(obj)


class LongsDumper(adapt.Dumper):
    """The binary form of bigint[]; psycopg would write each number as text."""

    format = pq.Format.BINARY
    oid = 1016

    def dump(self, obj: Longs) -> bytes:
        """Pack the numbers."""
        return _array(20, len(obj.values)) + b"".join(map(_LONG.pack, repeat(8), obj.values))


class UuidsDumper(adapt.Dumper):
    """The binary form of uuid[]; psycopg would quote each one as text."""

    format = pq.Format.BINARY
    oid = 2951

    def dump(self, obj: Uuids) -> bytes:
        """Pack the numbers."""
        each = [b"\0\0\0\x10" + number.to_bytes(16, "big") for number in obj.numbers]
        return _array(2950, len(each)) + b"".join(each)


def _array(element: int, count: int) -> bytes:
    """How an array of one dimension begins."""
    return struct.pack("!iiI", bool(count), 0, element) + (
        struct.pack("!ii", count, 1) if count else b""
    )


def pack(rows: Rows) -> bytes:
    """The binary form of an array of composites, as PostgreSQL's array_recv reads it."""
    shape = rows.shape
    if not rows.rows:
        return struct.pack("!iii", 0, 0, shape.oid)
    head = struct.pack("!iiiii", 1, 0, shape.oid, len(rows.rows), 1)
    if shape.fixed is not None:
        try:
            return head + _pack_fixed(rows.rows, shape.fixed)
        except (AttributeError, TypeError, struct.error):
            pass  # a None among them
    return head + _pack_by_column(rows)


def _pack_by_column(rows: Rows) -> bytes:
    """A value that stands in every row, as most of a bulk's do, is encoded once."""
    width, nothing = len(rows.shape.columns), type(None)
    if any(len(row) != width for row in rows.rows):
        raise ValueError("a row has another width than its type")
    same, parts = _INT.pack(width), list[Iterable[bytes]]()
    for (oid, encode), values in zip(rows.shape.columns, zip(*rows.rows, strict=True), strict=True):
        if len(set(map(id, values))) == 1:
            same += _field(oid, encode, values[0])
            continue
        if encode in _SIZES and nothing not in set(map(type, values)):
            same += _FIELD.pack(oid, _SIZES[encode])
            encode_many = _MANY.get(encode)
            encoded = encode_many(values) if encode_many else map(encode, values)
        else:
            encoded = [_field(oid, encode, value) for value in values]
        parts += repeat(same), encoded
        same = b""
    bodies = map(b"".join, zip(*parts, repeat(same, len(rows.rows)), strict=False))
    return b"".join([part for body in bodies for part in (_INT.pack(len(body)), body)])


def _field(oid: int, encode: Encode, value: object) -> bytes:
    if value is None:
        return _FIELD.pack(oid, -1)
    data = encode(value)
    return _FIELD.pack(oid, len(data)) + data


def _pack_fixed(rows: Sequence[Row], fixed: Fixed) -> bytes:
    """Column by column, so that no loop of ours runs for each row."""
    parts: list[Iterable[bytes]] = []
    for head, encode, column in zip(
        fixed.heads, fixed.encoders, zip(*rows, strict=True), strict=True
    ):
        parts += (repeat(head), encode(column))
    return b"".join(map(fixed.form.pack, *parts))


def _uuid(value: uuid.UUID) -> bytes:
    return value.int.to_bytes(16, "big")


def _text(value: str) -> bytes:
    return value.encode()


def _jsonb(value: object) -> bytes:
    return b"\x01" + orjson.dumps(value)


_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


def _time(value: datetime) -> bytes:
    passed = value - _EPOCH
    return struct.pack(
        "!q", (passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds
    )


def _ints(values: Sequence[int]) -> bytes:
    if not values:
        return struct.pack("!iiI", 0, 0, 23)
    head = struct.pack("!iiIii", 1, 0, 23, len(values), 1)
    return head + b"".join(struct.pack("!ii", 4, value) for value in values)


ENCODERS: dict[str, Encode] = {
    "uuid": _uuid,
    "int2": struct.Struct("!h").pack,
    "int4": _INT.pack,
    "_int4": _ints,
    "int8": struct.Struct("!q").pack,
    "float8": struct.Struct("!d").pack,
    "bool": struct.Struct("!?").pack,
    "text": _text,
    "bytea": bytes,
    "jsonb": _jsonb,
    "timestamptz": _time,
}


def _uuids(values: Sequence[uuid.UUID]) -> Iterable[bytes]:
    return [value.int.to_bytes(16, "big") for value in values]


# Encoders of many values at once, where that is faster than one by one.
_MANY: dict[Encode, EncodeMany] = {_uuid: _uuids}

# Encoders whose values all have one size.
_SIZES: dict[Encode, int] = {
    ENCODERS[name]: size for name, size in (("uuid", 16), ("int2", 2), ("int4", 4), ("int8", 8))
}


def register_dumpers(adapters: adapt.AdaptersMap) -> None:
    """Teach a connection, or a cursor, how rows and numbers are sent."""
    adapters.register_dumper(Rows, RowsDumper)
    adapters.register_dumper(Longs, LongsDumper)
    adapters.register_dumper(Uuids, UuidsDumper)


_SHAPES = """
select t.typname, t.oid, t.typarray, a.atttypid, coalesce(e.typname, '') as base, e.typtype
  from pg_type t
  join pg_class c on c.oid = t.typrelid and c.relkind = 'c'
  join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
  join pg_type e on e.oid = a.atttypid
 where t.typnamespace = current_schema()::regnamespace
 order by t.typname, a.attnum
"""


async def read_shapes(cursor: AsyncCursor[Row]) -> dict[str, Shape]:
    """The composite types of the current schema, by name."""
    columns: dict[str, list[tuple[int, Encode]]] = {}
    oids: dict[str, tuple[int, int]] = {}
    await cursor.execute(_SHAPES)
    for name, oid, array_oid, column_oid, base, kind in await cursor.fetchall():
        oids[name] = (oid, array_oid)
        encode = _text if kind == "e" else ENCODERS[base]
        columns.setdefault(name, []).append((column_oid, encode))
    return {name: Shape(*oids[name], tuple(columns[name])) for name in oids}
