"""Barnabas and Spark: the data source, and the data pipeline that runs on it.

Nothing outside this package imports pyspark, and nothing in it does so before a session is wanted:
the command line stays quick, and whoever has no Java has everything else.
"""
