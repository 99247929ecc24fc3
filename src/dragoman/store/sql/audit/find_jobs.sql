-- The jobs that were made for a request; expects its id; returns ids.
select id from job where request_id = %(id)s order by id
