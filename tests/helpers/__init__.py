"""What several tests use: tiny real models, slow references, small datasets and runs."""
