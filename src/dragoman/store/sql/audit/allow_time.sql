-- Let a statement of this transaction sort an hour of history; expects nothing; returns nothing.
set local statement_timeout = '10min'
