//! Checked against what redis-server 7.0 answers: its recorded facts (`golden.txt`), and the server itself where it is
//! installed. Prose is ours and not compared; structure, names, versions, numbers and order are.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command as Process, Stdio};

use super::*;
use crate::cmd::spec;

static ACL: &[Command<()>] = &[
    spec::ACL_CAT.run(()),
    spec::ACL_DELUSER.run(()),
    spec::ACL_DRYRUN.run(()),
    spec::ACL_GENPASS.run(()),
    spec::ACL_GETUSER.run(()),
    spec::ACL_LIST.run(()),
    spec::ACL_LOAD.run(()),
    spec::ACL_LOG.run(()),
    spec::ACL_SAVE.run(()),
    spec::ACL_SETUSER.run(()),
    spec::ACL_USERS.run(()),
    spec::ACL_WHOAMI.run(()),
    spec::ACL_HELP.run(()),
];
static SLOWLOG: &[Command<()>] =
    &[spec::SLOWLOG_GET.run(()), spec::SLOWLOG_LEN.run(()), spec::SLOWLOG_RESET.run(()), spec::SLOWLOG_HELP.run(())];
static LATENCY: &[Command<()>] = &[
    spec::LATENCY_DOCTOR.run(()),
    spec::LATENCY_GRAPH.run(()),
    spec::LATENCY_HISTOGRAM.run(()),
    spec::LATENCY_HISTORY.run(()),
    spec::LATENCY_LATEST.run(()),
    spec::LATENCY_RESET.run(()),
    spec::LATENCY_HELP.run(()),
];
static CLIENT: &[Command<()>] = &[
    spec::CLIENT_KILL.run(()),
    spec::CLIENT_PAUSE.run(()),
    spec::CLIENT_UNPAUSE.run(()),
    spec::CLIENT_REPLY.run(()),
    spec::CLIENT_NO_EVICT.run(()),
    spec::CLIENT_NO_TOUCH.run(()),
    spec::CLIENT_UNBLOCK.run(()),
    spec::CLIENT_GETNAME.run(()),
    spec::CLIENT_ID.run(()),
    spec::CLIENT_INFO.run(()),
    spec::CLIENT_LIST.run(()),
    spec::CLIENT_SETINFO.run(()),
    spec::CLIENT_SETNAME.run(()),
    spec::CLIENT_HELP.run(()),
    spec::CLIENT_TRACKING.run(()),
    spec::CLIENT_CACHING.run(()),
    spec::CLIENT_TRACKINGINFO.run(()),
    spec::CLIENT_GETREDIR.run(()),
];
static COMMAND: &[Command<()>] = &[
    spec::COMMAND_COUNT.run(()),
    spec::COMMAND_DOCS.run(()),
    spec::COMMAND_GETKEYS.run(()),
    spec::COMMAND_GETKEYSANDFLAGS.run(()),
    spec::COMMAND_INFO.run(()),
    spec::COMMAND_LIST.run(()),
    spec::COMMAND_HELP.run(()),
];
static OBJECT: &[Command<()>] = &[
    spec::OBJECT_ENCODING.run(()),
    spec::OBJECT_FREQ.run(()),
    spec::OBJECT_IDLETIME.run(()),
    spec::OBJECT_REFCOUNT.run(()),
    spec::OBJECT_HELP.run(()),
];
static CONFIG: &[Command<()>] = &[
    spec::CONFIG_GET.run(()),
    spec::CONFIG_SET.run(()),
    spec::CONFIG_RESETSTAT.run(()),
    spec::CONFIG_REWRITE.run(()),
    spec::CONFIG_HELP.run(()),
];

static PUBSUB: &[Command<()>] = &[
    spec::PUBSUB_CHANNELS.run(()),
    spec::PUBSUB_NUMPAT.run(()),
    spec::PUBSUB_NUMSUB.run(()),
    spec::PUBSUB_SHARDCHANNELS.run(()),
    spec::PUBSUB_SHARDNUMSUB.run(()),
    spec::PUBSUB_HELP.run(()),
];

static MEMORY: &[Command<()>] = &[
    spec::MEMORY_USAGE.run(()),
    spec::MEMORY_STATS.run(()),
    spec::MEMORY_DOCTOR.run(()),
    spec::MEMORY_MALLOC_STATS.run(()),
    spec::MEMORY_PURGE.run(()),
    spec::MEMORY_HELP.run(()),
];

