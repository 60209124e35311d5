"""A live page of runs, on this machine alone: `tffapps watch RESULTS`."""
