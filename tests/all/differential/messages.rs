//! Random programs of two clients who hear of each other: subscriptions and messages, notifications about keys, client-side caching.
//!
//! What a client is told comes beside the replies to what it asks. So each turn ends with a PING of both clients, and what has come up to its answer is
//! compared in three parts, each in its order: replies, confirmations of subscriptions, and messages. Where one part stands between
//! another's is compared by no more than that: Redis 7.0 writes a client's own messages in front of the reply, 7.2 and we behind it. Our workers may
//! hand a message over behind the PING; then it is waited for. Not compared is the order in which a message matches the patterns of one client, as
//! in Redis that is the order of a hash table.

use std::time::Duration;

use super::transactions::alike;
use super::{Author, Difference, Step, cut, number, same};
use crate::harness::{Client, PATIENCE, Reply, Server, skip};
use crate::hostile::Random;

/// (The empty name is not among them: here `*` matches it.)
const CHANNELS: [&[u8]; 6] = [b"a", b"b", b"key:1", b"key:2", b"\x00\xff\r\n", b"news"];
const CHANNEL_PATTERNS: [&[u8]; 10] =
    [b"*", b"a", b"?", b"key:*", b"key:[12]", b"*:1", b"", b"[^a]*", b"k*y:?", b"\\news"];
/// In place of the number of a client.
const NUMBERS: [&str; 2] = ["the number of client 0", "the number of client 1"];

/// What one client sends at once. A transaction is within one turn.
#[derive(Clone)]
struct Turn {
    who: usize,
    steps: Vec<Step>,
}

struct Program {
    /// Sent by both before all else.
    settings: Vec<&'static str>,
    turns: Vec<Turn>,
    order: Order,
}

/// What of the messages of a turn is compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Which they are, in their order.
    Exact,
    /// Which they are.
    Any,
    /// Which keys they are about: those are told of once a round of the server's loop, so what comes together there may come apart here.
    Keys,
}

/// What a client got in a turn.
#[derive(Default)]
struct Heard {
    replies: Vec<Reply>,
    confirmations: Vec<Reply>,
    messages: Vec<Reply>,
}

fn kind(reply: &Reply) -> Option<&[u8]> {
    match reply {
        Reply::Push(items) | Reply::Array(items) => match items.first() {
            Some(Reply::Bulk(kind)) if items.len() >= 2 => Some(kind),
            _ => None,
        },
        _ => None,
    }
}

/// The text of a message, or the keys.
fn last(message: &Reply) -> Option<&Reply> {
    match message {
        Reply::Push(items) | Reply::Array(items) => items.last(),
        _ => None,
    }
}

impl Heard {
    fn add(&mut self, reply: Reply) {
        let list = match kind(&reply) {
            Some(b"message" | b"pmessage" | b"smessage" | b"invalidate" | b"tracking-redir-broken") => {
                &mut self.messages
            }
            Some(b"subscribe" | b"unsubscribe" | b"psubscribe" | b"punsubscribe" | b"ssubscribe" | b"sunsubscribe") => {
                &mut self.confirmations
            }
            _ => &mut self.replies,
        };
        list.push(reply);
    }

    /// Reads up to the answer to a PING, and until enough messages have come.
    fn read(client: &mut Client, marker: &str, is_enough: impl Fn(&Heard) -> bool, patience: Duration) -> Heard {
        let mut heard = Heard::default();
        let mut answered = false;
        client.stream().set_read_timeout(Some(patience)).expect("a time-out");
        while !answered || !is_enough(&heard) {
            match client.try_read() {
                Ok(Reply::Bulk(text)) if text == marker.as_bytes() => answered = true,
                Ok(Reply::Array(items)) if items == [Reply::bulk("pong"), Reply::bulk(marker)] => answered = true,
                Ok(reply) => heard.add(reply),
                Err(error) => {
                    heard.messages.push(Reply::Error(format!("nothing more came: {error}")));
                    break;
                }
            }
        }
        heard
    }

    /// The confirmations: what they are and how many are left, in their order, and the names.
    fn confirmed(&self) -> (Vec<String>, Vec<String>) {
        let counts = self.confirmations.iter().map(|reply| [&reply.items()[..1], &reply.items()[2..]].concat());
        let mut names: Vec<String> = self.confirmations.iter().map(|reply| reply.items()[1].to_string()).collect();
        names.sort();
        (counts.map(|items| Reply::Array(items).to_string()).collect(), names)
    }

