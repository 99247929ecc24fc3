-- What the original's finished stages left behind is the replay's too; expects both and the stage it starts at; returns references.
insert into stage_result (job_id, stage, home_id, reference, sha256, created_at)
select %(replay)s, r.stage, r.home_id, r.reference, r.sha256, clock()
  from stage_result r
 where r.job_id = %(original)s and r.stage < %(stage)s
returning reference
