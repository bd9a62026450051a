//! Random programs, run on the server under test and on `redis-server` at once, their replies compared one by one.
//!
//! A program is a few dozen commands with mostly valid and sometimes hostile arguments over a handful of keys, sent in pipelines of random
//! depth, some of them inline, some in RESP3. It begins on empty databases and ends with a look at all that is left. A program
//! that fails is shrunk to the commands that matter and printed with its seed. Where the two servers differ on purpose is in `same`.
//!
//! Two clocks are at work, so deadlines are far away or long past, and what depends on the time of day is compared with a tolerance.

mod hashes;
mod lists;
mod memcache;
mod messages;
mod sets;
mod sorts;
mod transactions;
mod users;
mod zsets;

use std::fmt::Write as _;

use crate::harness::{Client, Reply, Server, quoted, request, skip};
use crate::hostile::Random;

/// One command: its arguments, and whether it goes out as an inline command.
#[derive(Clone)]
struct Step {
    arguments: Vec<Vec<u8>>,
    inline: bool,
}

type Program = Vec<Step>;

impl Step {
    fn new<A: AsRef<[u8]>>(arguments: &[A]) -> Step {
        Step { arguments: arguments.iter().map(|argument| argument.as_ref().to_vec()).collect(), inline: false }
    }

    fn name(&self) -> String {
        String::from_utf8_lossy(&self.arguments[0]).to_lowercase()
    }

    fn bytes(&self) -> Vec<u8> {
        if !self.inline {
            return request(&self.arguments);
        }
        // Every byte by its number, in double quotes: nothing is left to guess, and the quoting is tested.
        let mut line = String::new();
        for argument in &self.arguments {
            line.push('"');
            for byte in argument {
                write!(line, "\\x{byte:02x}").expect("a string takes everything");
            }
            line.push_str("\" ");
        }
        line.push_str("\r\n");
        line.into_bytes()
    }

    /// In the notation of scripts.
    fn show(&self) -> String {
        let plain = |word: &[u8]| !word.is_empty() && word.iter().all(|b| b.is_ascii_graphic() && *b != b'\'');
        let words = self
            .arguments
            .iter()
            .map(|word| if plain(word) { String::from_utf8_lossy(word).into_owned() } else { quoted(word) });
        format!("{}{}", words.collect::<Vec<_>>().join(" "), if self.inline { "    (inline)" } else { "" })
    }
}

const KEYS: [&[u8]; 9] = [
    b"a",
    b"b",
    b"c",
    b"key:1",
    b"key:2",
    b"",
    b"with space",
    b"\x00\xff\r\n",
    b"a:rather:long:key:that:does:not:fit:inline:0123456789",
];
const PATTERNS: [&[u8]; 14] = [
    b"*",
    b"?",
    b"key:*",
    b"key:[12]",
    b"key:[^1]",
    b"[a-c]",
    b"[c-a]",
    b"",
    b"\\a",
    b"a\\",
    b"[",
    b"[a",
    b"*:*:*",
    b"[\\a-c]*",
];
const VALUES: [&[u8]; 24] = [
    b"",
    b"v",
    b"0",
    b"1",
    b"-1",
    b"-0",
    b"+1",
    b"01",
    b" 1",
    b"1 ",
    b"1.5",
    b"1e3",
    b"10",
    b"9223372036854775807",
    b"9223372036854775808",
    b"-9223372036854775808",
    b"-9223372036854775809",
    b"9223372036854775806",
    b"abc",
    b"\x00",
    b"\r\n",
    b"nan",
    b"inf",
    b"a value of some length",
];
const INTEGERS: [&[u8]; 16] = [
    b"0",
    b"1",
    b"-1",
    b"2",
    b"-3",
    b"100",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"9223372036854775808",
    b"",
    b"x",
    b"1.0",
    b"+1",
    b" 1",
    b"007",
    b"18446744073709551616",
];
/// For deadlines: those that are refused, and those that are long past.
const ODD_TIMES: [&[u8]; 14] = [
    b"0",
    b"-1",
    b"-1000",
    b"",
    b"x",
    b"1.5",
    b"+5",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"9223372036854775",
    b"9223372036854776",
    b"18446744073709561",
    b"9223372036854775808",
    b"-9223372036854775",
];

/// Makes up programs.
struct Author {
    random: Random,
}

impl Author {
    fn chance(&mut self, one_in: usize) -> bool {
        self.random.below(one_in) == 0
    }

    fn key(&mut self) -> Vec<u8> {
        self.random.pick(&KEYS).to_vec()
    }

    fn value(&mut self) -> Vec<u8> {
        if self.chance(12) {
            // Sizes around the limits of representations.
            let size =
                *self.random.pick(&[&30_usize, &63, &64, &65, &255, &256, &257, &600, &16_383, &16_385, &70_000]);
            return vec![self.random.byte(); size];
        }
        self.random.pick(&VALUES).to_vec()
    }

