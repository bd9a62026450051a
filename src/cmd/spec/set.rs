//! Rows of the set group.

use super::doc::{ArgDoc, Doc, Group, KEY, integer, key, pattern, string};
use super::{Begin, Categories, Find, Flags, KeyFlags, KeySpec, Row};

const SET_DOC: Doc = Doc { group: Group::Set, ..Doc::BASE };
const FAST_READ: Flags = Flags::of(&[Flags::READONLY, Flags::FAST]);
const FAST_WRITE: Flags = Flags::of(&[Flags::WRITE, Flags::FAST]);
/// Of commands that may need memory.
const GROW: Flags = Flags::of(&[Flags::WRITE, Flags::DENYOOM]);

const READ: KeyFlags = KeyFlags::of(&[KeyFlags::RO, KeyFlags::ACCESS]);
const INSERT: KeyFlags = KeyFlags::of(&[KeyFlags::RW, KeyFlags::INSERT]);
/// Removes members and returns them.
const TAKE: KeyFlags = KeyFlags::of(&[KeyFlags::RW, KeyFlags::ACCESS, KeyFlags::DELETE]);
const OVERWRITE: KeyFlags = KeyFlags::of(&[KeyFlags::OW, KeyFlags::UPDATE]);

/// The second argument.
const fn second(flags: KeyFlags) -> KeySpec {
    KeySpec::new(flags, Begin::Index(2), Find::Range { last: 0, step: 1, limit: 0 })
}

/// All from the second argument on.
const SOURCES: KeySpec = KeySpec::new(READ, Begin::Index(2), Find::Range { last: -1, step: 1, limit: 0 });

const MEMBER: ArgDoc = string("member");
const STORE_ARGS: &[ArgDoc] = &[key("destination", 0), key("key", 1).multiple()];
const MANY_CAME: &[(&str, &str)] = &[("2.4.0", "Takes several members")];
const ANY_ORDER: &[&str] = &["nondeterministic_output_order"];
const BY_CHANCE: &[&str] = &["nondeterministic_output"];
const INTER_TIME: &str = "O(N * M) at worst, N members in the smallest of M sets; very many in slices";
const ALL_TIME: &str = "O(N) in the members of all sets; very many in slices";

pub const SADD: Row = Row {
    name: "sadd",
    arity: -3,
    flags: Flags::of(&[GROW, Flags::FAST]),
    categories: Categories::SET,
    key_specs: &[KeySpec::one(INSERT)],
    doc: &Doc {
        summary: "Adds members to a set and counts those that were not there",
        complexity: "O(1) for each member",
        history: MANY_CAME,
        args: &[KEY, MEMBER.multiple()],
        ..SET_DOC
    },
};

pub const SREM: Row = Row {
    name: "srem",
    arity: -3,
    flags: FAST_WRITE,
    categories: Categories::SET,
    key_specs: &[KeySpec::one(KeyFlags::of(&[KeyFlags::RW, KeyFlags::DELETE]))],
    doc: &Doc {
        summary: "Removes members from a set and counts those that were there",
        complexity: "O(1) for each member",
        history: MANY_CAME,
        args: &[KEY, MEMBER.multiple()],
        ..SET_DOC
    },
};

pub const SCARD: Row = Row {
    name: "scard",
    arity: 2,
    flags: FAST_READ,
    categories: Categories::SET,
    key_specs: &[KeySpec::one(KeyFlags::RO)],
    doc: &Doc { summary: "Returns the number of members of a set", args: &[KEY], ..SET_DOC },
};

pub const SISMEMBER: Row = Row {
    name: "sismember",
    arity: 3,
    flags: FAST_READ,
    categories: Categories::SET,
    key_specs: &[KeySpec::one(KeyFlags::RO)],
    doc: &Doc { summary: "Tells whether a set has a member", args: &[KEY, MEMBER], ..SET_DOC },
};

pub const SMISMEMBER: Row = Row {
    name: "smismember",
    arity: -3,
    flags: FAST_READ,
    categories: Categories::SET,
    key_specs: &[KeySpec::one(READ)],
    doc: &Doc {
        summary: "Tells of several members whether a set has them",
        since: "6.2.0",
        complexity: "O(1) for each member",
        args: &[KEY, MEMBER.multiple()],
        ..SET_DOC
    },
};

pub const SMEMBERS: Row = Row {
    name: "smembers",
    arity: 2,
    flags: Flags::READONLY,
    categories: Categories::SET,
    key_specs: &[KeySpec::one(READ)],
    doc: &Doc {
        summary: "Returns all members of a set, as it is when the command runs",
        complexity: "O(N) in the members, in slices",
        args: &[KEY],
        tips: ANY_ORDER,
        ..SET_DOC
    },
};

pub const SMOVE: Row = Row {
    name: "smove",
    arity: 4,
    flags: FAST_WRITE,
    categories: Categories::SET,
    key_specs: &[KeySpec::one(TAKE), second(INSERT)],
    doc: &Doc {
        summary: "Moves a member from one set to another",
        args: &[key("source", 0), key("destination", 1), MEMBER],
        ..SET_DOC
    },
};

