-- How many claims are older than this and not part of a batch; expects a time; returns the number.
select count(*) as n from standing s
 where s.state = 'processing' and s.claimed_at < %(before)s
   and not exists (select from batch_item i where i.job_id = s.id and i.state = 'open')
