//! Random programs of sorted sets: their commands, over keys of their own and some of other types. Redis writes scores with 17 digits and
//! Dolmen with the least that say the same, and -0 as 0 in small sets; so numbers are compared as such; what is up to chance is compared by what it may be.

use super::{Author, Step};
use crate::harness::Reply;

const MEMBERS: [&[u8]; 16] =
    [b"a", b"b", b"c", b"d", b"e", b"aa", b"ab", b"", b"1", b"2", b"10", b"-3", b"01", b"\x00\xff", b"A", b"z"];

/// Keys that hold sorted sets, and two that may hold something else.
const KEYS: [&[u8]; 6] = [b"z:1", b"z:2", b"z:3", b"z:4", SET, STRING];
const STRING: &[u8] = b"z:string";
/// All of its members have one score: ranges by name of others are what an implementation makes of them, in Redis too.
const LEX: &[u8] = b"z:lex";
const SET: &[u8] = b"z:set";

impl Author {
    fn zset_key(&mut self) -> Vec<u8> {
        // Mostly one of the first three.
        let most = if self.chance(12) { KEYS.len() } else { 3 };
        KEYS[self.random.below(most)].to_vec()
    }

    fn member(&mut self) -> Vec<u8> {
        match self.random.below(24) {
            0 => self.value(),
            1 => vec![b'm'; *self.random.pick(&[&64_usize, &65, &511, &513, &1025, &17_000])],
            2..8 => format!("m{}", self.random.below(200)).into_bytes(),
            _ => self.random.pick(&MEMBERS).to_vec(),
        }
    }

    fn score(&mut self) -> Vec<u8> {
        match self.random.below(16) {
            0 => self.fraction(),
            1 => self.random.pick(&[b"inf".as_slice(), b"-inf", b"+Inf", b"-0", b"nan", b"", b"1e400", b"x"]).to_vec(),
            2 => {
                self.random.pick(&[b"0.1".as_slice(), b"3.25", b"-2.5", b"1e17", b"9007199254740993", b"1e-7"]).to_vec()
            }
            _ => (i64::try_from(self.random.below(12)).expect("small") - 4).to_string().into_bytes(),
        }
    }

    fn score_end(&mut self) -> Vec<u8> {
        let end = match self.random.below(6) {
            0 => b"-inf".to_vec(),
            1 => b"+inf".to_vec(),
            _ => self.score(),
        };
        if self.chance(4) { [b"(".to_vec(), end].concat() } else { end }
    }

    fn lex_end(&mut self) -> Vec<u8> {
        match self.random.below(12) {
            0..2 => b"-".to_vec(),
            2..4 => b"+".to_vec(),
            4 => self.random.pick(&[b"".as_slice(), b"x", b"(", b"[", b"-x", b"+inf"]).to_vec(),
            n => [if n % 2 == 0 { b"(".to_vec() } else { b"[".to_vec() }, self.member()].concat(),
        }
    }

    fn index(&mut self) -> Vec<u8> {
        if self.chance(16) {
            return self.integer();
        }
        (i64::try_from(self.random.below(16)).expect("small") - 8).to_string().into_bytes()
    }

    fn count(&mut self) -> Vec<u8> {
        if self.chance(12) { self.integer() } else { self.random.below(6).to_string().into_bytes() }
    }

    /// Some of these words, in any case.
    fn some(&mut self, words: &[&str]) -> Vec<Vec<u8>> {
        let mut some = Vec::new();
        for word in words {
            if self.chance(3) {
                some.push(self.name(word));
            }
        }
        if self.chance(24) {
            some.push(self.random.pick(&[b"NOSUCH".as_slice(), b"", b"LIMIT", b"WITHSCORES"]).to_vec());
        }
        some
    }

    fn limit(&mut self, one_in: usize) -> Vec<Vec<u8>> {
        if !self.chance(one_in) {
            return Vec::new();
        }
        vec![self.name("LIMIT"), self.index(), self.index()]
    }

    /// `numkeys key [key ...]`, seldom with the wrong number.
    fn counted_keys(&mut self) -> (usize, Vec<Vec<u8>>) {
        let keys: Vec<Vec<u8>> = (0..1 + self.random.below(3))
            .map(|_| if self.chance(6) { SET.to_vec() } else { self.zset_key() })
            .collect();
        let count = if self.chance(20) { self.integer() } else { keys.len().to_string().into_bytes() };
        (keys.len(), [vec![count], keys].concat())
    }

