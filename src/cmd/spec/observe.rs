//! Rows of the commands that show what the server does: SLOWLOG, LATENCY, MONITOR, LOLWUT.

use super::doc::{Doc, Group, integer, string};
use super::{Categories, Flags, Row};

const SERVER: Doc = Doc { group: Group::Server, ..Doc::BASE };
const SLOWLOG_GROUP: Doc = Doc { since: "2.2.12", ..SERVER };
const LATENCY_GROUP: Doc = Doc { since: "2.8.13", ..SERVER };
const ANY_TIME: Flags = Flags::of(&[Flags::LOADING, Flags::STALE]);
const OPERATOR: Flags = Flags::of(&[Flags::ADMIN, ANY_TIME]);
const UNSCRIPTED: Flags = Flags::of(&[Flags::NOSCRIPT, OPERATOR]);
const DEPENDS: &str = "Depends on the subcommand";
/// Clients of several servers ask each of them, and put the answers together in a way of their own.
const OF_EACH: &[&str] = &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"];
const ON_EACH: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];

const fn row(name: &'static str, arity: i16, flags: Flags, doc: &'static Doc) -> Row {
    Row { name, arity, flags, categories: Categories::NONE, key_specs: &[], doc }
}

pub const SLOWLOG: Row = row(
    "slowlog",
    -2,
    Flags::NONE,
    &Doc { summary: "Commands about the log of slow commands", complexity: DEPENDS, ..SLOWLOG_GROUP },
);

pub const SLOWLOG_GET: Row = row(
    "slowlog|get",
    -2,
    OPERATOR,
    &Doc {
        summary: "Returns the latest entries",
        complexity: "O(N) in the number of entries returned",
        history: &[("4.0.0", "Tells the client's address and name")],
        args: &[integer("count").optional()],
        tips: &["request_policy:all_nodes", "nondeterministic_output"],
        ..SLOWLOG_GROUP
    },
);

pub const SLOWLOG_LEN: Row = row(
    "slowlog|len",
    2,
    OPERATOR,
    &Doc {
        summary: "Counts the entries",
        tips: &["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"],
        ..SLOWLOG_GROUP
    },
);

pub const SLOWLOG_RESET: Row = row(
    "slowlog|reset",
    2,
    OPERATOR,
    &Doc {
        summary: "Forgets the entries",
        complexity: "O(N) in the number of entries",
        tips: ON_EACH,
        ..SLOWLOG_GROUP
    },
);

pub const SLOWLOG_HELP: Row =
    row("slowlog|help", 2, ANY_TIME, &Doc { summary: "Lists the subcommands", since: "6.2.0", ..SLOWLOG_GROUP });

pub const LATENCY: Row = row(
    "latency",
    -2,
    Flags::NONE,
    &Doc {
        summary: "Commands about what has taken long, and how long commands take",
        complexity: DEPENDS,
        ..LATENCY_GROUP
    },
);

pub const LATENCY_DOCTOR: Row = row(
    "latency|doctor",
    2,
    UNSCRIPTED,
    &Doc { summary: "Reports in words what has taken long, and what may help", tips: OF_EACH, ..LATENCY_GROUP },
);

pub const LATENCY_GRAPH: Row = row(
    "latency|graph",
    3,
    UNSCRIPTED,
    &Doc { summary: "Draws the latest times of an event", args: &[string("event")], tips: OF_EACH, ..LATENCY_GROUP },
);

pub const LATENCY_HISTOGRAM: Row = row(
    "latency|histogram",
    -2,
    UNSCRIPTED,
    &Doc {
        summary: "Returns how many calls of the commands named, or of all, took up to how long",
        since: "7.0.0",
        complexity: "O(N) in the number of commands returned",
        args: &[string("command").optional().multiple()],
        tips: OF_EACH,
        ..LATENCY_GROUP
    },
);

pub const LATENCY_HISTORY: Row = row(
    "latency|history",
    3,
    UNSCRIPTED,
    &Doc {
        summary: "Returns the latest times of an event, and when they were",
        args: &[string("event")],
        tips: OF_EACH,
        ..LATENCY_GROUP
    },
);

pub const LATENCY_LATEST: Row = row(
    "latency|latest",
    2,
    UNSCRIPTED,
    &Doc { summary: "Returns the latest and the longest time of each event", tips: OF_EACH, ..LATENCY_GROUP },
);

pub const LATENCY_RESET: Row = row(
    "latency|reset",
    -2,
    UNSCRIPTED,
    &Doc {
        summary: "Forgets the times of the events named, or of all",
        args: &[string("event").optional().multiple()],
        tips: ON_EACH,
        ..LATENCY_GROUP
    },
);

pub const LATENCY_HELP: Row =
    row("latency|help", 2, ANY_TIME, &Doc { summary: "Lists the subcommands", ..LATENCY_GROUP });

pub const MONITOR: Row = row(
    "monitor",
    1,
    UNSCRIPTED,
    &Doc { summary: "Shows every command that any client has the server run, as it comes", complexity: "", ..SERVER },
);

pub const LOLWUT: Row = Row {
    name: "lolwut",
    arity: -1,
    flags: Flags::of(&[Flags::READONLY, Flags::FAST]),
    categories: Categories::NONE,
    key_specs: &[],
    doc: &Doc {
        summary: "Draws something, and tells the version",
        since: "5.0.0",
        complexity: "",
        args: &[integer("version").token("VERSION").optional()],
        ..SERVER
    },
};
