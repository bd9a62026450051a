//! What is asked of a server: commands by weight, and the workloads that have a name.

use crate::keys::Pick;
use crate::values::Sizes;
use crate::verify::Role;
use crate::wire::Protocol;
use crate::wire::template::Command;

/// One kind of request.
#[derive(Clone, Debug)]
pub struct Op {
    pub name: String,
    /// 0: it only follows others.
    pub weight: f64,
    pub command: Command,
    pub role: Role,
    /// What follows on the same connection once it is sent.
    pub then: Option<Then>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// This one, about the same key.
    Once(usize),
    /// This one about the key and those behind it, as many as the `{length}` of the request.
    Range(usize),
}

/// A mix of requests, with what it needs.
#[derive(Clone, Debug)]
pub struct Workload {
    pub name: String,
    pub ops: Vec<Op>,
    /// What fills the server before, in order of keys.
    pub fill: Vec<Command>,
    /// How often the fill is repeated; otherwise once a key.
    pub fill_count: Option<u64>,
    /// How keys are drawn and how large values are, if nobody says.
    pub pick: Pick,
    pub sizes: Sizes,
    /// Connections that subscribe and count what they get.
    pub subscribes: bool,
}

/// Names and what they mean, in the order of `list`.
pub const NAMED: &[(&str, &str)] = &[
    ("ping_inline", "PING as a bare line"),
    ("ping_mbulk", "PING as an array; `ping` means both"),
    ("set", "SET of a key"),
    ("get", "GET of a key (--fill, or it misses)"),
    ("incr", "INCR of a counter"),
    ("lpush", "LPUSH to one list"),
    ("rpush", "RPUSH to one list"),
    ("lpop", "LPOP from one list (--fill pushes an element a request of --keys)"),
    ("rpop", "RPOP from one list"),
    ("sadd", "SADD of a random member to one set"),
    ("hset", "HSET of a random field of one hash"),
    ("spop", "SPOP from one set"),
    ("zadd", "ZADD of a random member with a random score to one sorted set"),
    ("zpopmin", "ZPOPMIN from one sorted set"),
    ("lrange_100", "the first 100 elements of a list (--fill makes it); likewise lrange_300, lrange_500, lrange_600"),
    ("mset", "MSET of 10 keys"),
    ("mget", "MGET of 100 keys; over memcached's protocol a get of 100 keys"),
    ("del", "DEL of a key"),
    ("ycsb-a", "YCSB A: half reads, half updates, zipf"),
    ("ycsb-b", "YCSB B: 95% reads, 5% updates, zipf"),
    ("ycsb-c", "YCSB C: reads only, zipf"),
    ("ycsb-d", "YCSB D: 95% reads of the latest, 5% inserts"),
    ("ycsb-e", "YCSB E: 95% scans of 1 to 100 records through an index, 5% inserts"),
    ("ycsb-f", "YCSB F: half reads, half read-modify-write"),
    ("cache", "GET and SET 10 to 1, zipf, values lognormal around 200 bytes"),
    ("mixed", "SET, GET, INCR and DEL, 4 to 4 to 1 to 1"),
    ("queue", "LPUSH and RPOP in equal parts on 10 lists"),
    ("hash", "HGET, HSET and HGETALL, 8 to 3 to 1, of hashes with 10 fields"),
    ("leaderboard", "ZINCRBY, ZREVRANK and the top ten with scores, 6 to 3 to 1, of one sorted set"),
    ("pubsub", "PUBLISH to --channels, each heard by its share of --subscribers"),
];

/// How YCSB's records are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Records {
    /// Ten fields of a hash, 100 bytes each: as YCSB does with Redis.
    Hash,
    /// One string of 1000 bytes; always so with memcached.
    String,
}

/// What the same name means differently for.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    pub protocol: Protocol,
    pub ttl: bool,
    pub records: Records,
    pub channels: u64,
}

fn resp(text: &str) -> Command {
    Command::Arguments(text.split(' ').map(str::to_string).collect())
}

fn op(name: &str, weight: f64, command: Command, role: Role) -> Op {
    Op { name: name.into(), weight, command, role, then: None }
}

fn other(name: &str, weight: f64, text: &str) -> Op {
    op(name, weight, resp(text), Role::Other)
}

impl Variant {
    fn memcached(self, text: &str) -> Command {
        Command::Text(Protocol::Memcached, format!("{text}\r\n"))
    }

    fn set(self) -> Command {
        match (self.protocol.is_resp(), self.ttl) {
            (true, false) => resp("SET {key} {value}"),
            (true, true) => resp("SET {key} {value} EX {ttl}"),
            (false, false) => self.memcached("set {key} 0 0 {sized}"),
            (false, true) => self.memcached("set {key} 0 {ttl} {sized}"),
        }
    }

