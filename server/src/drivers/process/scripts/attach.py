"""Starts one replica from a zygote: `python3 -I -S attach.py`.

The first line of standard input says what to prepare: {"network": shell lines that connect a new network, or ""}. When
that is done, `ready` is printed. The second line, which may come much later, is the request: see `AttachRequest` in
attachers.ts. Without one, the process ends.

Runs as root, outside of every sandbox. Has the zygote clone the replica's first process into new namespaces, makes
them the replica's own while that process waits (cgroup, network, mounts), and lets it go on. Then it becomes a small
program that waits for what the first process reports at its end.

What the zygote sends is the word of an untrusted program. The kernel says which process it comes from; that process is
held by a descriptor, and must be in the zygote's user namespace and in new namespaces of each kind.
"""

import array
import ctypes
import json
import os
import select
import socket
import struct
import sys

FAILED = 125  # The exit code that says that a sandbox could not be set up.
WAIT_SECONDS = 10  # For the zygote's answer, which takes milliseconds.
OOM_SCORE = b"1000"

NAMESPACES = {"mnt": 0x00020000, "ipc": 0x08000000, "pid": 0x20000000, "net": 0x40000000}

# System calls with the same number on every processor.
OPEN_TREE, MOVE_MOUNT, FSOPEN, FSCONFIG, FSMOUNT, PIDFD_OPEN, MOUNT_SETATTR = 428, 429, 430, 431, 432, 434, 442
AT_FDCWD, AT_EMPTY_PATH, AT_RECURSIVE = -100, 0x1000, 0x8000
OPEN_TREE_CLONE, MOVE_MOUNT_F_EMPTY_PATH = 1, 4
FSCONFIG_SET_FLAG, FSCONFIG_SET_STRING, FSCONFIG_CMD_CREATE = 0, 1, 6
ATTRIBUTES = {"ro": 1, "nosuid": 2, "nodev": 4, "noexec": 8}

# Mounts that are about the namespaces of who makes them, or begin in the replica's own view.
MADE_INSIDE = {"proc", "mqueue", "alias"}

OUTPUTS = ("stdout", "stderr", "ready")
EXIT_BYTES = len("exit 255\n")  # So much of the last report is noted, so that an app cannot fill the disk.

libc = ctypes.CDLL(None, use_errno=True)


def main():
    network = prepared_network(json.loads(sys.stdin.buffer.readline())["network"])
    try:
        os.write(1, b"ready\n")
    except OSError:
        pass  # Nobody waits for it.
    line = sys.stdin.buffer.readline()
    if not line:
        return
    request = json.loads(line)
    os.chdir(request["folder"])
    state = os.open("state", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.dup2(state, 2)
    own = [open_output(name) for name in OUTPUTS]
    # Opened twice before the app has them: so it cannot take a lease on them, which would block who reads them.
    kept = [open_output(name) for name in OUTPUTS]
    connection = connect(request["socket"])
    begin_start(connection, request["start"], own)
    process, pidfd = born(connection)
    for descriptor in own:
        os.close(descriptor)
    network_inside = os.open("/proc/%d/ns/net" % process, os.O_RDONLY)
    with open("/proc/%d/stat" % process, "rb") as file:
        identity = file.read()
    check(process, pidfd, request["start"]["namespaces"], connection)
    claim(identity)
    for path in request["cgroupFiles"]:
        write(path, str(process))
    write("/proc/%d/oom_score_adj" % process, OOM_SCORE.decode())
    # Made out here, where the folders of the machine are seen.
    mounts = [None if mount["kind"] in MADE_INSIDE else detached(mount) for mount in request["mounts"]]
    parts = [in_child(prepare_mounts, request, mounts, pidfd)]
    if network is not None:
        parts.append(in_child(move_network, request["network"], network, network_inside))
    for part in parts:
        if os.waitpid(part, 0)[1] != 0:
            sys.exit(FAILED)  # It has written why.
    if select.select([pidfd], [], [], 0)[0]:
        fail("the zygote's child has ended")
    connection.sendall(b"go\n")
    expect(connection, b"running\n")
    os.write(state, b"running\n")
    watch(connection, state, kept)


def open_output(name):
    return os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)


