-- How many batches stand in each state, and how many of them are open; expects nothing; returns counts.
select state, count(*) as n, count(*) filter (where closed_at is null) as open, sum(items) as items from batch group by state order by state