    /// The messages, those of one PUBLISH in order of their texts (each has another); or the keys that were told of.
    fn told(&self, order: Order) -> Vec<String> {
        let mut told: Vec<(String, String)> = Vec::new();
        for message in &self.messages {
            let payload = last(message).map(Reply::to_string).unwrap_or_default();
            // Redis 7.0 takes the null of the client's protocol, not of the one that it is redirected to. And what a client tells itself in front of
            // HELLO is written behind its reply here, hence in the new protocol.
            let text = message.to_string().replace("'invalidate', nil]", "'invalidate', null]");
            told.push((payload, text.trim_start_matches('>').to_string()));
        }
        if order == Order::Keys {
            let keys = |message: &Reply| match last(message) {
                Some(Reply::Array(keys)) => keys.iter().map(Reply::to_string).collect::<Vec<_>>(),
                _ => vec![message.to_string().replace("'invalidate', nil]", "'invalidate', null]")],
            };
            let mut all: Vec<String> = self.messages.iter().flat_map(keys).collect();
            all.sort();
            all.dedup();
            return all;
        }
        match order {
            Order::Any => told.sort(),
            _ => told.chunk_by_mut(|a, b| a.0 == b.0).for_each(<[_]>::sort),
        }
        told.into_iter().map(|(_, text)| text).collect()
    }
}

/// Two clients of a server, and their numbers.
struct Couple {
    clients: [Client; 2],
    numbers: [i64; 2],
    turn: usize,
}

impl Couple {
    fn new(server: &Server, settings: &[&str]) -> Couple {
        let mut clients = [server.client(), server.client()];
        for line in ["FLUSHALL", "CONFIG SET notify-keyspace-events ''"].iter().chain(settings) {
            for client in &mut clients {
                assert!(!client.run(line).is_error(), "{line}");
            }
        }
        let numbers = clients.each_mut().map(|client| client.run("CLIENT ID").int());
        Couple { clients, numbers, turn: 0 }
    }

    fn bytes(&self, step: &Step) -> Vec<u8> {
        let mut step = step.clone();
        for argument in &mut step.arguments {
            if let Some(which) = NUMBERS.iter().position(|name| name.as_bytes() == argument.as_slice()) {
                *argument = self.numbers[which].to_string().into_bytes();
            }
        }
        step.bytes()
    }

    fn send(&mut self, turn: &Turn) {
        self.turn += 1;
        let mut bytes: Vec<u8> = turn.steps.iter().flat_map(|step| self.bytes(step)).collect();
        bytes.extend(self.ping());
        self.clients[turn.who].send(&bytes);
    }

    fn marker(&self) -> String {
        format!("the end of turn {}", self.turn)
    }

    fn ping(&self) -> Vec<u8> {
        Step::new(&["PING", &self.marker()]).bytes()
    }

    /// What both got: the other one is asked when all is done. `expected`: what they are to get, which is waited for.
    fn heard(&mut self, who: usize, expected: Option<&[Heard; 2]>, order: Order, patience: Duration) -> [Heard; 2] {
        let (marker, ping) = (self.marker(), self.ping());
        let enough = |which: usize| {
            move |heard: &Heard| match (expected, order) {
                (None, _) => true,
                (Some(expected), Order::Keys) => {
                    let told = heard.told(order);
                    expected[which].told(order).iter().all(|key| told.contains(key))
                }
                (Some(expected), _) => heard.messages.len() >= expected[which].messages.len(),
            }
        };
        let own = Heard::read(&mut self.clients[who], &marker, enough(who), patience);
        self.clients[1 - who].send(&ping);
        let other = Heard::read(&mut self.clients[1 - who], &marker, enough(1 - who), patience);
        if who == 0 { [own, other] } else { [other, own] }
    }
}

/// As `==`, but for numbers of clients, and the order of names.
fn equal(ours: &Reply, oracle: &Reply, numbers: [[i64; 2]; 2]) -> bool {
    match (ours, oracle) {
        (Reply::Int(a), Reply::Int(b)) => a == b || (0..2).any(|i| [*a, *b] == [numbers[0][i], numbers[1][i]]),
        (Reply::Array(a), Reply::Array(_)) if a.first() == Some(&Reply::bulk("server")) => {
            same(&Step::new(&["HELLO"]), ours, oracle)
        }
        (Reply::Map(a), Reply::Map(_)) if a.first().is_some_and(|pair| pair.0 == Reply::bulk("server")) => {
            same(&Step::new(&["HELLO"]), ours, oracle)
        }
        (Reply::Array(a), Reply::Array(b)) => {
            let names = |list: &[Reply]| list.iter().all(|item| matches!(item, Reply::Bulk(_)));
            if names(a) && names(b) {
                return super::sorted(a) == super::sorted(b);
            }
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b, numbers))
        }
        (Reply::Map(a), Reply::Map(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.0 == b.0 && equal(&a.1, &b.1, numbers))
        }
        _ => ours == oracle,
    }
}

