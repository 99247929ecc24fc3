"""What holds for every statement of the folder, asked of the server and of the files."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Generator, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path

import psycopg
import pytest

import dragoman
from dragoman.core.job import Held
from dragoman.store.batches import OpenItem
from dragoman.store.database import statement
from tests.store.attack import connect

SRC = Path(dragoman.__file__).parent
PACKAGES = sorted(folder.parent.name for folder in SRC.glob("*/sql"))
FILES = {
    (f"dragoman.{package}", f"{path.parent.name}/{path.stem}"): path.read_text("utf-8")
    for package in PACKAGES
    for path in sorted((SRC / package / "sql").glob("*/*.sql"))
    if path.parent.name != "migrations"
}
UUIDS = {"actor", "worker", "id", "token", "home_id", "job_id", "fresh"}

# Read through a row maker of their own instead of a dataclass of their columns.
HELD = {field.name for field in fields(Held)}
ITEM = {field.name for field in fields(OpenItem)} - {"job"}
BY_HAND = {
    ("dragoman.store", "job/find_stale"): HELD,
    ("dragoman.store", "batch/open_items"): HELD | ITEM,
    ("dragoman.store", "job/read_waiting"): HELD,
}

# Updates that cannot name a token, and why.
WITHOUT_TOKEN = {
    "job/claim_jobs": "hands the token out",
    "job/claim_found": "hands the token out",
    "job/cancel_jobs": "cancel wins over whoever holds it",
    "job/promote_due": "nobody holds what waits",
    "job/wake_jobs": "nobody holds what waits",
    "batch/doubt_restored": "whoever made it is of another life",
    "batch/doubt_overdue": "whoever made it, its deadline has passed",
    "batch/record_files_deleted": "a closed batch is nobody's any more",
    "delivery/claim_deliveries": "hands the token out",
    "replay/take_deliveries": "their job is final, and nobody is told of it any more",
}
# Making ready moves nothing on the chain: the event is the move that put the job off.
WITHOUT_EVENT = {"job/promote_due", "job/wake_jobs"}


@pytest.fixture(scope="module")
def owner(shared: str) -> Generator[psycopg.Connection]:
    """Somebody who may prepare every statement."""
    with connect(shared) as connection:
        yield connection


def described(connection: psycopg.Connection, text: str) -> list[str]:
    """The names of a statement's columns, as the server gives them without running it."""
    names: list[str] = []

    def number(match: re.Match[str]) -> str:
        if match[1] not in names:
            names.append(match[1])
        return f"${names.index(match[1]) + 1}"

    numbered = re.sub(r"%\((\w+)\)s", number, text).replace("%%", "%")
    uuid, integer = (connection.adapters.types[name].oid for name in ("uuid", "int2"))
    known = {**dict.fromkeys(UUIDS, uuid), "kind": integer, "reason": integer}
    prepared = connection.pgconn.prepare(
        b"", numbered.encode(), [known.get(name, 0) for name in names]
    )
    assert prepared.status == psycopg.pq.ExecStatus.COMMAND_OK, prepared.error_message
    result = connection.pgconn.describe_prepared(b"")
    return [(result.fname(n) or b"").decode() for n in range(result.nfields)]


@pytest.mark.parametrize(("package", "name"), FILES)
def test_a_statement_fits_the_schema(owner: psycopg.Connection, package: str, name: str) -> None:
    """The server accepts every file as it stands, and names each column once."""
    columns = described(owner, statement(name, package))
    assert len(columns) == len(set(columns))


def fetches() -> Iterator[tuple[str, str, type]]:
    """Every `fetch(Kind, "noun/verb", …)` of the sources: package, statement, dataclass."""
    for path in sorted(SRC.rglob("*.py")):
        module = ".".join(("dragoman", *path.relative_to(SRC).with_suffix("").parts))
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            match node:
                case ast.Call(
                    func=ast.Attribute(attr="fetch"),
                    args=[ast.Name(id=kind), ast.Constant(value=str(name)), *rest],
                ):
                    loaded = importlib.import_module(module)
                    package = "dragoman.store"
                    if rest and isinstance(rest[0], ast.Name):
                        package = getattr(loaded, rest[0].id)
                    yield package, name, getattr(loaded, kind)


FETCHES = list(fetches())


@pytest.mark.parametrize(("package", "name", "kind"), FETCHES, ids=lambda each: str(each)[-40:])
def test_the_columns_returned_are_the_fields_of_the_dataclass(
    owner: psycopg.Connection, package: str, name: str, kind: type
) -> None:
    """No column is dropped on the way and no field is missing, whatever the statement finds."""
    assert is_dataclass(kind)
    assert set(described(owner, statement(name, package))) == {f.name for f in fields(kind)}


