-- Write one row, to know what a commit costs; expects id; returns nothing.
insert into written (id, at) values (%(id)s, clock())
