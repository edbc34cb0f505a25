"""Which versions of Flux's custom resources come and go, who still uses them, and what to do about it."""
