//! All users, and the text that they are read from and written to: `user <name> <rule> ...`, a line each.

use super::DEFAULT;
use super::catalogue::Catalogue;
use super::user::{RuleError, User, is_name};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The users by their names. There is always one called `default`.
#[derive(Clone, Debug)]
pub struct Users {
    by_name: BTreeMap<Box<[u8]>, Arc<User>>,
}

/// Why rules make no user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LoadError {
    Name,
    Duplicate,
    /// The word that opens a parenthesis.
    Unmatched(Vec<u8>),
    Rule(Vec<u8>, RuleError),
}

impl Users {
    /// One user, who needs this password (none, if it is empty) and may do all.
    #[must_use]
    pub fn with_password(catalogue: &Catalogue, password: &[u8]) -> Users {
        let mut user = User::new(DEFAULT, catalogue, false);
        for rule in [b"on".as_slice(), b"allkeys", b"allchannels", b"allcommands"] {
            user.apply(catalogue, false, rule).expect("a rule that makes a user who may do all");
        }
        let mut users = Users { by_name: BTreeMap::new() };
        users.put(user);
        users.set_default_password(catalogue, password);
        users
    }

    #[must_use]
    pub fn get(&self, name: &[u8]) -> Option<&Arc<User>> {
        self.by_name.get(name)
    }

    /// The user that a connection is until it says otherwise.
    ///
    /// # Panics
    /// Never: there is always one.
    #[must_use]
    pub fn default_user(&self) -> &Arc<User> {
        self.get(DEFAULT).expect("the default user cannot be deleted")
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<User>> {
        self.by_name.values()
    }

    fn put(&mut self, user: User) {
        self.by_name.insert(user.name.clone(), Arc::new(user));
    }

    /// `requirepass`: the one password of the default user, or none.
    pub fn set_default_password(&mut self, catalogue: &Catalogue, password: &[u8]) {
        let mut user =
            self.get(DEFAULT).map(|user| User::clone(user)).unwrap_or_else(|| User::new(DEFAULT, catalogue, false));
        let rule = if password.is_empty() { b"nopass".to_vec() } else { [b">", password].concat() };
        for rule in [b"resetpass".as_slice(), &rule] {
            user.apply(catalogue, false, rule).expect("a rule about passwords");
        }
        self.put(user);
    }

    /// Applies rules to a user, who is made if need be.
    ///
    /// # Errors
    /// If one of them is none; then nothing has changed.
    pub fn set<'r>(
        &mut self,
        catalogue: &Catalogue,
        all_channels: bool,
        name: &[u8],
        rules: impl IntoIterator<Item = &'r [u8]>,
    ) -> Result<(), LoadError> {
        if !is_name(name) {
            return Err(LoadError::Name);
        }
        let rules = joined(rules)?;
        let mut user =
            self.get(name).map_or_else(|| User::new(name, catalogue, all_channels), |user| User::clone(user));
        for rule in rules {
            user.apply(catalogue, all_channels, &rule).map_err(|error| LoadError::Rule(rule, error))?;
        }
        self.put(user);
        Ok(())
    }

    /// Defines a user anew: a line of a file.
    ///
    /// # Errors
    /// As `set`, and if `seen` has it already.
    pub fn define<'r>(
        &mut self,
        catalogue: &Catalogue,
        all_channels: bool,
        seen: &mut Vec<Vec<u8>>,
        name: &[u8],
        rules: impl IntoIterator<Item = &'r [u8]>,
    ) -> Result<(), LoadError> {
        if !is_name(name) {
            return Err(LoadError::Name);
        }
        if seen.iter().any(|known| known == name) {
            return Err(LoadError::Duplicate);
        }
        seen.push(name.to_vec());
        self.put(User::new(name, catalogue, all_channels));
        self.set(catalogue, all_channels, name, rules)
    }

    /// Deletes a user other than the default one. False: there was none.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        debug_assert_ne!(name, DEFAULT);
        self.by_name.remove(name).is_some()
    }

    /// A line for each user.
    #[must_use]
    pub fn lines(&self) -> Vec<Vec<u8>> {
        self.iter().map(|user| [b"user ", &*user.name, b" ", &user.describe()].concat()).collect()
    }

    /// The users of a file: those of its lines, and the default user as it is in `fresh` if none of them is about it. `file` names it in
    /// messages.
    ///
    /// # Errors
    /// All that is wrong with it, in one text.
    pub fn parse(
        catalogue: &Catalogue,
        all_channels: bool,
        fresh: &Users,
        file: &str,
        text: &[u8],
    ) -> Result<Users, String> {
        let mut users = fresh.clone();
        users.by_name.retain(|name, _| **name == *DEFAULT);
        let (mut seen, mut errors) = (Vec::new(), String::new());
        for (i, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let line = line.trim_ascii();
            if line.is_empty() || line[0] == b'#' {
                continue;
            }
            let number = i + 1;
            let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty()).collect();
            let [b"user", name, rules @ ..] = &words[..] else {
                errors += &format!("{file}:{number} should start with user keyword followed by the username. ");
                continue;
            };
            let rules = rules.iter().map(|rule| rule.trim_ascii());
            let shown = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
            match users.define(catalogue, all_channels, &mut seen, name, rules) {
                Ok(()) => {}
                Err(LoadError::Name) => {
                    errors += &format!("'{file}:{number}: username '{}' contains invalid characters. ", shown(name));
                }
                Err(LoadError::Duplicate) => {
                    errors += &format!("WARNING: Duplicate user '{}' found on line {number}. ", shown(name));
                }
                Err(LoadError::Unmatched(_)) => {
                    errors += &format!("{file}:{number}: Unmatched parenthesis in selector definition. ");
                }
                Err(LoadError::Rule(rule, RuleError::Syntax)) => {
                    errors +=
                        &format!("{file}:{number}: Error in applying operation '{}': Syntax error. ", shown(&rule));
                }
                Err(LoadError::Rule(_, error)) => errors += &format!("{file}:{number}: {error}. "),
            }
        }
        if errors.is_empty() {
            return Ok(users);
        }
        Err(errors + "WARNING: ACL errors detected, no change to the previously active ACL rules was performed")
    }
}

