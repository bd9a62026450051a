//! Rows of the string group.

use super::doc::{
    ArgDoc, Doc, DocFlags, Group, KEY, VALUE, block, double, integer, key, one_of, string, unix_time, word,
};
use super::{Begin, Categories, Find, Flags, KeyFlags, KeySpec, Row};

const STRING: Doc = Doc { group: Group::String, ..Doc::BASE };
const FAST_READ: Flags = Flags::of(&[Flags::READONLY, Flags::FAST]);
/// Of commands that may need memory.
const GROW: Flags = Flags::of(&[Flags::WRITE, Flags::DENYOOM]);
const FAST_GROW: Flags = Flags::of(&[GROW, Flags::FAST]);

const OVERWRITE: KeyFlags = KeyFlags::of(&[KeyFlags::OW, KeyFlags::UPDATE]);
/// Changes the value and returns what it was or became.
const EXCHANGE: KeyFlags = KeyFlags::of(&[KeyFlags::RW, KeyFlags::ACCESS, KeyFlags::UPDATE]);
const READ: KeyFlags = KeyFlags::of(&[KeyFlags::RO, KeyFlags::ACCESS]);

pub const GET: Row = Row {
    name: "get",
    arity: 2,
    flags: FAST_READ,
    categories: Categories::STRING,
    key_specs: &[KeySpec::one(READ)],
    doc: &Doc { summary: "Returns the string at a key, or null", args: &[KEY], ..STRING },
};

pub const SET: Row = Row {
    name: "set",
    arity: -3,
    flags: GROW,
    categories: Categories::STRING,
    key_specs: &[KeySpec {
        notes: Some("With the option GET the command also reads the key, without it only writes"),
        refine: Some(set_key_flags),
        ..KeySpec::one(KeyFlags::of(&[EXCHANGE, KeyFlags::VARIABLE_FLAGS]))
    }],
    doc: &Doc {
        summary: "Stores a string at a key whatever was there, under a condition and with a deadline if asked",
        history: &[
            ("2.6.12", "New options `EX`, `PX`, `NX`, `XX`"),
            ("6.0.0", "New option `KEEPTTL`"),
            ("6.2.0", "New options `GET`, `EXAT`, `PXAT`"),
            ("7.0.0", "`NX` and `GET` can be combined"),
        ],
        args: &[
            KEY,
            VALUE,
            one_of(
                "condition",
                &[
                    word("nx", "NX"),
                    word("xx", "XX"),
                    string("ifeq-value").token("IFEQ").since("8.4.0"),
                    string("ifne-value").token("IFNE").since("8.4.0"),
                    string("ifdeq-digest").token("IFDEQ").since("8.4.0"),
                    string("ifdne-digest").token("IFDNE").since("8.4.0"),
                ],
            )
            .since("2.6.12")
            .optional(),
            word("get", "GET").since("6.2.0").optional(),
            one_of(
                "expiration",
                &[
                    integer("seconds").token("EX").since("2.6.12"),
                    integer("milliseconds").token("PX").since("2.6.12"),
                    unix_time("unix-time-seconds").token("EXAT").since("6.2.0"),
                    unix_time("unix-time-milliseconds").token("PXAT").since("6.2.0"),
                    word("keepttl", "KEEPTTL").since("6.0.0"),
                ],
            )
            .optional(),
        ],
        ..STRING
    },
};

/// SET reads its key only with the option GET, or to compare its value.
fn set_key_flags(argv: &[&[u8]]) -> KeyFlags {
    let words: [&[u8]; 5] = [b"get", b"ifeq", b"ifne", b"ifdeq", b"ifdne"];
    let reads = argv.iter().skip(3).any(|option| words.iter().any(|word| option.eq_ignore_ascii_case(word)));
    if reads { EXCHANGE } else { OVERWRITE }
}

pub const SETNX: Row = Row {
    name: "setnx",
    arity: 3,
    flags: FAST_GROW,
    categories: Categories::STRING,
    key_specs: &[KeySpec::one(KeyFlags::of(&[KeyFlags::OW, KeyFlags::INSERT]))],
    doc: &Doc {
        summary: "Stores a string at a key unless the key exists",
        flags: DocFlags::DEPRECATED,
        deprecated_since: Some("2.6.12"),
        replaced_by: Some("`SET` with `NX`"),
        args: &[KEY, VALUE],
        ..STRING
    },
};

