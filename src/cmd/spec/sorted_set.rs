//! Rows of the group of sorted sets: one key's members.

use super::doc::{Doc, Group, KEY, block, double, integer, one_of, pattern, string, word};
use super::{Begin, Categories, Find, Flags, KeyFlags, KeySpec, Row};

pub(super) const SORTED_SET: Doc = Doc { group: Group::SortedSet, ..Doc::BASE };

const FAST_READ: Flags = Flags::of(&[Flags::READONLY, Flags::FAST]);
const FAST_WRITE: Flags = Flags::of(&[Flags::WRITE, Flags::FAST]);
/// Of commands that may need memory.
const FAST_GROW: Flags = Flags::of(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST]);

const READ: KeyFlags = KeyFlags::of(&[KeyFlags::RO, KeyFlags::ACCESS]);
const CHANGE: KeyFlags = KeyFlags::of(&[KeyFlags::RW, KeyFlags::UPDATE]);
/// Changes the value and returns what it became.
const EXCHANGE: KeyFlags = KeyFlags::of(&[KeyFlags::RW, KeyFlags::ACCESS, KeyFlags::UPDATE]);
/// Removes something and returns it.
const TAKE: KeyFlags = KeyFlags::of(&[KeyFlags::RW, KeyFlags::ACCESS, KeyFlags::DELETE]);
const DELETE: KeyFlags = KeyFlags::of(&[KeyFlags::RW, KeyFlags::DELETE]);

pub const ZADD: Row = Row {
    name: "zadd",
    arity: -4,
    flags: FAST_GROW,
    categories: Categories::SORTEDSET,
    key_specs: &[KeySpec::one(CHANGE)],
    doc: &Doc {
        summary: "Adds members with scores to a sorted set, or changes their scores",
        since: "1.2.0",
        complexity: "O(log N) for each member",
        history: &[
            ("2.4.0", "Takes many members"),
            ("3.0.2", "New options `XX`, `NX`, `CH` and `INCR`"),
            ("6.2.0", "New options `GT` and `LT`"),
        ],
        args: &[
            KEY,
            one_of("condition", &[word("nx", "NX"), word("xx", "XX")]).since("3.0.2").optional(),
            one_of("comparison", &[word("gt", "GT"), word("lt", "LT")]).since("6.2.0").optional(),
            word("change", "CH").since("3.0.2").optional(),
            word("increment", "INCR").since("3.0.2").optional(),
            block("score_member", &[double("score"), string("member")]).multiple(),
        ],
        ..SORTED_SET
    },
};

pub const ZINCRBY: Row = Row {
    name: "zincrby",
    arity: 4,
    flags: FAST_GROW,
    categories: Categories::SORTEDSET,
    key_specs: &[KeySpec::one(EXCHANGE)],
    doc: &Doc {
        summary: "Adds a number to the score of a member",
        since: "1.2.0",
        complexity: "O(log N)",
        args: &[KEY, integer("increment"), string("member")],
        ..SORTED_SET
    },
};

pub const ZREM: Row = Row {
    name: "zrem",
    arity: -3,
    flags: FAST_WRITE,
    categories: Categories::SORTEDSET,
    key_specs: &[KeySpec::one(DELETE)],
    doc: &Doc {
        summary: "Removes members",
        since: "1.2.0",
        complexity: "O(log N) for each member",
        history: &[("2.4.0", "Takes many members")],
        args: &[KEY, string("member").multiple()],
        ..SORTED_SET
    },
};

pub const ZCARD: Row = Row {
    name: "zcard",
    arity: 2,
    flags: FAST_READ,
    categories: Categories::SORTEDSET,
    key_specs: &[KeySpec::one(KeyFlags::RO)],
    doc: &Doc { summary: "Counts the members", since: "1.2.0", args: &[KEY], ..SORTED_SET },
};

pub const ZSCORE: Row = Row {
    name: "zscore",
    arity: 3,
    flags: FAST_READ,
    categories: Categories::SORTEDSET,
    key_specs: &[KeySpec::one(READ)],
    doc: &Doc {
        summary: "Returns the score of a member",
        since: "1.2.0",
        args: &[KEY, string("member")],
        ..SORTED_SET
    },
};

pub const ZMSCORE: Row = Row {
    name: "zmscore",
    arity: -3,
    flags: FAST_READ,
    categories: Categories::SORTEDSET,
    key_specs: &[KeySpec::one(READ)],
    doc: &Doc {
        summary: "Returns the scores of members",
        since: "6.2.0",
        complexity: "O(N) in the number of members asked for",
        args: &[KEY, string("member").multiple()],
        ..SORTED_SET
    },
};

