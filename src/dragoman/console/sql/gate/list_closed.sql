-- Gates that let nothing pass now, but for a moment's 429; expects nothing; returns them by name.
select provider, account, model, pause_reason, pause_note, paused_until
  from gate_now where pause_reason is not null and pause_reason <> 'throttled'
 order by provider, account, model
