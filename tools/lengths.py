"""How long our functions and files are: a figure to look at, not a limit."""

from __future__ import annotations

import ast
import statistics
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def function_lengths(source: str) -> list[int]:
    """Lines of code of every function in a module, its signature in and its docstring out."""
    return [
        _length(node)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def _length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    whole = (node.end_lineno or node.lineno) - node.lineno + 1
    if ast.get_docstring(node) is None:
        return whole
    told = node.body[0]
    return whole - ((told.end_lineno or told.lineno) - told.lineno + 1)


def summary(lengths: list[int]) -> str:
    """One line: how many, the median, nine in ten, the longest.

    >>> summary([1, 2, 3])
    '3 functions, median 2 lines, nine in ten within 3, longest 3'
    """
    ordered = sorted(lengths) or [0]
    ninth = ordered[min(len(ordered) - 1, len(ordered) * 9 // 10)]
    median = round(statistics.median(ordered))
    return (
        f"{len(lengths)} functions, median {median} lines, "
        f"nine in ten within {ninth}, longest {ordered[-1]}"
    )


def _sources(folder: Path) -> Iterator[str]:
    return (file.read_text(encoding="utf-8") for file in sorted(folder.rglob("*.py")))


def main() -> None:
    """Print the figures of src."""
    sources = list(_sources(ROOT / "src"))
    lines = sum(len(source.splitlines()) for source in sources)
    lengths = [length for source in sources for length in function_lengths(source)]
    print(f"src: {len(sources)} files, {lines} lines; {summary(lengths)}")


if __name__ == "__main__":
    main()
