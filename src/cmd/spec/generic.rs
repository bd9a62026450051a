//! Rows of the generic group: keys of any type.

use super::doc::{ArgDoc, Doc, Group, KEY, block, integer, key, one_of, pattern, string, unix_time, word};
use super::{Begin, Categories, Find, Flags, KeyFlags, KeySpec, Row};

const GENERIC: Doc = Doc { group: Group::Generic, ..Doc::BASE };
const FAST_READ: Flags = Flags::of(&[Flags::READONLY, Flags::FAST]);
const FAST_WRITE: Flags = Flags::of(&[Flags::WRITE, Flags::FAST]);
/// Of walks over the whole database.
const WALK: Flags = Flags::READONLY;

const READ: KeyFlags = KeyFlags::of(&[KeyFlags::RO, KeyFlags::ACCESS]);
const REMOVE: KeyFlags = KeyFlags::of(&[KeyFlags::RM, KeyFlags::DELETE]);
/// Of commands that set or drop the deadline.
const DEADLINE: KeyFlags = KeyFlags::of(&[KeyFlags::RW, KeyFlags::UPDATE]);

/// Key names that depend on what is at the first key.
const BY_AND_GET: KeySpec = KeySpec {
    notes: Some("The patterns of BY and GET name keys after what is found at the first one"),
    ..KeySpec::new(READ, Begin::Unknown, Find::Unknown)
};

/// NX, XX, GT, LT of the EXPIRE family.
const CONDITION: ArgDoc =
    one_of("condition", &[word("nx", "NX"), word("xx", "XX"), word("gt", "GT"), word("lt", "LT")])
        .since("7.0.0")
        .optional();
const CONDITION_CAME: &[(&str, &str)] = &[("7.0.0", "New options `NX`, `XX`, `GT`, `LT`")];
const NO_KEY_TOLD_APART: &[(&str, &str)] = &[("2.8.0", "-2 if there is no such key")];

pub const DEL: Row = Row {
    name: "del",
    arity: -2,
    flags: Flags::WRITE,
    categories: Categories::KEYSPACE,
    key_specs: &[KeySpec::every(1, REMOVE)],
    doc: &Doc {
        summary: "Deletes keys and counts those that existed",
        complexity: "O(N) in the number of keys; the memory of a large value is released later, in slices",
        args: &[KEY.multiple()],
        tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
        ..GENERIC
    },
};

pub const UNLINK: Row = Row {
    name: "unlink",
    arity: -2,
    flags: FAST_WRITE,
    categories: Categories::KEYSPACE,
    key_specs: &[KeySpec::every(1, REMOVE)],
    doc: &Doc {
        summary: "Deletes keys without waiting for their memory to be released",
        since: "4.0.0",
        complexity: "O(1) for each key; the memory of a large value is released later, in slices",
        args: &[KEY.multiple()],
        tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
        ..GENERIC
    },
};

pub const EXISTS: Row = Row {
    name: "exists",
    arity: -2,
    flags: FAST_READ,
    categories: Categories::KEYSPACE,
    key_specs: &[KeySpec::every(1, KeyFlags::RO)],
    doc: &Doc {
        summary: "Counts how many of the keys exist; a key named twice counts twice",
        complexity: "O(N) in the number of keys",
        history: &[("3.0.3", "Takes many keys")],
        args: &[KEY.multiple()],
        tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
        ..GENERIC
    },
};

pub const TYPE: Row = Row {
    name: "type",
    arity: 2,
    flags: FAST_READ,
    categories: Categories::KEYSPACE,
    key_specs: &[KeySpec::one(KeyFlags::RO)],
    doc: &Doc { summary: "Names the type of the value at a key, or none", args: &[KEY], ..GENERIC },
};

