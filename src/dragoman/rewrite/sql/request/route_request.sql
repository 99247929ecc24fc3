-- Write down what was decided about a request, once; expects the request still undecided; returns its id.
update rewrite_request
   set classifier_version = %(classifier_version)s, classifier_result = %(classifier_result)s::jsonb,
       defaulted = %(defaulted)s, detected_language = %(detected_language)s, language_confidence = %(language_confidence)s,
       topics = %(topics)s, intent = %(intent)s, rewrite_strength = %(rewrite_strength)s, source_locale = %(source_locale)s,
       target_locale = %(target_locale)s, lane = %(lane)s::lane, context_pack = %(context_pack)s::jsonb,
       policy_version = %(policy_version)s, routing_decision = %(routing_decision)s::jsonb,
       rewrite_request = %(rewrite_request)s::jsonb, routed_at = clock()
 where id = %(id)s and routed_at is null and failed_at is null
returning id
