//! Commands on lists. Those that wait are left out where they would: the programs have one client.

use super::{Author, INTEGERS, Step};

/// Keys that hold lists, but for the last ones.
pub(super) const KEYS: [&[u8]; 5] = [b"list:1", b"list:2", b"list:3", b"a", b"b"];
const OWN_KEYS: usize = 3;
const ELEMENTS: [&[u8]; 9] = [b"x", b"1", b"-7", b"", b"\x00\xff", b"y", b"an element of some length", b"02", b"2"];
const COMMANDS: [&str; 36] = [
    "LPUSH",
    "RPUSH",
    "RPUSH",
    "RPUSH",
    "RPUSH",
    "LPUSHX",
    "RPUSHX",
    "LPOP",
    "LPOP",
    "RPOP",
    "RPOP",
    "LLEN",
    "LRANGE",
    "LRANGE",
    "LRANGE",
    "LINDEX",
    "LINDEX",
    "LSET",
    "LSET",
    "LINSERT",
    "LINSERT",
    "LREM",
    "LREM",
    "LTRIM",
    "LPOS",
    "LPOS",
    "LPOS",
    "LMOVE",
    "LMOVE",
    "RPOPLPUSH",
    "LMPOP",
    "LMPOP",
    "BLPOP",
    "BLMOVE",
    "BLMPOP",
    "DEL",
];

impl Author {
    fn list_key(&mut self) -> Vec<u8> {
        let keys = if self.chance(12) { &KEYS[..] } else { &KEYS[..OWN_KEYS] };
        self.random.pick(keys).to_vec()
    }

    fn element(&mut self) -> Vec<u8> {
        if self.chance(12) { self.value() } else { self.random.pick(&ELEMENTS).to_vec() }
    }

    fn list_index(&mut self) -> Vec<u8> {
        if self.chance(10) {
            return self.integer();
        }
        (i64::try_from(self.random.below(16)).expect("a small number") - 8).to_string().into_bytes()
    }

    fn size(&mut self) -> Vec<u8> {
        if self.chance(6) {
            self.random.pick(&INTEGERS).to_vec()
        } else {
            self.random.below(6).to_string().into_bytes()
        }
    }

    fn end(&mut self) -> Vec<u8> {
        let word = *self.random.pick(&["LEFT", "RIGHT", "LEFT", "RIGHT", "LEFT", "RIGHT", "NOSUCH"].each_ref());
        self.name(word)
    }

    /// One that a command waits for, if it does, for as short as can be; or a wrong one.
    fn timeout(&mut self) -> Vec<u8> {
        self.random.pick(&[b"0.001".as_slice(), b"0.001", b"0.001", b"0.001", b"-1", b"x", b"nan", b""]).to_vec()
    }

    fn many_keys(&mut self, arguments: &mut Vec<Vec<u8>>) {
        let count = 1 + self.random.below(3);
        arguments.push(if self.chance(12) { self.integer() } else { count.to_string().into_bytes() });
        for _ in 0..count {
            arguments.push(self.list_key());
        }
        arguments.push(self.end());
        if self.chance(2) {
            arguments.extend([self.name("COUNT"), self.size()]);
        }
        if self.chance(20) {
            arguments.extend([self.name("COUNT"), self.size()]);
        }
    }

    pub(super) fn list_step(&mut self) -> Step {
        let name = *self.random.pick(&COMMANDS.each_ref());
        let mut arguments = vec![self.name(name)];
        match name {
            "LMPOP" => self.many_keys(&mut arguments),
            "BLMPOP" => {
                arguments.push(self.timeout());
                self.many_keys(&mut arguments);
            }
            "BLPOP" => {
                for _ in 0..1 + self.random.below(3) {
                    arguments.push(self.list_key());
                }
                arguments.push(self.timeout());
            }
            "LMOVE" => arguments.extend([self.list_key(), self.list_key(), self.end(), self.end()]),
            "BLMOVE" => {
                arguments.extend([self.list_key(), self.list_key(), self.end(), self.end(), self.timeout()]);
            }
            "RPOPLPUSH" => arguments.extend([self.list_key(), self.list_key()]),
            _ => arguments.push(self.list_key()),
        }
        match name {
            "LPUSH" | "RPUSH" | "LPUSHX" | "RPUSHX" => {
                // Sometimes more than a small list holds.
                let count = if self.chance(12) { 150 } else { 1 + self.random.below(6) };
                for _ in 0..count {
                    arguments.push(self.element());
                }
            }
            "LPOP" | "RPOP" if self.chance(2) => arguments.push(self.size()),
            "LRANGE" | "LTRIM" => arguments.extend([self.list_index(), self.list_index()]),
            "LINDEX" => arguments.push(self.list_index()),
            "LSET" => arguments.extend([self.list_index(), self.element()]),
            "LREM" => arguments.extend([self.list_index(), self.element()]),
            "LINSERT" => {
                let word = *self.random.pick(&["BEFORE", "AFTER", "BEFORE", "AFTER", "NOSUCH"].each_ref());
                arguments.extend([self.name(word), self.element(), self.element()]);
            }
            "LPOS" => {
                arguments.push(self.element());
                for _ in 0..self.random.below(4) {
                    let option = *self.random.pick(&["RANK", "COUNT", "MAXLEN", "RANK", "COUNT", "NOSUCH"].each_ref());
                    arguments.push(self.name(option));
                    // Redis 7.0 takes the least rank for a small one.
                    let number = if option == "RANK" { self.list_index() } else { self.size() };
                    arguments.push(if number.starts_with(b"-9") { b"-1".to_vec() } else { number });
                }
            }
            _ => {}
        }
        if self.chance(40) && !name.starts_with('B') {
            arguments.push(self.element());
        } else if self.chance(40) && !name.starts_with('B') {
            arguments.pop();
        }
        let inline = self.chance(10) && arguments.iter().map(Vec::len).sum::<usize>() < 5000;
        Step { arguments, inline }
    }
}
