-- Whether what the finished stages left behind is still there; expects the job and the stage to start at; returns yes or no.
select case %(stage)s::int
         when 0 then true
         when 1 then exists (select from replay_line(%(id)s) l join review_diff d on d.job_id = l.id where d.expires_at > clock())
         else exists (select from delivery d join job j on (j.changelist_id, j.review_version) = (d.changelist_id, d.review_version)
                       where j.id = %(id)s)
       end