#[rustfmt::skip]
static ROWS: &[Command<()>] = &[
    spec::MULTI.run(()), spec::EXEC.run(()), spec::DISCARD.run(()), spec::WATCH.run(()), spec::UNWATCH.run(()),
    spec::PING.run(()), spec::ECHO.run(()), spec::QUIT.run(()), spec::HELLO.run(()), spec::AUTH.run(()),
    spec::SELECT.run(()), spec::RESET.run(()), spec::CLIENT.container((), CLIENT), spec::SET.run(()), spec::GET.run(()),
    spec::SETNX.run(()), spec::SETEX.run(()), spec::PSETEX.run(()), spec::GETSET.run(()), spec::GETDEL.run(()),
    spec::MSET.run(()), spec::MGET.run(()), spec::STRLEN.run(()), spec::APPEND.run(()), spec::INCR.run(()),
    spec::DECR.run(()), spec::INCRBY.run(()), spec::DECRBY.run(()),
    spec::INCRBYFLOAT.run(()), spec::GETEX.run(()), spec::GETRANGE.run(()), spec::SUBSTR.run(()), spec::SETRANGE.run(()),
    spec::MSETNX.run(()), spec::MSETEX.run(()), spec::LCS.run(()), spec::DIGEST.run(()), spec::DELEX.run(()),
    spec::DELIFEQ.run(()), spec::DEL.run(()), spec::UNLINK.run(()),
    spec::EXISTS.run(()), spec::TYPE.run(()), spec::EXPIRE.run(()), spec::PEXPIRE.run(()), spec::EXPIREAT.run(()),
    spec::PEXPIREAT.run(()), spec::TTL.run(()), spec::PTTL.run(()), spec::EXPIRETIME.run(()),
    spec::PEXPIRETIME.run(()), spec::PERSIST.run(()), spec::KEYS.run(()), spec::SCAN.run(()),
    spec::RANDOMKEY.run(()), spec::DBSIZE.run(()), spec::FLUSHDB.run(()), spec::FLUSHALL.run(()),
    spec::TOUCH.run(()), spec::RENAME.run(()), spec::RENAMENX.run(()), spec::MOVE.run(()), spec::COPY.run(()),
    spec::SWAPDB.run(()), spec::DUMP.run(()), spec::RESTORE.run(()), spec::OBJECT.container((), OBJECT),
    spec::FLUSH.run(()), spec::INFO.run(()), spec::COMMAND.container((), COMMAND),
    spec::ACL.container((), ACL), spec::SLOWLOG.container((), SLOWLOG), spec::LATENCY.container((), LATENCY),
    spec::MONITOR.run(()), spec::LOLWUT.run(()),
    spec::CONFIG.container((), CONFIG), spec::TIME.run(()), spec::DEBUG.run(()), spec::SHUTDOWN.run(()),
    spec::MEMORY.container((), MEMORY),
    spec::SETBIT.run(()), spec::GETBIT.run(()), spec::BITCOUNT.run(()), spec::BITPOS.run(()), spec::BITOP.run(()),
    spec::BITFIELD.run(()), spec::BITFIELD_RO.run(()),
    spec::ZADD.run(()), spec::ZINCRBY.run(()), spec::ZREM.run(()), spec::ZCARD.run(()), spec::ZSCORE.run(()),
    spec::ZMSCORE.run(()), spec::ZRANK.run(()), spec::ZREVRANK.run(()), spec::ZCOUNT.run(()), spec::ZLEXCOUNT.run(()),
    spec::ZRANGE.run(()), spec::ZREVRANGE.run(()), spec::ZRANGEBYSCORE.run(()), spec::ZREVRANGEBYSCORE.run(()),
    spec::ZRANGEBYLEX.run(()), spec::ZREVRANGEBYLEX.run(()), spec::ZRANGESTORE.run(()), spec::ZREMRANGEBYRANK.run(()),
    spec::ZREMRANGEBYSCORE.run(()), spec::ZREMRANGEBYLEX.run(()), spec::ZPOPMIN.run(()), spec::ZPOPMAX.run(()),
    spec::ZMPOP.run(()), spec::BZPOPMIN.run(()), spec::BZPOPMAX.run(()), spec::BZMPOP.run(()), spec::ZUNION.run(()),
    spec::ZINTER.run(()), spec::ZDIFF.run(()), spec::ZUNIONSTORE.run(()), spec::ZINTERSTORE.run(()),
    spec::ZDIFFSTORE.run(()), spec::ZINTERCARD.run(()), spec::ZRANDMEMBER.run(()), spec::ZSCAN.run(()),
    spec::SUBSCRIBE.run(()), spec::UNSUBSCRIBE.run(()), spec::PSUBSCRIBE.run(()), spec::PUNSUBSCRIBE.run(()),
    spec::SSUBSCRIBE.run(()), spec::SUNSUBSCRIBE.run(()), spec::PUBLISH.run(()), spec::SPUBLISH.run(()),
    spec::PUBSUB.container((), PUBSUB),
    spec::HSET.run(()), spec::HMSET.run(()), spec::HSETNX.run(()), spec::HGET.run(()), spec::HMGET.run(()), spec::HGETALL.run(()),
    spec::HKEYS.run(()), spec::HVALS.run(()), spec::HDEL.run(()), spec::HEXISTS.run(()), spec::HLEN.run(()), spec::HSTRLEN.run(()),
    spec::HINCRBY.run(()), spec::HINCRBYFLOAT.run(()), spec::HRANDFIELD.run(()), spec::HSCAN.run(()),
    spec::HEXPIRE.run(()), spec::HPEXPIRE.run(()), spec::HEXPIREAT.run(()), spec::HPEXPIREAT.run(()), spec::HTTL.run(()), spec::HPTTL.run(()),
    spec::HEXPIRETIME.run(()), spec::HPEXPIRETIME.run(()), spec::HPERSIST.run(()), spec::HGETEX.run(()), spec::HSETEX.run(()),
    spec::HGETDEL.run(()),
    spec::SADD.run(()), spec::SREM.run(()), spec::SCARD.run(()), spec::SISMEMBER.run(()), spec::SMISMEMBER.run(()),
    spec::SMEMBERS.run(()), spec::SMOVE.run(()), spec::SPOP.run(()), spec::SRANDMEMBER.run(()), spec::SSCAN.run(()),
    spec::SINTER.run(()), spec::SINTERSTORE.run(()), spec::SINTERCARD.run(()), spec::SUNION.run(()),
    spec::SUNIONSTORE.run(()), spec::SDIFF.run(()), spec::SDIFFSTORE.run(()),
    spec::LPUSH.run(()), spec::RPUSH.run(()), spec::LPUSHX.run(()), spec::RPUSHX.run(()), spec::LPOP.run(()),
    spec::RPOP.run(()), spec::LLEN.run(()), spec::LRANGE.run(()), spec::LINDEX.run(()), spec::LSET.run(()),
    spec::LINSERT.run(()), spec::LREM.run(()), spec::LTRIM.run(()), spec::LPOS.run(()), spec::LMOVE.run(()),
    spec::RPOPLPUSH.run(()), spec::LMPOP.run(()), spec::BLPOP.run(()), spec::BRPOP.run(()), spec::BLMOVE.run(()),
    spec::BRPOPLPUSH.run(()), spec::BLMPOP.run(()), spec::SORT.run(()), spec::SORT_RO.run(()),
];

