//! `/metrics` and `/healthz` on `metrics-port`, asked as Prometheus and people do.

use crate::harness::{Kind, PATIENCE, Server, eventually, free_port, program, under_test};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;

struct Answer {
    status: u16,
    fields: BTreeMap<String, String>,
    body: String,
}

/// A connection over which requests go.
struct Http(BufReader<TcpStream>);

impl Http {
    fn connect(port: u16) -> Http {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        Http(BufReader::new(stream))
    }

    fn send(&mut self, text: &str) {
        self.0.get_mut().write_all(text.as_bytes()).expect("it reads");
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }

    fn answer(&mut self, has_body: bool) -> Answer {
        let line = self.line();
        let status = line.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.split(' ').next()).expect("a status line");
        let status = status.parse().expect("a number");
        let mut fields = BTreeMap::new();
        loop {
            let line = self.line();
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(": ").expect("a field");
            fields.insert(name.to_lowercase(), value.to_owned());
        }
        let length: usize = fields["content-length"].parse().expect("a length");
        let mut body = vec![0; if has_body { length } else { 0 }];
        self.0.read_exact(&mut body).expect("all of the body");
        Answer { status, fields, body: String::from_utf8(body).expect("text") }
    }

    fn get(&mut self, path: &str) -> Answer {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: here\r\n\r\n"));
        self.answer(true)
    }

    fn expect_closed(&mut self) {
        let mut rest = Vec::new();
        // A reset is an end, too: the server has not read all that was sent.
        let _ = self.0.read_to_end(&mut rest);
        assert!(rest.is_empty(), "{:?}", String::from_utf8_lossy(&rest));
    }
}

/// A server for each number of workers, with the port of its figures.
fn servers() -> Vec<(Server, u16)> {
    if under_test().1 == Kind::Redis {
        return Vec::new();
    }
    let start = |workers: &str| {
        let port = free_port();
        (Server::with(&["--workers", workers, "--metrics-port", &port.to_string()]), port)
    };
    vec![start("1"), start("3")]
}

/// The samples: name with labels, and value.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').expect("a name and a value");
            (name.to_owned(), value.parse().expect("a number"))
        })
        .collect()
}

#[test]
fn figures_are_those_of_the_server() {
    for (server, port) in servers() {
        let mut c = server.client();
        for n in 0..100 {
            c.call(&["SET", &format!("k{n}"), "v"]);
        }
        c.run("EXPIRE k1 1000");
        c.run("GET k1");
        c.run("GET nosuch");
        c.run("INCR k1");
        c.run("SELECT 3");
        c.run("SET other v");
        let mut http = Http::connect(port);
        let answer = http.get("/metrics");
        assert_eq!(answer.status, 200);
        assert!(answer.fields["content-type"].starts_with("application/openmetrics-text"), "{:?}", answer.fields);
        assert!(answer.body.ends_with("# EOF\n"));
        let told = samples(&answer.body);
        for (name, value) in [
            ("redis_up", 1.0),
            ("redis_connected_clients", 2.0),
            ("redis_db_keys{db=\"db0\"}", 100.0),
            ("redis_db_keys_expiring{db=\"db0\"}", 1.0),
            ("redis_db_keys{db=\"db3\"}", 1.0),
            ("redis_keyspace_hits_total", 1.0),
            ("redis_keyspace_misses_total", 1.0),
            ("redis_commands_total{cmd=\"set\"}", 101.0),
            ("redis_commands_failed_calls_total{cmd=\"incr\"}", 1.0),
            ("redis_errors_total{err=\"ERR\"}", 1.0),
            ("redis_commands_latencies_usec_count{cmd=\"set\"}", 101.0),
            ("redis_commands_latencies_usec_bucket{le=\"+Inf\",cmd=\"set\"}", 101.0),
            ("redis_memory_max_bytes", 0.0),
            ("redis_slowlog_length", 0.0),
        ] {
            // Of labels the order is the writer's.
            let found = told.get(name).copied().or_else(|| {
                let (name, labels) = name.split_once('{')?;
                let labels: Vec<&str> = labels.trim_end_matches('}').split(',').collect();
                let is = |key: &&String| {
                    key.starts_with(&format!("{name}{{")) && labels.iter().all(|label| key.contains(label))
                };
                told.keys().find(is).map(|key| told[key])
            });
            assert_eq!(found, Some(value), "{name}");
        }
        // Each bound has at least those of the one before.
        let mut before = 0.0;
        let buckets = answer
            .body
            .lines()
            .filter(|line| line.starts_with("redis_commands_latencies_usec_bucket") && line.contains("cmd=\"set\""));
        for line in buckets {
            let count: f64 = line.rsplit_once(' ').expect("a value").1.parse().expect("a number");
            assert!(count >= before, "{line}");
            before = count;
        }
        // Each class of chunks, and what they make together.
        assert!(told.keys().any(|name| name.starts_with("dolmen_slab_chunks{") && name.contains("state=\"live\"")));
        assert!(told["redis_memory_used_bytes"] > 0.0 && told["redis_memory_used_rss_bytes"] > 1e6);
        let later = samples(&http.get("/metrics").body);
        assert!(later["redis_commands_processed_total"] >= told["redis_commands_processed_total"]);
        assert!(c.run("CLIENT LIST").text().contains("cmd=http"));
        server.assert_alive();
    }
}

