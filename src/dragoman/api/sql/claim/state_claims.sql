-- Say who asks, until the end of this transaction; expects a verified home and user; returns nothing that matters.
select set_config('dragoman.home', %(home)s::uuid::text, true) as of_home,
       set_config('dragoman.user', %(user)s::uuid::text, true) as of_user
