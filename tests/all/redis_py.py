#!/usr/bin/env python3
"""Every command of the server, as redis-py sends it and understands the answers. usage: redis_py.py PORT PROTOCOL"""
import sys
import threading
import time

import redis
from redis.cache import CacheConfig

PORT, PROTOCOL = int(sys.argv[1]), int(sys.argv[2])
FAR = 33177117420


def connect(**options):
    return redis.Redis(port=PORT, protocol=PROTOCOL, socket_timeout=60, **options)


def equal(got, expected):
    if got != expected:
        raise SystemExit(f"expected {expected!r}, got {got!r}")


def fails(text, call, *arguments, **options):
    try:
        got = call(*arguments, **options)
    except redis.ResponseError as error:
        if text not in str(error):
            raise SystemExit(f"expected an error with {text!r}, got {error!r}")
    else:
        raise SystemExit(f"expected an error with {text!r}, got {got!r}")


def connection(r):
    equal(r.ping(), True)
    equal(r.echo("hello"), b"hello")
    equal(r.client_setname("tester"), True)
    assert r.client_getname() in ("tester", b"tester")
    assert r.client_id() > 0
    names = [str(client["name"]) for client in r.client_list()]
    assert "tester" in names, names
    other = connect(db=3)
    other.set("k", "three")
    equal(r.get("k"), None)
    equal(other.get("k"), b"three")
    other.flushdb()


def strings(r):
    equal(r.set("k", "v"), True)
    equal(r.get("k"), b"v")
    equal(r.set("k", "w", nx=True), None)
    equal(r.set("k", "w", xx=True, get=True), b"v")
    equal(r.set("k", "x", ex=100), True)
    assert 99 <= r.ttl("k") <= 100
    equal(r.set("k", "y", keepttl=True), True)
    assert 99 <= r.ttl("k") <= 100
    equal(r.set("k", "z", pxat=FAR * 1000 + 1), True)
    equal(r.pexpiretime("k"), FAR * 1000 + 1)
    equal(r.set("k", "z", exat=FAR), True)
    equal(r.expiretime("k"), FAR)
    equal(r.set("k", "z", px=100000), True)
    equal(r.setnx("k", "v"), False)
    equal(r.setex("k", 100, "v"), True)
    equal(r.psetex("k", 100000, "v"), True)
    equal(r.getset("k", "new"), b"v")
    equal(r.getdel("k"), b"new")
    equal(r.exists("k"), 0)
    equal(r.mset({"a": 1, "b": b"\x00\xff\r\n", "c": ""}), True)
    equal(r.mget("a", "b", "c", "none"), [b"1", b"\x00\xff\r\n", b"", None])
    equal(r.append("a", "23"), 3)
    equal(r.strlen("a"), 3)
    equal(r.incr("a"), 124)
    equal(r.decr("a"), 123)
    equal(r.incrby("a", 1000), 1123)
    equal(r.decrby("a", 123), 1000)
    fails("not an integer", r.incr, "b")
    value = bytes(range(256)) * 40000
    equal(r.set("big", value), True)
    assert r.get("big") == value


def keys(r):
    r.flushall()
    equal(r.randomkey(), None)
    for i in range(1000):
        r.set(f"key:{i}", i)
    equal(r.dbsize(), 1000)
    equal(sorted(r.keys("key:99?")), sorted(b"key:%d" % i for i in range(990, 1000)))
    equal(set(r.scan_iter(count=50)), {b"key:%d" % i for i in range(1000)})
    equal(set(r.scan_iter(match="key:1", _type="string")), {b"key:1"})
    assert r.randomkey().startswith(b"key:")
    equal(r.exists("key:1", "key:1", "none"), 2)
    equal(r.type("key:1"), b"string")
    equal(r.type("none"), b"none")
    equal(r.delete("key:1", "key:2", "none"), 2)
    equal(r.unlink("key:3"), 1)
    equal(r.flushdb(), True)
    equal(r.dbsize(), 0)
    equal(r.flushall(asynchronous=True), True)


def expiry(r):
    r.set("k", "v")
    equal(r.ttl("k"), -1)
    equal(r.ttl("none"), -2)
    equal(r.expire("k", 100), True)
    equal(r.expire("k", 50, nx=True), False)
    equal(r.expire("k", 50, gt=True), False)
    equal(r.expire("k", 50, lt=True), True)
    equal(r.pexpire("k", 60000, xx=True), True)
    equal(r.expireat("k", FAR), True)
    equal(r.pexpireat("k", FAR * 1000), True)
    equal(r.pexpiretime("k"), FAR * 1000)
    assert r.pttl("k") > 10**12
    equal(r.persist("k"), True)
    equal(r.persist("k"), False)
    r.set("short", "v", px=20)
    deadline = time.time() + 60
    while r.exists("short"):
        assert time.time() < deadline, "a key does not expire"
        time.sleep(0.002)


def server(r):
    info = r.info()
    assert info["redis_version"] and info["used_memory"] > 0 and info["connected_clients"] >= 1, info
    assert r.info("keyspace") is not None
    assert r.command_count() > 40
    assert "get" in {name.lower() for name in r.command()}
    equal(r.config_get("port"), {"port": str(PORT)})
    seconds, _ = r.time()
    assert abs(int(seconds) - time.time()) < 3600
    fails("unknown command", r.execute_command, "NOSUCH")
    fails("syntax error", r.execute_command, "SET", "k", "v", "NOSUCH")


