"""What a secret looks like: one rule per form, each linear in time, each with its own doubt.

The last group of a pattern is the secret. Patterns are re2's, which needs no bounds on its repeats
to stay linear. A rule may refuse what its pattern found: names of types, templates, paths.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import re2  # pyright: ignore[reportMissingTypeStubs] - it has none

RULE_SET_VERSION = "1"


class Match(Protocol):
    """What we use of re2's match."""

    def span(self, group: int = 0, /) -> tuple[int, int]:
        """Where a group stands."""
        ...


class Pattern(Protocol):
    """What we use of re2's pattern, which has no types of its own."""

    @property
    def groups(self) -> int:
        """How many groups it has."""
        ...

    def search(self, text: str, /) -> Match | None:
        """The first match."""
        ...

    def finditer(self, text: str, /) -> Iterator[Match]:
        """All matches that do not overlap."""
        ...


@dataclass(frozen=True, slots=True)
class Found:
    """A possible secret and what stands around it on its line."""

    head: str  # from the start of the match: the name and the operator
    secret: str
    before: str  # up to 60 characters
    after: str  # one character


@dataclass(frozen=True, slots=True)
class Rule:
    """One form of secret."""

    kind: str
    pattern: Pattern
    source: str
    is_secret: Callable[[Found], bool]


