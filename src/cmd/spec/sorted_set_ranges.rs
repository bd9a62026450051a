//! Rows of the group of sorted sets: ranges, and operations on several sets.

use super::doc::{Doc, DocFlags, KEY, block, double, integer, key, one_of, string, word};
use super::sorted_set::SORTED_SET;
use super::{Begin, Categories, Find, Flags, KeyFlags, KeySpec, Row};

/// Of commands that may need memory.
const GROW: Flags = Flags::of(&[Flags::WRITE, Flags::DENYOOM]);
/// Of those whose sources are counted.
const STORE: Flags = Flags::of(&[Flags::WRITE, Flags::DENYOOM, Flags::MOVABLEKEYS]);
const MANY_READ: Flags = Flags::of(&[Flags::READONLY, Flags::MOVABLEKEYS]);

const READ: KeyFlags = KeyFlags::of(&[KeyFlags::RO, KeyFlags::ACCESS]);
const OVERWRITE: KeyFlags = KeyFlags::of(&[KeyFlags::OW, KeyFlags::UPDATE]);

pub const ZRANGE: Row = Row {
    name: "zrange",
    arity: -4,
    flags: Flags::READONLY,
    categories: Categories::SORTEDSET,
    key_specs: &[KeySpec::one(READ)],
    doc: &Doc {
        summary: "Returns a range of members, by rank, score or name",
        since: "1.2.0",
        complexity: "O(log N + M) in the members M returned",
        history: &[("6.2.0", "New options `REV`, `BYSCORE`, `BYLEX` and `LIMIT`")],
        args: &[
            KEY,
            string("start"),
            string("stop"),
            one_of("sortby", &[word("byscore", "BYSCORE"), word("bylex", "BYLEX")]).since("6.2.0").optional(),
            word("rev", "REV").since("6.2.0").optional(),
            block("offset_count", &[integer("offset"), integer("count")]).token("LIMIT").since("6.2.0").optional(),
            word("withscores", "WITHSCORES").optional(),
        ],
        ..SORTED_SET
    },
};

pub const ZRANGESTORE: Row = Row {
    name: "zrangestore",
    arity: -5,
    flags: GROW,
    categories: Categories::SORTEDSET,
    key_specs: &[
        KeySpec::one(OVERWRITE),
        KeySpec::new(READ, Begin::Index(2), Find::Range { last: 0, step: 1, limit: 0 }),
    ],
    doc: &Doc {
        summary: "Stores a range of members at another key",
        since: "6.2.0",
        complexity: "O(log N + M) in the members M stored",
        args: &[
            key("dst", 0),
            key("src", 1),
            string("min"),
            string("max"),
            one_of("sortby", &[word("byscore", "BYSCORE"), word("bylex", "BYLEX")]).optional(),
            word("rev", "REV").optional(),
            block("offset_count", &[integer("offset"), integer("count")]).token("LIMIT").optional(),
        ],
        ..SORTED_SET
    },
};

pub const ZREVRANGE: Row = Row {
    name: "zrevrange",
    arity: -4,
    flags: Flags::READONLY,
    categories: Categories::SORTEDSET,
    key_specs: &[KeySpec::one(READ)],
    doc: &Doc {
        summary: "Returns members by rank, from the highest score on",
        since: "1.2.0",
        complexity: "O(log N + M) in the members M returned",
        flags: DocFlags::DEPRECATED,
        deprecated_since: Some("6.2.0"),
        replaced_by: Some("`ZRANGE` with `REV`"),
        args: &[KEY, integer("start"), integer("stop"), word("withscores", "WITHSCORES").optional()],
        ..SORTED_SET
    },
};

pub const ZRANGEBYSCORE: Row = Row {
    name: "zrangebyscore",
    arity: -4,
    flags: Flags::READONLY,
    categories: Categories::SORTEDSET,
    key_specs: &[KeySpec::one(READ)],
    doc: &Doc {
        summary: "Returns members by score",
        since: "1.0.5",
        complexity: "O(log N + M) in the members M returned",
        flags: DocFlags::DEPRECATED,
        deprecated_since: Some("6.2.0"),
        replaced_by: Some("`ZRANGE` with `BYSCORE`"),
        history: &[("2.0.0", "New option `WITHSCORES`")],
        args: &[
            KEY,
            double("min"),
            double("max"),
            word("withscores", "WITHSCORES").since("2.0.0").optional(),
            block("offset_count", &[integer("offset"), integer("count")]).token("LIMIT").optional(),
        ],
        ..SORTED_SET
    },
};

