-- How many deliveries stand in each state; returns a row per state that has any.
select state, count(*) as n from delivery group by state order by state