fn commands() -> Commands<()> {
    Commands::new(ROWS)
}

/// Commands that Redis 7.0 does not have.
const OURS: [&str; 7] = ["client|no-touch", "flush", "client|setinfo", "msetex", "digest", "delex", "delifeq"];
/// The same, in a test of their own.
const FIELD_DEADLINES: [&str; 12] = [
    "hexpire",
    "hpexpire",
    "hexpireat",
    "hpexpireat",
    "httl",
    "hpttl",
    "hexpiretime",
    "hpexpiretime",
    "hpersist",
    "hgetex",
    "hsetex",
    "hgetdel",
];
/// Commands that Redis deprecates, or whose arguments it documents, only since 7.2.
const DEPRECATED_LATER: [&str; 4] = ["quit", "setnx", "setex", "psetex"];
const ARGUED_LATER: [&str; 3] = ["command|getkeys", "command|getkeysandflags", "bitop"];
/// Commands with an optional argument that came with 7.2, so that their arity is another.
const WIDER: [&str; 2] = ["zrank", "zrevrank"];

/// The full names of our commands that Redis 7.0 has, too.
fn shared_names() -> impl Iterator<Item = &'static str> {
    commands().all().map(|command| command.name).filter(|name| !OURS.contains(name) && !FIELD_DEADLINES.contains(name))
}

/// A sink that writes RESP.
struct Wire {
    version: u8,
    bytes: Vec<u8>,
}

impl Wire {
    fn header(&mut self, resp3: char, len: usize, resp2_factor: usize) {
        let (kind, len) = if self.version == 3 { (resp3, len) } else { ('*', len * resp2_factor) };
        write!(self.bytes, "{kind}{len}\r\n").unwrap();
    }
}

impl Sink for Wire {
    fn array(&mut self, len: usize) {
        self.header('*', len, 1);
    }
    fn set(&mut self, len: usize) {
        self.header('~', len, 1);
    }
    fn map(&mut self, pairs: usize) {
        self.header('%', pairs, 2);
    }
    fn simple(&mut self, text: &str) {
        write!(self.bytes, "+{text}\r\n").unwrap();
    }
    fn bulk(&mut self, bytes: &[u8]) {
        write!(self.bytes, "${}\r\n", bytes.len()).unwrap();
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(b"\r\n");
    }
    fn int(&mut self, value: i64) {
        write!(self.bytes, ":{value}\r\n").unwrap();
    }
    fn null(&mut self) {
        self.bytes.extend_from_slice(if self.version == 3 { b"_\r\n" } else { b"$-1\r\n" });
    }
    fn error(&mut self, text: &str) {
        write!(self.bytes, "-{text}\r\n").unwrap();
    }
}

/// A parsed reply.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Tree {
    /// Simple strings, bulk strings, integers, nulls and errors with their type byte before them.
    Leaf(String),
    Many(char, Vec<Tree>),
}

