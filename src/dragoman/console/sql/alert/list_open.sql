-- Open alerts, the gravest first; expects a limit; returns them with how many there are.
select kind, subject, severity, first_at, last_at, times, count(*) over () as total
  from alert where closed_at is null
 order by array_position(array['page', 'act', 'notice'], severity), first_at limit %(most)s
