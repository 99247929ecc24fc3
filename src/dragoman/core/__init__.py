"""Rules without I/O: states, failures, retries, locales, ids, bytes."""