pub const SPOP: Row = Row {
    name: "spop",
    arity: -2,
    flags: FAST_WRITE,
    categories: Categories::SET,
    key_specs: &[KeySpec::one(TAKE)],
    doc: &Doc {
        summary: "Removes random members of a set and returns them",
        complexity: "O(1) for each member",
        history: &[("3.2.0", "New argument `count`")],
        args: &[KEY, integer("count").since("3.2.0").optional()],
        tips: BY_CHANCE,
        ..SET_DOC
    },
};

pub const SRANDMEMBER: Row = Row {
    name: "srandmember",
    arity: -2,
    flags: Flags::READONLY,
    categories: Categories::SET,
    key_specs: &[KeySpec::one(READ)],
    doc: &Doc {
        summary: "Returns random members of a set",
        complexity: "O(1) for each member",
        history: &[("2.6.0", "New argument `count`")],
        args: &[KEY, integer("count").since("2.6.0").optional()],
        tips: BY_CHANCE,
        ..SET_DOC
    },
};

pub const SINTER: Row = Row {
    name: "sinter",
    arity: -2,
    flags: Flags::READONLY,
    categories: Categories::SET,
    key_specs: &[KeySpec::every(1, READ)],
    doc: &Doc {
        summary: "Returns what all of the sets have",
        complexity: INTER_TIME,
        args: &[KEY.multiple()],
        tips: ANY_ORDER,
        ..SET_DOC
    },
};

pub const SINTERSTORE: Row = Row {
    name: "sinterstore",
    arity: -3,
    flags: GROW,
    categories: Categories::SET,
    key_specs: &[KeySpec::one(KeyFlags::of(&[KeyFlags::RW, KeyFlags::UPDATE])), SOURCES],
    doc: &Doc {
        summary: "Stores what all of the sets have as a set",
        complexity: INTER_TIME,
        args: STORE_ARGS,
        ..SET_DOC
    },
};

pub const SINTERCARD: Row = Row {
    name: "sintercard",
    arity: -3,
    flags: Flags::of(&[Flags::READONLY, Flags::MOVABLEKEYS]),
    categories: Categories::SET,
    key_specs: &[KeySpec::new(READ, Begin::Index(1), Find::KeyNum { count: 0, first: 1, step: 1 })],
    doc: &Doc {
        summary: "Counts what all of the sets have, up to a limit",
        since: "7.0.0",
        complexity: INTER_TIME,
        args: &[integer("numkeys"), KEY.multiple(), integer("limit").token("LIMIT").optional()],
        ..SET_DOC
    },
};

pub const SUNION: Row = Row {
    name: "sunion",
    arity: -2,
    flags: Flags::READONLY,
    categories: Categories::SET,
    key_specs: &[KeySpec::every(1, READ)],
    doc: &Doc {
        summary: "Returns what any of the sets has",
        complexity: ALL_TIME,
        args: &[KEY.multiple()],
        tips: ANY_ORDER,
        ..SET_DOC
    },
};

pub const SUNIONSTORE: Row = Row {
    name: "sunionstore",
    arity: -3,
    flags: GROW,
    categories: Categories::SET,
    key_specs: &[KeySpec::one(OVERWRITE), SOURCES],
    doc: &Doc {
        summary: "Stores what any of the sets has as a set",
        complexity: ALL_TIME,
        args: STORE_ARGS,
        ..SET_DOC
    },
};

pub const SDIFF: Row = Row {
    name: "sdiff",
    arity: -2,
    flags: Flags::READONLY,
    categories: Categories::SET,
    key_specs: &[KeySpec::every(1, READ)],
    doc: &Doc {
        summary: "Returns what the first set has and none of the others",
        complexity: ALL_TIME,
        args: &[KEY.multiple()],
        tips: ANY_ORDER,
        ..SET_DOC
    },
};

pub const SDIFFSTORE: Row = Row {
    name: "sdiffstore",
    arity: -3,
    flags: GROW,
    categories: Categories::SET,
    key_specs: &[KeySpec::one(OVERWRITE), SOURCES],
    doc: &Doc {
        summary: "Stores what the first set has and none of the others as a set",
        complexity: ALL_TIME,
        args: STORE_ARGS,
        ..SET_DOC
    },
};

pub const SSCAN: Row = Row {
    name: "sscan",
    arity: -3,
    flags: Flags::READONLY,
    categories: Categories::SET,
    key_specs: &[KeySpec::one(READ)],
    doc: &Doc {
        summary: "Walks over the members of a set, some at each call",
        since: "2.8.0",
        complexity: "O(1) for each call, O(N) for all of the walk",
        args: &[
            KEY,
            integer("cursor"),
            pattern("pattern").token("MATCH").optional(),
            integer("count").token("COUNT").optional(),
        ],
        tips: BY_CHANCE,
        ..SET_DOC
    },
};
