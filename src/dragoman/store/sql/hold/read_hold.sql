-- The hold that nobody has released; expects nothing; returns it, or nothing.
select id, why, incarnation, data_at, held_at, asked_at from hold where released_at is null
