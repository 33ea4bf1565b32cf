"""Native plugins behind a C interface: loaded, fenced, called, and answered."""