impl Tree {
    /// Reads one reply; RESP3 maps hold their keys and values in turn.
    fn read(from: &mut impl BufRead) -> Tree {
        let mut line = String::new();
        from.read_line(&mut line).unwrap();
        let line = line.strip_suffix("\r\n").expect("a whole line");
        let kind = line.chars().next().unwrap();
        match kind {
            '$' if line != "$-1" => {
                let mut bytes = vec![0; line[1..].parse::<usize>().unwrap() + 2];
                from.read_exact(&mut bytes).unwrap();
                bytes.truncate(bytes.len() - 2);
                Tree::Leaf(format!("${}", String::from_utf8(bytes).unwrap()))
            }
            '*' | '~' | '%' => {
                let len = line[1..].parse::<usize>().unwrap() * if kind == '%' { 2 } else { 1 };
                Tree::Many(kind, (0..len).map(|_| Tree::read(from)).collect())
            }
            '+' | '-' | ':' | '_' | '$' => Tree::Leaf(line.to_owned()),
            _ => panic!("a reply of type {kind:?}"),
        }
    }

    fn items(&self) -> &[Tree] {
        match self {
            Tree::Many(_, items) => items,
            Tree::Leaf(text) => panic!("{text:?} is no aggregate"),
        }
    }

    fn items_mut(&mut self) -> &mut Vec<Tree> {
        match self {
            Tree::Many(_, items) => items,
            Tree::Leaf(text) => panic!("{text:?} is no aggregate"),
        }
    }

    /// A leaf without its type.
    fn text(&self) -> &str {
        match self {
            Tree::Leaf(text) => &text[1..],
            Tree::Many(..) => panic!("{self:?} is no leaf"),
        }
    }

    /// The value of a key in a map, also one that RESP2 flattened.
    fn get(&self, key: &str) -> Option<&Tree> {
        self.items().chunks(2).find(|pair| pair[0].text() == key).map(|pair| &pair[1])
    }

    fn get_text(&self, key: &str) -> String {
        self.get(key).map_or(String::new(), |value| value.text().to_owned())
    }
}

/// Our reply to a COMMAND command line, as the executor would route it.
fn ours(version: u8, argv: &[&str]) -> Tree {
    let commands = commands();
    let args: Vec<&[u8]> = argv.iter().map(|arg| arg.as_bytes()).collect();
    let mut out = Wire { version, bytes: Vec::new() };
    let glob = |pattern: &[u8], name: &[u8]| match pattern.strip_suffix(b"*") {
        Some(prefix) => name.len() >= prefix.len() && name[..prefix.len()].eq_ignore_ascii_case(prefix),
        None => name.eq_ignore_ascii_case(pattern),
    };
    match argv.get(1).map(|sub| sub.to_ascii_lowercase()).as_deref() {
        None => all(&commands, &mut out),
        Some("info") => info(&commands, &args[2..], &mut out),
        Some("docs") => docs(&commands, &args[2..], &mut out),
        Some("count") => count(&commands, &mut out),
        Some("list") => list(&commands, &args[2..], glob, &mut out),
        Some("getkeys") => get_keys(&commands, &args[2..], &mut out),
        Some("getkeysandflags") => get_keys_and_flags(&commands, &args[2..], &mut out),
        Some(other) => panic!("no subcommand {other}"),
    }
    let mut rest = out.bytes.as_slice();
    let tree = Tree::read(&mut rest);
    assert!(rest.is_empty(), "{argv:?} wrote more than one reply");
    tree
}

/// One line with the facts of a command: its COMMAND INFO element and its COMMAND DOCS map (RESP3).
fn facts(info: &Tree, docs: &Tree) -> String {
    let [name, arity, flags, first, last, step, categories, tips, specs, _] = info.items() else {
        panic!("{info:?} has not ten elements")
    };
    let joined = |set: &Tree| {
        let mut names: Vec<_> = set.items().iter().map(Tree::text).collect();
        names.sort_unstable();
        if names.is_empty() { "-".to_owned() } else { names.join(",") }
    };
    let mut line = format!("{} {} {}", name.text(), arity.text(), joined(flags));
    write!(line, " {} {} {}", first.text(), last.text(), step.text()).unwrap();
    write!(line, " {} {}", joined(categories), joined(tips)).unwrap();
    for spec in specs.items() {
        let spec_of = |key| spec.get(key).and_then(|search| search.get("spec")).unwrap();
        let (begin, find) = (spec_of("begin_search"), spec_of("find_keys"));
        let flags = joined(spec.get("flags").unwrap());
        let find = ["lastkey", "keystep", "limit"].map(|field| find.get_text(field)).join("/");
        write!(line, " {flags}@{}:{find}", begin.get_text("index")).unwrap();
    }
    write!(line, " | {} {}", docs.get_text("since"), docs.get_text("group")).unwrap();
    let deprecated = (docs.get("doc_flags").map(joined).unwrap_or_default(), docs.get_text("deprecated_since"));
    if !deprecated.0.is_empty() {
        write!(line, " {}@{}", deprecated.0, deprecated.1).unwrap();
    }
    for change in docs.get("history").map_or(&[][..], Tree::items) {
        write!(line, " +{}", change.items()[0].text()).unwrap();
    }
    line.push_str(" |");
    argument_facts(docs, &mut line);
    line
}