    fn integer(&mut self) -> Vec<u8> {
        self.random.pick(&INTEGERS).to_vec()
    }

    /// A place in a value, or beyond its end: rarely far, since the zeros between are to be sent when all is looked at.
    fn place(&mut self) -> Vec<u8> {
        match self.random.below(16) {
            0 => self.integer(),
            1 => self.random.pick(&[&"16383", &"16384", &"-16385", &"70000", &"262143"]).as_bytes().to_vec(),
            _ => (i64::try_from(self.random.below(60)).expect("a small number") - 20).to_string().into_bytes(),
        }
    }

    /// A number with a fraction, as texts may have it.
    fn fraction(&mut self) -> Vec<u8> {
        let digits = |author: &mut Author, up_to: usize| -> String {
            (0..1 + author.random.below(up_to)).map(|_| char::from(b'0' + author.random.byte() % 10)).collect()
        };
        let sign = *self.random.pick(&["", "", "-", "+"].each_ref());
        let number = match self.random.below(8) {
            0 => return self.value(),
            1 => digits(self, 25),
            2 => format!("{}.{}", digits(self, 6), digits(self, 20)),
            3 => format!("{}e{}{}", digits(self, 20), if self.chance(2) { "-" } else { "" }, digits(self, 2)),
            4 => format!("{}.{}E-{}", digits(self, 3), digits(self, 19), digits(self, 4)),
            5 => format!("0x{}p-{}", digits(self, 20), digits(self, 2)),
            6 => {
                format!("{}.{}", digits(self, 2), ["1", "25", "125", "0000000000000000005", "3"][self.random.below(5)])
            }
            _ => self
                .random
                .pick(&["inf", "1e308", "1e4932", "1.2e4932", "1e-4951", ".5", "5.", "1e"].each_ref())
                .to_string(),
        };
        format!("{sign}{number}").into_bytes()
    }

    /// A time for `unit` milliseconds a unit, relative to now, or since 1970.
    fn time(&mut self, unit_ms: u64, absolute: bool) -> Vec<u8> {
        if self.chance(4) {
            return self.random.pick(&ODD_TIMES).to_vec();
        }
        // From about an hour to thirty years ahead, or the years 2100 to 2130: never twice the same, so that GT and LT are sure.
        let ms = 4_000_000 + self.random.next() % 1_000_000_000_000;
        let ms = if absolute { 4_102_444_800_000 + ms } else { ms };
        (ms / unit_ms).to_string().into_bytes()
    }

    fn keys(&mut self) -> Vec<Vec<u8>> {
        (0..1 + self.random.below(4)).map(|_| self.key()).collect()
    }

    /// The name as it is, or in another case.
    fn name(&mut self, name: &str) -> Vec<u8> {
        match self.random.below(4) {
            0 => name.to_lowercase().into_bytes(),
            1 => name
                .chars()
                .map(|c| if self.chance(2) { c.to_ascii_lowercase() } else { c })
                .collect::<String>()
                .into_bytes(),
            _ => name.as_bytes().to_vec(),
        }
    }

    /// Offsets near the ends of bytes and values; further ones seldom, as everything in between is compared.
    fn bit_offset(&mut self) -> Vec<u8> {
        if self.chance(8) {
            let odd: [&[u8]; 9] =
                [b"-1", b"", b"x", b"4294967296", b"9223372036854775807", b"+1", b"01", b"600000", b"131071"];
            return self.random.pick(&odd).to_vec();
        }
        self.random.below(200).to_string().into_bytes()
    }

    fn bit(&mut self) -> Vec<u8> {
        self.random.pick(&[b"0".as_slice(), b"1", b"0", b"1", b"0", b"1", b"2", b"-1", b"", b"x"]).to_vec()
    }

    fn bit_range(&mut self) -> Vec<Vec<u8>> {
        if self.chance(4) {
            return Vec::new();
        }
        let mut index = || match self.random.below(8) {
            0 => self.random.pick(&INTEGERS).to_vec(),
            1 => (i64::try_from(self.random.below(300)).expect("small") - 150).to_string().into_bytes(),
            _ => (i64::try_from(self.random.below(40)).expect("small") - 20).to_string().into_bytes(),
        };
        let mut range = vec![index(), index()];
        if self.chance(2) {
            let unit = *self.random.pick(&["BIT", "BYTE", "BIT", "BYTE", "NOSUCH"].each_ref());
            range.push(self.name(unit));
        } else if self.chance(8) {
            range.pop();
        }
        range
    }

