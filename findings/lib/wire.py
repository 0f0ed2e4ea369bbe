"""A bare STOMP socket: frames as they are on the wire, without a client library."""

import socket


class Wire:
    """One connection, as user ``u`` with password ``u``."""

    def __init__(self, port, version="1.2", **headers):
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self._received = b""
        login = {"accept-version": version, "host": "localhost", "login": "u", "passcode": "u"}
        self.send("CONNECT", {**login, **headers})
        command, headers, body = self.frame()
        assert command == "CONNECTED", (command, headers, body)

    def send(self, command, headers, body=b""):
        """Send a frame. ``headers`` is a dictionary, or a list of pairs, and is not escaped."""
        pairs = headers.items() if isinstance(headers, dict) else headers
        head = "".join(f"{name}:{value}\n" for name, value in pairs)
        self._socket.sendall(f"{command}\n{head}\n".encode() + body + b"\0")

    def subscribe(self, destination, **headers):
        """Subscribe as "1"."""
        self.confirmed("SUBSCRIBE", {"id": "1", "destination": destination, **headers})

    def confirmed(self, command, headers, body=b""):
        """Send a frame and wait for its receipt."""
        pairs = list(headers.items() if isinstance(headers, dict) else headers)
        self.send(command, [*pairs, ("receipt", "r")], body)
        answer = self.frame()
        assert answer[0] == "RECEIPT", answer

    def frame(self, seconds=10):
        """Command, headers (of a name the first) and body of the next frame. None if none comes."""
        self._socket.settimeout(seconds)
        while True:
            text = self._received.lstrip(b"\r\n")
            head, blank, rest = text.partition(b"\n\n")
            if blank:
                command, *lines = head.decode().split("\n")
                headers = dict(line.split(":", 1) for line in reversed(lines))
                length = int(headers.get("content-length", -1))
                end = length if length >= 0 else rest.find(b"\0")
                if 0 <= end < len(rest):
                    self._received = rest[end + 1 :]
                    return command, headers, rest[:end]
            try:
                octets = self._socket.recv(65536)
            except TimeoutError:
                return None
            if not octets:
                raise ConnectionError(f"closed by the broker after {text!r}")
            self._received += octets

    def body(self, seconds=2):
        """The body of the next frame, as text. None if none comes."""
        frame = self.frame(seconds)
        return frame and frame[2].decode()

    def close(self):
        self._socket.close()