fn argument_facts(of: &Tree, line: &mut String) {
    for arg in of.get("arguments").map_or(&[][..], Tree::items) {
        write!(line, " {}:{}", arg.get_text("name"), arg.get_text("type")).unwrap();
        for (mark, key) in [('#', "key_spec_index"), ('=', "token"), ('@', "since"), ('!', "deprecated_since")] {
            if let Some(value) = arg.get(key) {
                write!(line, "{mark}{}", value.text()).unwrap();
            }
        }
        for flag in arg.get("flags").map_or(&[][..], Tree::items) {
            line.push_str(match flag.text() {
                "optional" => "?",
                "multiple" => "*",
                other => other,
            });
        }
        if arg.get("arguments").is_some() {
            line.push_str(" (");
            argument_facts(arg, line);
            line.push_str(" )");
        }
    }
}

/// Brings a RESP3 tree of COMMAND INFO or DOCS to what can be compared: prose is blanked, subcommands that one side lacks
/// are dropped and the others sorted, facts that came after Redis 7.0 are removed.
fn comparable(tree: &mut Tree) {
    let Tree::Many(kind, items) = tree else { return };
    if *kind == '%' {
        for pair in items.chunks_mut(2) {
            let [key, value] = pair else { unreachable!("maps come in pairs") };
            match key.text() {
                "summary" | "complexity" | "replaced_by" | "notes" => {
                    assert!(!value.text().is_empty());
                    *value = Tree::Leaf("$prose".to_owned());
                }
                "history" => {
                    for change in value.items_mut() {
                        change.items_mut()[1] = Tree::Leaf("$prose".to_owned());
                    }
                }
                "subcommands" => {
                    let subs = value.items_mut();
                    let mut pairs: Vec<[Tree; 2]> =
                        subs.chunks(2).map(|pair| [pair[0].clone(), pair[1].clone()]).collect();
                    pairs.retain(|[name, _]| is_shared(name.text()));
                    pairs.sort_by(|[a, _], [b, _]| a.text().cmp(b.text()));
                    *subs = pairs.into_iter().flatten().collect();
                }
                // Of Redis 7.2 to 8: ranks with scores, HSCAN without values, SET's conditions.
                "arguments" => value
                    .items_mut()
                    .retain(|argument| !["7.2.0", "7.4.0", "8.4.0"].contains(&argument.get_text("since").as_str())),
                name if DEPRECATED_LATER.contains(&name) => {
                    drop_fields(value, &["doc_flags", "deprecated_since", "replaced_by"]);
                }
                name if ARGUED_LATER.contains(&name) => drop_fields(value, &["arguments"]),
                name if WIDER.contains(&name) => drop_fields(value, &["history"]),
                _ => {}
            }
        }
    }
    let is_info = items.len() == 10 && matches!(items[1], Tree::Leaf(ref text) if text.starts_with(':'));
    if is_info && WIDER.contains(&items[0].text()) {
        let exact = items[1].text().replace('-', "");
        items[1] = Tree::Leaf(format!(":{exact}"));
    }
    if is_info && let Tree::Many('*', subs) = &mut items[9] {
        subs.retain(|sub| is_shared(sub.items()[0].text()));
        subs.sort_by(|a, b| a.items()[0].text().cmp(b.items()[0].text()));
    }
    items.iter_mut().for_each(comparable);
}

fn is_shared(name: &str) -> bool {
    shared_names().any(|shared| shared == name)
}

fn drop_fields(map: &mut Tree, fields: &[&str]) {
    let kept = map.items().chunks(2).filter(|pair| !fields.contains(&pair[0].text())).flatten().cloned().collect();
    *map.items_mut() = kept;
}

/// What a RESP3 reply becomes in RESP2.
fn flattened(tree: &Tree) -> Tree {
    match tree {
        Tree::Leaf(text) if text == "_" => Tree::Leaf("$-1".to_owned()),
        Tree::Leaf(_) => tree.clone(),
        Tree::Many(_, items) => Tree::Many('*', items.iter().map(flattened).collect()),
    }
}

/// The facts of `name` by these replies to COMMAND INFO and COMMAND DOCS in RESP3.
fn facts_of(name: &str, mut info: Tree, mut docs: Tree) -> String {
    comparable(&mut info);
    comparable(&mut docs);
    facts(&info.items()[0], docs.get(name).unwrap())
}

fn our_facts(name: &str) -> String {
    facts_of(name, ours(3, &["command", "info", name]), ours(3, &["command", "docs", name]))
}

const GOLDEN: &str = include_str!("golden.txt");

#[test]
fn rows_are_as_recorded() {
    let mut recorded = GOLDEN.lines().filter(|line| !line.starts_with('#'));
    for name in shared_names() {
        assert_eq!(our_facts(name), recorded.next().unwrap_or_default());
    }
    assert_eq!(recorded.next(), None, "a recorded command has no row");
}

