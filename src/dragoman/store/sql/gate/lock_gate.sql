-- Lock a gate, so that the next statement counts what everybody before has done; expects its key and name; returns its key.
select key from gate
 where key = %(key)s and provider = %(provider)s and account = %(account)s and model = %(model)s
   for update
