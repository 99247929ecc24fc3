-- Commit what is about to be submitted: the batch and, of its jobs, those still held; expects its size and item[];
-- returns the items taken.
with held as materialized (
  select i.item_index, i.job_id, i.token, i.call, i.custom_id, s.home_id, s.stage_attempts
    from unnest(%(items)s::item[]) as i join standing s on s.id = i.job_id
   where s.claim_token = i.token and s.state = 'processing'
   order by s.id for update of s
),
-- What goes out is numbered without a gap, as the lines of its file are.
numbered as (
  select held.*, row_number() over (order by item_index) - 1 as line from held
),
made as (
  insert into batch (id, nonce, provider, adapter_kind, base_url, account, model, group_key, state, token, claimed_by, items,
                     payload_bytes, created_at)
  select %(id)s, %(nonce)s, %(provider)s, %(adapter_kind)s, %(base_url)s, %(account)s, %(model)s, %(group_key)s, 'submitting',
         %(token)s, %(worker)s, count(*), %(bytes)s::bigint, clock() from held having count(*) > 0
  returning id
),
filled as (
  insert into batch_item (batch_id, item_index, job_id, home_id, token, attempt, call, custom_id)
  select made.id, n.line, n.job_id, n.home_id, n.token, n.stage_attempts + 1, n.call, n.custom_id
    from numbered n cross join made
)
select item_index from numbered order by item_index
