-- Where this cell's batches can be: at every account that a batch, a waiting job or a route names; expects nothing; returns
-- accounts.
select provider, adapter_kind, base_url, account from batch
union
select j.routing ->> 'provider', j.routing ->> 'adapter_kind', j.routing ->> 'base_url', j.account
  from job j join standing s using (id)
 where j.mode = 'batch' and s.state not in ('completed', 'failed', 'canceled')
union
select decision ->> 'provider', decision ->> 'adapter_kind', decision ->> 'base_url', account
  from route where active and decision ->> 'execution_mode' = 'batch'