    fn range_ends(&mut self, by: &str) -> [Vec<u8>; 2] {
        let mut end = || match by {
            "BYSCORE" => self.score_end(),
            "BYLEX" => self.lex_end(),
            _ => self.index(),
        };
        [end(), end()]
    }

    fn range_options(&mut self, by: &str, store: bool) -> Vec<Vec<u8>> {
        let mut options = Vec::new();
        if !by.is_empty() {
            options.push(self.name(by));
        }
        options.extend(self.some(if store { &["REV"] } else { &["REV", "WITHSCORES"] }));
        options.extend(self.limit(if by.is_empty() { 20 } else { 2 }));
        options
    }

    pub(super) fn zset_step(&mut self) -> Step {
        let names = [
            "ZADD",
            "ZADD",
            "ZADD",
            "ZADD",
            "ZADD",
            "ZADD",
            "ZADD",
            "ZADD",
            "ZINCRBY",
            "ZINCRBY",
            "ZREM",
            "ZREM",
            "ZCARD",
            "ZSCORE",
            "ZMSCORE",
            "ZRANK",
            "ZREVRANK",
            "ZCOUNT",
            "ZCOUNT",
            "ZLEXCOUNT",
            "ZRANGE",
            "ZRANGE",
            "ZRANGE",
            "ZREVRANGE",
            "ZRANGEBYSCORE",
            "ZREVRANGEBYSCORE",
            "ZRANGEBYLEX",
            "ZREVRANGEBYLEX",
            "ZRANGESTORE",
            "ZRANGESTORE",
            "ZREMRANGEBYRANK",
            "ZREMRANGEBYSCORE",
            "ZREMRANGEBYLEX",
            "ZPOPMIN",
            "ZPOPMAX",
            "ZMPOP",
            "BZPOPMIN",
            "BZPOPMAX",
            "BZMPOP",
            "ZUNION",
            "ZINTER",
            "ZDIFF",
            "ZUNIONSTORE",
            "ZUNIONSTORE",
            "ZINTERSTORE",
            "ZINTERSTORE",
            "ZDIFFSTORE",
            "ZINTERCARD",
            "ZRANDMEMBER",
            "ZRANDMEMBER",
            "ZSCAN",
            "DEL",
            "TYPE",
            "SET",
            "SADD",
            "OBJECT",
            "COPY",
            "RENAME",
        ];
        let name = *self.random.pick(&names.each_ref());
        let mut arguments = vec![self.name(name)];
        match name {
            "OBJECT" => arguments.extend([b"ENCODING".to_vec(), KEYS[self.random.below(4)].to_vec()]),
            "COPY" | "RENAME" => arguments.extend([self.zset_key(), self.zset_key()]),
            "SADD" => {
                arguments.push(SET.to_vec());
                arguments.extend((0..1 + self.random.below(4)).map(|_| self.member()).collect::<Vec<_>>());
            }
            "SET" => arguments.extend([STRING.to_vec(), self.value()]),
            "ZADD" if self.chance(5) => {
                arguments.push(LEX.to_vec());
                for _ in 0..1 + self.random.below(6) {
                    arguments.extend([b"0".to_vec(), self.member()]);
                }
            }
            "ZADD" => {
                arguments.push(self.zset_key());
                if self.chance(3) {
                    arguments.extend(self.some(&["NX", "XX", "GT", "LT", "CH", "INCR"]));
                }
                // Seldom so many that it outgrows the small form.
                let pairs = if self.chance(60) { 150 } else { 1 + self.random.below(4) };
                for n in 0..pairs {
                    let member = if pairs > 100 { format!("many{n}").into_bytes() } else { self.member() };
                    arguments.extend([self.score(), member]);
                }
            }
            "ZINCRBY" => arguments.extend([self.zset_key(), self.score(), self.member()]),
            "ZREM" | "ZMSCORE" => {
                arguments.push(self.zset_key());
                arguments.extend((0..1 + self.random.below(4)).map(|_| self.member()).collect::<Vec<_>>());
            }
            "ZSCORE" | "ZRANK" | "ZREVRANK" => arguments.extend([self.zset_key(), self.member()]),
            "ZCOUNT" | "ZREMRANGEBYSCORE" => arguments.extend([self.zset_key(), self.score_end(), self.score_end()]),
            "ZLEXCOUNT" | "ZREMRANGEBYLEX" => arguments.extend([LEX.to_vec(), self.lex_end(), self.lex_end()]),
            "ZREMRANGEBYRANK" => arguments.extend([self.zset_key(), self.index(), self.index()]),
            "ZRANGE" | "ZRANGESTORE" => {
                let by = *self.random.pick(&["", "", "BYSCORE", "BYLEX"].each_ref());
                if name == "ZRANGESTORE" {
                    arguments.push(self.zset_key());
                }
                arguments.push(if by == "BYLEX" { LEX.to_vec() } else { self.zset_key() });
                arguments.extend(self.range_ends(by));
                arguments.extend(self.range_options(by, name == "ZRANGESTORE"));
            }
            "ZREVRANGE" => {
                arguments.extend([self.zset_key(), self.index(), self.index()]);
                arguments.extend(self.some(&["WITHSCORES"]));
            }
            "ZRANGEBYSCORE" | "ZREVRANGEBYSCORE" => {
                arguments.extend([self.zset_key(), self.score_end(), self.score_end()]);
                arguments.extend(self.some(&["WITHSCORES"]));
                arguments.extend(self.limit(3));
            }
            "ZRANGEBYLEX" | "ZREVRANGEBYLEX" => {
                arguments.extend([LEX.to_vec(), self.lex_end(), self.lex_end()]);
                arguments.extend(self.limit(3));
            }
            "ZPOPMIN" | "ZPOPMAX" => {
                arguments.push(self.zset_key());
                if self.chance(2) {
                    arguments.push(self.count());
                }
            }
            "ZMPOP" | "BZMPOP" => {
                if name == "BZMPOP" {
                    arguments.push(b"0.001".to_vec());
                }
                arguments.extend(self.counted_keys().1);
                let end = *self.random.pick(&["MIN", "MAX", "MIN", "MAX", "MIN", "NOSUCH"].each_ref());
                arguments.push(self.name(end));
                if self.chance(2) {
                    arguments.extend([self.name("COUNT"), self.count()]);
                }
            }
            "BZPOPMIN" | "BZPOPMAX" => {
                arguments.extend((0..1 + self.random.below(3)).map(|_| self.zset_key()).collect::<Vec<_>>());
                arguments.push(self.random.pick(&[b"0.001".as_slice(), b"0.001", b"-1", b"x", b"0.002"]).to_vec());
            }
            "ZUNION" | "ZINTER" | "ZUNIONSTORE" | "ZINTERSTORE" | "ZDIFF" | "ZDIFFSTORE" | "ZINTERCARD" => {
                if name.ends_with("STORE") {
                    arguments.push(self.zset_key());
                }
                let (keys, words) = self.counted_keys();
                arguments.extend(words);
                let weighs = !matches!(name, "ZDIFF" | "ZDIFFSTORE" | "ZINTERCARD");
                if weighs && self.chance(2) || self.chance(30) {
                    arguments.push(self.name("WEIGHTS"));
                    arguments.extend((0..keys).map(|_| self.score()).collect::<Vec<_>>());
                }
                if weighs && self.chance(2) || self.chance(30) {
                    let way = *self.random.pick(&["SUM", "MIN", "MAX", "MIN", "MAX", "NOSUCH"].each_ref());
                    arguments.extend([self.name("AGGREGATE"), self.name(way)]);
                }
                if !name.ends_with("STORE") && self.chance(2) || self.chance(30) {
                    arguments.push(self.name("WITHSCORES"));
                }
                if name == "ZINTERCARD" {
                    arguments.retain(|word| !word.eq_ignore_ascii_case(b"withscores") || keys == 3);
                    if self.chance(2) {
                        arguments.extend([self.name("LIMIT"), self.count()]);
                    }
                }
            }
            "ZRANDMEMBER" => {
                arguments.push(self.zset_key());
                if self.chance(2) {
                    // The size of the reply is to be bounded.
                    let count = self.index();
                    let count = if count.len() > 6 { b"x".to_vec() } else { count };
                    arguments.push(count);
                    arguments.extend(self.some(&["WITHSCORES"]));
                }
            }
            "ZSCAN" => {
                arguments.extend([self.zset_key(), b"0".to_vec(), self.name("COUNT"), b"10000".to_vec()]);
                if self.chance(2) {
                    arguments.extend([self.name("MATCH"), self.random.pick(&super::PATTERNS).to_vec()]);
                }
                if self.chance(12) {
                    arguments.push(self.random.pick(&[b"NOSUCH".as_slice(), b"COUNT", b"MATCH"]).to_vec());
                }
            }
            _ => arguments.push(self.zset_key()),
        }
        // Too many and too few: of what waits, the time is to stay where it is.
        if self.chance(40) {
            let word = self.value();
            match name {
                // Redis 7.0 does not know WITHSCORE.
                "ZRANK" | "ZREVRANK" => {}
                _ if name.starts_with('B') => arguments.insert(1, word),
                _ => arguments.push(word),
            }
        } else if self.chance(40) && !name.starts_with('B') && !matches!(name, "ZSCAN" | "OBJECT") {
            arguments.pop();
        }
        let inline = self.chance(16) && arguments.iter().map(Vec::len).sum::<usize>() < 5000;
        Step { arguments, inline }
    }
}