#[test]
fn requests_of_every_kind() {
    for (server, port) in servers() {
        let mut http = Http::connect(port);
        // Over one connection.
        assert_eq!(http.get("/healthz").body, "200 OK\n");
        assert_eq!(http.get("/healthz?verbose").status, 200);
        assert_eq!(http.get("/").status, 404);
        http.send("HEAD /metrics HTTP/1.1\r\nHost: here\r\n\r\n");
        let head = http.answer(false);
        assert!(head.status == 200 && head.fields["content-length"].parse::<usize>().expect("a length") > 1000);
        http.send("POST /metrics HTTP/1.1\r\nHost: here\r\nContent-Length: 0\r\n\r\n");
        let refused = http.answer(true);
        assert_eq!((refused.status, &*refused.fields["allow"]), (405, "GET, HEAD"));
        // Several at once, the last of which ends it.
        let get = |close: &str| format!("GET /metrics HTTP/1.1\r\nHost: here\r\n{close}\r\n");
        http.send(&(get("").repeat(5) + &get("Connection: close\r\n")));
        for n in 0..6 {
            let answer = http.answer(true);
            assert_eq!((answer.status, answer.fields["connection"] == "close"), (200, n == 5));
        }
        http.expect_closed();
        // A byte at a time.
        let mut slow = Http::connect(port);
        for byte in get("").chars() {
            slow.send(&byte.to_string());
        }
        assert_eq!(slow.answer(true).status, 200);
        for (request, status) in [
            ("GET / HTTP/1.1\r\n\r\n".to_owned(), 400),
            ("nonsense\r\n\r\n".to_owned(), 400),
            ("GET / HTTP/3.0\r\nHost: here\r\n\r\n".to_owned(), 505),
            ("POST /metrics HTTP/1.1\r\nHost: here\r\nContent-Length: 3\r\n\r\nabc".to_owned(), 413),
            (format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(9000)), 431),
        ] {
            let mut http = Http::connect(port);
            http.send(&request);
            let answer = http.answer(true);
            assert_eq!((answer.status, &*answer.fields["connection"]), (status, "close"), "{request:.40}");
            http.expect_closed();
        }
        server.assert_alive();
    }
}

/// Who reads nothing, or stays in the middle of a request, harms nobody and is closed in time.
#[test]
fn slow_clients() {
    for (server, port) in servers() {
        let mut half = Http::connect(port);
        half.send("GET /metr");
        let reader = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        reader.set_write_timeout(Some(std::time::Duration::from_millis(200))).expect("a time-out");
        let requests = "GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n".repeat(1000);
        // Until nothing more is taken.
        while (&reader).write_all(requests.as_bytes()).is_ok() {}
        let mut c = server.client();
        c.expect("PING", "+PONG");
        let held = c.run("CLIENT LIST").text();
        let most = held
            .lines()
            .filter_map(|line| line.split_once(" tot-mem=")?.1.split(' ').next()?.parse::<u64>().ok())
            .max();
        assert!(most.is_some_and(|most| most < 8 << 20), "{held}");
        assert_eq!(Http::connect(port).get("/healthz").status, 200);
        half.expect_closed();
        drop(reader);
        eventually("the other has gone", || c.info_number("connected_clients") == 1);
    }
}

/// As a client that people have.
#[test]
fn curl() {
    let Some(curl) = program("curl") else { return };
    for (_server, port) in servers() {
        let url = format!("http://127.0.0.1:{port}/metrics");
        let output = Command::new(&curl).args(["-sS", "--fail", &url, &url]).output().expect("curl runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8_lossy(&output.stdout).matches("# EOF").count(), 2);
    }
}
