//! Directives for what the operating system sees of the server: signals that end it, its place among the victims of a lack of memory, the system's log.

use super::Config;
use super::table::{Directive, Group, Kind, Mutability};
use super::value::{self, ValueError};
use crate::base::log::{FACILITIES, Facility};
use crate::base::oom::{Adjust, VALUE_MAX};

/// How a signal ends the server, in the words of SHUTDOWN; none of them: a snapshot is saved if there are save points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Farewell {
    pub save: bool,
    pub nosave: bool,
    /// Nobody is waited for.
    pub now: bool,
    /// Also if saving fails.
    pub force: bool,
}

const WORDS: &[&str] = &["default", "save", "nosave", "now", "force"];
const ADJUST: &[&str] = &["no", "yes", "relative", "absolute"];

impl Farewell {
    fn parse(words: &[&[u8]]) -> Result<Farewell, ValueError> {
        let mut farewell = Farewell::default();
        if words.is_empty() {
            return Err(ValueError::NotOneOf(WORDS));
        }
        for word in words {
            match &*word.to_ascii_lowercase() {
                b"default" => {}
                b"save" => farewell.save = true,
                b"nosave" => farewell.nosave = true,
                b"now" => farewell.now = true,
                b"force" => farewell.force = true,
                _ => return Err(ValueError::NotOneOf(WORDS)),
            }
        }
        if farewell.save && farewell.nosave {
            return Err(ValueError::Refused("shutdown options SAVE and NOSAVE can't be used simultaneously".into()));
        }
        Ok(farewell)
    }

    fn text(self) -> Vec<u8> {
        let set = [self == Farewell::default(), self.save, self.nosave, self.now, self.force];
        let words = WORDS.iter().zip(set).filter(|(_, set)| *set).map(|(word, _)| *word);
        words.collect::<Vec<_>>().join(" ").into_bytes()
    }
}

/// Of a master, a replica, and a child that saves: only the first is used, there are no others.
fn set_oom_values(config: &mut Config, words: &[&[u8]]) -> Result<(), ValueError> {
    let &[master, replica, child] = words else { return Err(ValueError::Arity) };
    let number = |word: &[u8]| {
        let number = value::integer(word).ok().and_then(|number| i32::try_from(number).ok());
        number.filter(|number| (-VALUE_MAX..=VALUE_MAX).contains(number)).ok_or_else(|| {
            ValueError::Refused("Invalid oom-score-adj-values, elements must be between -2000 and 2000.".into())
        })
    };
    config.oom_score_values = [number(master)?, number(replica)?, number(child)?];
    Ok(())
}

pub(super) static PROCESS: &[Directive] = &[
    Directive {
        name: "shutdown-on-sigint",
        aliases: &[],
        group: Group::General,
        default: "default",
        mutability: Mutability::Mutable,
        summary: "How SIGINT ends the server: default, or some of save, nosave, now, force",
        kind: Kind::List {
            what: "<word>...",
            get: |c| c.on_sigint.text(),
            set: |c, words| {
                c.on_sigint = Farewell::parse(words)?;
                Ok(())
            },
        },
    },
    Directive {
        name: "shutdown-on-sigterm",
        aliases: &[],
        group: Group::General,
        default: "default",
        mutability: Mutability::Mutable,
        summary: "The same of SIGTERM",
        kind: Kind::List {
            what: "<word>...",
            get: |c| c.on_sigterm.text(),
            set: |c, words| {
                c.on_sigterm = Farewell::parse(words)?;
                Ok(())
            },
        },
    },
    Directive {
        name: "oom-score-adj",
        aliases: &[],
        group: Group::General,
        default: "no",
        mutability: Mutability::Mutable,
        summary: "Tell the kernel how soon to kill the server when memory is short: by the values below, relative to what it had or absolute",
        kind: Kind::Enum {
            names: ADJUST,
            get: |c| c.oom_score_adj as usize,
            set: |c, position| {
                c.oom_score_adj = [Adjust::No, Adjust::Yes, Adjust::Relative, Adjust::Absolute][position];
            },
        },
    },
    Directive {
        name: "oom-score-adj-values",
        aliases: &[],
        group: Group::General,
        default: "0 200 800",
        mutability: Mutability::Mutable,
        summary: "Of a master, a replica, a child that saves; there are only masters",
        kind: Kind::List {
            what: "<number>...",
            get: |c| c.oom_score_values.map(|value| value.to_string()).join(" ").into_bytes(),
            set: set_oom_values,
        },
    },
    Directive {
        name: "syslog-enabled",
        aliases: &[],
        group: Group::General,
        default: "no",
        mutability: Mutability::Immutable,
        summary: "Write the log to the system's log as well",
        kind: Kind::Bool {
            get: |c| c.syslog_enabled,
            set: |c, on| {
                c.syslog_enabled = on;
                Ok(())
            },
        },
    },
    Directive {
        name: "syslog-ident",
        aliases: &[],
        group: Group::General,
        default: "redis",
        mutability: Mutability::Immutable,
        summary: "Under which name",
        kind: Kind::Text {
            what: "<name>",
            get: |c| c.syslog_ident.clone(),
            set: |c, v| {
                c.syslog_ident = v.to_vec();
                Ok(())
            },
        },
    },
    Directive {
        name: "syslog-facility",
        aliases: &[],
        group: Group::General,
        default: "local0",
        mutability: Mutability::Immutable,
        summary: "And as which facility",
        kind: Kind::Enum {
            names: &FACILITIES,
            get: |c| c.syslog_facility.position(),
            set: |c, position| c.syslog_facility = Facility::at(position),
        },
    },
];
