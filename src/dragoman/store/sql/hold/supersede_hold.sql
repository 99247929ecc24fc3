-- A hold that came with a backup gives way to that of its restore; expects the actor; returns until when its data were whole.
update hold set released_at = clock(), released_by = %(actor)s where released_at is null returning data_at