    fn bitfield(&mut self, read_only: bool) -> Vec<Vec<u8>> {
        let mut words = Vec::new();
        for _ in 0..self.random.below(5) {
            let action = *self.random.pick(&["GET", "SET", "INCRBY", "OVERFLOW", "SET", "INCRBY", "NOSUCH"].each_ref());
            let action =
                if read_only && !self.chance(8) || action == "NOSUCH" && !self.chance(4) { "GET" } else { action };
            words.push(self.name(action));
            if action == "OVERFLOW" {
                let kind = *self.random.pick(&["WRAP", "SAT", "FAIL", "WRAP", "SAT", "FAIL", "NOSUCH"].each_ref());
                words.push(self.name(kind));
                continue;
            }
            let odd: [&[u8]; 8] = [b"u64", b"i65", b"u0", b"i-1", b"", b"8", b"u08", b"U8"];
            words.push(if self.chance(12) {
                self.random.pick(&odd).to_vec()
            } else if self.chance(2) {
                format!("i{}", 1 + self.random.below(64)).into_bytes()
            } else {
                format!("u{}", 1 + self.random.below(63)).into_bytes()
            });
            words.push(if self.chance(3) {
                format!("#{}", self.random.below(20)).into_bytes()
            } else {
                self.bit_offset()
            });
            if action != "GET" {
                // Redis takes the least numbers for great ones when SET is to saturate.
                let value =
                    if self.chance(2) { self.integer() } else { self.random.below(600).to_string().into_bytes() };
                words.push(if action == "SET" && value.starts_with(b"-9") { b"-77".to_vec() } else { value });
            }
        }
        if self.chance(12) {
            words.pop();
        }
        words
    }

    fn database(&mut self) -> Vec<u8> {
        let databases: [&[u8]; 16] = [
            b"0",
            b"0",
            b"0",
            b"1",
            b"1",
            b"2",
            b"2",
            b"2",
            b"15",
            b"16",
            b"-1",
            b"x",
            b"",
            b"+1",
            b"01",
            b"3000000000",
        ];
        self.random.pick(&databases).to_vec()
    }

    /// As DUMP of redis-server 7.0.15 made them, sometimes damaged.
    fn payload(&mut self) -> Vec<u8> {
        let payloads: [&[u8]; 4] = [
            b"\x00\x01v\x0a\x00\x91\x08\xce\xb2\x19\x38\x8a\xce",
            b"\x00\xc1\x39\x30\x0a\x00\x9d\x94\xea\x27\x93\xfc\x08\xb9",
            b"\x00\xc3\x09\x32\x01aa\xe0\x25\x00\x01aa\x0a\x00\x09\xac\x48\xb9\xab\x15\xfb\xc9",
            b"\x00\xc3\x0e\x41\x2c\x03abca\xe0\xff\x02\xe1\x15\x07\x01bc\x0a\x00\xd2\x57\x33\xce\xc0\x44\xe1\x2b",
        ];
        let mut payload = self.random.pick(&payloads).to_vec();
        match self.random.below(8) {
            0 => {
                let at = self.random.below(payload.len());
                payload[at] ^= 1 << self.random.below(8);
            }
            1 => payload.truncate(self.random.below(payload.len())),
            _ => {}
        }
        payload
    }

    fn set_options(&mut self) -> Vec<Vec<u8>> {
        let mut options = Vec::new();
        for _ in 0..[0, 0, 0, 1, 1, 1, 2, 2, 3, 4][self.random.below(10)] {
            let option = *self.random.pick(
                &["EX", "PX", "EXAT", "PXAT", "KEEPTTL", "NX", "XX", "GET", "NX", "XX", "GET", "NOSUCH", ""].each_ref(),
            );
            options.push(self.name(option));
            if let Some((unit, absolute)) = unit(option).filter(|_| !self.random.next().is_multiple_of(16)) {
                options.push(self.time(unit, absolute));
            }
        }
        options
    }

