-- How the provider's batch stands; expects its id; returns its id. The provider's word and our state are two columns.
update batch
   set provider_status = %(status)s, polled_at = clock(), result_files = %(files)s::text[],
       state = case when closed_at is null then coalesce(%(state)s, state) else state end,
       ended_at = case when %(ended)s then coalesce(ended_at, clock()) else ended_at end
 where id = %(id)s and token = %(token)s and provider_batch_id is not null and closed_at is null
returning id
