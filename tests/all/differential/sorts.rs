//! SORT and SORT_RO, over collections and keys of weights of their own. Where the order is left open (texts that are alike by a pattern, sets that are
//! not sorted) programs ask for all and store nothing, and replies are compared as bags.

use super::{Author, INTEGERS, Step, sorted};
use crate::harness::Reply;

pub(super) const KEYS: [&[u8]; 5] = [b"sort:list", b"sort:set", b"sort:zset", b"sort:to", b"a"];
const MEMBERS: [&[u8]; 14] =
    [b"1", b"2", b"3", b"10", b"-5", b"2.5", b"1e3", b"inf", b"b", b"B", b"c", b"0x10", b"", b" 7"];
const WEIGHTS: [&[u8]; 9] = [b"1", b"-1", b"0.5", b"x", b"Y", b"", b"100", b"nan", b"one two"];
const PATTERNS: [&[u8]; 9] = [b"w_*", b"w_*", b"h_*->f", b"h_*->f", b"h_*->g", b"none_*", b"*", b"w_*->f", b"h_*->"];

impl Author {
    fn sort_member(&mut self) -> Vec<u8> {
        match self.random.below(3) {
            0 => self.random.pick(&MEMBERS).to_vec(),
            _ => self.random.below(40).to_string().into_bytes(),
        }
    }

    fn sort_source(&mut self) -> Vec<u8> {
        if self.chance(16) { self.random.pick(&KEYS).to_vec() } else { self.random.pick(&KEYS[..3]).to_vec() }
    }

    pub(super) fn sort_step(&mut self) -> Step {
        let kind = *self
            .random
            .pick(&["RPUSH", "SADD", "ZADD", "SET", "HSET", "DEL", "SORT", "SORT", "SORT", "SORT_RO"].each_ref());
        let mut arguments = vec![self.name(kind)];
        match kind {
            "RPUSH" | "SADD" => {
                arguments.push(KEYS[usize::from(kind == "SADD")].to_vec());
                let many = if self.chance(10) { 700 } else { 8 };
                arguments.extend((0..1 + self.random.below(many)).map(|_| self.sort_member()));
            }
            "ZADD" => {
                arguments.push(KEYS[2].to_vec());
                for _ in 0..1 + self.random.below(8) {
                    arguments.extend([self.random.below(9).to_string().into_bytes(), self.sort_member()]);
                }
            }
            "SET" => arguments.extend([self.sort_key(b"w_"), self.random.pick(&WEIGHTS).to_vec()]),
            "HSET" => {
                let field = *self.random.pick(&[b"f", b"g"].each_ref());
                arguments.extend([self.sort_key(b"h_"), field.to_vec(), self.random.pick(&WEIGHTS).to_vec()]);
            }
            "DEL" => arguments.push(self.sort_source()),
            _ => return self.sort_itself(arguments, kind == "SORT"),
        }
        Step { arguments, inline: false }
    }

    /// The key of a weight; numbers mostly, so that many elements have one.
    fn sort_key(&mut self, before: &[u8]) -> Vec<u8> {
        [before, &*self.sort_member()].concat()
    }

    fn sort_itself(&mut self, mut arguments: Vec<Vec<u8>>, may_store: bool) -> Step {
        let source = self.sort_source();
        arguments.push(source.clone());
        let (alpha, by, nosort) = (self.chance(2), self.chance(2), self.chance(5));
        let open = by && alpha || nosort && source == KEYS[1];
        if alpha {
            arguments.push(self.name("ALPHA"));
        }
        if by {
            arguments.extend([self.name("BY"), self.random.pick(&PATTERNS).to_vec()]);
        }
        if nosort {
            arguments.extend([self.name("BY"), b"nosort".to_vec()]);
        }
        for _ in 0..[0, 0, 1, 1, 2, 3][self.random.below(if open { 4 } else { 6 })] {
            let pattern = if self.chance(3) { b"#".to_vec() } else { self.random.pick(&PATTERNS).to_vec() };
            arguments.extend([self.name("GET"), pattern]);
        }
        if self.chance(2) {
            let order = *self.random.pick(&["ASC", "DESC"].each_ref());
            arguments.push(self.name(order));
        }
        if !open && self.chance(3) {
            arguments.push(self.name("LIMIT"));
            for _ in 0..2 {
                let small = self.random.below(12).to_string().into_bytes();
                arguments.push(if self.chance(6) { self.random.pick(&INTEGERS).to_vec() } else { small });
            }
        }
        if !open && self.chance(4) && (may_store || self.chance(8)) {
            arguments.extend([self.name("STORE"), KEYS[3].to_vec()]);
        }
        if self.chance(40) {
            arguments.push(self.random.pick(&[b"NOSUCH".as_slice(), b"GET", b"BY", b"STORE", b"LIMIT"]).to_vec());
        }
        Step { arguments, inline: false }
    }
}

/// Whether two replies mean the same, where the order is left open.
pub(super) fn same(step: &Step, ours: &Reply, oracle: &Reply) -> bool {
    let has = |word: &[u8]| step.arguments[2..].iter().any(|argument| argument.eq_ignore_ascii_case(word));
    let open = has(b"by") && has(b"alpha") || has(b"nosort") && step.arguments[1] == KEYS[1];
    match (ours, oracle) {
        (Reply::Array(a), Reply::Array(b)) => open && sorted(a) == sorted(b),
        _ => false,
    }
}
