"""Who may do what: each cell of role × table × verb, and what comes of trying."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any

import psycopg
import pytest

from dragoman.core.errors import DataRefused
from dragoman.core.job import State
from dragoman.store import jobs
from dragoman.store.roles import OWNER, ROLES
from tests import postgres, stand
from tests.store.attack import DENIED, connect, refusal
from tests.store.kernel import KEY, bring, crew_of, look
from tests.store.rewrites import Request

# S select, I insert, U update, D delete, X any other right; small letters: some columns only.
EXPECTED = """
                                orchestrator worker operator frontend auditor eraser
actor                           SI           SI     SI       -        S       -
alert                           SIu          SIU    SIU      -        -       -
attempt                         -            -      S        -        S       -
audit                           -            -      S        -        S       -
batch                           -            SIU    S        -        -       -
batch_item                      -            SIU    S        -        -       -
cell                            S            S      Su       -        S       -
chain_head                      -            -      S        -        S       -
change                          -            SI     SI       -        S       -
change_history                  -            -      S        -        S       -
dead_letter                     S            SI     Su       -        -       -
delivery                        S            SIU    su       -        -       -
event                           SI           SI     SI       -        S       -
finding                         S            SI     -        -        -       -
gate                            -            Siu    SIU      -        -       -
gate_now                        -            S      S        -        -       -
history                         S            -      S        -        S       -
hold                            S            Su     SIu      -        S       -
installed                       S            S      S        S        S       S
job                             SI           S      SI       -        s       -
job_record                      S            -      S        -        -       -
member                          SIUD         -      -        -        -       -
migration                       -            -      -        -        -       -
migration_step                  -            -      -        -        -       -
my_rewrite                      -            -      -        S        -       -
permit                          -            SID    S        -        -       -
pipeline                        S            S      S        -        S       -
preference                      SIUD         -      -        -        -       -
queue                           SI           SIU    S        -        -       -
queue_delta                     SI           SIuD   SI       -        -       -
queue_sum                       S            SIU    S        -        -       -
recipient_preference_snapshot   SI           -      -        -        -       -
recipient_snapshot              SI           S      -        -        -       -
remedy                          S            -      S        -        -       -
reveal                          SIU          -      -        -        -       -
review                          SIu          S      Su       -        -       -
review_diff                     -            SI     s        -        -       -
review_input                    SI           S      -        -        -       -
review_result                   S            SI     -        -        -       -
rewrite_output                  S            SI     s        -        -       -
rewrite_request                 SIu          Su     s        -        -       -
rewrite_status                  S            -      S        -        -       -
route                           S            S      SIU      -        -       -
run                             -            SIU    S        -        -       -
run_log                         -            -      S        -        -       -
schedule                        -            Siu    Su       -        -       -
stage_result                    -            SI     SI       -        -       -
standing                        SI           SU     siu      -        -       -
tombstone                       -            Su     Su       -        S       -
word                            S            S      S        -        S       -
worker                          -            SIU    S        -        -       -
"""

MATRIX = """
select r.rolname, c.relname, concat(
    case when has_table_privilege(r.oid, c.oid, 'select') then 'S'
         when has_any_column_privilege(r.oid, c.oid, 'select') then 's' end,
    case when has_table_privilege(r.oid, c.oid, 'insert') then 'I'
         when has_any_column_privilege(r.oid, c.oid, 'insert') then 'i' end,
    case when has_table_privilege(r.oid, c.oid, 'update') then 'U'
         when has_any_column_privilege(r.oid, c.oid, 'update') then 'u' end,
    case when has_table_privilege(r.oid, c.oid, 'delete') then 'D' end,
    case when has_table_privilege(r.oid, c.oid, 'truncate, references, trigger') then 'X' end)
  from pg_roles r, pg_class c
 where r.rolname = any(%s) and c.relnamespace = 'dragoman'::regnamespace
   and c.relkind in ('r', 'p', 'v', 'm', 'f') and c.relispartition = %s
   and c.relname <> 'moved_clock'