pub const ZRANK: Row = Row {
    name: "zrank",
    arity: -3,
    flags: FAST_READ,
    categories: Categories::SORTEDSET,
    key_specs: &[KeySpec::one(READ)],
    doc: &Doc {
        summary: "Returns how many members come before one, from the lowest score on",
        since: "2.0.0",
        complexity: "O(log N)",
        history: &[("7.2.0", "New option `WITHSCORE`")],
        args: &[KEY, string("member"), word("withscore", "WITHSCORE").since("7.2.0").optional()],
        ..SORTED_SET
    },
};

pub const ZREVRANK: Row = Row {
    name: "zrevrank",
    arity: -3,
    flags: FAST_READ,
    categories: Categories::SORTEDSET,
    key_specs: &[KeySpec::one(READ)],
    doc: &Doc {
        summary: "Returns how many members come before one, from the highest score on",
        since: "2.0.0",
        complexity: "O(log N)",
        history: &[("7.2.0", "New option `WITHSCORE`")],
        args: &[KEY, string("member"), word("withscore", "WITHSCORE").since("7.2.0").optional()],
        ..SORTED_SET
    },
};

pub const ZCOUNT: Row = Row {
    name: "zcount",
    arity: 4,
    flags: FAST_READ,
    categories: Categories::SORTEDSET,
    key_specs: &[KeySpec::one(READ)],
    doc: &Doc {
        summary: "Counts the members with scores in a range",
        since: "2.0.0",
        complexity: "O(log N)",
        args: &[KEY, double("min"), double("max")],
        ..SORTED_SET
    },
};

pub const ZLEXCOUNT: Row = Row {
    name: "zlexcount",
    arity: 4,
    flags: FAST_READ,
    categories: Categories::SORTEDSET,
    key_specs: &[KeySpec::one(READ)],
    doc: &Doc {
        summary: "Counts the members with names in a range, of a set in which all scores are equal",
        since: "2.8.9",
        complexity: "O(log N)",
        args: &[KEY, string("min"), string("max")],
        ..SORTED_SET
    },
};

pub const ZREMRANGEBYRANK: Row = Row {
    name: "zremrangebyrank",
    arity: 4,
    flags: Flags::WRITE,
    categories: Categories::SORTEDSET,
    key_specs: &[KeySpec::one(DELETE)],
    doc: &Doc {
        summary: "Removes members by rank",
        since: "2.0.0",
        complexity: "O(log N + M) in the members M removed",
        args: &[KEY, integer("start"), integer("stop")],
        ..SORTED_SET
    },
};

pub const ZREMRANGEBYSCORE: Row = Row {
    name: "zremrangebyscore",
    arity: 4,
    flags: Flags::WRITE,
    categories: Categories::SORTEDSET,
    key_specs: &[KeySpec::one(DELETE)],
    doc: &Doc {
        summary: "Removes members by score",
        since: "1.2.0",
        complexity: "O(log N + M) in the members M removed",
        args: &[KEY, double("min"), double("max")],
        ..SORTED_SET
    },
};

pub const ZREMRANGEBYLEX: Row = Row {
    name: "zremrangebylex",
    arity: 4,
    flags: Flags::WRITE,
    categories: Categories::SORTEDSET,
    key_specs: &[KeySpec::one(DELETE)],
    doc: &Doc {
        summary: "Removes members by name, of a set in which all scores are equal",
        since: "2.8.9",
        complexity: "O(log N + M) in the members M removed",
        args: &[KEY, string("min"), string("max")],
        ..SORTED_SET
    },
};

pub const ZPOPMIN: Row = Row {
    name: "zpopmin",
    arity: -2,
    flags: FAST_WRITE,
    categories: Categories::SORTEDSET,
    key_specs: &[KeySpec::one(TAKE)],
    doc: &Doc {
        summary: "Removes the members with the lowest scores and returns them",
        since: "5.0.0",
        complexity: "O(M log N) in the members M removed",
        args: &[KEY, integer("count").optional()],
        ..SORTED_SET
    },
};

pub const ZPOPMAX: Row = Row {
    name: "zpopmax",
    arity: -2,
    flags: FAST_WRITE,
    categories: Categories::SORTEDSET,
    key_specs: &[KeySpec::one(TAKE)],
    doc: &Doc {
        summary: "Removes the members with the highest scores and returns them",
        since: "5.0.0",
        complexity: "O(M log N) in the members M removed",
        args: &[KEY, integer("count").optional()],
        ..SORTED_SET
    },
};

