"""What holds for every file of the repository, read from the files themselves."""

from __future__ import annotations

import ast
import io
import os
import re
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.lengths import function_lengths, summary

ROOT = Path(__file__).resolve().parents[2]
NOT_OURS = {".git", ".venv", ".cache", "build", "dist", "node_modules", "__pycache__"}
TEXT_ENDINGS = {".css", ".html", ".js", ".json", ".lock", ".md", ".py", ".sh", ".sql", ".toml"}
TEXT_NAMES = {".gitignore", "Makefile", "LICENSE", "run"}

# Put together from pieces, so that this file does not name what it forbids.
INDEX_HOSTS = re.compile(
    "|".join(["py" + r"pi\.org", "python" + "hosted", "npm" + r"js\.org", "arti" + "factory"])
)
MACHINE_PATHS = re.compile(
    r"(?<![\w.])/(" + "|".join(["work/", "root/", "opt/py" + "pi", "tmp/w" + r"\b"]) + ")"
)
SIBLING_FOLDER = re.compile(r"\.\./sha" + "red")
UNFINISHED = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X"]) + r")\b")

# What a statement may be written with; in capitals each of them is a fault.
KEYWORDS = re.compile(
    r"\b(SELECT|INSERT|UPDATE|DELETE|FROM|WHERE|WITH|RETURNING|VALUES|SET|JOIN|ORDER BY|GROUP BY"
    r"|CREATE|ALTER|DROP|GRANT|REVOKE|TABLE|INDEX|FUNCTION|TRIGGER|NOT NULL|AND|OR|LIMIT)\b"
)
STATEMENT = re.compile(
    r"\b(select\s.+\sfrom|insert\s+into|update\s.+\sset|delete\s+from)\s", re.IGNORECASE | re.DOTALL
)
QUOTED = re.compile(r"'(?:[^']|'')*'")
COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
MAX_LINES = 450
LOCKS = ["requirements.lock", "requirements-dev.lock"]


def is_text(path: Path) -> bool:
    return path.suffix in TEXT_ENDINGS or path.name in TEXT_NAMES


def files_of_the_repository() -> list[Path]:
    found: list[Path] = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [f for f in folders if f not in NOT_OURS and not f.endswith("_cache")]
        found += [Path(folder, name) for name in names if is_text(Path(name))]
    return sorted(found)


FILES = files_of_the_repository()
PYTHON = [path for path in FILES if path.suffix == ".py"]
SOURCES = [path for path in PYTHON if path.is_relative_to(ROOT / "src")]
SQL = [path for path in FILES if path.suffix == ".sql" and path.is_relative_to(ROOT / "src")]
STATEMENTS = [path for path in SQL if "sql" in path.parts and "migrations" not in path.parts]