pub const EXPIRE: Row = Row {
    name: "expire",
    arity: -3,
    flags: FAST_WRITE,
    categories: Categories::KEYSPACE,
    key_specs: &[KeySpec::one(DEADLINE)],
    doc: &Doc {
        summary: "Lets a key expire in a number of seconds",
        history: CONDITION_CAME,
        args: &[KEY, integer("seconds"), CONDITION],
        ..GENERIC
    },
};

pub const PEXPIRE: Row = Row {
    name: "pexpire",
    arity: -3,
    flags: FAST_WRITE,
    categories: Categories::KEYSPACE,
    key_specs: &[KeySpec::one(DEADLINE)],
    doc: &Doc {
        summary: "Lets a key expire in a number of milliseconds",
        since: "2.6.0",
        history: CONDITION_CAME,
        args: &[KEY, integer("milliseconds"), CONDITION],
        ..GENERIC
    },
};

pub const EXPIREAT: Row = Row {
    name: "expireat",
    arity: -3,
    flags: FAST_WRITE,
    categories: Categories::KEYSPACE,
    key_specs: &[KeySpec::one(DEADLINE)],
    doc: &Doc {
        summary: "Lets a key expire at a Unix time in seconds",
        since: "1.2.0",
        history: CONDITION_CAME,
        args: &[KEY, unix_time("unix-time-seconds"), CONDITION],
        ..GENERIC
    },
};

pub const PEXPIREAT: Row = Row {
    name: "pexpireat",
    arity: -3,
    flags: FAST_WRITE,
    categories: Categories::KEYSPACE,
    key_specs: &[KeySpec::one(DEADLINE)],
    doc: &Doc {
        summary: "Lets a key expire at a Unix time in milliseconds",
        since: "2.6.0",
        history: CONDITION_CAME,
        args: &[KEY, unix_time("unix-time-milliseconds"), CONDITION],
        ..GENERIC
    },
};

pub const TTL: Row = Row {
    name: "ttl",
    arity: 2,
    flags: FAST_READ,
    categories: Categories::KEYSPACE,
    key_specs: &[KeySpec::one(READ)],
    doc: &Doc {
        summary: "Returns the seconds until a key expires, -1 if it does not",
        history: NO_KEY_TOLD_APART,
        args: &[KEY],
        tips: &["nondeterministic_output"],
        ..GENERIC
    },
};

pub const PTTL: Row = Row {
    name: "pttl",
    arity: 2,
    flags: FAST_READ,
    categories: Categories::KEYSPACE,
    key_specs: &[KeySpec::one(READ)],
    doc: &Doc {
        summary: "Returns the milliseconds until a key expires, -1 if it does not",
        since: "2.6.0",
        history: NO_KEY_TOLD_APART,
        args: &[KEY],
        tips: &["nondeterministic_output"],
        ..GENERIC
    },
};

pub const EXPIRETIME: Row = Row {
    name: "expiretime",
    arity: 2,
    flags: FAST_READ,
    categories: Categories::KEYSPACE,
    key_specs: &[KeySpec::one(READ)],
    doc: &Doc {
        summary: "Returns the Unix time in seconds at which a key expires, -1 if it does not",
        since: "7.0.0",
        args: &[KEY],
        ..GENERIC
    },
};

pub const PEXPIRETIME: Row = Row {
    name: "pexpiretime",
    arity: 2,
    flags: FAST_READ,
    categories: Categories::KEYSPACE,
    key_specs: &[KeySpec::one(READ)],
    doc: &Doc {
        summary: "Returns the Unix time in milliseconds at which a key expires, -1 if it does not",
        since: "7.0.0",
        args: &[KEY],
        ..GENERIC
    },
};

pub const PERSIST: Row = Row {
    name: "persist",
    arity: 2,
    flags: FAST_WRITE,
    categories: Categories::KEYSPACE,
    key_specs: &[KeySpec::one(DEADLINE)],
    doc: &Doc { summary: "Drops the deadline of a key", since: "2.2.0", args: &[KEY], ..GENERIC },
};

