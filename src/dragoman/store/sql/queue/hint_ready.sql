-- Wake whoever waits for work, after the commit that made it; expects nothing; returns one row.
-- Its own commit need not reach the disk: a hint that a crash swallows is a pause of the loop, no more.
select pg_notify('dragoman_ready', '') from set_config('synchronous_commit', 'off', true)
