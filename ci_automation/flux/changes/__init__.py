"""What changes between two components files, object by object, in words and classes that gates understand."""
