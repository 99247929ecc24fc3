-- Fold what moves have written into sums; expects nothing; returns how many were folded by its row count.
with taken as (delete from queue_delta where ctid in (select ctid from queue_delta limit 100000 for update skip locked)
               returning queue_key, state, n)
insert into queue_sum as s (queue_key, state, n) select queue_key, state, sum(n) from taken group by queue_key, state
on conflict (queue_key, state) do update set n = s.n + excluded.n
