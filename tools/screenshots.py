"""Draw the console as it looks with work in it: docs/console-light.png and docs/console-dark.png.

    python tools/screenshots.py            # both themes of the overview
    python tools/screenshots.py --keep     # serve the same console until Ctrl-C

It needs Debian's chromium. The database, the provider and the work are made for it and thrown away.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import uvicorn

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from dragoman.api.app import build_app  # noqa: E402 - after the path
from dragoman.api.keys import ensure_keys  # noqa: E402 - as above
from dragoman.core.canonical import JSONObject  # noqa: E402 - as above
from dragoman.core.ids import JobId  # noqa: E402 - as above
from dragoman.sandbox.server import Sandbox  # noqa: E402 - as above
from dragoman.settings import Settings  # noqa: E402 - as above
from dragoman.store import workers  # noqa: E402 - as above
from dragoman.store.jobs import cancel_jobs  # noqa: E402 - as above
from dragoman.work.collector import Collector  # noqa: E402 - as above
from dragoman.work.submitter import Submitter  # noqa: E402 - as above
from dragoman.work.sweeper import Sweeper  # noqa: E402 - as above
from tests import postgres, stand  # noqa: E402 - as above

PAIRS = [
    (pair[:2], pair[3:])
    for pair in "en-en de-en fr-de de-de es-fr en-de fr-fr es-en en-en de-fr en-es".split()
]
ROUNDS = (3, 5, 4, 6, 7, 5, 8, 6, 4, 5, 9, 7, 6, 8, 5, 4, 6, 3, 5, 7, 8, 6, 4, 5)
TROUBLE: dict[int, JSONObject] = {
    4: {"do": "wrong_language", "item": {"index": 1}},
    9: {"do": "error", "item": {"index": 0}},
    14: {"do": "bad_schema", "item": {"index": 0}},
    17: {"do": "error", "item": {"index": 0}},
    22: {"do": "error", "item": {"index": 0}},
}
# The browser draws one page, asks nobody else, and keeps nothing.
_QUIET = (
    "headless no-sandbox disable-gpu disable-quic no-first-run hide-scrollbars mute-audio"
    " disable-background-networking disable-component-update disable-sync".split()
)
PACE = replace(
    stand.TEST_PROFILE, name="every two minutes", submitter_every_s=120, collector_every_s=120
)


async def fill(database: str, sandbox: Sandbox) -> None:
    """Some fifty minutes of work with a few troubles, and at its end all that may be open."""
    providers = stand.Providers(sandbox.base_url)
    await stand.add_routes(database)
    taken = 0
    for turn, size in enumerate(ROUNDS):
        await _accept(database, providers, taken, size)
        taken += size
        if turn in TROUBLE:
            sandbox.fault(TROUBLE[turn])
        await _run(database, providers, sandbox)
        stand.move_clock(database, 100)
    await _accept(database, providers, taken, 7)
    await _submit(database, providers)
    stand.move_clock(database, 60)
    await _accept(database, providers, taken, 4)
    sandbox.fault({"on": "create", "do": "drop_after"})
    await _submit(database, providers)
    sandbox.clear_faults()
    waiting = await _accept(database, providers, taken, 6)
    await _cancel(database, waiting[:2])
    stand.move_clock(database, 75)
    await providers.transport.aclose()


async def _accept(database: str, providers: stand.Providers, first: int, size: int) -> list[UUID]:
    pairs = [PAIRS[(first + k) % len(PAIRS)] for k in range(size)]
    async with stand.orchestrator_of(database, providers) as orchestrator:
        return await stand.submit(orchestrator, pairs)


async def _submit(database: str, providers: stand.Providers) -> None:
    async with stand.station_of(database, name="submitter-1") as station:
        await Submitter(station, providers).run_once()


async def _run(database: str, providers: stand.Providers, sandbox: Sandbox) -> None:
    async with stand.station_of(database, name="worker-1") as station:
        await Submitter(station, providers).run_once()
        stand.move_clock(database, 20)
        sandbox.advance(120)
        await Collector(station, providers).run_once()
        await Sweeper(station).run_once()


async def _cancel(database: str, requests: Sequence[UUID]) -> None:
    with stand.owner(database) as connection:
        query = "select id from job where request_id = any(%s)"
        jobs = [JobId(row[0]) for row in connection.execute(query, (list(requests),))]
    async with stand.cell_of(database, "dragoman_operator") as cell:
        async with cell.transaction("know_actor") as tx:
            actor = await workers.know_actor(tx, "operator", "operator-1")
        await cancel_jobs(cell, actor, jobs)


@contextlib.asynccontextmanager
async def door(database: str, home: Path) -> AsyncGenerator[str]:
    """The console over this database, on a free port."""
    ensure_keys(home)
    settings = Settings(home=home, cell="main")

    async def nobody(*_: object) -> object:
        raise NotImplementedError

    app = build_app(settings, lambda role: postgres.dsn(f"dragoman_{role}", database), nobody)  # type: ignore[arg-type]  # the pictures take no message
    app.state.console.watch.pace = PACE
    config = uvicorn.Config(app, port=0, log_config=None, access_log=False)
    server = uvicorn.Server(config)
    serving = asyncio.ensure_future(server.serve())
    while not server.started:
        await asyncio.wait([serving], timeout=0.05)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        app.state.console.close()
        server.should_exit = True
        await serving


async def draw(url: str, file: Path, size: str = "1440,900") -> None:
    """One picture, by a browser that talks to nobody else."""
    with tempfile.TemporaryDirectory() as profile:
        options = [f"--{option}" for option in _QUIET]
        options += [f"--user-data-dir={profile}", f"--window-size={size}", f"--screenshot={file}"]
        browser = shutil.which("chromium") or shutil.which("chromium-browser")
        if browser is None:
            raise SystemExit("there is no chromium; install Debian's: apt-get install chromium")
        done = await asyncio.create_subprocess_exec(
            browser, *options, url, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        await asyncio.wait_for(done.wait(), 60)


async def run(folder: Path, *, keep: bool) -> None:
    """Fill, serve, draw."""
    database = stand.new_database()
    with Sandbox() as sandbox, tempfile.TemporaryDirectory() as home:
        await fill(database, sandbox)
        async with door(database, Path(home)) as url:
            if keep:
                print(f"{url}  (Ctrl-C stops it)", flush=True)
                await asyncio.Event().wait()
            for theme in ("light", "dark"):
                file = folder / f"console-{theme}.png"
                await draw(f"{url}/?theme={theme}", file)
                print(file.relative_to(ROOT) if file.is_relative_to(ROOT) else file)


def main(argv: Sequence[str] | None = None) -> None:
    """Read the arguments and draw."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--folder", type=Path, default=ROOT / "docs", help="where the pictures go")
    parser.add_argument("--keep", action="store_true", help="serve until Ctrl-C and draw nothing")
    given = parser.parse_args(argv)
    os.umask(0o022)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(run(given.folder.resolve(), keep=given.keep))


if __name__ == "__main__":
    main()
