"""Models of the protocols that must never be wrong, and what visits all their states."""
