-- Close an open alert; expects its kind and subject; returns its id, or nothing.
update alert set closed_at = clock() where kind = %(kind)s::text and subject = %(subject)s and closed_at is null returning id
