-- The provider keeps none of the batch's files any more; expects a closed batch; returns its id.
update batch set files_deleted_at = clock() where id = %(id)s and closed_at is not null and files_deleted_at is null
returning id
