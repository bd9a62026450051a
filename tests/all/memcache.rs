//! The text protocol of memcached, with its meta commands, end to end. What both can do is expected of `memcached` too, where the machine has it.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::harness::{Client, Folder, PATIENCE, Server, eventually, free_port, program};

/// A server of memcached's protocol, reached by a Unix socket.
pub enum Cache {
    Ours(Server),
    Oracle { child: Child, folder: Folder },
}

impl Cache {
    pub fn ours(arguments: &[&str]) -> Cache {
        let all = [&["--memcached-unixsocket", "memcached.sock"], arguments].concat();
        Cache::Ours(Server::with(&all))
    }

    /// `memcached` itself, if the machine has it.
    pub fn oracle(arguments: &[&str]) -> Option<Cache> {
        let binary = program("memcached")?;
        let folder = Folder::new();
        let child = Command::new(binary)
            .arg("-s")
            .arg(folder.path().join("memcached.sock"))
            .args(["-U", "0", "-u", "root"])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("memcached starts");
        let cache = Cache::Oracle { child, folder };
        eventually("memcached listens", || UnixStream::connect(cache.path()).is_ok());
        Some(cache)
    }

    pub fn stream(&self) -> UnixStream {
        let mut stream = None;
        // Ours listens there a little later than on the port of Redis, which was waited for.
        eventually("the server accepts", || {
            stream = UnixStream::connect(self.path()).ok();
            stream.is_some()
        });
        stream.expect("it was there")
    }

    fn path(&self) -> PathBuf {
        match self {
            Cache::Ours(server) => server.folder().join("memcached.sock"),
            Cache::Oracle { folder, .. } => folder.path().join("memcached.sock"),
        }
    }

    pub fn connect(&self) -> Mc {
        Mc::over(self.stream())
    }

    /// A client of Redis's protocol.
    pub fn redis(&self) -> Client {
        match self {
            Cache::Ours(server) => server.client(),
            Cache::Oracle { .. } => panic!("memcached does not speak it"),
        }
    }

