-- Close a batch of which every item is settled; expects the batch; returns its id, or nothing while one is open.
update batch b set closed_at = clock()
 where b.id = %(id)s and b.token = %(token)s and b.closed_at is null and b.provider_batch_id is not null
   and b.ended_at is not null
   and not exists (select from batch_item i where i.batch_id = b.id and i.state = 'open')
returning b.id
