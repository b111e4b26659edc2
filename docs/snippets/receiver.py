import json
import os
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer

from placet import verify_callback


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        verify_callback(body, dict(self.headers), secrets=[os.environ["SECRET"]], now=datetime.now(UTC))
        outcome = json.loads(body)
        print("genuine:", outcome["event"], outcome["result"]["action"], flush=True)
        self.send_response(204)
        self.end_headers()


if __name__ == "__main__":
    HTTPServer(("127.0.0.1", 8401), Receiver).handle_request()
