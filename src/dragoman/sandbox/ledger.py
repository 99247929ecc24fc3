"""What the sandbox was asked to do and would have charged for; it holds no text."""

from __future__ import annotations

from dataclasses import dataclass, field

from dragoman.core.canonical import JSON, JSONObject


@dataclass(slots=True)
class Ledger:
    """Rows in the order in which things happened, one list for each kind of thing.

    A batch created twice stands twice in `creates`, and each item that it ran stands in `items`:
    whoever wants to know what was paid twice counts here.
    """

    uploads: list[JSONObject] = field(default_factory=list[JSONObject])
    deletes: list[JSONObject] = field(default_factory=list[JSONObject])
    creates: list[JSONObject] = field(default_factory=list[JSONObject])
    items: list[JSONObject] = field(default_factory=list[JSONObject])
    responses: list[JSONObject] = field(default_factory=list[JSONObject])

    def counts(self) -> tuple[int, ...]:
        """How many rows there are of each kind; rows are added and never changed."""
        kinds = (self.uploads, self.deletes, self.creates, self.items, self.responses)
        return tuple(map(len, kinds))

    def as_json(self, files: dict[str, list[str]], loose_files: list[str]) -> JSONObject:
        """All rows, and the files that stand now: of each batch, and of none."""
        rows: dict[str, list[JSONObject]] = {
            "uploads": self.uploads,
            "deletes": self.deletes,
            "creates": self.creates,
            "items": self.items,
            "responses": self.responses,
        }
        found: JSONObject = {kind: list[JSON](listed) for kind, listed in rows.items()}
        found["files"] = {batch_id: list[JSON](ids) for batch_id, ids in files.items()}
        found["loose_files"] = list[JSON](loose_files)
        return found
