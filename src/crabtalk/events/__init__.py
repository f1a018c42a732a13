"""What one harness tells others: `matching` is the grammar of sources, `bus` stores and delivers."""
