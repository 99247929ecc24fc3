-- no transaction: the sweeper finds what is claimed without reading every standing there is; expects the kernel; returns nothing.
-- Not by state: then a statement that moves a few jobs by id could be led to read all that are claimed.

-- step
create index concurrently if not exists standing_claimed on standing (claimed_at) where claimed_at is not null;