    fn get(self) -> Command {
        if self.protocol.is_resp() { resp("GET {key}") } else { self.memcached("get {key}") }
    }

    fn del(self) -> Command {
        if self.protocol.is_resp() { resp("DEL {key}") } else { self.memcached("delete {key}") }
    }

    fn incr(self) -> Command {
        if self.protocol.is_resp() { resp("INCR counter:{id}") } else { self.memcached("incr counter:{id} 1") }
    }

    /// memcached adds only to what is there.
    fn fill_counter(self) -> Option<Command> {
        (!self.protocol.is_resp()).then(|| self.memcached("set counter:{id} 0 0 1\r\n0"))
    }

    fn verb(self, verb: &str, weight: f64) -> Option<Op> {
        Some(match verb {
            "set" => op("set", weight, self.set(), Role::Write),
            "get" => op("get", weight, self.get(), Role::Read),
            "del" => op("del", weight, self.del(), Role::Delete),
            "incr" => op("incr", weight, self.incr(), Role::Count),
            _ => return None,
        })
    }
}

impl Workload {
    fn new(name: &str, ops: Vec<Op>) -> Workload {
        Workload {
            name: name.into(),
            ops,
            fill: Vec::new(),
            fill_count: None,
            pick: Pick::Uniform,
            sizes: Sizes::Fixed(3),
            subscribes: false,
        }
    }

    fn filled(mut self, commands: impl IntoIterator<Item = Command>) -> Workload {
        self.fill.extend(commands);
        self
    }

    fn zipf(mut self) -> Workload {
        self.pick = Pick::Zipf { exponent: 0.99 };
        self
    }

    /// `--ratio`: numbers for get, set, del, incr.
    pub fn ratio(text: &str, variant: Variant) -> Result<Workload, String> {
        let help = "a ratio is up to four numbers for get:set:del:incr, as 10:1 or 70:20:5:5";
        let weights: Vec<f64> = text.split(':').map(str::parse).collect::<Result<_, _>>().map_err(|_| help)?;
        let good = weights.iter().all(|weight| *weight >= 0.0 && weight.is_finite());
        if !good || weights.len() > 4 || weights.iter().sum::<f64>() == 0.0 {
            return Err(help.into());
        }
        let ops = ["get", "set", "del", "incr"].iter().zip(&weights).filter(|(_, weight)| **weight > 0.0);
        let ops: Vec<Op> = ops.filter_map(|(verb, &weight)| variant.verb(verb, weight)).collect();
        let counts = ops.iter().any(|op| op.role == Role::Count);
        let fill = [Some(variant.set()), variant.fill_counter().filter(|_| counts)];
        Ok(Workload::new(&format!("ratio {text}"), ops).filled(fill.into_iter().flatten()))
    }

    /// `--command`: `[WEIGHT*]COMMAND`, with holes.
    pub fn custom(commands: &[String], variant: Variant) -> Result<Workload, String> {
        let mut ops = Vec::new();
        for text in commands {
            let (weight, command) = match text.split_once('*') {
                Some((weight, command)) if weight.parse::<f64>().is_ok_and(|weight| weight > 0.0) => {
                    (weight.parse().unwrap_or(1.0), command)
                }
                _ => (1.0, text.as_str()),
            };
            let arguments = shell_words::split(command).map_err(|error| format!("{command}: {error}"))?;
            let name = arguments.first().ok_or("--command needs a command")?.to_lowercase();
            let used = ops.iter().filter(|op: &&Op| op.name.split('#').next() == Some(name.as_str())).count();
            let name = if used == 0 { name } else { format!("{name}#{}", used + 1) };
            let command = if variant.protocol.is_resp() {
                Command::Arguments(arguments)
            } else {
                Command::Text(variant.protocol, command.to_string() + "\r\n")
            };
            ops.push(op(&name, weight, command, Role::Other));
        }
        Ok(Workload::new("custom", ops).filled([variant.set()]))
    }

    /// Those of a name: one, but for `ping`, `lrange` and `ycsb`.
    pub fn named(name: &str, variant: Variant) -> Result<Vec<Workload>, String> {
        let name = name.to_lowercase();
        let several: &[&str] = match name.as_str() {
            "ping" => &["ping_inline", "ping_mbulk"],
            "lrange" => &["lrange_100", "lrange_300", "lrange_500", "lrange_600"],
            "ycsb" => &["ycsb-a", "ycsb-b", "ycsb-c", "ycsb-d", "ycsb-f"],
            _ => return Workload::one(&name, variant).map(|workload| vec![workload]),
        };
        several.iter().map(|name| Workload::one(name, variant)).collect()
    }

