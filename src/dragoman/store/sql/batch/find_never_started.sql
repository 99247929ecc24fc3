-- Submissions that stopped before the create was begun: their submitter's lease has ended; expects nothing; returns batches.
select b.id, b.token, b.nonce, b.provider, b.adapter_kind, b.base_url, b.account, b.model, b.group_key, b.state, b.provider_batch_id,
       b.input_file_id, b.result_files, b.absences, b.downloads, b.items, b.submitted_at, b.started_at, b.deadline_at, b.closed_at
  from batch b left join worker w on w.id = b.claimed_by
 where b.state = 'submitting' and b.started_at is null
   and (w.id is null or w.stopped_at is not null or w.expires_at <= (select clock()))
 order by b.created_at
