-- Hold the engine unless it is held already; expects an id, why, and until when the data are whole (null: until the last event);
-- returns the hold.
insert into hold (id, why, incarnation, data_at, held_at)
select %(id)s, %(why)s, c.incarnation,
       coalesce(%(data_at)s::timestamptz, (select max(last_event_at) from standing), c.created_at), clock()
  from cell c
on conflict ((released_at is null)) where released_at is null do nothing
returning id, why, incarnation, data_at, held_at, asked_at
