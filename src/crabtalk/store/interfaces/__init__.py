"""One file per kind of record: its dataclass, its keys, its bytes.

Readers return records. Everything that changes something returns the writes that do it, and the caller
commits them, alone or together with others, so that what belongs together is one batch.
"""
