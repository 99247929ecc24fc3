-- The routes there are; expects nothing; returns them with their accounts.
select account, decision, surface, lane::text as lane, rewrite_strength, priority, active, created_at from route
