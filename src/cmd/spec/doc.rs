//! The documentation of a command: what `COMMAND DOCS` reports, in our own words.

/// The section of the manual a command belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Group {
    Bitmap,
    Connection,
    Generic,
    Pubsub,
    Hash,
    List,
    Server,
    SortedSet,
    Set,
    String,
    Transactions,
}

impl Group {
    pub const fn name(self) -> &'static str {
        match self {
            Group::Bitmap => "bitmap",
            Group::Connection => "connection",
            Group::Generic => "generic",
            Group::Pubsub => "pubsub",
            Group::Hash => "hash",
            Group::List => "list",
            Group::Server => "server",
            Group::SortedSet => "sorted-set",
            Group::Set => "set",
            Group::String => "string",
            Group::Transactions => "transactions",
        }
    }
}

bit_set! {
    /// Remarks on a whole command.
    DocFlags {
        DEPRECATED: 0 = "deprecated",
        /// Not for users.
        SYSCMD: 1 = "syscmd",
    }
}

bit_set! {
    /// How often an argument may come.
    ArgFlags {
        OPTIONAL: 0 = "optional",
        MULTIPLE: 1 = "multiple",
        /// Its token is repeated with each value.
        MULTIPLE_TOKEN: 2 = "multiple_token",
    }
}

/// What `COMMAND DOCS` tells about a command. Built from `Doc::BASE`.
#[derive(Clone, Copy)]
pub struct Doc {
    pub summary: &'static str,
    pub since: &'static str,
    pub group: Group,
    /// Empty where Redis tells none.
    pub complexity: &'static str,
    pub flags: DocFlags,
    pub deprecated_since: Option<&'static str>,
    pub replaced_by: Option<&'static str>,
    /// (version, what changed), oldest first.
    pub history: &'static [(&'static str, &'static str)],
    pub args: &'static [ArgDoc],
    /// Hints for clients and proxies; printed by `COMMAND INFO`.
    pub tips: &'static [&'static str],
}

impl Doc {
    pub const BASE: Doc = Doc {
        summary: "",
        since: "1.0.0",
        group: Group::Generic,
        complexity: "O(1)",
        flags: DocFlags::NONE,
        deprecated_since: None,
        replaced_by: None,
        history: &[],
        args: &[],
        tips: &[],
    };
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArgKind {
    String,
    Integer,
    Double,
    Key,
    Pattern,
    UnixTime,
    /// Only its token.
    PureToken,
    /// One of its children.
    OneOf,
    /// All of its children in order.
    Block,
}

impl ArgKind {
    pub const fn name(self) -> &'static str {
        match self {
            ArgKind::String => "string",
            ArgKind::Integer => "integer",
            ArgKind::Double => "double",
            ArgKind::Key => "key",
            ArgKind::Pattern => "pattern",
            ArgKind::UnixTime => "unix-time",
            ArgKind::PureToken => "pure-token",
            ArgKind::OneOf => "oneof",
            ArgKind::Block => "block",
        }
    }
}

/// One argument, or a group of them. Built by the functions below.
#[derive(Clone, Copy)]
pub struct ArgDoc {
    pub name: &'static str,
    pub kind: ArgKind,
    /// The word that introduces it.
    pub token: Option<&'static str>,
    /// For keys: which of the command's key specifications finds it.
    pub key_spec_index: Option<u8>,
    pub since: Option<&'static str>,
    pub deprecated_since: Option<&'static str>,
    pub flags: ArgFlags,
    /// How to show it where that is not its name.
    pub display: Option<&'static str>,
    pub children: &'static [ArgDoc],
}

impl ArgDoc {
    const fn new(kind: ArgKind, name: &'static str, children: &'static [ArgDoc]) -> ArgDoc {
        ArgDoc {
            name,
            kind,
            token: None,
            key_spec_index: None,
            since: None,
            deprecated_since: None,
            flags: ArgFlags::NONE,
            display: None,
            children,
        }
    }

    pub const fn token(mut self, token: &'static str) -> ArgDoc {
        self.token = Some(token);
        self
    }

    pub const fn since(mut self, version: &'static str) -> ArgDoc {
        self.since = Some(version);
        self
    }

    pub const fn optional(mut self) -> ArgDoc {
        self.flags = ArgFlags::of(&[self.flags, ArgFlags::OPTIONAL]);
        self
    }

    /// Its token comes again with each value.
    pub const fn multiple_token(mut self) -> ArgDoc {
        self.flags = ArgFlags::of(&[self.flags, ArgFlags::MULTIPLE, ArgFlags::MULTIPLE_TOKEN]);
        self
    }

    pub const fn multiple(mut self) -> ArgDoc {
        self.flags = ArgFlags::of(&[self.flags, ArgFlags::MULTIPLE]);
        self
    }
}

/// A key found by the first key specification.
pub(super) const KEY: ArgDoc = ArgDoc { key_spec_index: Some(0), ..ArgDoc::new(ArgKind::Key, "key", &[]) };

/// A key found by the key specification of this index.
pub(super) const fn key(name: &'static str, key_spec_index: u8) -> ArgDoc {
    ArgDoc { key_spec_index: Some(key_spec_index), ..ArgDoc::new(ArgKind::Key, name, &[]) }
}

pub(super) const VALUE: ArgDoc = string("value");

pub(super) const fn string(name: &'static str) -> ArgDoc {
    ArgDoc::new(ArgKind::String, name, &[])
}

pub(super) const fn integer(name: &'static str) -> ArgDoc {
    ArgDoc::new(ArgKind::Integer, name, &[])
}

pub(super) const fn double(name: &'static str) -> ArgDoc {
    ArgDoc::new(ArgKind::Double, name, &[])
}

pub(super) const fn pattern(name: &'static str) -> ArgDoc {
    ArgDoc::new(ArgKind::Pattern, name, &[])
}

pub(super) const fn unix_time(name: &'static str) -> ArgDoc {
    ArgDoc::new(ArgKind::UnixTime, name, &[])
}

pub(super) const fn word(name: &'static str, token: &'static str) -> ArgDoc {
    ArgDoc::new(ArgKind::PureToken, name, &[]).token(token)
}

pub(super) const fn one_of(name: &'static str, choices: &'static [ArgDoc]) -> ArgDoc {
    ArgDoc::new(ArgKind::OneOf, name, choices)
}

pub(super) const fn block(name: &'static str, parts: &'static [ArgDoc]) -> ArgDoc {
    ArgDoc::new(ArgKind::Block, name, parts)
}