"""
SERVANTS = [role for role in ROLES if role != OWNER]
TEXTS = {
    "rewrite_request.original_text": {"orchestrator", "worker"},
    "rewrite_request.rewrite_request": {"orchestrator", "worker"},
    "rewrite_request.context_pack": {"orchestrator", "worker"},
    "rewrite_request.classifier_result": {"orchestrator", "worker"},
    "rewrite_output.rewritten_text": {"orchestrator", "worker"},
    "recipient_preference_snapshot.preferences": {"orchestrator"},
    "preference.value_key": {"orchestrator"},
    "review_input.source": {"orchestrator", "worker"},
    "review_diff.diff": {"worker"},
    "review_result.summary": {"orchestrator", "worker"},
    "finding.message": {"orchestrator", "worker"},
    "finding.title": {"orchestrator", "worker"},
    "finding.suggestion": {"orchestrator", "worker"},
    "delivery.payload": {"orchestrator", "worker"},
    "delivery.recipient": {"orchestrator", "worker"},
}


@pytest.fixture(scope="module")
def owner(shared: str) -> Generator[psycopg.Connection]:
    """Somebody who can read the catalog."""
    with connect(shared) as connection:
        yield connection


def expected() -> dict[tuple[str, str], str]:
    """The table above, by role and table."""
    head, *lines = EXPECTED.strip("\n").splitlines()
    cells = {}
    for line in lines:
        table, *verbs = line.split()
        for role, verb in zip(head.split(), verbs, strict=True):
            cells[f"dragoman_{role}", table] = verb.replace("-", "")
    return cells


def found(owner: psycopg.Connection, *, partitions: bool = False) -> dict[tuple[str, str], str]:
    """What the server says."""
    rows = owner.execute(MATRIX, (SERVANTS, partitions)).fetchall()
    return {(role, table): verbs for role, table, verbs in rows}


def test_each_role_may_do_on_each_table_what_it_should_and_no_more(
    owner: psycopg.Connection,
) -> None:
    """Every cell is as written down here; a new table or grant has to be written down too."""
    actual, wanted = found(owner), expected()
    differing = {
        cell: (actual.get(cell), wanted.get(cell))
        for cell in actual.keys() | wanted.keys()
        if actual.get(cell) != wanted.get(cell)
    }
    assert differing == {}


def test_nobody_reaches_a_partition_past_its_table(owner: psycopg.Connection) -> None:
    """The months of the history have no rights of their own."""
    assert set(found(owner, partitions=True).values()) == {""}


def test_texts_are_read_by_those_who_work_on_them(owner: psycopg.Connection) -> None:
    """Operator, auditor, frontend and eraser read no column that can hold a text or an address."""
    readers = {
        column: {
            role.removeprefix("dragoman_")
            for role in SERVANTS
            if owner.execute(
                "select has_column_privilege(%s, %s, %s, 'select')", (role, *column.split("."))
            ).fetchone()
            == (True,)
        }
        for column in TEXTS
    }
    assert readers == TEXTS


def test_no_role_has_more_than_its_grants(owner: psycopg.Connection) -> None:
    """No superuser, no membership, nothing owned, nothing to be created, no grant to everybody."""
    flags = owner.execute(
        "select rolname from pg_roles where rolname = any(%s) and (rolsuper or rolcreaterole"
        " or rolcreatedb or rolreplication or rolbypassrls)",
        (list(ROLES),),
    ).fetchall()
    members = owner.execute(
        "select from pg_auth_members where member::regrole::text = any(%s)", (list(ROLES),)
    ).fetchall()
    owned = owner.execute(
        "select relname from pg_class where relnamespace = 'dragoman'::regnamespace"
        " and relowner::regrole::text <> %s",
        (OWNER,),
    ).fetchall()
    makers = owner.execute(
        "select r from unnest(%s::text[]) r where has_schema_privilege(r, 'dragoman', 'create')"
        " or has_schema_privilege(r, 'public', 'create')"
        " or has_database_privilege(r, current_database(), 'create, temporary')",
        (SERVANTS,),
    ).fetchall()
    everybody = owner.execute(
        "select relname from pg_class c, aclexplode(c.relacl) a where a.grantee = 0"
        " and c.relnamespace = 'dragoman'::regnamespace and relname <> 'moved_clock'"
    ).fetchall()
    assert (flags, members, owned, makers, everybody) == ([], [], [], [], [])


def test_what_runs_with_the_owners_rights_is_asked_for_by_one_role_alone(
    owner: psycopg.Connection,
) -> None:
    """Such a function has a search path of its own, so that nobody lends it another table."""
    rows = owner.execute(
        "select proname, proconfig is not null, array(select r from unnest(%s::text[]) r"
        " where has_function_privilege(r, oid, 'execute')) from pg_proc"
        " where pronamespace = 'dragoman'::regnamespace and prosecdef and proname <> 'clock'"
        " order by proname",
        (SERVANTS,),
    ).fetchall()
    assert rows == [
        ("ensure_partitions", True, ["dragoman_worker"]),
        ("erase", True, ["dragoman_eraser"]),
    ]
    assert owner.execute("select ensure_partitions(3)").fetchone() == (0,)
    assert owner.execute("select ensure_partitions(4)").fetchone() == (1,)


@pytest.mark.parametrize("role", ROLES)
def test_a_connection_is_who_it_says_it_is(shared: str, role: str) -> None:
    """Each role comes in with its own password and is nobody else inside."""
    with psycopg.connect(postgres.dsn(role, shared)) as connection:
        row = connection.execute("select current_user, session_user").fetchone()
    assert row == (role, role)


def test_the_short_roles_cannot_hold_the_house_up(shared: str) -> None:
    """Every such role has a bound on its statements and on its idle transactions."""
    for role in (
        "dragoman_orchestrator",
        "dragoman_worker",
        "dragoman_operator",
        "dragoman_frontend",
    ):
        with psycopg.connect(postgres.dsn(role, shared)) as connection:
            for setting in ("statement_timeout", "idle_in_transaction_session_timeout"):
                value = connection.execute("select current_setting(%s)", (setting,)).fetchone()
                assert value not in {("0",), None}, (role, setting)


@pytest.mark.req("R018", "R122")
def test_only_the_orchestrator_writes_requests_snapshots_and_jobs(shared: str) -> None:
    """Every other role is denied, and a job whose request has no text is refused."""
    tables = ("rewrite_request", "recipient_snapshot", "recipient_preference_snapshot", "job")
    others = [role for role in SERVANTS if role != "dragoman_orchestrator"]
    for role in others:
        with connect(shared, role) as connection:
            for table in tables:
                assert refusal(connection, f"insert into {table} default values") == DENIED

    async def scenario() -> list[tuple[str | None, str | None]]:
        refused = []
        for role in ("dragoman_worker", "dragoman_operator", "dragoman_orchestrator"):
            async with stand.cell_of(shared, role) as cell:
                with pytest.raises(DataRefused) as caught:
                    async with cell.transaction("enqueue") as tx:
                        await jobs.enqueue_jobs(tx, Request().id, [Request().job()])
                refused.append((caught.value.sqlstate, caught.value.constraint))
        return refused

    no_text = ("DR001", "job_differs_from_request")
    assert asyncio.run(scenario()) == [DENIED, DENIED, no_text]


@pytest.mark.req("R091")
def test_the_worker_reads_no_preferences_and_no_directory(shared: str) -> None:
    """What could change after a request was made is out of the worker's reach."""
    with connect(shared, "dragoman_worker") as worker:
        for table in ("preference", "member", "recipient_preference_snapshot", "reveal"):
            assert refusal(worker, f"select from {table}") == DENIED


