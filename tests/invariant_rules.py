"""The invariants that one query can ask: each returns no row when its sentence holds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """One invariant as a query that must return no row."""

    name: str
    sentence: str
    query: str


ALWAYS = (
    Rule(
        "I1",
        "Every job has exactly one standing, and no standing is without its job.",
        """select coalesce(j.id, s.id) from job j full join standing s using (id)
            where j.id is null or s.id is null""",
    ),
    Rule(
        "I1",
        "The sums of every queue, folded or not, are what a count of the standings gives.",
        """with told as (
             select queue_key, state, sum(n) as n
               from (select queue_key, state, n from queue_sum
                     union all select queue_key, state, n from queue_delta) d
              group by queue_key, state),
           counted as (
             select queue_key, state, count(*) as n from standing group by queue_key, state)
           select queue_key, state, told.n, counted.n
             from told full join counted using (queue_key, state)
            where coalesce(told.n, 0) <> coalesce(counted.n, 0)""",
    ),
    Rule(
        "I1",
        "A job that failed has its dead letter, and no other job has one.",
        """select s.id, s.state from standing s left join dead_letter d on d.job_id = s.id
            where (s.state = 'failed') <> (d.id is not null)""",
    ),
    Rule(
        "I1",
        "A request was routed exactly when it has its job, and a failed request has none.",
        """select r.id from rewrite_request r left join job j on j.request_id = r.id
            where (r.routed_at is not null) <> (j.id is not null)
               or r.failed_at is not null and j.id is not null""",
    ),
    Rule(
        "I1",
        "Of an erased job nothing is left but its tombstone, its events and its settled items.",
        """select t.job_id from tombstone t join (
             select id from job union all select id from standing
             union all select job_id from stage_result union all select job_id from dead_letter
             union all select job_id from delivery union all select job_id from rewrite_output
             union all select job_id from review union all select job_id from review_input
             union all select job_id from review_diff union all select job_id from review_result
             union all select job_id from finding
             union all select job_id from batch_item where state = 'open'
           ) o on o.id = t.job_id""",
    ),
    Rule(
        "I2",
        "A job has one terminal event when it is final, the event of its state, and none before.",
        """select s.id, s.state, count(h.seq)
             from standing s left join history h
               on h.job_id = s.id and h.kind in ('completed', 'failed', 'canceled')
            group by s.id, s.state
           having count(h.seq) <> (s.state in ('completed', 'failed', 'canceled'))::int
               or count(*) filter (where h.kind <> s.state::text) > 0""",
    ),
    Rule(
        "I2",
        "An execution unit has one job and one output.",
        """select j.pipeline, j.unit from job j left join rewrite_output o on o.job_id = j.id
            where j.pipeline = 1 group by j.pipeline, j.unit having count(*) > 1""",
    ),
    Rule(
        "I3",
        "A rewrite is completed exactly when its own output is stored, in its own language.",
        """select s.id, s.state from standing s join job j using (id)
             left join rewrite_output o on o.job_id = s.id and o.request_id = j.request_id
              and o.recipient_user_id = j.recipient_id and o.home_id = j.home_id
              and o.target_locale = j.target_locale
            where s.pipeline = 1 and (s.state = 'completed') <> (o.job_id is not null)
           union all
           select o.job_id, null from rewrite_output o left join job j on j.id = o.job_id
            where j.id is null""",
    ),
    Rule(
        "I3",
        "A review is completed only when its result is stored and everybody was told.",
        """select s.id from standing s join job j using (id)
            where s.pipeline = 2 and s.state = 'completed'
              and (not exists (select from replay_line(j.id) l
                                join review_result r on r.job_id = l.id)
                or exists (select from delivery d where d.notified_at is null
                            and d.changelist_id = j.changelist_id
                            and d.review_version = j.review_version))""",
    ),
    Rule(
        "I4",
        "A closed batch has no open item.",
        """select b.id, i.item_index from batch b join batch_item i on i.batch_id = b.id
            where b.closed_at is not null and i.state = 'open'""",
    ),
    Rule(
        "I4",
        "A batch has as many items as it says, numbered from 0 without a gap.",
        """select b.id from batch b left join batch_item i on i.batch_id = b.id
            group by b.id, b.items
           having count(*) <> b.items or min(i.item_index) <> 0
               or max(i.item_index) <> b.items - 1""",
    ),
    Rule(
        "I4",
        "A job that is out with a batch has an item there, and carries its first batch's id.",
        """select s.id from standing s
            where s.state = 'batch_submitted'
              and not exists (select from batch_item i join batch b on b.id = i.batch_id
                               where i.job_id = s.id and i.token = s.claim_token
                                 and b.provider_batch_id is not null)
           union all
           select s.id from standing s
            where s.provider_batch_id is distinct from (
              select b.provider_batch_id from batch b join batch_item i on i.batch_id = b.id
               where i.job_id = s.id and b.provider_batch_id is not null
               order by b.submitted_at limit 1)""",
    ),
    Rule(
        "I4",
        "A batch that provably was never created carries no provider's id.",
        """select id from batch where state = 'released'
              and (provider_batch_id is not null or closed_at is null)""",
    ),
    Rule(
        "I5",
        "A message is marked as sent once, with its evidence, and after its sending was begun.",
        """select h.job_id, h.facts ->> 'key' from history h where h.kind = 'sent'
            group by h.job_id, h.facts ->> 'key' having count(*) > 1
           union all
           select d.job_id, d.key from delivery d
            where (d.state = 'sent') <> (d.notified_at is not null)
               or (d.notified_at is null) <> (d.notification_id is null)
               or d.notified_at < d.first_started_at""",
    ),
    Rule(
        "I8",
        "Every event has a name for its kind and its reason, and an actor who is known.",
        """select job_id, seq from history
            where kind is null or reason is null or actor_role is null""",
    ),
    Rule(
        "I10",
        "No job has more attempts or free requeues than it may.",
        """select s.id from standing s join job j using (id) join pipeline p on p.id = s.pipeline
            where s.stage_attempts > j.max_attempts or s.free_requeues > 3
               or s.attempt_count > j.max_attempts * cardinality(p.stages)""",
    ),
    Rule(
        "I10",
        "No job was submitted more often than its attempts and free requeues allow.",
        """select i.job_id from batch_item i join job j on j.id = i.job_id
            group by i.job_id, i.call, j.max_attempts having count(*) > j.max_attempts + 3""",
    ),
    Rule(
        "I10",
        "No message was tried more often than it may be.",
        "select id from delivery where attempt_count > max_attempts and guarantee = 'neither'",
    ),
    Rule(
        "I12",
        "Everything that belongs to a job belongs to the job's home.",
        """select j.id from job j join (
             select id as job_id, home_id from standing union all select job_id, home_id from event
             union all select job_id, home_id from batch_item
             union all select job_id, home_id from rewrite_output
             union all select job_id, home_id from dead_letter
             union all select job_id, home_id from delivery
             union all select job_id, home_id from stage_result
             union all
             select j.id, r.home_id from job j join rewrite_request r on r.id = j.request_id
           ) o on o.job_id = j.id
            where o.home_id <> j.home_id
           union all
           select t.job_id from tombstone t join event e using (job_id)
            where e.home_id <> t.home_id""",
    ),
    Rule(
        "I14",
        "What is on its way, or in doubt, was begun in this life of the data.",
        """select o.id from (
             select id, incarnation from batch
              where state in ('submitting', 'submit_unknown') and started_at is not null
             union all
             select id, incarnation from delivery where state in ('sending', 'unknown')
           ) o where o.incarnation is distinct from (select incarnation from cell)""",
    ),
)

AT_REST = (
    Rule(
        "I9",
        "Every job is final, or waits for a time of its own.",
        """select id, state, ready from standing
            where state not in ('completed', 'failed', 'canceled')
              and (state <> 'queued' or not_before_at is null)""",
    ),
    Rule(
        "I9",
        "Every request has its job or has failed.",
        "select id from rewrite_request where routed_at is null and failed_at is null",
    ),
    Rule(
        "I9",
        "No batch is open, and of a closed one the provider has no file left.",
        """select id, state from batch
            where closed_at is null
               or files_deleted_at is null
                  and (input_file_id is not null or cardinality(result_files) > 0)""",
    ),
    Rule(
        "I13",
        "Nothing waits for a person but a message whose target can neither dedupe nor be asked.",
        """select id, state from delivery
            where state in ('queued', 'sending', 'reconciling')
               or state = 'unknown' and guarantee <> 'neither'""",
    ),
)
