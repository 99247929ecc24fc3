-- Record a batch that the provider has and we have not, in doubt, so that it is adopted like any other; expects the batch, and
-- item[] of jobs that are held; returns the items taken.
with held as materialized (
  select i.item_index, i.job_id, i.token, i.call, i.custom_id, s.home_id, s.stage_attempts
    from unnest(%(items)s::item[]) as i join standing s on s.id = i.job_id
   where s.claim_token = i.token and s.state = 'processing'
   order by s.id for update of s
),
made as (
  insert into batch (id, nonce, provider, adapter_kind, base_url, account, model, group_key, state, token, claimed_by, items,
                     created_at, started_at, deadline_at, payload_sha256, payload_bytes, input_file_id, incarnation)
  select %(id)s, %(nonce)s, %(provider)s, %(adapter_kind)s, %(base_url)s, %(account)s, %(model)s, %(group_key)s,
         'submit_unknown', %(token)s, %(worker)s, count(*), %(at)s, %(at)s, %(at)s, %(sha256)s, %(bytes)s, %(file)s, %(incarnation)s
    from held having count(*) > 0
  returning id
),
filled as (
  insert into batch_item (batch_id, item_index, job_id, home_id, token, attempt, call, custom_id)
  select made.id, h.item_index, h.job_id, h.home_id, h.token, h.stage_attempts + 1, h.call, h.custom_id
    from held h cross join made
)
select item_index from held order by item_index