/// As the documentation of Redis 8 has them.
#[test]
fn rows_of_field_deadlines() {
    let info = |name| ours(3, &["command", "info", name]).items()[0].clone();
    let docs = |name| ours(3, &["command", "docs", name]).get(name).unwrap().clone();
    let facts = |name| facts(&info(name), &docs(name));
    let condition = "condition:oneof? ( nx:pure-token=NX xx:pure-token=XX gt:pure-token=GT lt:pure-token=LT )";
    let fields = "fields:block=FIELDS ( numfields:integer field:string* )";
    let times = "seconds:integer=EX milliseconds:integer=PX unix-time-seconds:unix-time=EXAT \
                 unix-time-milliseconds:unix-time=PXAT";
    for (name, time) in [
        ("hexpire", "seconds:integer"),
        ("hpexpire", "milliseconds:integer"),
        ("hexpireat", "unix-time-seconds:unix-time"),
        ("hpexpireat", "unix-time-milliseconds:unix-time"),
    ] {
        assert_eq!(
            facts(name),
            format!(
                "{name} -6 denyoom,fast,write 1 1 1 @fast,@hash,@write - RW,update@1:0/1/0 | 7.4.0 hash | key:key#0 {time} \
                 {condition} {fields}"
            )
        );
    }
    let tip = "nondeterministic_output";
    for (name, tips) in [("httl", tip), ("hpttl", tip), ("hexpiretime", "-"), ("hpexpiretime", "-")] {
        assert_eq!(
            facts(name),
            format!(
                "{name} -5 fast,readonly 1 1 1 @fast,@hash,@read {tips} RO,access@1:0/1/0 | 7.4.0 hash | key:key#0 {fields}"
            )
        );
    }
    assert_eq!(
        facts("hpersist"),
        format!(
            "hpersist -5 fast,write 1 1 1 @fast,@hash,@write - RW,update@1:0/1/0 | 7.4.0 hash | key:key#0 {fields}"
        )
    );
    assert_eq!(
        facts("hgetex"),
        format!(
            "hgetex -5 fast,write 1 1 1 @fast,@hash,@write - RW,update@1:0/1/0 | 8.0.0 hash | key:key#0 \
             expiration:oneof? ( {times} persist:pure-token=PERSIST ) {fields}"
        )
    );
    assert_eq!(
        facts("hsetex"),
        format!(
            "hsetex -6 denyoom,fast,write 1 1 1 @fast,@hash,@write - RW,update@1:0/1/0 | 8.0.0 hash | key:key#0 \
             condition:oneof? ( fnx:pure-token=FNX fxx:pure-token=FXX ) \
             expiration:oneof? ( {times} keepttl:pure-token=KEEPTTL ) \
             fields:block=FIELDS ( numfields:integer data:block* ( field:string value:string ) )"
        )
    );
    assert_eq!(
        facts("hgetdel"),
        format!(
            "hgetdel -5 fast,write 1 1 1 @fast,@hash,@write - RW,access,delete@1:0/1/0 | 8.0.0 hash | key:key#0 {fields}"
        )
    );
}

#[test]
fn rows_beyond_redis_7_0() {
    let info = |name| ours(3, &["command", "info", name]).items()[0].clone();
    let docs = |name| ours(3, &["command", "docs", name]).get(name).unwrap().clone();
    let [no_touch, flush, setinfo, msetex, digest, delex, delifeq] = OURS.map(|name| facts(&info(name), &docs(name)));
    let expiration = "expiration:oneof? ( seconds:integer=EX milliseconds:integer=PX unix-time-seconds:unix-time=EXAT \
                      unix-time-milliseconds:unix-time=PXAT keepttl:pure-token=KEEPTTL )";
    assert_eq!(
        msetex,
        format!(
            "msetex -4 denyoom,movablekeys,write 0 0 0 @slow,@string,@write \
             request_policy:multi_shard,response_policy:all_succeeded OW,update@1:/2/ | 8.4.0 string | \
             numkeys:integer data:block* ( key:key#0 value:string ) \
             condition:oneof? ( nx:pure-token=NX xx:pure-token=XX ) {expiration}"
        )
    );
    assert_eq!(
        digest,
        "digest 2 fast,readonly 1 1 1 @fast,@read,@string - RO,access@1:0/1/0 | 8.4.0 string | key:key#0"
    );
    assert_eq!(
        delex,
        "delex -2 fast,write 1 1 1 @fast,@string,@write - RW,delete,variable_flags@1:0/1/0 | 8.4.0 string | key:key#0 \
         condition:oneof? ( ifeq-value:string=IFEQ ifne-value:string=IFNE ifdeq-digest:string=IFDEQ \
         ifdne-digest:string=IFDNE )"
    );
    assert_eq!(
        delifeq,
        "delifeq 3 fast,write 1 1 1 @fast,@string,@write - RM,access,delete@1:0/1/0 | 9.0.0 string | key:key#0 value:string"
    );
    assert_eq!(flush.replacen("flush ", "flushall ", 1).replace("0.1.0", "1.0.0"), {
        let flushall = facts(&info("flushall"), &docs("flushall"));
        flushall.replace(" +4.0.0 +6.2.0", "")
    });
    assert_eq!(
        setinfo,
        "client|setinfo 4 loading,noscript,stale 0 0 0 @connection,@slow \
         request_policy:all_nodes,response_policy:all_succeeded | 7.2.0 connection | \
         attr:oneof ( libname:string=LIB-NAME libver:string=LIB-VER )"
    );
    assert_eq!(
        no_touch,
        "client|no-touch 3 loading,noscript,stale 0 0 0 @connection,@slow - | 7.2.0 connection | \
         enabled:oneof ( on:pure-token=ON off:pure-token=OFF )"
    );
    assert_eq!(docs("quit").get_text("deprecated_since"), "7.2.0");
    assert_eq!(docs("setnx").get_text("deprecated_since"), "2.6.12");
    assert_eq!(docs("command|getkeys").get("arguments").unwrap().items().len(), 2);
}

