//! What the subcommands print, kept for a record.

use std::path::Path;

use crate::machine::Machine;

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

    pub fn keep(&self, path: &Path) -> Result<(), String> {
        std::fs::write(path, self.lines.join("\n") + "\n").map_err(|error| format!("{}: {error}", path.display()))
    }
}
