"""The command line: it parses options and prints; everything else is in the library."""