#[test]
fn resp2_is_resp3_without_its_types() {
    for argv in [&["command"][..], &["command", "docs"], &["command", "info", "nosuch", "config|get"]] {
        assert_eq!(flattened(&ours(3, argv)), ours(2, argv));
    }
    let getkeys = ["command", "getkeysandflags", "set", "k", "v"];
    assert_eq!(flattened(&ours(3, &getkeys)), ours(2, &getkeys));
}

#[test]
fn key_specifications_of_every_kind() {
    use spec::KeyFlags;
    let written = |begin, find| {
        let mut out = Wire { version: 3, bytes: Vec::new() };
        describe_keys(&KeySpec::new(KeyFlags::of(&[KeyFlags::RO, KeyFlags::ACCESS]), begin, find), &mut out);
        String::from_utf8(out.bytes).unwrap().replace("\r\n", " ")
    };
    // Recorded from XREADGROUP, LMPOP and SORT.
    let head = "%3 $5 flags ~2 +RO +access $12 begin_search %2 $4 type";
    assert_eq!(
        written(Begin::Keyword { word: "STREAMS", from: 4 }, Find::Range { last: -1, step: 1, limit: 2 }),
        format!(
            "{head} $7 keyword $4 spec %2 $7 keyword $7 STREAMS $9 startfrom :4 $9 find_keys %2 $4 type $5 range \
             $4 spec %3 $7 lastkey :-1 $7 keystep :1 $5 limit :2 "
        )
    );
    assert_eq!(
        written(Begin::Index(1), Find::KeyNum { count: 0, first: 1, step: 1 }),
        format!(
            "{head} $5 index $4 spec %1 $5 index :1 $9 find_keys %2 $4 type $6 keynum $4 spec %3 $9 keynumidx :0 \
             $8 firstkey :1 $7 keystep :1 "
        )
    );
    assert_eq!(
        written(Begin::Unknown, Find::Unknown),
        format!("{head} $7 unknown $4 spec %0 $9 find_keys %2 $4 type $7 unknown $4 spec %0 ")
    );
}

