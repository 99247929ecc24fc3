-- Where the chain of changes ends; expects nothing; returns one number and hash, or none.
select seq, hash from change order by seq desc limit 1
