"""The command line: parse, call a flow, print."""
