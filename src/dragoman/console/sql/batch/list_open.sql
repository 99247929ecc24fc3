-- Batches that are not closed, the oldest first; expects a limit; returns them, how many items each has settled, and sums.
select b.id, b.state, b.provider, b.account, b.model, b.provider_batch_id, b.provider_status, b.items, b.created_at, b.started_at,
       b.submitted_at, b.polled_at, b.deadline_at, b.asked_at, b.absences,
       (select count(*) from batch_item i where i.batch_id = b.id and i.state <> 'open') as settled,
       count(*) over () as total, count(*) filter (where b.state = 'submit_unknown') over () as doubtful,
       coalesce(sum(b.items) filter (where b.state = 'submit_unknown') over (), 0)::bigint as held
  from batch b where b.closed_at is null
 order by b.state = 'submit_unknown' desc, b.created_at limit %(most)s
