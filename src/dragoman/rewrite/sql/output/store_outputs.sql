-- Store what passed, each text in its own row; expects new_output[]; returns nothing. The key is the unit: a second one is refused.
insert into rewrite_output (request_id, recipient_user_id, home_id, job_id, rewritten_text, output_language, target_locale,
                            provider, model, prompt_version, policy_version, lexicon_version, eval_result, completed_at)
select request_id, recipient_user_id, home_id, job_id, rewritten_text, output_language, target_locale, provider, model,
       prompt_version, policy_version, lexicon_version, eval_result, completed_at
  from unnest(%(outputs)s::new_output[])
