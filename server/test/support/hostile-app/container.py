# More attempts for app.py, about containers: hostile-container.test.ts puts them before its last lines.


@attempt
def call_the_platform():
    return reach("slipway.internal", TARGETS["platformPort"])


@attempt
def call_another_replica_of_its_app():
    return reach(TARGETS["sibling"]["host"], TARGETS["sibling"]["port"])


def answer_to_datagram(host, port, *options):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(SECONDS)
        for level, name, value in options:
            client.setsockopt(level, name, value)
        client.sendto(b"hello", (host, port))
        return client.recv(100).decode("latin1")


@attempt
def send_a_datagram_to_another_replica_of_its_app():
    return answer_to_datagram(TARGETS["sibling"]["host"], TARGETS["sibling"]["port"])


@attempt
def send_a_datagram_to_all_of_its_network():
    everyone = TARGETS["sibling"]["host"].rsplit(".", 1)[0] + ".255"
    return answer_to_datagram(everyone, TARGETS["sibling"]["port"], (socket.SOL_SOCKET, socket.SO_BROADCAST, 1))


@attempt
def call_a_service_of_the_machine_at_its_bridge():
    gateway = TARGETS["sibling"]["host"].rsplit(".", 1)[0] + ".1"
    return reach(gateway, TARGETS["service"]["port"])


@attempt
def send_a_datagram_to_the_machine_at_its_bridge():
    gateway = TARGETS["sibling"]["host"].rsplit(".", 1)[0] + ".1"
    return answer_to_datagram(gateway, TARGETS["service"]["udpPort"])


def reach_loopback_through_the_bridge(port):
    with socket.socket() as client:
        client.settimeout(SECONDS)
        client.setsockopt(socket.SOL_SOCKET, 25, b"eth0")
        client.connect(("127.0.0.1", port))
        return client.recv(100).decode("latin1")


@attempt
def call_a_service_of_the_machine_on_loopback_through_the_bridge():
    return reach_loopback_through_the_bridge(TARGETS["service"]["port"])


@attempt
def call_the_platform_on_loopback_through_the_bridge():
    return reach_loopback_through_the_bridge(TARGETS["platformPort"])


@attempt
def speak_with_the_engine():
    for path in TARGETS["engine"]["sockets"]:
        try:
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(path)
                return path
        except OSError:
            continue


@attempt
def list_the_data_of_the_engine():
    return listing(TARGETS["engine"]["dataRoot"])


@attempt
def reach_the_storage_of_another_project_by_a_link():
    if not os.path.islink("/persistent-storage/link"):
        os.symlink("..", "/persistent-storage/link")
    return [name for name in os.listdir("/persistent-storage/link") if name.startswith("p-")] or None


@attempt
def have_ipv6():
    with open("/proc/net/if_inet6") as file:
        return [line for line in file if not line.split()[-1] == "lo"] or None


@attempt
def raise_its_limits():
    for path in ("memory/memory.limit_in_bytes", "pids/pids.max", "cgroup.procs", "memory.max", "pids.max"):
        try:
            with open("/sys/fs/cgroup/" + path, "r+") as file:
                file.write("1")
                return path
        except OSError:
            continue


@attempt
def run_as_many_processes_as_it_likes():
    for path in ("pids/pids.max", "pids.max"):
        if os.path.exists("/sys/fs/cgroup/" + path):
            limit = read("/sys/fs/cgroup/" + path).strip()
            return None if limit == "4096" else limit
    return "no limit is shown"


@attempt
def fill_more_shared_memory_than_its_own_memory():
    space = os.statvfs("/dev/shm")
    size = space.f_frsize * space.f_blocks
    return size if size > 300_000_000 else None


@attempt
def open_more_files_than_allowed():
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (soft, hard) if hard > 65536 else None


@attempt
def find_a_device_of_the_machine():
    usual = "console core fd full fuse mqueue null ptmx pts random shm stderr stdin stdout tty urandom zero".split()
    return [name for name in os.listdir("/dev") if name not in usual] or None


@attempt
def read_memory_and_keys_of_the_kernel():
    for path in ("/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware/x"):
        try:
            found = read(path)
        except OSError:
            continue
        if found:
            return path


@attempt
def use_the_keyring():
    # keyctl(KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0)
    return called(libc.syscall(250, 0, -3, 0))
