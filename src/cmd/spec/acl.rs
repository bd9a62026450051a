//! Rows of ACL.

use super::doc::{Doc, Group, integer, one_of, string, word};
use super::{Categories, Flags, Row};

const ACL_GROUP: Doc = Doc { group: Group::Server, since: "6.0.0", ..Doc::BASE };
const ANY_TIME: Flags = Flags::of(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE]);
const OPERATOR: Flags = Flags::of(&[Flags::ADMIN, ANY_TIME]);
const OF_USERS: &str = "O(N) in the number of users";

const fn row(name: &'static str, arity: i16, flags: Flags, doc: &'static Doc) -> Row {
    Row { name, arity, flags, categories: Categories::NONE, key_specs: &[], doc }
}

pub const ACL: Row = row(
    "acl",
    -2,
    Flags::NONE,
    &Doc { summary: "Commands about users and what they may do", complexity: "Depends on the subcommand", ..ACL_GROUP },
);

pub const ACL_CAT: Row = row(
    "acl|cat",
    -2,
    ANY_TIME,
    &Doc {
        summary: "Lists the categories of commands, or the commands of one",
        args: &[string("categoryname").optional()],
        ..ACL_GROUP
    },
);

pub const ACL_DELUSER: Row = row(
    "acl|deluser",
    -3,
    OPERATOR,
    &Doc {
        summary: "Deletes users and disconnects their clients",
        complexity: "O(N) in the number of clients",
        args: &[string("username").multiple()],
        ..ACL_GROUP
    },
);

pub const ACL_DRYRUN: Row = row(
    "acl|dryrun",
    -4,
    OPERATOR,
    &Doc {
        summary: "Tells whether a user may run a command, without running it",
        since: "7.0.0",
        args: &[string("username"), string("command"), string("arg").optional().multiple()],
        ..ACL_GROUP
    },
);

pub const ACL_GENPASS: Row = row(
    "acl|genpass",
    -2,
    ANY_TIME,
    &Doc { summary: "Makes a password that cannot be guessed", args: &[integer("bits").optional()], ..ACL_GROUP },
);

pub const ACL_GETUSER: Row = row(
    "acl|getuser",
    3,
    OPERATOR,
    &Doc {
        summary: "Returns the rules of a user",
        complexity: "O(N) in the number of its rules",
        history: &[("6.2.0", "Tells patterns of channels"), ("7.0.0", "Tells selectors; keys and channels as rules")],
        args: &[string("username")],
        ..ACL_GROUP
    },
);

pub const ACL_LIST: Row = row(
    "acl|list",
    2,
    OPERATOR,
    &Doc { summary: "Returns all users, as lines of a file", complexity: OF_USERS, ..ACL_GROUP },
);

pub const ACL_LOAD: Row = row(
    "acl|load",
    2,
    OPERATOR,
    &Doc { summary: "Reads the users from their file again", complexity: OF_USERS, ..ACL_GROUP },
);

pub const ACL_LOG: Row = row(
    "acl|log",
    -2,
    OPERATOR,
    &Doc {
        summary: "Returns what was denied of late, or forgets it",
        complexity: "O(N) in the number of entries returned",
        args: &[one_of("operation", &[integer("count"), word("reset", "RESET")]).optional()],
        ..ACL_GROUP
    },
);

pub const ACL_SAVE: Row =
    row("acl|save", 2, OPERATOR, &Doc { summary: "Writes the users to their file", complexity: OF_USERS, ..ACL_GROUP });

pub const ACL_SETUSER: Row = row(
    "acl|setuser",
    -3,
    OPERATOR,
    &Doc {
        summary: "Makes a user, or changes what it may do",
        complexity: "O(N) in the number of rules, and of clients",
        history: &[
            ("6.2.0", "Takes patterns of channels"),
            ("7.0.0", "Takes selectors and patterns of keys to read or write"),
        ],
        args: &[string("username"), string("rule").optional().multiple()],
        ..ACL_GROUP
    },
);

pub const ACL_USERS: Row = row(
    "acl|users",
    2,
    OPERATOR,
    &Doc { summary: "Returns the names of all users", complexity: OF_USERS, ..ACL_GROUP },
);

pub const ACL_WHOAMI: Row =
    row("acl|whoami", 2, ANY_TIME, &Doc { summary: "Returns the name of this connection's user", ..ACL_GROUP });

pub const ACL_HELP: Row = row(
    "acl|help",
    2,
    Flags::of(&[Flags::LOADING, Flags::STALE]),
    &Doc { summary: "Lists the subcommands", ..ACL_GROUP },
);
