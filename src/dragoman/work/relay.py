"""The relay: sends what the outbox holds, once to each recipient, and settles what is in doubt.

The row is claimed, its intent committed, the fence checked; then one send; then one write with the
evidence. A row that was told is never sent again, whatever an older process may still believe.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from dragoman.channels.base import Absent, Asks, Channel, Guarantee
from dragoman.core import ports
from dragoman.core.answer import Happened
from dragoman.core.errors import LeaseLost
from dragoman.core.failure import Failure, FailureClass
from dragoman.core.job import Reason
from dragoman.core.retry import FullJitter
from dragoman.store import deliveries
from dragoman.store.database import Cell
from dragoman.work.acts import act_once, send_message
from dragoman.work.loop import Loop, Station

_RETRY = FullJitter()


@dataclass(slots=True)
class Sending:
    """The book of one send: what acts.py writes it down in."""

    cell: Cell
    actor: UUID
    one: deliveries.Delivery
    key_window_s: float | None = None

    async def begin(self, deadline_s: float) -> bool:
        """Commit that the message may arrive from now on."""
        has_begun = await deliveries.start_sending(
            self.cell, self.actor, self.one, deadline_s, self.key_window_s
        )
        self.one = replace(self.one, attempt_count=self.one.attempt_count + has_begun)
        return has_begun

    async def mark(self, happened: Happened) -> None:
        """Write the evidence, in one write."""
        await deliveries.record_sent(
            self.cell, self.actor, self.one, happened.evidence_id, happened.facts
        )

    async def give_back(self, failure: Failure) -> None:
        """It did not arrive, provably: once more later, or never.

        That a repeat was refused proves nothing about the act before it: the doubt stays.
        """
        if self.one.doubted_at is not None:
            await deliveries.record_doubt(self.cell, self.actor, self.one, failure)
            return
        tries = self.one.attempt_count
        may_retry = failure.is_retryable and tries < self.one.max_attempts
        delay = _RETRY.delay_s(tries, failure.retry_after_s) if may_retry else None
        reason = Reason.FAILURE if may_retry or not failure.is_retryable else Reason.EXHAUSTED
        await deliveries.record_unsent(
            self.cell, self.actor, self.one, failure, delay_s=delay, reason=reason
        )

    async def doubt(self, failure: Failure) -> None:
        """Nobody knows whether it arrived."""
        await deliveries.record_doubt(self.cell, self.actor, self.one, failure)


class Relay(Loop):
    """Goes on while there is something to send."""

    role = "relay"

    def __init__(self, station: Station, channels: Mapping[str, Channel]) -> None:
        super().__init__(station)
        self.channels = channels

    @property
    def every_s(self) -> float:
        """How long it sleeps when it found nothing."""
        return self.station.profile.idle_s

    async def run_once(self) -> int:
        """Doubts first, then what is due."""
        station, profile = self.station, self.station.profile
        station.line.fence()
        settled = await self._doubt_restored() + await self._settle()
        if await self.is_held():
            return settled
        due = await deliveries.claim_deliveries(
            station.cell, station.line.worker, list(self.channels), profile.max_jobs_per_run
        )
        for one in due:
            await self._send(one)
        return settled + len(due)

    async def _send(self, one: deliveries.Delivery) -> None:
        station, channel = self.station, self.channels[one.channel]
        act = send_message(
            channel, one.recipient, one.key, one.payload, station.profile.send_deadline_s
        )
        book = Sending(station.cell, station.line.worker, one, channel.key_window_s)
        try:
            await act_once(book, act, station.line.fence)
        except LeaseLost:
            station.line.fence()  # the whole worker, or this row alone?

    async def _doubt_restored(self) -> int:
        """What a backup calls unsent may have been sent since: ask, or leave it to the operator."""
        found = await deliveries.find_restored(self.station.cell)
        for one in found:
            await deliveries.doubt_restored(self.station.cell, self.station.line.worker, one)
        return len(found)

    async def _settle(self) -> int:
        station, profile = self.station, self.station.profile
        overdue = await deliveries.find_overdue(station.cell, profile.send_deadline_s)
        for one in overdue:
            await Sending(station.cell, station.line.worker, one).doubt(
                Failure(FailureClass.NETWORK_TIMEOUT, "sender_is_gone")
            )
        unproved = await deliveries.find_unproved(station.cell)
        for one in unproved:
            await deliveries.start_reconciling(station.cell, station.line.worker, one)
        for one in await deliveries.find_doubtful(station.cell, profile.settle_s):
            await self._resolve(one)
        return len(overdue) + len(unproved)

    async def _resolve(self, one: deliveries.Delivery) -> None:
        """What the target can do decides: the same key again, an answer to a question, a person."""
        channel = self.channels.get(one.channel)
        if _may_repeat(one):
            await self._again(one, "same_key_again", Reason.FREE_REQUEUE)
        elif isinstance(channel, Asks):
            await self._ask(one, channel)
        else:
            await deliveries.record_asked(self.station.cell, one, needs_a_person=True)

    async def _ask(self, one: deliveries.Delivery, channel: Asks) -> None:
        station = self.station
        told = await ports.cross("relay.lookup", channel.lookup(one.recipient, one.key))
        if isinstance(told, Happened):
            await deliveries.record_sent(
                station.cell,
                station.line.worker,
                one,
                told.evidence_id,
                told.facts,
                Reason.ADOPTED,
            )
        elif isinstance(told, Absent):
            await self._again(one, "provably_absent", Reason.PROVABLY_ABSENT)
        else:
            await deliveries.record_asked(station.cell, one)

    async def _again(self, one: deliveries.Delivery, code: str, reason: Reason) -> None:
        failure = Failure(FailureClass.NOT_EXECUTED, code)
        station = self.station
        await deliveries.record_unsent(
            station.cell, station.line.worker, one, failure, delay_s=0.0, reason=reason
        )


def _may_repeat(one: deliveries.Delivery) -> bool:
    """Whether its key makes a repeat safe: it has not ended, and no mark says otherwise."""
    is_plain = one.state == "unknown" and one.notification_id is None
    return one.guarantee == Guarantee.KEY and is_plain and one.may_repeat
