-- Closed batches whose files still lie at the provider; expects nothing; returns batches.
select b.id, b.token, b.nonce, b.provider, b.adapter_kind, b.base_url, b.account, b.model, b.group_key, b.state, b.provider_batch_id,
       b.input_file_id, b.result_files, b.absences, b.downloads, b.items, b.submitted_at, b.started_at, b.deadline_at, b.closed_at
  from batch b
 where b.closed_at is not null and b.files_deleted_at is null
   and (b.input_file_id is not null or cardinality(b.result_files) > 0)
 order by b.closed_at limit 100