def places(pattern: re.Pattern[str], path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    return [f"{path.relative_to(ROOT)}: {found[0]}" for found in pattern.finditer(text)]


def places_in_all(pattern: re.Pattern[str]) -> list[str]:
    return [place for path in FILES for place in places(pattern, path)]


def notes(path: Path) -> list[str]:
    """The comments of a Python file, the lines of any other."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return text.splitlines()
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [token.string for token in tokens if token.type == tokenize.COMMENT]


def trees(paths: list[Path]) -> Iterator[tuple[Path, ast.Module]]:
    for path in paths:
        yield path.relative_to(ROOT), ast.parse(path.read_text(encoding="utf-8"))


def pins(lock: str) -> set[str]:
    text = (ROOT / lock).read_text(encoding="utf-8")
    return set(re.findall(r"^[a-z0-9.-]+==\S+", text, re.MULTILINE))


def without_comments(statement: str) -> str:
    """Comments out, but only where no quote is open."""
    return re.sub(
        rf"({QUOTED.pattern})|{COMMENT.pattern}", lambda m: m[1] or "", statement, flags=re.DOTALL
    )


def quoted_placeholders(statement: str) -> list[str]:
    return [q for q in QUOTED.findall(without_comments(statement)) if re.search(r"%[(s]", q)]


def positional_placeholders(statement: str) -> list[str]:
    return re.findall(r"(?<!%)%[sbt]", without_comments(statement))


def keywords_in_capitals(statement: str) -> list[str]:
    return KEYWORDS.findall(QUOTED.sub("''", without_comments(statement)))


def has_a_header(statement: str) -> bool:
    """Whether it begins with its purpose, what it expects (if anything) and what it returns."""
    block = re.match(r"(--[^\n]*\n)*", statement)
    header = block[0].replace("\n--", " ") if block else ""
    expects = r"[;.] expects .*" if "%(" in statement else r"[;.] .*"
    return re.match(rf"-- \w.*{expects}\breturns .", header, re.IGNORECASE) is not None


def assembled_statements(tree: ast.Module) -> list[int]:
    """Lines where a statement is put together from strings."""
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.expr))
    return [node.lineno for node in nodes if _assembles(node)]


def _assembles(node: ast.expr) -> bool:
    match node:
        case ast.JoinedStr(values=values):
            parts = [v.value if isinstance(v, ast.Constant) else " x " for v in values]
            return len(parts) > 1 and _is_statement("".join(map(str, parts)))
        case ast.BinOp(left=left, op=ast.Mod() | ast.Add(), right=right):
            return _is_constant_statement(left) or _is_constant_statement(right)
        case ast.Call(func=ast.Attribute(value=value, attr="format" | "replace")):
            return _is_constant_statement(value)
        case _:
            return False


def _is_constant_statement(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and _is_statement(str(node.value))


def _is_statement(text: str) -> bool:
    return STATEMENT.search(f"{text} ") is not None


def bare_excepts(tree: ast.Module) -> list[int]:
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler) and node.type is None
    ]


def test_no_file_names_a_package_index() -> None:
    """Where packages come from is the installer's business, so no file names an index host."""
    assert places_in_all(INDEX_HOSTS) == []


def test_no_file_names_a_path_of_one_machine() -> None:
    """Nothing refers to the place where it was written."""
    assert places_in_all(MACHINE_PATHS) + places_in_all(SIBLING_FOLDER) == []


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_holds_pinned_versions_and_hashes_only(name: str) -> None:
    """A lock has no option and no address, so it installs from any index that pip knows."""
    text = (ROOT / name).read_text(encoding="utf-8")
    code = [line.partition("#")[0].strip() for line in text.splitlines()]
    pinned = re.compile(r"[a-z0-9.-]+==\S+( ; [^;\\]+)? \\|--hash=sha256:[0-9a-f]{64}( \\)?")
    assert [line for line in code if line and not pinned.fullmatch(line)] == []
    assert "://" not in text


def test_the_lock_of_a_running_system_is_part_of_the_developers_lock() -> None:
    """What is tested is what is run: both locks pin the same versions."""
    assert pins("requirements.lock") - pins("requirements-dev.lock") == set()


def test_ci_runs_the_checks_and_what_the_readme_says() -> None:
    """The README's commands exist, and CI ends with its test command, so its summary is last."""
    readme, makefile, run = (
        (ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "Makefile", ".ci/run")
    )
    commands = re.findall(r"^make ([a-z]+)$", readme, re.MULTILINE)
    assert commands[:2] == ["demo", "test"]
    assert all(re.search(rf"^{command}:", makefile, re.MULTILINE) for command in commands)
    assert run.splitlines()[-2:] == ["step make mutants", "step make test"]
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_no_dependency_brings_torch() -> None:
    """Language is detected without a deep learning framework, which would weigh gigabytes."""
    for name in LOCKS:
        assert not any(pin.startswith(("torch", "nvidia")) for pin in pins(name))


def test_every_dependency_of_the_project_is_in_the_lock() -> None:
    """A dependency that was added without `make lock` is found here, not at the user's."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = {re.split(r"[\[<>=]", line)[0].replace("_", "-") for line in project["dependencies"]}
    assert names - {pin.partition("==")[0] for pin in pins("requirements.lock")} == set()


def test_every_module_says_in_one_sentence_what_it_is() -> None:
    """The first line of each module is a sentence that fits on it."""
    silent = [
        str(path)
        for path, tree in trees(SOURCES)
        if not (ast.get_docstring(tree) or "").partition("\n")[0].endswith((".", ":", "?"))
    ]
    assert silent == []


def test_every_test_says_in_one_sentence_what_it_proves() -> None:
    """The docstring of a test is the specification."""
    tests = [path for path in PYTHON if path.is_relative_to(ROOT / "tests")]
    silent = [
        f"{path}::{node.name}"
        for path, tree in trees(tests)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and not (ast.get_docstring(node) or "").rstrip().endswith(".")
    ]
    assert silent == []


def test_nothing_is_left_for_later_in_the_code() -> None:
    """What is not done is not in the repository; a string may name the marks, a comment may not."""
    found = [f"{path.relative_to(ROOT)}: {note}" for path in FILES for note in notes(path)]
    assert [note for note in found if UNFINISHED.search(note)] == []


def test_no_except_catches_everything_unnamed() -> None:
    """A handler names what it handles."""
    assert [f"{path}:{line}" for path, tree in trees(PYTHON) for line in bare_excepts(tree)] == []


def test_a_bare_except_is_found() -> None:
    """The search itself bites."""
    assert bare_excepts(ast.parse("try:\n    f()\nexcept:\n    pass\n")) == [3]


def test_no_module_is_longer_than_a_reader_can_hold() -> None:
    """A file of more than 450 lines is two files."""
    lengths = {
        path.relative_to(ROOT): len(path.read_text(encoding="utf-8").splitlines())
        for path in PYTHON + SQL
    }
    assert {str(path): n for path, n in lengths.items() if n > MAX_LINES} == {}


def test_every_statement_says_what_it_is_for_expects_and_returns() -> None:
    """A statement begins with `-- purpose; expects …; returns …`."""
    silent = [p for p in STATEMENTS if not has_a_header(p.read_text(encoding="utf-8"))]
    assert [str(path.relative_to(ROOT)) for path in silent] == []


def test_sql_is_written_in_lower_case() -> None:
    """Keywords in capitals stand nowhere but in comments and quotes."""
    loud = {p: keywords_in_capitals(p.read_text(encoding="utf-8")) for p in SQL}
    assert {str(p.relative_to(ROOT)): words for p, words in loud.items() if words} == {}


def test_no_placeholder_stands_inside_quotes() -> None:
    """Inside quotes the server reads the number of the placeholder, not its value."""
    wrong = {p: quoted_placeholders(p.read_text(encoding="utf-8")) for p in SQL}
    assert {str(p.relative_to(ROOT)): found for p, found in wrong.items() if found} == {}


def test_every_placeholder_has_a_name() -> None:
    """`%(job_id)s` can be read where it stands; `%s` has to be counted."""
    wrong = {p: positional_placeholders(p.read_text(encoding="utf-8")) for p in STATEMENTS}
    assert {str(p.relative_to(ROOT)): found for p, found in wrong.items() if found} == {}


def test_no_statement_is_put_together_in_python() -> None:
    """SQL stands in files; Python neither formats nor joins it."""
    found = [f"{p}:{n}" for p, tree in trees(SOURCES) for n in assembled_statements(tree)]
    assert found == []


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("select now() + interval '%(ttl)s seconds'", ["'%(ttl)s seconds'"]),
        ("select '--' || '%(x)s'", ["'%(x)s'"]),
        ("select '''%(x)s'''", ["'''%(x)s'''"]),
        ("select %(x)s, 'a' -- it's '%(x)s'", []),
        ("select 'a', %(x)s, 'b'", []),
    ],
)
def test_a_placeholder_inside_quotes_is_found(statement: str, found: list[str]) -> None:
    """The search itself bites, and only where it should."""
    assert quoted_placeholders(statement) == found


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ('f"select a from {table}"', [1]),
        ('f"""update {table}\n set x = 1"""', [1]),
        ('"insert into t values (%s)" % x', [1]),
        ('"delete from " + table', [1]),
        ('"select a from {}".format(table)', [1]),
        ('"select a from t"', []),
        ('f"{n} jobs were selected"', []),
        ('f"please update {what}"', []),
    ],
)
def test_an_assembled_statement_is_found(code: str, lines: list[int]) -> None:
    """The search itself bites, and only where it should."""
    assert assembled_statements(ast.parse(code)) == lines


@pytest.mark.parametrize(
    ("statement", "stands"),
    [
        ("-- Take what is due; expects a queue key; returns the jobs.\nselect %(x)s\n", True),
        ("-- Take what\n-- is due. Expects a key; returns\n-- jobs.\nselect %(x)s\n", True),
        ("-- Take what is due; returns the jobs.\nselect 1\n", True),
        ("-- Take what is due; returns the jobs.\nselect %(x)s\n", False),
        ("-- Take what is due.\nselect 1\n", False),
        ("-- ; expects a queue key; returns the jobs.\nselect 1\n", False),
        ("-- Take what is due; expects a queue key; returns\nselect 1\n", False),
        ("select 1\n-- Take what is due; expects a key; returns jobs.\n", False),
    ],
)
def test_a_missing_header_is_found(statement: str, stands: bool) -> None:
    """The search itself bites, and only where it should."""
    assert has_a_header(statement) is stands


def test_capitals_and_positional_placeholders_are_found() -> None:
    """The searches themselves bite, and only where they should."""
    assert keywords_in_capitals("-- FROM\nselect 'SET' FROM t") == ["FROM"]
    assert positional_placeholders("select %s, %(x)s, 7 %% 2") == ["%s"]


def test_a_function_is_measured_without_its_docstring() -> None:
    """The figure that make check prints counts code."""
    assert function_lengths('def f():\n    """One.\n\n    Two.\n    """\n    return 1\n') == [2]
    assert summary([2, 4, 9]) == "3 functions, median 4 lines, nine in ten within 9, longest 9"
