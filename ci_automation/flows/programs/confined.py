"""The program that a release's flux CLI and kustomize are run with: it takes away what they do not need, then is one.

It runs in a process of its own, `python -I confined.py REPORT FOLDER PROGRAM ARGUMENT...`, since nothing of this can be
taken back, and imports little of the standard library: it starts for every build of an overlay. Into the file
descriptor REPORT it writes a line with `files` if the user's files are out of reach of PROGRAM, or with nothing; and
then why PROGRAM cannot be started, if so.
"""

from __future__ import annotations

import ctypes
import os
import resource
import struct
import sys

TYPE_CHECKING = False  # `typing` alone would take as long as the whole start
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import NoReturn

MAX_OUTPUT_BYTES = 10 << 20  # and of any other file; upstream's whole output has 300 KB
_LIMITS = {
    resource.RLIMIT_CORE: 0,
    resource.RLIMIT_CPU: 60,  # seconds; it takes less than one
    resource.RLIMIT_FSIZE: MAX_OUTPUT_BYTES,
    resource.RLIMIT_DATA: 1 << 30,  # it takes a tenth
    resource.RLIMIT_AS: 4 << 30,  # Go reserves 1 GB of addresses before it does anything
}
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000  # linux/sched.h
_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 38, 22, 2  # linux/prctl.h, linux/seccomp.h
_SET_SECURE_BITS, _ROOT_IS_NOBODY = 28, 0b11  # linux/prctl.h, linux/securebits.h
_LOAD, _EQUAL, _AT_LEAST, _HAS_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # linux/bpf_common.h
_ALLOW, _DENY, _UNKNOWN = 0x7FFF0000, 0x00050001, 0x00050026  # the latter two: the errors EPERM and ENOSYS
_OTHER_ABI = 0x40000000  # x32's numbers begin there
_THREAD = 0x00010000  # linux/sched.h
_IO_URING_SETUP, _CLONE_WITH_STRUCT = 425, 435  # the same everywhere
# By machine: how the kernel's audit.h calls it, the number of clone, and those of socket, fork and vfork.
_ARM = (0x40000028, 120, (281, 2, 190))
_CALLS = {
    "x86_64": (0xC000003E, 56, (41, 57, 58)),
    "aarch64": (0xC00000B7, 220, (198,)),
    "armv7l": _ARM,
    "armv6l": _ARM,
    "riscv64": (0xC00000F3, 220, (198,)),
}

# linux/landlock.h; these calls have the same numbers everywhere.
_CREATE_RULES, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION, _BENEATH, _SCOPES = 1, 1, 3
_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}  # how many kinds of access each version knows
_TRUNCATE_SINCE, _SCOPES_SINCE = 3, 6
_EXECUTE, _READ, _EVERYTHING = 1, 4, -1

# What a dynamically linked program reads to start, beside its loader.
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache")
_ELF_HEAD, _64_BITS, _LITTLE_ENDIAN, _INTERPRETER = 64, 2, 1, b"\3\0\0\0"  # elf.h


def main(report: str, folder: str, program: str, *arguments: str) -> NoReturn:
    """Become `program`, without network, credentials, files, or the means to use much of the machine or to outlive it.

    Of the files it has those in `folder`, itself, and the libraries that it needs to start.
    """
    environment = {name: os.environ[name] for name in ("HOME", "TMPDIR")}
    telling = int(report)
    os.set_inheritable(telling, False)  # noqa: FBT003  # its name
    os.umask(0o077)
    control(_NO_NEW_PRIVILEGES, 1)  # without it no process may give up rights of its own
    control(_SET_SECURE_BITS, _ROOT_IS_NOBODY)  # what root becomes then has no privilege; others cannot, and have none
    try:
        places = {folder: _EVERYTHING, **needed(program)}
    except OSError as error:
        _stop(telling, error.strerror)
    own_name_space()  # it also keeps the program from looking into other processes
    if not deny_calls():
        _stop(telling, "the kernel cannot keep it from network and from new processes (seccomp)")
    no_files = deny_files(places)
    for limit, wanted in _LIMITS.items():
        highest = resource.getrlimit(limit)[1]
        value = wanted if highest == resource.RLIM_INFINITY else min(wanted, highest)
        resource.setrlimit(limit, (value, value))
    os.write(telling, b"files\n" if no_files else b"\n")
    try:
        os.execve(program, [program, *arguments], environment)  # noqa: S606  # no shell is what is wanted
    except OSError as error:
        _stop(telling, error.strerror)


