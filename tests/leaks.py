"""Where texts are found that must stand in their own rows only: a scan that the catalog writes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import psycopg

OWN_ROWS = {
    ("rewrite_request", "original_text"),
    ("rewrite_output", "rewritten_text"),
    ("review_input", "source"),
    ("review_diff", "diff"),
    ("review_result", "summary"),
    ("finding", "title"),
    ("finding", "message"),
    ("finding", "suggestion"),
    ("delivery", "payload"),
}
_COLUMNS = """
select c.relname as table, a.attname as column, t.typname = 'bytea' as is_bytes
  from pg_class c
  join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
  join pg_type t on t.oid = a.atttypid
 where c.relnamespace = 'dragoman'::regnamespace and c.relkind in ('r', 'p')
   and not c.relispartition
   and t.typname in ('text', 'json', 'jsonb', 'bytea', '_text', 'varchar', 'bpchar')
"""


def leaks(
    connection: psycopg.Connection,
    canaries: Sequence[str],
    own: Collection[tuple[str, str]] = OWN_ROWS,
) -> list[str]:
    """The columns, outside the texts' own rows, that hold one of these strings."""
    columns = [row for row in connection.execute(_COLUMNS) if (row[0], row[1]) not in own]
    asked = " union all ".join(_question(*column) for column in columns)
    return [row[0] for row in connection.execute(asked.encode(), {"canaries": list(canaries)})]


def _question(table: str, column: str, is_bytes: bool) -> str:
    place, needle = (
        (f't."{column}"', "convert_to(c, 'UTF8')") if is_bytes else (f't."{column}"::text', "c")
    )
    return (
        f"select '{table}.{column}'"
        f" where exists (select from {table} t, unnest(%(canaries)s::text[]) c"
        f" where position({needle} in {place}) > 0)"
    )


def leaks_of_messages(connection: psycopg.Connection) -> Iterator[str]:
    texts = connection.execute(
        "select original_text from rewrite_request union select rewritten_text from rewrite_output"
    ).fetchall()
    canaries = sorted({piece for (text,) in texts if len(piece := telling_piece(text)) >= 12})
    for place in leaks(connection, canaries) if canaries else ():
        yield f"I7 A message's text stands in its own row only. {place}"


def telling_piece(text: str) -> str:
    """The longest part of a text that looks the same inside JSON."""
    pieces = text.replace("\\", '"').replace("\n", '"').split('"')
    return max(pieces, key=len)