    fn step(&mut self) -> Step {
        match self.random.below(8) {
            0 => return self.hash_step(),
            1 | 2 => return self.zset_step(),
            3 => return self.list_step(),
            _ => {}
        }
        if self.chance(6) {
            return self.set_step();
        }
        if self.chance(8) {
            return self.sort_step();
        }
        let names = [
            "SET",
            "SET",
            "SET",
            "SET",
            "SET",
            "GET",
            "GET",
            "GET",
            "SETNX",
            "SETEX",
            "PSETEX",
            "GETSET",
            "GETDEL",
            "MSET",
            "MGET",
            "STRLEN",
            "APPEND",
            "APPEND",
            "INCR",
            "DECR",
            "INCRBY",
            "DECRBY",
            "INCRBYFLOAT",
            "INCRBYFLOAT",
            "GETEX",
            "GETEX",
            "GETRANGE",
            "SUBSTR",
            "SETRANGE",
            "SETRANGE",
            "MSETNX",
            "LCS",
            "LCS",
            "SETBIT",
            "SETBIT",
            "GETBIT",
            "BITCOUNT",
            "BITPOS",
            "BITPOS",
            "BITOP",
            "BITOP",
            "BITFIELD",
            "BITFIELD",
            "BITFIELD",
            "BITFIELD_RO",
            "DEL",
            "UNLINK",
            "EXISTS",
            "TYPE",
            "EXPIRE",
            "EXPIRE",
            "PEXPIRE",
            "EXPIREAT",
            "PEXPIREAT",
            "TTL",
            "PTTL",
            "EXPIRETIME",
            "PEXPIRETIME",
            "PERSIST",
            "KEYS",
            "SCAN",
            "RANDOMKEY",
            "DBSIZE",
            "FLUSHDB",
            "FLUSHALL",
            "TOUCH",
            "RENAME",
            "RENAME",
            "RENAMENX",
            "MOVE",
            "COPY",
            "COPY",
            "SWAPDB",
            "OBJECT",
            "OBJECT",
            "DUMP",
            "RESTORE",
            "RESTORE",
            "SELECT",
            "PING",
            "ECHO",
            "HELLO",
            "AUTH",
            "CLIENT",
            "CONFIG",
            "COMMAND",
            "INFO",
            "NOSUCH",
        ];
        let name = *self.random.pick(&names.each_ref());
        let mut arguments = vec![self.name(name)];
        match name {
            "SET" => {
                arguments.extend([self.key(), self.value()]);
                arguments.extend(self.set_options());
            }
            "SETNX" | "GETSET" | "APPEND" => arguments.extend([self.key(), self.value()]),
            "SETEX" => arguments.extend([self.key(), self.time(1000, false), self.value()]),
            "PSETEX" => arguments.extend([self.key(), self.time(1, false), self.value()]),
            "MSET" | "MSETNX" => {
                for key in self.keys() {
                    arguments.extend([key, self.value()]);
                }
                if self.chance(8) {
                    arguments.pop();
                }
            }
            "MGET" | "DEL" | "UNLINK" | "EXISTS" | "TOUCH" => arguments.extend(self.keys()),
            "SETBIT" => arguments.extend([self.key(), self.bit_offset(), self.bit()]),
            "GETBIT" => arguments.extend([self.key(), self.bit_offset()]),
            "BITCOUNT" => {
                arguments.push(self.key());
                arguments.extend(self.bit_range());
            }
            "BITPOS" => {
                arguments.extend([self.key(), self.bit()]);
                arguments.extend(self.bit_range());
                if self.chance(4) {
                    arguments.truncate(4);
                }
            }
            "BITOP" => {
                // Redis 7 does not know those that came with 8.2.
                let operation = *self.random.pick(&["AND", "OR", "XOR", "NOT", "NOSUCH", ""].each_ref());
                arguments.extend([self.name(operation), self.key()]);
                if operation == "NOT" && !self.chance(6) {
                    arguments.push(self.key());
                } else {
                    arguments.extend(self.keys());
                }
            }
            "BITFIELD" | "BITFIELD_RO" => {
                arguments.push(self.key());
                arguments.extend(self.bitfield(name == "BITFIELD_RO"));
            }
            "INCRBY" | "DECRBY" => arguments.extend([self.key(), self.integer()]),
            "INCRBYFLOAT" => arguments.extend([self.key(), self.fraction()]),
            "GETEX" => {
                arguments.push(self.key());
                for _ in 0..[0, 1, 1, 1, 1, 2][self.random.below(6)] {
                    let option =
                        *self.random.pick(&["EX", "PX", "EXAT", "PXAT", "PERSIST", "KEEPTTL", "NOSUCH"].each_ref());
                    arguments.push(self.name(option));
                    if let Some((unit, absolute)) = unit(option).filter(|_| !self.random.next().is_multiple_of(16)) {
                        arguments.push(self.time(unit, absolute));
                    }
                }
            }
            "GETRANGE" | "SUBSTR" => arguments.extend([self.key(), self.place(), self.place()]),
            "SETRANGE" => arguments.extend([self.key(), self.place(), self.value()]),
            "LCS" => {
                arguments.extend([self.key(), self.key()]);
                for _ in 0..[0, 1, 1, 2, 2, 3][self.random.below(6)] {
                    let option =
                        *self.random.pick(&["LEN", "IDX", "IDX", "WITHMATCHLEN", "MINMATCHLEN", "NOSUCH"].each_ref());
                    arguments.push(self.name(option));
                    if option == "MINMATCHLEN" {
                        arguments.push(self.integer());
                    }
                }
            }
            "EXPIRE" | "PEXPIRE" | "EXPIREAT" | "PEXPIREAT" => {
                let (unit, absolute) = unit(name).expect("a unit");
                arguments.extend([self.key(), self.time(unit, absolute)]);
                for _ in 0..[0, 0, 0, 1, 1, 2][self.random.below(6)] {
                    let option = *self.random.pick(&["NX", "XX", "GT", "LT", "XX", "NOSUCH"].each_ref());
                    arguments.push(self.name(option));
                }
            }
            "KEYS" => arguments.push(self.random.pick(&PATTERNS).to_vec()),
            "SCAN" => {
                // A step's size is the server's own affair; all at once is not.
                arguments.extend([b"0".to_vec(), b"COUNT".to_vec(), b"10000".to_vec()]);
                if self.chance(2) {
                    arguments.extend([self.name("MATCH"), self.random.pick(&PATTERNS).to_vec()]);
                }
                if self.chance(3) {
                    arguments.extend([
                        self.name("TYPE"),
                        self.random.pick(&[b"string".as_slice(), b"STRING", b"list", b"hash"]).to_vec(),
                    ]);
                }
                if self.chance(8) {
                    arguments.push(self.random.pick(&[b"NOSUCH".as_slice(), b"COUNT", b"MATCH", b"TYPE"]).to_vec());
                }
                if self.chance(8) {
                    arguments[3] = self.integer();
                    // Which keys come first is the server's own affair too.
                    if arguments[3].iter().all(u8::is_ascii_digit) {
                        arguments[3] = b"-1".to_vec();
                    }
                }
            }
            "FLUSHDB" | "FLUSHALL" => {
                if self.chance(2) {
                    arguments.push(self.random.pick(&[b"ASYNC".as_slice(), b"sync", b"NOSUCH"]).to_vec());
                }
            }
            "SELECT" => arguments.push(self.database()),
            "RENAME" | "RENAMENX" => arguments.extend([self.key(), self.key()]),
            "MOVE" => arguments.extend([self.key(), self.database()]),
            "SWAPDB" => arguments.extend([self.database(), self.database()]),
            "COPY" => {
                arguments.extend([self.key(), self.key()]);
                for _ in 0..self.random.below(3) {
                    match self.random.below(8) {
                        0..4 => arguments.push(self.name("REPLACE")),
                        4..7 => arguments.extend([self.name("DB"), self.database()]),
                        _ => arguments.push(self.random.pick(&[b"NOSUCH".as_slice(), b"DB", b""]).to_vec()),
                    }
                }
            }
            "OBJECT" => {
                let sub =
                    *self.random.pick(&["ENCODING", "ENCODING", "IDLETIME", "REFCOUNT", "FREQ", "NOSUCH"].each_ref());
                arguments.extend([self.name(sub), self.key()]);
            }
            "RESTORE" => {
                arguments.push(self.key());
                let absolute = self.chance(3);
                arguments.push(match self.random.below(8) {
                    // Without those to which Redis adds the time of day beyond 64 bits.
                    0 => self.random.pick(&[b"-1".as_slice(), b"x", b"", b"1.5", b"-9223372036854775808"]).to_vec(),
                    1 if absolute => b"1".to_vec(),
                    2..5 => self.time(1, absolute),
                    _ => b"0".to_vec(),
                });
                if arguments[2].len() > 17 {
                    arguments[2] = b"0".to_vec();
                }
                arguments.push(self.payload());
                if absolute {
                    arguments.push(self.name("ABSTTL"));
                }
                for _ in 0..self.random.below(3) {
                    let option =
                        *self.random.pick(&["REPLACE", "REPLACE", "REPLACE", "IDLETIME", "FREQ", "NOSUCH"].each_ref());
                    arguments.push(self.name(option));
                    if matches!(option, "IDLETIME" | "FREQ") && !self.chance(8) {
                        arguments
                            .push(self.random.pick(&[b"0".as_slice(), b"5", b"255", b"256", b"-1", b"x"]).to_vec());
                    }
                }
            }
            "PING" => {
                if self.chance(2) {
                    arguments.push(self.value());
                }
            }
            "ECHO" => arguments.push(self.value()),
            "HELLO" => {
                if !self.chance(6) {
                    arguments.push(
                        self.random.pick(&[b"2".as_slice(), b"3", b"3", b"2", b"1", b"4", b"x", b"-2", b""]).to_vec(),
                    );
                }
                if self.chance(4) {
                    arguments.extend([
                        self.name("SETNAME"),
                        self.random.pick(&[b"me".as_slice(), b"", b"a b", b"you"]).to_vec(),
                    ]);
                }
                if self.chance(6) {
                    arguments.extend([
                        self.name("AUTH"),
                        self.random.pick(&[b"default".as_slice(), b"nobody"]).to_vec(),
                        b"x".to_vec(),
                    ]);
                }
                if self.chance(8) {
                    arguments.push(self.random.pick(&[b"NOSUCH".as_slice(), b"AUTH", b"SETNAME"]).to_vec());
                }
            }
            "AUTH" => {
                arguments.extend((0..1 + self.random.below(3)).map(|_| b"default".to_vec()));
            }
            "CLIENT" => {
                let rows: [&[&[u8]]; 8] = [
                    &[b"GETNAME"],
                    &[b"SETNAME", b"me"],
                    &[b"SETNAME", b""],
                    &[b"SETNAME", b"a b"],
                    &[b"ID", b"x"],
                    &[b"NOSUCH"],
                    &[b"LIST", b"TYPE", b"x"],
                    &[b"LIST", b"ID", b"x"],
                ];
                arguments.extend(self.random.pick(&rows).iter().map(|word| word.to_vec()));
            }
            "CONFIG" => {
                let rows: [&[&[u8]]; 7] = [
                    &[b"GET", b"maxclients"],
                    &[b"GET", b"nosuch"],
                    &[b"GET", b"hz", b"timeout"],
                    &[b"GET"],
                    &[b"NOSUCH"],
                    &[b"GET", b"proto-max-bulk-le?"],
                    &[b"get", b"client-output-buffer-limit"],
                ];
                arguments.extend(self.random.pick(&rows).iter().map(|word| word.to_vec()));
            }
            "COMMAND" => {
                let rows: [&[&[u8]]; 5] = [
                    &[b"INFO", b"nosuch"],
                    &[b"DOCS", b"nosuch"],
                    &[b"NOSUCH"],
                    &[b"COUNT", b"x"],
                    &[b"INFO", b"no", b"such"],
                ];
                arguments.extend(self.random.pick(&rows).iter().map(|word| word.to_vec()));
            }
            "INFO" => arguments.push(self.random.pick(&[b"keyspace".as_slice(), b"nosuch", b"KEYSPACE"]).to_vec()),
            "RANDOMKEY" | "DBSIZE" => {}
            "NOSUCH" => arguments.extend((0..self.random.below(4)).map(|_| self.value())),
            _ => arguments.push(self.key()),
        }
        // Too many and too few. Where the subcommand or option alone would list what every server has its own of, one stays.
        let own_affair = matches!(name, "SCAN" | "CLIENT" | "CONFIG" | "COMMAND" | "INFO");
        if self.chance(40) {
            arguments.push(self.value());
        } else if self.chance(40) && arguments.len() > 1 && !own_affair {
            arguments.pop();
        }
        let inline = self.chance(10) && arguments.iter().map(Vec::len).sum::<usize>() < 5000;
        Step { arguments, inline }
    }

