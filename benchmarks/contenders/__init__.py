"""One module for each contender: `make_call(function)` gives a call of that function through the library."""
