//! Rows of the pub/sub group.

use super::doc::{ArgDoc, Doc, Group, block, pattern, string};
use super::{Begin, Categories, Find, Flags, KeyFlags, KeySpec, Row};

const PUBSUB_GROUP: Doc = Doc { group: Group::Pubsub, since: "2.0.0", ..Doc::BASE };
/// What a connection may still call in RESP2 when it has subscriptions; and what it is changes by it.
const LISTEN: Flags =
    Flags::of(&[Flags::PUBSUB, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE, Flags::SUBSCRIBED, Flags::ENDS_BATCH]);
const POST: Flags = Flags::of(&[Flags::PUBSUB, Flags::LOADING, Flags::STALE, Flags::FAST]);
const ASK: Flags = Flags::of(&[Flags::PUBSUB, Flags::LOADING, Flags::STALE]);

/// A shard channel: it is looked for where a key of that name would be.
const fn shard_channels(last: i8) -> KeySpec {
    KeySpec::new(KeyFlags::NOT_KEY, Begin::Index(1), Find::Range { last, step: 1, limit: 0 })
}

const fn listen(name: &'static str, arity: i16, doc: &'static Doc) -> Row {
    Row { name, arity, flags: LISTEN, categories: Categories::PUBSUB, key_specs: &[], doc }
}

const CHANNELS: &[ArgDoc] = &[string("channel").multiple()];
const PATTERNS: &[ArgDoc] = &[block("pattern", &[pattern("pattern")]).multiple()];
const SHARD_CHANNELS: &[ArgDoc] = &[string("shardchannel").multiple()];

pub const SUBSCRIBE: Row = listen(
    "subscribe",
    -2,
    &Doc { summary: "Listens to channels", complexity: "O(N) in the channels", args: CHANNELS, ..PUBSUB_GROUP },
);

pub const UNSUBSCRIBE: Row = listen(
    "unsubscribe",
    -1,
    &Doc {
        summary: "Listens to channels no more, to none without names",
        complexity: "O(N) in the channels",
        args: &[string("channel").optional().multiple()],
        ..PUBSUB_GROUP
    },
);

pub const PSUBSCRIBE: Row = listen(
    "psubscribe",
    -2,
    &Doc {
        summary: "Listens to all channels that match patterns",
        complexity: "O(N) in the patterns",
        args: PATTERNS,
        ..PUBSUB_GROUP
    },
);

pub const PUNSUBSCRIBE: Row = listen(
    "punsubscribe",
    -1,
    &Doc {
        summary: "Listens to patterns no more, to none without names",
        complexity: "O(N) in the patterns",
        args: &[pattern("pattern").optional().multiple()],
        ..PUBSUB_GROUP
    },
);

pub const SSUBSCRIBE: Row = Row {
    key_specs: &[shard_channels(-1)],
    ..listen(
        "ssubscribe",
        -2,
        &Doc {
            summary: "Listens to shard channels",
            since: "7.0.0",
            complexity: "O(N) in the channels",
            args: SHARD_CHANNELS,
            ..PUBSUB_GROUP
        },
    )
};

pub const SUNSUBSCRIBE: Row = Row {
    key_specs: &[shard_channels(-1)],
    ..listen(
        "sunsubscribe",
        -1,
        &Doc {
            summary: "Listens to shard channels no more, to none without names",
            since: "7.0.0",
            complexity: "O(N) in the channels",
            args: &[string("shardchannel").optional().multiple()],
            ..PUBSUB_GROUP
        },
    )
};

pub const PUBLISH: Row = Row {
    name: "publish",
    arity: 3,
    flags: POST,
    categories: Categories::PUBSUB,
    key_specs: &[],
    doc: &Doc {
        summary: "Sends a message to those who listen to a channel, and counts them",
        complexity: "O(N+M) in the listeners of the channel and the patterns that may match",
        args: &[string("channel"), string("message")],
        ..PUBSUB_GROUP
    },
};

pub const SPUBLISH: Row = Row {
    name: "spublish",
    arity: 3,
    flags: POST,
    categories: Categories::PUBSUB,
    key_specs: &[shard_channels(0)],
    doc: &Doc {
        summary: "Sends a message to those who listen to a shard channel, and counts them",
        since: "7.0.0",
        complexity: "O(N) in the listeners of the channel",
        args: &[string("shardchannel"), string("message")],
        ..PUBSUB_GROUP
    },
};

pub const PUBSUB: Row = Row {
    name: "pubsub",
    arity: -2,
    flags: Flags::NONE,
    categories: Categories::NONE,
    key_specs: &[],
    doc: &Doc {
        summary: "Tells who listens to what",
        since: "2.8.0",
        complexity: "Of each subcommand its own",
        ..PUBSUB_GROUP
    },
};

const fn ask(name: &'static str, arity: i16, doc: &'static Doc) -> Row {
    Row { name, arity, flags: ASK, categories: Categories::PUBSUB, key_specs: &[], doc }
}

pub const PUBSUB_CHANNELS: Row = ask(
    "pubsub|channels",
    -2,
    &Doc {
        summary: "Lists the channels that somebody listens to, all or those that match",
        since: "2.8.0",
        complexity: "O(N) in the channels",
        args: &[pattern("pattern").optional()],
        ..PUBSUB_GROUP
    },
);

pub const PUBSUB_NUMPAT: Row = ask(
    "pubsub|numpat",
    2,
    &Doc { summary: "Counts the different patterns that are listened to", since: "2.8.0", ..PUBSUB_GROUP },
);

pub const PUBSUB_NUMSUB: Row = ask(
    "pubsub|numsub",
    -2,
    &Doc {
        summary: "Counts the listeners of channels, without those of patterns",
        since: "2.8.0",
        complexity: "O(N) in the channels asked for",
        args: &[string("channel").optional().multiple()],
        ..PUBSUB_GROUP
    },
);

pub const PUBSUB_SHARDCHANNELS: Row = ask(
    "pubsub|shardchannels",
    -2,
    &Doc {
        summary: "Lists the shard channels that somebody listens to, all or those that match",
        since: "7.0.0",
        complexity: "O(N) in the channels",
        args: &[pattern("pattern").optional()],
        ..PUBSUB_GROUP
    },
);

pub const PUBSUB_SHARDNUMSUB: Row = ask(
    "pubsub|shardnumsub",
    -2,
    &Doc {
        summary: "Counts the listeners of shard channels",
        since: "7.0.0",
        complexity: "O(N) in the channels asked for",
        args: &[string("shardchannel").optional().multiple()],
        ..PUBSUB_GROUP
    },
);

pub const PUBSUB_HELP: Row = Row {
    name: "pubsub|help",
    arity: 2,
    flags: Flags::of(&[Flags::LOADING, Flags::STALE]),
    categories: Categories::NONE,
    key_specs: &[],
    doc: &Doc { summary: "Lists the subcommands", since: "6.2.0", ..PUBSUB_GROUP },
};