    fn one(name: &str, variant: Variant) -> Result<Workload, String> {
        let single = |text: &str| Workload::new(name, vec![other(name, 1.0, text)]);
        let pops = |text: &str, fill: &str| single(text).filled([resp(fill)]);
        if let Some(letter) = name.strip_prefix("ycsb-") {
            return Workload::ycsb(name, letter, variant);
        }
        if let Some(length) = name.strip_prefix("lrange_") {
            let length: u64 = length.parse().map_err(|_| format!("{length} is no length of a range"))?;
            let last = length.max(1) - 1;
            let mut workload = pops(&format!("LRANGE mylist 0 {last}"), "LPUSH mylist {value}");
            workload.fill_count = Some(length);
            return Ok(workload);
        }
        Ok(match name {
            "ping_inline" => {
                let command = Command::Text(Protocol::Resp2, "PING\r\n".into());
                Workload::new(name, vec![op(name, 1.0, command, Role::Other)])
            }
            "ping_mbulk" => single("PING"),
            "set" | "get" | "del" => {
                Workload::new(name, variant.verb(name, 1.0).into_iter().collect()).filled([variant.set()])
            }
            "incr" => Workload::new(name, variant.verb(name, 1.0).into_iter().collect()).filled(variant.fill_counter()),
            "lpush" => single("LPUSH mylist {value}"),
            "rpush" => single("RPUSH mylist {value}"),
            "lpop" => pops("LPOP mylist", "LPUSH mylist {value}"),
            "rpop" => pops("RPOP mylist", "LPUSH mylist {value}"),
            "sadd" => pops("SADD myset element:{number}", "SADD myset element:{id}"),
            "hset" => pops("HSET myhash element:{number} {value}", "HSET myhash element:{id} {value}"),
            "spop" => pops("SPOP myset", "SADD myset element:{id}"),
            "zadd" => pops("ZADD myzset {number} element:{number}", "ZADD myzset {number} element:{id}"),
            "zpopmin" => pops("ZPOPMIN myzset", "ZADD myzset {number} element:{id}"),
            "mset" => single(&format!("MSET{}", " {key} {value}".repeat(10))).filled([variant.set()]),
            "mget" => {
                let keys = " {key}".repeat(100);
                let command = match variant.protocol.is_resp() {
                    true => resp(&format!("MGET{keys}")),
                    false => variant.memcached(&format!("get{keys}")),
                };
                Workload::new(name, vec![op(name, 1.0, command, Role::Other)]).filled([variant.set()])
            }
            "cache" => {
                let mut workload = Workload::ratio("10:1", variant)?.zipf();
                workload.sizes = Sizes::LogNormal { median: 200.0, sigma: 1.0, max: 16 << 10 };
                workload.name = name.into();
                workload
            }
            "mixed" => Workload { name: name.into(), ..Workload::ratio("4:4:1:1", variant)? },
            "queue" => Workload::new(
                name,
                vec![
                    other("lpush", 1.0, "LPUSH queue:{rand:0-9} {value}"),
                    other("rpop", 1.0, "RPOP queue:{rand:0-9}"),
                ],
            ),
            "hash" => {
                let all: String = (0..10).map(|field| format!(" field{field} {{value}}")).collect();
                Workload::new(
                    name,
                    vec![
                        other("hget", 8.0, "HGET hash:{id} field{rand:0-9}"),
                        other("hset", 3.0, "HSET hash:{id} field{rand:0-9} {value}"),
                        other("hgetall", 1.0, "HGETALL hash:{id}"),
                    ],
                )
                .filled([resp(&format!("HSET hash:{{id}}{all}"))])
            }
            "leaderboard" => Workload::new(
                name,
                vec![
                    other("zincrby", 6.0, "ZINCRBY board {rand:1-100} player:{id}"),
                    other("zrevrank", 3.0, "ZREVRANK board player:{id}"),
                    other("zrevrange", 1.0, "ZREVRANGE board 0 9 WITHSCORES"),
                ],
            )
            .zipf()
            .filled([resp("ZADD board {number} player:{id}")]),
            "pubsub" => {
                let last = variant.channels.max(1) - 1;
                let mut workload = single(&format!("PUBLISH channel:{{rand:0-{last}}} {{stamp}}"));
                workload.ops[0].name = "publish".into();
                workload.subscribes = true;
                workload.sizes = Sizes::Fixed(32);
                workload
            }
            _ => return Err(format!("there is no workload {name}; `dolmen-bench list` shows them")),
        })
    }

