//! Rows of MEMORY, of the server group.

use super::doc::{Doc, Group, KEY, integer};
use super::{Begin, Categories, Find, Flags, KeyFlags, KeySpec, Row};

const MEMORY_DOC: Doc = Doc { group: Group::Server, since: "4.0.0", ..Doc::BASE };

pub const MEMORY: Row = Row {
    name: "memory",
    arity: -2,
    flags: Flags::NONE,
    categories: Categories::NONE,
    key_specs: &[],
    doc: &Doc { summary: "Tells what takes memory", complexity: "Of each subcommand its own", ..MEMORY_DOC },
};

pub const MEMORY_USAGE: Row = Row {
    name: "memory|usage",
    arity: -3,
    flags: Flags::READONLY,
    categories: Categories::NONE,
    key_specs: &[KeySpec::new(KeyFlags::RO, Begin::Index(2), Find::Range { last: 0, step: 1, limit: 0 })],
    doc: &Doc {
        summary: "Returns the bytes of memory that a key takes, all of its value included; nothing is sampled",
        args: &[KEY, integer("count").token("SAMPLES").optional()],
        ..MEMORY_DOC
    },
};

const OF_ALL: &[&str] = &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"];

const fn whole(name: &'static str, doc: &'static Doc) -> Row {
    Row { name, arity: 2, flags: Flags::NONE, categories: Categories::NONE, key_specs: &[], doc }
}

pub const MEMORY_STATS: Row = whole(
    "memory|stats",
    &Doc { summary: "Returns where memory is, down to the classes of chunks", tips: OF_ALL, ..MEMORY_DOC },
);
pub const MEMORY_DOCTOR: Row = whole(
    "memory|doctor",
    &Doc { summary: "Reports in words what is unusual about the memory in use", tips: OF_ALL, ..MEMORY_DOC },
);
pub const MEMORY_MALLOC_STATS: Row = whole(
    "memory|malloc-stats",
    &Doc { summary: "Returns a table of the allocator's classes, blobs and records", tips: OF_ALL, ..MEMORY_DOC },
);
pub const MEMORY_PURGE: Row = whole(
    "memory|purge",
    &Doc {
        summary: "Gives memory that holds no data back to the system, without waiting for its decay",
        tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
        ..MEMORY_DOC
    },
);

pub const MEMORY_HELP: Row = Row {
    name: "memory|help",
    arity: 2,
    flags: Flags::of(&[Flags::LOADING, Flags::STALE]),
    categories: Categories::NONE,
    key_specs: &[],
    doc: &Doc { summary: "Lists the subcommands", ..MEMORY_DOC },
};
