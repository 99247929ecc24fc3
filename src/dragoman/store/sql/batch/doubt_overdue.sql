-- Submissions whose answer can no longer come, from whoever made them; expects nothing; returns their ids.
update batch set state = 'submit_unknown'
 where state = 'submitting' and started_at is not null and deadline_at < (select clock())
returning id
