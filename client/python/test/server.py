"""What the tests share: a real node, and servers that fail in one way each."""

import http.client
import http.server
import json
import os
import re
import socket
import subprocess
import threading
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
POLICIES = os.path.join(ROOT, "client", "js", "test", "policies.yaml")


class Node:
    """A node on a free port."""

    def __init__(self, policies=POLICIES, *flags):
        binary = os.environ.get("STINT_BINARY")
        if not binary:
            raise RuntimeError("STINT_BINARY is not set: the tests need the program stint (make python builds it)")
        self._process = subprocess.Popen([binary, "serve", "--dev", "--policies", policies, "--api-addr", "127.0.0.1:0", *flags],
                                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said = ""
        for line in self._process.stdout:
            said += line
            ready = re.search(r"stint is ready at (https?:\S+)", line)
            if ready:
                self.url = ready[1]
                break
        else:
            raise RuntimeError(f"stint ended with status {self._process.wait()}: {said}")
        self._drain = threading.Thread(target=self._process.stdout.read)
        self._drain.start()

    def close(self):
        self._process.terminate()
        self._process.wait()
        self._drain.join()
        self._process.stdout.close()


class SecureNode(Node):
    """A node with TLS and a token that may do everything. certificate is a file in dir, to be trusted."""

    def __init__(self, dir):
        self.certificate, key, file = (os.path.join(dir, name) for name in ("cert.pem", "key.pem", "token"))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key,
                        "-out", self.certificate, "-days", "2", "-subj", "/CN=stint", "-addext", "subjectAltName=IP:127.0.0.1"],
                       check=True, capture_output=True)
        self.token = subprocess.run([os.environ["STINT_BINARY"], "token", "generate"], check=True, capture_output=True, text=True).stdout.strip()
        with open(file, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
            f.write(self.token)
        os.chmod(key, 0o600)
        super().__init__(POLICIES, "--api-cert", self.certificate, "--api-key", key, "--admin-token-file", file)


class Proxy:
    """Passes requests on to a node. fate says what happens to the answer of each: "answer", "drop" (the node has counted, and the
    connection ends), "hang" (it never comes), or (status, body) of somebody else, before any node is asked if the body is bytes."""

    def __init__(self, target, fate):
        self.seen = []
        self._over = threading.Event()
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                proxy.seen.append((dict(self.headers), json.loads(body)))
                now = fate(len(proxy.seen))
                if not (isinstance(now, tuple) and isinstance(now[1], bytes)):
                    request = urllib.request.Request(target + self.path, body, {"Content-Type": "application/json"})
                    with urllib.request.urlopen(request) as response:
                        status, text = response.status, response.read()
                if now == "drop":
                    self.close_connection = True
                    return
                if now == "hang":
                    self.close_connection = True
                    proxy._over.wait()
                    return
                if isinstance(now, tuple):
                    status, text = now[0], now[1] if isinstance(now[1], bytes) else now[1].encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *args):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = False
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def close(self):
        self._over.set()
        self._server.shutdown()
        self._thread.join()
        self._server.socket.close()


def refused_port():
    """A base URL at which nobody listens."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{s.getsockname()[1]}"


def ask(url, headers=None):
    """GET: status, headers, body."""
    host = url.split("//")[1]
    connection = http.client.HTTPConnection(host)
    connection.request("GET", "/", headers=headers or {})
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response.status, {k.lower(): v for k, v in response.getheaders()}, body
