"""The daemon, and the capabilities through which tools reach the machine.

Nothing is re-exported: import the module that holds what you need.
"""
