"""What the scripts of this folder share: servers pinned to CPU 0, clients pinned to CPU 1, CPU time and memory out of /proc, and
records. Python 3 alone; redis-benchmark is the client where speed is measured.

A server is named on the command line as NAME=COMMAND, where {port} stands for the port. Without any, Dolmen (target/release/dolmen,
built if need be) stands beside `redis-server`, if that is installed."""
import datetime
import os
import platform
import re
import resource
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
OUT = os.path.join(HERE, "out")
# So that servers are ended when the script is.
signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
SERVER_CPU, CLIENT_CPU = "0", "1"
BENCHMARK = os.environ.get("REDIS_BENCHMARK", "redis-benchmark")


def build():
    """Builds the release binary and returns its path."""
    subprocess.run(["cargo", "build", "--release", "--quiet"], cwd=ROOT, check=True)
    return os.path.join(ROOT, "target/release/dolmen")


def null_server(value_bytes):
    """Compiles the floor and returns its command."""
    os.makedirs(OUT, exist_ok=True)
    source, binary = os.path.join(HERE, "null_server.c"), os.path.join(OUT, "null_server")
    if not os.path.exists(binary) or os.path.getmtime(binary) < os.path.getmtime(source):
        subprocess.run(["cc", "-O3", "-march=native", source, "-o", binary], check=True)
    return f"{binary} {{port}} {value_bytes}"


def servers(named, floor_value_bytes=None):
    """(name, command) of the servers to compare: the floor first if wanted, then those named, or Dolmen and redis-server."""
    found = []
    if floor_value_bytes is not None:
        found.append(("floor", null_server(floor_value_bytes)))
    if named:
        found += [tuple(server.split("=", 1)) for server in named]
        return found
    found.append(("dolmen", f"{build()} --port {{port}} --save ''"))
    if shutil.which("redis-server"):
        found.append(("redis", "redis-server --port {port} --save '' --appendonly no --protected-mode no"))
    return found


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """A running server, in a folder of its own. Use it in a `with`."""

    def __init__(self, name, command, cpu=SERVER_CPU, prefix=()):
        self.name, self.port = name, free_port()
        self.command = command.replace("{port}", str(self.port))
        self.folder = tempfile.mkdtemp(prefix="dolmen-perf-")
        self.log = open(os.path.join(self.folder, "output"), "wb")
        line = ["taskset", "-c", cpu, *prefix, *shlex.split(self.command)]
        self.process = subprocess.Popen(line, stdout=self.log, stderr=self.log, cwd=self.folder, start_new_session=True)
        self.pid = self.process.pid
        deadline = time.time() + 60
        while True:
            try:
                self.connect().close()
                break
            except OSError:
                if self.process.poll() is not None or time.time() > deadline:
                    self.close()
                    raise SystemExit(f"{name} did not start: {self.command}")
                time.sleep(0.02)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def connect(self):
        s = socket.create_connection(("127.0.0.1", self.port), 60)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s

    def cpu_ns(self):
        """CPU time of all threads, user and system."""
        total = 0
        for thread in os.listdir(f"/proc/{self.pid}/task"):
            try:
                with open(f"/proc/{self.pid}/task/{thread}/schedstat") as f:
                    total += int(f.read().split()[0])
            except OSError:
                pass
        return total

    def resident_bytes(self):
        with open(f"/proc/{self.pid}/status") as f:
            return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1)) * 1024


def request(*arguments):
    parts = [a if isinstance(a, bytes) else str(a).encode() for a in arguments]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts)


class Client:
    """A connection that sends commands and reads replies, one by one or in pipelines."""

    def __init__(self, server):
        self.socket = server.connect()
        self.file = self.socket.makefile("rb", 1 << 16)

    def read(self):
        line = self.file.readline()
        kind, rest = line[:1], line[1:-2]
        if kind in b"+:" and kind:
            return int(rest) if kind == b":" else rest
        if kind == b"-":
            raise RuntimeError(rest.decode())
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return None if rest == b"-1" else [self.read() for _ in range(int(rest))]
        raise RuntimeError(f"no reply: {line!r}")

    def __call__(self, *arguments):
        self.socket.sendall(request(*arguments))
        return self.read()

    def ok_pipeline(self, requests, count):
        """Sends `count` requests at once, each of which is answered by +OK."""
        self.socket.sendall(requests)
        answer = self.file.read(5 * count)
        if answer != b"+OK\r\n" * count:
            raise RuntimeError(f"not +OK: {answer[:200]!r}")

    def info(self, field):
        """A number of INFO, or None where the server does not tell it."""
        found = re.search(rf"^{field}:([0-9.]+)", self("INFO").decode(), re.M)
        return float(found.group(1)) if found else None


