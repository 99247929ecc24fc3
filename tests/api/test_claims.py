"""Tokens of a product's users: one form is taken, anything else is refused in the same words."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from dragoman.api.claims import LONGEST_S, SKEW_S, Claims, Verifier, read_verifier
from dragoman.api.problems import BadToken
from dragoman.core.errors import BadSetting
from tests.api.tokens import Backend, good, part

PRODUCT, OTHER = Backend(), Backend()
VERIFIER = Verifier("main", {"product": PRODUCT.key.public_key()})
HOME, ANN = UUID(int=0xA << 60), UUID(int=0xB << 60)
GOOD = PRODUCT.token(HOME, ANN, exp=int(time.time()) + LONGEST_S - 60)
HEADER = {"alg": "EdDSA", "typ": "JWT"}


def takes(token: str, verifier: Verifier = VERIFIER, now: float | None = None) -> bool:
    """Whether a token is taken; a refusal has always the same words and no cause."""
    try:
        found = verifier.verify(token, now)
    except BadToken as error:
        refused: BadToken = error
    else:
        assert found == Claims(HOME, ANN)
        return True
    assert (str(refused), refused.__cause__) == (str(BadToken()), None)
    return False


def hs256(claims: dict[str, Any], secret: bytes) -> str:
    """The oldest trick: the public key as the secret of a symmetric signature."""
    signed = f"{part({'alg': 'HS256', 'typ': 'JWT'})}.{part(claims)}"
    return f"{signed}.{part(hmac.new(secret, signed.encode(), hashlib.sha256).digest())}"


def test_a_good_token_says_who_asks() -> None:
    """Home and user come from the claims; other claims are allowed and mean nothing."""
    assert takes(GOOD)
    assert takes(PRODUCT.token(HOME, ANN, nbf=int(time.time()), iat=0, jti="x", role="owner"))
    for header in ({"alg": "EdDSA"}, {"alg": "EdDSA", "kid": "product"}):
        assert takes(PRODUCT.sign(header, good(HOME, ANN)))


@pytest.mark.parametrize(
    "header",
    [
        {},
        {"alg": "none"},
        {"alg": "None"},
        {"alg": "HS256"},
        {"alg": "ES256"},
        {"alg": "eddsa"},
        {"alg": ["EdDSA"]},
        {"alg": None},
        {**HEADER, "typ": "at+jwt"},
        {**HEADER, "kid": "other"},
        {**HEADER, "kid": ["product"]},
        {**HEADER, "kid": None},
        {**HEADER, "crit": ["exp"]},
        {**HEADER, "jwk": {"kty": "OKP"}},
        {**HEADER, "jku": "https://evil.example/keys"},
        {**HEADER, "x5u": "https://evil.example/cert"},
        [],
        "EdDSA",
        b"not json",
        b'{"alg":"EdDSA","alg":"EdDSA"}',
    ],
    ids=str,
)
def test_a_header_that_asks_for_anything_else_is_refused(header: object) -> None:
    """Even well signed: the key decides how a token is read, never the token."""
    assert not takes(PRODUCT.sign(header, good(HOME, ANN)))


def test_the_public_key_is_no_secret() -> None:
    """HS256 over the key's file, over its raw bytes and over nothing is refused."""
    raw = PRODUCT.key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    for secret in (PRODUCT.pem, PRODUCT.pem.strip(), raw, b""):
        assert not takes(hs256(good(HOME, ANN), secret))


@pytest.mark.parametrize("signature", [b"", bytes(64), bytes(63), bytes(65)])
def test_a_token_without_its_signature_is_refused(signature: bytes) -> None:
    """Whatever stands in its place."""
    signed = GOOD.rpartition(".")[0]
    assert not takes(f"{signed}.{part(signature)}")
    assert not takes(f"{part({'alg': 'none'})}.{GOOD.split('.')[1]}.{part(signature)}")


def test_another_key_and_another_cell_are_refused() -> None:
    """A key that this door does not know, a door that knows no key, an audience that is not it."""
    assert not takes(OTHER.token(HOME, ANN))
    assert not takes(GOOD, Verifier("main"))
    assert not takes(GOOD, Verifier("mainland", VERIFIER.keys))
    both = Verifier("main", {**VERIFIER.keys, "other": OTHER.key.public_key()})
    assert takes(OTHER.token(HOME, ANN), both)
    assert takes(GOOD, both)
    named = OTHER.sign({**HEADER, "kid": "product"}, good(HOME, ANN))
    assert not takes(named, both)


