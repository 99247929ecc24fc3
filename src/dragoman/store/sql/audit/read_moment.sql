-- Which cell this is, and its time; expects nothing; returns one row.
select name, incarnation, created_at, clock() as now from cell
