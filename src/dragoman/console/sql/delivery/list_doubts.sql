-- Deliveries of which nobody knows whether they arrived; expects a limit; returns what may settle each.
select id, job_id, channel, guarantee, state, started_at, deadline_at, asked_at, count(*) over () as total
  from delivery where state in ('unknown', 'reconciling')
 order by guarantee = 'neither' desc, started_at limit %(most)s
