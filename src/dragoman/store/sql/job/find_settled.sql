-- Jobs that their holder let go of under the same token; expects ticket[], the kinds that let go; returns ids.
select t.id from unnest(%(tickets)s::ticket[]) as t
 where exists (select from event e where e.job_id = t.id and e.token = t.token
                and e.kind in (5, 6, 7, 8, 9, 10) and e.reason <> 5)
