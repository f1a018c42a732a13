"""What a tool may reach, one module per argument of a declaration.

`files`, `commands`, `web`, `clock` and `storage` each hold one factory that turns an argument into the
capabilities it grants; `entry` holds the same for the command line. Nothing is imported here, so that an
argument costs only itself.
"""