@pytest.mark.parametrize(("package", "name"), BY_HAND)
def test_a_holding_is_read_whole(owner: psycopg.Connection, package: str, name: str) -> None:
    """The statements that a row maker reads return exactly what it takes."""
    assert set(described(owner, statement(name, package))) == BY_HAND[package, name]


def test_the_search_for_fetches_finds_them() -> None:
    """What reads dataclasses is among what was looked at."""
    assert {package for package, _, _ in FETCHES} >= {"dragoman.store", "dragoman.rewrite"}
    assert len(FETCHES) > 8


def test_every_statement_is_used() -> None:
    """A file that no function names is not in the folder."""
    code = "\n".join(path.read_text("utf-8") for path in SRC.rglob("*.py"))
    named = {
        name
        for _, name in FILES
        if f'"{name}"' in code or (name.startswith("batch/") and f'"{name[6:]}"' in code)
    }
    assert {name for _, name in FILES} - named == set()


def bare(text: str) -> str:
    """A statement without its comments."""
    return re.sub(r"--[^\n]*", "", text)


def updates(text: str) -> Iterator[tuple[str, str, str]]:
    """Table, assignments and condition of each update of a hot row in a statement."""
    for part in re.split(r"\bupdate\s+(?=(?:standing|batch|delivery)\b)", bare(text))[1:]:
        table = part.split()[0]
        body = re.split(r"\breturning\b", part)[0]
        assigned, _, condition = body.partition(" where ")
        if not condition:
            assigned, _, condition = re.sub(r"\s+", " ", body).partition(" where ")
        yield table, assigned, condition


def is_chain_only(assigned: str) -> bool:
    """Whether an update writes the chain's head and nothing else."""
    names = set(re.findall(r"(?:set|,)\s+(\w+) =", assigned))
    return bool(names) and names <= {"seq", "last_event_at", "head"}


MOVING = {
    (package, name): moves
    for (package, name), text in FILES.items()
    if (moves := [each for each in updates(text) if not is_chain_only(each[1])])
}


@pytest.mark.req("R263")
@pytest.mark.parametrize(("package", "name"), MOVING)
def test_an_update_names_the_state_it_expects_and_the_token(package: str, name: str) -> None:
    """Who moves a row says what it believes; the few that cannot are listed."""
    for table, _, condition in MOVING[package, name]:
        assert re.search(r"\b(state|closed_at|notified_at)\b", condition), table
        has_token = re.search(r"\b(claim_)?token\b", condition) is not None
        assert has_token != (name in WITHOUT_TOKEN)


def test_the_list_of_exceptions_is_in_use() -> None:
    """No exception is left over for a statement that has gone."""
    names = {name for _, name in MOVING}
    assert set(WITHOUT_TOKEN) <= names
    assert {"job/move_jobs", "batch/record_submitted", "delivery/record_sent"} <= names


WITH_STANDING = [
    (package, name)
    for (package, name), text in FILES.items()
    if re.search(r"\b(update|insert into) (standing|tombstone)\b", text)
]


@pytest.mark.parametrize(("package", "name"), WITH_STANDING)
def test_who_writes_a_standing_writes_its_event(package: str, name: str) -> None:
    """Move and event are one statement, linked by the chain: no crash can come between them."""
    text = bare(FILES[package, name])
    has_event = "insert into event" in text and "chain(" in text
    assert has_event != (name in WITHOUT_EVENT)
    moves = [assigned for table, assigned, _ in updates(text) if table == "standing"]
    if "insert into standing" in text or any(re.search(r"\bstate =", each) for each in moves):
        assert "insert into queue_delta" in text


def test_nobody_else_writes_events() -> None:
    """An event comes from a statement that extends its job's chain, and from no other."""
    writers = {
        (package, name) for (package, name), text in FILES.items() if "into event" in bare(text)
    }
    assert writers <= set(WITH_STANDING)


@pytest.mark.parametrize(("package", "name"), FILES)
def test_a_statement_knows_one_clock_and_no_chance(package: str, name: str) -> None:
    """Time comes from clock(), which a test can move; ids and tokens come from Python."""
    text = bare(FILES[package, name])
    words = (
        r"\b(now\(|current_timestamp|clock_timestamp|localtime|random\(|gen_random_uuid|nextval)"
    )
    assert re.search(words, text) is None
    assert re.search(r"\b(do|execute|notify|serializable)\b(?! (nothing|update))", text) is None
