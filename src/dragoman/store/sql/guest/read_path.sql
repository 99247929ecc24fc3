-- Where the names of somebody's statements are looked up; expects nothing; returns the path.
select current_setting('search_path') as path
