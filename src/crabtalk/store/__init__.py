"""What outlives the daemon: one primitive over bytes, and typed interfaces written once on top of it."""
