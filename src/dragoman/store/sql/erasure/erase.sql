-- One bounded step of erasing a home or a person of it; expects them, how much at most (0 only counts), who does it; returns counts.
select people, requests, jobs, messages from erase(%(home)s, %(user)s, %(most)s, %(actor)s, %(name)s)
