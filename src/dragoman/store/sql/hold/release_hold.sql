-- Let a held engine go on; expects the operator; returns the hold.
update hold set released_at = clock(), released_by = %(actor)s where released_at is null
returning id, why, incarnation, data_at, held_at, asked_at
