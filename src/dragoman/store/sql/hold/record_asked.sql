-- Every provider has told of its batches; expects the hold; returns its id.
update hold set asked_at = clock() where id = %(id)s and released_at is null returning id
