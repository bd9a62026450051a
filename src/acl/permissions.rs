//! What one set of rules allows: commands, keys, channels.
//!
//! The bits decide; the text of the rules is kept beside them, in the order in which they count, so that a file that is written from it means
//! the same to a version with more commands. Rules that a later one makes idle are dropped from the text.

use super::catalogue::Catalogue;
use super::user::RuleError;
use crate::base::glob::glob_matches;
use std::collections::HashMap;

/// Keys by their names.
#[derive(Clone, PartialEq, Eq, Debug)]
struct KeyPattern {
    glob: Box<[u8]>,
    read: bool,
    write: bool,
}

/// What rules outside of parentheses allow, or those in one pair of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Permissions {
    /// A bit for each command of the catalogue.
    commands: Box<[u64]>,
    /// Every command, also one that is not known yet.
    all_commands: bool,
    /// Of commands that are not allowed as such: with these first arguments they are.
    first_arguments: HashMap<usize, Vec<Box<[u8]>>>,
    /// Rules about commands as they are told, after the `+@all` or `-@all` that they begin with.
    rules: Vec<String>,
    from_all: bool,
    all_keys: bool,
    keys: Vec<KeyPattern>,
    all_channels: bool,
    channels: Vec<Box<[u8]>>,
}

/// What a command does with one of its keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyUse {
    /// Its place among the arguments.
    pub at: usize,
    /// It gives away what is there.
    pub reads: bool,
    pub writes: bool,
}

/// Which of a command's arguments are channels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Channels {
    None,
    /// The first.
    One,
    All,
    /// They are patterns of channels.
    Patterns,
}

/// A command that somebody wants to run.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Its number in the catalogue.
    pub command: usize,
    /// Everybody may: it is how one becomes somebody else.
    pub is_free: bool,
    /// The place of what a rule calls the first argument.
    pub first: usize,
    /// With the name.
    pub args: &'a [&'a [u8]],
    pub keys: &'a [KeyUse],
    pub channels: Channels,
}

/// What was not allowed, the least telling first: of several permissions that deny, the one that came furthest is told.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Reason {
    Command,
    Key,
    Channel,
}

/// Why a request is denied, and the argument that it is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Denied {
    pub reason: Reason,
    pub at: usize,
}

impl Permissions {
    /// Nothing is allowed; but any channel if that is the default.
    pub(super) fn none(catalogue: &Catalogue, all_channels: bool) -> Permissions {
        Permissions {
            commands: vec![0; catalogue.len().div_ceil(64)].into(),
            all_commands: false,
            first_arguments: HashMap::new(),
            rules: Vec::new(),
            from_all: false,
            all_keys: false,
            keys: Vec::new(),
            all_channels,
            channels: Vec::new(),
        }
    }

    #[must_use]
    pub fn allows_everything(&self) -> bool {
        self.all_commands && self.all_keys && self.all_channels
    }

    // ---- rules ----

    fn set_bit(&mut self, at: usize, on: bool) {
        let bit = 1 << (at % 64);
        let word = &mut self.commands[at / 64];
        *word = if on { *word | bit } else { *word & !bit };
    }

