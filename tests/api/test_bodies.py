"""Hostile bodies: each is refused with a typed error, stores nothing, and is never quoted."""

from __future__ import annotations

import json
import socket
from uuid import uuid4

import pytest

from dragoman.api.bodies import DECIDED_HERE, MAX_BODY
from tests.api.door import Door
from tests.api.people import CANARY, complaint, move_in, requests
from tests.stand import Home

HOME = Home()


def raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def body(**changes: object) -> bytes:
    return json.dumps(complaint(HOME) | changes).encode()


WHOLE = body().decode()
BROKEN = {
    "nothing": b"",
    "not JSON": raw(f"hello {CANARY}"),
    "half of it": WHOLE[:-20].encode(),
    "two values": raw(WHOLE + WHOLE),
    "an array": raw(f'["{CANARY}"]'),
    "a string": raw(f'"{CANARY}"'),
    "not UTF-8": body() + b"\xff",
    "a byte order mark": b"\xef\xbb\xbf" + body(),
    "UTF-16": WHOLE.encode("utf-16"),
    "the same key twice": raw(WHOLE[:-1] + f', "message": "{CANARY}"}}'),
    "NaN": raw(WHOLE[:-1] + ', "priority": NaN}'),
    "Infinity": raw(WHOLE[:-1] + ', "priority": -Infinity}'),
    "a huge number": raw(WHOLE[:-1] + f', "priority": {"9" * 5000}}}'),
    "deep nesting": b"[" * 30_000,
    "deep objects": raw('{"a":' * 10_000 + "1" + "}" * 10_000),
    "NUL": body(message=f"{CANARY}\0"),
    "NUL in a name": body(**{f"{CANARY}\0": 1}),
    "a lone surrogate": raw(WHOLE.replace(CANARY, f"{CANARY}\\ud800")),
    "raw surrogate bytes": raw(WHOLE.replace(CANARY, f"{CANARY}\ud800")),
}
REFUSED = {
    "no message": {k: v for k, v in complaint(HOME).items() if k != "message"},
    "an empty message": complaint(HOME, message="  \n"),
    "a long message": complaint(HOME, message=CANARY * 200),
    "a message that is a list": complaint(HOME, message=[CANARY]),
    "a message that is null": complaint(HOME, message=None),
    "two recipients": complaint(HOME, recipient_user_id=[str(uuid4()), str(uuid4())]),
    "no recipient": complaint(HOME, recipient_user_id=None),
    "a long id": complaint(HOME, home_id="a" * 8_000),
    "an id that is a number": complaint(HOME, sender_user_id=7),
    "an id that is text": complaint(HOME, rewrite_request_id=CANARY),
    "a locale that is a sentence": complaint(HOME, sender_locale=f"as {CANARY} said"),
    "a long locale": complaint(HOME, recipient_locale="en-" * 20),
    "an unknown surface": complaint(HOME, surface=CANARY),
    "a field of text": complaint(HOME) | {f"{CANARY} and more": 1},
    "a field like a word": complaint(HOME) | {CANARY.lower(): 1},
}


def refused(door: Door, database: str, sent: object) -> dict[str, object]:
    """Send it; nothing of it may come back, and nothing may be stored."""
    before = requests(database)
    reply = door.post(sent)
    assert requests(database) == before
    assert reply.headers["content-type"] == "application/problem+json"
    assert set(reply.json) == {"type", "title", "status", "detail", "code"}
    assert reply.json["status"] == reply.status
    assert CANARY.lower() not in reply.text.lower()
    return reply.json


@pytest.mark.parametrize("name", BROKEN)
def test_bytes_that_are_not_strict_json_are_refused(door: Door, database: str, name: str) -> None:
    """Whatever is read differently somewhere down the line is 400, by the bytes themselves."""
    assert refused(door, database, BROKEN[name])["code"] == "bad_json"


@pytest.mark.parametrize("name", REFUSED)
def test_values_that_are_not_acceptable_are_refused(door: Door, database: str, name: str) -> None:
    """Missing, empty, too long, of another type, or unknown: 422."""
    assert refused(door, database, REFUSED[name])["code"] == "bad_input"


@pytest.mark.parametrize("name", sorted(DECIDED_HERE))
def test_what_is_decided_here_cannot_be_sent(door: Door, database: str, name: str) -> None:
    """Provider, model, prompt, topics, roles and the like are refused by their names."""
    told = refused(door, database, complaint(HOME) | {name: CANARY})
    assert told["detail"] == f"{name} is decided here and cannot be sent; nothing was stored"


def test_a_misspelt_field_is_told_what_it_could_be(door: Door, database: str) -> None:
    """The suggestion is one of our names; the one that was sent is not repeated."""
    told = refused(door, database, complaint(HOME) | {"mesage": CANARY})
    assert told["detail"] == (
        "there is a field that is not known here; did you mean message?; nothing was stored"
    )


def test_a_body_has_a_bound(door: Door, database: str) -> None:
    """64 KiB are read, one byte more is 413; a message over its own limit is 422 before that."""
    filler = MAX_BODY - len(body()) - 2
    fits = raw(WHOLE[:-1] + " " * filler + "}")
    assert refused(door, database, fits + b" " * 1000)["code"] == "too_large"
    home = move_in(database)
    spaced = json.dumps(complaint(home)).encode()
    assert door.post(spaced + b" " * (MAX_BODY - len(spaced))).status == 202


def test_a_body_without_an_end_is_cut_off(door: Door) -> None:
    """A chunked body that goes on for ever is answered as soon as it is too large."""
    head = (
        f"POST /v1/rewrites HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer "
        f"{door.key('orchestrator')}\r\nContent-Type: application/json\r\n"
        "Transfer-Encoding: chunked\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", door.port), timeout=10) as line:
        line.sendall(head.encode())
        for _ in range(17):
            line.sendall(b"1000\r\n" + b" " * 4096 + b"\r\n")
        assert line.recv(64).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_a_body_must_say_that_it_is_json(door: Door, kind: str) -> None:
    """What a form of a foreign page can send is 415."""
    headers = {"Content-Type": kind}
    reply = door.ask("POST", "/v1/rewrites", body(), key="orchestrator", headers=headers)
    assert (reply.status, reply.json["code"]) == (415, "wrong_media_type")


@pytest.mark.parametrize("path", ["/v1/rewrites/Zwiebelkuchen7041", "/v1/rewrites/1/text"])
def test_an_address_that_is_no_id_is_not_quoted(door: Door, path: str) -> None:
    """422 in our own words, without the value that was wrong."""
    reply = door.get(path, key="orchestrator")
    assert (reply.status, reply.json["code"]) == (422, "bad_input")
    assert CANARY not in reply.text
