-- Batches that are out, or back and not wholly taken in; expects nothing; returns batches, the one asked longest ago first.
select b.id, b.token, b.nonce, b.provider, b.adapter_kind, b.base_url, b.account, b.model, b.group_key, b.state, b.provider_batch_id,
       b.input_file_id, b.result_files, b.absences, b.downloads, b.items, b.submitted_at, b.started_at, b.deadline_at, b.closed_at
  from batch b
 where b.closed_at is null and b.provider_batch_id is not null
 order by b.polled_at nulls first, b.created_at
