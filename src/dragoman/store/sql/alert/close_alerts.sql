-- Close the open alerts about something; expects their kind; returns nothing.
update alert set closed_at = clock() where kind = %(about)s and closed_at is null
