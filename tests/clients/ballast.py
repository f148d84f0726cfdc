"""A `ballast serve` for one test: a temporary folder, a free port, the administrator's credentials.

`served` is what a test uses: one server, or with $BALLAST_REPLICAS three behind one address, whose
leader is killed again and again (replicas.py). Two of them share nothing. A test fails if its server does not end cleanly, or if it logged a panic
or a failed request.
"""

import os
import re
import select
import shutil
import signal
import ssl
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 60
STOP_SECONDS = 30
# Words that the log must not contain. The server logs "a request failed" for each answer of 500
# and above.
FAULTS = ("panicked", "a request failed")
# Whether three replicas are under test.
REPLICAS = bool(os.environ.get("BALLAST_REPLICAS"))
# Since when and until when a leader was killed, on the clock of `time.monotonic`.
KILLS = []


def was_killed(since, until):
    """Whether what a client saw in this time may come from the end of a leader."""
    return any(began <= until and ended >= since for began, ended in KILLS)


def binary():
    """The program under test: $BALLAST, as `run` sets it."""
    return Path(os.environ.get("BALLAST", ROOT / "target" / "debug" / "ballast"))


class Process:
    """One `ballast serve` on a free port. Its log is a file in `folder`, to which it adds."""

    def __init__(self, folder, log, *flags):
        self.log = folder / log
        environment = {name: value for name, value in os.environ.items() if not name.startswith("BALLAST")}
        with self.log.open("ab") as file:
            self.child = subprocess.Popen(
                [binary(), "serve", "--secure-port", "0", *flags], cwd=folder, env=environment,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=file,
            )  # fmt: skip
        self.url = self._ready_url()
        self.port = int(self.url.rsplit(":", 1)[1])

    def _ready_url(self):
        """What the ready line says; the pipe is read without blocking, so that the wait has an end."""
        out = self.child.stdout
        os.set_blocking(out.fileno(), False)
        text, deadline = b"", time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.child.poll() is None:
            select.select([out], [], [], 1)
            text += out.read() or b""
            if found := re.search(rb"ready at (https://\S+)", text):
                return found.group(1).decode()
        self.kill()
        raise AssertionError(f"the server did not become ready:\n{text.decode()}{self.log.read_text()}")

    def kill(self):
        self.child.kill()
        self.child.wait()
        self.child.stdout.close()

    def end(self):
        """Its exit status after SIGTERM, or that it had to be killed."""
        self.child.send_signal(signal.SIGTERM)
        try:
            return self.child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.child.kill()
            return "killed"


class Served:
    """What a test sees: `url`, `port`, `kubeconfig`, and the files `ca`, `cert` and `key`."""

    def __init__(self, folder):
        self.folder = folder
        # What the servers are expected to have logged; nothing, as a rule.
        self.expected_faults = []
        certs = folder / "certs"
        self.kubeconfig = certs / "admin.kubeconfig"
        self.ca, self.cert, self.key = (str(certs / name) for name in ("ca.crt", "admin.crt", "admin.key"))

    def tls(self):
        """As the administrator, over HTTP/1.1: Python's own client speaks no HTTP/2."""
        context = ssl.create_default_context(cafile=self.ca)
        context.load_cert_chain(self.cert, self.key)
        context.set_alpn_protocols(["http/1.1"])
        return context

    def get(self, path, url=None):
        """The text at a path."""
        with urllib.request.urlopen((url or self.url) + path, context=self.tls(), timeout=START_SECONDS) as answer:
            return answer.read().decode()

    def faults(self):
        """Lines of the logs that tell of a failure."""
        lines = [line for log in sorted(self.folder.glob("log*")) for line in log.read_text(errors="replace").splitlines()]
        bad = [line for line in lines if any(fault in line for fault in FAULTS)]
        return [line for line in bad if not any(known in line for known in self.expected_faults)]

    def judge(self, codes):
        """Fails unless every process ended with 0 and logged no failure."""
        faults = self.faults()
        assert set(codes) == {0}, f"the server ended with {codes}; its log is in {self.folder}"
        assert not faults, f"the server logged failures (all of it is in {self.folder}):\n" + "\n".join(faults[:20])
        shutil.rmtree(self.folder)

    def __enter__(self):
        return self

    def __exit__(self, failure, *_):
        if failure is None:
            return self.stop()
        self.kill()
        for log in sorted(self.folder.glob("log*")):
            lines = log.read_text(errors="replace").splitlines()
            print(f"the last lines of {log}:", *lines[-20:], sep="\n")


class Ballast(Served):
    """A running server. Use it in a `with`, which also judges how it ended."""

    def __init__(self, *flags):
        super().__init__(Path(tempfile.mkdtemp(prefix="ballast-clients-")))
        certs, database = self.folder / "certs", f"sqlite://{self.folder}/ballast.db"
        self.process = Process(self.folder, "log", "--cert-dir", certs, "--database-url", database, *flags)
        self.url, self.port = self.process.url, self.process.port

    def resident_kib(self):
        """Memory that it holds."""
        status = Path(f"/proc/{self.process.child.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status).group(1))

    def open_files(self):
        return len(os.listdir(f"/proc/{self.process.child.pid}/fd"))

    def stop(self):
        self.judge([self.process.end()])

    def kill(self):
        self.process.kill()


def served():
    """The servers under test, to be used in a `with`."""
    if not REPLICAS:
        return Ballast()
    # It uses this module.
    from replicas import Replicas

    return Replicas()
