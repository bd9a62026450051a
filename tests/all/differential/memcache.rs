//! The same for the text protocol of memcached, against `memcached`: random pipelines of good and bad lines, in pieces of random length, their
//! replies compared word by word.
//!
//! Numbers of values are given as each server likes, so what counts is that they are the same, or others, at the same time: a program names those
//! that it has seen. Not among the lines is where the two differ on purpose: values behind a bad line are passed over, a number that loses a
//! digit has no space behind it, what was read in base64 is not remembered, a bad line of keys takes no earlier reply back.

use std::collections::HashMap;
use std::io::Write;

use crate::harness::skip;
use crate::hostile::Random;
use crate::memcache::{Cache, Mc};

/// Where a request names a number that was seen: the first, the second, ... of them, modulo how many there were. Behind `OF` stands the key whose
/// number it has to be.
const SEEN: char = '#';
const OF: char = '@';
/// Numbers below it are none that either server gives.
const NUMBERS: usize = 9;

struct Author {
    random: Random,
    /// Of the keys: each program has its own, as memcached forgets by the second.
    prefix: u64,
}

impl Author {
    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.random.below(from.len())]
    }

    fn key(&mut self) -> String {
        if self.random.below(60) == 0 {
            "k".repeat(249 + self.random.below(4))
        } else {
            format!("s{}.{}", self.prefix, self.random.below(6))
        }
    }

    /// One that is not refused: after a bad line of keys memcached forgets what it had to say before.
    fn short_key(&mut self) -> String {
        let mut key = self.key();
        key.truncate(250);
        key
    }

    fn number_key(&mut self) -> String {
        format!("n{}.{}", self.prefix, self.random.below(3))
    }

    fn value(&mut self) -> String {
        let letters = ["v", "wx", "yz0"];
        let short = self.random.below(12);
        let length = if self.random.below(25) == 0 { 15_000 + self.random.below(60_000) } else { short };
        self.pick(&letters).repeat(length)
    }

    fn seconds(&mut self) -> &'static str {
        self.pick(&["0", "0", "0", "1000", "50000", "2592000", "-1", "2592001"])
    }

    fn seen(&mut self) -> String {
        if self.random.below(4) == 0 {
            self.random.below(NUMBERS).to_string()
        } else {
            format!("{SEEN}{}{SEEN}", self.random.below(1000))
        }
    }

    /// `I` asks which of two numbers is later. Ours tells that of one key's only.
    fn seen_of(&mut self, key: &str) -> String {
        if self.random.below(4) == 0 {
            self.random.below(NUMBERS).to_string()
        } else {
            format!("{SEEN}{}{OF}{key}{SEEN}", self.random.below(1000))
        }
    }

    fn noreply(&mut self) -> &'static str {
        if self.random.below(5) == 0 { " noreply" } else { "" }
    }

    fn store(&mut self) -> String {
        let verb = self.pick(&["set", "set", "set", "add", "replace", "append", "prepend", "cas", "cas"]);
        let (key, value) = (self.key(), self.value());
        let key = &key[..key.len().min(250)];
        let flags = self.pick(&["0", "0", "1", "77", "4294967295"]);
        let seconds = self.seconds();
        let cas = if verb == "cas" { format!(" {}", self.seen()) } else { String::new() };
        let noreply = self.noreply();
        format!("{verb} {key} {flags} {seconds} {}{cas}{noreply}\r\n{value}\r\n", value.len())
    }

    fn flags(&mut self, key: &str, letters: &[&str]) -> String {
        let mut flags = String::new();
        let mut left = letters.to_vec();
        for _ in 0..self.random.below(5) {
            let letter = left.swap_remove(self.random.below(left.len()));
            flags.push(' ');
            flags.push_str(letter);
            match letter {
                "T" => flags.push_str(self.seconds()),
                // (None that a time to live may just have reached: memcached's clock ticks by the second, at a time of its own.)
                "R" => flags.push_str(self.pick(&["0", "500", "20000", "2591000", "-1", "2592001"])),
                // (What is made to be gone at once is told with a time beyond 2^32 by memcached.)
                "N" => flags.push_str(self.pick(&["0", "1000", "50000"])),
                "O" => flags.push_str(self.pick(&["", "opaque"])),
                "C" => flags.push_str(&self.seen_of(key)),
                "F" => flags.push_str(self.pick(&["0", "9", "4294967295"])),
                "M" => flags.push_str(self.pick(&["S", "E", "A", "P", "R", "?", ""])),
                _ => {}
            }
        }
        flags
    }

    fn request(&mut self) -> String {
        match self.random.below(16) {
            0..=4 => self.store(),
            5 | 6 => {
                let verb = self.pick(&["get", "gets", "get", "gat 1000", "gats 0", "gat -1"]);
                let keys: String = (0..=self.random.below(4)).map(|_| format!(" {}", self.short_key())).collect();
                format!("{verb}{keys}\r\n")
            }
            7 | 8 => {
                let key = self.key();
                let flags = self.flags(&key, &["v", "s", "f", "t", "c", "k", "q", "u", "O", "T", "N", "R"]);
                format!("mg {key}{flags}\r\n")
            }
            9 | 10 => {
                let (key, value) = (self.short_key(), self.value());
                let flags = self.flags(&key, &["F", "T", "C", "M", "I", "k", "c", "q", "O"]);
                format!("ms {key} {}{flags}\r\n{value}\r\n", value.len())
            }
            11 => {
                let key = self.key();
                format!("md {key}{}\r\n", self.flags(&key, &["C", "I", "T", "k", "q", "O"]))
            }
            12 => format!("delete {}{}\r\n", self.key(), self.noreply()),
            13 => {
                let key = self.number_key();
                match self.random.below(5) {
                    0 => format!("set {key} 3 0 4\r\n{}\r\n", 5000 + self.random.below(4000)),
                    1 => format!("incr {key} {}{}\r\n", self.random.below(3), self.noreply()),
                    2 => format!("decr {key} {}\r\n", self.random.below(3)),
                    3 => format!("ma {key} N0 J7000 D2{}\r\n", self.flags(&key, &["v", "t", "c", "k", "q", "O"])),
                    _ => format!("get {key}\r\n"),
                }
            }
            14 => format!("touch {} {}{}\r\n", self.key(), self.seconds(), self.noreply()),
            _ => self
                .pick(&[
                    "nothing\r\n",
                    "get\r\n",
                    "gets \r\n",
                    "mg\r\n",
                    "ms s1\r\n",
                    "md\r\n",
                    "ma s1 D\r\n",
                    "incr s1\r\n",
                    "incr s1 x\r\n",
                    "incr s1 1\r\n",
                    "touch s1\r\n",
                    "touch s1 x\r\n",
                    "delete\r\n",
                    "delete s1 0\r\n",
                    "delete s1 5\r\n",
                    "verbosity\r\n",
                    "gat x s1\r\n",
                    "cas s1 0 0 1\r\n",
                    "mg s1 v v\r\n",
                    "mg s1 ?\r\n",
                    "md s1 ?\r\n",
                    "ms s1 -1\r\n",
                    "ms s1 2 Tx\r\nab\r\n",
                    "set s1 0 0 -1\r\n",
                    "set s1 0 0 2\r\nabc\n",
                    "flush_all x\r\n",
                    "\r\n",
                ])
                .to_owned(),
        }
    }

    fn program(&mut self) -> Vec<String> {
        (0..10 + self.random.below(40)).map(|_| self.request()).collect()
    }
}

