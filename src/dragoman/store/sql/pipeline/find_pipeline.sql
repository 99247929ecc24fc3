-- A pipeline as this database knows it; expects its name; returns its number and its stages, or nothing.
select id, stages from pipeline where name = %(name)s
