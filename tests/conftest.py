"""What every test shares. The databases that tests clone are made in tests/postgres.py."""

from __future__ import annotations

from hypothesis import settings

# No deadline: the machine is shared. No example database: the tree may be read-only.
settings.register_profile("dragoman", deadline=None, database=None, print_blob=True)
settings.load_profile("dragoman")