    pub fn is_ours(&self) -> bool {
        matches!(self, Cache::Ours(_))
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        if let Cache::Oracle { child, .. } = self {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A connection.
pub struct Mc {
    stream: BufReader<UnixStream>,
}

impl Mc {
    pub fn over(stream: UnixStream) -> Mc {
        stream.set_read_timeout(Some(PATIENCE)).expect("a read timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("a write timeout");
        Mc { stream: BufReader::new(stream) }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).expect("the server reads");
    }

    /// For what is sent while another thread reads.
    pub fn writer(&self) -> UnixStream {
        self.stream.get_ref().try_clone().expect("a second descriptor")
    }

    /// Up to the end of a line.
    pub fn line(&mut self) -> String {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let bytes = self.stream.read_until(b'\n', &mut line).expect("the server answers");
            assert!(bytes > 0, "the server has closed, after {:?}", String::from_utf8_lossy(&line));
        }
        String::from_utf8_lossy(&line).trim_end().to_owned()
    }

    /// Sends and expects; line ends are added to both, `|` stands for one between two lines.
    pub fn ask(&mut self, request: &str, expected: &str) {
        self.send(lines(request).as_bytes());
        self.expect(request, expected);
    }

    pub fn expect(&mut self, request: &str, expected: &str) {
        let expected = lines(expected);
        let mut read = Vec::new();
        while read.len() < expected.len() && expected.as_bytes().starts_with(&read) {
            let mut piece = vec![0; (expected.len() - read.len()).min(64 << 10)];
            let bytes = self.stream.read(&mut piece).expect("the server answers");
            assert!(bytes > 0, "the server has closed; to {request:?} it said {:?}", String::from_utf8_lossy(&read));
            read.extend(&piece[..bytes]);
        }
        assert_eq!(String::from_utf8_lossy(&read), expected, "to {request:?}");
    }

    pub fn expect_closed(&mut self) {
        let mut rest = Vec::new();
        // A reset is an end as well.
        let _ = self.stream.read_to_end(&mut rest);
        assert_eq!(String::from_utf8_lossy(&rest), "", "nothing comes before the end");
    }
}

fn lines(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("{}\r\n", text.replace('|', "\r\n")) }
}

/// Runs questions and answers on ours and, if it is there, on memcached.
fn both(script: &[(&str, &str)]) {
    both_with(&[], script);
}

fn both_with(arguments: &[&str], script: &[(&str, &str)]) {
    for cache in [Some(Cache::ours(&[])), Cache::oracle(arguments)].into_iter().flatten() {
        let mut c = cache.connect();
        for (request, expected) in script {
            c.ask(request, expected);
        }
        // Nothing more was said than was expected.
        c.ask("mn", "MN");
    }
}

#[test]
fn storing_and_reading() {
    both(&[
        ("get a", "END"),
        ("set a 0 0 3|abc", "STORED"),
        ("get a", "VALUE a 0 3|abc|END"),
        ("set a 4294967295 0 0|", "STORED"),
        ("get a", "VALUE a 4294967295 0||END"),
        ("add a 0 0 1|x", "NOT_STORED"),
        ("add b 7 0 1|x", "STORED"),
        ("replace b 8 0 2|yz", "STORED"),
        ("replace c 8 0 2|yz", "NOT_STORED"),
        ("append b 1 0 2|AA", "STORED"),
        ("prepend b 1 0 2|PP", "STORED"),
        ("append c 1 0 2|AA", "NOT_STORED"),
        ("prepend c 1 0 2|AA", "NOT_STORED"),
        ("get a b c b", "VALUE a 4294967295 0||VALUE b 8 6|PPyzAA|VALUE b 8 6|PPyzAA|END"),
        ("delete a", "DELETED"),
        ("delete a", "NOT_FOUND"),
        ("set q 0 0 1 noreply|q|get q", "VALUE q 0 1|q|END"),
        ("delete q noreply|add q 0 0 1 noreply|1|incr q 5 noreply|touch q 100 noreply|get q", "VALUE q 0 1|6|END"),
        ("append q 0 0 1 noreply|7|prepend q 0 0 1 noreply|5|replace q2 0 0 1 noreply|x|get q", "VALUE q 0 3|567|END"),
    ]);
}

#[test]
fn numbers() {
    both(&[
        ("incr n 1", "NOT_FOUND"),
        ("set n 3 0 2|10", "STORED"),
        ("incr n 5", "15"),
        ("decr n 3", "12"),
        ("decr n 100", "0"),
        ("incr n 18446744073709551615", "18446744073709551615"),
        ("incr n 2", "1"),
        ("incr n -1", "CLIENT_ERROR invalid numeric delta argument"),
        ("incr n x", "CLIENT_ERROR invalid numeric delta argument"),
        ("set s 0 0 3|abc", "STORED"),
        ("incr s 1", "CLIENT_ERROR cannot increment or decrement non-numeric value"),
        ("set e 0 0 0|", "STORED"),
        ("incr e 1", "CLIENT_ERROR cannot increment or decrement non-numeric value"),
        ("set m 0 0 2|-5", "STORED"),
        ("incr m 1", "CLIENT_ERROR cannot increment or decrement non-numeric value"),
    ]);
    // The flags stay, and a number that loses a digit has no space behind it.
    let cache = Cache::ours(&[]);
    let mut c = cache.connect();
    c.ask("set n 3 0 2|10", "STORED");
    c.ask("decr n 1", "9");
    c.ask("get n", "VALUE n 3 1|9|END");
}

#[test]
fn comparing_and_setting() {
    for cache in [Some(Cache::ours(&[])), Cache::oracle(&[])].into_iter().flatten() {
        let (mut a, mut b) = (cache.connect(), cache.connect());
        a.ask("cas k 0 0 1 5|x", "NOT_FOUND");
        a.ask("set k 2 0 1|x", "STORED");
        let cas = |c: &mut Mc| {
            c.send(b"gets k\r\n");
            let line = c.line();
            let cas = line.split(' ').nth(4).expect("a number").parse::<u64>().expect("a number");
            c.line();
            assert_eq!(c.line(), "END");
            cas
        };
        let first = cas(&mut a);
        assert_eq!(cas(&mut b), first);
        b.ask(&format!("cas k 3 0 1 {first}|y"), "STORED");
        a.ask(&format!("cas k 4 0 1 {first}|z"), "EXISTS");
        let second = cas(&mut a);
        assert_ne!(first, second);
        for change in ["set k 0 0 1|1", "incr k 1", "append k 0 0 1|0", "prepend k 0 0 1|1", "replace k 0 0 1|7"] {
            let before = cas(&mut a);
            a.send(lines(change).as_bytes());
            a.line();
            a.ask(&format!("cas k 0 0 1 {before}|9"), "EXISTS");
        }
        let last = cas(&mut a);
        a.ask("touch k 1000", "TOUCHED");
        assert_eq!(cas(&mut a), last, "a time to live is no change of the value");
        a.ask("get k", "VALUE k 0 1|7|END");
        a.ask("cas k 0 0 1|9", "ERROR|ERROR");
        a.ask("cas k 0 0 1 0|9", "EXISTS");
        a.ask(&format!("cas k 0 0 1 {last} noreply|8|get k"), "VALUE k 0 1|8|END");
    }
}

#[test]
fn times_to_live() {
    both(&[
        ("set past 0 -1 1|x", "STORED"),
        ("get past", "END"),
        ("set k 0 1000 1|x", "STORED"),
        ("mg k t", "HD t1000"),
        ("touch k 0", "TOUCHED"),
        ("mg k t", "HD t-1"),
        ("touch nothing 5", "NOT_FOUND"),
        ("gat 500 k nothing k", "VALUE k 0 1|x|VALUE k 0 1|x|END"),
        ("mg k t", "HD t500"),
        ("gat -1 k", "VALUE k 0 1|x|END"),
        ("get k", "END"),
        // Up to 30 days it is from now on, beyond that a Unix time: that one has passed.
        ("set k 0 2592000 1|x", "STORED"),
        ("mg k t", "HD t2592000"),
        ("set k 0 2592001 1|x", "STORED"),
        ("get k", "END"),
        ("set k 0 1 1|x", "STORED"),
        ("touch k x", "CLIENT_ERROR invalid exptime argument"),
        ("gat x k", "CLIENT_ERROR invalid exptime argument"),
    ]);
    let cache = Cache::ours(&[]);
    let mut c = cache.connect();
    // Beyond 2038, which memcached of 2022 refuses.
    c.ask("set k 0 4000000000 1|x", "STORED");
    let Cache::Ours(server) = &cache else { unreachable!("it is ours") };
    server.client().expect("EXPIRETIME k", ":4000000000");
    c.ask("set soon 0 1 1|x", "STORED");
    eventually("the key expires", || {
        c.send(b"mg soon\r\n");
        c.line() == "EN"
    });
}

#[test]
fn errors_of_form() {
    let long = "k".repeat(251);
    both(&[
        ("nothing", "ERROR"),
        ("", ""),
        ("get", "ERROR"),
        ("set k 0 0", "ERROR"),
        ("set k 0 0 -1", "CLIENT_ERROR bad command line format"),
        ("incr k", "ERROR"),
        ("delete k 1", "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]"),
        ("delete k 0", "NOT_FOUND"),
        (&format!("get {long}"), "CLIENT_ERROR bad command line format"),
        ("set ok 0 0 1|1", "STORED"),
        (&format!("get ok {long} ok"), "CLIENT_ERROR bad command line format"),
        (&format!("delete {long}"), "CLIENT_ERROR bad command line format"),
        (&format!("incr {long} 1"), "CLIENT_ERROR bad command line format"),
        (&format!("set {} 0 0 1|x", &long[1..]), "STORED"),
        (&format!("get {}", &long[1..]), &format!("VALUE {} 0 1|x|END", &long[1..])),
        ("set k 0 0 3|abcd", "CLIENT_ERROR bad data chunk|ERROR"),
        ("verbosity 1", "OK"),
        ("verbosity x", "CLIENT_ERROR bad command line format"),
        ("verbosity", "ERROR"),
        ("shutdown", "ERROR: shutdown not enabled"),
        ("flush_all x", "CLIENT_ERROR invalid exptime argument"),
        ("flush_all 1 2 3", "ERROR"),
        ("stats nothing", "ERROR"),
    ]);
    // memcached takes the value for a request then.
    let cache = Cache::ours(&[]);
    let mut c = cache.connect();
    c.ask(&format!("set {long} 0 0 9|flush_all|get k"), "CLIENT_ERROR bad command line format|END");
    c.ask("set k x 0 9|flush_all|get k", "CLIENT_ERROR bad command line format|END");
    // In pieces, and without an answer that would tell.
    for request in ["set k x 0 3000 noreply", "set k 0 0 2000000 noreply"] {
        let bytes = request.split(' ').nth(4).and_then(|word| word.parse().ok()).expect("a length");
        c.ask("set k 0 0 1|x", "STORED");
        let value = "flush_all\r\nset k 0 0 1\r\ny\r\n".repeat(bytes / 27 + 1);
        c.send(format!("{request}\r\n").as_bytes());
        for piece in [&value.as_bytes()[..bytes], b"\r\n"].concat().chunks(1500).take(2000) {
            c.send(piece);
        }
        c.ask("get k", if bytes == 3000 { "VALUE k 0 1|x|END" } else { "END" });
    }
    let mut c = cache.connect();
    c.send(b"GET / HTTP/1.1\r\nset k 0 0 1\r\nx\r\n");
    c.expect_closed();
    let mut c = cache.connect();
    c.send(&[b'x'; 5000]);
    assert_eq!(c.line(), "CLIENT_ERROR line too long");
    c.expect_closed();
    let mut c = cache.connect();
    c.ask("version", "VERSION 1.6.18");
    c.send(b"quit\r\n");
    c.expect_closed();
}

/// Row 53 of the collection of bug reports, mc#1069: what is too large is swallowed, and what it would have replaced is gone.
#[test]
fn what_is_too_large() {
    for cache in [Some(Cache::ours(&[])), Cache::oracle(&[])].into_iter().flatten() {
        let mut c = cache.connect();
        let big = "x".repeat(2 << 20);
        for (verb, left) in [("set", "END"), ("replace", "VALUE big 0 1|x|END")] {
            c.ask("set big 0 0 1|x", "STORED");
            c.send(format!("{verb} big 0 0 {}\r\n{big}\r\n", big.len()).as_bytes());
            c.expect(verb, "SERVER_ERROR object too large for cache");
            c.ask("version", &format!("VERSION {}", c_version(&cache)));
            c.ask("get big", left);
        }
        c.send(format!("ms big {}\r\n{big}\r\n", big.len()).as_bytes());
        c.expect("ms", "SERVER_ERROR object too large for cache");
        c.ask("get big", "END");
    }
    let cache = Cache::ours(&["--memcached-max-item-size", "2kb"]);
    let mut c = cache.connect();
    c.ask(&format!("set k 0 0 1990|{}", "x".repeat(1990)), "SERVER_ERROR object too large for cache");
    c.ask(&format!("set k 0 0 1980|{}", "x".repeat(1980)), "STORED");
    c.ask(&format!("append k 0 0 100|{}", "x".repeat(100)), "NOT_STORED");
}

fn c_version(cache: &Cache) -> String {
    let mut c = cache.connect();
    c.send(b"version\r\n");
    c.line().split(' ').nth(1).expect("a version").to_owned()
}

/// Row 57, mc#849: one line of ten thousand keys.
#[test]
fn a_line_of_ten_thousand_keys() {
    for cache in [Some(Cache::ours(&[])), Cache::oracle(&[])].into_iter().flatten() {
        let mut c = cache.connect();
        let (mut stores, mut line, mut expected) = (String::new(), "get".to_string(), String::new());
        for n in 0..10_000 {
            stores.push_str(&format!("set key:{n} 0 0 {} noreply\r\n{n}\r\n", n.to_string().len()));
            line.push_str(&format!(" key:{n} none:{n}"));
            expected.push_str(&format!("VALUE key:{n} 0 {}|{n}|", n.to_string().len()));
        }
        c.send(stores.as_bytes());
        c.ask("mn", "MN");
        c.ask(&line, &format!("{expected}END"));
    }
}

#[test]
fn large_values() {
    for cache in [Some(Cache::ours(&[])), Cache::oracle(&[])].into_iter().flatten() {
        let mut c = cache.connect();
        let text = |seed: usize, len: usize| -> String {
            (0..len).map(|i| char::from(b'a' + u8::try_from((seed + i) % 26).expect("a letter"))).collect()
        };
        for len in [1000, 16_300, 16_384, 16_385, 20_000, 70_000, 300_000, 1_000_000] {
            let value = text(len, len);
            c.ask(&format!("set k 9 0 {len}|{value}|get k"), &format!("STORED|VALUE k 9 {len}|{value}|END"));
        }
        // Parts of every size at either end.
        for part in [3, 30_000, 200_000, 300_000] {
            c.ask(&format!("set k 9 0 5|start|append k 0 0 {part}|{}", text(1, part)), "STORED|STORED");
            c.ask(&format!("prepend k 0 0 {part}|{}", text(2, part)), "STORED");
            c.ask("append k 0 0 3|end|prepend k 0 0 3|beg", "STORED|STORED");
            let whole = format!("beg{}start{}end", text(2, part), text(1, part));
            c.ask("get k", &format!("VALUE k 9 {}|{whole}|END", whole.len()));
        }
        // The value's line end is wrong, or its request is.
        let value = text(0, 100_000);
        c.ask(&format!("set k 0 0 100000|{value}xget k"), "CLIENT_ERROR bad data chunk|ERROR");
        c.ask(&format!("set k 0 0 100000 noreply|{value}|get nothing"), "END");
        c.ask(&format!("add k 0 0 100000|{value}"), "NOT_STORED");
        c.ask(&format!("cas nothing 0 0 100000 5|{value}"), "NOT_FOUND");
        c.ask(&format!("ms k 100000 T100 c|{value}").replace(" c|", "|"), "HD");
        c.ask("mg k v", &format!("VA 100000|{value}"));
        c.ask(&format!("set k 0 -1 100000|{value}|get k"), "STORED|END");
    }
}

#[test]
fn a_large_value_behind_what_waits() {
    // `flush_all` asks the other workers; what follows it is in the window already.
    let cache = Cache::ours(&["--workers", "2"]);
    let mut c = cache.connect();
    for len in [17_000, 43_000, 300_000] {
        let value = "v".repeat(len);
        c.ask(&format!("flush_all|set k 0 0 {len}|{value}|get k"), &format!("OK|STORED|VALUE k 0 {len}|{value}|END"));
    }
}

/// What is gone at once was stored nevertheless, under a number of its own.
#[test]
fn numbers_of_what_is_gone_at_once() {
    for cache in [Some(Cache::ours(&["--workers", "2"])), Cache::oracle(&[])].into_iter().flatten() {
        let mut c = cache.connect();
        let mut seen = Vec::new();
        for request in ["ms k 1 T-1 c|v", "ms k 1 ME T-1 c|v", "ms k 1 c|v", "ms k 1 MR T-1 c|v", "ms k 1 ME c|v"] {
            c.send(lines(request).as_bytes());
            let line = c.line();
            let number: u64 = line.strip_prefix("HD c").and_then(|number| number.parse().ok()).expect(&line);
            assert!(number > 0 && !seen.contains(&number), "{request}: {number} after {seen:?}");
            seen.push(number);
        }
    }
}

/// The window that ends a cut line holds the beginning of its value, or all of it and more.
#[test]
fn a_large_value_behind_a_line_in_pieces() {
    for cache in [Some(Cache::ours(&["--workers", "2"])), Cache::oracle(&[])].into_iter().flatten() {
        let mut c = cache.connect();
        for len in [16_300, 16_500, 17_000, 60_000, 300_000] {
            let value = "v".repeat(len);
            for line in [format!("set k 0 0 {len}"), format!("ms k {len} F0")] {
                let stored = if line.starts_with("set") { "STORED" } else { "HD" };
                for cut in [1, 5, line.len(), line.len() + 1] {
                    let stream = lines(&format!("{line}|{value}|get k|mn"));
                    // Answered before the rest comes: so the server has read just that.
                    c.send(format!("mn\r\n{}", &stream[..cut]).as_bytes());
                    c.expect("mn", "MN");
                    c.send(&stream.as_bytes()[cut..]);
                    c.expect(&format!("{line}, cut at {cut}"), &format!("{stored}|VALUE k 0 {len}|{value}|END|MN"));
                }
            }
        }
    }
}

#[test]
fn requests_in_pieces() {
    let cache = Cache::ours(&[]);
    let stream = lines(
        "set a 5 0 10|0123456789|get a b  a|gets nothing|gat 100 a b a|add a 0 0 3|abc|ms m 4 F7 T50|meta|mg m v f t k|incr a 1|decr z 1|mn",
    );
    let expected = lines(
        "STORED|VALUE a 5 10|0123456789|VALUE a 5 10|0123456789|END|END|VALUE a 5 10|0123456789|VALUE a 5 10|0123456789|END|NOT_STORED|HD|\
         VA 4 f7 t50 km|meta|123456790|NOT_FOUND|MN",
    );
    for step in [1, 2, 3, 7, 20, 64] {
        let mut c = cache.connect();
        c.ask("flush_all", "OK");
        for piece in stream.as_bytes().chunks(step) {
            c.send(piece);
        }
        c.expect("pieces", expected.trim_end_matches("\r\n").replace("\r\n", "|").as_str());
    }
}

/// Row 59, mc#906 and mc#851, and what the documentation says of stale values.
#[test]
fn meta_stampede_protection() {
    both(&[
        ("mg miss", "EN"),
        ("mg v N30 v t", "VA 0 t30 W|"),
        ("mg v N30 v t", "VA 0 t30 Z|"),
        ("mg v2 t N30 t", "CLIENT_ERROR duplicate flag"),
        ("mg v2 t N30", "HD t-1 W"),
        ("mg v2 t", "HD t30 Z"),
        ("ms v 5 T100|value", "HD"),
        ("mg v v N30", "VA 5|value"),
        ("mg v t R99", "HD t100"),
        ("mg v t R101", "HD t100 W"),
        ("mg v t R101", "HD t100 Z"),
        ("mg v t R50", "HD t100 Z"),
        ("ms st 3|old", "HD"),
        ("md st I T30", "HD"),
        ("mg st v t", "VA 3 t30 X W|old"),
        ("mg st v", "VA 3 Z X|old"),
        ("ms st 3|new", "HD"),
        ("mg st v", "VA 3|new"),
        ("mg miss q|mn", "MN"),
        ("md miss q|mn", "NF|MN"),
        ("md st q|mn", "MN"),
    ]);
    // A late writer may store what is out of date from the beginning.
    for cache in [Some(Cache::ours(&[])), Cache::oracle(&[])].into_iter().flatten() {
        let mut c = cache.connect();
        c.ask("ms k 1 T90|1", "HD");
        c.send(b"mg k c\r\n");
        let cas = c.line().strip_prefix("HD c").expect("a number").to_owned();
        c.ask("md k I", "HD");
        c.ask(&format!("ms k 1 C{cas}|2"), "EX");
        c.ask(&format!("ms k 1 C{cas} I T5|3"), "HD");
        c.ask("mg k v t", "VA 1 t90 X W|3");
        c.ask("md k C1", "EX");
        c.ask("ms nothing 1 C5|x", "NF");
    }
}

#[test]
fn meta_flags() {
    both(&[
        ("ms k 2 F5 T100|hi", "HD"),
        ("mg k s v f t h l k Oopaque", "VA 2 s2 f5 t100 h0 l0 kk Oopaque|hi"),
        ("mg k h", "HD h1"),
        ("mg k u h", "HD h1"),
        ("ms k 2|hi", "HD"),
        ("mg k u h", "HD h0"),
        ("mg k h u", "HD h0"),
        ("mg k T-1 v", "VA 2|hi"),
        ("mg k", "EN"),
        ("mg none k Oabc", "EN knone Oabc"),
        ("ms k 2 ME|hi", "HD"),
        ("ms k 2 ME k O1|hi", "NS kk O1"),
        ("ms k 2 MA|AA", "HD"),
        ("ms k 2 MP|PP", "HD"),
        ("ms none 2 MA|AA", "NS"),
        ("ms none 2 MR|AA", "NS"),
        ("ms k 2 MR F3|RR", "HD"),
        ("mg k v f", "VA 2 f3|RR"),
        ("ms k 2 q|qq|mg k v q", "VA 2|qq"),
        ("ms k 2 MX|xx", "CLIENT_ERROR invalid mode for ms M token"),
        ("mg k v v", "CLIENT_ERROR duplicate flag"),
        ("mg k !", "CLIENT_ERROR invalid flag"),
        ("md k !", "CLIENT_ERROR invalid or duplicate flag"),
        ("mg", "ERROR"),
        ("ms", "ERROR"),
        ("ms k", "CLIENT_ERROR bad command line format"),
        ("me none", "EN"),
        ("ma n", "NF"),
        ("ma n N0 J10 v", "VA 2|10"),
        ("ma n D5 v t", "VA 2 t-1|15"),
        ("ma n MD D100", "HD"),
        ("ma n v T90 t", "VA 1 t90|1"),
        ("ma k", "CLIENT_ERROR cannot increment or decrement non-numeric value"),
        ("mg Zm9v b k Ox", "EN kZm9v b Ox"),
        ("ms Zm9v 3 b k|bar", "HD kZm9v b"),
        ("get foo", "VALUE foo 0 3|bar|END"),
        ("mg Zm9v b k v", "VA 3 kZm9v b|bar"),
        ("md Zm9v b", "HD"),
        ("mg !!!! b", "CLIENT_ERROR error decoding key"),
    ]);
    let cache = Cache::ours(&[]);
    let mut c = cache.connect();
    // What memcached learnt after 1.6.18: a number of one's own, an append that makes, a delete of the value alone.
    c.ask("ms k 1 E7 c|x", "HD c7");
    c.ask("mg k c", "HD c7");
    c.ask("ms new 1 MA N60 s|x", "HD s1");
    c.ask("mg new v t", "VA 1 t60|x");
    c.ask("ms k 2 F9|xy", "HD");
    c.ask("md k x", "HD");
    c.ask("mg k v f", "VA 0 f0|");
    c.send(b"me k\r\n");
    let line = c.line();
    assert!(line.starts_with("ME k exp=-1 la=0 cas=") && line.contains("fetch=yes cls=1 size="), "{line}");
}

#[test]
fn flushing() {
    for cache in [Some(Cache::ours(&[])), Cache::oracle(&[])].into_iter().flatten() {
        let mut c = cache.connect();
        c.ask("set k 0 0 1|x|flush_all|get k", "STORED|OK|END");
        c.ask("set k 0 0 1|x|flush_all noreply|get k", "STORED|END");
    }
    // Later (memcached already forgets what was stored in this second). One takes the place of the one before.
    let cache = Cache::ours(&["--workers", "2"]);
    let mut c = cache.connect();
    c.ask("set k 0 0 1|x|flush_all 1|get k", "STORED|OK|VALUE k 0 1|x|END");
    eventually("the keys go later", || {
        c.send(b"mg k\r\n");
        c.line() == "EN"
    });
    c.ask("flush_all 1|flush_all 1000|set k 0 0 1|x|set soon 0 1 1|x", "OK|OK|STORED|STORED");
    eventually("a second goes by", || {
        c.send(b"mg soon\r\n");
        c.line() == "EN"
    });
    c.ask("get k", "VALUE k 0 1|x|END");
    let cache = Cache::ours(&["--memcached-flush-all", "no"]);
    cache.connect().ask("flush_all", "CLIENT_ERROR flush_all not allowed");
}

/// The statistics by name.
fn stats(c: &mut Mc, what: &str) -> std::collections::BTreeMap<String, String> {
    c.send(format!("stats{what}\r\n").as_bytes());
    let mut all = std::collections::BTreeMap::new();
    loop {
        let line = c.line();
        if line == "END" {
            return all;
        }
        let (name, value) = line.strip_prefix("STAT ").and_then(|pair| pair.split_once(' ')).expect("STAT name value");
        all.insert(name.to_owned(), value.to_owned());
    }
}

#[test]
fn statistics() {
    for cache in [Some(Cache::ours(&["--workers", "2"])), Cache::oracle(&["-t", "2"])].into_iter().flatten() {
        let (mut a, mut b) = (cache.connect(), cache.connect());
        a.ask(
            "set k 0 0 1|1|get k none k|incr k 1|decr none 1|touch k 5|touch none 5|delete none",
            "STORED|VALUE k 0 1|1|VALUE k 0 1|1|END|2|NOT_FOUND|TOUCHED|NOT_FOUND|NOT_FOUND",
        );
        b.ask("get none|cas k 0 0 1 1|x|cas none 0 0 1 1|x", "END|EXISTS|NOT_FOUND");
        let all = stats(&mut b, "");
        for (name, value) in [
            ("cmd_get", "4"),
            ("get_hits", "2"),
            ("get_misses", "2"),
            ("incr_hits", "1"),
            ("decr_misses", "1"),
            ("cmd_touch", "2"),
            ("touch_hits", "1"),
            ("touch_misses", "1"),
            ("delete_misses", "1"),
            ("cas_badval", "1"),
            ("cas_misses", "1"),
            ("curr_items", "1"),
            ("pointer_size", "64"),
            ("threads", "2"),
        ] {
            assert_eq!(all.get(name).map(String::as_str), Some(value), "{name}, ours: {}", cache.is_ours());
        }
        for name in [
            "pid",
            "uptime",
            "time",
            "version",
            "rusage_user",
            "curr_connections",
            "bytes",
            "limit_maxbytes",
            "evictions",
            "bytes_read",
        ] {
            assert!(all.contains_key(name), "{name}");
        }
        a.ask("stats reset", "RESET");
        assert_eq!(stats(&mut b, "")["cmd_get"], "0");
        assert_eq!(stats(&mut a, " settings")["item_size_max"], "1048576");
        for what in [" items", " slabs", " sizes", " conns"] {
            stats(&mut a, what);
        }
        a.ask("mn", "MN");
    }
}

#[test]
fn a_password_is_asked_for() {
    let cache = Cache::ours(&["--requirepass", "secret"]);
    let mut c = cache.connect();
    c.ask("get k", "CLIENT_ERROR unauthenticated");
    c.ask("version", "CLIENT_ERROR unauthenticated");
    c.ask("set x 0 0 13|default wrong", "CLIENT_ERROR authentication failure");
    c.ask("set x 0 0 7|default", "CLIENT_ERROR bad authentication token format");
    c.ask("set x 0 0 14|default secret", "STORED");
    c.ask("set k 0 0 1|x|get k", "STORED|VALUE k 0 1|x|END");
    // What is long is not kept for somebody who may not store it.
    let mut c = cache.connect();
    c.ask(&format!("set x 0 0 5000|{}", "x".repeat(5000)), "CLIENT_ERROR unauthenticated");
    c.ask("get x", "CLIENT_ERROR unauthenticated");
}

#[test]
fn the_program_takes_memcacheds_options() {
    let (status, text) = crate::harness::run_to_end(&["memcached", "-h"]);
    assert!(status.success() && text.contains("-m, --memory-limit"), "{text}");
    for (arguments, why) in [
        (&["memcached", "-U", "11211"][..], "there is no UDP"),
        (&["memcached", "-d"], "service manager"),
        (&["memcached", "-p"], "a value is missing"),
        (&["memcached", "--nothing", "1"], "no such option"),
        (&["memcached", "-I", "10"], "must be"),
    ] {
        let (status, text) = crate::harness::run_to_end(arguments);
        assert!(!status.success() && text.contains(why), "{arguments:?}: {text}");
    }
    let port = free_port().to_string();
    let folder = Folder::new();
    let mut child = Command::new(crate::harness::under_test().0)
        .args([
            "memcached",
            "-vp",
            &port,
            "-l127.0.0.1",
            "-U",
            "0",
            "-m",
            "64",
            "-c",
            "100",
            "-t",
            "2",
            "-I",
            "2m",
            "-A",
            "-o",
            "modern",
        ])
        .args(["--hz", "20"])
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the server starts");
    let mut stream = None;
    eventually("it listens", || {
        stream = std::net::TcpStream::connect(format!("127.0.0.1:{port}")).ok();
        stream.is_some()
    });
    let mut stream = stream.expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    stream.write_all(b"stats settings\r\nshutdown\r\n").expect("it reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("it answers and closes");
    for line in ["STAT item_size_max 2097152", "STAT maxconns 100", "STAT num_threads 2", "STAT shutdown_command yes"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(child.wait().expect("it ends").success());
}
