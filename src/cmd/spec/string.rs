//! Rows of the string group.

use super::doc::{Doc, DocFlags, Group, KEY, VALUE, block, integer, one_of, unix_time, word};
use super::{Categories, Flags, KeyFlags, KeySpec, Row};

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
            one_of("condition", &[word("nx", "NX"), word("xx", "XX")]).since("2.6.12").optional(),
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

/// SET reads its key only with the option GET.
fn set_key_flags(argv: &[&[u8]]) -> KeyFlags {
    let reads = argv.iter().skip(3).any(|option| option.eq_ignore_ascii_case(b"get"));
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
