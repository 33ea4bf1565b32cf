"""The gateway called over HTTP, as any program calls it: a real server, a key, and httpx."""

import contextlib
import hashlib
import hmac
import json
import os
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from queue import Queue

import httpx

COMMAND = [sys.executable, "gateway.py"]
SECRET = os.urandom(16).hex()


def events(client, path, since=0):
    """What a stream says: the name and the data of each event."""
    headers = {"Last-Event-ID": str(since)} if since else {}
    with client.stream("GET", path, headers=headers) as stream:
        name = "message"
        for line in stream.iter_lines():
            field, _, value = line.partition(": ")
            if field == "event":
                name = value
            elif field == "data":
                yield name, json.loads(value)


def ask(client):
    answer = client.post("/agents/pilot/invoke", json={"message": "When is high water?"})
    assert answer.json()["data"]["text"] == "High water is at 04:12."


def ask_and_listen(client):
    question = {"message": "When is high water?"}
    accept = {"Accept": "text/event-stream"}
    with client.stream("POST", "/agents/pilot/invoke", json=question, headers=accept) as stream:
        frames = [json.loads(line[6:]) for line in stream.iter_lines() if line.startswith("data: ")]
    assert [each["text"] for each in frames if each["type"] == "delta"] == ["High water ", "is at 04:12."]
    assert frames[-1]["type"] == "done"


def give_a_task(client):
    asked = {"message": "Book a berth.", "idempotency_key": "order-7", "deadline_ms": 60_000}
    made = client.post("/agents/pilot/tasks", json=asked)
    assert made.status_code == 202
    task = f"/agents/pilot/tasks/{made.json()['data']['task_id']}"

    # The same key gives the same task: nothing is booked twice.
    again = client.post("/agents/pilot/tasks", json=asked)
    assert again.json()["data"]["task_id"] == made.json()["data"]["task_id"]

    seen = 0
    for name, message in events(client, f"{task}/events"):
        if name == "message":
            seen = message["offset"]
            if message["type"] == "agent.input_required":
                break

    # It waits, for as long as it takes, until somebody answers.
    client.post(f"{task}/continue", json={"input": "the Fram"})

    # Whoever was away goes on from what they saw last.
    *_, (_, last), (name, end) = events(client, f"{task}/events", since=seen)
    assert last["body"] == "A berth is booked."
    assert (name, end) == ("end", {"reason": "task_terminal"})
    assert client.get(task).json()["data"]["status"] == "completed"


def cancel_a_task(client):
    made = client.post("/agents/pilot/tasks", json={"message": "Book a berth."}).json()["data"]
    task = f"/agents/pilot/tasks/{made['task_id']}"
    ended = client.post(f"{task}/cancel", json={"reason": "The boat has sunk."})
    assert ended.json()["data"]["status"] == "canceled"


def talk(client):
    made = client.post("/agents/pilot/conversations", json={"title": "Tides"}).json()["data"]
    conversation = f"/agents/pilot/conversations/{made['conversation_id']}"
    sent = client.post(f"{conversation}/messages", json={"message": "When is high water?"}).json()["data"]
    for name, message in events(client, f"{conversation}/events"):
        replied = name == "message" and message.get("in_reply_to") == sent["message_id"]
        if replied and message.get("state") == "completed":
            assert message["body"] == "High water is at 04:12."
            break
    client.delete(conversation)


def is_ours(secret: str, header: str, body: bytes, now: float, patience: float = 300.0) -> bool:
    """Whether a callback was made by the gateway, and just now. The body is taken as it came."""
    parts = dict(part.split("=", 1) for part in header.split(","))
    made = hmac.new(secret.encode(), parts["t"].encode() + b"." + body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(made, parts["v1"]) and abs(now - int(parts["t"])) <= patience


def be_told(client, hook, told):
    made = client.post("/agents/pilot/tasks", json={"message": "Book a berth."}).json()["data"]
    task = f"/agents/pilot/tasks/{made['task_id']}"
    client.post(f"{task}/webhooks", json={"url": hook, "secret": SECRET})
    client.post(f"{task}/cancel")
    while True:
        header, body = told.get(timeout=30)
        assert is_ours(SECRET, header, body, time.time())
        assert not is_ours(SECRET, header, body + b" ", time.time())
        if json.loads(body)["final"]:
            break
    assert json.loads(body)["status"] == "canceled"


def send_a_file(client):
    about = {"filename": "chart.txt", "content_type": "text/plain"}
    file = client.post("/files/presign-upload", json=about).json()["data"]
    # The address is signed: it opens this one file, and needs no key.
    httpx.put(file["upload_url"], content=b"Rocks here.", headers={"Content-Type": "text/plain"})
    question = {"message": "When is high water?", "attachments": [{"file_id": file["file_id"]}]}
    assert client.post("/agents/pilot/invoke", json=question).status_code == 200
    assert httpx.get(file["download_url"]).text == "Rocks here."


def complete_as_openai_does(client, url):
    asked = {"model": "pilot", "messages": [{"role": "user", "content": "When is high water?"}]}
    answer = client.post(f"{url}/v1/chat/completions", json=asked).json()
    assert answer["choices"][0]["message"]["content"] == "High water is at 04:12."


def be_refused(client, url):
    answer = client.post("/agents/nobody/invoke", json={"message": "Hello?"})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (404, "agent_not_found")
    assert error["request_id"] == answer.headers["x-request-id"]
    assert httpx.get(f"{url}/api/v1/agents").json()["error"]["code"] == "unauthorized"


# What it takes to run all that here.


@contextlib.contextmanager
def serving():
    environment = {**os.environ, "FAIRLEAD_ALLOW_PRIVATE_HOSTS": "127.0.0.1"}
    command = [*COMMAND, "serve", "--port", "0"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as server:
        try:
            line = next(line for line in server.stderr if "/fairlead/actions" in line)
            yield line.split()[-1].removesuffix("/fairlead/actions")
        finally:
            server.terminate()
            server.communicate()


@contextlib.contextmanager
def listening():
    told = Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            told.put((self.headers["X-BeeOS-Signature"], body))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *words):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/told", told
        server.shutdown()


def main():
    made = subprocess.run([*COMMAND, "keys", "new", "calls"], stdout=subprocess.PIPE, text=True, check=True)
    key = made.stdout.strip()
    with (
        serving() as url,
        listening() as (hook, told),
        httpx.Client(
            base_url=f"{url}/api/v1", headers={"Authorization": f"Bearer {key}"}, timeout=30
        ) as client,
    ):
        ask(client)
        ask_and_listen(client)
        give_a_task(client)
        cancel_a_task(client)
        talk(client)
        be_told(client, hook, told)
        send_a_file(client)
        complete_as_openai_does(client, url)
        be_refused(client, url)


if __name__ == "__main__":
    main()
