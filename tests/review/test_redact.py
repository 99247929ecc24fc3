from __future__ import annotations

import random
import string
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from unidiff.patch import PatchSet

from dragoman.core.errors import BadSetting
from dragoman.review import redact as redact_module
from dragoman.review.redact import RedactionFailed, Redactor

KEY = b"a key for one run"
REDACTOR = Redactor(KEY, hosts=[".corp.example", "intra.example.net"])
ALNUM = string.ascii_letters + string.digits
NOTED = random.Random(7)  # noqa: S311 - a test's data


def body(length: int, alphabet: str = ALNUM) -> str:
    """Letters of a made-up secret, the same in every run."""
    return "".join(NOTED.choices(alphabet, k=length))


def clean(text: str) -> str:
    return REDACTOR.redact(text).text


def assert_gone(secret: str, text: str) -> None:
    """No stretch of six letters of the secret is left, and no 40 % of it."""
    size = min(6, max(3, len(secret) * 2 // 5))
    parts = {secret[at : at + size] for at in range(len(secret) - size + 1)}
    assert not {part for part in parts if part in text}, text


HEX = "0123456789abcdef"
UPPER = string.ascii_uppercase + string.digits
FORMATS = {
    "aws": "AKIA" + body(16, UPPER),
    "github": "ghp_" + body(36),
    "github app": "ghs_" + body(500, ALNUM + "._-"),
    "github fine": "github_pat_" + body(82, ALNUM + "_"),
    "gitlab": "glpat-" + body(20),
    "slack": "xoxb-" + body(12, string.digits) + "-" + body(24),
    "anthropic": "sk-ant-api03-" + body(90, ALNUM + "_-"),
    "openai": "sk-proj-" + body(100, ALNUM + "_-"),
    "openai old": "sk-" + body(48),
    "google": "AIza" + body(35, ALNUM + "_-"),
    "stripe": "sk_live_" + body(24),
    "sendgrid": "SG." + body(22) + "." + body(43),
    "npm": "npm_" + body(36),
    "pypi": "pypi-" + body(120, ALNUM + "_-"),
    "huggingface": "hf_" + body(34),
    "vault": "hvs." + body(90),
    "telegram": body(9, string.digits) + ":AA" + body(33),
    "age": "AGE-SECRET-KEY-1" + body(58, UPPER),
    "jwt": "eyJ" + body(30) + ".eyJ" + body(60) + "." + body(43, ALNUM + "_-"),
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("around", ["{}", "+x = call('{}')", "- url: https://h/{}/x", '"a": "{}",'])
def test_formats_of_providers_are_known_wherever_they_stand(name: str, around: str) -> None:
    """A provider's key is taken out whole, long tails and signatures included."""
    secret = FORMATS[name]
    text = clean(around.format(secret))
    assert_gone(secret[8:], text)
    before, after = around.split("{}")
    assert text.startswith(before)
    assert text.endswith(after)


WEAK = "hunter2-zebra"
PLACES = [
    "password = '{}'",
    '+  "password": "{}",',
    "-PASSWORD={}",
    "export DB_PASSWORD={}",
    "ENV MYSQL_ROOT_PASSWORD={}",
    "password: {}",
    "password: str = '{}'",
    'passwd := "{}"',
    "'secret' => '{}',",
    "define('DB_PASSWORD', '{}');",
    'user.setPassword("{}");',
    'getenv("DB_PASSWORD", "{}")',
    "<password>{}</password>",
    'log = "{{\\"password\\": \\"{}\\"}}"',
    "jdbc:mysql://db/x?user=a&password={}",
    "Server=db;Password={};Encrypt=1",
    "mysql -u root --password={} shop",
    "tool --api-key {} run",
    "curl -u ann:{} https://h/",
    "postgresql://ann:{}@db.example.com/x",
    "redis://:{}@cache/0",
    "https://h/x?access_token={}&a=1",
    "Authorization: Basic {}",
    'headers = {{"Authorization": "Bearer {}"}}',
    "Cookie: session={}; theme=dark",
    "client_secret = `{}`",
    "aws_secret_access_key = {}",
    "api_key={}",
    "pass: '{}'",
    "AccountKey={};EndpointSuffix=x",
    "spring.datasource.password={}",
    "auth: {{ user: 'a', pass: '{}' }}",
    "create user a identified by '{}'",
    "machine h login a password {}",
    "sshpass -p {} ssh h",
]


@pytest.mark.parametrize("place", PLACES)
def test_a_secret_is_known_by_its_name_or_place(place: str) -> None:
    """A weak password has no form of its own; what is around it gives it away."""
    text = clean(place.format(WEAK))
    assert_gone(WEAK, text)
    assert "[REDACTED:" in text


def test_a_random_string_beside_a_telling_name_is_taken_out() -> None:
    """Next to key, auth, session and the like a high-entropy string is a secret."""
    token = "9Zq3Lk8Vd2Xw7Bn5Tf1Rp6Hs4"
    assert_gone(token, clean(f"the session is {token}"))
    assert clean(f"the colour is {token}") == f"the colour is {token}"


INNOCENT = """\
diff --git a/src/auth/token.py b/src/auth/token.py
index 45b983be36b73c0788dc9cbcb76cbb80fc7bb057..587be6b4c3f93f93c489c0111bba5596147a26cb 100644
--- a/src/auth/token.py
+++ b/src/auth/token.py
@@ -10,6 +10,7 @@ def check_password(token: str) -> bool:
+    Change-Id: I8473b95934b5732ac55d26311a706c9c2bde9940
+sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
+e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  auth/key.tar.gz
+    "integrity": "sha512-v2kDEe57lecTulaDIuNTPy3Ry4gLGJ6Z1O3vE1krgXZNrsQ+LFTGHVxVjcXPs1==",
+github.com/acme/auth v1.2.3 h1:qL7Yc1+Jz3Zr0Yd2o3kq1wQbF0u5K9m2X4b6c8d0e2f=
+    id = "550e8400-e29b-41d4-a716-446655440000"
+    auth request 550e8400-e29b-41d4-a716-446655440000
+    image: registry/auth@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
+    uses: actions/checkout@8e5e7e5ab8b370d6c329ec480221332ada57f0ab
+    password = get_password()
+    password = get_password2()
+    password: str
+    password: string;
+    token: Token,
+    token = self.next_token()
+    token = os.environ["API_TOKEN"]
+    token = user_token
+def login(user, password=None, token=user_token):
+    if token == "(":
+    api_key = config.api_key
+    password = ${DB_PASSWORD}
+    url: postgresql://${USER}:${PASSWORD}@db/x
+    url = f"postgresql://{user}:{password}@db/x"
+    max_tokens = 2000
+    token_url = "https://auth.example.org/oauth/token"
+    private_key_path = "/etc/ssl/x"
+    secretName: my-app-secret
+    password_min_length = 12
+    git clone git@github.com:acme/shop.git
+    getUserKeyFromSessionStoreWithFallback()
+@pytest.mark.parametrize("token", ["a"])
+    basic authentication is required, the bearer authentication scheme too
+    const token = await getToken(user);
+    for token in tokens: yield token.text
+    primary_key=True
+    if "-----BEGIN PRIVATE KEY-----" in text:
+        return
+    npm install react@18.2.0 @types/node@20.1.0
"""


def test_digests_ids_and_code_are_left_alone() -> None:
    """Git's index lines, digests, UUIDs, Change-Ids and code that handles secrets stay."""
    redacted = REDACTOR.redact(INNOCENT)
    lines = zip(INNOCENT.split("\n"), redacted.text.split("\n"), strict=True)
    assert [pair for pair in lines if pair[0] != pair[1]] == []
    assert redacted.counts == ()


PEM_BODY = [body(64, ALNUM + "+/") for _ in range(6)] + ["Qw4e=="]
PEM = ["-----BEGIN RSA PRIVATE KEY-----", *PEM_BODY, "-----END RSA PRIVATE KEY-----"]
PPK = ["PuTTY-User-Key-File-3: ssh-rsa", "Private-Lines: 7", *PEM_BODY, "Private-MAC: 0f"]
BLOCKS = {
    "plain": PEM,
    "added": ["+" + line for line in PEM],
    "removed": ["-" + line for line in PEM],
    "both sides": ["-" + line for line in PEM[:4]] + ["+" + line for line in PEM[1:]],
    "indented": ["+    " + line for line in PEM],
    "in a comment": [" # " + line for line in PEM],
    "in strings": [f'+    "{line}\\n" +' for line in PEM],
    "with headers": [PEM[0], "Proc-Type: 4,ENCRYPTED", "DEK-Info: AES-128-CBC,00", "", *PEM[1:]],
    "windows": [line + "\r" for line in PEM],
    "cut off at its end": ["+" + line for line in PEM[:5]],
    "cut off at its start": ["@@ -3,9 +3,9 @@", *("+" + line for line in PEM[3:])],
    "only its middle": ["+" + line for line in PEM[2:5]],
    "putty": PPK,
}


@pytest.mark.parametrize("form", BLOCKS)
def test_keys_over_several_lines_are_taken_out_whole(form: str) -> None:
    """Every line of the body goes, in a diff, a string or a comment, and no line is lost."""
    lines = BLOCKS[form]
    text = clean("\n".join(["before", *lines, "+after"]))
    for line in PEM_BODY:
        if any(line in one for one in lines):
            assert_gone(line, text)
    found = text.split("\n")
    assert len(found) == len(lines) + 2
    for one, redacted in zip(lines, found[1:-1], strict=True):
        assert one[:1] not in "+- #" or redacted[:1] == one[:1]
    assert (found[0], found[-1]) == ("before", "+after")


def test_a_key_on_one_line_is_taken_out() -> None:
    """A PEM block with escaped line ends is one line."""
    one_line = "\\n".join(PEM)
    text = clean(f'+key = "{one_line}"')
    for line in PEM_BODY[:-1]:
        assert_gone(line, text)
    assert text.startswith('+key = "-----BEGIN RSA PRIVATE KEY-----[REDACTED:pem:')


def test_addresses_and_internal_hosts_are_taken_out_by_policy() -> None:
    """E-mail addresses go unless they are allowed, hosts when their suffix is configured."""
    text = (
        "+Signed-off-by: Ann Smith <ann.smith@example.org>\n+db1.eu.corp.example:5432\n x.corp.net"
    )
    found = clean(text).split("\n")
    assert found[0].startswith("+Signed-off-by: Ann Smith <[REDACTED:email:")
    assert found[1].startswith("+[REDACTED:host:")
    assert found[1].endswith(":5432")
    assert found[2] == " x.corp.net"
    assert Redactor(KEY, with_emails=False).redact(text).text == text
    assert_gone("jörg@müller.example", clean("+von jörg@müller.example"))
    assert clean("+ann@example.org").startswith("+[REDACTED:email:")


def test_equal_secrets_stay_equal_in_one_run_and_differ_between_runs() -> None:
    """The placeholder lets a model compare, and does not let anybody guess."""
    text = "password = 'hunter2-zebra'\npasswd: 'hunter2-zebra'\nsecret = 'another-zebra'"
    first, second, other = (line[-11:-2] for line in clean(text).split("\n"))
    assert first == second != other
    assert Redactor(b"another run's key").redact(text).text != clean(text)
    assert Redactor(KEY).redact(text) == Redactor(KEY).redact(text)


def test_what_was_found_is_counted_by_kind() -> None:
    """The counts and the version of the rules are kept with the job; the text is in no repr."""
    found = REDACTOR.redact(f"a@example.org b@example.org\nkey = {FORMATS['aws']}")
    assert found.counts == (("aws", 1), ("email", 2))
    assert found.rule_set_version
    assert "example" not in repr(found)


DIFF = """\
diff --git a/x b/x
index 1..2 100644
--- a/x
+++ b/x
@@ -1,3 +1,4 @@ password = 'hunter2-zebra'
 a = 1
-password = 'hunter2-zebra'
+password = "hunter3-zebra"
+++ann@example.org
 -----BEGIN X-----
"""


def test_a_redacted_diff_is_still_the_same_diff() -> None:
    """Hunk headers hold, and every line keeps its first letter."""
    text = clean(DIFF)
    [before], [after] = PatchSet(DIFF), PatchSet(text)
    assert (after.added, after.removed) == (before.added, before.removed) == (2, 1)
    assert [line[:1] for line in text.split("\n")] == [line[:1] for line in DIFF.split("\n")]
    assert text.count("[REDACTED:") == 4


PIECES = st.sampled_from(
    [
        *PLACES[:8],
        *(line for block in ("added", "in strings") for line in BLOCKS[block]),
        "[REDACTED:assigned:12345678]",
        "[REDACTED:token:12345678]hunter2-zebra",
        "password='[REDACTED:pem:12345678]x1y2z3'",
        "https://[REDACTED:uri:12345678]:b@h/",
        "Bearer [REDACTED:auth:12345678]abcdef12",
        "\u2028\x85\x0b\r\ud800\0ä",
        *FORMATS.values(),
        *INNOCENT.split("\n")[:9],
    ]
)


@given(st.lists(PIECES, max_size=8), st.sampled_from(["\n", " ", "", '"', "="]))
@example(["[REDACTED:token:12345678]hunter2-zebra"], "\n")
def test_redacting_again_changes_nothing(pieces: list[str], between: str) -> None:
    """The result is a fixpoint with as many lines as before, also when placeholders are forged."""
    text = between.join(pieces).replace("\ud800", "")
    found = clean(text)
    assert found.count("\n") == text.count("\n")
    assert clean(found) == found


@pytest.mark.parametrize(
    "line",
    [
        "password = '[REDACTED:assigned:12345678]hunter2-zebra'",
        "password = '[REDACTED:assigned:12345678] hunter2-zebra'",
        "postgresql://ann:[REDACTED:uri:12345678]hunter2-zebra@h/x",
        "PASSWORD=[REDACTED:assigned:12345678]hunter2-zebra",
    ],
)
def test_a_forged_placeholder_shields_nothing(line: str) -> None:
    """Only a value that is nothing but placeholders counts as redacted."""
    assert_gone(WEAK, clean(line))


ADVERSARIAL = {
    "one word": "a" * 300_000,
    "base64": "aB3/" * 75_000,
    "begins": "-----BEGIN " * 25_000,
    "begin lines": "-----BEGIN A-----\n" * 15_000,
    "body lines": "-----BEGIN A-----\n" + ("aB3/" * 16 + "\n") * 4_000,
    "names": "password=" * 30_000,
    "open quotes": 'password="' * 30_000,
    "escapes": "token\\" * 40_000,
    "types": "token: a" * 30_000,
    "jwt": "eyJ" * 100_000,
    "schemes": "a://b:" * 40_000,
    "at signs": "a@" * 150_000,
    "domains": "a.b@c." * 40_000,
    "underscores": "AA_" * 100_000,
    "options": " --token" * 30_000,
    "curls": "curl -u " * 30_000,
    "empty lines": "\n" * 100_000,
}


@pytest.mark.parametrize("name", ADVERSARIAL)
def test_no_line_takes_more_than_linear_time(name: str) -> None:
    """300 KB built against the patterns are done within the budget of a few seconds."""
    started = time.monotonic()
    REDACTOR.redact(ADVERSARIAL[name])
    assert time.monotonic() - started < 5


def test_whatever_goes_wrong_no_text_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug, a time-out, a text too long or with lone surrogates: one typed error, without text."""

    def fails(reason: str) -> None:
        raise ValueError(reason)

    def check(redactor: Redactor, text: str) -> None:
        with pytest.raises(RedactionFailed) as caught:
            redactor.redact(text)
        assert str(caught.value) == RedactionFailed.__doc__
        assert caught.value.__suppress_context__

    check(Redactor(KEY, budget_s=-1), "x")
    check(REDACTOR, "a\ud800")
    monkeypatch.setattr(redact_module, "MAX_CHARACTERS", 3)
    check(REDACTOR, "four")
    monkeypatch.undo()
    monkeypatch.setattr(redact_module, "_bodies", lambda _lines, _at: fails("hunter2"))
    check(REDACTOR, "hunter2")
    monkeypatch.undo()
    turns = iter(range(100))
    monkeypatch.setattr(redact_module._Run, "_line", lambda _run, _line: str(next(turns)))
    check(REDACTOR, "never the same twice")


@pytest.mark.parametrize("hosts", [["*"], [""], ["a b"], ["corp.example/x"], ["a", "(.*)"]])
def test_a_host_suffix_must_be_a_host_name(hosts: list[str]) -> None:
    """A suffix is literal; a pattern in its place is refused at start."""
    with pytest.raises(BadSetting):
        Redactor(KEY, hosts=hosts)


def test_a_short_key_is_refused() -> None:
    """A key that could be tried out would give short secrets away."""
    with pytest.raises(BadSetting):
        Redactor(b"short")
