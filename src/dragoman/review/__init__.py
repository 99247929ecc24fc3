"""Pipeline two: a changelist is criticised by a model, and every recipient is told once."""
