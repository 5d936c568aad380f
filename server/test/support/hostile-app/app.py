"""A hostile app: tries what an app must not be able to do. Each attempt returns what it gained, or fails as it should.

Prints one line `ATTEMPT <json>` per attempt: its name, and what it gained or null. The environment variable TARGETS is
JSON with the files, addresses and processes of the platform and of others.
"""

import ctypes
import errno
import json
import os
import socket
import struct
import subprocess

TARGETS = json.loads(os.environ["TARGETS"])
SECONDS = 1.0
libc = ctypes.CDLL(None, use_errno=True)
attempts = []


def attempt(function):
    attempts.append(function)
    return function


def called(result):
    """The result of a C library call; raises its error."""
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return "returned %d" % result


def reach(host, port, family=socket.AF_INET):
    """What a TCP server sends; raises when it cannot be reached."""
    with socket.socket(family, socket.SOCK_STREAM) as client:
        client.settimeout(SECONDS)
        client.connect(socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)[0][4])
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        return client.recv(100).decode("latin1")


def read(path):
    with open(path, "rb") as file:
        return file.read(100).decode("latin1")


def listing(path):
    names = os.listdir(path)
    return names or None


def ran(*command):
    done = subprocess.run(command, capture_output=True, timeout=20)
    if done.returncode != 0:
        raise OSError(done.returncode, done.stderr.decode("latin1"))
    return done.stdout.decode("latin1") or "it worked"


# Network


@attempt
def call_another_replica_at_its_address():
    return reach(TARGETS["victim"]["host"], TARGETS["victim"]["port"])


@attempt
def call_another_replica_at_every_port_of_its_address():
    for port in (80, 8000, 8001, 8080, 8888, 9000, 22, 5432, 6379):
        try:
            return reach(TARGETS["victim"]["host"], port)
        except OSError:
            continue


@attempt
def call_a_service_of_the_machine_on_loopback():
    return reach("127.0.0.1", TARGETS["service"]["port"])


@attempt
def call_a_service_of_the_machine_on_ipv6_loopback():
    return reach("::1", TARGETS["service"]["port"], socket.AF_INET6)


@attempt
def call_a_service_of_the_machine_by_its_gateway():
    return reach("169.254.1.1", TARGETS["service"]["port"])


@attempt
def call_a_service_of_the_machine_by_its_own_addresses():
    for address in TARGETS["service"]["addresses"]:
        try:
            return reach(address, TARGETS["service"]["port"])
        except OSError:
            continue


@attempt
def call_a_service_of_the_machine_by_link_local_ipv6():
    return reach("fe80::1%eth0", TARGETS["service"]["port"], socket.AF_INET6)


@attempt
def send_a_datagram_to_a_service_of_the_machine():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(SECONDS)
        client.sendto(b"hello", ("169.254.1.1", TARGETS["service"]["udpPort"]))
        return client.recv(100).decode("latin1")


@attempt
def reach_a_host_of_a_private_network():
    return reach(TARGETS["lan"]["host"], TARGETS["lan"]["port"])


@attempt
def speak_with_an_abstract_socket_of_the_machine():
    with socket.socket(socket.AF_UNIX) as client:
        client.connect("\0" + TARGETS["abstract"])
        return client.recv(100).decode("latin1")


@attempt
def speak_with_the_socket_of_another_replica():
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(TARGETS["victimSocket"])
        return "connected"


@attempt
def open_a_raw_socket():
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP)
    return "opened"


@attempt
def read_packets_of_the_network():
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    return "opened"


@attempt
def take_another_address():
    return ran("ip", "addr", "add", "10.213.0.1/32", "dev", "eth0")


@attempt
def change_the_route():
    return ran("ip", "route", "replace", "default", "dev", "lo")


@attempt
def change_the_rules_of_its_network():
    return ran("nft", "flush", "ruleset")


@attempt
def answer_for_the_machine_by_arp_settings():
    with open("/proc/sys/net/ipv4/conf/eth0/proxy_arp", "w") as file:
        file.write("1")
    return "written"


@attempt
def make_a_network_of_its_own():
    return called(libc.unshare(0x40000000 | 0x10000000))


@attempt
def enter_the_network_of_the_first_process():
    with open("/proc/1/ns/net") as namespace:
        return called(libc.setns(namespace.fileno(), 0x40000000))


# Files


@attempt
def read_the_secret_key_of_the_platform():
    return read(TARGETS["secretFile"])


@attempt
def list_the_data_folder():
    names = set(os.listdir(TARGETS["dataDir"])) - {"builds", "replicas", "venv"}
    return sorted(names) or None


@attempt
def read_the_code_of_another_app():
    return read(TARGETS["otherCode"])


@attempt
def read_the_storage_of_another_project():
    return read(TARGETS["otherStorage"])


@attempt
def climb_out_of_the_storage():
    return read("/persistent-storage/../../" + TARGETS["secretFile"])


@attempt
def read_accounts_and_passwords_of_the_machine():
    users = [line.split(":")[0] for line in open("/etc/passwd")]
    return sorted(set(users) - {"app", "root", "nobody"}) or read("/etc/shadow")


@attempt
def read_files_of_etc_that_no_program_needs():
    found = [name for name in TARGETS["etcFiles"] if os.path.exists("/etc/" + name)]
    return found or None


@attempt
def list_opt():
    return listing("/opt")


