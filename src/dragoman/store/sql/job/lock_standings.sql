-- Lock standings in the order of their ids, as a cancel does; expects ids; returns nothing.
select from standing where id = any(%(ids)s) order by id for update