    fn bit(&self, at: usize) -> bool {
        self.commands.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 != 0)
    }

    fn set_all_commands(&mut self, on: bool) {
        self.commands.fill(if on { u64::MAX } else { 0 });
        self.all_commands = on;
        self.first_arguments.clear();
        self.rules.clear();
        self.from_all = on;
    }

    /// Keeps the text of a rule, in place of those that are idle behind it.
    fn note(&mut self, sign: char, name: &str) {
        // Everything is allowed already.
        if sign == '+' && !name.starts_with('@') && self.from_all && self.rules.is_empty() {
            return;
        }
        let covered = |rule: &String| {
            let known = &rule[1..];
            known == name || (known.starts_with(name) && known.as_bytes()[name.len()] == b'|')
        };
        self.rules.retain(|rule| !covered(rule));
        self.rules.push(format!("{sign}{name}"));
    }

    fn change_category(&mut self, catalogue: &Catalogue, on: bool, name: &[u8]) -> Result<(), RuleError> {
        if name.eq_ignore_ascii_case(b"all") {
            self.set_all_commands(on);
            return Ok(());
        }
        let bit = catalogue.category(name).ok_or(RuleError::Unknown)?;
        self.all_commands &= on;
        for at in catalogue.of_category(bit) {
            self.set_bit(at, on);
            self.first_arguments.remove(&at);
        }
        let name = format!("@{}", String::from_utf8_lossy(name).to_ascii_lowercase());
        self.note(if on { '+' } else { '-' }, &name);
        Ok(())
    }

    fn change_command(&mut self, catalogue: &Catalogue, on: bool, name: &[u8]) -> Result<(), RuleError> {
        let sign = if on { '+' } else { '-' };
        if let Some(at) = catalogue.find(name) {
            self.all_commands &= on;
            for at in catalogue.family(at) {
                self.set_bit(at, on);
                self.first_arguments.remove(&at);
            }
            self.note(sign, catalogue.entry(at).name);
            return Ok(());
        }
        // A command with a first argument.
        let bar = name.iter().position(|byte| *byte == b'|').ok_or(RuleError::Unknown)?;
        let (command, first) = (&name[..bar], &name[bar + 1..]);
        let at = catalogue.find(command).ok_or(RuleError::Unknown)?;
        if let Some(bar) = first.iter().position(|byte| *byte == b'|') {
            let is_subcommand = catalogue.find(&name[..command.len() + 1 + bar]).is_some();
            return Err(if is_subcommand { RuleError::SubcommandArgument } else { RuleError::Unknown });
        }
        if catalogue.entry(at).is_container || !on {
            return Err(RuleError::Unknown);
        }
        if first.is_empty() {
            return Err(RuleError::Syntax);
        }
        let known = self.first_arguments.entry(at).or_default();
        if !known.iter().any(|known| known.eq_ignore_ascii_case(first)) {
            known.push(first.to_ascii_lowercase().into());
        }
        let name = format!("{}|{}", catalogue.entry(at).name, String::from_utf8_lossy(first).to_ascii_lowercase());
        self.note(sign, &name);
        Ok(())
    }

    fn add_key(&mut self, glob: &[u8], read: bool, write: bool) -> Result<(), RuleError> {
        if self.all_keys {
            return Err(RuleError::AllKeys);
        }
        if has_blank(glob) {
            return Err(RuleError::Syntax);
        }
        match self.keys.iter_mut().find(|known| *known.glob == *glob) {
            Some(known) => {
                known.read |= read;
                known.write |= write;
            }
            None => self.keys.push(KeyPattern { glob: glob.into(), read, write }),
        }
        Ok(())
    }

    /// Applies one rule about commands, keys or channels.
    pub(super) fn apply(&mut self, catalogue: &Catalogue, rule: &[u8]) -> Result<(), RuleError> {
        match &*rule.to_ascii_lowercase() {
            b"allkeys" | b"~*" => {
                self.all_keys = true;
                self.keys.clear();
            }
            b"resetkeys" => {
                self.all_keys = false;
                self.keys.clear();
            }
            b"allchannels" | b"&*" => {
                self.all_channels = true;
                self.channels.clear();
            }
            b"resetchannels" => {
                self.all_channels = false;
                self.channels.clear();
            }
            b"allcommands" => self.set_all_commands(true),
            b"nocommands" => self.set_all_commands(false),
            _ => match rule {
                [b'~', glob @ ..] => self.add_key(glob, true, true)?,
                [b'%', ..] if self.all_keys => return Err(RuleError::AllKeys),
                [b'%', rest @ ..] => {
                    let letters = rest.iter().position(|byte| *byte == b'~').unwrap_or(rest.len());
                    let (mut read, mut write) = (false, false);
                    for letter in &rest[..letters] {
                        match letter {
                            b'r' | b'R' if !read => read = true,
                            b'w' | b'W' if !write => write = true,
                            _ => return Err(RuleError::Syntax),
                        }
                    }
                    if !read && !write {
                        return Err(RuleError::Syntax);
                    }
                    self.add_key(rest.get(letters + 1..).unwrap_or_default(), read, write)?;
                }
                [b'&', channel @ ..] => {
                    if self.all_channels {
                        return Err(RuleError::AllChannels);
                    }
                    if has_blank(channel) {
                        return Err(RuleError::Syntax);
                    }
                    if !self.channels.iter().any(|known| **known == *channel) {
                        self.channels.push(channel.into());
                    }
                }
                [sign @ (b'+' | b'-'), b'@', name @ ..] => self.change_category(catalogue, *sign == b'+', name)?,
                [sign @ (b'+' | b'-'), name @ ..] => self.change_command(catalogue, *sign == b'+', name)?,
                _ => return Err(RuleError::Syntax),
            },
        }
        Ok(())
    }

    // ---- what they are ----

    /// The rules about commands.
    #[must_use]
    pub fn commands_text(&self) -> String {
        let mut text = String::from(if self.from_all { "+@all" } else { "-@all" });
        for rule in &self.rules {
            text.push(' ');
            text.push_str(rule);
        }
        text
    }

    #[must_use]
    pub fn keys_text(&self) -> Vec<u8> {
        if self.all_keys {
            return b"~*".into();
        }
        let mut words = Vec::with_capacity(self.keys.len());
        for KeyPattern { glob, read, write } in &self.keys {
            let sign: &[u8] = match (read, write) {
                (true, false) => b"%R~",
                (false, _) => b"%W~",
                (true, true) => b"~",
            };
            words.push([sign, glob].concat());
        }
        words.join(&b' ')
    }

    #[must_use]
    pub fn channels_text(&self) -> Vec<u8> {
        if self.all_channels {
            return b"&*".into();
        }
        self.channels.iter().map(|channel| [b"&", &**channel].concat()).collect::<Vec<_>>().join(&b' ')
    }

    /// All of it, as it stands in a file.
    pub(super) fn describe(&self, into: &mut Vec<u8>) {
        let keys = self.keys_text();
        if !keys.is_empty() {
            into.extend_from_slice(&keys);
            into.push(b' ');
        }
        if !self.all_channels {
            into.extend_from_slice(b"resetchannels ");
        }
        let channels = self.channels_text();
        if !channels.is_empty() {
            into.extend_from_slice(&channels);
            into.push(b' ');
        }
        into.extend_from_slice(self.commands_text().as_bytes());
    }

    // ---- checks ----

    fn allows_command(&self, request: &Request<'_>) -> bool {
        if self.all_commands || request.is_free || self.bit(request.command) {
            return true;
        }
        let (Some(allowed), Some(first)) =
            (self.first_arguments.get(&request.command), request.args.get(request.first))
        else {
            return false;
        };
        allowed.iter().any(|allowed| allowed.eq_ignore_ascii_case(first))
    }

    /// May a key of this name be read, and written, as asked for?
    #[must_use]
    pub fn allows_key(&self, name: &[u8], reads: bool, writes: bool) -> bool {
        let fits = |pattern: &KeyPattern| {
            (pattern.read || !reads) && (pattern.write || !writes) && glob_matches(&pattern.glob, name, false)
        };
        self.all_keys || self.keys.iter().any(fits)
    }

    /// May keys of any name be read?
    #[must_use]
    pub fn reads_any_key(&self) -> bool {
        self.all_keys || self.keys.iter().any(|pattern| pattern.read && *pattern.glob == *b"*")
    }

    /// May it listen or publish here? Patterns of channels are allowed if they are given as such.
    #[must_use]
    pub fn allows_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        let fits = |allowed: &[u8]| {
            if is_pattern { allowed == channel } else { glob_matches(allowed, channel, false) }
        };
        self.all_channels || self.channels.iter().any(|allowed| fits(allowed))
    }

    pub(super) fn check(&self, request: &Request<'_>) -> Result<(), Denied> {
        if !self.allows_command(request) {
            return Err(Denied { reason: Reason::Command, at: 0 });
        }
        for key in request.keys {
            if !self.allows_key(request.args[key.at], key.reads, key.writes) {
                return Err(Denied { reason: Reason::Key, at: key.at });
            }
        }
        let (channels, is_pattern) = match request.channels {
            Channels::None => (0..0, false),
            Channels::One => (1..request.args.len().min(2), false),
            Channels::All => (1..request.args.len(), false),
            Channels::Patterns => (1..request.args.len(), true),
        };
        for at in channels {
            if !self.allows_channel(request.args[at], is_pattern) {
                return Err(Denied { reason: Reason::Channel, at });
            }
        }
        Ok(())
    }
}

