-- Close the open alerts of a kind; expects the kind; returns nothing.
update alert set closed_at = clock() where kind = %(kind)s and closed_at is null