    fn program(&mut self) -> Program {
        let steps = 1 + self.random.below(60);
        let mut program: Program = (0..steps).map(|_| self.step()).collect();
        // What is left, by every way to look at it.
        for database in ["0", "1", "2"] {
            program.extend([Step::new(&["SELECT", database]), Step::new(&["DBSIZE"]), Step::new(&["KEYS", "*"])]);
            for key in KEYS {
                program.extend(["GET", "PEXPIRETIME", "STRLEN", "DUMP"].map(|name| Step::new(&[name.as_bytes(), key])));
                program.push(Step::new(&[b"OBJECT", &b"ENCODING"[..], key]));
            }
            program.extend(hashes::KEYS.map(|key| Step::new(&[b"HGETALL", key])));
            program.extend(lists::KEYS.map(|key| Step::new(&[b"LRANGE".as_slice(), key, b"0", b"-1"])));
            program.extend(zsets::last_looks());
            program.extend(sets::KEYS.map(|key| Step::new(&[b"SMEMBERS", key])));
            program.extend(sorts::KEYS.map(|key| Step::new(&[b"LRANGE".as_slice(), key, b"0", b"-1"])));
        }
        program
    }
}

/// Milliseconds a unit, and whether since 1970, for what a deadline can follow.
fn unit(name: &str) -> Option<(u64, bool)> {
    match name {
        "EX" | "EXPIRE" => Some((1000, false)),
        "PX" | "PEXPIRE" => Some((1, false)),
        "EXAT" | "EXPIREAT" => Some((1000, true)),
        "PXAT" | "PEXPIREAT" => Some((1, true)),
        _ => None,
    }
}

