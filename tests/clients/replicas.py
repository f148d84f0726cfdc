"""Three replicas over one PostgreSQL behind one address, and a script that kills the leader.

The balancer passes TCP connections on to the replicas in turn and knows nothing of what they carry.
Every ten seconds the leader ends by SIGKILL; its connections end with it, and it is started anew.
`Replicas` can be used in place of a `Ballast`.
"""

import itertools
import os
import pwd
import re
import selectors
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest
from ballast import KILLS, START_SECONDS, STOP_SECONDS, Process, Served

COUNT = 3
LEASE_SECONDS = 1
KILL_EVERY_SECONDS = 10
# A client's connection that no replica takes within this time is closed.
CONNECT_SECONDS = 5
# What a follower says of a write when the leader dies under it. Its log has it as a failed request.
IN_DOUBT = ("the leader was lost in the middle", "another replica leads", "no replica leads")


class Postgres:
    """A PostgreSQL of our own, in a temporary folder."""

    def __init__(self):
        self.programs = find_postgres()
        if self.programs is None:
            assert "BALLAST_LONG" not in os.environ, "PostgreSQL is missing: .ci/tools installs it"
            pytest.skip("no PostgreSQL here (PG_BIN, PATH, /usr/lib/postgresql/*/bin)")
        # It refuses to run as root.
        self.user = "postgres" if os.geteuid() == 0 else None
        self.folder = Path(tempfile.mkdtemp(prefix="ballast-postgres-"))
        if self.user:
            shutil.chown(self.folder, self.user, pwd.getpwnam(self.user).pw_gid)
        data = self.folder / "data"
        self._run("initdb", "--username=ballast", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync", "--pgdata", data)
        self.port = free_port()
        # `pg_ctl` waits until connections are taken.
        self._run(
            "pg_ctl", "start", "--pgdata", data, "--wait", "--timeout", str(START_SECONDS), "--log", self.folder / "log",
            "--options", f"-k {self.folder} -h 127.0.0.1 -p {self.port} -c fsync=off -c max_connections=100",
        )  # fmt: skip
        self.url = f"postgres://ballast@127.0.0.1:{self.port}/postgres"

    def _run(self, program, *arguments):
        done = subprocess.run(
            [self.programs / program, *arguments], user=self.user, cwd=self.folder, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=START_SECONDS * 2,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
        )  # fmt: skip
        assert done.returncode == 0, f"{program}: {done.stdout}"

    def stop(self):
        self._run("pg_ctl", "stop", "--pgdata", self.folder / "data", "--mode", "immediate")
        shutil.rmtree(self.folder)


def find_postgres():
    """The folder of its programs; `None` where there are none."""
    told = [Path(os.environ["PG_BIN"])] if "PG_BIN" in os.environ else []
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    on_path = [Path(found).parent for found in [shutil.which("initdb")] if found]
    return next((folder for folder in [*told, *on_path, *debian] if (folder / "pg_ctl").exists()), None)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class Balancer:
    """One address before many. Each new connection goes to the next replica that takes it."""

    def __init__(self, count):
        self.ports = [None] * count
        self.turn = itertools.count()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def _replica(self):
        deadline = time.monotonic() + CONNECT_SECONDS
        while time.monotonic() < deadline:
            port = self.ports[next(self.turn) % len(self.ports)]
            if port is None:
                continue
            try:
                return socket.create_connection(("127.0.0.1", port), CONNECT_SECONDS)
            except OSError:
                # It has died, or is about to.
                time.sleep(0.01)
        return None

    def _pass_on(self, client):
        with client:
            server = self._replica()
            if server is None:
                return
            with server, selectors.DefaultSelector() as selector:
                server.settimeout(None)
                for one, other in ((client, server), (server, client)):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    selector.register(one, selectors.EVENT_READ, other)
                open_ends = 2
                try:
                    while open_ends:
                        for key, _ in selector.select():
                            data = key.fileobj.recv(1 << 16)
                            if data:
                                key.data.sendall(data)
                            else:
                                selector.unregister(key.fileobj)
                                key.data.shutdown(socket.SHUT_WR)
                                open_ends -= 1
                except OSError:
                    # The replica was killed, or the client has hung up: both ends are closed.
                    return

    def close(self):
        self.listener.close()


class Replicas(Served):
    """Use it as a `Ballast`."""

    def __init__(self):
        super().__init__(Path(tempfile.mkdtemp(prefix="ballast-replicas-")))
        self.expected_faults = list(IN_DOUBT)
        self.postgres, self.balancer = Postgres(), Balancer(COUNT)
        self.port, self.url = self.balancer.port, f"https://127.0.0.1:{self.balancer.port}"
        self.seats = [None] * COUNT
        for seat in range(COUNT):
            # The first one makes the certificates that all of them use.
            self._start(seat)
        # Theirs names the replica that started last.
        theirs, self.kubeconfig = self.kubeconfig, self.folder / "kubeconfig"
        self.kubeconfig.write_text(re.sub(r"https://127\.0\.0\.1:\d+", self.url, theirs.read_text()))
        self._ending, self._broken = threading.Event(), None
        self._killer = threading.Thread(target=self._kill_leaders, daemon=True)
        self._killer.start()

    def _start(self, seat):
        self.seats[seat] = Process(
            self.folder, f"log-{seat}", "--cert-dir", self.folder / "certs", "--database-url", self.postgres.url,
            "--leader-lease-seconds", str(LEASE_SECONDS),
        )  # fmt: skip
        self.balancer.ports[seat] = self.seats[seat].port

    def _leads(self, process):
        return re.search(r"^ballast_leader 1$", self.get("/metrics", process.url), re.M)

    def _kill_leaders(self):
        try:
            while not self._ending.wait(KILL_EVERY_SECONDS):
                for seat, process in enumerate(self.seats):
                    if self._leads(process):
                        self.balancer.ports[seat] = None
                        began = time.monotonic()
                        process.kill()
                        # Another one leads after the lease, and by then everybody was told.
                        KILLS.append((began, time.monotonic() + LEASE_SECONDS + 1))
                        self._start(seat)
                        break
        except Exception as error:  # noqa: BLE001: it is told to the tests when they end
            self._broken = error

    def _end_killing(self):
        self._ending.set()
        self._killer.join(START_SECONDS + STOP_SECONDS)

    def stop(self):
        self._end_killing()
        assert self._broken is None, f"the script that kills leaders failed: {self._broken!r}"
        codes = [process.end() for process in self.seats]
        self.balancer.close()
        self.postgres.stop()
        self.judge(codes)

    def kill(self):
        self._end_killing()
        for process in self.seats:
            process.kill()
        self.balancer.close()
        self.postgres.stop()
