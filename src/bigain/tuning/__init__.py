"""Tune a model to a budget: what each operator costs and does at each site, the best choice, and its verification."""