fn texts(list: &[String]) -> Reply {
    Reply::Array(list.iter().map(Reply::bulk).collect())
}

/// Runs a program; `at` of a difference is the turn.
fn run(server: &Server, oracle: &Server, program: &Program, patience: Duration) -> Option<Difference> {
    let [mut ours, mut theirs] = [server, oracle].map(|server| Couple::new(server, &program.settings));
    let numbers = [ours.numbers, theirs.numbers];
    for (at, turn) in program.turns.iter().enumerate() {
        theirs.send(turn);
        ours.send(turn);
        let expected = theirs.heard(turn.who, None, program.order, PATIENCE);
        let heard = ours.heard(turn.who, Some(&expected), program.order, patience);
        let mut queued = Vec::new();
        let difference = |ours: Reply, oracle: Reply| Some(Difference { at, ours, oracle });
        for (who, (heard, expected)) in heard.iter().zip(&expected).enumerate() {
            let (a, b) = (heard.confirmed(), expected.confirmed());
            if a != b {
                return difference(texts(&[a.0, a.1].concat()), texts(&[b.0, b.1].concat()));
            }
            let (a, b) = (heard.told(program.order), expected.told(program.order));
            if a != b {
                return difference(texts(&a), texts(&b));
            }
            let all = |heard: &Heard| Reply::Array(heard.replies.clone());
            if heard.replies.len() != expected.replies.len() {
                return difference(all(heard), all(expected));
            }
            let one_each = who == turn.who && heard.replies.len() == turn.steps.len();
            for (i, (a, b)) in heard.replies.iter().zip(&expected.replies).enumerate() {
                let same = one_each && alike(&turn.steps[i], &mut queued, a, b);
                if !same && !equal(a, b, numbers) {
                    return difference(a.clone(), b.clone());
                }
            }
        }
    }
    None
}

/// Leaves out what does not matter: turns, then commands.
fn shrink(server: &Server, oracle: &Server, program: Program, first: Difference) -> (Program, Difference) {
    let patience = Duration::from_secs(2);
    let mut program = program;
    let mut difference = match run(server, oracle, &program, patience) {
        Some(difference) => difference,
        // What several workers do may come out otherwise.
        None => return (program, first),
    };
    program.turns.truncate(difference.at + 1);
    let mut attempt = |program: &mut Program, turns: Vec<Turn>| {
        let before = std::mem::replace(&mut program.turns, turns);
        match run(server, oracle, program, patience) {
            Some(smaller) => {
                program.turns.truncate(smaller.at + 1);
                difference = smaller;
                true
            }
            None => {
                program.turns = before;
                false
            }
        }
    };
    let mut at = 0;
    while at < program.turns.len() {
        let mut without = program.turns.clone();
        without.remove(at);
        if !attempt(&mut program, without) {
            at += 1;
        }
    }
    let mut at = 0;
    while at < program.turns.len() {
        let mut step = 0;
        while at < program.turns.len() && step < program.turns[at].steps.len() {
            let mut without = program.turns.clone();
            without[at].steps.remove(step);
            if !attempt(&mut program, without) {
                step += 1;
            }
        }
        at += 1;
    }
    (program, difference)
}

fn run_random(test: &str, make: impl Fn(&mut Author) -> Program) {
    let Some(oracle) = Server::oracle() else { return skip(test, "there is no redis-server") };
    let servers = ["1", "3"].map(|workers| Server::with(&["--workers", workers]));
    let seed = number("DOLMEN_DIFF_SEED").unwrap_or(20_261_130);
    let commands = usize::try_from(number("DOLMEN_DIFF_COMMANDS").unwrap_or(10_000)).expect("a count");
    let (mut sent, mut round) = (0, 0);
    while sent < commands {
        let own = seed.wrapping_add(round);
        let mut author = Author { random: Random(own) };
        let server = &servers[author.random.below(2)];
        let program = make(&mut author);
        sent += program.turns.iter().map(|turn| turn.steps.len() + 2).sum::<usize>();
        round += 1;
        if let Some(first) = run(server, &oracle, &program, PATIENCE) {
            let (small, difference) = shrink(server, &oracle, program, first);
            let mut lines: Vec<String> = small.settings.iter().map(|line| format!("both: {line}")).collect();
            for turn in &small.turns {
                lines.extend(turn.steps.iter().map(|step| format!("{}: {}", turn.who, step.show())));
            }
            panic!(
                "the servers differ (DOLMEN_DIFF_SEED={own}):\n    {}\n  ours:  {}\n  redis: {}",
                lines.join("\n    "),
                cut(&difference.ours),
                cut(&difference.oracle),
            );
        }
    }
}

