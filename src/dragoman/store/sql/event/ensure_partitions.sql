-- Make the partitions of this month and the next three; expects nothing; returns how many were made.
select ensure_partitions() as made
