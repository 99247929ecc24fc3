-- Every gate that work has gone through or will go through: of queues, routes and rows; expects nothing; returns names.
select provider, account, model from queue where provider <> ''
union
select decision ->> 'provider', account, decision ->> 'model' from route
union
select provider, account, model from gate
order by 1, 2, 3
