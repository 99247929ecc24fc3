-- Look names up here until the transaction ends, or until it is said otherwise; expects a path; returns it.
select set_config('search_path', %(path)s, true) as path
