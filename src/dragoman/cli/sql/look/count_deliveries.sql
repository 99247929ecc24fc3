-- How many messages stand in each state; expects nothing; returns counts.
select state, count(*) as n from delivery group by state order by state
