"""A recipient's scheme chooses its channel."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.channels import channel_for
from dragoman.channels.base import Asks, Channel
from dragoman.channels.file import File, FileSettings
from dragoman.channels.smtp import SMTP, SMTPSettings
from dragoman.core.errors import BadInput

MAIL = SMTP(SMTPSettings("127.0.0.1", 25, "d@example.org"))
FILE = File(FileSettings(Path("reviews.jsonl")))
CHANNELS: list[Channel] = [MAIL, FILE]


def test_the_scheme_chooses_the_channel() -> None:
    """mailto: goes by mail and file: into the file, in capitals too."""
    asked: Asks = FILE
    assert channel_for("mailto:ann@example.org", CHANNELS) is MAIL
    assert channel_for("FILE:ann", CHANNELS) is asked


@pytest.mark.parametrize("recipient", ["", "ann@example.org", "file", "pigeon:secret", ":secret"])
def test_a_recipient_without_a_channel_is_refused(recipient: str) -> None:
    """The error names the configured schemes and quotes nothing of the recipient."""
    with pytest.raises(BadInput, match="file:, mailto:") as caught:
        channel_for(recipient, CHANNELS)
    assert "secret" not in str(caught.value)
