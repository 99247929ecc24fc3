-- One more whole reading of the results that left items open; expects the batch as it was read, so that two at once count
-- once; returns how many.
update batch set downloads = downloads + 1
 where id = %(id)s and token = %(token)s and closed_at is null and downloads = %(downloads)s
returning downloads
