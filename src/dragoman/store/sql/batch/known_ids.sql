-- Every custom_id that a batch was sent with, settled or not; expects the batch; returns ids.
select custom_id from batch_item where batch_id = %(id)s
