"""The demo: real people, from packages that ship the data. Not part of the installed library."""
