"""The groups of figures; see ../README.md."""