pub const KEYS: Row = Row {
    name: "keys",
    arity: 2,
    flags: WALK,
    categories: Categories::of(&[Categories::KEYSPACE, Categories::DANGEROUS]),
    key_specs: &[],
    doc: &Doc {
        summary: "Returns all keys that match a pattern",
        complexity: "O(N) in the number of keys of the database, in slices",
        args: &[pattern("pattern")],
        tips: &["request_policy:all_shards", "nondeterministic_output_order"],
        ..GENERIC
    },
};

pub const SCAN: Row = Row {
    name: "scan",
    arity: -2,
    flags: WALK,
    categories: Categories::KEYSPACE,
    key_specs: &[],
    doc: &Doc {
        summary: "Returns some keys and the cursor from which to continue",
        since: "2.8.0",
        complexity: "O(1) a call; O(N) in the number of keys for all calls until the cursor is 0 again",
        history: &[("6.0.0", "New option `TYPE`")],
        args: &[
            integer("cursor"),
            pattern("pattern").token("MATCH").optional(),
            integer("count").token("COUNT").optional(),
            string("type").token("TYPE").since("6.0.0").optional(),
        ],
        tips: &["nondeterministic_output", "request_policy:special"],
        ..GENERIC
    },
};

pub const RANDOMKEY: Row = Row {
    name: "randomkey",
    arity: 1,
    flags: WALK,
    categories: Categories::KEYSPACE,
    key_specs: &[],
    doc: &Doc {
        summary: "Returns a key picked at random, each equally likely, or null",
        tips: &["request_policy:all_shards", "nondeterministic_output"],
        ..GENERIC
    },
};

/// The second argument.
const fn second(flags: KeyFlags) -> KeySpec {
    KeySpec::new(flags, Begin::Index(2), Find::Range { last: 0, step: 1, limit: 0 })
}
/// A key whose value goes elsewhere.
const TAKE: KeyFlags = KeyFlags::of(&[KeyFlags::RW, KeyFlags::ACCESS, KeyFlags::DELETE]);
const OVERWRITE: KeyFlags = KeyFlags::of(&[KeyFlags::OW, KeyFlags::UPDATE]);
const RENAME_ARGS: &[ArgDoc] = &[KEY, key("newkey", 1)];
const GROW: Flags = Flags::of(&[Flags::WRITE, Flags::DENYOOM]);

pub const TOUCH: Row = Row {
    name: "touch",
    arity: -2,
    flags: FAST_READ,
    categories: Categories::KEYSPACE,
    key_specs: &[KeySpec::every(1, KeyFlags::RO)],
    doc: &Doc {
        summary: "Counts how many of the keys exist, and lets them look as used now",
        since: "3.2.1",
        complexity: "O(N) in the number of keys",
        args: &[KEY.multiple()],
        tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
        ..GENERIC
    },
};

pub const RENAME: Row = Row {
    name: "rename",
    arity: 3,
    flags: Flags::WRITE,
    categories: Categories::KEYSPACE,
    key_specs: &[KeySpec::one(TAKE), second(OVERWRITE)],
    doc: &Doc {
        summary: "Gives a key another name, over what was there",
        complexity: "O(1); O(N) in the length of the value, in slices, where the names lie in different shards",
        args: RENAME_ARGS,
        ..GENERIC
    },
};

pub const RENAMENX: Row = Row {
    name: "renamenx",
    arity: 3,
    flags: FAST_WRITE,
    categories: Categories::KEYSPACE,
    key_specs: &[KeySpec::one(TAKE), second(KeyFlags::of(&[KeyFlags::OW, KeyFlags::INSERT]))],
    doc: &Doc {
        summary: "Gives a key another name unless there is such a key",
        complexity: "O(1); O(N) in the length of the value, in slices, where the names lie in different shards",
        history: &[("3.2.0", "The same name twice is no error")],
        args: RENAME_ARGS,
        ..GENERIC
    },
};