impl Author {
    /// A transaction of some steps, perhaps given up.
    fn transaction(&mut self, step: impl Fn(&mut Author) -> Step) -> Vec<Step> {
        let mut steps = vec![Step::new(&["MULTI"])];
        steps.extend((0..self.random.below(5)).map(|_| step(self)));
        steps.push(Step::new(&[if self.chance(6) { "DISCARD" } else { "EXEC" }]));
        steps
    }

    fn protocol(&mut self) -> Step {
        Step::new(&["HELLO", if self.chance(2) { "2" } else { "3" }])
    }

    fn publish(&mut self) -> Step {
        // No two messages are the same.
        let text =
            format!("{} {}", self.random.next(), if self.chance(30) { "x".repeat(20_000) } else { String::new() });
        let channel = self.random.pick(&CHANNELS).to_vec();
        let name = if self.chance(4) { "SPUBLISH" } else { "PUBLISH" };
        let inline = text.len() < 1000 && self.chance(10);
        Step { arguments: vec![self.name(name), channel, text.into_bytes()], inline }
    }

    fn pubsub_step(&mut self) -> Step {
        let names = ["SUBSCRIBE", "UNSUBSCRIBE", "PSUBSCRIBE", "PUNSUBSCRIBE", "SSUBSCRIBE", "SUNSUBSCRIBE"];
        match self.random.below(16) {
            0..6 => {
                let name = *self.random.pick(&names.each_ref());
                let mut arguments = vec![self.name(name)];
                let least = usize::from(!name.contains("UNSUB"));
                for _ in 0..least + self.random.below(3) {
                    arguments.push(match name.starts_with('P') {
                        true => self.random.pick(&CHANNEL_PATTERNS).to_vec(),
                        false => self.random.pick(&CHANNELS).to_vec(),
                    });
                }
                Step { arguments, inline: self.chance(10) }
            }
            6 => {
                let about = ["CHANNELS", "NUMSUB", "NUMPAT", "SHARDCHANNELS", "SHARDNUMSUB", "NOSUCH"];
                let about = *self.random.pick(&about.each_ref());
                let mut arguments = vec![self.name("PUBSUB"), self.name(about)];
                let words = match about {
                    "CHANNELS" | "SHARDCHANNELS" => self.random.below(2),
                    "NUMPAT" => 0,
                    _ => self.random.below(4),
                };
                for _ in 0..words + usize::from(self.chance(20)) {
                    arguments.push(match about.ends_with("CHANNELS") {
                        true => self.random.pick(&CHANNEL_PATTERNS).to_vec(),
                        false => self.random.pick(&CHANNELS).to_vec(),
                    });
                }
                Step { arguments, inline: false }
            }
            7 => Step::new(&[*self.random.pick(&["RESET", "PING", "QUITS", "SUBSCRIBE", "PUBLISH"].each_ref())]),
            8 => self.protocol(),
            9 => Step::new(&["SET", "a", "v"]),
            10 => Step::new(&["GET", "a"]),
            _ => self.publish(),
        }
    }

    fn conversation(&mut self) -> Program {
        let mut turns: Vec<Turn> = (0..2).map(|who| Turn { who, steps: vec![self.protocol()] }).collect();
        for _ in 0..1 + self.random.below(25) {
            let steps = if self.chance(8) {
                // Redis 7.0 writes a client's own messages into the reply of its EXEC: so it listens to nothing here.
                let part =
                    |author: &mut Author| if author.chance(3) { Step::new(&["INCR", "n"]) } else { author.publish() };
                [vec![Step::new(&["RESET"]), self.protocol()], self.transaction(part)].concat()
            } else {
                (0..1 + self.random.below(5)).map(|_| self.pubsub_step()).collect()
            };
            turns.push(Turn { who: self.random.below(2), steps });
        }
        // Nothing that was due to one of them has been kept back: it would come in front of this.
        let last = Step::new(&["PUBLISH", "last", "of all"]);
        turns.extend((0..2).map(|who| Turn { who, steps: vec![Step::new(&["SUBSCRIBE", "last"])] }));
        turns.push(Turn { who: 0, steps: vec![Step::new(&["RESET"]), last] });
        Program { settings: Vec::new(), turns, order: Order::Exact }
    }

