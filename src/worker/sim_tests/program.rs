//! A client of the random test: makes up requests, foretells their replies from its model, and checks what comes.
//!
//! Databases: 0 is shared (counters, and families of keys that are only ever written, read and deleted as a whole, so that a reply shows
//! whether that was atomic), 1 holds keys that expire while the test runs, and each client has one of its own, where it foretells all.
use super::model::{Checker, Entry, Expect, Keys};
use super::{bulk, request};
use crate::net::sim::{ClientId, Rng};
use crate::proto::errors;
use std::collections::{BTreeSet, VecDeque};

pub(super) const SHARED: u32 = 0;
pub(super) const VOLATILE: u32 = 1;
pub(super) const OWN: u32 = 2;
pub(super) const COUNTERS: usize = 4;

/// A family of shared keys: its name, how many, and the length of their values.
pub(super) struct Family {
    pub(super) name: &'static str,
    pub(super) count: usize,
    value_bytes: usize,
}

/// More arguments than run at once; and replies longer than are copied at once.
pub(super) const FAMILIES: [Family; 2] =
    [Family { name: "flock", count: 1100, value_bytes: 3 }, Family { name: "herd", count: 40, value_bytes: 8_000 }];

impl Family {
    pub(super) fn key(&self, i: usize) -> Vec<u8> {
        format!("{}:{i}", self.name).into_bytes()
    }
}

/// How much a run does, so that a network that moves single bytes ends in time.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    pub(super) value_bytes_max: usize,
    pub(super) requests_max: u64,
    /// Of a thousand requests, so many have very many keys.
    pub(super) many_permille: u32,
}

/// A time that no run reaches.
const FAR_MS: u64 = 4_000_000_000_000;

pub(super) struct Player {
    pub(super) number: u32,
    pub(super) id: ClientId,
    /// The connection was reset: nothing more is known of what was executed.
    pub(super) lost: bool,
    pub(super) keys: Keys,
    pub(super) checker: Checker,
    pub(super) outgoing: Vec<u8>,
    /// Additions to the counters that were sent.
    pub(super) added: [i64; COUNTERS],
    pub(super) requests: u64,
    pub(super) reading: bool,
    /// Connections so far: names of keys that expire are of one connection.
    life: u32,
    database: u32,
    resp3: bool,
    pub(super) expects: VecDeque<(Expect, u64)>,
    received: Vec<u8>,
    /// An incomplete reply is parsed again when so much has come.
    try_at_bytes: usize,
}

impl Player {
    pub(super) fn new(number: u32, id: ClientId) -> Player {
        Player {
            number,
            id,
            lost: false,
            keys: Keys::new(),
            checker: Checker::default(),
            outgoing: Vec::new(),
            added: [0; COUNTERS],
            requests: 0,
            reading: true,
            life: 0,
            database: 0,
            resp3: false,
            expects: VecDeque::new(),
            received: Vec::new(),
            try_at_bytes: 0,
        }
    }

    pub(super) fn own(&self) -> u32 {
        OWN + self.number
    }

    /// After a reset: a new connection, which knows nothing, over an empty database.
    pub(super) fn begin_again(&mut self, id: ClientId, now_ms: u64) {
        self.id = id;
        (self.lost, self.reading, self.database, self.resp3) = (false, true, 0, false);
        self.life += 1;
        self.keys.clear();
        self.checker.volatile.clear();
        self.expects.clear();
        self.outgoing.clear();
        self.received.clear();
        self.select(self.own(), now_ms);
        self.ask(&[b"FLUSHDB"], ok(), now_ms);
    }

    /// All requests are sent, all replies have come.
    pub(super) fn is_content(&self) -> bool {
        self.lost || (self.outgoing.is_empty() && self.expects.is_empty())
    }

    pub(super) fn replies_due(&self) -> usize {
        self.expects.len()
    }

    /// Checks the replies that have come. `impatient`: looks at an incomplete one, too.
    pub(super) fn receive(&mut self, bytes: &[u8], now_ms: u64, impatient: bool) -> Result<(), String> {
        self.received.extend_from_slice(bytes);
        let mut at = 0;
        while let Some((expect, begun_ms)) = self.expects.front() {
            let rest = &self.received[at..];
            if !matches!(expect, Expect::Bytes(_)) && rest.len() < self.try_at_bytes && !impatient {
                break;
            }
            let taken = self
                .checker
                .check(expect, rest, *begun_ms, now_ms)
                .map_err(|e| format!("client {}, {} replies before the last: {e}", self.number, self.expects.len()))?;
            if taken == 0 {
                self.try_at_bytes = rest.len() + rest.len() / 4 + 1;
                break;
            }
            self.try_at_bytes = 0;
            at += taken;
            self.expects.pop_front();
        }
        self.received.drain(..at);
        if self.expects.is_empty() && !self.received.is_empty() {
            let what = String::from_utf8_lossy(&self.received[..self.received.len().min(80)]).into_owned();
            return Err(format!("client {} got what it did not ask for: {what:?}", self.number));
        }
        Ok(())
    }

