-- Store what a review found; expects new_review[]; returns nothing.
insert into review_result (job_id, home_id, changelist_id, review_version, schema_version, prompt_version, provider, model,
                           summary, diagnostics, created_at)
select job_id, home_id, changelist_id, review_version, schema_version, prompt_version, provider, model, summary, diagnostics, at
  from unnest(%(reviews)s::new_review[])