    fn ycsb(name: &str, letter: &str, variant: Variant) -> Result<Workload, String> {
        let hash = variant.records == Records::Hash && variant.protocol.is_resp();
        let (read, update) = if hash {
            let (read, update) = ("HGETALL {key}", "HSET {key} field{rand:0-9} {value}");
            (other("read", 0.0, read), other("update", 0.0, update))
        } else {
            (op("read", 0.0, variant.get(), Role::Read), op("update", 0.0, variant.set(), Role::Write))
        };
        let fields: String = (0..10).map(|field| format!(" field{field} {{value}}")).collect();
        let whole = |key: &str| match (hash, variant.protocol.is_resp()) {
            (true, _) => resp(&format!("HSET {key}{fields}")),
            (false, true) => resp(&format!("SET {key} {{value}}")),
            (false, false) => variant.memcached(&format!("set {key} 0 0 {{sized}}")),
        };
        let weighed = |op: &Op, weight: f64| Op { weight, ..op.clone() };
        let insert = op("insert", 5.0, whole("{new}"), Role::Other);
        let mut workload = Workload::new(name, Vec::new()).zipf().filled([whole("{key}")]);
        workload.sizes = Sizes::Fixed(if hash { 100 } else { 1000 });
        workload.ops = match letter {
            "a" => vec![weighed(&read, 50.0), weighed(&update, 50.0)],
            "b" => vec![weighed(&read, 95.0), weighed(&update, 5.0)],
            "c" => vec![weighed(&read, 100.0)],
            "d" => {
                workload.pick = Pick::Latest { exponent: 0.99 };
                vec![weighed(&read, 95.0), insert]
            }
            "e" => {
                if !hash {
                    return Err("YCSB E scans through an index, which needs --records hash and RESP".into());
                }
                // The index has a key's number as its score, so what a scan finds is the key and those behind it.
                workload.fill.push(resp("ZADD index {id} {same}"));
                let scan = Op {
                    then: Some(Then::Range(2)),
                    ..other("scan", 95.0, "ZRANGEBYSCORE index {id} +inf LIMIT 0 {length}")
                };
                let insert = Op { then: Some(Then::Once(3)), ..insert };
                vec![scan, insert, read, other("index", 0.0, "ZADD index {id} {same}")]
            }
            "f" => {
                let first = Op { name: "rmw-read".into(), then: Some(Then::Once(2)), ..weighed(&read, 50.0) };
                let second = Op { name: "rmw-write".into(), ..update };
                vec![weighed(&read, 50.0), first, second]
            }
            _ => return Err("YCSB has the workloads a to f".into()),
        };
        Ok(workload)
    }

    /// Whether verification knows all of its requests.
    pub fn verifiable(&self) -> bool {
        self.ops.iter().all(|op| op.role != Role::Other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::template::{Names, Template};

    fn variant(protocol: Protocol) -> Variant {
        Variant { protocol, ttl: false, records: Records::Hash, channels: 3 }
    }

    #[test]
    fn every_name_makes_requests() {
        let names = Names { prefix: "key:".into(), digits: 12, ttl: None, trace: None, constant: None };
        for (name, _) in NAMED {
            let workloads = Workload::named(name, variant(Protocol::Resp2)).expect(name);
            for workload in &workloads {
                for command in workload.ops.iter().map(|op| &op.command).chain(&workload.fill) {
                    Template::new(Protocol::Resp2, command, &names).expect(name);
                }
                assert!(workload.ops.iter().map(|op| op.weight).sum::<f64>() > 0.0);
                for op in &workload.ops {
                    if let Some(Then::Once(next) | Then::Range(next)) = op.then {
                        assert!(next < workload.ops.len(), "{name}");
                    }
                }
            }
        }
        for name in ["set", "get", "del", "incr", "cache", "mixed", "ycsb-a", "ycsb-b", "ycsb-c", "ycsb-d", "ycsb-f"] {
            for workload in Workload::named(name, variant(Protocol::Memcached)).expect(name) {
                for command in workload.ops.iter().map(|op| &op.command).chain(&workload.fill) {
                    Template::new(Protocol::Memcached, command, &names).expect(name);
                }
            }
        }
    }

    #[test]
    fn ratios() {
        let workload = Workload::ratio("10:0:0:1", variant(Protocol::Resp3)).expect("a ratio");
        let ops: Vec<_> = workload.ops.iter().map(|op| (op.name.as_str(), op.weight)).collect();
        assert_eq!(ops, [("get", 10.0), ("incr", 1.0)]);
        assert!(workload.verifiable());
        for wrong in ["", "0", "1:x", "1:2:3:4:5", "-1:2", "nan"] {
            assert!(Workload::ratio(wrong, variant(Protocol::Resp2)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn commands_of_ones_own() {
        let commands = ["3*GET {key}".to_string(), "SET {key} 'two words'".into(), "get other".into()];
        let workload = Workload::custom(&commands, variant(Protocol::Resp2)).expect("commands");
        let ops: Vec<_> = workload.ops.iter().map(|op| (op.name.as_str(), op.weight)).collect();
        assert_eq!(ops, [("get", 3.0), ("set", 1.0), ("get#2", 1.0)]);
        assert!(matches!(&workload.ops[1].command, Command::Arguments(a) if a[2] == "two words"));
        assert!(Workload::custom(&["GET 'x".into()], variant(Protocol::Resp2)).is_err());
    }
}
