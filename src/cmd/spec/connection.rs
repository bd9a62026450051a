//! Rows of the connection group.

use super::doc::{Doc, DocFlags, Group, block, integer, one_of, string, word};
use super::{Categories, Flags, Row};

const CONNECTION: Doc = Doc { group: Group::Connection, ..Doc::BASE };
const HANDSHAKE: Flags =
    Flags::of(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE, Flags::FAST, Flags::NO_AUTH, Flags::ALLOW_BUSY]);
/// Of the subcommands of CLIENT about the caller's own connection.
const OWN: Flags = Flags::of(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE]);

pub const PING: Row = Row {
    name: "ping",
    arity: -1,
    flags: Flags::FAST,
    categories: Categories::CONNECTION,
    key_specs: &[],
    doc: &Doc {
        summary: "Answers PONG, or the message given",
        args: &[string("message").optional()],
        tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
        ..CONNECTION
    },
};

pub const ECHO: Row = Row {
    name: "echo",
    arity: 2,
    flags: Flags::of(&[Flags::LOADING, Flags::STALE, Flags::FAST]),
    categories: Categories::CONNECTION,
    key_specs: &[],
    doc: &Doc { summary: "Answers with its argument", args: &[string("message")], ..CONNECTION },
};

pub const QUIT: Row = Row {
    name: "quit",
    arity: -1,
    flags: Flags::of(&[HANDSHAKE, Flags::ENDS_BATCH]),
    categories: Categories::CONNECTION,
    key_specs: &[],
    doc: &Doc {
        summary: "Closes this connection once all earlier replies are sent",
        flags: DocFlags::DEPRECATED,
        deprecated_since: Some("7.2.0"),
        replaced_by: Some("closing the connection at the client"),
        ..CONNECTION
    },
};

pub const HELLO: Row = Row {
    name: "hello",
    arity: -1,
    flags: Flags::of(&[HANDSHAKE, Flags::ENDS_BATCH]),
    categories: Categories::CONNECTION,
    key_specs: &[],
    doc: &Doc {
        summary: "Chooses the protocol version, optionally with credentials and a name, and describes the server",
        since: "6.0.0",
        history: &[("6.2.0", "Without a version it only describes the server and the connection")],
        args: &[block(
            "arguments",
            &[
                integer("protover"),
                block("username_password", &[string("username"), string("password")]).token("AUTH").optional(),
                string("clientname").token("SETNAME").optional(),
            ],
        )
        .optional()],
        ..CONNECTION
    },
};

pub const AUTH: Row = Row {
    name: "auth",
    arity: -2,
    flags: Flags::of(&[HANDSHAKE, Flags::ENDS_BATCH]),
    categories: Categories::CONNECTION,
    key_specs: &[],
    doc: &Doc {
        summary: "Authenticates this connection",
        complexity: "O(N) in the number of passwords of the user",
        history: &[("6.0.0", "A user name can come before the password")],
        args: &[string("username").since("6.0.0").optional(), string("password")],
        ..CONNECTION
    },
};

pub const SELECT: Row = Row {
    name: "select",
    arity: 2,
    flags: Flags::of(&[Flags::LOADING, Flags::STALE, Flags::FAST, Flags::ENDS_BATCH]),
    categories: Categories::CONNECTION,
    key_specs: &[],
    doc: &Doc {
        summary: "Makes later commands of this connection use another database",
        args: &[integer("index")],
        ..CONNECTION
    },
};

pub const CLIENT: Row = Row {
    name: "client",
    arity: -2,
    flags: Flags::NONE,
    categories: Categories::NONE,
    key_specs: &[],
    doc: &Doc {
        summary: "Commands about client connections",
        since: "2.4.0",
        complexity: "Depends on the subcommand",
        ..CONNECTION
    },
};

pub const CLIENT_GETNAME: Row = Row {
    name: "client|getname",
    arity: 2,
    flags: OWN,
    categories: Categories::CONNECTION,
    key_specs: &[],
    doc: &Doc { summary: "Returns the name of this connection, or null", since: "2.6.9", ..CONNECTION },
};

pub const CLIENT_ID: Row = Row {
    name: "client|id",
    arity: 2,
    flags: OWN,
    categories: Categories::CONNECTION,
    key_specs: &[],
    doc: &Doc { summary: "Returns the number that identifies this connection", since: "5.0.0", ..CONNECTION },
};

pub const CLIENT_INFO: Row = Row {
    name: "client|info",
    arity: 2,
    flags: OWN,
    categories: Categories::CONNECTION,
    key_specs: &[],
    doc: &Doc {
        summary: "Describes this connection in a line as CLIENT LIST does",
        since: "6.2.0",
        tips: &["nondeterministic_output"],
        ..CONNECTION
    },
};

pub const CLIENT_LIST: Row = Row {
    name: "client|list",
    arity: -2,
    flags: Flags::of(&[Flags::ADMIN, OWN]),
    categories: Categories::CONNECTION,
    key_specs: &[],
    doc: &Doc {
        summary: "Describes every connection, a line each",
        since: "2.4.0",
        complexity: "O(N) in the number of connections",
        history: &[
            ("2.8.12", "New field `id`"),
            ("5.0.0", "Can be limited to a `TYPE`"),
            ("6.0.0", "New field `user`"),
            ("6.2.0", "New fields `argv-mem`, `tot-mem`, `laddr`, `redir`; can be limited to some `ID`s"),
            ("7.0.0", "New fields `resp`, `multi-mem`, `rbs`, `rbp`"),
            ("7.0.3", "New field `ssub`"),
        ],
        args: &[
            one_of(
                "normal_master_replica_pubsub",
                &[
                    word("normal", "NORMAL"),
                    word("master", "MASTER"),
                    word("replica", "REPLICA"),
                    word("pubsub", "PUBSUB"),
                ],
            )
            .token("TYPE")
            .since("5.0.0")
            .optional(),
            block("id", &[integer("client-id").multiple()]).token("ID").since("6.2.0").optional(),
        ],
        tips: &["nondeterministic_output"],
        ..CONNECTION
    },
};

pub const CLIENT_SETINFO: Row = Row {
    name: "client|setinfo",
    arity: 4,
    flags: OWN,
    categories: Categories::CONNECTION,
    key_specs: &[],
    doc: &Doc {
        summary: "Records the name or the version of the client library of this connection",
        since: "7.2.0",
        args: &[one_of("attr", &[string("libname").token("LIB-NAME"), string("libver").token("LIB-VER")])],
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        ..CONNECTION
    },
};

pub const CLIENT_SETNAME: Row = Row {
    name: "client|setname",
    arity: 3,
    flags: OWN,
    categories: Categories::CONNECTION,
    key_specs: &[],
    doc: &Doc {
        summary: "Names this connection; an empty name removes the name",
        since: "2.6.9",
        args: &[string("connection-name")],
        ..CONNECTION
    },
};

pub const CLIENT_HELP: Row = Row {
    name: "client|help",
    arity: 2,
    flags: Flags::of(&[Flags::LOADING, Flags::STALE]),
    categories: Categories::CONNECTION,
    key_specs: &[],
    doc: &Doc { summary: "Lists the subcommands", since: "5.0.0", ..CONNECTION },
};
