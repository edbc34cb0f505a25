"""HTTP: one session for registries, GitHub and all other services, and what its failures are called.

`session` sends a request and reads its answer, and `services` repeats it until there is one. `values` has requests and
answers, `network` proxies and certificates, `waiting` clocks, deadlines and further attempts. ADR 0010 says how oras
and PyGithub fit in.
"""

__all__ = ["network", "services", "session", "values", "waiting"]
