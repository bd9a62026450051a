//! Commands on hashes. Field deadlines are not among them: the server to compare with has none.

use super::{Author, INTEGERS, PATTERNS, Step, sorted};
use crate::harness::Reply;

/// Keys that hold hashes, but for the last ones.
pub(super) const KEYS: [&[u8]; 5] = [b"hash:1", b"hash:2", b"hash:3", b"a", b"b"];
const OWN_KEYS: usize = 3;
const FIELDS: [&[u8]; 9] = [b"f", b"1", b"-7", b"", b"\x00\xff", b"field:3", b"a field of some length", b"02", b"x"];
const COMMANDS: [&str; 31] = [
    "HSET",
    "HSET",
    "HSET",
    "HSET",
    "HSET",
    "HMSET",
    "HSETNX",
    "HGET",
    "HGET",
    "HMGET",
    "HGETALL",
    "HGETALL",
    "HKEYS",
    "HVALS",
    "HLEN",
    "HEXISTS",
    "HSTRLEN",
    "HDEL",
    "HDEL",
    "HDEL",
    "HINCRBY",
    "HINCRBY",
    "HINCRBYFLOAT",
    "HINCRBYFLOAT",
    "HRANDFIELD",
    "HRANDFIELD",
    "HSCAN",
    "HSCAN",
    "DEL",
    "TYPE",
    "EXISTS",
];

impl Author {
    fn hash_field(&mut self) -> Vec<u8> {
        match self.random.below(24) {
            0 => self.value(),
            1..4 => format!("f{}", self.random.below(200)).into_bytes(),
            _ => self.random.pick(&FIELDS).to_vec(),
        }
    }

    /// A key that may become a hash.
    fn hash_key(&mut self) -> Vec<u8> {
        self.random.pick(&KEYS[..OWN_KEYS]).to_vec()
    }

    pub(super) fn hash_step(&mut self) -> Step {
        let name = *self.random.pick(&COMMANDS.each_ref());
        let mut arguments = vec![self.name(name)];
        let makes = matches!(name, "HSET" | "HMSET" | "HSETNX" | "HINCRBY" | "HINCRBYFLOAT");
        arguments.push(if makes || !self.chance(12) { self.hash_key() } else { self.random.pick(&KEYS).to_vec() });
        match name {
            "HSET" | "HMSET" => {
                let many = if self.chance(40) { 150 } else { 4 };
                for _ in 0..1 + self.random.below(many) {
                    arguments.extend([self.hash_field(), self.value()]);
                }
                if self.chance(20) {
                    arguments.pop();
                }
            }
            "HSETNX" => arguments.extend([self.hash_field(), self.value()]),
            "HGET" | "HEXISTS" | "HSTRLEN" => arguments.push(self.hash_field()),
            "HMGET" | "HDEL" => {
                for _ in 0..1 + self.random.below(5) {
                    arguments.push(self.hash_field());
                }
            }
            "HINCRBY" => arguments.extend([self.hash_field(), self.integer()]),
            "HINCRBYFLOAT" => arguments.extend([self.hash_field(), self.fraction()]),
            "HRANDFIELD" if !self.chance(4) => {
                arguments.push(match self.random.below(8) {
                    // Counts that no reply can hold are left out, and those that ask for all but some.
                    0 => {
                        self.random.pick(&[b"".as_slice(), b"x", b"1.0", b"9223372036854775808", b"0", b"+1"]).to_vec()
                    }
                    1 => b"-9223372036854775808".to_vec(),
                    2..4 => format!("-{}", self.random.below(4)).into_bytes(),
                    _ => {
                        [b"1000".to_vec(), b"0".to_vec(), b"9223372036854775807".to_vec()][self.random.below(3)].clone()
                    }
                });
                if self.chance(2) {
                    let word = *self.random.pick(&["WITHVALUES", "WITHVALUES", "WITHVALUES", "NOSUCH"].each_ref());
                    arguments.push(self.name(word));
                }
            }
            "HSCAN" => {
                // All at once: what a step visits is the server's own affair.
                arguments.push(b"0".to_vec());
                arguments.extend([self.name("COUNT"), b"100000".to_vec()]);
                if self.chance(2) {
                    arguments.extend([self.name("MATCH"), self.random.pick(&PATTERNS).to_vec()]);
                }
                match self.random.below(12) {
                    0 => arguments.push(self.random.pick(&[b"NOSUCH".as_slice(), b"COUNT", b"MATCH"]).to_vec()),
                    1 => arguments[2] = self.random.pick(&[b"x".as_slice(), b"", b"-0", b"1x", b"+0"]).to_vec(),
                    2 => {
                        let odd = self.random.pick(&INTEGERS).to_vec();
                        if !odd.iter().all(u8::is_ascii_digit) || odd.is_empty() || odd == b"0" {
                            arguments[4] = odd;
                        }
                    }
                    _ => {}
                }
            }
            _ => {}
        }
        if self.chance(40) {
            arguments.push(self.value());
        } else if self.chance(40) && !matches!(name, "HSCAN" | "HRANDFIELD") {
            arguments.pop();
        }
        let inline = self.chance(10) && arguments.iter().map(Vec::len).sum::<usize>() < 5000;
        Step { arguments, inline }
    }
}

/// Whether two replies mean the same: the order of fields is the server's own affair, and which are drawn at random.
pub(super) fn same(step: &Step, ours: &Reply, oracle: &Reply) -> bool {
    let pairs = |reply: &Reply| {
        sorted(&reply.pairs().into_iter().map(|(field, value)| Reply::Array(vec![field, value])).collect::<Vec<_>>())
    };
    match (step.name().as_str(), ours, oracle) {
        ("hgetall", Reply::Array(_), Reply::Array(_)) | ("hgetall", Reply::Map(_), Reply::Map(_)) => {
            pairs(ours) == pairs(oracle)
        }
        ("hkeys" | "hvals", Reply::Array(a), Reply::Array(b)) => sorted(a) == sorted(b),
        ("hscan", Reply::Array(a), Reply::Array(b)) => a[0] == b[0] && pairs(&a[1]) == pairs(&b[1]),
        ("hrandfield", Reply::Bulk(_), Reply::Bulk(_)) => true,
        ("hrandfield", Reply::Array(a), Reply::Array(b)) if a.len() == b.len() => {
            let negative = step.arguments[2].starts_with(b"-");
            let flat = step.arguments.len() > 3 && !matches!(a.first(), Some(Reply::Array(_)));
            negative || if flat { pairs(ours) == pairs(oracle) } else { sorted(a) == sorted(b) }
        }
        _ => false,
    }
}