pub const ZMPOP: Row = Row {
    name: "zmpop",
    arity: -4,
    flags: Flags::of(&[Flags::WRITE, Flags::MOVABLEKEYS]),
    categories: Categories::SORTEDSET,
    key_specs: &[KeySpec::new(TAKE, Begin::Index(1), Find::KeyNum { count: 0, first: 1, step: 1 })],
    doc: &Doc {
        summary: "Removes members from the first of several sorted sets that is not empty, and returns them",
        since: "7.0.0",
        complexity: "O(K) + O(M log N) in the keys K and the members M removed",
        args: &[
            integer("numkeys"),
            KEY.multiple(),
            one_of("where", &[word("min", "MIN"), word("max", "MAX")]),
            integer("count").token("COUNT").optional(),
        ],
        ..SORTED_SET
    },
};

pub const BZPOPMIN: Row = Row {
    name: "bzpopmin",
    arity: -3,
    flags: Flags::of(&[Flags::BLOCKING, Flags::FAST, Flags::NOSCRIPT, Flags::WRITE]),
    categories: Categories::SORTEDSET,
    key_specs: &[KeySpec::new(TAKE, Begin::Index(1), Find::Range { last: -2, step: 1, limit: 0 })],
    doc: &Doc {
        summary: "As ZPOPMIN of the first key that has members; waits until one has some",
        since: "5.0.0",
        complexity: "O(log N)",
        history: &[("6.0.0", "The timeout may have fractions")],
        args: &[KEY.multiple(), double("timeout")],
        ..SORTED_SET
    },
};

pub const BZPOPMAX: Row = Row {
    name: "bzpopmax",
    arity: -3,
    flags: Flags::of(&[Flags::BLOCKING, Flags::FAST, Flags::NOSCRIPT, Flags::WRITE]),
    categories: Categories::SORTEDSET,
    key_specs: &[KeySpec::new(TAKE, Begin::Index(1), Find::Range { last: -2, step: 1, limit: 0 })],
    doc: &Doc {
        summary: "As ZPOPMAX of the first key that has members; waits until one has some",
        since: "5.0.0",
        complexity: "O(log N)",
        history: &[("6.0.0", "The timeout may have fractions")],
        args: &[KEY.multiple(), double("timeout")],
        ..SORTED_SET
    },
};

pub const BZMPOP: Row = Row {
    name: "bzmpop",
    arity: -5,
    flags: Flags::of(&[Flags::BLOCKING, Flags::MOVABLEKEYS, Flags::WRITE]),
    categories: Categories::SORTEDSET,
    key_specs: &[KeySpec::new(TAKE, Begin::Index(2), Find::KeyNum { count: 0, first: 1, step: 1 })],
    doc: &Doc {
        summary: "As ZMPOP; waits until a key has members",
        since: "7.0.0",
        complexity: "O(K) + O(M log N) in the keys K and the members M removed",
        args: &[
            double("timeout"),
            integer("numkeys"),
            KEY.multiple(),
            one_of("where", &[word("min", "MIN"), word("max", "MAX")]),
            integer("count").token("COUNT").optional(),
        ],
        ..SORTED_SET
    },
};

pub const ZRANDMEMBER: Row = Row {
    name: "zrandmember",
    arity: -2,
    flags: Flags::READONLY,
    categories: Categories::SORTEDSET,
    key_specs: &[KeySpec::one(READ)],
    doc: &Doc {
        summary: "Returns members picked at random",
        since: "6.2.0",
        complexity: "O(N) in the members returned",
        args: &[KEY, block("options", &[integer("count"), word("withscores", "WITHSCORES").optional()]).optional()],
        tips: &["nondeterministic_output"],
        ..SORTED_SET
    },
};

pub const ZSCAN: Row = Row {
    name: "zscan",
    arity: -3,
    flags: Flags::READONLY,
    categories: Categories::SORTEDSET,
    key_specs: &[KeySpec::one(READ)],
    doc: &Doc {
        summary: "Returns some members with their scores, and the cursor from which to continue",
        since: "2.8.0",
        complexity: "O(1) a call; O(N) in the number of members for all calls until the cursor is 0 again",
        args: &[
            KEY,
            integer("cursor"),
            pattern("pattern").token("MATCH").optional(),
            integer("count").token("COUNT").optional(),
        ],
        tips: &["nondeterministic_output"],
        ..SORTED_SET
    },
};