pub const SETEX: Row = Row {
    name: "setex",
    arity: 4,
    flags: GROW,
    categories: Categories::STRING,
    key_specs: &[KeySpec::one(OVERWRITE)],
    doc: &Doc {
        summary: "Stores a string at a key for a number of seconds",
        since: "2.0.0",
        flags: DocFlags::DEPRECATED,
        deprecated_since: Some("2.6.12"),
        replaced_by: Some("`SET` with `EX`"),
        args: &[KEY, integer("seconds"), VALUE],
        ..STRING
    },
};

pub const PSETEX: Row = Row {
    name: "psetex",
    arity: 4,
    flags: GROW,
    categories: Categories::STRING,
    key_specs: &[KeySpec::one(OVERWRITE)],
    doc: &Doc {
        summary: "Stores a string at a key for a number of milliseconds",
        since: "2.6.0",
        flags: DocFlags::DEPRECATED,
        deprecated_since: Some("2.6.12"),
        replaced_by: Some("`SET` with `PX`"),
        args: &[KEY, integer("milliseconds"), VALUE],
        ..STRING
    },
};

pub const GETSET: Row = Row {
    name: "getset",
    arity: 3,
    flags: FAST_GROW,
    categories: Categories::STRING,
    key_specs: &[KeySpec::one(EXCHANGE)],
    doc: &Doc {
        summary: "Stores a string at a key and returns the string that was there",
        flags: DocFlags::DEPRECATED,
        deprecated_since: Some("6.2.0"),
        replaced_by: Some("`SET` with `GET`"),
        args: &[KEY, VALUE],
        ..STRING
    },
};

pub const GETDEL: Row = Row {
    name: "getdel",
    arity: 2,
    flags: Flags::of(&[Flags::WRITE, Flags::FAST]),
    categories: Categories::STRING,
    key_specs: &[KeySpec::one(KeyFlags::of(&[KeyFlags::RW, KeyFlags::ACCESS, KeyFlags::DELETE]))],
    doc: &Doc { summary: "Returns the string at a key and deletes the key", since: "6.2.0", args: &[KEY], ..STRING },
};

pub const MSET: Row = Row {
    name: "mset",
    arity: -3,
    flags: GROW,
    categories: Categories::STRING,
    key_specs: &[KeySpec::every(2, OVERWRITE)],
    doc: &Doc {
        summary: "Stores many strings, each at its key, in one step",
        since: "1.0.1",
        complexity: "O(N) in the number of keys",
        args: &[block("key_value", &[KEY, VALUE]).multiple()],
        tips: &["request_policy:multi_shard", "response_policy:all_succeeded"],
        ..STRING
    },
};

pub const MGET: Row = Row {
    name: "mget",
    arity: -2,
    flags: FAST_READ,
    categories: Categories::STRING,
    key_specs: &[KeySpec::every(1, READ)],
    doc: &Doc {
        summary: "Returns the strings at many keys, null where there is none",
        complexity: "O(N) in the number of keys",
        args: &[KEY.multiple()],
        tips: &["request_policy:multi_shard"],
        ..STRING
    },
};

pub const STRLEN: Row = Row {
    name: "strlen",
    arity: 2,
    flags: FAST_READ,
    categories: Categories::STRING,
    key_specs: &[KeySpec::one(KeyFlags::RO)],
    doc: &Doc { summary: "Returns the length of the string at a key in bytes", since: "2.2.0", args: &[KEY], ..STRING },
};

pub const APPEND: Row = Row {
    name: "append",
    arity: 3,
    flags: FAST_GROW,
    categories: Categories::STRING,
    key_specs: &[KeySpec::one(KeyFlags::of(&[KeyFlags::RW, KeyFlags::INSERT]))],
    doc: &Doc {
        summary: "Adds bytes to the end of the string at a key, creating it if need be",
        since: "2.0.0",
        complexity: "O(1), amortized over many small appends: the string grows with room to spare",
        args: &[KEY, VALUE],
        ..STRING
    },
};

pub const INCR: Row = Row {
    name: "incr",
    arity: 2,
    flags: FAST_GROW,
    categories: Categories::STRING,
    key_specs: &[KeySpec::one(EXCHANGE)],
    doc: &Doc { summary: "Adds one to the integer at a key, which counts as 0 if missing", args: &[KEY], ..STRING },
};