/// What is left of sorted sets.
pub(super) fn last_looks() -> impl Iterator<Item = Step> {
    KEYS.iter().chain([&LEX]).map(|key| Step::new(&[b"ZRANGE".as_slice(), key, b"0", b"-1", b"WITHSCORES"]))
}

/// Whether two replies to a command on sorted sets mean the same, though they are not the same.
pub(super) fn same(step: &Step, ours: &Reply, oracle: &Reply) -> bool {
    let name = step.name();
    match (&*name, ours, oracle) {
        (_, Reply::Error(_), _) | (_, _, Reply::Error(_)) => false,
        // Which members are drawn is chance; how many are, and in which form, is not.
        ("zrandmember", Reply::Bulk(_), Reply::Bulk(_)) => true,
        ("zrandmember", Reply::Array(a), Reply::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(same_form),
        ("zscan", Reply::Array(a), Reply::Array(b)) => {
            let pairs = |reply: &Reply| {
                let mut pairs: Vec<(String, u64)> = reply
                    .items()
                    .chunks(2)
                    .map(|pair| (pair[0].to_string(), number(&pair[1]).map_or(0, |score| (score + 0.0).to_bits())))
                    .collect();
                pairs.sort();
                pairs
            };
            a.len() == 2 && b.len() == 2 && a[0] == b[0] && pairs(&a[1]) == pairs(&b[1])
        }
        _ => same_numbers(ours, oracle),
    }
}

fn same_form((ours, oracle): (&Reply, &Reply)) -> bool {
    match (ours, oracle) {
        (Reply::Array(a), Reply::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(same_form),
        _ => std::mem::discriminant(ours) == std::mem::discriminant(oracle),
    }
}

fn number(reply: &Reply) -> Option<f64> {
    match reply {
        Reply::Double(text) => text.parse().ok(),
        Reply::Bulk(text) => std::str::from_utf8(text).ok()?.parse().ok(),
        _ => None,
    }
}

fn same_number(ours: &Reply, oracle: &Reply) -> bool {
    matches!((number(ours), number(oracle)), (Some(a), Some(b)) if a == b || a.is_nan() && b.is_nan())
}

/// The same but for how numbers are written.
fn same_numbers(ours: &Reply, oracle: &Reply) -> bool {
    match (ours, oracle) {
        (Reply::Array(a), Reply::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_numbers(a, b)),
        _ if ours == oracle => true,
        // Whole numbers too: 54043195528445952 is 54043195528445950 in the shortest form, and 5147064000000000 is 5.147064e+15.
        (Reply::Bulk(a), Reply::Bulk(b))
            if [a, b].iter().any(|n| n.len() >= 17 || n.iter().any(|b| b".e".contains(b))) =>
        {
            same_number(ours, oracle)
        }
        // A small set of Redis knows no -0, and so may make one where there was one before.
        (Reply::Bulk(a), Reply::Bulk(b)) => [a, b].iter().all(|zero| matches!(&***zero, b"-0" | b"0")),
        (Reply::Double(_), Reply::Double(_)) => same_number(ours, oracle),
        _ => false,
    }
}
