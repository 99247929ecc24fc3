-- No file knows these data any more; expects nothing; returns nothing.
update cell set marked_at = null
