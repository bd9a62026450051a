//! Rows of the server group.

use super::doc::{ArgDoc, Doc, DocFlags, Group, block, integer, one_of, pattern, string, word};
use super::{Categories, Flags, Row};

const SERVER: Doc = Doc { group: Group::Server, ..Doc::BASE };
const ANY_TIME: Flags = Flags::of(&[Flags::LOADING, Flags::STALE]);
const FLUSHES: Flags = Flags::of(&[Flags::WRITE, Flags::TOUCHES_ARBITRARY_KEYS]);
const OPERATOR: Flags = Flags::of(&[Flags::ADMIN, Flags::NOSCRIPT, ANY_TIME]);

pub const DBSIZE: Row = Row {
    name: "dbsize",
    arity: 1,
    flags: Flags::of(&[Flags::READONLY, Flags::FAST]),
    categories: Categories::KEYSPACE,
    key_specs: &[],
    doc: &Doc {
        summary: "Counts the keys of this database",
        tips: &["request_policy:all_shards", "response_policy:agg_sum"],
        ..SERVER
    },
};

/// ASYNC or SYNC. The group and its first choice share a name, as clients know it.
const FLUSH_MODE: ArgDoc =
    one_of("async", &[word("async", "ASYNC").since("4.0.0"), word("sync", "SYNC").since("6.2.0")]).optional();

pub const FLUSHDB: Row = Row {
    name: "flushdb",
    arity: -1,
    flags: FLUSHES,
    categories: Categories::of(&[Categories::KEYSPACE, Categories::DANGEROUS]),
    key_specs: &[],
    doc: &Doc {
        summary: "Deletes all keys of this database",
        complexity: "O(N) in the number of keys of the database, in slices",
        history: &[("4.0.0", "New option `ASYNC`"), ("6.2.0", "New option `SYNC`")],
        args: &[FLUSH_MODE],
        tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
        ..SERVER
    },
};

pub const FLUSHALL: Row = Row {
    name: "flushall",
    arity: -1,
    flags: FLUSHES,
    categories: Categories::of(&[Categories::KEYSPACE, Categories::DANGEROUS]),
    key_specs: &[],
    doc: &Doc {
        summary: "Deletes all keys of all databases",
        complexity: "O(N) in the number of keys, in slices",
        history: &[("4.0.0", "New option `ASYNC`"), ("6.2.0", "New option `SYNC`")],
        args: &[FLUSH_MODE],
        tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
        ..SERVER
    },
};

/// Unknown to Redis; its version is ours.
pub const FLUSH: Row = Row {
    name: "flush",
    doc: &Doc { summary: "Another name of FLUSHALL", since: "0.1.0", history: &[], ..*FLUSHALL.doc },
    ..FLUSHALL
};

pub const INFO: Row = Row {
    name: "info",
    arity: -1,
    flags: ANY_TIME,
    categories: Categories::DANGEROUS,
    key_specs: &[],
    doc: &Doc {
        summary: "Reports the state and the counters of the server, by section",
        history: &[("7.0.0", "Takes many sections")],
        args: &[string("section").optional().multiple()],
        tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
        ..SERVER
    },
};

pub const COMMAND: Row = Row {
    name: "command",
    arity: -1,
    flags: ANY_TIME,
    categories: Categories::CONNECTION,
    key_specs: &[],
    doc: &Doc {
        summary: "Describes all commands",
        since: "2.8.13",
        complexity: "O(N) in the number of commands",
        tips: &["nondeterministic_output_order"],
        ..SERVER
    },
};

pub const COMMAND_COUNT: Row = Row {
    name: "command|count",
    arity: 2,
    flags: ANY_TIME,
    categories: Categories::CONNECTION,
    key_specs: &[],
    doc: &Doc { summary: "Counts the commands", since: "2.8.13", ..SERVER },
};

pub const COMMAND_DOCS: Row = Row {
    name: "command|docs",
    arity: -2,
    flags: ANY_TIME,
    categories: Categories::CONNECTION,
    key_specs: &[],
    doc: &Doc {
        summary: "Documents the commands named, or all",
        since: "7.0.0",
        complexity: "O(N) in the number of commands asked for",
        args: &[COMMAND_NAMES],
        tips: &["nondeterministic_output_order"],
        ..SERVER
    },
};

const COMMAND_NAMES: ArgDoc = string("command-name").optional().multiple();

pub const COMMAND_GETKEYS: Row = Row {
    name: "command|getkeys",
    arity: -4,
    flags: ANY_TIME,
    categories: Categories::CONNECTION,
    key_specs: &[],
    doc: &Doc {
        summary: "Picks the keys out of a full command",
        since: "2.8.13",
        complexity: "O(N) in the number of arguments of the command",
        args: FULL_COMMAND,
        ..SERVER
    },
};

