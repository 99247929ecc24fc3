-- Dead letters that are not resolved, by what they are; returns a row per class, stage and state.
select p.name as pipeline, d.stage_name, d.error_class, d.code, d.state, count(*) as n, min(d.created_at) as oldest
  from dead_letter d join pipeline p on p.id = d.pipeline
 where d.state <> 'resolved'
 group by p.name, d.stage_name, d.error_class, d.code, d.state order by n desc, oldest
