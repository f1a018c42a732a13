"""When harnesses are woken: instants, never calendars.

`due_set` orders what is pending and `backlog` decides what starts now, both pure; `wakes` keeps the record of
it in the store, `loop` is the trio task that sleeps and starts.
"""
