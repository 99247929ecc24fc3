-- A file beside the data knows them from now on; expects nothing; returns nothing.
update cell set marked_at = clock() where marked_at is null