def connect(path):
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(WAIT_SECONDS)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    folder, name = os.path.split(path)
    back = os.open(".", os.O_PATH)
    os.chdir(folder)  # The path may be too long for an address.
    connection.connect(name)
    os.fchdir(back)
    os.close(back)
    return connection


def begin_start(connection, start, outputs):
    """Sends the zygote what the replica is, with its standard input, outputs, report, and root."""
    nothing = os.open("/dev/null", os.O_RDONLY)
    descriptors = array.array("i", [nothing, *outputs, nothing])
    message = json.dumps(start).encode() + b"\n"
    sent = connection.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
    connection.sendall(message[sent:])
    os.close(nothing)


def born(connection):
    """Waits until the replica's first process says that it is there; returns its id and a descriptor of it."""
    data, ancillary, _flags, _address = connection.recvmsg(5, socket.CMSG_SPACE(struct.calcsize("3i")))
    credentials = [struct.unpack("3i", value) for _level, kind, value in ancillary if kind == socket.SCM_CREDENTIALS]
    if data != b"born\n" or not credentials or credentials[0][0] <= 0:
        fail("the zygote answered what cannot be used: it may have ended")
    process = credentials[0][0]
    return process, checked("pidfd_open", libc.syscall(PIDFD_OPEN, process, 0))


def check(process, pidfd, flags, connection):
    """Ends unless the process is a child of the zygote in new namespaces."""
    peer = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))[0]
    for name, flag in NAMESPACES.items():
        own = namespace(process, name)
        if flags & flag and own in (namespace(peer, name), namespace("self", name)):
            fail("the zygote's child shares a namespace with others (%s)" % name)
    if namespace(process, "user") != namespace(peer, "user") or namespace(process, "user") == namespace("self", "user"):
        fail("the zygote's child is in another user namespace")
    # Still the same process, so all of this was about it.
    if select.select([pidfd], [], [], 0)[0]:
        fail("the zygote's child has ended")


def namespace(process, name):
    return os.readlink("/proc/%s/ns/%s" % (process, name))