    pub(super) fn ask(&mut self, args: &[&[u8]], expect: Expect, now_ms: u64) {
        self.outgoing.extend_from_slice(&request(args));
        self.expects.push_back((expect, now_ms));
        self.requests += 1;
    }

    fn inline(&mut self, line: &str, expect: Expect, now_ms: u64) {
        self.outgoing.extend_from_slice(line.as_bytes());
        self.expects.push_back((expect, now_ms));
        self.requests += 1;
    }

    fn select(&mut self, database: u32, now_ms: u64) {
        if self.database != database {
            self.database = database;
            self.ask(&[b"SELECT", database.to_string().as_bytes()], ok(), now_ms);
        }
    }

    fn null(&self) -> Vec<u8> {
        if self.resp3 { b"_\r\n".to_vec() } else { b"$-1\r\n".to_vec() }
    }

    pub(super) fn value_reply(&self, entry: Option<&Entry>) -> Vec<u8> {
        entry.map_or_else(|| self.null(), |entry| bulk(&entry.value))
    }

    /// Makes up a pipeline.
    pub(super) fn make_up(&mut self, rng: &mut Rng, sizes: Sizes, now_ms: u64, keyless: bool) {
        let mut count = 1 + rng.below(sizes.requests_max);
        if keyless {
            for i in 0..count {
                let text = i.to_string();
                self.ask(&[b"ECHO", text.as_bytes()], Expect::Bytes(bulk(text.as_bytes())), now_ms);
            }
            return;
        }
        while count > 0 {
            let database = [SHARED, VOLATILE, self.own(), self.own()][pick(rng, 4)];
            self.select(database, now_ms);
            let run = count.min(1 + rng.below(12));
            count -= run;
            if database != VOLATILE && rng.permille(if database == SHARED { 250 } else { 60 }) {
                self.transaction(rng, sizes, database == SHARED, now_ms);
                continue;
            }
            for _ in 0..run {
                match database {
                    SHARED => self.shared(rng, sizes, now_ms),
                    VOLATILE => self.volatile(rng, now_ms),
                    _ if rng.permille(sizes.many_permille) => self.many(rng, now_ms),
                    _ => self.one(rng, sizes, now_ms),
                }
            }
        }
    }

    /// FLUSHALL between requests about its own keys.
    pub(super) fn flush_all(&mut self, rng: &mut Rng, sizes: Sizes, now_ms: u64) {
        self.select(self.own(), now_ms);
        (0..5).for_each(|_| self.one(rng, sizes, now_ms));
        let words: [&[u8]; 2] = [b"FLUSHALL", [&b""[..], b"ASYNC", b"sync"][pick(rng, 3)]];
        self.ask(&words[..if words[1].is_empty() { 1 } else { 2 }], ok(), now_ms);
        self.keys.clear();
        (0..5).for_each(|_| self.one(rng, sizes, now_ms));
        self.ask(&[b"DBSIZE"], int(self.keys.len()), now_ms);
    }