const FULL_COMMAND: &[ArgDoc] = &[string("command"), string("arg").optional().multiple()];

pub const COMMAND_GETKEYSANDFLAGS: Row = Row {
    name: "command|getkeysandflags",
    arity: -4,
    flags: ANY_TIME,
    categories: Categories::CONNECTION,
    key_specs: &[],
    doc: &Doc {
        summary: "Picks the keys out of a full command and tells what it does with each",
        since: "7.0.0",
        complexity: "O(N) in the number of arguments of the command",
        args: FULL_COMMAND,
        ..SERVER
    },
};

pub const COMMAND_INFO: Row = Row {
    name: "command|info",
    arity: -2,
    flags: ANY_TIME,
    categories: Categories::CONNECTION,
    key_specs: &[],
    doc: &Doc {
        summary: "Describes the commands named, or all",
        since: "2.8.13",
        complexity: "O(N) in the number of commands asked for",
        history: &[("7.0.0", "Without a name it describes all commands")],
        args: &[COMMAND_NAMES],
        tips: &["nondeterministic_output_order"],
        ..SERVER
    },
};

pub const COMMAND_LIST: Row = Row {
    name: "command|list",
    arity: -2,
    flags: ANY_TIME,
    categories: Categories::CONNECTION,
    key_specs: &[],
    doc: &Doc {
        summary: "Lists the names of all commands, or of those that pass a filter",
        since: "7.0.0",
        complexity: "O(N) in the number of commands",
        args: &[one_of(
            "filterby",
            &[
                string("module-name").token("MODULE"),
                string("category").token("ACLCAT"),
                pattern("pattern").token("PATTERN"),
            ],
        )
        .token("FILTERBY")
        .optional()],
        tips: &["nondeterministic_output_order"],
        ..SERVER
    },
};

pub const COMMAND_HELP: Row = Row {
    name: "command|help",
    arity: 2,
    flags: ANY_TIME,
    categories: Categories::CONNECTION,
    key_specs: &[],
    doc: &Doc { summary: "Lists the subcommands", since: "5.0.0", ..SERVER },
};

pub const CONFIG: Row = Row {
    name: "config",
    arity: -2,
    flags: Flags::NONE,
    categories: Categories::NONE,
    key_specs: &[],
    doc: &Doc {
        summary: "Commands about the configuration",
        since: "2.0.0",
        complexity: "Depends on the subcommand",
        ..SERVER
    },
};

pub const CONFIG_GET: Row = Row {
    name: "config|get",
    arity: -3,
    flags: OPERATOR,
    categories: Categories::NONE,
    key_specs: &[],
    doc: &Doc {
        summary: "Returns the parameters whose names match, with their values",
        since: "2.0.0",
        complexity: "O(N) in the number of patterns",
        history: &[("7.0.0", "Takes many patterns")],
        args: &[block("parameter", &[string("parameter")]).multiple()],
        ..SERVER
    },
};

pub const CONFIG_SET: Row = Row {
    name: "config|set",
    arity: -4,
    flags: OPERATOR,
    categories: Categories::NONE,
    key_specs: &[],
    doc: &Doc {
        summary: "Changes parameters, all that are given or none",
        since: "2.0.0",
        complexity: "O(N) in the number of parameters",
        history: &[("7.0.0", "Takes many parameters")],
        args: &[block("parameter_value", &[string("parameter"), string("value")]).multiple()],
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        ..SERVER
    },
};

pub const CONFIG_RESETSTAT: Row = Row {
    name: "config|resetstat",
    arity: 2,
    flags: OPERATOR,
    categories: Categories::NONE,
    key_specs: &[],
    doc: &Doc { summary: "Sets the counters that INFO tells to zero", since: "2.0.0", ..SERVER },
};

pub const CONFIG_REWRITE: Row = Row {
    name: "config|rewrite",
    arity: 2,
    flags: OPERATOR,
    categories: Categories::NONE,
    key_specs: &[],
    doc: &Doc {
        summary: "Writes the parameters as they are now to the configuration file",
        since: "2.8.0",
        complexity: "O(N) in the length of the file",
        ..SERVER
    },
};

pub const CONFIG_HELP: Row = Row {
    name: "config|help",
    arity: 2,
    flags: ANY_TIME,
    categories: Categories::NONE,
    key_specs: &[],
    doc: &Doc { summary: "Lists the subcommands", since: "5.0.0", ..SERVER },
};

pub const TIME: Row = Row {
    name: "time",
    arity: 1,
    flags: Flags::of(&[ANY_TIME, Flags::FAST]),
    categories: Categories::NONE,
    key_specs: &[],
    doc: &Doc {
        summary: "Returns the server's Unix time in seconds, and the microseconds beyond them",
        since: "2.6.0",
        tips: &["nondeterministic_output"],
        ..SERVER
    },
};

