-- Make a gate known; expects its key and name; returns nothing.
insert into gate (key, provider, account, model, created_at)
values (%(key)s, %(provider)s, %(account)s, %(model)s, clock()) on conflict do nothing