pub const DECR: Row = Row {
    name: "decr",
    arity: 2,
    flags: FAST_GROW,
    categories: Categories::STRING,
    key_specs: &[KeySpec::one(EXCHANGE)],
    doc: &Doc {
        summary: "Subtracts one from the integer at a key, which counts as 0 if missing",
        args: &[KEY],
        ..STRING
    },
};

pub const INCRBY: Row = Row {
    name: "incrby",
    arity: 3,
    flags: FAST_GROW,
    categories: Categories::STRING,
    key_specs: &[KeySpec::one(EXCHANGE)],
    doc: &Doc {
        summary: "Adds to the integer at a key, which counts as 0 if missing",
        args: &[KEY, integer("increment")],
        ..STRING
    },
};

pub const DECRBY: Row = Row {
    name: "decrby",
    arity: 3,
    flags: FAST_GROW,
    categories: Categories::STRING,
    key_specs: &[KeySpec::one(EXCHANGE)],
    doc: &Doc {
        summary: "Subtracts from the integer at a key, which counts as 0 if missing",
        args: &[KEY, integer("decrement")],
        ..STRING
    },
};

pub const INCRBYFLOAT: Row = Row {
    name: "incrbyfloat",
    arity: 3,
    flags: FAST_GROW,
    categories: Categories::STRING,
    key_specs: &[KeySpec::one(EXCHANGE)],
    doc: &Doc {
        summary: "Adds to the number at a key, which counts as 0 if missing",
        since: "2.6.0",
        args: &[KEY, double("increment")],
        ..STRING
    },
};

pub const GETEX: Row = Row {
    name: "getex",
    arity: -2,
    flags: Flags::of(&[Flags::WRITE, Flags::FAST]),
    categories: Categories::STRING,
    key_specs: &[KeySpec { notes: Some("The command changes when the key expires"), ..KeySpec::one(EXCHANGE) }],
    doc: &Doc {
        summary: "Returns the string at a key, with a new deadline or none if asked",
        since: "6.2.0",
        args: &[
            KEY,
            one_of(
                "expiration",
                &[
                    integer("seconds").token("EX"),
                    integer("milliseconds").token("PX"),
                    unix_time("unix-time-seconds").token("EXAT"),
                    unix_time("unix-time-milliseconds").token("PXAT"),
                    word("persist", "PERSIST"),
                ],
            )
            .optional(),
        ],
        ..STRING
    },
};

const PART: &[ArgDoc] = &[KEY, integer("start"), integer("end")];

pub const GETRANGE: Row = Row {
    name: "getrange",
    arity: 4,
    flags: Flags::READONLY,
    categories: Categories::STRING,
    key_specs: &[KeySpec::one(READ)],
    doc: &Doc {
        summary: "Returns a part of the string at a key",
        since: "2.4.0",
        complexity: "O(N) in the length of the part up to 16 KB, O(1) above",
        args: PART,
        ..STRING
    },
};

pub const SUBSTR: Row = Row {
    name: "substr",
    doc: &Doc {
        summary: "Returns a part of the string at a key",
        since: "1.0.0",
        flags: DocFlags::DEPRECATED,
        deprecated_since: Some("2.0.0"),
        replaced_by: Some("`GETRANGE`"),
        args: PART,
        ..STRING
    },
    ..GETRANGE
};

pub const SETRANGE: Row = Row {
    name: "setrange",
    arity: 4,
    flags: GROW,
    categories: Categories::STRING,
    key_specs: &[KeySpec::one(KeyFlags::of(&[KeyFlags::RW, KeyFlags::UPDATE]))],
    doc: &Doc {
        summary: "Overwrites a part of the string at a key, with zeros before it if the string is too short",
        since: "2.2.0",
        complexity: "O(N) in the length of the value; zeros in front of it cost next to nothing",
        args: &[KEY, integer("offset"), VALUE],
        ..STRING
    },
};

pub const MSETNX: Row = Row {
    name: "msetnx",
    arity: -3,
    flags: GROW,
    categories: Categories::STRING,
    key_specs: &[KeySpec::every(2, KeyFlags::of(&[KeyFlags::OW, KeyFlags::INSERT]))],
    doc: &Doc {
        summary: "Stores many strings, each at its key, unless one of the keys exists",
        since: "1.0.1",
        complexity: "O(N) in the number of keys",
        args: &[block("key_value", &[KEY, VALUE]).multiple()],
        tips: &["request_policy:multi_shard", "response_policy:agg_min"],
        ..STRING
    },
};