/// Its subcommands are no rows, as in Redis: they are for tests and may change.
pub const DEBUG: Row = Row {
    name: "debug",
    arity: -2,
    flags: Flags::of(&[OPERATOR, Flags::PROTECTED]),
    categories: Categories::NONE,
    key_specs: &[],
    doc: &Doc {
        summary: "Commands for tests of the server",
        complexity: "Depends on the subcommand",
        flags: DocFlags::SYSCMD,
        ..SERVER
    },
};

pub const SHUTDOWN: Row = Row {
    name: "shutdown",
    arity: -1,
    flags: Flags::of(&[OPERATOR, Flags::NO_MULTI, Flags::ALLOW_BUSY]),
    categories: Categories::NONE,
    key_specs: &[],
    doc: &Doc {
        summary: "Saves the dataset if so configured or asked, and stops the server",
        complexity: "O(N) in the number of keys when saving, otherwise O(1)",
        history: &[("7.0.0", "New options `NOW`, `FORCE`, `ABORT`")],
        args: &[
            one_of("nosave_save", &[word("nosave", "NOSAVE"), word("save", "SAVE")]).optional(),
            word("now", "NOW").since("7.0.0").optional(),
            word("force", "FORCE").since("7.0.0").optional(),
            word("abort", "ABORT").since("7.0.0").optional(),
        ],
        ..SERVER
    },
};

pub const SAVE: Row = Row {
    name: "save",
    arity: 1,
    flags: Flags::of(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::NO_ASYNC_LOADING, Flags::NO_MULTI]),
    categories: Categories::NONE,
    key_specs: &[],
    doc: &Doc {
        summary: "Saves a snapshot of the dataset to the disk, and answers when it is there",
        complexity: "O(N) in the number of keys, in slices",
        ..SERVER
    },
};

pub const BGSAVE: Row = Row {
    name: "bgsave",
    arity: -1,
    flags: Flags::of(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::NO_ASYNC_LOADING]),
    categories: Categories::NONE,
    key_specs: &[],
    doc: &Doc {
        summary: "Begins to save a snapshot of the dataset to the disk",
        complexity: "O(1)",
        history: &[("3.2.2", "New option `SCHEDULE`")],
        args: &[word("schedule", "SCHEDULE").since("3.2.2").optional()],
        ..SERVER
    },
};

pub const BGREWRITEAOF: Row = Row {
    name: "bgrewriteaof",
    arity: 1,
    flags: Flags::of(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::NO_ASYNC_LOADING]),
    categories: Categories::NONE,
    key_specs: &[],
    doc: &Doc { summary: "Begins to write the append-only file anew", complexity: "O(1)", ..SERVER },
};

pub const WAIT: Row = Row {
    name: "wait",
    arity: 3,
    flags: Flags::of(&[Flags::NOSCRIPT]),
    categories: Categories::CONNECTION,
    key_specs: &[],
    doc: &Doc {
        summary: "Waits until replicas have what the client has written; there are none",
        since: "3.0.0",
        group: Group::Generic,
        complexity: "O(1)",
        args: &[integer("numreplicas"), integer("timeout")],
        tips: &["request_policy:all_shards", "response_policy:agg_min"],
        ..SERVER
    },
};

pub const WAITAOF: Row = Row {
    name: "waitaof",
    arity: 4,
    flags: Flags::of(&[Flags::NOSCRIPT]),
    categories: Categories::CONNECTION,
    key_specs: &[],
    doc: &Doc {
        summary: "Waits until what the client has written lasts in the append-only file",
        since: "7.2.0",
        group: Group::Generic,
        complexity: "O(1)",
        args: &[integer("numlocal"), integer("numreplicas"), integer("timeout")],
        tips: &["request_policy:all_shards", "response_policy:agg_min"],
        ..SERVER
    },
};

pub const LASTSAVE: Row = Row {
    name: "lastsave",
    arity: 1,
    flags: Flags::of(&[ANY_TIME, Flags::FAST]),
    categories: Categories::of(&[Categories::ADMIN, Categories::DANGEROUS]),
    key_specs: &[],
    doc: &Doc {
        summary: "Tells when the last snapshot was saved, in Unix time",
        tips: &["nondeterministic_output"],
        ..SERVER
    },
};

pub const SWAPDB: Row = Row {
    name: "swapdb",
    arity: 3,
    flags: Flags::of(&[Flags::WRITE, Flags::FAST, Flags::TOUCHES_ARBITRARY_KEYS]),
    categories: Categories::of(&[Categories::KEYSPACE, Categories::DANGEROUS]),
    key_specs: &[],
    doc: &Doc {
        summary: "Swaps two databases: who has selected one sees the keys of the other",
        since: "4.0.0",
        args: &[integer("index1"), integer("index2")],
        ..SERVER
    },
};
