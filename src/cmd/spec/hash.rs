//! Rows of the hash group.

use super::doc::{ArgDoc, Doc, DocFlags, Group, KEY, VALUE, block, double, integer, pattern, string, word};
use super::{Categories, Flags, KeyFlags, KeySpec, Row};

const HASH: Doc = Doc { group: Group::Hash, since: "2.0.0", ..Doc::BASE };
const FAST_READ: Flags = Flags::of(&[Flags::READONLY, Flags::FAST]);
const FAST_WRITE: Flags = Flags::of(&[Flags::WRITE, Flags::FAST]);
/// Of commands that may need memory.
const FAST_GROW: Flags = Flags::of(&[FAST_WRITE, Flags::DENYOOM]);

const READ: &[KeySpec] = &[KeySpec::one(KeyFlags::of(&[KeyFlags::RO, KeyFlags::ACCESS]))];
/// Tells about the hash, but nothing that is in it.
const LOOK: &[KeySpec] = &[KeySpec::one(KeyFlags::RO)];
const UPDATE: &[KeySpec] = &[KeySpec::one(KeyFlags::of(&[KeyFlags::RW, KeyFlags::UPDATE]))];
const ADD: &[KeySpec] = &[KeySpec::one(KeyFlags::of(&[KeyFlags::RW, KeyFlags::ACCESS, KeyFlags::UPDATE]))];

const FIELD: ArgDoc = string("field");
const FIELD_VALUES: ArgDoc = block("field_value", &[FIELD, VALUE]).multiple();
const UNORDERED: &[&str] = &["nondeterministic_output_order"];
const RANDOM: &[&str] = &["nondeterministic_output"];

const fn row(name: &'static str, arity: i16, flags: Flags, key_specs: &'static [KeySpec], doc: &'static Doc) -> Row {
    Row { name, arity, flags, categories: Categories::HASH, key_specs, doc }
}

pub const HSET: Row = row(
    "hset",
    -4,
    FAST_GROW,
    UPDATE,
    &Doc {
        summary: "Stores values in fields of a hash, which is made if there is none",
        complexity: "O(N) in the number of fields given",
        history: &[("4.0.0", "Several fields and values")],
        args: &[KEY, FIELD_VALUES],
        ..HASH
    },
);

pub const HMSET: Row = row(
    "hmset",
    -4,
    FAST_GROW,
    UPDATE,
    &Doc {
        summary: "Stores values in fields of a hash",
        complexity: "O(N) in the number of fields given",
        flags: DocFlags::DEPRECATED,
        deprecated_since: Some("4.0.0"),
        replaced_by: Some("`HSET` with multiple field-value pairs"),
        args: &[KEY, FIELD_VALUES],
        ..HASH
    },
);

pub const HSETNX: Row = row(
    "hsetnx",
    4,
    FAST_GROW,
    &[KeySpec::one(KeyFlags::of(&[KeyFlags::RW, KeyFlags::INSERT]))],
    &Doc {
        summary: "Stores a value in a field of a hash unless the field is there",
        args: &[KEY, FIELD, VALUE],
        ..HASH
    },
);

pub const HGET: Row = row(
    "hget",
    3,
    FAST_READ,
    READ,
    &Doc { summary: "Returns the value of a field of a hash, or null", args: &[KEY, FIELD], ..HASH },
);

pub const HMGET: Row = row(
    "hmget",
    -3,
    FAST_READ,
    READ,
    &Doc {
        summary: "Returns the values of fields of a hash, null for those that are not there",
        complexity: "O(N) in the number of fields given",
        args: &[KEY, FIELD.multiple()],
        ..HASH
    },
);

pub const HGETALL: Row = row(
    "hgetall",
    2,
    Flags::READONLY,
    READ,
    &Doc {
        summary: "Returns all fields of a hash with their values",
        complexity: "O(N) in the size of the hash",
        args: &[KEY],
        tips: UNORDERED,
        ..HASH
    },
);

pub const HKEYS: Row = row(
    "hkeys",
    2,
    Flags::READONLY,
    READ,
    &Doc {
        summary: "Returns all fields of a hash",
        complexity: "O(N) in the size of the hash",
        args: &[KEY],
        tips: UNORDERED,
        ..HASH
    },
);

pub const HVALS: Row = row(
    "hvals",
    2,
    Flags::READONLY,
    READ,
    &Doc {
        summary: "Returns all values of a hash",
        complexity: "O(N) in the size of the hash",
        args: &[KEY],
        tips: UNORDERED,
        ..HASH
    },
);

pub const HDEL: Row = row(
    "hdel",
    -3,
    FAST_WRITE,
    &[KeySpec::one(KeyFlags::of(&[KeyFlags::RW, KeyFlags::DELETE]))],
    &Doc {
        summary: "Removes fields of a hash, and the hash with the last of them",
        complexity: "O(N) in the number of fields given",
        history: &[("2.4.0", "Several fields")],
        args: &[KEY, FIELD.multiple()],
        ..HASH
    },
);

pub const HEXISTS: Row = row(
    "hexists",
    3,
    FAST_READ,
    LOOK,
    &Doc { summary: "Tells whether a field is in a hash", args: &[KEY, FIELD], ..HASH },
);

pub const HLEN: Row =
    row("hlen", 2, FAST_READ, LOOK, &Doc { summary: "Returns the number of fields of a hash", args: &[KEY], ..HASH });

pub const HSTRLEN: Row = row(
    "hstrlen",
    3,
    FAST_READ,
    LOOK,
    &Doc {
        summary: "Returns the length of the value of a field of a hash",
        since: "3.2.0",
        args: &[KEY, FIELD],
        ..HASH
    },
);

pub const HINCRBY: Row = row(
    "hincrby",
    4,
    FAST_GROW,
    ADD,
    &Doc {
        summary: "Adds an integer to the value of a field of a hash",
        args: &[KEY, FIELD, integer("increment")],
        ..HASH
    },
);

pub const HINCRBYFLOAT: Row = row(
    "hincrbyfloat",
    4,
    FAST_GROW,
    ADD,
    &Doc {
        summary: "Adds a number with a fraction to the value of a field of a hash",
        since: "2.6.0",
        args: &[KEY, FIELD, double("increment")],
        ..HASH
    },
);

pub const HRANDFIELD: Row = row(
    "hrandfield",
    -2,
    Flags::READONLY,
    READ,
    &Doc {
        summary: "Returns random fields of a hash, with their values if asked",
        since: "6.2.0",
        complexity: "O(N) in the number of fields returned",
        args: &[KEY, block("options", &[integer("count"), word("withvalues", "WITHVALUES").optional()]).optional()],
        tips: RANDOM,
        ..HASH
    },
);

pub const HSCAN: Row = row(
    "hscan",
    -3,
    Flags::READONLY,
    READ,
    &Doc {
        summary: "Goes through the fields of a hash in steps",
        since: "2.8.0",
        complexity: "O(1) a step, O(N) in the size of the hash for all of them",
        args: &[
            KEY,
            integer("cursor"),
            pattern("pattern").token("MATCH").optional(),
            integer("count").token("COUNT").optional(),
            word("novalues", "NOVALUES").since("7.4.0").optional(),
        ],
        tips: RANDOM,
        ..HASH
    },
);
