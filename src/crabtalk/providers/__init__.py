"""Who answers for a model: two dialects over HTTP, and scripts.

One file for each, one for each thing they share.

Bytes flow one way: `http → sse → a dialect's decoder → events`. Only `http` knows a client and a clock;
what a dialect sends and what it makes of an answer are plain functions and classes without a loop.
"""
