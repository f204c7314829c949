"""Many machines: jobs on the workers of a Ray cluster, whatever happens to them. Knows nothing of what a job is."""
