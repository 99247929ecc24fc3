"""What can be wrong with a result file on its way: lines lost, doubled, torn, strange."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

import orjson

from dragoman.core.canonical import JSONObject
from dragoman.sandbox.faults import FILE_FAULTS, Fault

_STRANGER: Final = b'{"id":"batch_req_0","custom_id":"nobody","response":null,"error":null}\n'
_EXPIRED: Final[JSONObject] = {"response": None, "error": {"code": "batch_expired"}}


def spoil(data: bytes, faults: Sequence[Fault]) -> bytes:
    """The file as the client shall see it ("truncate" is done where the body is sent)."""
    for fault in faults:
        if fault.do in FILE_FAULTS:
            data = _spoil(data, fault)
    return data


def _spoil(data: bytes, fault: Fault) -> bytes:
    lines = [line + b"\n" for line in data.split(b"\n") if line]
    meant = [at for at, line in enumerate(lines) if _is_meant(at, line, fault)]
    match fault.do:
        case "missing":
            return b"".join(line for at, line in enumerate(lines) if at not in meant)
        case "duplicate":
            return data + b"".join(_again(lines[at], fault) for at in meant)
        case "unknown_id":
            return data + _STRANGER
        case "insert_line":
            return (fault.text("line") or "").encode() + b"\n" + data
        case "torn_line":
            return data[: -max(1, len(lines[-1]) // 2)] if lines else data
        case "bom":
            return b"\xef\xbb\xbf" + data
        case "crlf":
            return data.replace(b"\n", b"\r\n")
        case _:
            return data


def _is_meant(at: int, line: bytes, fault: Fault) -> bool:
    """By custom_id, else by place in the file, else the first line."""
    custom_id = fault.text("custom_id")
    if custom_id is not None:
        return _read(line).get("custom_id") == custom_id
    return at == fault.number("index", 0)


def _again(line: bytes, fault: Fault) -> bytes:
    """The same line once more, or with `changed` another line for the same item."""
    if not fault.more.get("changed"):
        return line
    return orjson.dumps(_read(line) | _EXPIRED) + b"\n"


def _read(line: bytes) -> JSONObject:
    return cast("JSONObject", orjson.loads(line))