/// Names in rules must not come apart when they are read again.
pub(super) fn has_blank(text: &[u8]) -> bool {
    text.iter().any(|byte| byte.is_ascii_whitespace() || *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::super::catalogue::tests::sample;
    use super::*;

    fn of(rules: &[&str]) -> Permissions {
        let catalogue = sample();
        let mut permissions = Permissions::none(&catalogue, false);
        for rule in rules {
            permissions.apply(&catalogue, rule.as_bytes()).unwrap_or_else(|error| panic!("{rule}: {error:?}"));
        }
        permissions
    }

    fn runs(permissions: &Permissions, command: &str, args: &[&[u8]]) -> Result<(), Denied> {
        let command = sample().find(command.as_bytes()).expect("a command of the sample");
        let keys: &[KeyUse] = match command {
            0 => &[KeyUse { at: 1, reads: true, writes: false }],
            1 => &[KeyUse { at: 1, reads: false, writes: true }],
            _ => &[],
        };
        let request = Request { command, is_free: false, first: 1, args, keys, channels: Channels::None };
        permissions.check(&request)
    }

    const COMMAND: Result<(), Denied> = Err(Denied { reason: Reason::Command, at: 0 });
    const KEY: Result<(), Denied> = Err(Denied { reason: Reason::Key, at: 1 });

    #[test]
    fn the_text_keeps_what_counts() {
        for (rules, text) in [
            (&["+get", "+get", "+GET"][..], "-@all +get"),
            (&["+@all", "-@read", "+get", "-@read"], "+@all +get -@read"),
            (&["+@all", "-@admin", "+config|get"], "+@all -@admin +config|get"),
            (&["+config|get", "+config|set", "-config"], "-@all -config"),
            (&["+config|get", "+configure"], "-@all +config|get +configure"),
            (&["+select|0", "+SELECT|1"], "-@all +select|0 +select|1"),
            (&["+select|0", "+select"], "-@all +select"),
            (&["+@read", "-@all"], "-@all"),
            (&["-@all", "-@read"], "-@all -@read"),
            (&["+@all", "+get"], "+@all"),
            (&["allcommands", "nocommands"], "-@all"),
        ] {
            assert_eq!(of(rules).commands_text(), text, "{rules:?}");
        }
    }

    #[test]
    fn commands() {
        let some = of(&["allkeys", "+@all", "-@admin", "+config|get"]);
        assert_eq!(runs(&some, "get", &[b"get", b"k"]), Ok(()));
        assert_eq!(runs(&some, "config|get", &[b"config", b"get"]), Ok(()));
        assert_eq!(runs(&some, "config|set", &[b"config", b"set"]), COMMAND);
        assert!(!some.allows_everything());
        let zero = of(&["+select|0"]);
        assert_eq!(runs(&zero, "select", &[b"select", b"0"]), Ok(()));
        assert_eq!(runs(&zero, "select", &[b"select", b"1"]), COMMAND);
        assert_eq!(runs(&zero, "select", &[b"select"]), COMMAND);
        assert!(of(&["~*", "&*", "+@all"]).allows_everything());
        assert!(!of(&["~*", "&*", "+@all", "-get", "+get"]).allows_everything(), "commands to come are not allowed");
    }

    #[test]
    fn keys() {
        let some = of(&["+@all", "%R~r*", "%W~w*", "%rW~b*"]);
        for (name, read, written) in [("r1", Ok(()), KEY), ("w1", KEY, Ok(())), ("b1", Ok(()), Ok(())), ("x", KEY, KEY)]
        {
            assert_eq!(runs(&some, "get", &[b"get", name.as_bytes()]), read, "{name}");
            assert_eq!(runs(&some, "set", &[b"set", name.as_bytes(), b"v"]), written, "{name}");
        }
        // Neither read nor written: what may be either may be looked at.
        assert!(some.allows_key(b"w1", false, false) && !some.allows_key(b"x", false, false));
        assert_eq!(some.keys_text(), b"%R~r* %W~w* ~b*");
        assert_eq!(of(&["%R~a", "%W~a"]).keys_text(), b"~a");
        assert!(of(&["%R~*"]).reads_any_key() && !of(&["%W~*", "~a*"]).reads_any_key());
    }

    #[test]
    fn channels() {
        let some = of(&["&news:*", "&one"]);
        assert!(some.allows_channel(b"news:a", false) && some.allows_channel(b"one", false));
        assert!(some.allows_channel(b"news:*", true) && !some.allows_channel(b"news:a", true));
        assert!(!some.allows_channel(b"two", false));
        assert_eq!(some.channels_text(), b"&news:* &one");
    }

    #[test]
    fn bad_rules() {
        let catalogue = sample();
        for (rules, error) in [
            (&["+nosuch"][..], RuleError::Unknown),
            (&["+@nosuch"], RuleError::Unknown),
            (&["-select|0"], RuleError::Unknown),
            (&["+config|nosuch"], RuleError::Unknown),
            (&["+get|a|b"], RuleError::Unknown),
            (&["+config|get|x"], RuleError::SubcommandArgument),
            (&["+select|"], RuleError::Syntax),
            (&["%X~a"], RuleError::Syntax),
            (&["%~a"], RuleError::Syntax),
            (&["%"], RuleError::Syntax),
            (&["~a b"], RuleError::Syntax),
            (&["nonsense"], RuleError::Syntax),
            (&[""], RuleError::Syntax),
            (&["~*", "~a"], RuleError::AllKeys),
            (&["&*", "&a"], RuleError::AllChannels),
        ] {
            let mut permissions = Permissions::none(&catalogue, false);
            let results: Vec<_> = rules.iter().map(|rule| permissions.apply(&catalogue, rule.as_bytes())).collect();
            assert_eq!(results.last(), Some(&Err(error)), "{rules:?}");
        }
    }
}
