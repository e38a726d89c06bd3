"""The five jobs, each a function from DataFrames to DataFrames: `job.py` says what a job is."""