/// The numbers that both have given, in their order.
#[derive(Default)]
struct Numbers {
    seen: Vec<[String; 2]>,
    /// Those that were told together with their key.
    seen_of: HashMap<String, Vec<[String; 2]>>,
    pairs: HashMap<String, String>,
}

impl Numbers {
    /// A request with the numbers of one server in it.
    fn fill(&self, request: &str, server: usize) -> String {
        let parts = request.split(SEEN).enumerate().map(|(i, part)| {
            if i % 2 == 0 {
                return part.to_owned();
            }
            let (at, seen) = match part.split_once(OF) {
                Some((at, key)) => (at, self.seen_of.get(key).map_or(&[][..], Vec::as_slice)),
                None => (part, &self.seen[..]),
            };
            let at: usize = at.parse().expect("a place");
            if seen.is_empty() { "1".to_owned() } else { seen[at % seen.len()][server].clone() }
        });
        parts.collect()
    }

    /// Do two lines say the same?
    fn same(&mut self, ours: &str, oracle: &str) -> bool {
        let (ours, oracle): (Vec<&str>, Vec<&str>) = (ours.split(' ').collect(), oracle.split(' ').collect());
        if ours.len() != oracle.len() {
            return false;
        }
        let told = ours[0] == "VALUE" && ours.len() == 5;
        let key = if told { Some(ours[1]) } else { ours.iter().find_map(|word| word.strip_prefix('k')) };
        ours.iter().zip(&oracle).enumerate().all(|(i, (a, b))| {
            if a == b {
                return true;
            }
            // (memcached tells what is gone at once with a time just below 2^32.)
            let seconds = |word: &str| {
                let seconds = word.strip_prefix('t')?.parse::<i64>().ok()?;
                Some(if seconds > i64::from(u32::MAX / 2) { 0 } else { seconds })
            };
            if let (Some(a), Some(b)) = (seconds(a), seconds(b)) {
                return a.abs_diff(b) <= 2;
            }
            let number = |word: &str| {
                if told && i == 4 { Some(word.to_owned()) } else { word.strip_prefix('c').map(str::to_owned) }
            };
            match (number(a), number(b)) {
                (Some(a), Some(b)) => {
                    let known = self.pairs.entry(a.clone()).or_insert_with(|| b.clone());
                    if let Some(key) = key {
                        self.seen_of.entry(key.to_owned()).or_default().push([a.clone(), b.clone()]);
                    }
                    self.seen.push([a, b.clone()]);
                    *known == b
                }
                _ => false,
            }
        })
    }
}

