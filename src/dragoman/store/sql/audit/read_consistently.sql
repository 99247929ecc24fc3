-- Let every statement of this transaction see one moment; expects to be the first; returns nothing.
set transaction isolation level repeatable read, read only
