//! What the subcommands print, kept for a record.

use std::path::Path;

use serde::Serialize;

use crate::cli::ServersArgs;
use crate::machine::Machine;
use crate::plot::{self, Bars};
use crate::run::write_to;

pub struct Notes {
    lines: Vec<String>,
    /// Standard output is for people, not for JSON.
    aloud: bool,
}

impl Notes {
    /// Begins with what was called, the machine, and the versions of the servers.
    pub fn new(what: &str, machine: &Machine, versions: &[(String, String)], aloud: bool) -> Notes {
        let mut notes = Notes { lines: Vec::new(), aloud };
        notes.say(&format!("{} {what}", crate::tool()));
        notes.say(&machine.line());
        for (name, version) in versions {
            notes.say(&format!("{name}: {version}"));
        }
        notes.say("");
        notes
    }

    pub fn say(&mut self, line: &str) {
        if self.aloud {
            println!("{line}");
        }
        self.lines.push(line.to_string());
    }

    fn keep(&self, path: &Path) -> Result<(), String> {
        std::fs::write(path, self.lines.join("\n") + "\n").map_err(|error| format!("{}: {error}", path.display()))
    }

    /// What a subcommand over several servers leaves behind, as far as it was asked for: the record, the JSON, the picture.
    pub fn finish(
        &self,
        asked: &ServersArgs,
        document: &impl Serialize,
        charts: impl FnOnce() -> Vec<Bars>,
    ) -> Result<(), String> {
        if let Some(path) = &asked.record {
            self.keep(path)?;
        }
        if let Some(place) = &asked.json {
            write_to(place, &(serde_json::to_string_pretty(document).map_err(|error| error.to_string())? + "\n"))?;
        }
        if let Some(path) = &asked.plot {
            plot::bars(path, &charts())?;
        }
        Ok(())
    }
}