pub const ZREVRANGEBYSCORE: Row = Row {
    name: "zrevrangebyscore",
    arity: -4,
    flags: Flags::READONLY,
    categories: Categories::SORTEDSET,
    key_specs: &[KeySpec::one(READ)],
    doc: &Doc {
        summary: "Returns members by score, from the highest on",
        since: "2.2.0",
        complexity: "O(log N + M) in the members M returned",
        flags: DocFlags::DEPRECATED,
        deprecated_since: Some("6.2.0"),
        replaced_by: Some("`ZRANGE` with `REV` and `BYSCORE`"),
        history: &[("2.1.6", "Members may be returned with their scores")],
        args: &[
            KEY,
            double("max"),
            double("min"),
            word("withscores", "WITHSCORES").optional(),
            block("offset_count", &[integer("offset"), integer("count")]).token("LIMIT").optional(),
        ],
        ..SORTED_SET
    },
};

pub const ZRANGEBYLEX: Row = Row {
    name: "zrangebylex",
    arity: -4,
    flags: Flags::READONLY,
    categories: Categories::SORTEDSET,
    key_specs: &[KeySpec::one(READ)],
    doc: &Doc {
        summary: "Returns members by name, of a set in which all scores are equal",
        since: "2.8.9",
        complexity: "O(log N + M) in the members M returned",
        flags: DocFlags::DEPRECATED,
        deprecated_since: Some("6.2.0"),
        replaced_by: Some("`ZRANGE` with `BYLEX`"),
        args: &[
            KEY,
            string("min"),
            string("max"),
            block("offset_count", &[integer("offset"), integer("count")]).token("LIMIT").optional(),
        ],
        ..SORTED_SET
    },
};

pub const ZREVRANGEBYLEX: Row = Row {
    name: "zrevrangebylex",
    arity: -4,
    flags: Flags::READONLY,
    categories: Categories::SORTEDSET,
    key_specs: &[KeySpec::one(READ)],
    doc: &Doc {
        summary: "Returns members by name, from the last on, of a set in which all scores are equal",
        since: "2.8.9",
        complexity: "O(log N + M) in the members M returned",
        flags: DocFlags::DEPRECATED,
        deprecated_since: Some("6.2.0"),
        replaced_by: Some("`ZRANGE` with `REV` and `BYLEX`"),
        args: &[
            KEY,
            string("max"),
            string("min"),
            block("offset_count", &[integer("offset"), integer("count")]).token("LIMIT").optional(),
        ],
        ..SORTED_SET
    },
};

pub const ZUNION: Row = Row {
    name: "zunion",
    arity: -3,
    flags: MANY_READ,
    categories: Categories::SORTEDSET,
    key_specs: &[KeySpec::new(READ, Begin::Index(1), Find::KeyNum { count: 0, first: 1, step: 1 })],
    doc: &Doc {
        summary: "Returns the union of sorted sets",
        since: "6.2.0",
        complexity: "O(N) + O(M log M) in all members N and those of the result M",
        args: &[
            integer("numkeys"),
            KEY.multiple(),
            integer("weight").token("WEIGHTS").optional().multiple(),
            one_of("aggregate", &[word("sum", "SUM"), word("min", "MIN"), word("max", "MAX")])
                .token("AGGREGATE")
                .optional(),
            word("withscores", "WITHSCORES").optional(),
        ],
        ..SORTED_SET
    },
};

pub const ZINTER: Row = Row {
    name: "zinter",
    arity: -3,
    flags: MANY_READ,
    categories: Categories::SORTEDSET,
    key_specs: &[KeySpec::new(READ, Begin::Index(1), Find::KeyNum { count: 0, first: 1, step: 1 })],
    doc: &Doc {
        summary: "Returns the members that all of several sorted sets have",
        since: "6.2.0",
        complexity: "O(NK) + O(M log M) in the members N of the smallest, the keys K and the members M of the result",
        args: &[
            integer("numkeys"),
            KEY.multiple(),
            integer("weight").token("WEIGHTS").optional().multiple(),
            one_of("aggregate", &[word("sum", "SUM"), word("min", "MIN"), word("max", "MAX")])
                .token("AGGREGATE")
                .optional(),
            word("withscores", "WITHSCORES").optional(),
        ],
        ..SORTED_SET
    },
};

