-- Give permits back; expects ids; returns how many there were by its row count.
delete from permit where id = any(%(ids)s::uuid[])
