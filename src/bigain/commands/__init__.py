"""What commands do that join several rooms; nothing here knows the command line."""