def pipelines(r):
    pipe = r.pipeline(transaction=False)
    for i in range(1000):
        pipe.set(f"p{i}", i).get(f"p{i}").incr("count")
    replies = pipe.execute()
    equal(replies[1::3], [b"%d" % i for i in range(1000)])
    equal(replies[2::3], list(range(1, 1001)))
    pipe = r.pipeline(transaction=False)
    pipe.set("s", "text").incr("s").get("s")
    replies = pipe.execute(raise_on_error=False)
    assert isinstance(replies[1], redis.ResponseError) and replies[2] == b"text", replies


def transactions(r):
    # The default: what a pipeline holds is one transaction.
    replies = r.pipeline().set("t", 1).incr("t").get("t").execute()
    equal(replies, [True, 2, b"2"])
    pipe = r.pipeline()
    pipe.set("s", "text").incr("s").get("s")
    replies = pipe.execute(raise_on_error=False)
    assert isinstance(replies[1], redis.ResponseError) and replies[2] == b"text", replies
    fails("unknown command", r.pipeline().set("t", 3).execute_command("NOSUCH").execute)
    equal(r.get("t"), b"2")
    # Watched keys: refused once, then done.
    with r.pipeline() as pipe:
        pipe.watch("t")
        connect().set("t", 5)
        pipe.multi()
        pipe.set("t", 6)
        try:
            pipe.execute()
            raise AssertionError("a change was not seen")
        except redis.WatchError:
            pass

    def add_one(pipe):
        value = int(pipe.get("t")) + 1
        pipe.multi()
        pipe.set("t", value)

    equal(r.transaction(add_one, "t"), [True])
    equal(r.get("t"), b"6")


def pubsub(r):
    """The examples of redis-py's documentation of publish and subscribe."""
    p = r.pubsub()
    p.subscribe("my-first-channel", "my-second-channel")
    p.psubscribe("my-*")

    def told(client):
        while True:
            message = client.get_message(timeout=60)
            if message is not None:
                return message

    def message(kind, pattern, channel, data):
        return {"type": kind, "pattern": pattern, "channel": channel, "data": data}

    equal(told(p), message("subscribe", None, b"my-first-channel", 1))
    equal(told(p), message("subscribe", None, b"my-second-channel", 2))
    equal(told(p), message("psubscribe", None, b"my-*", 3))
    equal(r.publish("my-first-channel", "some data"), 2)
    equal(told(p), message("message", None, b"my-first-channel", b"some data"))
    equal(told(p), message("pmessage", b"my-*", b"my-first-channel", b"some data"))
    equal(sorted(r.pubsub_channels()), [b"my-first-channel", b"my-second-channel"])
    equal(r.pubsub_numsub("my-first-channel", "none"), [(b"my-first-channel", 1), (b"none", 0)])
    equal(r.pubsub_numpat(), 1)
    p.ping("still there?")
    equal(told(p)["data"], b"still there?")
    p.unsubscribe()
    p.punsubscribe()
    equal({told(p)["type"] for _ in range(3)}, {"unsubscribe", "punsubscribe"})
    # Handlers, in a thread; and without confirmations.
    heard, done = [], threading.Event()

    def handler(message):
        heard.append(message["data"])
        if message["data"] == b"last":
            done.set()

    p = r.pubsub(ignore_subscribe_messages=True)
    p.subscribe(**{"handled": handler})
    while r.pubsub_numsub("handled") != [(b"handled", 1)]:
        time.sleep(0.001)
    thread = p.run_in_thread(sleep_time=0.001)
    for data in ["first", "second", "last"]:
        equal(r.publish("handled", data), 1)
    if not done.wait(60):
        raise SystemExit("messages did not reach the handler")
    equal(heard, [b"first", b"second", b"last"])
    thread.stop()
    thread.join()
    p.close()
    # Notifications about keys.
    r.config_set("notify-keyspace-events", "KEA")
    p = r.pubsub(ignore_subscribe_messages=True)
    p.psubscribe("__keyspace@0__:noted")
    while r.pubsub_numpat() != 1:
        time.sleep(0.001)
    r.set("noted", 1)
    r.delete("noted")
    equal([told(p)["data"] for _ in range(2)], [b"set", b"del"])
    p.close()
    r.config_set("notify-keyspace-events", "")


def caching(r):
    """Client-side caching, as redis-py's documentation shows it. RESP3 only."""
    if PROTOCOL != 3:
        return
    cached = connect(cache_config=CacheConfig())
    r.mset({"city": "New York", "count": 1})
    equal(cached.get("city"), b"New York")
    cache = cached.get_cache()
    equal(cache.size, 1)
    equal(cached.get("city"), b"New York")
    equal(cached.mget("city", "count"), [b"New York", b"1"])
    equal(cache.size, 2)
    # Somebody else changes it: what was cached is forgotten, whenever that is heard of.
    r.set("city", "Berlin")
    deadline = time.monotonic() + 60
    while cached.get("city") != b"Berlin":
        assert time.monotonic() < deadline, "an invalidation did not arrive"
    equal(cached.mget("city", "count"), [b"Berlin", b"1"])
    r.flushall()
    while cached.get("city") is not None:
        assert time.monotonic() < deadline, "an invalidation did not arrive"
    cached.close()


def threads():
    failures = []

    def work(name):
        r = connect()
        for i in range(300):
            r.set(f"{name}:{i}", f"{name}{i}")
            if r.get(f"{name}:{i}") != f"{name}{i}".encode():
                failures.append(name)

    running = [threading.Thread(target=work, args=(f"t{n}",)) for n in range(8)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    equal(failures, [])


def main():
    r = connect()
    for part in connection, strings, keys, expiry, server, pipelines, transactions, pubsub, caching:
        part(r)
    threads()
    decoding = connect(decode_responses=True)
    decoding.set("text", "grün")
    equal(decoding.get("text"), "grün")
    print("all passed")


main()
