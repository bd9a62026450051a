//! Rows of the connection group.

use super::doc::{ArgDoc, Doc, DocFlags, Group, block, integer, one_of, string, word};
use super::{Categories, Flags, Row};

const CONNECTION: Doc = Doc { group: Group::Connection, ..Doc::BASE };
const HANDSHAKE: Flags =
    Flags::of(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE, Flags::FAST, Flags::NO_AUTH, Flags::ALLOW_BUSY]);
/// Of the subcommands of CLIENT about the caller's own connection.
const OWN: Flags = Flags::of(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE, Flags::KEEPS_CACHING]);

pub const PING: Row = Row {
    name: "ping",
    arity: -1,
    flags: Flags::of(&[Flags::FAST, Flags::SUBSCRIBED, Flags::TELLS_OF_ERRORS]),
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
    flags: Flags::of(&[HANDSHAKE, Flags::ENDS_BATCH, Flags::NOT_QUEUED, Flags::SUBSCRIBED]),
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
    flags: Flags::of(&[Flags::LOADING, Flags::STALE, Flags::FAST, Flags::ENDS_BATCH, Flags::OTHER_DATABASE]),
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
    // Among them are those that decide whether what follows is answered, and how it runs.
    flags: Flags::ENDS_BATCH,
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

pub const CLIENT_KILL: Row = Row {
    name: "client|kill",
    arity: -3,
    flags: Flags::of(&[Flags::ADMIN, OWN]),
    categories: Categories::CONNECTION,
    key_specs: &[],
    doc: &Doc {
        summary: "Closes the connections that all filters match",
        since: "2.4.0",
        complexity: "O(N) in the number of connections",
        history: &[
            ("2.8.12", "New form with filters"),
            ("2.8.12", "`ID` filter"),
            ("3.2.0", "`master` as a `TYPE`"),
            ("5.0.0", "`replica` for `slave`; both are understood"),
            ("6.2.0", "`LADDR` filter"),
        ],
        args: &[one_of(
            "filter",
            &[
                ArgDoc { deprecated_since: Some("2.8.12"), ..string("ip:port") },
                one_of(
                    "new-format",
                    &[
                        integer("client-id").token("ID").since("2.8.12").optional(),
                        one_of(
                            "normal_master_slave_pubsub",
                            &[
                                word("normal", "NORMAL"),
                                word("master", "MASTER").since("3.2.0"),
                                word("slave", "SLAVE"),
                                word("replica", "REPLICA").since("5.0.0"),
                                word("pubsub", "PUBSUB"),
                            ],
                        )
                        .token("TYPE")
                        .since("2.8.12")
                        .optional(),
                        string("username").token("USER").optional(),
                        string("ip:port").token("ADDR").optional(),
                        string("ip:port").token("LADDR").since("6.2.0").optional(),
                        string("yes/no").token("SKIPME").optional(),
                    ],
                )
                .multiple(),
            ],
        )],
        ..CONNECTION
    },
};

pub const CLIENT_PAUSE: Row = Row {
    name: "client|pause",
    arity: -3,
    flags: Flags::of(&[Flags::ADMIN, OWN]),
    categories: Categories::CONNECTION,
    key_specs: &[],
    doc: &Doc {
        summary: "Lets commands of all clients wait for some time, or only those that write",
        since: "2.9.50",
        history: &[("6.2.0", "Can be limited to `WRITE`")],
        args: &[
            integer("timeout"),
            one_of("mode", &[word("write", "WRITE"), word("all", "ALL")]).since("6.2.0").optional(),
        ],
        ..CONNECTION
    },
};

pub const CLIENT_UNPAUSE: Row = Row {
    name: "client|unpause",
    arity: 2,
    flags: Flags::of(&[Flags::ADMIN, OWN]),
    categories: Categories::CONNECTION,
    key_specs: &[],
    doc: &Doc {
        summary: "Ends CLIENT PAUSE",
        since: "6.2.0",
        complexity: "O(N) in the number of paused clients",
        ..CONNECTION
    },
};

pub const CLIENT_REPLY: Row = Row {
    name: "client|reply",
    arity: 3,
    flags: OWN,
    categories: Categories::CONNECTION,
    key_specs: &[],
    doc: &Doc {
        summary: "Chooses which commands of this connection are answered",
        since: "3.2.0",
        args: &[one_of("on_off_skip", &[word("on", "ON"), word("off", "OFF"), word("skip", "SKIP")])],
        ..CONNECTION
    },
};

pub const CLIENT_NO_EVICT: Row = Row {
    name: "client|no-evict",
    arity: 3,
    flags: Flags::of(&[Flags::ADMIN, OWN]),
    categories: Categories::CONNECTION,
    key_specs: &[],
    doc: &Doc {
        summary: "Exempts this connection from being closed to make room",
        since: "7.0.0",
        args: &[one_of("enabled", &[word("on", "ON"), word("off", "OFF")])],
        ..CONNECTION
    },
};

/// Since Redis 7.2.
pub const CLIENT_NO_TOUCH: Row = Row {
    name: "client|no-touch",
    arity: 3,
    flags: OWN,
    categories: Categories::CONNECTION,
    key_specs: &[],
    doc: &Doc {
        summary: "Decides whether commands of this connection count as uses of keys",
        since: "7.2.0",
        args: &[one_of("enabled", &[word("on", "ON"), word("off", "OFF")])],
        ..CONNECTION
    },
};

pub const CLIENT_UNBLOCK: Row = Row {
    name: "client|unblock",
    arity: -3,
    flags: Flags::of(&[Flags::ADMIN, OWN]),
    categories: Categories::CONNECTION,
    key_specs: &[],
    doc: &Doc {
        summary: "Ends the wait of a blocked client, as a timeout or with an error",
        since: "5.0.0",
        complexity: "O(log N) in the number of connections",
        args: &[
            integer("client-id"),
            one_of("timeout_error", &[word("timeout", "TIMEOUT"), word("error", "ERROR")]).optional(),
        ],
        ..CONNECTION
    },
};

pub const RESET: Row = Row {
    name: "reset",
    arity: 1,
    flags: Flags::of(&[HANDSHAKE, Flags::ENDS_BATCH, Flags::NOT_QUEUED, Flags::SUBSCRIBED]),
    categories: Categories::CONNECTION,
    key_specs: &[],
    doc: &Doc { summary: "Brings this connection back to the state in which it began", since: "6.2.0", ..CONNECTION },
};

pub const CLIENT_TRACKING: Row = Row {
    name: "client|tracking",
    arity: -3,
    // Every shard is to know that somebody listens to all changes.
    flags: Flags::of(&[OWN, Flags::TOUCHES_ARBITRARY_KEYS]),
    categories: Categories::CONNECTION,
    key_specs: &[],
    doc: &Doc {
        summary: "Has the server tell this connection, or another, of changes of keys that it may have cached",
        since: "6.0.0",
        complexity: "O(1), with prefixes O(N) in their number",
        args: &[
            one_of("status", &[word("on", "ON"), word("off", "OFF")]),
            integer("client-id").token("REDIRECT").optional(),
            string("prefix").token("PREFIX").multiple_token().optional(),
            word("bcast", "BCAST").optional(),
            word("optin", "OPTIN").optional(),
            word("optout", "OPTOUT").optional(),
            word("noloop", "NOLOOP").optional(),
        ],
        ..CONNECTION
    },
};

pub const CLIENT_CACHING: Row = Row {
    name: "client|caching",
    arity: 3,
    flags: OWN,
    categories: Categories::CONNECTION,
    key_specs: &[],
    doc: &Doc {
        summary: "Says whether what the next command reads is tracked",
        since: "6.0.0",
        args: &[one_of("mode", &[word("yes", "YES"), word("no", "NO")])],
        ..CONNECTION
    },
};

pub const CLIENT_TRACKINGINFO: Row = Row {
    name: "client|trackinginfo",
    arity: 2,
    flags: OWN,
    categories: Categories::CONNECTION,
    key_specs: &[],
    doc: &Doc { summary: "Tells what this connection tracks", since: "6.2.0", ..CONNECTION },
};

pub const CLIENT_GETREDIR: Row = Row {
    name: "client|getredir",
    arity: 2,
    flags: OWN,
    categories: Categories::CONNECTION,
    key_specs: &[],
    doc: &Doc {
        summary: "Returns the connection that is told of changes instead of this one",
        since: "6.0.0",
        ..CONNECTION
    },
};

pub const CLIENT_HELP: Row = Row {
    name: "client|help",
    arity: 2,
    flags: Flags::of(&[Flags::LOADING, Flags::STALE, Flags::KEEPS_CACHING]),
    categories: Categories::CONNECTION,
    key_specs: &[],
    doc: &Doc { summary: "Lists the subcommands", since: "5.0.0", ..CONNECTION },
};
