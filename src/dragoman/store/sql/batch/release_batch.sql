-- A submission that provably never happened is given up; expects its token, no open items; returns its id.
update batch b set state = 'released', closed_at = clock()
 where b.id = %(id)s and b.token = %(token)s and b.state in ('submitting', 'submit_unknown')
   and not exists (select from batch_item i where i.batch_id = b.id and i.state = 'open')
returning b.id
