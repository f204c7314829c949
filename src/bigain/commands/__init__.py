"""The work of commands that combine several packages; nothing here depends on the command line."""