def _stop(telling: int, reason: str | None) -> NoReturn:
    os.write(telling, f"\n{reason}".encode())
    sys.exit(1)


def needed(program: str) -> dict[str, int]:
    """Return what a program needs to start, with the access to it: itself, and its loader and libraries, if it has one.

    The loader of some distributions lies in a folder of its own, with the libraries.
    """
    found = {program: _EXECUTE | _READ}
    if loader := loader_of(program):
        beside = os.path.dirname(os.path.realpath(loader))
        places = [*_LIBRARIES, *([beside] if os.path.basename(beside).startswith("lib") else [])]
        found |= {place: _READ for place in places if os.path.exists(place)}
        found[loader] = _EXECUTE | _READ
    return found


def loader_of(program: str) -> str:
    """Return the path of the loader that an ELF file names, which is there; nothing if it names none, or is no such."""
    with open(program, "rb") as file:
        head = file.read(_ELF_HEAD)
        if len(head) < _ELF_HEAD or not head.startswith(b"\x7fELF") or head[5] != _LITTLE_ENDIAN:
            return ""
        wide = head[4] == _64_BITS
        (table,) = struct.unpack_from("<Q" if wide else "<I", head, 32 if wide else 28)
        (count,) = struct.unpack_from("<H", head, 56 if wide else 44)
        entry = struct.Struct("<8xQ16xQ16x" if wide else "<4xI8xI12x")
        file.seek(table)
        for _ in range(count):
            header = file.read(entry.size)
            if header.startswith(_INTERPRETER) and len(header) == entry.size:
                offset, length = entry.unpack(header)
                file.seek(offset)
                loader = os.fsdecode(file.read(min(length, 4096)).rstrip(b"\0"))
                return loader if os.path.isfile(loader) else ""
    return ""


def own_name_space() -> bool:
    """Move to a network without interfaces, in a user name space that makes it allowed; return whether that is so."""
    return bool(_libc().unshare(_NEW_USER | _NEW_NETWORK) == 0)


def deny_calls() -> bool:
    """Let the kernel refuse every socket and every new process from now on; return whether it does.

    It needs no privilege. Threads are no processes: they end with theirs. Where the flags of a new one cannot be seen
    (clone3), the kernel says that it does not know the call, and a C library takes the older one.
    """
    if (numbers := _CALLS.get(os.uname().machine)) is None:
        return False
    machine, clone, others = numbers
    refused = (_IO_URING_SETUP, *others)  # the first makes sockets too
    past = len(refused)
    program = (
        (_LOAD, 0, 0, 4),  # struct seccomp_data: the architecture
        (_EQUAL, 0, past + 7, machine),
        (_LOAD, 0, 0, 0),  # the number of the call
        (_AT_LEAST, past + 5, 0, _OTHER_ABI),
        *((_EQUAL, past + 4 - number, 0, call) for number, call in enumerate(refused)),
        (_EQUAL, 5, 0, _CLONE_WITH_STRUCT),
        (_EQUAL, 0, 2, clone),
        (_LOAD, 0, 0, 16),  # its flags
        (_HAS_BIT, 0, 1, _THREAD),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _DENY),
        (_RETURN, 0, 0, _UNKNOWN),
    )
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in program))
    described = ctypes.create_string_buffer(struct.pack("@HP", len(program), ctypes.addressof(code)))
    return control(_SET_SECCOMP, _FILTER, ctypes.addressof(described)) == 0


def deny_files(places: Mapping[str, int]) -> bool:
    """Let the kernel refuse every file but those in `places`, each with its access; return whether it does (Landlock).

    It then also refuses to look into processes that are not so confined and, in later versions, to signal them. That
    a file is there can still be seen, and its mode be changed by its owner: no version knows of that.
    """
    version = _call(_CREATE_RULES, None, 0, _VERSION)
    rights = (1 << _RIGHTS.get(min(version, max(_RIGHTS)), 0)) - 1
    scopes = _SCOPES if version >= _SCOPES_SINCE else 0
    described = struct.pack("=QQQ", rights, 0, scopes)
    rules = _call(_CREATE_RULES, described, len(described), 0)
    for place, access in places.items():
        descriptor = os.open(place, os.O_PATH | os.O_CLOEXEC)
        _call(_ADD_RULE, rules, _BENEATH, struct.pack("=Qi", rights & access, descriptor), 0)
        os.close(descriptor)
    return _call(_RESTRICT_SELF, rules, 0) == 0 and version >= _TRUNCATE_SINCE


def control(option: int, *values: int) -> int:
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
