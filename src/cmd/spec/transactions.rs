//! Rows of the transactions group.

use super::doc::{Doc, Group, KEY};
use super::{Categories, Flags, KeyFlags, KeySpec, Row};

const TRANSACTIONS: Doc = Doc { group: Group::Transactions, ..Doc::BASE };
const STEERING: Flags = Flags::of(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE, Flags::FAST, Flags::ALLOW_BUSY]);

pub const MULTI: Row = Row {
    name: "multi",
    arity: 1,
    flags: Flags::of(&[STEERING, Flags::NOT_QUEUED, Flags::ENDS_BATCH, Flags::KEEPS_CACHING]),
    categories: Categories::TRANSACTION,
    key_specs: &[],
    doc: &Doc { summary: "Begins a transaction: what follows is queued", since: "1.2.0", ..TRANSACTIONS },
};

pub const EXEC: Row = Row {
    name: "exec",
    arity: 1,
    flags: Flags::of(&[
        Flags::NOSCRIPT,
        Flags::LOADING,
        Flags::STALE,
        Flags::SKIP_SLOWLOG,
        Flags::NOT_QUEUED,
        Flags::RUNS_QUEUE,
        Flags::ENDS_BATCH,
    ]),
    categories: Categories::TRANSACTION,
    key_specs: &[],
    doc: &Doc {
        summary: "Runs the queued commands as one step",
        since: "1.2.0",
        complexity: "That of the queued commands together",
        ..TRANSACTIONS
    },
};

pub const DISCARD: Row = Row {
    name: "discard",
    arity: 1,
    flags: Flags::of(&[STEERING, Flags::NOT_QUEUED, Flags::ENDS_BATCH]),
    categories: Categories::TRANSACTION,
    key_specs: &[],
    doc: &Doc {
        summary: "Gives up the transaction and what was queued",
        since: "2.0.0",
        complexity: "O(N) in the number of queued commands",
        ..TRANSACTIONS
    },
};

pub const WATCH: Row = Row {
    name: "watch",
    arity: -2,
    flags: Flags::of(&[STEERING, Flags::NOT_QUEUED]),
    categories: Categories::TRANSACTION,
    key_specs: &[KeySpec::every(1, KeyFlags::RO)],
    doc: &Doc {
        summary: "Has the next EXEC do nothing if one of these keys changes until then",
        since: "2.2.0",
        complexity: "O(1) for each key",
        args: &[KEY.multiple()],
        ..TRANSACTIONS
    },
};

pub const UNWATCH: Row = Row {
    name: "unwatch",
    arity: 1,
    flags: STEERING,
    categories: Categories::TRANSACTION,
    key_specs: &[],
    doc: &Doc { summary: "Watches no key any more", since: "2.2.0", ..TRANSACTIONS },
};
