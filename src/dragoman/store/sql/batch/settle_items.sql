-- Settle items, each once; expects settled[]; returns those that were open.
update batch_item i set state = s.state, code = s.code, settled_at = clock()
  from unnest(%(items)s::settled[]) as s
 where i.batch_id = s.batch_id and i.item_index = s.item_index and i.state = 'open'
returning i.item_index, i.job_id
