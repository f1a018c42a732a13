"""How bytes come and go. A transport moves bytes and says who is at the other end; it decides nothing."""
