-- How jobs come in; expects nothing; returns one row.
select fair_every_s, max_waiting_per_home from cell
