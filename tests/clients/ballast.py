"""A `ballast serve` for one test: a temporary folder, a free port, the administrator's credentials.

Two servers share nothing. A test fails if its server does not end cleanly, or if it logged a panic
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


def binary():
    """The program under test: $BALLAST, as `run` sets it."""
    return Path(os.environ.get("BALLAST", ROOT / "target" / "debug" / "ballast"))


class Ballast:
    """A running server. Use it in a `with`, which also judges how it ended."""

    def __init__(self, *flags):
        self.folder = Path(tempfile.mkdtemp(prefix="ballast-clients-"))
        self.log = self.folder / "log"
        # What the server is expected to have logged; nothing, as a rule.
        self.expected_faults = []
        certs = self.folder / "certs"
        command = [
            binary(), "serve", "--secure-port", "0", "--cert-dir", certs,
            "--database-url", f"sqlite://{self.folder}/ballast.db", *flags,
        ]  # fmt: skip
        environment = {name: value for name, value in os.environ.items() if not name.startswith("BALLAST")}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command, cwd=self.folder, env=environment,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
            )  # fmt: skip
        self.url = self._ready_url()
        self.port = int(self.url.rsplit(":", 1)[1])
        self.kubeconfig = certs / "admin.kubeconfig"
        self.ca, self.cert, self.key = (str(certs / name) for name in ("ca.crt", "admin.crt", "admin.key"))

    def _ready_url(self):
        """What the ready line says; the pipe is read without blocking, so that the wait has an end."""
        out = self.process.stdout
        os.set_blocking(out.fileno(), False)
        text, deadline = b"", time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            select.select([out], [], [], 1)
            text += out.read() or b""
            if found := re.search(rb"ready at (https://\S+)", text):
                return found.group(1).decode()
        self.process.kill()
        raise AssertionError(f"the server did not become ready:\n{text.decode()}{self.log.read_text()}")

    def tls(self):
        """As the administrator, over HTTP/1.1: Python's own client speaks no HTTP/2."""
        context = ssl.create_default_context(cafile=self.ca)
        context.load_cert_chain(self.cert, self.key)
        context.set_alpn_protocols(["http/1.1"])
        return context

    def get(self, path):
        """The text at a path."""
        with urllib.request.urlopen(self.url + path, context=self.tls(), timeout=START_SECONDS) as answer:
            return answer.read().decode()

    def resident_kib(self):
        """Memory that it holds."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status).group(1))

    def open_files(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def faults(self):
        """Lines of the log that tell of a failure."""
        lines = self.log.read_text(errors="replace").splitlines()
        bad = [line for line in lines if any(fault in line for fault in FAULTS)]
        return [line for line in bad if not any(known in line for known in self.expected_faults)]

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = "killed"
        faults = self.faults()
        assert code == 0, f"the server ended with {code}:\n{self.log.read_text()}"
        assert not faults, "the server logged failures:\n" + "\n".join(faults[:20])
        shutil.rmtree(self.folder)

    def __enter__(self):
        return self

    def __exit__(self, failure, *_):
        if failure is None:
            return self.stop()
        self.process.kill()
        self.process.wait()
        lines = self.log.read_text(errors="replace").splitlines()
        print("the server's last lines:", *lines[-20:], f"its files are kept in {self.folder}", sep="\n")
