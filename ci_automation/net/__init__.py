"""HTTP: one session for registries, GitHub and all other services, and its errors in words.

`session` sends a request and reads its answer, and `services` retries until an answer comes. `values` has requests and
answers, `network` proxies and certificates, `waiting` clocks, deadlines and retries. ADR 0010 says how oras and
PyGithub fit in.
"""

__all__ = ["network", "services", "session", "values", "waiting"]
