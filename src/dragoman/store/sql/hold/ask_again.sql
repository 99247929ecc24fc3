-- What the providers told of other data counts no more; expects nothing; returns nothing.
update hold set asked_at = null where released_at is null
