"""Generated from proto/crabtalk.proto by `make proto`."""
