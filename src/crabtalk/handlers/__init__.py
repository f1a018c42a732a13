"""What each request means: one file for each kind of thing that requests are about.

A handler gets the runtime and the request, checks what the request says, asks the part that owns it, and
makes the reply. No handler knows another, and none knows of connections.
"""
