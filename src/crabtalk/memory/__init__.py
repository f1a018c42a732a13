"""What an agent remembers beyond a conversation."""
