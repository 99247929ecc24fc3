-- Whether a change was written down before; expects verb and subject; returns one row.
select exists (select from change where verb = %(verb)s and subject = %(subject)s) as is_known
