-- Change how jobs come in; expects both settings; returns a row if one of them differs from before.
update cell set fair_every_s = %(fair_every_s)s::float8, max_waiting_per_home = %(max_waiting_per_home)s::int
 where (fair_every_s, max_waiting_per_home) is distinct from (%(fair_every_s)s::float8, %(max_waiting_per_home)s::int)
returning name
