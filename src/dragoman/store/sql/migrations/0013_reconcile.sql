-- Marks without proof are found and settled, keys are repeated only while they last; expects the outbox and the roles; returns
-- nothing.

-- Until when a doubtful send may be repeated under its key; null: the key never ends, or the target honours none.
alter table delivery add repeat_until timestamptz;

-- What says of itself that it was told, without all that a send leaves behind; what has half a mark; and a repeat that waits.
create index delivery_unproved on delivery (id)
  where notified_at is not null and state not in ('sending', 'reconciling')
    and (state <> 'sent' or notification_id is null or evidence is null or first_started_at is null);
create index delivery_half_marked on delivery (id)
  where notified_at is null and state in ('queued', 'failed') and notification_id is not null;
create index delivery_repeated on delivery (repeat_until) where state = 'queued' and doubted_at is not null;
create index delivery_in_doubt on delivery (deadline_at) where state in ('unknown', 'reconciling');

-- succeeded only when everybody was told, and nobody's mark is doubted.
create or replace function everybody_was_told() returns trigger language plpgsql as $$
begin
  if exists (select from delivery d join job j on (j.changelist_id, j.review_version) = (d.changelist_id, d.review_version)
      where j.id = new.id and (d.notified_at is null or d.state <> 'sent'))
    or not exists (select from replay_line(new.id) l join review_result r on r.job_id = l.id) then
    raise exception using errcode = 'DR001', message = 'succeeded_before_told', constraint = 'succeeded_before_told';
  end if;
  return null;
end $$;

-- The operator settles doubts, cancels what waits, and hands to a replay what nobody was told; of every other message the
-- engine alone says how it stands.
create trigger doubts_only before update on delivery for each row
  when (current_user = 'dragoman_operator' and old.state not in ('unknown', 'reconciling') and new.state <> 'canceled'
    and (new.job_id = old.job_id or old.notified_at is not null))
  execute function refuse('only_doubts_are_settled_by_hand');
grant select (claim_token, doubted_at, repeat_until, hold_id) on delivery to dragoman_operator;
grant update (claim_token, claimed_by, claimed_at, notification_id, notified_at, evidence, doubted_at, repeat_until)
  on delivery to dragoman_operator;
