#!/usr/bin/env python3
"""A worker for `rcb compare` without any client: GET over a bare socket, one caller. docs/WORKER.md says what it must do."""
import base64
import json
import os
import resource
import socket
import sys
import time
import urllib.parse


def say(**answer):
    print(json.dumps(answer), flush=True)


def end(**answer):
    say(**answer)
    sys.exit(1)


def main():
    request = json.loads(sys.stdin.readline())
    if request["protocol"] != "redis-client-bench/worker" or request["version"] != 1:
        end(failed="this worker speaks version 1 of redis-client-bench/worker")
    workload = request["workload"]
    operation = workload["operation"]
    if request["servers"]["topology"] != "standalone" or operation["command"] != "get":
        end(unsupported="this worker does GET on a standalone server only")
    if workload["callers"] != 1 or workload["pipeline"] != 1 or request["settings"]["connections"] != 1:
        end(unsupported="this worker has one caller on one connection")

    url = urllib.parse.urlparse(request["servers"]["urls"][0])
    connection = socket.create_connection((url.hostname, url.port))
    if request["settings"]["profile"] == "tuned":
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    replies = connection.makefile("rb")

    def call(*words):
        words = [word.encode() for word in words]
        connection.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
        line = replies.readline()
        if line[:1] == b"-":
            end(failed=line[1:].decode().strip())
        if line[:1] != b"$" or line == b"$-1\r\n":
            return line[1:-2]
        return replies.read(int(line[1:]) + 2)[:-2]

    password = os.environ.get("RCB_PASSWORD")
    if password:
        call("AUTH", request["servers"].get("username", "default"), password)

    prefix, keys, value = operation["key_prefix"], operation["keys"], base64.b64decode(operation["value"])

    def work(nanoseconds):
        """Reads key after key until the time is up; every reply is checked."""
        latencies = []
        usage = resource.getrusage(resource.RUSAGE_SELF)
        start = now = time.monotonic_ns()
        while now < start + nanoseconds:
            if call("GET", f"{prefix}{len(latencies) % keys}") != value:
                end(failed="a reply was not what had been written")
            ended = time.monotonic_ns()
            latencies.append(ended - now)
            now = ended
        used = resource.getrusage(resource.RUSAGE_SELF)
        return now - start, latencies, used.ru_utime - usage.ru_utime, used.ru_stime - usage.ru_stime

    work(request["warm_up_ns"])
    say(ready={"client": "python-sockets", "client_version": sys.version.split()[0]})
    if sys.stdin.readline().strip() != "go":
        return
    elapsed, latencies, user, system = work(request["time_ns"])
    latencies.sort()
    say(
        measured={
            "operations": len(latencies),
            "elapsed_ns": elapsed,
            "user_ns": int(user * 1e9),
            "system_ns": int(system * 1e9),
            "p50_ns": latencies[len(latencies) // 2],
            "p99_ns": latencies[len(latencies) * 99 // 100],
        }
    )
    sys.stdin.read()  # until the servers' counters were read


main()