    fn changes(&mut self) -> Vec<Step> {
        match self.chance(6) {
            true => self.transaction(Author::step),
            false => (0..1 + self.random.below(4)).map(|_| self.step()).collect(),
        }
    }

    /// One changes keys, by commands of all generators; the other is notified.
    fn notified(&mut self) -> Program {
        let classes = [
            "CONFIG SET notify-keyspace-events KEA",
            "CONFIG SET notify-keyspace-events KEA",
            "CONFIG SET notify-keyspace-events EA",
            "CONFIG SET notify-keyspace-events Kg$",
            "CONFIG SET notify-keyspace-events KElshzx",
            "CONFIG SET notify-keyspace-events EAm",
        ];
        let settings = vec![*self.random.pick(&classes.each_ref())];
        let hello = Turn { who: 1, steps: vec![Step::new(&["HELLO", "3"]), Step::new(&["PSUBSCRIBE", "__key*__:*"])] };
        let mut turns = vec![hello];
        turns.extend((0..1 + self.random.below(15)).map(|_| Turn { who: 0, steps: self.changes() }));
        // In which order SORT looks for keys that are not there is no matter.
        let order = if settings[0].ends_with('m') { Order::Any } else { Order::Exact };
        Program { settings, turns, order }
    }

    fn tracking_step(&mut self, broadcast: bool) -> Step {
        match self.random.below(5) {
            0 => Step::new(&["CLIENT", "CACHING", if self.chance(2) { "YES" } else { "NO" }]),
            1 => Step::new(&["CLIENT", if self.chance(2) { "GETREDIR" } else { "TRACKINGINFO" }]),
            3 if self.chance(3) => Step::new(&["SUBSCRIBE", "__redis__:invalidate"]),
            _ => {
                let mut words: Vec<Vec<u8>> = vec![b"CLIENT".to_vec(), b"TRACKING".to_vec(), b"ON".to_vec()];
                if broadcast {
                    words.push(self.name("BCAST"));
                    let prefixes = ["a", "key:", "b", "key:1", "", "with"];
                    for _ in 0..self.random.below(3) {
                        words.extend([self.name("PREFIX"), self.random.pick(&prefixes.each_ref()).as_bytes().to_vec()]);
                    }
                }
                for option in ["OPTIN", "OPTOUT", "NOLOOP"] {
                    if self.chance(4) {
                        words.push(self.name(option));
                    }
                }
                if self.chance(3) {
                    words.push(self.name("REDIRECT"));
                    words.push(self.random.pick(&NUMBERS.each_ref()).as_bytes().to_vec());
                }
                Step { arguments: words, inline: false }
            }
        }
    }

    /// Both read and write, by commands of all generators, and are told of what they may have cached.
    fn cached(&mut self, broadcast: bool) -> Program {
        let mut turns: Vec<Turn> = (0..2).map(|who| Turn { who, steps: vec![self.protocol()] }).collect();
        // Who has switched it off does not switch it on again: Redis would still tell it of what it had read before.
        let mut ended = [false; 2];
        for _ in 0..1 + self.random.below(20) {
            let who = self.random.below(2);
            let steps = match self.random.below(4) {
                0 if self.chance(6) => {
                    ended[who] = true;
                    vec![Step::new(&["CLIENT", "TRACKING", "OFF"])]
                }
                0 if !ended[who] => vec![self.tracking_step(broadcast)],
                1 => {
                    let opted = Step::new(&["CLIENT", "CACHING", if self.chance(2) { "YES" } else { "NO" }]);
                    [vec![opted], self.changes()].concat()
                }
                _ => self.changes(),
            };
            // Redis does not tell of SWAPDB.
            let steps = steps.into_iter().filter(|step| step.name() != "swapdb").collect();
            turns.push(Turn { who, steps });
        }
        Program { settings: Vec::new(), turns, order: if broadcast { Order::Keys } else { Order::Exact } }
    }
}

#[test]
fn random_messages_like_redis() {
    run_random("random_messages_like_redis", Author::conversation);
}

#[test]
fn random_notifications_like_redis() {
    run_random("random_notifications_like_redis", Author::notified);
}

#[test]
fn random_invalidations_like_redis() {
    run_random("random_invalidations_like_redis", |author| author.cached(false));
}

#[test]
fn random_broadcasts_like_redis() {
    run_random("random_broadcasts_like_redis", |author| author.cached(true));
}
