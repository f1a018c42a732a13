"""MCP, both ways: tools of MCP servers for agents, and tools of harnesses for MCP clients.

The protocol itself is the public SDK's, which is heavy and an extra (`crabtalk[mcp]`): modules that import it
say so, and are imported by `loading` when the first server or client is there.
"""