def fill(client, count, value, key=b"key:%012d", first=0, ttl_s=None, pxat_ms=None, depth=5000):
    """SETs `count` keys (redis-benchmark's names by default) in pipelines of `depth`."""
    if ttl_s is not None:
        end = b"$2\r\nEX\r\n" + b"$%d\r\n%d\r\n" % (len(str(ttl_s)), ttl_s)
    elif pxat_ms is not None:
        end = b"$4\r\nPXAT\r\n" + b"$%d\r\n%d\r\n" % (len(str(pxat_ms)), pxat_ms)
    else:
        end = b""
    head = b"*5\r\n$3\r\nSET\r\n" if end else b"*3\r\n$3\r\nSET\r\n"
    body = b"$%d\r\n%s\r\n" % (len(value), value) + end
    for start in range(first, first + count, depth):
        keys = [key % i for i in range(start, min(start + depth, first + count))]
        client.ok_pipeline(b"".join(b"%s$%d\r\n%s\r\n%s" % (head, len(k), k, body) for k in keys), len(keys))


def fill_collection(client, command, key, count, each, depth=1000):
    """Adds `count` elements to a collection, `each(i)` the words of one, `depth` elements a command."""
    for start in range(0, count, depth):
        client(command, key, *(word for i in range(start, min(start + depth, count)) for word in each(i)))


def element(i):
    """As redis-benchmark names members and fields."""
    return b"element:%012d" % i


def benchmark(server, arguments):
    """One run of redis-benchmark against a server: (requests a second, p50 ms, p99 ms, server CPU ns a request)."""
    line = ["taskset", "-c", CLIENT_CPU, BENCHMARK, "-p", str(server.port), "--csv", *arguments.split()]
    count = int(re.search(r"-n (\d+)", arguments).group(1))
    before = server.cpu_ns()
    done = subprocess.run(line, capture_output=True, text=True, timeout=600)
    spent = server.cpu_ns() - before
    rows = [row for row in done.stdout.splitlines() if row.startswith('"') and not row.startswith('"test"')]
    if done.returncode or not rows:
        raise RuntimeError(f"{' '.join(line)}: {done.stdout}{done.stderr}")
    columns = [column.strip('"') for column in rows[-1].split('","')]
    return float(columns[1]), float(columns[4]), float(columns[6]), spent / count


class Report:
    """Prints, and keeps what it printed for a record under perf/records."""

    def __init__(self, name, found=()):
        self.name, self.lines = name, []
        self(f"perf/{name} {' '.join(sys.argv[1:])}".rstrip())
        self(f"{datetime.date.today()}, {platform.machine()}, Linux {platform.release()}, {os.cpu_count()} CPUs, {cpu_model()}")
        self(f"dolmen {revision()}")
        for server, command in found:
            self(f"{server}: {version(command)}")
        self("")

    def __call__(self, line=""):
        print(line, flush=True)
        self.lines.append(line)

    def keep(self):
        """Writes the record. A second one of a day gets a number."""
        folder = os.path.join(HERE, "records")
        os.makedirs(folder, exist_ok=True)
        for number in range(1, 100):
            more = "" if number == 1 else f"-{number}"
            path = os.path.join(folder, f"{datetime.date.today()}-{self.name}{more}.txt")
            if not os.path.exists(path):
                with open(path, "w") as f:
                    f.write("\n".join(self.lines) + "\n")
                print(f"recorded in {os.path.relpath(path, ROOT)}")
                return


def cpu_model():
    with open("/proc/cpuinfo") as f:
        found = re.search(r"model name\s*:\s*(.*)", f.read())
    return found.group(1).strip() if found else "unknown CPU"


def revision():
    done = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() or "of an unknown revision"


def version(command):
    """What a binary says it is; no paths of this machine."""
    binary = shlex.split(command)[0]
    if os.path.basename(binary) == "null_server":
        return "perf/null_server.c"
    try:
        done = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return os.path.basename(binary)
    lines = (done.stdout or done.stderr).splitlines()
    return lines[0] if lines and not done.returncode else os.path.basename(binary)


def need_two_cpus():
    if len(os.sched_getaffinity(0)) < 2:
        raise SystemExit("server and client need a CPU each")


def allow_open_files(count):
    """Raises the limit of open files, of this process and of the servers that it starts later."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, max(hard, count)))


def idle_connections(server, count):
    """Opens connections that say nothing. Close them with `reset`."""
    return [server.connect() for _ in range(count)]


def reset(sockets):
    """Closes without a farewell, so that no port stays in TIME_WAIT."""
    for s in sockets:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.close()
