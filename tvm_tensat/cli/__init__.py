"""The command line, ``tvmc``."""
