"""Stand-ins for the outside world over real sockets, with ledgers and fault scripts."""
