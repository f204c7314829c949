"""What classification and generation need from a model; one file a family."""
