//! What a client may expect: the model of its keys, and replies compared with what it foretells.
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A value of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) value: Vec<u8>,
    pub(super) deadline_ms: Option<u64>,
}

pub(super) type Keys = BTreeMap<Vec<u8>, Entry>;

/// A key that expires while the test runs: its deadline lies between two instants.
struct Volatile {
    value: Vec<u8>,
    least_ms: u64,
    most_ms: u64,
}

/// The keys of one client that expire while the test runs.
#[derive(Default)]
pub(super) struct VolatileKeys(HashMap<Vec<u8>, Volatile>);

impl VolatileKeys {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// What the reply to a request has to be.
#[derive(Debug)]
pub(super) enum Expect {
    Bytes(Vec<u8>),
    /// All of these names, each once, in any order (KEYS).
    Keys(BTreeSet<Vec<u8>>),
    /// A scan that covers everything: all of these names at least once.
    Scan(BTreeSet<Vec<u8>>),
    /// One of these names, or null if there are none.
    OneOf(BTreeSet<Vec<u8>>),
    Hello {
        resp3: bool,
    },
    /// The sum after an addition of 1 to a shared counter.
    Counter(usize),
    /// Members of a family that is written and deleted as a whole: all the same, whole tags or nulls.
    Uniform {
        count: usize,
        value_bytes: usize,
    },
    /// A deletion of a whole family: all or nothing.
    AllOrNone(usize),
    VolatileSet {
        key: Vec<u8>,
        value: Vec<u8>,
        ttl_ms: u64,
    },
    VolatileGet(Vec<u8>),
    VolatileExpire {
        key: Vec<u8>,
        ttl_ms: u64,
    },
    /// The sum after an addition to the counter that `Watched` told.
    Added(usize),
    /// The value of a shared counter, for an addition that is to be made only if it is still that.
    Watched,
    /// The replies to the commands of a transaction; `watched`: or null, as somebody has changed the counter that `Watched` told.
    Transaction {
        parts: Vec<Expect>,
        watched: Option<usize>,
    },
    /// Time left until a deadline, in units of so many milliseconds.
    Left {
        deadline_ms: u64,
        unit_ms: u64,
    },
}

/// A reply, parsed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Value {
    Simple(Vec<u8>),
    Error(Vec<u8>),
    Int(i64),
    Bulk(Vec<u8>),
    Null,
    Many(Vec<Value>),
}

/// Parses one reply; `None`: it is not complete. Panics if it is none.
pub(super) fn parse(bytes: &[u8]) -> Option<(Value, usize)> {
    let end = bytes.windows(2).position(|w| w == b"\r\n")?;
    let line = std::str::from_utf8(&bytes[1..end]).expect("a reply's line is text");
    let mut at = end + 2;
    let number = || line.parse::<i64>().unwrap_or_else(|_| panic!("no number: {line:?}"));
    let value = match bytes[0] {
        b'+' => Value::Simple(line.into()),
        b'-' => Value::Error(line.into()),
        b':' => Value::Int(number()),
        b'_' => Value::Null,
        b'$' | b'*' if line == "-1" => Value::Null,
        b'$' => {
            let len = usize::try_from(number()).expect("a length");
            let body = bytes.get(at..at + len)?.to_vec();
            assert!(
                b"\r\n".starts_with(&bytes[at + len..bytes.len().min(at + len + 2)]),
                "a bulk string without its end"
            );
            at += len + 2;
            if at > bytes.len() {
                return None;
            }
            Value::Bulk(body)
        }
        kind @ (b'*' | b'%' | b'>') => {
            let mut left = number() * if kind == b'%' { 2 } else { 1 };
            let mut all = Vec::new();
            while left > 0 {
                let (value, taken) = parse(&bytes[at..])?;
                all.push(value);
                at += taken;
                left -= 1;
            }
            Value::Many(all)
        }
        other => panic!("no reply begins with {:?}", char::from(other)),
    };
    Some((value, at))
}

fn names(values: &[Value]) -> Vec<Vec<u8>> {
    let name = |value: &Value| match value {
        Value::Bulk(name) => name.clone(),
        other => panic!("no name: {other:?}"),
    };
    values.iter().map(name).collect()
}

/// What the checks of one client's replies share.
#[derive(Default)]
pub(super) struct Checker {
    pub(super) volatile: VolatileKeys,
    /// Replies to additions, by counter.
    pub(super) sums: Vec<(usize, i64)>,
    /// Additions that were not made, by counter.
    pub(super) refused: Vec<usize>,
    /// What `Expect::Watched` found.
    watched: i64,
}

/// How much of a text an error message shows.
fn excerpt(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(120)]).into_owned()
}

impl Checker {
    /// Takes the next reply from the front of `bytes`; 0: it is not complete yet. `begun_ms` .. `now_ms`: when it was made.
    pub(super) fn check(&mut self, expect: &Expect, bytes: &[u8], begun_ms: u64, now_ms: u64) -> Result<usize, String> {
        if let Expect::Bytes(want) = expect {
            let n = want.len().min(bytes.len());
            if bytes[..n] != want[..n] {
                let at = bytes.iter().zip(want).position(|(a, b)| a != b).unwrap_or(0);
                let (got, want) = (excerpt(bytes), excerpt(want));
                return Err(format!("from byte {at} on other than foretold: {got:?}, not {want:?}"));
            }
            return Ok(if bytes.len() >= want.len() { want.len() } else { 0 });
        }
        if bytes.is_empty() {
            return Ok(0);
        }
        let Some((value, taken)) = parse(bytes) else { return Ok(0) };
        if let (Expect::Transaction { parts, .. }, Value::Many(values)) = (expect, &value) {
            let head = bytes.windows(2).position(|w| w == b"\r\n").map_or(0, |end| end + 2);
            return self.check_transaction(parts, values, &bytes[head..], begun_ms, now_ms).map(|rest| head + rest);
        }
        let good = self.is_expected(expect, &value, begun_ms, now_ms);
        if good {
            Ok(taken)
        } else {
            Err(format!("{:?} is not {:?}", excerpt(bytes), excerpt(format!("{expect:?}").as_bytes())))
        }
    }