/// Requests that fit the buffers of a socket, in whatever pieces.
const BUFFERED_BYTES: usize = 4096;

/// All that a server says to some requests. What is long is sent meanwhile, as neither server reads on from a client that takes no replies.
fn answers(c: &mut Mc, requests: &str, piece: usize) -> Vec<String> {
    let requests = format!("{requests}mn\r\n");
    let mut writer = c.writer();
    let mut send = || requests.as_bytes().chunks(piece).for_each(|piece| writer.write_all(piece).expect("it reads"));
    let mut receive = || std::iter::repeat_with(|| c.line()).take_while(|line| line != "MN").collect();
    if requests.len() <= BUFFERED_BYTES {
        send();
        return receive();
    }
    std::thread::scope(|scope| {
        scope.spawn(send);
        receive()
    })
}

#[test]
fn random_programs_like_memcached() {
    let Some(oracle) = Cache::oracle(&[]) else {
        return skip("random_programs_like_memcached", "there is no memcached");
    };
    let server = Cache::ours(&["--workers", "2"]);
    let seed = super::number("DOLMEN_DIFF_SEED").unwrap_or(20_261_130);
    let wanted = usize::try_from(super::number("DOLMEN_DIFF_COMMANDS").unwrap_or(20_000)).expect("a count");
    // memcached counts from 1 on.
    answers(&mut oracle.connect(), &"set s 0 0 1\r\nv\r\n".repeat(NUMBERS), 1 << 20);
    let (mut sent, mut round) = (0, 0);
    while sent < wanted {
        let own = seed.wrapping_add(round);
        let mut author = Author { random: Random(own), prefix: own };
        let (depth, piece) = ([1, 2, 10, 50][author.random.below(4)], [50, 1000, 1 << 20][author.random.below(3)]);
        let program = author.program();
        let mut numbers = Numbers::default();
        let (mut ours, mut theirs) = (server.connect(), oracle.connect());
        for (i, requests) in program.chunks(depth).enumerate() {
            let requests = requests.concat();
            let a = answers(&mut ours, &numbers.fill(&requests, 0), piece);
            let b = answers(&mut theirs, &numbers.fill(&requests, 1), piece);
            let other = a.iter().zip(&b).position(|(a, b)| !numbers.same(a, b));
            let same = a.len() == b.len() && other.is_none();
            let from = other.unwrap_or(0);
            let cut = |text: &str| {
                let lines = text.lines().map(|line| line.chars().take(80).collect::<String>());
                lines.collect::<Vec<_>>().join("\n")
            };
            assert!(
                same,
                "the servers differ (DOLMEN_DIFF_SEED={own}), after these {} requests:\n{}\nby:\n{}\n  ours:      {}\n  memcached: {}",
                i * depth,
                cut(&program[..i * depth].concat()),
                cut(&requests),
                cut(&a[from..].join(" | ")),
                cut(&b[from..].join(" | ")),
            );
        }
        (sent, round) = (sent + program.len(), round + 1);
    }
}
