-- Is there anything for a collector: open, doubtful, never started, or files to delete; returns the number.
select (select count(*) from batch where closed_at is null)
     + (select count(*) from batch where closed_at is not null and files_deleted_at is null
          and (input_file_id is not null or cardinality(result_files) > 0)) as n
