-- What the audit reads by time, and the whole record of an execution; expects the roles and the changes; returns nothing.

-- A history grows in the order of its times, so that an index of a few pages finds an hour in a month of it.
create index event_at on event using brin (at) with (pages_per_range = 32, autosummarize = on);
