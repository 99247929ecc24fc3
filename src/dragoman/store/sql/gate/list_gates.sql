-- Gates that have a row, by name; expects nothing; returns gates as they stand.
select key, provider, account, model, max_in_flight, requests_per_minute, tokens_per_minute, batch_tokens, pause_reason,
       pause_note, paused_until, in_flight, requests_left, tokens_left, tokens_in_batches
  from gate_now order by provider, account, model
