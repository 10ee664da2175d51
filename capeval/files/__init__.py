"""Reading and writing: nothing half-written, every fault of a file told in one line."""
