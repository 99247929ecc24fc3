"""The one database: its server, its pool, its statements, one function per statement."""
