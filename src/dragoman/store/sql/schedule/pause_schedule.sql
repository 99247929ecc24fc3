-- Let a role take no tick, or take its ticks again; expects the role, is_paused; returns the role if it is known.
update schedule set is_paused = %(is_paused)s where role = %(role)s returning role
