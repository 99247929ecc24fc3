-- How the messages of a changelist's version stand; expects both; returns a row per state.
select state, count(*) as n, count(*) filter (where state = 'sent' and notified_at is not null and evidence is not null) as told
  from delivery where changelist_id = %(changelist_id)s and review_version = %(review_version)s group by state
