-- Store the findings of reviews, before anybody is told; expects new_finding[]; returns nothing.
insert into finding (job_id, position, home_id, severity, category, title, file, line, end_line, message, suggestion, confidence,
                     rule_id)
select job_id, position, home_id, severity, category, title, file, line, end_line, message, suggestion, confidence, rule_id
  from unnest(%(findings)s::new_finding[])
