"""What the sandbox answers without a model: modest, real work that is the same every time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final, TypeAlias, cast

import orjson

from dragoman.core.canonical import JSON, JSONObject
from dragoman.sandbox.classifier import classify
from dragoman.sandbox.critic import criticise
from dragoman.sandbox.generate import generate
from dragoman.sandbox.phrases import PHRASES
from dragoman.sandbox.topics import TOPICS, topics_of

Task: TypeAlias = Callable[[JSONObject], JSONObject]

FOREIGN: Final = {language: PHRASES[language].topics["other"][0] for language in PHRASES}


def write(instructions: str, prompt: str, schema_name: str, schema: JSONObject) -> str:
    """The answer to one prompt, as the JSON text that its schema asks for.

    >>> write("", '{"diff": "", "changed_files": []}', "review_result", {})[:24]
    '{"schema_version":"1.0",'
    """
    task = _TASKS.get(schema_name)
    if task:
        return orjson.dumps(task(_read(prompt))).decode()
    seed = hashlib.sha256(f"{instructions}\0{prompt}".encode()).hexdigest()
    return orjson.dumps(generate(schema, seed)).decode()


def rewrite(task: JSONObject) -> JSONObject:
    """A calm message about the same topic. It repeats no number, name, day or time."""
    text, target = str(task.get("original_text") or ""), str(task.get("target_locale") or "en")
    language = target.replace("_", "-").split("-")[0].casefold()
    language = language if language in PHRASES else "en"
    phrases = PHRASES[language]
    pick = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
    said = _picked(phrases.topics[_topic(task, text)], pick)
    if task.get("rewrite_strength") == "light_touch":
        said = f"{said} {_picked(phrases.closes, pick >> 8)}"
    else:
        said = f"{_picked(phrases.opens, pick >> 8)} {said}"
    return {"rewritten_text": said, "output_language": language}


def _topic(task: JSONObject, text: str) -> str:
    """The first topic that was handed over, unless it says nothing and the text says more."""
    given = task.get("topics")
    named = [topic for topic in given if topic in TOPICS] if isinstance(given, list) else []
    first = named[0] if named else "other"
    return topics_of(text)[0] if first == "other" else str(first)


def _picked(sentences: tuple[str, ...], pick: int) -> str:
    return sentences[pick % len(sentences)]


def _read(prompt: str) -> JSONObject:
    """The prompt's JSON object; a bare text stands for the text itself."""
    try:
        value = cast("JSON", orjson.loads(prompt))
    except orjson.JSONDecodeError:
        value = None
    return value if isinstance(value, dict) else {"original_text": prompt, "message": prompt}


_TASKS: Final[dict[str, Task]] = {
    "rewrite_response": rewrite,
    "classifier_result": classify,
    "review_result": criticise,
}