@attempt
def list_homes_and_data_of_the_machine():
    folders = ("/home", "/srv", "/mnt", "/media", "/boot", "/var/lib", "/var/log", "/run/dbus")
    own = {"/home": ["app"]}
    found = [name for name in folders if os.path.isdir(name) and os.listdir(name) != own.get(name, [])]
    return found + [path for path in TARGETS["homeFiles"] if os.path.exists(path)] or None


@attempt
def look_through_the_root_of_the_first_process():
    return read("/proc/1/root" + TARGETS["secretFile"])


@attempt
def change_a_program_of_the_system():
    with open("/usr/bin/env", "r+b"):
        return "opened"


@attempt
def change_the_interpreter():
    with open(os.path.realpath(os.sys.executable), "r+b"):
        return "opened"


@attempt
def change_the_environment_that_builds_share():
    with open(os.path.join(os.environ["VIRTUAL_ENV"], "written"), "w"):
        return "written"


@attempt
def change_settings_of_the_kernel():
    with open("/proc/sys/kernel/core_pattern", "w") as file:
        file.write("|/tmp/taken")
    return "written"


@attempt
def change_the_machine_by_sys():
    with open("/sys/kernel/mm/transparent_hugepage/enabled", "w") as file:
        file.write("never")
    return "written"


@attempt
def open_the_disk():
    for name in TARGETS["disks"]:
        return read("/dev/" + name)
    raise OSError(errno.ENOENT, "no disk")


@attempt
def make_a_device_of_the_disk():
    os.mknod("/tmp/disk", 0o60666, os.makedev(254, 0))
    return read("/tmp/disk")


@attempt
def read_messages_of_the_kernel():
    return read("/dev/kmsg")


@attempt
def link_to_a_file_of_the_platform():
    os.link(TARGETS["secretFile"], "/tmp/linked")
    return read("/tmp/linked")


# Processes and rights


@attempt
def see_processes_of_others():
    seen = [pid for pid in os.listdir("/proc") if pid.isdigit()]
    return seen if len(seen) > 6 else None


@attempt
def end_a_process_of_the_platform():
    os.kill(TARGETS["platformPid"], 0)
    return "it is there"


@attempt
def trace_the_first_process():
    return called(libc.ptrace(16, 1, 0, 0))


@attempt
def read_the_environment_of_the_first_process():
    return read("/proc/1/environ")


@attempt
def hold_descriptors_of_the_platform():
    names = [(fd, os.readlink("/proc/self/fd/" + fd)) for fd in os.listdir("/proc/self/fd") if int(fd) > 2]
    return [name for _fd, name in names if not name.startswith("/proc/")] or None


@attempt
def become_root():
    os.setuid(0)
    # If the platform is not root, uid 0 here is only its own user under another name, without any rights.
    return None if TARGETS["isUserOwned"] else "user %d" % os.getuid()


@attempt
def gain_rights_by_a_program():
    return ran("su", "-c", "id -u") if not TARGETS["isUserOwned"] else None


@attempt
def use_a_capability():
    with open("/proc/self/status") as file:
        lines = [line for line in file if line.startswith("Cap")]
    return [line for line in lines if int(line.split()[1], 16) != 0] or None


@attempt
def mount_a_file_system():
    return ran("mount", "-t", "tmpfs", "tmpfs", "/tmp")


@attempt
def take_a_mount_away():
    return ran("umount", "-l", "/etc")


@attempt
def make_a_user_namespace():
    return called(libc.unshare(0x10000000))


@attempt
def leave_by_chroot():
    os.mkdir("/tmp/down")
    os.chroot("/tmp/down")
    return "changed"


@attempt
def set_the_clock():
    import time

    time.clock_settime(time.CLOCK_REALTIME, time.time() + 1)
    return "set"


@attempt
def rename_the_machine():
    return called(libc.sethostname(b"taken", 5))


@attempt
def load_a_module_of_the_kernel():
    return called(libc.syscall(175, b"", 0, b""))


@attempt
def load_a_program_into_the_kernel():
    # bpf(BPF_PROG_LOAD) of two instructions: r0 = 0; exit.
    program = ctypes.create_string_buffer(struct.pack("<BBhi", 0xB7, 0, 0, 0) + struct.pack("<BBhi", 0x95, 0, 0, 0))
    licence = ctypes.create_string_buffer(b"GPL")
    fields = struct.pack("<IIQQ", 2, 2, ctypes.addressof(program), ctypes.addressof(licence)) + bytes(96)
    return called(libc.syscall(321, 5, fields, len(fields)))


@attempt
def restart_the_machine_by_its_switch():
    with open("/proc/sysrq-trigger", "w") as file:
        file.write("")
    return "opened"


@attempt
def go_before_others_at_the_processor():
    return "%d" % os.nice(-5)


@attempt
def be_spared_when_memory_runs_out():
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("-1000")
    return "written"


@attempt
def attach_shared_memory_of_others():
    return called(libc.shmget(TARGETS["shmKey"], 0, 0))


@attempt
def find_shared_memory_of_others():
    return listing("/dev/shm")


for function in attempts:
    try:
        got = function()
    except (OSError, subprocess.SubprocessError):
        got = None
    except Exception as error:
        got = "the attempt itself is broken: %r" % error
    print("ATTEMPT " + json.dumps({"name": function.__name__, "got": got}), flush=True)
print("DONE", flush=True)
