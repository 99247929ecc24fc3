-- The data begin another life; expects the new incarnation; returns nothing.
update cell set incarnation = %(incarnation)s