def claim(identity):
    """Claims the start by creating the file `pid`, unless the platform has given the start up."""
    descriptor = os.open("pid", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    os.write(descriptor, identity)
    os.close(descriptor)


def in_child(function, *arguments):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            function(*arguments)
            code = 0
        except OSError as error:
            report(error)
        finally:
            os._exit(code)
    return child


def detached(mount):
    """Makes a mount that is nowhere yet; returns its descriptor."""
    kind = mount["kind"]
    if kind in ("bind", "alias"):
        flags = OPEN_TREE_CLONE | os.O_CLOEXEC | AT_RECURSIVE
        return checked(mount["from"], libc.syscall(OPEN_TREE, AT_FDCWD, mount["from"].encode(), flags))
    return file_system(kind, mount["options"], mount["attributes"])


def file_system(kind, options, attributes):
    context = checked(kind, libc.syscall(FSOPEN, kind.encode(), 1))
    for name, value in options:
        checked("%s: %s" % (kind, name), configure(context, name, value))
    checked(kind, libc.syscall(FSCONFIG, context, FSCONFIG_CMD_CREATE, None, None, 0))
    bits = sum(ATTRIBUTES[name] for name in attributes)
    mounted = checked(kind, libc.syscall(FSMOUNT, context, 1, bits))
    os.close(context)
    return mounted


def configure(context, name, value):
    if value is None:
        return libc.syscall(FSCONFIG, context, FSCONFIG_SET_FLAG, name.encode(), None, 0)
    return libc.syscall(FSCONFIG, context, FSCONFIG_SET_STRING, name.encode(), value.encode(), 0)


def prepare_mounts(request, mounts, pidfd):
    """Puts the mounts in their places; runs in the replica's namespaces, of which /proc shows the processes."""
    flags = request["start"]["namespaces"] & ~NAMESPACES["net"]
    checked("setns", libc.setns(pidfd, flags))
    inside = in_child(place_mounts, request, mounts)
    if os.waitpid(inside, 0)[1] != 0:
        os._exit(1)


def place_mounts(request, mounts):
    for mount, made in zip(request["mounts"], mounts):
        descriptor = detached(mount) if made is None else made
        at = mount["at"].encode()
        checked(mount["at"], libc.syscall(MOVE_MOUNT, descriptor, b"", AT_FDCWD, at, MOVE_MOUNT_F_EMPTY_PATH))
    entry = request["entry"]
    if not os.path.isdir(entry["folder"]):  # All replicas of the zygote have this folder, and each its own mount.
        os.mkdir(entry["folder"], 0o700)
    memory = file_system("tmpfs", [["size", "8m"], ["mode", "700"]], ["nosuid", "nodev", "noexec"])
    at = entry["folder"].encode()
    checked(entry["folder"], libc.syscall(MOVE_MOUNT, memory, b"", AT_FDCWD, at, MOVE_MOUNT_F_EMPTY_PATH))
    descriptor = os.open(entry["folder"] + "/enter", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(descriptor, entry["text"].encode())
    except OSError:
        os.ftruncate(descriptor, 0)  # No memory is left for it: then no command can enter the replica.


def prepared_network(script):
    """Makes a network namespace and connects it; returns its descriptor. None: there is nothing to connect."""
    if not script:
        return None
    os.dup2(1, 2)
    own = os.open("/proc/self/ns/net", os.O_RDONLY)
    checked("unshare", libc.unshare(NAMESPACES["net"]))
    network = os.open("/proc/self/ns/net", os.O_RDONLY)
    run(["/bin/sh", "-c", script])
    checked("setns", libc.setns(own, NAMESPACES["net"]))
    os.close(own)
    return network


def move_network(request, network, inside):
    """Moves the prepared end of the cable to the replica's network, and sets it up there."""
    checked("setns", libc.setns(network, NAMESPACES["net"]))
    os.set_inheritable(inside, True)
    run(["ip", "link", "set", "eth0", "netns", "/proc/self/fd/%d" % inside])
    checked("setns", libc.setns(inside, NAMESPACES["net"]))
    run(["ip", "-batch", "-"], request["link"])
    for path, value in (("ipv6/conf/eth0/disable_ipv6", "1"), ("ipv4/ip_unprivileged_port_start", "0")):
        try:
            write("/proc/sys/net/" + path, value)
        except OSError:
            pass  # A kernel may lack these.
    if request["rules"]:
        run(["/bin/sh", "-c", request["rules"]])


def run(command, text=""):
    """Runs a program with this standard input; raises OSError unless it succeeds."""
    read_end, write_end = os.pipe()
    os.write(write_end, text.encode())
    os.close(write_end)
    child = os.fork()
    if child == 0:
        os.dup2(read_end, 0)
        try:
            os.execv(program_at(command[0]), command)
        finally:
            os._exit(127)
    os.close(read_end)
    if os.waitpid(child, 0)[1] != 0:
        raise OSError("%s failed" % command[0])


def program_at(name):
    """The path of a program of the machine."""
    if name.startswith("/"):
        return name
    folders = ("/usr/sbin", "/usr/bin", "/sbin", "/bin")
    return next((path for path in ("%s/%s" % (folder, name) for folder in folders) if os.path.exists(path)), name)


def expect(connection, text):
    """Waits for this text; raises OSError when something else comes, or nothing."""
    seen = b""
    while len(seen) < len(text):
        data = connection.recv(len(text) - len(seen))
        if not data:
            break
        seen += data
    if seen != text:
        fail("the replica's first process did not start the app")


def watch(connection, state, kept):
    """Becomes a small program that notes the first bytes of what is reported at the end: `exit <code>`."""
    connection.settimeout(None)
    os.dup2(connection.fileno(), 0)
    for number, descriptor in enumerate(kept, 6):
        os.dup2(descriptor, number)
    os.dup2(state, 1)
    os.execv(program_at("head"), ["head", "-c", str(EXIT_BYTES)])


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def checked(what, result):
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, "%s: %s" % (what, os.strerror(number)))
    return result


def report(error):
    os.write(2, ("%s\n" % error).encode())


def fail(reason):
    raise OSError(reason)


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError, KeyError) as error:
        report(error)
        sys.exit(FAILED)
