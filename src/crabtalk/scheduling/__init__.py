"""When harnesses are woken: instants, never calendars.

`due_set` orders what is pending, `backlog` decides what starts now (both pure), `wakes` is the record of it in
the store, `loop` the trio task that sleeps and starts.
"""
