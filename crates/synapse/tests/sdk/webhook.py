"""A small HTTP server of our own on 127.0.0.1 that keeps what it is told; for the Python scripts beside it."""

import http.server
import json
import threading
import uuid


class Webhook:
    """Listens while it is used with `with`; `url` is where."""

    def __init__(self):
        self.heard = []
        self.path = f'/{uuid.uuid4()}'
        self.news = threading.Condition()
        hook = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get('Content-Length', 0)))
                with hook.news:
                    headers = {name.lower(): value for name, value in self.headers.items()}
                    hook.heard.append((self.path, headers, json.loads(body)))
                    hook.news.notify_all()
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.server.daemon_threads = True
        self.url = f'http://127.0.0.1:{self.server.server_port}{self.path}'

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def wait_for(self, task_id, states, patience_s):
        """The headers of a notification that the task is in one of these states; 1.0 and 0.3 have their own shapes."""

        def came():
            for _, headers, event in self.heard:
                inside = event.get('statusUpdate') or event.get('task') or event
                named = inside.get('taskId') or inside.get('id')
                if named == task_id and inside.get('status', {}).get('state') in states:
                    return headers
            return None

        with self.news:
            headers = self.news.wait_for(came, patience_s)
        assert headers, f'waited {patience_s} s for a notification that {task_id} is {states}; it heard {self.heard}'
        return headers
