-- Doubtful submissions that may be asked about: nothing can arrive any more, and the last asking was a while ago; expects the
-- while in seconds; returns batches.
select b.id, b.token, b.nonce, b.provider, b.adapter_kind, b.base_url, b.account, b.model, b.group_key, b.state, b.provider_batch_id,
       b.input_file_id, b.result_files, b.absences, b.downloads, b.items, b.submitted_at, b.started_at, b.deadline_at, b.closed_at
  from batch b
 where b.state = 'submit_unknown' and b.deadline_at + make_interval(secs => %(settle_s)s) < (select clock())
   and (b.asked_at is null or b.asked_at + make_interval(secs => %(settle_s)s) < (select clock()))
 order by b.created_at