    /// The replies of a transaction, all of which have come. What it adds to a counter, it adds at once, and to what was watched.
    fn check_transaction(
        &mut self,
        parts: &[Expect],
        values: &[Value],
        bytes: &[u8],
        begun_ms: u64,
        now_ms: u64,
    ) -> Result<usize, String> {
        if parts.len() != values.len() {
            return Err(format!("{} replies to a transaction of {} commands", values.len(), parts.len()));
        }
        let (mut at, known) = (0, self.sums.len());
        for part in parts {
            at += self.check(part, &bytes[at..], begun_ms, now_ms)?;
        }
        let mut last = [None; super::program::COUNTERS];
        for &(counter, sum) in &self.sums[known..] {
            if last[counter].replace(sum).is_some_and(|last| last + 1 != sum) {
                return Err(format!("somebody has added to a counter within a transaction: {:?}", &self.sums[known..]));
            }
        }
        Ok(at)
    }

    fn is_expected(&mut self, expect: &Expect, value: &Value, begun_ms: u64, now_ms: u64) -> bool {
        match (expect, value) {
            (Expect::Keys(want), Value::Many(values)) => {
                let got = names(values);
                got.len() == want.len()
                    && got.iter().all(|name| want.contains(name))
                    && got.iter().collect::<BTreeSet<_>>().len() == got.len()
            }
            (Expect::Scan(want), Value::Many(values)) => {
                let [Value::Bulk(cursor), Value::Many(values)] = &values[..] else { return false };
                cursor == b"0" && names(values).into_iter().collect::<BTreeSet<_>>() == *want
            }
            (Expect::OneOf(want), Value::Null) => want.is_empty(),
            (Expect::OneOf(want), Value::Bulk(name)) => want.contains(name),
            (Expect::Hello { resp3 }, Value::Many(values)) => {
                values.contains(&Value::Int(if *resp3 { 3 } else { 2 })) && values.len() == 14
            }
            (Expect::Counter(counter), Value::Int(sum)) => {
                self.sums.push((*counter, *sum));
                true
            }
            (Expect::Watched, Value::Null) => {
                self.watched = 0;
                true
            }
            (Expect::Watched, Value::Bulk(digits)) => {
                let number = std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok());
                self.watched = number.unwrap_or(-1);
                number.is_some()
            }
            (Expect::Transaction { watched: Some(counter), .. }, Value::Null) => {
                self.refused.push(*counter);
                true
            }
            (Expect::Added(counter), Value::Int(sum)) => {
                self.sums.push((*counter, *sum));
                *sum == self.watched + 1
            }
            (Expect::Uniform { count, value_bytes }, Value::Many(values)) => {
                let whole = match &values[0] {
                    Value::Null => true,
                    Value::Bulk(tag) => tag.len() == *value_bytes && tag.iter().all(|b| b == &tag[0]),
                    _ => false,
                };
                whole && values.len() == *count && values.iter().all(|value| value == &values[0])
            }
            (Expect::AllOrNone(count), Value::Int(n)) => *n == 0 || *n == i64::try_from(*count).unwrap(),
            (Expect::Left { deadline_ms, unit_ms }, Value::Int(left)) => {
                let round = |ms: u64| i64::try_from(if *unit_ms == 1 { ms } else { (ms + 500) / unit_ms }).unwrap();
                (round(deadline_ms - now_ms)..=round(deadline_ms - begun_ms)).contains(left)
            }
            (Expect::VolatileSet { key, value, ttl_ms }, Value::Simple(ok)) => {
                let entry = Volatile { value: value.clone(), least_ms: begun_ms + ttl_ms, most_ms: now_ms + ttl_ms };
                self.volatile.0.insert(key.clone(), entry);
                ok == b"OK"
            }
            (Expect::VolatileGet(key), Value::Null) => self.may_be_gone(key, now_ms),
            (Expect::VolatileGet(key), Value::Bulk(value)) => {
                self.may_be_there(key, begun_ms) && self.volatile.0.get(key).is_some_and(|v| v.value == *value)
            }
            (Expect::VolatileExpire { key, .. }, Value::Int(0)) => self.may_be_gone(key, now_ms),
            (Expect::VolatileExpire { key, ttl_ms }, Value::Int(1)) => {
                let there = self.may_be_there(key, begun_ms);
                if let Some(entry) = self.volatile.0.get_mut(key) {
                    (entry.least_ms, entry.most_ms) = (begun_ms + ttl_ms, now_ms + ttl_ms);
                }
                there
            }
            _ => false,
        }
    }

    /// A key was found absent: right, if its deadline can have passed by now. From then on it is gone.
    fn may_be_gone(&mut self, key: &[u8], now_ms: u64) -> bool {
        self.volatile.0.remove(key).is_none_or(|v| v.least_ms <= now_ms)
    }

    /// A key was found: right, if its deadline need not have passed before the request was sent.
    fn may_be_there(&self, key: &[u8], begun_ms: u64) -> bool {
        self.volatile.0.get(key).is_some_and(|v| v.most_ms > begun_ms)
    }
}