#[test]
fn help_shows_usage_and_purpose() {
    let lines = |container: &str| {
        let mut out = Wire { version: 2, bytes: Vec::new() };
        help(commands().find(container.as_bytes()).unwrap(), &mut out);
        let tree = Tree::read(&mut out.bytes.as_slice());
        tree.items().iter().map(|line| line.text().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(
        lines("config"),
        [
            "CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
            "GET <parameter> [<parameter> ...]",
            "    Returns the parameters whose names match, with their values.",
            "SET <parameter> <value> [<parameter> <value> ...]",
            "    Changes parameters, all that are given or none.",
            "RESETSTAT",
            "    Sets the counters that INFO tells to zero.",
            "REWRITE",
            "    Writes the parameters as they are now to the configuration file.",
            "HELP",
            "    Lists the subcommands.",
        ]
    );
    let client = lines("client");
    assert!(client.contains(&"LIST [TYPE (NORMAL|MASTER|REPLICA|PUBSUB)] [ID <client-id> [<client-id> ...]]".into()));
    assert!(client.contains(&"SETINFO (LIB-NAME <libname>|LIB-VER <libver>)".into()));
    let command = lines("command");
    assert_eq!(command[1], "(no subcommand)");
    assert!(command.contains(&"INFO [<command-name> [<command-name> ...]]".into()));
    assert!(command.contains(&"LIST [FILTERBY (MODULE <module-name>|ACLCAT <category>|PATTERN <pattern>)]".into()));
}

/// A redis-server 7.0 of our own, on a socket in a directory of its own.
struct Oracle {
    process: Child,
    dir: PathBuf,
    connection: BufReader<UnixStream>,
}

impl Oracle {
    /// None, with a note, if it is not installed or of another version.
    fn start(test: &str) -> Option<Oracle> {
        let version = Process::new("redis-server").arg("--version").output();
        let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        if !version.contains("v=7.0.") {
            eprintln!("skipped: no redis-server 7.0 to compare with");
            return None;
        }
        let dir = std::env::temp_dir().join(format!("dolmen-oracle-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let socket = dir.join("redis.sock");
        let mut process = Process::new("redis-server")
            .args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"])
            .args([&socket, &PathBuf::from("--dir"), &dir])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // It says when it is ready; should it exit instead, the lines end.
        let mut said = BufReader::new(process.stdout.take().unwrap()).lines().map_while(Result::ok);
        assert!(said.any(|line| line.contains("ready to accept connections")), "redis-server did not start");
        std::thread::spawn(move || said.for_each(drop));
        let connection = BufReader::new(UnixStream::connect(&socket).unwrap());
        Some(Oracle { process, dir, connection })
    }

    fn ask(&mut self, argv: &[&str]) -> Tree {
        let mut request = Wire { version: 2, bytes: Vec::new() };
        request.array(argv.len());
        for arg in argv {
            request.bulk(arg.as_bytes());
        }
        self.connection.get_mut().write_all(&request.bytes).unwrap();
        Tree::read(&mut self.connection)
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

#[test]
fn every_command_is_described_as_by_the_server_itself() {
    let Some(mut redis) = Oracle::start("describe") else { return };
    redis.ask(&["hello", "3"]);
    for name in shared_names() {
        for kind in ["info", "docs"] {
            let argv = ["command", kind, name];
            let (mut theirs, mut ours) = (redis.ask(&argv), ours(3, &argv));
            comparable(&mut theirs);
            comparable(&mut ours);
            assert_eq!(ours, theirs, "COMMAND {kind} {name}");
        }
        assert_eq!(
            our_facts(name),
            facts_of(name, redis.ask(&["command", "info", name]), redis.ask(&["command", "docs", name]))
        );
    }
}

/// Requests whose replies must be the same to the byte.
const SAME: &[&str] = &[
    "command info nosuch",
    "command info config|nosuch CONFIG|HELP get|x config|get|x | config| |get",
    "command info GET mget Set set nosuch",
    "command docs nosuch",
    "command docs get|x config|nosuch",
    "command list filterby module x",
    "command list filterby aclcat nosuch",
    "command list filterby aclcat @keyspace",
    "command list FILTERBY pattern nosuch*",
    "command list filterby pattern",
    "command list filterby nosuch x",
    "command list filterby pattern x y",
    "command list by aclcat read",
    "command list x",
    "command getkeys get a",
    "command getkeys get a b",
    "command getkeys nosuch a b",
    "command getkeys ping x",
    "command getkeys ping x y z",
    "command getkeys mset a b c d",
    "command getkeys mset a b c",
    "command getkeys mset a",
    "command getkeys del a b c",
    "command getkeys config get x",
    "command getkeys config nosuch",
    "command getkeys config|get x",
    "command getkeysandflags SET a b",
    "command getkeysandflags set a b GET",
    "command getkeysandflags set a b ex 1 get",
    "command getkeysandflags set get get junk",
    "command getkeysandflags set a",
    "command getkeysandflags mset a b c d",
    "command getkeysandflags getdel a",
    "command getkeysandflags unlink a b",
    "command getkeysandflags expire a 1 nx",
    "command getkeysandflags ping x",
    "command getkeysandflags nosuch a b",
];

#[test]
fn replies_equal_those_of_the_server_itself() {
    let Some(mut redis) = Oracle::start("replies") else { return };
    for version in [2, 3] {
        redis.ask(&["hello", &version.to_string()]);
        for line in SAME {
            let argv: Vec<&str> = line.split(' ').collect();
            let (mut theirs, mut ours) = (redis.ask(&argv), ours(version, &argv));
            if line.starts_with("command info GET") {
                blank_notes(&mut theirs);
                blank_notes(&mut ours);
            }
            assert_eq!(ours, theirs, "{line} in RESP{version}");
        }
        for filter in [&[][..], &["filterby", "aclcat", "KeySpace"], &["FILTERBY", "PATTERN", "Config*"]] {
            let argv = [&["command", "list"], filter].concat();
            let shared = |list: Tree| {
                assert!(matches!(list, Tree::Many('*', _)));
                let mut names: Vec<String> = list.items().iter().map(|name| name.text().to_owned()).collect();
                names.retain(|name| is_shared(name));
                names.sort_unstable();
                names
            };
            assert_eq!(shared(ours(version, &argv)), shared(redis.ask(&argv)), "{argv:?}");
        }
    }
}

/// Blanks the value after each leaf `notes`, which our words need not share.
fn blank_notes(tree: &mut Tree) {
    let Tree::Many(_, items) = tree else { return };
    for at in 1..items.len() {
        if items[at - 1] == Tree::Leaf("$notes".to_owned()) {
            items[at] = Tree::Leaf("$prose".to_owned());
        }
    }
    items.iter_mut().for_each(blank_notes);
}

/// Writes `golden.txt` anew from an installed redis-server 7.0; to be run by hand after a row is added.
#[test]
#[ignore = "records the facts the other tests compare with"]
fn record_golden() {
    let mut redis = Oracle::start("record").expect("a redis-server 7.0");
    redis.ask(&["hello", "3"]);
    let head: String = GOLDEN.lines().filter(|line| line.starts_with('#')).flat_map(|line| [line, "\n"]).collect();
    let lines = shared_names().map(|name| {
        facts_of(name, redis.ask(&["command", "info", name]), redis.ask(&["command", "docs", name])) + "\n"
    });
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/cmd/introspect/golden.txt");
    std::fs::write(path, head + &lines.collect::<String>()).unwrap();
}
