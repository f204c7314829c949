"""The studio: a page in the browser that shows what compression does to classification and generation.

It joins the rooms below and computes nothing that they could. Each tab is a file of its own.
"""
