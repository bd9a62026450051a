//! Directives of the append-only file.

use super::Config;
use super::table::{Directive, Group, INT_MAX, Kind, Mutability, narrow};
use super::value::ValueError;
use crate::base::fsync::Fsync;

/// Settings of the append-only file.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct LogConfig {
    pub on: bool,
    /// The name that its files begin with, in the folder `folder` of `dir`.
    pub stem: String,
    pub folder: String,
    pub fsync: Fsync,
    /// No fsync while a snapshot or a rewrite goes on.
    pub lazy_while_saving: bool,
    pub timestamps: bool,
    /// What a crash has cut off at the end of the last file is no error.
    pub cuts_off: bool,
    /// The base file is a snapshot, not commands.
    pub snapshot_base: bool,
    /// Files that were replaced stay.
    pub keeps_history: bool,
    /// By how much it has grown, in percent, when it is rewritten by itself (0: never), and how large it is then at least.
    pub rewrite_percent: u32,
    pub rewrite_bytes_min: u64,
}

fn name_of(word: &[u8], path: &'static str) -> Result<String, ValueError> {
    if word.contains(&b'/') {
        return Err(ValueError::Refused(path.into()));
    }
    let name = std::str::from_utf8(word).ok().filter(|name| !name.is_empty() && !name.contains('\0'));
    name.map(str::to_owned).ok_or_else(|| ValueError::Refused("it must be a name".into()))
}

/// A row for a switch.
macro_rules! switch {
    ($name:literal, $default:literal, $summary:literal, $field:ident) => {
        Directive {
            name: $name,
            aliases: &[],
            group: Group::Persistence,
            default: $default,
            mutability: Mutability::Mutable,
            summary: $summary,
            kind: Kind::Bool {
                get: |c: &Config| c.log.$field,
                set: |c: &mut Config, on| {
                    c.log.$field = on;
                    Ok(())
                },
            },
        }
    };
}

pub(super) static LOG: &[Directive] = &[
    switch!("appendonly", "no", "Log every change to the append-only file", on),
    Directive {
        name: "appendfilename",
        aliases: &[],
        group: Group::Persistence,
        default: "appendonly.aof",
        mutability: Mutability::Immutable,
        summary: "What the names of its files begin with",
        kind: Kind::Text {
            what: "<name>",
            get: |c| c.log.stem.clone().into_bytes(),
            set: |c, word| {
                c.log.stem = name_of(word, "appendfilename can't be a path, just a filename")?;
                Ok(())
            },
        },
    },
    Directive {
        name: "appenddirname",
        aliases: &[],
        group: Group::Persistence,
        default: "appendonlydir",
        mutability: Mutability::Immutable,
        summary: "The folder of its files, in dir",
        kind: Kind::Text {
            what: "<name>",
            get: |c| c.log.folder.clone().into_bytes(),
            set: |c, word| {
                c.log.folder = name_of(word, "appenddirname can't be a path, just a dirname")?;
                Ok(())
            },
        },
    },
    Directive {
        name: "appendfsync",
        aliases: &[],
        group: Group::Persistence,
        default: "everysec",
        mutability: Mutability::Mutable,
        summary: "When it is made to last: before the reply, once a second, or when the system likes to",
        kind: Kind::Enum {
            names: &["everysec", "always", "no"],
            get: |c| c.log.fsync as usize,
            set: |c, position| {
                c.log.fsync = match position {
                    1 => Fsync::Always,
                    2 => Fsync::Never,
                    _ => Fsync::EverySecond,
                };
            },
        },
    },
    switch!(
        "no-appendfsync-on-rewrite",
        "no",
        "No fsync of the append-only file while a snapshot or a rewrite is written",
        lazy_while_saving
    ),
    switch!("aof-timestamp-enabled", "no", "Note the time in the append-only file, as comments", timestamps),
    switch!("aof-load-truncated", "yes", "At the start, cut off a command that is not complete", cuts_off),
    switch!(
        "aof-use-rdb-preamble",
        "yes",
        "Rewrite the append-only file as a snapshot, not as commands",
        snapshot_base
    ),
    switch!("aof-disable-auto-gc", "no", "Keep files that a rewrite has replaced", keeps_history),
    Directive {
        name: "auto-aof-rewrite-percentage",
        aliases: &[],
        group: Group::Persistence,
        default: "100",
        mutability: Mutability::Mutable,
        summary: "Rewrite the append-only file when it has grown by so much since the last time, 0 = never",
        kind: Kind::Integer {
            min: 0,
            max: INT_MAX,
            get: |c| c.log.rewrite_percent.into(),
            set: |c, v| c.log.rewrite_percent = narrow(v),
        },
    },
    Directive {
        name: "auto-aof-rewrite-min-size",
        aliases: &[],
        group: Group::Persistence,
        default: "64mb",
        mutability: Mutability::Mutable,
        summary: "Not while it is smaller than that",
        kind: Kind::Memory { min: 0, get: |c| c.log.rewrite_bytes_min, set: |c, v| c.log.rewrite_bytes_min = v },
    },
];