pub const MOVE: Row = Row {
    name: "move",
    arity: 3,
    flags: Flags::of(&[FAST_WRITE, Flags::OTHER_DATABASE]),
    categories: Categories::KEYSPACE,
    key_specs: &[KeySpec::one(KeyFlags::of(&[KeyFlags::RW, KeyFlags::ACCESS, KeyFlags::UPDATE]))],
    doc: &Doc {
        summary: "Moves a key to another database unless that has such a key",
        args: &[KEY, integer("db")],
        ..GENERIC
    },
};

pub const COPY: Row = Row {
    name: "copy",
    arity: -3,
    flags: Flags::of(&[GROW, Flags::OTHER_DATABASE]),
    categories: Categories::KEYSPACE,
    key_specs: &[KeySpec::one(READ), second(OVERWRITE)],
    doc: &Doc {
        summary: "Copies the value and the deadline of a key to another key, of another database if asked",
        since: "6.2.0",
        complexity: "O(N) in the length of the value, in slices",
        args: &[
            key("source", 0),
            key("destination", 1),
            integer("destination-db").token("DB").optional(),
            word("replace", "REPLACE").optional(),
        ],
        ..GENERIC
    },
};

pub const DUMP: Row = Row {
    name: "dump",
    arity: 2,
    flags: Flags::READONLY,
    categories: Categories::KEYSPACE,
    key_specs: &[KeySpec::one(READ)],
    doc: &Doc {
        summary: "Returns the value of a key in Redis's RDB format, for RESTORE",
        since: "2.6.0",
        complexity: "O(N) in the length of the value, in slices",
        args: &[KEY],
        tips: &["nondeterministic_output"],
        ..GENERIC
    },
};

pub const RESTORE: Row = Row {
    name: "restore",
    arity: -4,
    flags: GROW,
    categories: Categories::of(&[Categories::KEYSPACE, Categories::DANGEROUS]),
    key_specs: &[KeySpec::one(OVERWRITE)],
    doc: &Doc {
        summary: "Stores a value that DUMP has returned",
        since: "2.6.0",
        complexity: "O(N) in the length of the value, in slices",
        history: &[
            ("3.0.0", "New option `REPLACE`"),
            ("5.0.0", "New option `ABSTTL`"),
            ("5.0.0", "New options `IDLETIME` and `FREQ`"),
        ],
        args: &[
            KEY,
            integer("ttl"),
            string("serialized-value"),
            word("replace", "REPLACE").since("3.0.0").optional(),
            word("absttl", "ABSTTL").since("5.0.0").optional(),
            integer("seconds").token("IDLETIME").since("5.0.0").optional(),
            integer("frequency").token("FREQ").since("5.0.0").optional(),
        ],
        ..GENERIC
    },
};

/// What SORT and SORT_RO sort by and return.
const SORT_ORDER: [ArgDoc; 5] = [
    ArgDoc { key_spec_index: Some(1), ..pattern("pattern").token("BY").optional() },
    block("offset_count", &[integer("offset"), integer("count")]).token("LIMIT").optional(),
    ArgDoc { key_spec_index: Some(1), ..pattern("pattern").token("GET").optional().multiple_token() },
    one_of("order", &[word("asc", "ASC"), word("desc", "DESC")]).optional(),
    word("sorting", "ALPHA").optional(),
];
const SORT_CATEGORIES: Categories =
    Categories::of(&[Categories::SET, Categories::SORTEDSET, Categories::LIST, Categories::DANGEROUS]);
const SORT_TIME: &str = "O(N + M * log(M)), N elements at the key, M of them sorted; very many in slices";

