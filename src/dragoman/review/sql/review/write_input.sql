-- What a review is about and whom it will tell; expects its job; returns nothing.
insert into review_input (job_id, home_id, changelist_id, review_version, source, recipients, created_at)
values (%(job_id)s, %(home_id)s, %(changelist_id)s, %(version)s, %(source)s::jsonb, %(recipients)s, clock())
