"""What goes over a connection: frames and messages. Nothing here does I/O."""