/// As Redis 8.4 has it.
pub const MSETEX: Row = Row {
    name: "msetex",
    arity: -4,
    flags: Flags::of(&[GROW, Flags::MOVABLEKEYS]),
    categories: Categories::STRING,
    key_specs: &[KeySpec::new(OVERWRITE, Begin::Index(1), Find::KeyNum { count: 0, first: 1, step: 2 })],
    doc: &Doc {
        summary: "Stores many strings, each at its key, in one step, under a condition and with a deadline if asked",
        since: "8.4.0",
        complexity: "O(N) in the number of keys",
        args: &[
            integer("numkeys"),
            block("data", &[KEY, VALUE]).multiple(),
            one_of("condition", &[word("nx", "NX"), word("xx", "XX")]).optional(),
            one_of(
                "expiration",
                &[
                    integer("seconds").token("EX"),
                    integer("milliseconds").token("PX"),
                    unix_time("unix-time-seconds").token("EXAT"),
                    unix_time("unix-time-milliseconds").token("PXAT"),
                    word("keepttl", "KEEPTTL"),
                ],
            )
            .optional(),
        ],
        tips: &["request_policy:multi_shard", "response_policy:all_succeeded"],
        ..STRING
    },
};

pub const LCS: Row = Row {
    name: "lcs",
    arity: -3,
    flags: Flags::READONLY,
    categories: Categories::STRING,
    key_specs: &[KeySpec::new(READ, Begin::Index(1), Find::Range { last: 1, step: 1, limit: 0 })],
    doc: &Doc {
        summary: "Returns the longest common subsequence of the strings at two keys",
        since: "7.0.0",
        complexity: "O(N*M) in the lengths of the two strings",
        args: &[
            key("key1", 0),
            key("key2", 0),
            word("len", "LEN").optional(),
            word("idx", "IDX").optional(),
            integer("len").token("MINMATCHLEN").optional(),
            word("withmatchlen", "WITHMATCHLEN").optional(),
        ],
        ..STRING
    },
};

/// As Redis 8.4 has it.
pub const DIGEST: Row = Row {
    name: "digest",
    arity: 2,
    flags: FAST_READ,
    categories: Categories::STRING,
    key_specs: &[KeySpec::one(READ)],
    doc: &Doc {
        summary: "Returns the digest of the string at a key: XXH3 of 64 bits, in hexadecimal",
        since: "8.4.0",
        complexity: "O(N) in the length of the string",
        args: &[KEY],
        ..STRING
    },
};

/// As Redis 8.4 has it.
pub const DELEX: Row = Row {
    name: "delex",
    arity: -2,
    flags: Flags::of(&[Flags::WRITE, Flags::FAST]),
    categories: Categories::STRING,
    key_specs: &[KeySpec {
        refine: Some(delex_key_flags),
        ..KeySpec::one(KeyFlags::of(&[KeyFlags::RW, KeyFlags::DELETE, KeyFlags::VARIABLE_FLAGS]))
    }],
    doc: &Doc {
        summary: "Deletes a key, if its string or the digest of that is (or is not) what is given",
        since: "8.4.0",
        complexity: "O(N) in the length of the string",
        args: &[
            KEY,
            one_of(
                "condition",
                &[
                    string("ifeq-value").token("IFEQ"),
                    string("ifne-value").token("IFNE"),
                    string("ifdeq-digest").token("IFDEQ"),
                    string("ifdne-digest").token("IFDNE"),
                ],
            )
            .optional(),
        ],
        ..STRING
    },
};

/// Without a condition DELEX only removes.
fn delex_key_flags(argv: &[&[u8]]) -> KeyFlags {
    let access = if argv.len() > 2 { KeyFlags::RW } else { KeyFlags::RM };
    KeyFlags::of(&[access, KeyFlags::DELETE])
}

/// As Valkey 9 has it.
pub const DELIFEQ: Row = Row {
    name: "delifeq",
    arity: 3,
    flags: Flags::of(&[Flags::WRITE, Flags::FAST]),
    categories: Categories::STRING,
    key_specs: &[KeySpec::one(KeyFlags::of(&[KeyFlags::RM, KeyFlags::ACCESS, KeyFlags::DELETE]))],
    doc: &Doc {
        summary: "Deletes a key if its string is the given one",
        since: "9.0.0",
        complexity: "O(N) in the length of the string",
        args: &[KEY, VALUE],
        ..STRING
    },
};