pub const SORT: Row = Row {
    name: "sort",
    arity: -2,
    flags: Flags::of(&[Flags::WRITE, Flags::DENYOOM, Flags::MOVABLEKEYS]),
    categories: SORT_CATEGORIES,
    key_specs: &[
        KeySpec::one(READ),
        BY_AND_GET,
        KeySpec {
            notes: Some("Behind STORE, which may stand anywhere"),
            finder: Some(sort_destination),
            ..KeySpec::new(KeyFlags::of(&[KeyFlags::OW, KeyFlags::UPDATE]), Begin::Unknown, Find::Unknown)
        },
    ],
    doc: &Doc {
        summary: "Sorts a list, a set or a sorted set, also by other keys; returns or stores the result",
        complexity: SORT_TIME,
        args: &[
            KEY,
            SORT_ORDER[0],
            SORT_ORDER[1],
            SORT_ORDER[2],
            SORT_ORDER[3],
            SORT_ORDER[4],
            ArgDoc { key_spec_index: Some(2), ..key("destination", 2).token("STORE").optional() },
        ],
        ..GENERIC
    },
};

pub const SORT_RO: Row = Row {
    name: "sort_ro",
    arity: -2,
    flags: Flags::of(&[Flags::READONLY, Flags::MOVABLEKEYS]),
    categories: SORT_CATEGORIES,
    key_specs: &[KeySpec::one(READ), BY_AND_GET],
    doc: &Doc {
        summary: "Sorts a list, a set or a sorted set, also by other keys; only reads",
        since: "7.0.0",
        complexity: SORT_TIME,
        args: &[KEY, SORT_ORDER[0], SORT_ORDER[1], SORT_ORDER[2], SORT_ORDER[3], SORT_ORDER[4]],
        ..GENERIC
    },
};

/// Where SORT's destination is: behind the last STORE that is no argument of another option.
fn sort_destination(argv: &[&[u8]]) -> Option<usize> {
    let (mut at, mut found) = (2, None);
    while at < argv.len() {
        let word = argv[at];
        at += 1;
        if word.eq_ignore_ascii_case(b"limit") {
            at += 2;
        } else if word.eq_ignore_ascii_case(b"get") || word.eq_ignore_ascii_case(b"by") {
            at += 1;
        } else if word.eq_ignore_ascii_case(b"store") && at < argv.len() {
            found = Some(at);
            at += 1;
        }
    }
    found
}

pub const OBJECT: Row = Row {
    name: "object",
    arity: -2,
    flags: Flags::NONE,
    categories: Categories::NONE,
    key_specs: &[],
    doc: &Doc {
        summary: "Tells how values are kept and used",
        since: "2.2.3",
        complexity: "Of each subcommand its own",
        ..GENERIC
    },
};

/// A subcommand that tells something of a key.
const fn object(name: &'static str, doc: &'static Doc) -> Row {
    Row { name, arity: 3, flags: Flags::READONLY, categories: Categories::KEYSPACE, key_specs: OBJECT_KEY, doc }
}
const OBJECT_KEY: &[KeySpec] = &[second(KeyFlags::RO)];
const OBJECT_DOC: Doc = Doc { since: "2.2.3", args: &[KEY], tips: &["nondeterministic_output"], ..GENERIC };

pub const OBJECT_ENCODING: Row =
    object("object|encoding", &Doc { summary: "Names the way in which Redis would keep the value", ..OBJECT_DOC });

pub const OBJECT_FREQ: Row = object(
    "object|freq",
    &Doc { summary: "Returns how often the key is used, on a logarithmic scale", since: "4.0.0", ..OBJECT_DOC },
);

pub const OBJECT_IDLETIME: Row =
    object("object|idletime", &Doc { summary: "Returns the seconds since the key was last used", ..OBJECT_DOC });

pub const OBJECT_REFCOUNT: Row =
    object("object|refcount", &Doc { summary: "Counts the references to the value", ..OBJECT_DOC });

pub const OBJECT_HELP: Row = Row {
    name: "object|help",
    arity: 2,
    flags: Flags::of(&[Flags::LOADING, Flags::STALE]),
    categories: Categories::KEYSPACE,
    key_specs: &[],
    doc: &Doc { summary: "Lists the subcommands", since: "6.2.0", ..GENERIC },
};