    fn shared(&mut self, rng: &mut Rng, sizes: Sizes, now_ms: u64) {
        let counter = pick(rng, COUNTERS);
        let name = format!("counter:{counter}");
        if !rng.permille(sizes.many_permille * 4) {
            self.added[counter] += 1;
            let words: &[&[u8]] = &[b"INCRBY", name.as_bytes(), b"1"];
            return if rng.permille(700) {
                self.ask(&[b"INCR", name.as_bytes()], Expect::Counter(counter), now_ms);
            } else {
                self.ask(words, Expect::Counter(counter), now_ms);
            };
        }
        let family = &FAMILIES[pick(rng, FAMILIES.len())];
        let names: Vec<Vec<u8>> = (0..family.count).map(|i| family.key(i)).collect();
        match rng.below(8) {
            0..3 => {
                let value = vec![b'a' + u8::try_from(rng.below(26)).unwrap(); family.value_bytes];
                let mut words: Vec<&[u8]> = vec![b"MSET"];
                names.iter().for_each(|name| words.extend([&name[..], &value]));
                self.ask(&words, ok(), now_ms);
            }
            3 => {
                let command: &[u8] = [&b"DEL"[..], b"UNLINK"][pick(rng, 2)];
                let words: Vec<&[u8]> = std::iter::once(command).chain(names.iter().map(|n| &n[..])).collect();
                self.ask(&words, Expect::AllOrNone(family.count), now_ms);
            }
            4 => {
                let words: Vec<&[u8]> = std::iter::once(&b"EXISTS"[..]).chain(names.iter().map(|n| &n[..])).collect();
                self.ask(&words, Expect::AllOrNone(family.count), now_ms);
            }
            kind => {
                let count = if kind < 7 { family.count } else { 9 };
                let first = pick(rng, family.count - count + 1);
                let words: Vec<&[u8]> =
                    std::iter::once(&b"MGET"[..]).chain(names[first..first + count].iter().map(|n| &n[..])).collect();
                self.ask(&words, Expect::Uniform { count, value_bytes: family.value_bytes }, now_ms);
            }
        }
    }

    fn volatile(&mut self, rng: &mut Rng, now_ms: u64) {
        let key = format!("brief:{}:{}:{}", self.number, self.life, rng.below(12)).into_bytes();
        let ttl_ms = 1 + rng.below(400);
        let value = format!("v{}", rng.below(1 << 30)).into_bytes();
        let ms = ttl_ms.to_string().into_bytes();
        match rng.below(6) {
            0 => self.ask(
                &[b"SET", &key, &value, b"PX", &ms],
                Expect::VolatileSet { key: key.clone(), value: value.clone(), ttl_ms },
                now_ms,
            ),
            1 => self.ask(
                &[b"PSETEX", &key, &ms, &value],
                Expect::VolatileSet { key: key.clone(), value: value.clone(), ttl_ms },
                now_ms,
            ),
            2 => self.ask(
                &[b"setex", &key, b"1", &value],
                Expect::VolatileSet { key: key.clone(), value: value.clone(), ttl_ms: 1000 },
                now_ms,
            ),
            3 => self.ask(&[b"PEXPIRE", &key, &ms], Expect::VolatileExpire { key: key.clone(), ttl_ms }, now_ms),
            _ => self.ask(&[b"GET", &key], Expect::VolatileGet(key.clone()), now_ms),
        }
    }

    pub(super) fn key(&self, rng: &mut Rng) -> Vec<u8> {
        let mut key = format!("own:{}:{}", self.number, rng.below(40)).into_bytes();
        if rng.permille(30) {
            key.resize(400, b'k');
        }
        key
    }

    fn some_value(&self, rng: &mut Rng, sizes: Sizes) -> Vec<u8> {
        if rng.permille(200) {
            return (rng.below(2000).cast_signed() - 1000).to_string().into_bytes();
        }
        let len = match rng.below(100) {
            0..70 => pick(rng, 40),
            70..90 => pick(rng, 2_000),
            90..96 => 15_000 + pick(rng, 5_000),
            96..98 => pick(rng, 70_000),
            _ => 300 << 10,
        };
        let (mut value, mut word) = (Vec::new(), rng.next_u64());
        value.resize_with(len.min(sizes.value_bytes_max), || {
            word = word.rotate_left(7).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            word.to_le_bytes()[7]
        });
        value
    }

