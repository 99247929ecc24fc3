"""Models of the protocols that must never be wrong, and the checker that visits all their states."""
