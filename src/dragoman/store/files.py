"""Small files that are whole or absent after a power cut."""

from __future__ import annotations

import os
from pathlib import Path


def write_file(path: Path, text: str, mode: int) -> None:
    """Replace a file at once; a reader sees the old text or the new one, never a part.

    >>> write_file(Path("worker"), "a password", 0o600)  # doctest: +SKIP
    """
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())
    fresh.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a directory durable: a rename alone is not."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