@pytest.mark.parametrize(
    "changed",
    [
        {"exp": None},
        {"exp": True},
        {"exp": "9999999999"},
        {"exp": 9999999999},
        {"exp": 1e300},
        {"exp": int(time.time()) + 60.5},
        {"exp": -1},
        {"nbf": "0"},
        {"nbf": int(time.time()) + 3000},
        {"aud": None},
        {"aud": "other"},
        {"aud": ["main"]},
        {"aud": "Main"},
        {"sub": None},
        {"sub": ""},
        {"sub": 7},
        {"sub": str(ANN).upper()},
        {"sub": f"{{{ANN}}}"},
        {"sub": ANN.hex},
        {"sub": f"{ANN}\n"},
        {"sub": f"{ANN}' or true --"},
        {"home": None},
        {"home": [str(HOME)]},
        {"home": "everybody"},
        {"home": "00000000-0000-0000-0000-00000000000g"},
    ],
)
def test_a_claim_that_is_missing_or_not_as_agreed_is_refused(changed: dict[str, Any]) -> None:
    """Nothing is guessed and nothing is coerced."""
    assert not takes(PRODUCT.token(HOME, ANN, **changed))


def test_a_token_is_good_for_its_time_and_for_an_hour_at_most() -> None:
    """From `nbf`, with some seconds for a clock that is off, until `exp`, without any."""
    token = PRODUCT.token(HOME, ANN, nbf=10_000, exp=12_000)
    assert [takes(token, now=now) for now in (9_969, 9_970, 11_999.9, 12_000)] == [
        False,
        True,
        True,
        False,
    ]
    far = PRODUCT.token(HOME, ANN, exp=20_000)
    soon = 20_000 - LONGEST_S - SKEW_S
    assert [takes(far, now=now) for now in (soon - 1, soon)] == [False, True]


@pytest.mark.parametrize(
    "token",
    [
        "",
        ".",
        "..",
        "...",
        "a.b.c",
        "x" * 5000,
        ".".join(["x" * 5000] * 3),
        f"{GOOD}.",
        f"{GOOD}=",
        f" {GOOD}",
        f"{GOOD}\n",
        GOOD.replace(".", "..", 1),
        f"é{GOOD}",
        "\0",
        "\ud800",
    ],
    ids=lambda token: ascii(token[:20]),
)
def test_garbage_is_refused_in_the_same_words(token: str) -> None:
    """No shape of it makes another error."""
    assert not takes(token)


def test_a_large_token_is_refused_although_it_is_well_signed() -> None:
    """The size is looked at first."""
    assert not takes(PRODUCT.token(HOME, ANN, more="x" * 2000))
    assert takes(PRODUCT.token(HOME, ANN, more="x" * 1000))


def test_deep_json_is_refused() -> None:
    """Well signed, and as deep as fits in."""
    assert not takes(PRODUCT.sign(HEADER, b"[" * 1200))
    body = json.dumps(good(HOME, ANN)).encode()[:-1]
    assert not takes(PRODUCT.sign(HEADER, body + b',"a":' + b"[" * 200 + b"]" * 200 + b"}"))


@given(at=st.integers(0, len(GOOD) - 1), bit=st.integers(0, 7))
def test_a_token_with_any_bit_changed_is_refused(at: int, bit: int) -> None:
    """Of the text as it is sent: there is no second spelling of a good token."""
    raw = bytearray(GOOD.encode())
    raw[at] ^= 1 << bit
    assert not takes(raw.decode("latin-1"))


@given(st.text(max_size=300))
def test_any_text_is_refused(text: str) -> None:
    """And nothing but BadToken ever comes out."""
    assert not takes(text)


@given(at=st.integers(0, 2), data=st.binary(max_size=80))
def test_a_part_in_another_spelling_is_refused(at: int, data: bytes) -> None:
    """Each of the three parts, replaced by anything else."""
    parts = GOOD.split(".")
    if base64.urlsafe_b64encode(data).rstrip(b"=").decode() == parts[at]:
        return
    parts[at] = part(data)
    assert not takes(".".join(parts))


def test_keys_are_read_from_files(tmp_path: Path) -> None:
    """Each is known by its file's name; without a file no token is taken."""
    files = [PRODUCT.write(tmp_path / "product.pem"), OTHER.write(tmp_path / "other.pem")]
    verifier = read_verifier("main", files)
    assert set(verifier.keys) == {"product", "other"}
    assert takes(GOOD, verifier)
    assert not takes(GOOD, read_verifier("main", []))


def test_a_file_without_a_public_key_is_refused(tmp_path: Path) -> None:
    """Missing, empty, of another kind, or two of one name: the sentence names the setting."""
    curve = generate_private_key(SECP256R1()).public_key()
    other = curve.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    for name, content in {"empty": b"", "text": b"hunter2", "curve": other}.items():
        (tmp_path / f"{name}.pem").write_bytes(content)
    (tmp_path / "a").mkdir()
    twice = [PRODUCT.write(tmp_path / "product.pem"), PRODUCT.write(tmp_path / "a" / "product.key")]
    wrong = [[tmp_path / f"{name}.pem"] for name in ("missing", "empty", "text", "curve")]
    for files in [*wrong, [tmp_path], twice]:
        with pytest.raises(BadSetting, match=r"^door\.user_keys: "):
            read_verifier("main", files)
