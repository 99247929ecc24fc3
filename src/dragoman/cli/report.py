"""The audit's report: what work took and how it ended, from metadata alone."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import typer
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from rich.console import Console
from rich.table import Table

from dragoman.cli.db import dsn_of, require_running
from dragoman.core.canonical import canonical
from dragoman.core.errors import BadInput
from dragoman.settings import read_settings
from dragoman.store import audit
from dragoman.store.audit import Checks, Languages, Outcomes
from dragoman.store.database import Cell, open_cell

_MILLION = Decimal(1_000_000)


class Price(BaseModel):
    """What a million tokens cost at one model; in a batch, this part of it."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    input: Decimal = Field(ge=0)
    cached: Decimal = Field(ge=0)
    output: Decimal = Field(ge=0)
    batch: Decimal = Field(default=Decimal("0.5"), ge=0, le=1)

    def of(self, row: Languages) -> Decimal:
        """The money for these tokens; the cached ones are a part of the input."""
        fresh = row.input_tokens - row.cached_tokens
        cost = (
            self.input * fresh + self.cached * row.cached_tokens + self.output * row.output_tokens
        )
        return cost * (self.batch if row.mode == "batch" else 1) / _MILLION


Prices = Mapping[str, Price]


@dataclass(frozen=True, slots=True)
class Sums:
    """The three parts of the report, and what each pair of languages cost."""

    languages: Sequence[Languages]
    outcomes: Sequence[Outcomes]
    checks: Sequence[Checks]
    prices: Prices

    def money(self, row: Languages) -> str | None:
        """What a row cost, or None where nobody said a price."""
        price = self.prices.get(f"{row.provider}/{row.model}")
        return f"{price.of(row):.6f}" if price else None


async def show_report(since: datetime | None, prices: Path | None, *, as_json: bool) -> int:
    """Print the report."""
    settings = read_settings()
    known: Prices = read_prices(prices) if prices else {}
    require_running(settings)
    dsn = dsn_of(settings, "auditor")
    async with open_cell(dsn, name=settings.cell, role="dragoman audit", size=1) as cell:
        sums = await sum_up(cell, since, known)
    if as_json:
        typer.echo(canonical(to_json(sums)).decode())
    else:
        _print(sums)
    return 0


async def sum_up(cell: Cell, since: datetime | None, prices: Prices) -> Sums:
    """The report's figures."""
    return Sums(*await audit.sum_up(cell, since), prices)


def read_prices(path: Path) -> Prices:
    """Prices per "provider/model", or BadInput that says where the file is wrong."""
    try:
        told = tomllib.loads(path.read_text(encoding="utf-8"), parse_float=Decimal)
        return TypeAdapter(dict[str, Price]).validate_python(told)
    except OSError:
        raise BadInput(f"the price file {path} cannot be read") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        raise BadInput(f"the price file {path} is not valid TOML") from None
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors(include_input=False)[0]["loc"])
        raise BadInput(
            f'the price file {path} is wrong at {where}: it holds tables ["provider/model"] with '
            "input, cached and output, and perhaps batch"
        ) from None


def to_json(sums: Sums) -> dict[str, Any]:
    """The report for a program."""
    return {
        "languages": [{**asdict(row), "money": sums.money(row)} for row in sums.languages],
        "outcomes": [{**asdict(row), "failure_rate": _rate(row)} for row in sums.outcomes],
        "checks": [asdict(row) for row in sums.checks],
    }


def _rate(row: Outcomes) -> float | None:
    ended = row.completed + row.failed
    return round(row.failed / ended, 4) if ended else None


def _print(sums: Sums) -> None:
    told = to_json(sums)
    out = Console()
    for title in ("languages", "outcomes", "checks"):
        rows: list[dict[str, object]] = told[title]
        out.print(_table(rows) if rows else f"{title}: none", soft_wrap=True)
        out.print()


def _table(rows: Sequence[Mapping[str, object]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in rows[0]:
        table.add_column(name.replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*_cells(row.values()))
    return table


def _cells(values: Iterable[object]) -> list[str]:
    return ["-" if value is None else str(value) for value in values]
