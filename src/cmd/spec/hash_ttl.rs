//! Rows of the hash group, continued: deadlines of fields. Redis 7.0 has none of these; the facts are those of 8.0.

use super::doc::{ArgDoc, Doc, Group, KEY, VALUE, block, integer, one_of, string, unix_time, word};
use super::{Categories, Flags, KeyFlags, KeySpec, Row};

const SINCE_7_4: Doc = Doc { group: Group::Hash, since: "7.4.0", complexity: PER_FIELD, ..Doc::BASE };
const SINCE_8: Doc = Doc { since: "8.0.0", ..SINCE_7_4 };
const PER_FIELD: &str = "O(N) in the number of fields given";

const FAST_READ: Flags = Flags::of(&[Flags::READONLY, Flags::FAST]);
const FAST_WRITE: Flags = Flags::of(&[Flags::WRITE, Flags::FAST]);
const FAST_GROW: Flags = Flags::of(&[FAST_WRITE, Flags::DENYOOM]);

const READ: &[KeySpec] = &[KeySpec::one(KeyFlags::of(&[KeyFlags::RO, KeyFlags::ACCESS]))];
const UPDATE: &[KeySpec] = &[KeySpec::one(KeyFlags::of(&[KeyFlags::RW, KeyFlags::UPDATE]))];

const CONDITION: ArgDoc =
    one_of("condition", &[word("nx", "NX"), word("xx", "XX"), word("gt", "GT"), word("lt", "LT")]).optional();
const FIELDS: ArgDoc = block("fields", &[integer("numfields"), string("field").multiple()]).token("FIELDS");
const SECONDS: ArgDoc = integer("seconds").token("EX");
const MILLISECONDS: ArgDoc = integer("milliseconds").token("PX");
const UNIX_SECONDS: ArgDoc = unix_time("unix-time-seconds").token("EXAT");
const UNIX_MILLISECONDS: ArgDoc = unix_time("unix-time-milliseconds").token("PXAT");
const TIME_GOES_ON: &[&str] = &["nondeterministic_output"];

const fn row(name: &'static str, arity: i16, flags: Flags, key_specs: &'static [KeySpec], doc: &'static Doc) -> Row {
    Row { name, arity, flags, categories: Categories::HASH, key_specs, doc }
}

pub const HEXPIRE: Row = row(
    "hexpire",
    -6,
    FAST_GROW,
    UPDATE,
    &Doc {
        summary: "Lets fields of a hash expire in a number of seconds",
        args: &[KEY, integer("seconds"), CONDITION, FIELDS],
        ..SINCE_7_4
    },
);

pub const HPEXPIRE: Row = row(
    "hpexpire",
    -6,
    FAST_GROW,
    UPDATE,
    &Doc {
        summary: "Lets fields of a hash expire in a number of milliseconds",
        args: &[KEY, integer("milliseconds"), CONDITION, FIELDS],
        ..SINCE_7_4
    },
);

pub const HEXPIREAT: Row = row(
    "hexpireat",
    -6,
    FAST_GROW,
    UPDATE,
    &Doc {
        summary: "Lets fields of a hash expire at a Unix time in seconds",
        args: &[KEY, unix_time("unix-time-seconds"), CONDITION, FIELDS],
        ..SINCE_7_4
    },
);

pub const HPEXPIREAT: Row = row(
    "hpexpireat",
    -6,
    FAST_GROW,
    UPDATE,
    &Doc {
        summary: "Lets fields of a hash expire at a Unix time in milliseconds",
        args: &[KEY, unix_time("unix-time-milliseconds"), CONDITION, FIELDS],
        ..SINCE_7_4
    },
);

pub const HTTL: Row = row(
    "httl",
    -5,
    FAST_READ,
    READ,
    &Doc {
        summary: "Returns in how many seconds fields of a hash expire",
        args: &[KEY, FIELDS],
        tips: TIME_GOES_ON,
        ..SINCE_7_4
    },
);

pub const HPTTL: Row = row(
    "hpttl",
    -5,
    FAST_READ,
    READ,
    &Doc {
        summary: "Returns in how many milliseconds fields of a hash expire",
        args: &[KEY, FIELDS],
        tips: TIME_GOES_ON,
        ..SINCE_7_4
    },
);

pub const HEXPIRETIME: Row = row(
    "hexpiretime",
    -5,
    FAST_READ,
    READ,
    &Doc {
        summary: "Returns the Unix time in seconds at which fields of a hash expire",
        args: &[KEY, FIELDS],
        ..SINCE_7_4
    },
);

pub const HPEXPIRETIME: Row = row(
    "hpexpiretime",
    -5,
    FAST_READ,
    READ,
    &Doc {
        summary: "Returns the Unix time in milliseconds at which fields of a hash expire",
        args: &[KEY, FIELDS],
        ..SINCE_7_4
    },
);

pub const HPERSIST: Row = row(
    "hpersist",
    -5,
    FAST_WRITE,
    UPDATE,
    &Doc { summary: "Lets fields of a hash live until they are deleted", args: &[KEY, FIELDS], ..SINCE_7_4 },
);

pub const HGETEX: Row = row(
    "hgetex",
    -5,
    FAST_WRITE,
    UPDATE,
    &Doc {
        summary: "Returns the values of fields of a hash, and sets or takes away their deadlines if asked",
        args: &[
            KEY,
            one_of("expiration", &[SECONDS, MILLISECONDS, UNIX_SECONDS, UNIX_MILLISECONDS, word("persist", "PERSIST")])
                .optional(),
            FIELDS,
        ],
        ..SINCE_8
    },
);

pub const HSETEX: Row = row(
    "hsetex",
    -6,
    FAST_GROW,
    UPDATE,
    &Doc {
        summary: "Stores values in fields of a hash, under a condition and with a deadline if asked",
        args: &[
            KEY,
            one_of("condition", &[word("fnx", "FNX"), word("fxx", "FXX")]).optional(),
            one_of("expiration", &[SECONDS, MILLISECONDS, UNIX_SECONDS, UNIX_MILLISECONDS, word("keepttl", "KEEPTTL")])
                .optional(),
            block("fields", &[integer("numfields"), block("data", &[string("field"), VALUE]).multiple()])
                .token("FIELDS"),
        ],
        ..SINCE_8
    },
);

pub const HGETDEL: Row = row(
    "hgetdel",
    -5,
    FAST_WRITE,
    &[KeySpec::one(KeyFlags::of(&[KeyFlags::RW, KeyFlags::ACCESS, KeyFlags::DELETE]))],
    &Doc { summary: "Returns the values of fields of a hash, and deletes the fields", args: &[KEY, FIELDS], ..SINCE_8 },
);
