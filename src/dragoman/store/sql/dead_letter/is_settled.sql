-- Whether a letter's replay has ended well and everybody was told; expects its job; returns yes or no.
select replay_is_settled(%(job_id)s)
