-- One more whole reading of the results that left items open; expects the batch; returns how many.
update batch set downloads = downloads + 1 where id = %(id)s and token = %(token)s and closed_at is null returning downloads
