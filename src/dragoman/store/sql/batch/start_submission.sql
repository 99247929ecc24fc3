-- From here on the batch may exist at the provider; expects the batch's token; returns the deadline, or nothing if it was lost.
update batch
   set started_at = clock(), deadline_at = clock() + make_interval(secs => %(deadline_s)s), input_file_id = %(file)s,
       incarnation = (select incarnation from cell),
       payload_sha256 = %(sha256)s, payload_bytes = %(bytes)s
 where id = %(id)s and token = %(token)s and state = 'submitting' and started_at is null
returning deadline_at
