-- Close the open alerts about one thing; expects its subject and the kinds; returns their ids.
update alert set closed_at = clock() where subject = %(subject)s and kind = any(%(kinds)s::text[]) and closed_at is null returning id