/// Words to rules: those between parentheses belong together.
fn joined<'r>(words: impl IntoIterator<Item = &'r [u8]>) -> Result<Vec<Vec<u8>>, LoadError> {
    let mut rules: Vec<Vec<u8>> = Vec::new();
    // The word that opened a parenthesis, and what has come since.
    let mut open: Option<(Vec<u8>, Vec<u8>)> = None;
    for word in words {
        let (first, rule) = match open.take() {
            Some((first, so_far)) => (first, [&so_far, b" ".as_slice(), word].concat()),
            None => (word.to_vec(), word.to_vec()),
        };
        if rule.first() == Some(&b'(') && rule.last() != Some(&b')') {
            open = Some((first, rule));
        } else {
            rules.push(rule);
        }
    }
    match open {
        Some((first, _)) => Err(LoadError::Unmatched(first)),
        None => Ok(rules),
    }
}

/// The rules of a description.
#[cfg(test)]
pub(super) fn rules_of(text: &[u8]) -> Result<Vec<Vec<u8>>, LoadError> {
    joined(text.split(|byte| *byte == b' '))
}

#[cfg(test)]
mod tests {
    use super::super::catalogue::tests::sample;
    use super::*;

    fn parse(text: &str) -> Result<Users, String> {
        let catalogue = sample();
        let fresh = Users::with_password(&catalogue, b"");
        Users::parse(&catalogue, false, &fresh, "users.acl", text.as_bytes())
    }

    fn lines(users: &Users) -> Vec<String> {
        users.lines().into_iter().map(|line| String::from_utf8(line).expect("a text")).collect()
    }

    #[test]
    fn files() {
        let users = parse("# mine\n\n  user bob on +get ~b*  \r\nuser alice (+set\t~x)\n").expect("a good file");
        assert_eq!(
            lines(&users),
            [
                "user alice off resetchannels -@all (~x resetchannels -@all +set)",
                "user bob on ~b* resetchannels -@all +get",
                "user default on nopass ~* &* +@all",
            ]
        );
        let again = parse(&lines(&users).join("\n")).expect("what was written");
        assert_eq!(lines(&again), lines(&users));
        // What is defined is defined anew.
        assert_eq!(
            lines(&parse("user default on +get").expect("a good file")),
            ["user default on resetchannels -@all +get"]
        );
    }

    #[test]
    fn bad_files() {
        for (text, what) in [
            ("user", "users.acl:1 should start with user keyword followed by the username. "),
            ("\nUSER a", "users.acl:2 should start with user keyword"),
            ("user a on\nuser b on\nuser a off", "WARNING: Duplicate user 'a' found on line 3. "),
            ("user a (+get", "users.acl:1: Unmatched parenthesis in selector definition."),
            ("user a nonsense", "users.acl:1: Error in applying operation 'nonsense': Syntax error. "),
            ("user a +nonsense", "users.acl:1: Unknown command or category name in ACL. "),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.starts_with(what), "{text}: {error}");
            assert!(error.ends_with(
                " WARNING: ACL errors detected, no change to the previously active ACL rules was performed"
            ));
        }
    }

    #[test]
    fn nothing_changes_by_bad_rules() {
        let catalogue = sample();
        let mut users = Users::with_password(&catalogue, b"secret");
        let before = lines(&users);
        let bad: [&[u8]; 2] = [b"+get", b"nonsense"];
        assert!(
            users.set(&catalogue, false, b"a", bad).is_err() && users.set(&catalogue, false, DEFAULT, bad).is_err()
        );
        assert!(users.set(&catalogue, false, b"a b", [b"on".as_slice()]).is_err());
        assert_eq!(lines(&users), before);
        assert!(users.default_user().is_let_in(b"secret") && !users.default_user().is_open());
        users.set_default_password(&catalogue, b"");
        assert!(users.default_user().is_open());
    }
}
