"""The program that a release's flux CLI and kustomize are run with: it takes away what they do not need, then is one.

It runs in a process of its own, `python -I confined.py REPORT PROGRAM ARGUMENT...`, since nothing of this can be taken
back, and imports nothing but the standard library. Into the file descriptor REPORT it writes what is out of reach of
PROGRAM: `network`, `files`, both with a blank between, or nothing.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import struct
import sys
from pathlib import Path
from typing import NoReturn

MAX_OUTPUT_BYTES = 10 << 20  # and of any other file; upstream's whole output has 300 KB
_LIMITS = {
    resource.RLIMIT_CORE: 0,
    resource.RLIMIT_CPU: 60,  # seconds; it takes less than one
    resource.RLIMIT_FSIZE: MAX_OUTPUT_BYTES,
    resource.RLIMIT_DATA: 1 << 30,  # it takes a tenth
    resource.RLIMIT_AS: 4 << 30,  # Go reserves 1 GB of addresses before it does anything
}
_CLOSED = "http://127.0.0.1:9"  # where nobody listens, for what heeds proxies
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000  # linux/sched.h
_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 38, 22, 2  # linux/prctl.h, linux/seccomp.h
_SET_SECURE_BITS, _ROOT_IS_NOBODY = 28, 0b11  # linux/prctl.h, linux/securebits.h
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06  # linux/bpf_common.h
_ALLOW, _DENY = 0x7FFF0000, 0x00050001  # an error, EPERM
_OTHER_ABI = 0x40000000  # x32's numbers begin there
# By machine: how the kernel's audit.h calls it, and the numbers of socket and of io_uring_setup, which makes them too.
_CALLS = {"x86_64": (0xC000003E, 41, 425), "aarch64": (0xC00000B7, 198, 425), "armv7l": (0x40000028, 281, 425)}

# linux/landlock.h; these calls have the same numbers everywhere.
_CREATE_RULES, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION, _BENEATH, _SCOPES = 1, 1, 3
_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}  # how many kinds of access each version knows
_TRUNCATE_SINCE, _SCOPES_SINCE = 3, 6


def main(report: str, program: str, *arguments: str) -> NoReturn:
    """Become `program`, without network, credentials, files or the means to use much of the machine."""
    environment = {name: os.environ[name] for name in ("HOME", "TMPDIR")}
    folder = str(Path(program).parent)
    os.umask(0o077)
    _control(_NO_NEW_PRIVILEGES, 1)  # without it nobody may take anything away from himself
    _control(_SET_SECURE_BITS, _ROOT_IS_NOBODY)  # what root becomes then has no privilege; others cannot, and have none
    # The first two: a name space also keeps it from looking into other processes, a filter from sockets that are files.
    name_space, no_sockets, no_files = own_name_space(), deny_sockets(), deny_files(folder)
    cut_off = []
    if name_space or no_sockets:
        cut_off.append("network")
    else:
        environment |= dict.fromkeys(_PROXIES, _CLOSED)
    if no_files and no_sockets:
        cut_off.append("files")
    os.write(int(report), " ".join(cut_off).encode())
    os.close(int(report))
    for limit, wanted in _LIMITS.items():
        highest = resource.getrlimit(limit)[1]
        value = wanted if highest == resource.RLIM_INFINITY else min(wanted, highest)
        resource.setrlimit(limit, (value, value))
    try:
        os.execve(program, [program, *arguments], environment)  # noqa: S606  # no shell is what is wanted
    except OSError as error:
        sys.exit(f"it cannot be run here: {error.strerror}")


def own_name_space() -> bool:
    """Move to a network without interfaces, in a user name space that makes it allowed; return whether that is so."""
    return bool(_libc().unshare(_NEW_USER | _NEW_NETWORK) == 0)


def deny_sockets() -> bool:
    """Let the kernel refuse every socket from now on, which needs no privilege; return whether it does."""
    if (numbers := _CALLS.get(platform.machine())) is None:
        return False
    machine, socket, ring = numbers
    program = (
        (_LOAD, 0, 0, 4),  # struct seccomp_data: the architecture
        (_EQUAL, 0, 5, machine),
        (_LOAD, 0, 0, 0),  # the number of the call
        (_AT_LEAST, 3, 0, _OTHER_ABI),
        (_EQUAL, 2, 0, socket),
        (_EQUAL, 1, 0, ring),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _DENY),
    )
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in program))
    described = ctypes.create_string_buffer(struct.pack("@HP", len(program), ctypes.addressof(code)))
    return _control(_SET_SECCOMP, _FILTER, ctypes.addressof(described)) == 0


def deny_files(*places: str) -> bool:
    """Let the kernel refuse every file but what is in `places` from now on; return whether it does (Landlock).

    It then also refuses to look into processes that are not so confined and, in later versions, to signal them. That
    a file is there can still be seen, and its mode be changed by its owner: no version knows of that.
    """
    version = _call(_CREATE_RULES, None, 0, _VERSION)
    rights = (1 << _RIGHTS.get(min(version, max(_RIGHTS)), 0)) - 1
    scopes = _SCOPES if version >= _SCOPES_SINCE else 0
    described = struct.pack("=QQQ", rights, 0, scopes)
    rules = _call(_CREATE_RULES, described, len(described), 0)
    for place in places:
        descriptor = os.open(place, os.O_PATH | os.O_CLOEXEC)
        _call(_ADD_RULE, rules, _BENEATH, struct.pack("=Qi", rights, descriptor), 0)
        os.close(descriptor)
    return _call(_RESTRICT_SELF, rules, 0) == 0 and version >= _TRUNCATE_SINCE


def _control(option: int, *values: int) -> int:
    """Call prctl, whose values are all of the size of a register."""
    return int(_libc().prctl(option, *map(ctypes.c_ulong, (*values, 0, 0, 0, 0)[:4])))


def _call(number: int, *values: int | bytes | None) -> int:
    """Call the kernel where the C library has no function for it."""
    sized = (ctypes.c_long(value) if isinstance(value, int) else value for value in values)
    return int(_libc().syscall(ctypes.c_long(number), *sized))


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