def pattern(source: str) -> Pattern:
    """Compile with re2; it writes nothing to stderr when it falls back to its slower engine."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 64 << 20
    return cast("Pattern", re2.compile(source, options))  # pyright: ignore[reportUnknownMemberType] - as above


def rules(hosts: Sequence[str], *, with_emails: bool) -> tuple[Rule, ...]:
    """Every rule, the most certain forms first; `hosts` are suffixes of internal host names."""
    found = [_rule(kind, source) for kind, source in _FORMATS]
    found += [_rule("uri", source, _is_no_template) for source in _URIS]
    found += [_rule("auth", source, _has_mixed_word) for source in _HEADERS]
    found += [_rule("assigned", source, is_secret) for source, is_secret in _ASSIGNMENTS]
    found.append(_rule("random", r"([A-Za-z0-9+/_=-]{20,})", _is_random_near_a_name))
    if with_emails:
        found.append(_rule("email", _EMAIL, lambda one: not one.secret.startswith("git@")))
    found += [_rule("host", rf"(?i)((?:[a-z0-9_-]+\.)*{re.escape(h)})\b") for h in hosts]
    return tuple(found)


def gate(of: Sequence[Rule]) -> Pattern:
    """One pattern that matches wherever any rule might: most lines end here."""
    return pattern("|".join(f"(?:{rule.source})" for rule in of))


def _always(_: Found) -> bool:
    return True


def _rule(kind: str, source: str, is_secret: Callable[[Found], bool] = _always) -> Rule:
    return Rule(kind, pattern(source), source, is_secret)


def _is_no_template(one: Found) -> bool:
    """Whether enough is left when references to other places are taken away."""
    rest = _TEMPLATE.sub("", one.secret)
    return sum(letter.isalnum() for letter in rest) >= 3 and not _MASK.fullmatch(one.secret)


def _has_mixed_word(one: Found) -> bool:
    return _is_no_template(one) and any(map(_is_mixed, _WORDS.findall(one.secret)))


def _is_mixed(word: str) -> bool:
    """Letters with digits, or a capital inside: no word of a sentence."""
    has_digit = any(letter.isdigit() for letter in word)
    return any(map(str.isalpha, word)) and (has_digit or word[1:] != word[1:].lower())


def _is_quoted_secret(one: Found) -> bool:
    if not _is_no_template(one) or len(one.secret) < 4:
        return False
    return not _ABOUT.search(one.head) or looks_random(one.secret)


def _is_bare_secret(one: Found) -> bool:
    """An unquoted value is a secret unless it reads like code: a call, a name, a type, a path."""
    value = one.secret.rstrip(".:\\")
    if not _is_quoted_secret(one) or one.after == "(" or value[:1] in {"!", "/", "~", "."}:
        return looks_random(value)
    if value.isdigit():
        return bool(_PASSWORD.search(one.head))
    if _NAME_OR_ATTRIBUTE.fullmatch(value):
        is_setting = one.after == "" and one.head.rstrip(" ").endswith(":")
        return is_setting and value.casefold() not in _TYPES and not _SECRET_WORD.search(value)
    return not _SECRET_WORD.search(value) or _is_mixed(value)


def _is_variable(one: Found) -> bool:
    """The value of NAME=value in a shell, an env file or a Dockerfile."""
    if one.secret.isdigit() and not _PASSWORD.search(one.head):
        return False
    return _is_quoted_secret(one) and one.secret.casefold() not in _TYPES


def _is_random_near_a_name(one: Found) -> bool:
    is_digest = _DIGEST_NAME.search(one.before) is not None
    return not is_digest and bool(_NEAR.search(one.before)) and looks_random(one.secret)


def looks_random(token: str) -> bool:
    """Whether no person wrote it: all kinds of letters, many changes, no digest.

    >>> looks_random("4eC39HqLyjWDarjtT1zdp7dc"), looks_random("9f" * 20)
    (True, False)
    """
    if len(token) < 20 or _DIGEST.fullmatch(token):
        return False
    kinds = (str.islower, str.isupper, str.isdigit)
    if not all(any(map(kind, token)) for kind in kinds) or len(_DIGITS.findall(token)) < 2:
        return False
    counts = Counter(token)
    return -sum(n / len(token) * math.log2(n / len(token)) for n in counts.values()) >= 3.5


_FORMATS = (
    ("pem", r"-----BEGIN [A-Z0-9 ]{1,40}-----(.*?[A-Za-z0-9+/=]{16}.*?)(?:-----END|$)"),
    ("jwt", r"\b(eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)*)"),
    ("aws", r"\b((?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16})\b"),
    ("github", r"\b(gh[pousr]_[A-Za-z0-9_.-]{20,}|github_pat_[A-Za-z0-9_]{20,})"),
    ("gitlab", r"\b(gl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|oas|soat|ffct)-[A-Za-z0-9_.-]{16,})"),
    ("slack", r"\b(xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{10,})"),
    ("slack", r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9/+_-]{16,})"),
    ("anthropic", r"\b(sk-ant-[A-Za-z0-9_-]{16,})"),
    ("openai", r"\b(sk-(?:proj|svcacct|admin|or)-[A-Za-z0-9_-]{16,}|sk-[A-Za-z0-9]{32,})"),
    ("google", r"\b(AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,})"),
    ("stripe", r"\b([srp]k_(?:live|test)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/=]{20,})"),
    ("sendgrid", r"\b(SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,})"),
    ("twilio", r"\b(SK[0-9a-f]{32})\b"),
    ("mailgun", r"\b(key-[0-9a-f]{32})\b"),
    ("npm", r"\b(npm_[A-Za-z0-9]{36})\b"),
    ("pypi", r"\b(pypi-[A-Za-z0-9_-]{40,})"),
    ("huggingface", r"\b(hf_[A-Za-z0-9]{30,})\b"),
    ("groq", r"\b(gsk_[A-Za-z0-9]{40,})\b"),
    ("digitalocean", r"\b(do[opr]_v1_[a-f0-9]{64})\b"),
    ("shopify", r"\b(shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32})\b"),
    ("databricks", r"\b(dapi[a-f0-9]{32}(?:-\d)?)\b"),
    ("vault", r"\b(hv[sbr]\.[A-Za-z0-9_-]{20,})"),
    ("supabase", r"\b(sb[ps]_[A-Za-z0-9]{30,}|sb_secret_[A-Za-z0-9_-]{20,})"),
    ("telegram", r"\b([0-9]{8,10}:AA[A-Za-z0-9_-]{32,})"),
    ("discord", r"\b([MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,})"),
    ("age", r"(AGE-SECRET-KEY-1[A-Z0-9]{50,})"),
    ("xai", r"\b((?:xai|pplx)-[A-Za-z0-9]{32,})\b"),
    ("grafana", r"\b(glsa_[A-Za-z0-9]{32}_[a-fA-F0-9]{8}|glc_[A-Za-z0-9+/=]{32,})"),
    ("atlassian", r"\b(ATATT3[A-Za-z0-9_=-]{50,})"),
)
_URIS = (
    r"(?i)\b[a-z][a-z0-9+.-]*://([^\s/\"'<>@]*:[^\s\"'<>/]+)@",
    # A password with a slash in it is no valid URI, and is written all the same.
    r"(?i)\b(?:postgres|mysql|mongodb|redis|amqp)[a-z0-9+]*://([^\s\"'<>@:/]*:[^\s\"'<>]+)@",
    r"(?i)\b[a-z][a-z0-9+.-]*://([a-z0-9_-]{20,})@",
    (
        r"(?i)[?&;](?:[a-z]+_token|token|api_?key|key|sig|signature|password|pwd|secret"
        r"|client_secret|auth|code|x-amz-[a-z-]+|x-goog-[a-z-]+)=([^&;\s\"'#<>]{4,})"
    ),
)
_HEADERS = (
    r"(?i)\b(?:bearer|basic|digest|apikey)[ \t]+([A-Za-z0-9._~+/=-]{8,})",
    (
        r"(?i)\b(?:(?:proxy-)?authorization|x-api-key|api-key|x-auth-token|private-token|set-cookie"
        r"|cookie)[\"']?[ \t]*[:=,][ \t]*[\"']?([^\"'\n]{8,})"
    ),
)
_NAMED = (
    r"(?:password|passwd|passphrase|passcode|pwd|secret|token|credential|(?:^|[^a-z0-9])pass"
    r"|(?:api|app|access|account|private|signing|encryption|master|auth|shared|storage)[_-]?key)"
)
_NAMED_UPPER = (
    r"(?:PASSWORD|PASSWD|PASS|PWD|SECRET|TOKEN|CREDENTIALS?"
    r"|(?:API|APP|ACCESS|ACCOUNT|PRIVATE|SIGNING|ENCRYPTION|MASTER|AUTH|SECRET)_?KEY)"
)
_TO = r"[a-z0-9_.-]*\\*[\"'`\]]*[ \t]*(?::[ \t]*[a-z_][a-z0-9_.\[\]| ]*)?[ \t]*"
_QUOTED = rf"(?i){_NAMED}{_TO}(?:[:=]?=|=>|===|[:,(])[ \t]*[a-z@]?[a-z]?\\*"
_BARE = r"([^\s\"'`,;(){}<>\[\]&|=:][^\s\"'`,;(){}<>\[\]&|]{3,})"
_ASSIGNMENTS: tuple[tuple[str, Callable[[Found], bool]], ...] = (
    (_QUOTED + r"\"((?:[^\"\\\n]|\\[^\"\n])+)", _is_quoted_secret),
    (_QUOTED + r"'((?:[^'\\\n]|\\[^'\n])+)", _is_quoted_secret),
    (_QUOTED + r"`((?:[^`\\\n]|\\[^`\n])+)", _is_quoted_secret),
    (
        rf"(?:^|[^A-Za-z0-9_])(?:[A-Z0-9]+_)*{_NAMED_UPPER}(?:_[A-Z0-9]+)*=([^\s\"'`]{{4,}})",
        _is_variable,
    ),
    (rf"(?i){_NAMED}{_TO}(?::=|=>|=|:)[ \t]*{_BARE}", _is_bare_secret),
    (rf"(?i)(?:^|\s)--?[a-z0-9-]*{_NAMED}[ =]+[\"']?([^\s\"'=-][^\s\"']{{3,}})", _is_variable),
    (rf"(?i){_NAMED}[a-z0-9_.-]*>[ \t]*([^<>\n]{{4,}})</", _is_no_template),
    (
        r"(?i)(?:identified by|sshpass -p|login \S+ password)[ \t]*[\"']?([^\s\"';]{4,})",
        _is_no_template,
    ),
    (r"(?i)[\"']auth[\"'][ \t]*:[ \t]*[\"']([A-Za-z0-9+/=]{12,})", _is_no_template),
    (r"(?i)\bcurl\b.*?[ \t](?:-u|--user)[ =]?[\"']?([^\s\"':]+:[^\s\"']+)", _is_no_template),
)
_WIDE = r"A-Za-z0-9\x80-\x{10ffff}"
_EMAIL = rf"([{_WIDE}._%+-]+@(?:[{_WIDE}-]+\.)+[{_WIDE}-]*[A-Za-z\x80-\x{{10ffff}}]{{2,}})"

_TEMPLATE = re.compile(
    r"\$\{[^}\n]*\}?|\$\([^)\n]*\)?|\$[A-Za-z_]\w*|\{\{[^}\n]*\}\}|#?\{[^}\n]*\}|<[^>\n]*>|%\(?\w*\)?[sdr]"
)
_MASK = re.compile(r"[*xX.•#_-]+")
_WORDS = re.compile(r"[A-Za-z0-9._~+/=-]{8,}")
_DIGITS = re.compile(r"\d+")
_DIGEST = re.compile(r"[0-9a-fA-F-]+|(?:sha\d{1,3}|md5|h1)[-:_=].*")
_DIGEST_NAME = re.compile(r"(?:\bh1|\bsha\d{1,3}|\bmd5)[-:=]$")
_PASSWORD = re.compile(r"(?i)pass|pwd|pin")
_SECRET_WORD = re.compile(r"(?i)passw|passphrase|pwd|secret|token|credential|key|auth|cred")
_NAME_OR_ATTRIBUTE = re.compile(r"[A-Za-z_]+(?:\.[A-Za-z_]\w*)*|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_NEAR = re.compile(
    r"(?i)key|auth|secret|token|cred|passw|pwd|session|cookie|salt|signature|hmac|bearer|private"
)
_ABOUT = re.compile(
    r"(?i)(?:ur[il]|endpoint|path|file|dir|name|field|label|type|kind|count|len|length|size|limit"
    r"|max|min|ttl|expir\w*|age|algorithm|policy|pattern|regex|hint|prompt|placeholder|message"
    r"|error|help|title|description|format|header|prefix|suffix|scopes?|class|column|index"
    r"|strength|required|enabled|valid\w*|provider|issuer|audience|key_?id)"
    r"[\"'`\])]{0,3}[ \t]*(?::[^=\"']*)?(?::=|=>|=+|[:,(])[ \t]*\w{0,2}\\*[\"'`]?$"
)
_TYPES = frozenset(
    "str string text bytes bytearray int integer number float bool boolean any unknown object none"
    " null nil undefined true false void optional required never self this char varchar default"
    " value values data func function lambda async await return input const readonly".split()
)
