-- Write down what a finished stage left behind; expects stage_done[]; returns nothing.
insert into stage_result (job_id, stage, home_id, reference, sha256, created_at)
select d.job_id, d.stage, s.home_id, d.reference, d.sha256, clock()
  from unnest(%(done)s::stage_done[]) as d join standing s on s.id = d.job_id