@pytest.mark.req("R003", "R089", "R099", "R180", "R194", "R198", "R199", "R200")
@pytest.mark.parametrize(
    "table", ["preference", "member", "recipient_preference_snapshot", "reveal"]
)
def test_the_worker_has_no_right_at_all_on_what_others_decide(
    owner: psycopg.Connection, table: str
) -> None:
    """Who lives where, what they like, when they may see it: no verb, and not on one column."""
    rights = owner.execute(
        "select has_table_privilege(%(role)s, %(table)s, 'select, insert, update, delete, truncate,"
        " references, trigger') or has_any_column_privilege(%(role)s, %(table)s, 'select, insert,"
        " update, references')",
        {"role": "dragoman_worker", "table": table},
    ).fetchall()
    assert rights == [(False,)]


@pytest.mark.req("R138")
def test_only_the_worker_stores_outputs(owner: psycopg.Connection) -> None:
    """Whoever does not run the checks cannot insert a text, not even one column of it."""
    rows = owner.execute(
        "select r from unnest(%s::text[]) r"
        " where has_any_column_privilege(r, 'rewrite_output', 'insert')",
        (SERVANTS,),
    ).fetchall()
    assert rows == [("dragoman_worker",)]


@pytest.mark.req("R228", "R245")
@pytest.mark.parametrize("role", ["dragoman_frontend", "dragoman_auditor", "dragoman_eraser"])
def test_a_users_door_neither_cancels_nor_claims(shared: str, role: str) -> None:
    """Cancel is the operator's and claim the worker's; for anybody else the job stays as it is."""

    async def scenario() -> None:
        async with crew_of(shared) as crew, stand.cell_of(shared, role) as cell:
            held = await bring(crew, State.QUEUED, KEY)
            before = look(shared, held.id)
            with pytest.raises(DataRefused) as caught:
                await jobs.cancel_jobs(cell, crew.actor, [held.id])
            assert caught.value.sqlstate == "42501"
            with pytest.raises(DataRefused) as caught:
                await jobs.claim_jobs(cell, crew.actor, [KEY], 1)
            assert caught.value.sqlstate == "42501"
            assert look(shared, held.id) == before

    asyncio.run(scenario())


def test_the_orchestrator_finishes_nothing_and_the_operator_enqueues_nothing(shared: str) -> None:
    """The roles' verbs do not overlap: claim, complete and enqueue belong to one each."""
    changes: dict[str, Any] = {
        "dragoman_orchestrator": "update standing set state = 'processing'",
        "dragoman_operator": "update standing set attempt_count = 0",
        "dragoman_worker": "insert into standing default values",
        "dragoman_auditor": "insert into event default values",
    }
    for role, statement in changes.items():
        with connect(shared, role) as connection:
            assert refusal(connection, statement) == DENIED


@pytest.mark.req("R222", "R175")
def test_a_products_users_see_four_words_and_nothing_of_how(owner: psycopg.Connection) -> None:
    """The frontend's one view has an id, a status and two times: no provider, no error."""
    names = [
        row[0]
        for row in owner.execute(
            "select attname from pg_attribute where attrelid = 'my_rewrite'::regclass"
            " and attnum > 0 order by attnum"
        )
    ]
    assert names == ["rewrite_request_id", "status", "created_at", "rewrite_completed_at"]
