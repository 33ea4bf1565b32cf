"""One module for each measurement: `measure(pace, failures)` gives a section of the report."""
