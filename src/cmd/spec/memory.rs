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

pub const MEMORY_HELP: Row = Row {
    name: "memory|help",
    arity: 2,
    flags: Flags::of(&[Flags::LOADING, Flags::STALE]),
    categories: Categories::NONE,
    key_specs: &[],
    doc: &Doc { summary: "Lists the subcommands", ..MEMORY_DOC },
};
