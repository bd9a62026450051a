//! Commands on sets. Which members SPOP takes is a matter of chance, so programs let it take all or none: otherwise the two servers would have
//! different sets from there on.

use super::{Author, INTEGERS, PATTERNS, Step, sorted};
use crate::harness::Reply;

/// Keys that hold sets, but for the last ones.
pub(super) const KEYS: [&[u8]; 6] = [b"set:1", b"set:2", b"set:3", b"set:4", b"hash:1", b"a"];
const OWN_KEYS: usize = 4;
const MEMBERS: [&[u8]; 12] = [
    b"m",
    b"1",
    b"2",
    b"-7",
    b"",
    b"\x00\xff",
    b"member:3",
    b"a member of some length",
    b"02",
    b"x",
    b"70000",
    b"-9223372036854775808",
];
const COMMANDS: [&str; 30] = [
    "SADD",
    "SADD",
    "SADD",
    "SADD",
    "SADD",
    "SADD",
    "SREM",
    "SREM",
    "SREM",
    "SCARD",
    "SISMEMBER",
    "SMISMEMBER",
    "SMEMBERS",
    "SMEMBERS",
    "SMOVE",
    "SMOVE",
    "SPOP",
    "SRANDMEMBER",
    "SRANDMEMBER",
    "SINTER",
    "SUNION",
    "SDIFF",
    "SINTERSTORE",
    "SUNIONSTORE",
    "SDIFFSTORE",
    "SINTERCARD",
    "SSCAN",
    "DEL",
    "TYPE",
    "EXISTS",
];

impl Author {
    fn set_member(&mut self) -> Vec<u8> {
        match self.random.below(24) {
            0 => self.value(),
            1..6 => format!("m{}", self.random.below(200)).into_bytes(),
            6..10 => self.random.below(300).to_string().into_bytes(),
            _ => self.random.pick(&MEMBERS).to_vec(),
        }
    }

    /// A key that may become a set.
    fn set_key(&mut self) -> Vec<u8> {
        self.random.pick(&KEYS[..OWN_KEYS]).to_vec()
    }

    /// A key that is read.
    fn set_source(&mut self) -> Vec<u8> {
        if self.chance(20) { self.random.pick(&KEYS).to_vec() } else { self.set_key() }
    }

    pub(super) fn set_step(&mut self) -> Step {
        let name = *self.random.pick(&COMMANDS.each_ref());
        let mut arguments = vec![self.name(name)];
        match name {
            "SADD" => {
                arguments.push(self.set_key());
                let many = if self.chance(30) { 700 } else { 6 };
                // Numbers alone are kept in another way.
                let numbers = self.chance(2);
                for _ in 0..1 + self.random.below(many) {
                    arguments.push(if numbers {
                        self.random.below(1000).to_string().into_bytes()
                    } else {
                        self.set_member()
                    });
                }
            }
            "SREM" | "SMISMEMBER" => {
                arguments.push(self.set_source());
                for _ in 0..1 + self.random.below(6) {
                    arguments.push(self.set_member());
                }
            }
            "SISMEMBER" => arguments.extend([self.set_source(), self.set_member()]),
            "SMOVE" => {
                let destination = if self.chance(12) { b"hash:1".to_vec() } else { self.set_key() };
                arguments.extend([self.set_source(), destination, self.set_member()]);
            }
            "SPOP" => {
                arguments.push(self.set_source());
                let counts: [&[u8]; 8] = [b"100000", b"100000", b"0", b"-1", b"x", b"", b"9223372036854775807", b"1.0"];
                arguments.push(self.random.pick(&counts).to_vec());
            }
            "SRANDMEMBER" => {
                arguments.push(self.set_source());
                if !self.chance(4) {
                    let small = self.random.below(9);
                    arguments.push(match self.random.below(6) {
                        0 => self.random.pick(&[b"x".as_slice(), b"", b"9223372036854775808", b"1.0"]).to_vec(),
                        1..3 => format!("-{small}").into_bytes(),
                        3 => small.to_string().into_bytes(),
                        _ => b"100000".to_vec(),
                    });
                }
            }
            "SINTERSTORE" | "SUNIONSTORE" | "SDIFFSTORE" => {
                arguments.push(if self.chance(12) { b"hash:1".to_vec() } else { self.set_key() });
                for _ in 0..1 + self.random.below(4) {
                    arguments.push(self.set_source());
                }
            }
            "SINTER" | "SUNION" | "SDIFF" => {
                for _ in 0..1 + self.random.below(4) {
                    arguments.push(self.set_source());
                }
            }
            "SINTERCARD" => {
                let count = 1 + self.random.below(4);
                arguments.push(if self.chance(8) { self.integer() } else { count.to_string().into_bytes() });
                for _ in 0..count {
                    arguments.push(self.set_source());
                }
                if self.chance(2) {
                    arguments.push(self.name("LIMIT"));
                    let limit = self.random.below(5).to_string().into_bytes();
                    arguments.push(if self.chance(4) { self.random.pick(&INTEGERS).to_vec() } else { limit });
                }
            }
            "SSCAN" => {
                // All at once: what a step visits is the server's own affair.
                arguments.extend([self.set_source(), b"0".to_vec(), self.name("COUNT"), b"100000".to_vec()]);
                if self.chance(2) {
                    arguments.extend([self.name("MATCH"), self.random.pick(&PATTERNS).to_vec()]);
                }
                match self.random.below(12) {
                    0 => arguments.push(self.random.pick(&[b"NOSUCH".as_slice(), b"COUNT", b"MATCH"]).to_vec()),
                    1 => arguments[2] = self.random.pick(&[b"x".as_slice(), b"", b"-0", b"1x", b"+0"]).to_vec(),
                    _ => {}
                }
            }
            "DEL" => arguments.push(self.set_key()),
            _ => arguments.push(self.set_source()),
        }
        if self.chance(40) && name != "DEL" {
            arguments.push(self.value());
        } else if self.chance(40) && !matches!(name, "SSCAN" | "SRANDMEMBER" | "SPOP") {
            arguments.pop();
        }
        let inline = self.chance(10) && arguments.iter().map(Vec::len).sum::<usize>() < 5000;
        Step { arguments, inline }
    }
}

/// Whether two replies mean the same: the order of members is the server's own affair, and which are drawn at random.
pub(super) fn same(step: &Step, ours: &Reply, oracle: &Reply) -> bool {
    match (step.name().as_str(), ours, oracle) {
        ("smembers" | "sinter" | "sunion" | "sdiff" | "spop", Reply::Array(a), Reply::Array(b))
        | ("smembers" | "sinter" | "sunion" | "sdiff" | "spop", Reply::Set(a), Reply::Set(b)) => sorted(a) == sorted(b),
        ("sscan", Reply::Array(a), Reply::Array(b)) => a[0] == b[0] && sorted(a[1].items()) == sorted(b[1].items()),
        ("srandmember", Reply::Bulk(_), Reply::Bulk(_)) => true,
        ("srandmember", Reply::Array(a), Reply::Array(b)) | ("srandmember", Reply::Set(a), Reply::Set(b)) => {
            let all = step.arguments[2] == b"100000";
            a.len() == b.len() && (!all || sorted(a) == sorted(b))
        }
        _ => false,
    }
}