    /// A request of very many keys of its own.
    fn many(&mut self, rng: &mut Rng, now_ms: u64) {
        let count = 1100 + pick(rng, 400);
        let names: Vec<Vec<u8>> = (0..count)
            .map(|i| format!("own:{}:{}{i}", self.number, if i % 3 == 0 { "" } else { "m" }).into_bytes())
            .collect();
        let words = |command: &'static [u8]| -> Vec<&[u8]> {
            std::iter::once(command).chain(names.iter().map(|n| &n[..])).collect()
        };
        match rng.below(5) {
            0 | 1 => {
                let value = rng.below(1 << 40).to_string().into_bytes();
                let mut words: Vec<&[u8]> = vec![b"MSET"];
                for name in &names {
                    words.extend([&name[..], &value]);
                    self.keys.insert(name.clone(), Entry { value: value.clone(), deadline_ms: None });
                }
                self.ask(&words, ok(), now_ms);
            }
            2 => {
                let removed = names.iter().filter(|name| self.keys.remove(*name).is_some()).count();
                self.ask(&words(b"DEL"), int(removed), now_ms);
            }
            3 => {
                let there = names.iter().filter(|name| self.keys.contains_key(*name)).count();
                self.ask(&words(b"EXISTS"), int(there), now_ms);
            }
            _ => {
                let mut reply = format!("*{count}\r\n").into_bytes();
                names.iter().for_each(|name| reply.extend(self.value_reply(self.keys.get(name))));
                self.ask(&words(b"MGET"), Expect::Bytes(reply), now_ms);
            }
        }
    }

    fn with_prefix(&self, prefix: &[u8]) -> BTreeSet<Vec<u8>> {
        self.keys.keys().filter(|key| key.starts_with(prefix)).cloned().collect()
    }

    /// A request about its own keys, or about none.
    #[expect(clippy::too_many_lines, reason = "a list of commands")]
    fn one(&mut self, rng: &mut Rng, sizes: Sizes, now_ms: u64) {
        let key = self.key(rng);
        let old = self.keys.get(&key).cloned();
        let k: &[u8] = &key;
        match rng.below(40) {
            0..6 => self.ask(&[b"GET", k], Expect::Bytes(self.value_reply(old.as_ref())), now_ms),
            6..14 => self.set(rng, sizes, key, old, now_ms),
            14 => {
                let value = self.some_value(rng, sizes);
                self.ask(&[b"SETNX", k, &value], int(usize::from(old.is_none())), now_ms);
                self.keys.entry(key).or_insert(Entry { value, deadline_ms: None });
            }
            15 => {
                let value = self.some_value(rng, sizes);
                self.ask(&[b"getset", k, &value], Expect::Bytes(self.value_reply(old.as_ref())), now_ms);
                self.keys.insert(key, Entry { value, deadline_ms: None });
            }
            16 => {
                self.ask(&[b"GETDEL", k], Expect::Bytes(self.value_reply(old.as_ref())), now_ms);
                self.keys.remove(&key);
            }
            17 => self.ask(&[b"STRLEN", k], int(old.map_or(0, |e| e.value.len())), now_ms),
            18 | 19 => {
                let more = self.some_value(rng, sizes);
                let entry = self.keys.entry(key.clone()).or_insert(Entry { value: Vec::new(), deadline_ms: None });
                entry.value.extend_from_slice(&more);
                let len = entry.value.len();
                if len > 1 << 20 {
                    // Enough of this one.
                    entry.value.truncate(len - more.len());
                    self.ask(&[b"STRLEN", k], int(len - more.len()), now_ms);
                } else {
                    self.ask(&[b"APPEND", k, &more], int(len), now_ms);
                }
            }
            20..24 => self.add(rng, key, old, now_ms),
            24 => {
                self.keys.remove(&key);
                self.ask(&[b"DEL", k], int(usize::from(old.is_some())), now_ms);
            }
            25 => self.ask(
                &[b"TYPE", k],
                Expect::Bytes(if old.is_some() { &b"+string\r\n"[..] } else { b"+none\r\n" }.to_vec()),
                now_ms,
            ),
            26..29 => self.deadline(rng, key, old, now_ms),
            29 => {
                let had = old.as_ref().is_some_and(|e| e.deadline_ms.is_some());
                if let Some(entry) = self.keys.get_mut(&key) {
                    entry.deadline_ms = None;
                }
                self.ask(&[b"PERSIST", k], int(usize::from(had)), now_ms);
            }
            30 => {
                let other = self.key(rng);
                let (a, b) = (self.some_value(rng, sizes), self.some_value(rng, sizes));
                self.ask(&[b"MSET", k, &a, &other, &b], ok(), now_ms);
                self.keys.insert(key, Entry { value: a, deadline_ms: None });
                self.keys.insert(other, Entry { value: b, deadline_ms: None });
            }
            31 => {
                let other = self.key(rng);
                let both = [self.value_reply(old.as_ref()), self.value_reply(self.keys.get(&other))].concat();
                self.ask(&[b"MGET", k, &other], Expect::Bytes([b"*2\r\n", &both[..]].concat()), now_ms);
            }
            32 => {
                if rng.permille(500) {
                    self.ask(&[b"KEYS", b"*"], Expect::Keys(self.with_prefix(b"")), now_ms);
                } else {
                    let prefix = format!("own:{}:m", self.number);
                    let pattern = format!("{prefix}*");
                    self.ask(&[b"KEYS", pattern.as_bytes()], Expect::Keys(self.with_prefix(prefix.as_bytes())), now_ms);
                }
            }
            33 => {
                let prefix = format!("own:{}:1", self.number);
                let pattern = format!("{prefix}*");
                let words: [&[u8]; 6] = [b"SCAN", b"0", b"COUNT", b"1000000", b"MATCH", pattern.as_bytes()];
                self.ask(&words, Expect::Scan(self.with_prefix(prefix.as_bytes())), now_ms);
            }
            34 => self.ask(&[b"RANDOMKEY"], Expect::OneOf(self.with_prefix(b"")), now_ms),
            35 => self.ask(&[b"DBSIZE"], int(self.keys.len()), now_ms),
            36 if rng.permille(150) => {
                self.keys.clear();
                let words: [&[u8]; 2] = [b"FLUSHDB", [&b""[..], b"async", b"SYNC"][pick(rng, 3)]];
                self.ask(&words[..if words[1].is_empty() { 1 } else { 2 }], ok(), now_ms);
            }
            36 => {
                self.resp3 = rng.permille(500);
                let version: &[u8] = if self.resp3 { b"3" } else { b"2" };
                self.ask(&[b"HELLO", version], Expect::Hello { resp3: self.resp3 }, now_ms);
            }
            37 => {
                let plain = String::from_utf8(key.clone()).unwrap();
                match rng.below(4) {
                    0 => self.inline("PING\r\n", Expect::Bytes(b"+PONG\r\n".to_vec()), now_ms),
                    1 => {
                        self.inline("echo  'a b' \n", Expect::Bytes(bulk(b"a b")), now_ms);
                    }
                    2 => {
                        let line = format!("\r\nset {plain} \"x\\x00\\n\"\r\n");
                        self.inline(&line, ok(), now_ms);
                        self.keys.insert(key, Entry { value: b"x\0\n".to_vec(), deadline_ms: None });
                    }
                    _ => {
                        let reply = self.value_reply(old.as_ref());
                        self.inline(&format!("GET {plain}\r\n"), Expect::Bytes(reply), now_ms);
                    }
                }
            }
            38 => self.ask(&[b"PING", k], Expect::Bytes(bulk(k)), now_ms),
            _ => self.mistake(rng, k, now_ms),
        }
    }

    fn mistake(&mut self, rng: &mut Rng, key: &[u8], now_ms: u64) {
        let wrong: [(&[&[u8]], Vec<u8>); 5] = [
            (&[b"GET"], errors::wrong_number_of_arguments("get").into_bytes()),
            (&[b"NOSUCH", key], errors::unknown_command(&[b"NOSUCH", key])),
            (&[b"SET", key, b"v", b"NOSUCH"], errors::SYNTAX.into()),
            (&[b"INCRBY", key, b"one"], errors::NOT_AN_INTEGER.into()),
            (&[b"SELECT", b"1000000"], errors::DB_OUT_OF_RANGE.into()),
        ];
        let (words, text) = &wrong[pick(rng, 5)];
        self.ask(words, error(text), now_ms);
    }

    pub(super) fn set(&mut self, rng: &mut Rng, sizes: Sizes, key: Vec<u8>, old: Option<Entry>, now_ms: u64) {
        let value = self.some_value(rng, sizes);
        let mut words: Vec<&[u8]> = vec![b"SET", &key, &value];
        let mut deadline_ms = None;
        let far = FAR_MS + rng.below(1 << 30) * 1000;
        let (far_ms, far_s) = (far.to_string(), (far / 1000).to_string());
        match rng.below(8) {
            0 => {
                words.extend([&b"PXAT"[..], far_ms.as_bytes()]);
                deadline_ms = Some(far);
            }
            1 => {
                words.extend([&b"exat"[..], far_s.as_bytes()]);
                deadline_ms = Some(far);
            }
            2 => {
                words.push(b"KEEPTTL");
                deadline_ms = old.as_ref().and_then(|e| e.deadline_ms);
            }
            _ => {}
        }
        let mut written = true;
        match rng.below(8) {
            0 => {
                words.push(b"NX");
                written = old.is_none();
            }
            1 => {
                words.push(b"XX");
                written = old.is_some();
            }
            _ => {}
        }
        let get = rng.permille(150);
        if get {
            words.push(b"GET");
        }
        let reply = match (get, written) {
            (true, _) => Expect::Bytes(self.value_reply(old.as_ref())),
            (false, true) => ok(),
            (false, false) => Expect::Bytes(self.null()),
        };
        self.ask(&words, reply, now_ms);
        if written {
            self.keys.insert(key, Entry { value, deadline_ms });
        }
    }

    pub(super) fn add(&mut self, rng: &mut Rng, key: Vec<u8>, old: Option<Entry>, now_ms: u64) {
        let by = rng.below(1000).cast_signed();
        let digits = by.to_string();
        let (words, by): (Vec<&[u8]>, i64) = match rng.below(4) {
            0 => (vec![b"INCR", &key], 1),
            1 => (vec![b"DECR", &key], -1),
            2 => (vec![b"INCRBY", &key, digits.as_bytes()], by),
            _ => (vec![b"DECRBY", &key, digits.as_bytes()], -by),
        };
        let number = match &old {
            None => Some(0),
            Some(entry) => std::str::from_utf8(&entry.value).ok().and_then(|text| {
                let number = text.parse::<i64>().ok()?;
                (number.to_string() == text).then_some(number)
            }),
        };
        let reply = match number {
            None => error(errors::NOT_AN_INTEGER.as_bytes()),
            Some(number) => match number.checked_add(by) {
                None => error(errors::OVERFLOW.as_bytes()),
                Some(sum) => {
                    let value = sum.to_string().into_bytes();
                    let deadline_ms = old.and_then(|e| e.deadline_ms);
                    self.ask(&words, Expect::Bytes(format!(":{sum}\r\n").into_bytes()), now_ms);
                    self.keys.insert(key, Entry { value, deadline_ms });
                    return;
                }
            },
        };
        self.ask(&words, reply, now_ms);
    }

    pub(super) fn deadline(&mut self, rng: &mut Rng, key: Vec<u8>, old: Option<Entry>, now_ms: u64) {
        let current = old.as_ref().and_then(|e| e.deadline_ms);
        let tell = |missing: usize| match (&old, current) {
            (None, _) => Some(Expect::Bytes(b":-2\r\n".to_vec())),
            (Some(_), None) => Some(Expect::Bytes(format!(":-{missing}\r\n").into_bytes())),
            (Some(_), Some(_)) => None,
        };
        match rng.below(7) {
            0 => {
                let left = tell(1).unwrap_or_else(|| Expect::Left { deadline_ms: current.unwrap_or(0), unit_ms: 1 });
                self.ask(&[b"PTTL", &key], left, now_ms);
            }
            1 => {
                let left = tell(1).unwrap_or_else(|| Expect::Left { deadline_ms: current.unwrap_or(0), unit_ms: 1000 });
                self.ask(&[b"TTL", &key], left, now_ms);
            }
            2 => {
                let at =
                    tell(1).unwrap_or_else(|| Expect::Bytes(format!(":{}\r\n", current.unwrap_or(0)).into_bytes()));
                self.ask(&[b"PEXPIRETIME", &key], at, now_ms);
            }
            3 => {
                self.ask(&[b"EXPIREAT", &key, b"1"], int(usize::from(old.is_some())), now_ms);
                self.keys.remove(&key);
            }
            _ => {
                let far = FAR_MS + rng.below(1 << 20) * 1000;
                let (far_ms, far_s) = (far.to_string(), (far / 1000).to_string());
                let mut words: Vec<&[u8]> = if rng.permille(500) {
                    vec![b"PEXPIREAT", &key, far_ms.as_bytes()]
                } else {
                    vec![b"EXPIREAT", &key, far_s.as_bytes()]
                };
                let condition: &[u8] = [&b""[..], b"NX", b"xx", b"GT", b"LT"][pick(rng, 5)];
                let allowed = match condition {
                    b"NX" => current.is_none(),
                    b"xx" => current.is_some(),
                    b"GT" => current.is_some_and(|current| far > current),
                    b"LT" => current.is_none_or(|current| far < current),
                    _ => true,
                };
                if !condition.is_empty() {
                    words.push(condition);
                }
                let set = old.is_some() && allowed;
                self.ask(&words, int(usize::from(set)), now_ms);
                if set && let Some(entry) = self.keys.get_mut(&key) {
                    entry.deadline_ms = Some(far);
                }
            }
        }
    }
}

pub(super) fn pick(rng: &mut Rng, n: usize) -> usize {
    usize::try_from(rng.below(n as u64)).unwrap()
}

pub(super) fn ok() -> Expect {
    Expect::Bytes(b"+OK\r\n".to_vec())
}

fn int(n: usize) -> Expect {
    Expect::Bytes(format!(":{n}\r\n").into_bytes())
}

fn error(text: &[u8]) -> Expect {
    Expect::Bytes([b"-", text, b"\r\n"].concat())
}