pub const ZDIFF: Row = Row {
    name: "zdiff",
    arity: -3,
    flags: MANY_READ,
    categories: Categories::SORTEDSET,
    key_specs: &[KeySpec::new(READ, Begin::Index(1), Find::KeyNum { count: 0, first: 1, step: 1 })],
    doc: &Doc {
        summary: "Returns the members of the first of several sorted sets that the others do not have",
        since: "6.2.0",
        complexity: "O(L + (N - K) log N) in the members of all sets L, those of the first N and of the result K",
        args: &[integer("numkeys"), KEY.multiple(), word("withscores", "WITHSCORES").optional()],
        ..SORTED_SET
    },
};

pub const ZUNIONSTORE: Row = Row {
    name: "zunionstore",
    arity: -4,
    flags: STORE,
    categories: Categories::SORTEDSET,
    key_specs: &[
        KeySpec::one(OVERWRITE),
        KeySpec::new(READ, Begin::Index(2), Find::KeyNum { count: 0, first: 1, step: 1 }),
    ],
    doc: &Doc {
        summary: "Stores the union of sorted sets",
        since: "2.0.0",
        complexity: "O(N) + O(M log M) in all members N and those of the result M",
        args: &[
            key("destination", 0),
            integer("numkeys"),
            key("key", 1).multiple(),
            integer("weight").token("WEIGHTS").optional().multiple(),
            one_of("aggregate", &[word("sum", "SUM"), word("min", "MIN"), word("max", "MAX")])
                .token("AGGREGATE")
                .optional(),
        ],
        ..SORTED_SET
    },
};

pub const ZINTERSTORE: Row = Row {
    name: "zinterstore",
    arity: -4,
    flags: STORE,
    categories: Categories::SORTEDSET,
    key_specs: &[
        KeySpec::one(OVERWRITE),
        KeySpec::new(READ, Begin::Index(2), Find::KeyNum { count: 0, first: 1, step: 1 }),
    ],
    doc: &Doc {
        summary: "Stores the members that all of several sorted sets have",
        since: "2.0.0",
        complexity: "O(NK) + O(M log M) in the members N of the smallest, the keys K and the members M of the result",
        args: &[
            key("destination", 0),
            integer("numkeys"),
            key("key", 1).multiple(),
            integer("weight").token("WEIGHTS").optional().multiple(),
            one_of("aggregate", &[word("sum", "SUM"), word("min", "MIN"), word("max", "MAX")])
                .token("AGGREGATE")
                .optional(),
        ],
        ..SORTED_SET
    },
};

pub const ZDIFFSTORE: Row = Row {
    name: "zdiffstore",
    arity: -4,
    flags: STORE,
    categories: Categories::SORTEDSET,
    key_specs: &[
        KeySpec::one(OVERWRITE),
        KeySpec::new(READ, Begin::Index(2), Find::KeyNum { count: 0, first: 1, step: 1 }),
    ],
    doc: &Doc {
        summary: "Stores the members of the first of several sorted sets that the others do not have",
        since: "6.2.0",
        complexity: "O(L + (N - K) log N) in the members of all sets L, those of the first N and of the result K",
        args: &[key("destination", 0), integer("numkeys"), key("key", 1).multiple()],
        ..SORTED_SET
    },
};

pub const ZINTERCARD: Row = Row {
    name: "zintercard",
    arity: -3,
    flags: MANY_READ,
    categories: Categories::SORTEDSET,
    key_specs: &[KeySpec::new(READ, Begin::Index(1), Find::KeyNum { count: 0, first: 1, step: 1 })],
    doc: &Doc {
        summary: "Counts the members that all of several sorted sets have",
        since: "7.0.0",
        complexity: "O(NK) in the members N of the smallest and the keys K",
        args: &[integer("numkeys"), KEY.multiple(), integer("limit").token("LIMIT").optional()],
        ..SORTED_SET
    },
};
