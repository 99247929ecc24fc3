-- Commit what is about to be submitted: the batch and, of its jobs, those still held; expects item[]; returns the items taken.
with held as materialized (
  select i.item_index, i.job_id, i.token, i.call, i.custom_id, s.home_id, s.stage_attempts
    from unnest(%(items)s::item[]) as i join standing s on s.id = i.job_id
   where s.claim_token = i.token and s.state = 'processing'
   order by s.id for update of s
),
made as (
  insert into batch (id, nonce, provider, adapter_kind, base_url, account, model, group_key, state, token, claimed_by, items,
                     created_at)
  select %(id)s, %(nonce)s, %(provider)s, %(adapter_kind)s, %(base_url)s, %(account)s, %(model)s, %(group_key)s, 'submitting',
         %(token)s, %(worker)s, count(*), clock() from held having count(*) > 0
  returning id
),
filled as (
  insert into batch_item (batch_id, item_index, job_id, home_id, token, attempt, call, custom_id)
  select made.id, held.item_index, held.job_id, held.home_id, held.token, held.stage_attempts + 1, held.call, held.custom_id
    from held cross join made
  returning item_index
)
select item_index from filled order by item_index
