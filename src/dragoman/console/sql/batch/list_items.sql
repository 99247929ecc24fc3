-- The batch items of a job, one per submission and call; expects the job's id; returns them with their batches.
select b.id, b.provider_batch_id, b.state as batch_state, i.item_index, i.call, i.attempt, i.state, i.code, b.items,
       b.submitted_at, i.settled_at
  from batch_item i join batch b on b.id = i.batch_id
 where i.job_id = %(id)s order by b.created_at, i.call