/// The two connections.
struct Pair {
    ours: Client,
    oracle: Client,
}

/// A difference: at which command, and the two replies.
struct Difference {
    at: usize,
    ours: Reply,
    oracle: Reply,
}

impl Pair {
    fn new(server: &Server, oracle: &Server) -> Pair {
        Pair { ours: server.client(), oracle: oracle.client() }
    }

    /// Runs a program from empty databases in RESP2, in pipelines of up to `depth`.
    fn run(&mut self, program: &[Step], depth: usize) -> Option<Difference> {
        for client in [&mut self.ours, &mut self.oracle] {
            for line in ["FLUSHALL", "SELECT 0", "HELLO 2 SETNAME tester"] {
                assert!(!client.run(line).is_error(), "{line}");
            }
        }
        for (batch, steps) in program.chunks(depth).enumerate() {
            let bytes: Vec<u8> = steps.iter().flat_map(Step::bytes).collect();
            self.oracle.send(&bytes);
            self.ours.send(&bytes);
            let mut found = None;
            for (i, step) in steps.iter().enumerate() {
                let (oracle, ours) = (self.oracle.read(), self.ours.read());
                if found.is_none() && !same(step, &ours, &oracle) {
                    found = Some(Difference { at: batch * depth + i, ours, oracle });
                }
            }
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Leaves out what does not matter for the failure, as long as something can be left out. `None`: it does not fail again.
    fn shrink(&mut self, program: &[Step], depth: usize) -> Option<(Program, Difference)> {
        let mut program = program.to_vec();
        let mut difference = self.run(&program, depth)?;
        program.truncate(difference.at + 1);
        let mut size = program.len().div_ceil(2);
        while size > 0 {
            let mut at = 0;
            while at < program.len() {
                let mut without = program.clone();
                without.drain(at..(at + size).min(program.len()));
                match self.run(&without, depth) {
                    Some(smaller) => {
                        without.truncate(smaller.at + 1);
                        (program, difference) = (without, smaller);
                    }
                    None => at += size,
                }
            }
            size /= 2;
        }
        Some((program, difference))
    }
}

const DEADLINE_MAX_MS: i64 = (1 << 48) - 1;
/// What is left until then, for some years to come; no other time to live that a program sets is near it.
const TTL_MAX_MS: i64 = DEADLINE_MAX_MS - 4_000_000_000_000;

/// Whether two replies mean the same. Everything that may differ is here:
///
/// - what depends on the clock (TTL, PTTL, deadlines relative to now) by some seconds;
/// - deadlines after the year 10889, which Dolmen keeps as that year: an item has 48 bits for the milliseconds;
/// - the order of KEYS, SCAN and CONFIG GET, and which key RANDOMKEY draws;
/// - how many digits of a score are written, and which members of a sorted set are drawn at random;
/// - what HELLO tells of the server itself;
/// - DUMP of long strings, which Redis packs and Dolmen does not, and of collections, which Redis writes as it keeps them and Dolmen plainly;
/// - OBJECT ENCODING: small lists and sets are listpacks since Redis 7.2, and Dolmen tells the same;
/// - OBJECT REFCOUNT: Redis shares small numbers between keys; and OBJECT IDLETIME by some seconds;
/// - the texts of two errors that say the same in other words.
///
/// Programs leave out where Redis 7 is wrong: BITFIELD offsets `#n` beyond 2^64 bits, and SET of the least numbers with OVERFLOW SAT.
fn same(step: &Step, ours: &Reply, oracle: &Reply) -> bool {
    if ours == oracle {
        return true;
    }
    match (step.name().as_str(), ours, oracle) {
        ("pexpiretime", Reply::Int(a), Reply::Int(b)) if a.min(b) == &DEADLINE_MAX_MS => true,
        ("expiretime", Reply::Int(a), Reply::Int(b)) if *a.min(b) >= DEADLINE_MAX_MS / 1000 => true,
        ("pttl", Reply::Int(a), Reply::Int(b)) if *a.min(b) >= TTL_MAX_MS => true,
        ("ttl", Reply::Int(a), Reply::Int(b)) if *a.min(b) >= TTL_MAX_MS / 1000 => true,
        (_, Reply::Error(a), Reply::Error(b)) => same_error(&step.name(), a, b),
        ("ttl" | "expiretime", Reply::Int(a), Reply::Int(b)) => a.min(b) >= &0 && a.abs_diff(*b) <= 10,
        ("pttl" | "pexpiretime", Reply::Int(a), Reply::Int(b)) => a.min(b) >= &0 && a.abs_diff(*b) <= 10_000,
        ("keys", Reply::Array(a), Reply::Array(b)) => sorted(a) == sorted(b),
        ("scan", Reply::Array(a), Reply::Array(b)) => a[0] == b[0] && sorted(a[1].items()) == sorted(b[1].items()),
        ("randomkey", Reply::Bulk(_), Reply::Bulk(_)) => true,
        ("dump", Reply::Bulk(a), Reply::Bulk(b)) if b.first() != Some(&0) => dumped_kind(a) == dumped_kind(b),
        ("dump", Reply::Bulk(_), Reply::Bulk(b)) => b.get(1) == Some(&0xc3),
        ("object", Reply::Int(a), Reply::Int(b)) => *b == i64::from(i32::MAX) || a.abs_diff(*b) <= 10,
        // Ours looks at the text; Redis remembers that INCRBYFLOAT has made it.
        ("object", Reply::Bulk(a), Reply::Bulk(b)) if a == b"listpack" => b == b"quicklist" || b == b"hashtable",
        ("object", Reply::Bulk(a), Reply::Bulk(b)) => a == b"int" && b == b"embstr",
        ("hello", Reply::Array(_), Reply::Array(_)) | ("hello", Reply::Map(_), Reply::Map(_)) => {
            let told = |reply: &Reply| {
                let changing =
                    |name: &Reply| ["version", "id", "server"].iter().any(|other| name.bytes() == other.as_bytes());
                reply.pairs().into_iter().filter(|(name, _)| !changing(name)).collect::<Vec<_>>()
            };
            told(ours) == told(oracle)
        }
        ("config", Reply::Array(_), Reply::Array(_)) | ("config", Reply::Map(_), Reply::Map(_)) => {
            let told = |reply: &Reply| {
                sorted(&reply.pairs().into_iter().map(|(n, v)| Reply::Array(vec![n, v])).collect::<Vec<_>>())
            };
            told(ours) == told(oracle)
        }
        (name, _, _) if name.starts_with('h') && hashes::same(step, ours, oracle) => true,
        (name, _, _) if name.starts_with('z') || name.starts_with("bz") => zsets::same(step, ours, oracle),
        ("sort" | "sort_ro", _, _) => sorts::same(step, ours, oracle),
        (name, _, _) if name.starts_with('s') && sets::same(step, ours, oracle) => true,
        ("info", _, _) => keyspace(ours) == keyspace(oracle),
        _ => false,
    }
}

/// The type of a dumped collection, whatever its encoding.
fn dumped_kind(payload: &[u8]) -> Option<&'static str> {
    match payload.first()? {
        1 | 10 | 14 | 18 => Some("list"),
        2 | 11 | 20 => Some("set"),
        3 | 5 | 12 | 17 => Some("zset"),
        4 | 9 | 13 | 16 => Some("hash"),
        _ => None,
    }
}

fn same_error(name: &str, ours: &str, oracle: &str) -> bool {
    match name {
        // Redis says "is out of range, value must between ..." when it is a number.
        "select" => [ours, oracle].iter().all(|text| text.starts_with("ERR value is ")),
        _ => false,
    }
}

fn sorted(replies: &[Reply]) -> Vec<String> {
    let mut texts: Vec<String> = replies.iter().map(Reply::to_string).collect();
    texts.sort();
    texts
}

/// INFO keyspace without the average time to live, and the type of the reply.
fn keyspace(reply: &Reply) -> (bool, Vec<String>) {
    let text = reply.text();
    let lines = text.lines().map(|line| line.split(",avg_ttl=").next().expect("a first part").to_string());
    (matches!(reply, Reply::Verbatim(..)), lines.collect())
}

/// A reply in the notation of scripts, or its beginning.
fn cut(reply: &Reply) -> String {
    let text = reply.to_string();
    if text.chars().count() > 600 { text.chars().take(600).chain("...".chars()).collect() } else { text }
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is a number, not {text:?}")))
}

/// Random requests of one client, as bytes, `commands` at least.
pub fn requests(seed: u64, commands: usize) -> Vec<Vec<u8>> {
    let mut author = Author { random: Random(seed) };
    let mut all = Vec::new();
    while all.len() < commands {
        all.extend(author.program().iter().filter(|step| !step.inline).map(Step::bytes));
    }
    all
}

#[test]
fn random_programs_like_redis() {
    let Some(oracle) = Server::oracle() else { return skip("random_programs_like_redis", "there is no redis-server") };
    let server = Server::start();
    let mut pair = Pair::new(&server, &oracle);
    let seed = number("DOLMEN_DIFF_SEED").unwrap_or(20_261_130);
    let commands = usize::try_from(number("DOLMEN_DIFF_COMMANDS").unwrap_or(20_000)).expect("a count");
    let (mut sent, mut round) = (0, 0);
    while sent < commands {
        // A program depends on its own seed only, so that it can be repeated alone.
        let own = seed.wrapping_add(round);
        let mut author = Author { random: Random(own) };
        let depth = [1, 2, 5, 16, 100][author.random.below(5)];
        let program = author.program();
        if let Some(first) = pair.run(&program, depth) {
            let mut fresh = Pair::new(&server, &oracle);
            let (small, difference) = fresh.shrink(&program, depth).unwrap_or_else(|| {
                panic!(
                    "the servers differed once, and not again (DOLMEN_DIFF_SEED={own}, pipelines of {depth}), in\n    {}\n  ours:  {}\n  redis: {}",
                    program[first.at].show(),
                    cut(&first.ours),
                    cut(&first.oracle),
                )
            });
            let lines: Vec<String> = small.iter().map(Step::show).collect();
            panic!(
                "the servers differ (DOLMEN_DIFF_SEED={own}, pipelines of {depth}):\n    {}\n  ours:  {}\n  redis: {}",
                lines.join("\n    "),
                cut(&difference.ours),
                cut(&difference.oracle),
            );
        }
        (sent, round) = (sent + program.len(), round + 1);
    }
}

/// The tester itself: a difference is found and shrunk to the commands that matter.
#[test]
fn a_difference_is_found_and_shrunk() {
    let Some(oracle) = Server::oracle() else {
        return skip("a_difference_is_found_and_shrunk", "there is no redis-server");
    };
    let second = Server::oracle().expect("a second one");
    // Two servers that do differ: by the time they have been told to sleep for, nothing else; a name tells them apart instead.
    let mut pair = Pair::new(&second, &oracle);
    let noise = |i: usize| Step::new(&["SET", &format!("k{i}"), "v"]);
    let mut program: Program = (0..30).map(noise).collect();
    program.insert(11, Step::new(&["CLIENT", "GETNAME"]));
    program.insert(20, Step::new(&["CONFIG", "GET", "port"]));
    let found = pair.run(&program, 5).expect("the ports differ");
    assert_eq!(found.at, 20);
    let (small, difference) = pair.shrink(&program, 5).expect("the program fails again");
    assert_eq!(small.iter().map(Step::show).collect::<Vec<_>>(), ["CONFIG GET port"]);
    assert_ne!(difference.ours, difference.oracle);
}
