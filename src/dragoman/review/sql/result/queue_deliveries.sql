-- One outbox row for each recipient of a version, frozen; expects new_delivery[]; returns nothing. A row that was told stays;
-- one that failed or was canceled, so that nothing arrived, is tried again as often as a new one.
insert into delivery as d (id, changelist_id, recipient, review_version, home_id, job_id, channel, guarantee, key, payload,
                           payload_sha256, state, max_attempts, created_at)
select id, changelist_id, recipient, review_version, home_id, job_id, channel, guarantee, key, payload, payload_sha256, 'queued',
       max_attempts, at
  from unnest(%(deliveries)s::new_delivery[])
on conflict (changelist_id, recipient, review_version)
do update set job_id = excluded.job_id,
              state = case when d.state in ('failed', 'canceled') then 'queued' else d.state end,
              max_attempts = case when d.state in ('failed', 'canceled') then d.attempt_count + excluded.max_attempts else d.max_attempts end
        where d.state <> 'sent'
