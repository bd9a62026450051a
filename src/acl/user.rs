//! One user, and the rules that make it.

use super::catalogue::Catalogue;
use super::permissions::{Denied, Permissions, Request, has_blank};
use sha2::{Digest as _, Sha256};
use std::fmt;

/// Why a rule was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RuleError {
    Syntax,
    Unknown,
    SubcommandArgument,
    AllKeys,
    AllChannels,
    Hash,
    NoSuchPassword,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RuleError::Syntax => "Syntax error",
            RuleError::Unknown => "Unknown command or category name in ACL",
            RuleError::SubcommandArgument => "Allowing first-arg of a subcommand is not supported",
            RuleError::AllKeys => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try 'resetkeys' to \
                 start with an empty list of patterns"
            }
            RuleError::AllChannels => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. Try \
                 'resetchannels' to start with an empty list of channels"
            }
            RuleError::Hash => {
                "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
            }
            RuleError::NoSuchPassword => "The password you are trying to remove from the user does not exist",
        })
    }
}

/// What is kept of a password.
pub type Digest = [u8; 32];

#[must_use]
pub fn digest(password: &[u8]) -> Digest {
    Sha256::digest(password).into()
}

/// Two lower-case digits a byte.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The digest that 64 lower-case digits stand for.
fn from_hex(text: &[u8]) -> Option<Digest> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut digest = [0; 32];
    let (pairs, rest) = text.as_chunks::<2>();
    if pairs.len() != digest.len() || !rest.is_empty() {
        return None;
    }
    for (byte, [high, low]) in digest.iter_mut().zip(pairs) {
        *byte = value(*high)? << 4 | value(*low)?;
    }
    Some(digest)
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct User {
    pub name: Box<[u8]>,
    pub is_on: bool,
    /// Any password will do.
    pub no_password: bool,
    /// Whether payloads of RESTORE are looked at closely, as Redis calls it; here they always are. `None` until it is said.
    sanitizes: Option<bool>,
    passwords: Vec<Digest>,
    pub root: Permissions,
    pub selectors: Vec<Permissions>,
}

impl User {
    /// One that is off and may do nothing; but listen to any channel if that is the default.
    #[must_use]
    pub fn new(name: &[u8], catalogue: &Catalogue, all_channels: bool) -> User {
        User {
            name: name.into(),
            is_on: false,
            no_password: false,
            sanitizes: None,
            passwords: Vec::new(),
            root: Permissions::none(catalogue, all_channels),
            selectors: Vec::new(),
        }
    }

    /// Applies one rule: a word, or a pair of parentheses with what is between them. `all_channels` is the default for what is new.
    ///
    /// # Errors
    /// If it is none; then nothing of it was done.
    pub fn apply(&mut self, catalogue: &Catalogue, all_channels: bool, rule: &[u8]) -> Result<(), RuleError> {
        match &*rule.to_ascii_lowercase() {
            b"on" => self.is_on = true,
            b"off" => self.is_on = false,
            b"nopass" => {
                self.no_password = true;
                self.passwords.clear();
            }
            b"resetpass" => {
                self.no_password = false;
                self.passwords.clear();
            }
            b"sanitize-payload" => self.sanitizes = Some(true),
            b"skip-sanitize-payload" => self.sanitizes = Some(false),
            b"clearselectors" => self.selectors.clear(),
            b"reset" => {
                *self = User { sanitizes: Some(true), ..User::new(&self.name, catalogue, all_channels) };
            }
            _ => match rule {
                [b'>', password @ ..] => self.add_password(digest(password)),
                [b'#', hash @ ..] => self.add_password(from_hex(hash).ok_or(RuleError::Hash)?),
                [b'<', password @ ..] => self.remove_password(digest(password))?,
                [b'!', hash @ ..] => self.remove_password(from_hex(hash).ok_or(RuleError::Hash)?)?,
                [b'(', inner @ .., b')'] => {
                    let mut selector = Permissions::none(catalogue, all_channels);
                    let words = inner.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
                    for word in words {
                        selector.apply(catalogue, word)?;
                    }
                    self.selectors.push(selector);
                }
                _ => self.root.apply(catalogue, rule)?,
            },
        }
        Ok(())
    }

    fn add_password(&mut self, password: Digest) {
        self.no_password = false;
        if !self.passwords.contains(&password) {
            self.passwords.push(password);
        }
    }

    fn remove_password(&mut self, password: Digest) -> Result<(), RuleError> {
        let at = self.passwords.iter().position(|known| *known == password).ok_or(RuleError::NoSuchPassword)?;
        self.passwords.remove(at);
        Ok(())
    }

    /// Is this a password with which it may be used?
    #[must_use]
    pub fn is_let_in(&self, password: &[u8]) -> bool {
        if !self.is_on {
            return false;
        }
        let given = digest(password);
        let is_same = |known: &Digest| {
            // Without telling by its time how much was right.
            known.iter().zip(&given).fold(0, |different, (a, b)| different | (a ^ b)) == 0
        };
        self.no_password || self.passwords.iter().any(is_same)
    }

    /// Nobody has to say anything to be this user.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.is_on && self.no_password
    }

    /// Is there nothing that it may not do?
    #[must_use]
    pub fn may_do_all(&self) -> bool {
        self.root.allows_everything() || self.selectors.iter().any(Permissions::allows_everything)
    }

    fn permissions(&self) -> impl Iterator<Item = &Permissions> {
        std::iter::once(&self.root).chain(&self.selectors)
    }

    /// # Errors
    /// If none of its permissions allows all of the request: what denied it last.
    pub fn check(&self, request: &Request<'_>) -> Result<(), Denied> {
        let mut worst = None;
        for permissions in self.permissions() {
            match permissions.check(request) {
                Ok(()) => return Ok(()),
                Err(denied) => worst = worst.max(Some(denied)),
            }
        }
        worst.map_or(Ok(()), Err)
    }

    /// May a request that is allowed also read keys of any name (SORT with BY or GET)?
    #[must_use]
    pub fn reads_any_key(&self, request: &Request<'_>) -> bool {
        self.permissions().any(|permissions| permissions.reads_any_key() && permissions.check(request).is_ok())
    }

    /// May it listen to what it listens to?
    #[must_use]
    pub fn allows_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        self.permissions().any(|permissions| permissions.allows_channel(channel, is_pattern))
    }

    /// `on`, `nopass` and the like.
    #[must_use]
    pub fn flags(&self) -> Vec<&'static str> {
        let mut flags = vec![if self.is_on { "on" } else { "off" }];
        flags.extend(self.no_password.then_some("nopass"));
        flags.extend(self.sanitizes.map(|is| if is { "sanitize-payload" } else { "skip-sanitize-payload" }));
        flags
    }

    /// The digests of its passwords.
    #[must_use]
    pub fn passwords(&self) -> &[Digest] {
        &self.passwords
    }

    /// Its rules, as they stand behind its name in a file.
    #[must_use]
    pub fn describe(&self) -> Vec<u8> {
        let mut text = Vec::new();
        for flag in self.flags() {
            text.extend_from_slice(flag.as_bytes());
            text.push(b' ');
        }
        for password in &self.passwords {
            text.extend_from_slice(format!("#{} ", hex(password)).as_bytes());
        }
        self.root.describe(&mut text);
        for selector in &self.selectors {
            text.extend_from_slice(b" (");
            selector.describe(&mut text);
            text.push(b')');
        }
        text
    }
}

/// May a user have this name?
pub(super) fn is_name(name: &[u8]) -> bool {
    !has_blank(name)
}

#[cfg(test)]
mod tests {
    use super::super::catalogue::tests::sample;
    use super::super::permissions::{Channels, KeyUse, Reason};
    use super::*;

    fn of(rules: &[&str]) -> User {
        let catalogue = sample();
        let mut user = User::new(b"u", &catalogue, false);
        for rule in rules {
            user.apply(&catalogue, false, rule.as_bytes()).unwrap_or_else(|error| panic!("{rule}: {error:?}"));
        }
        user
    }

    fn text(user: &User) -> String {
        String::from_utf8(user.describe()).expect("a text")
    }

    #[test]
    fn passwords() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hex(&digest(b"abc")), abc);
        let user = of(&["on", ">abc", ">x", "<x", ">"]);
        assert!(user.is_let_in(b"abc") && user.is_let_in(b"") && !user.is_let_in(b"x") && !user.is_open());
        assert!(of(&["on", &format!("#{abc}")]).is_let_in(b"abc"));
        assert!(!of(&["on", &format!("#{abc}"), &format!("!{abc}")]).is_let_in(b"abc"));
        assert!(!of(&[">abc"]).is_let_in(b"abc"), "it is off");
        assert!(of(&["on", ">abc", "nopass"]).is_let_in(b"anything"));
        assert!(!of(&["on", "nopass", ">abc"]).is_let_in(b"anything"));
        let catalogue = sample();
        for (rule, error) in [
            ("#abc", RuleError::Hash),
            (&*format!("#{}", abc.to_uppercase()), RuleError::Hash),
            ("!zz", RuleError::Hash),
            ("<unknown", RuleError::NoSuchPassword),
        ] {
            assert_eq!(of(&[]).apply(&catalogue, false, rule.as_bytes()), Err(error), "{rule}");
        }
    }

    #[test]
    fn texts_mean_what_they_say() {
        for rules in [
            &[][..],
            &["on", "nopass", "~*", "&*", "+@all"],
            &["on", ">p", "~a", "%R~b", "&c", "+get", "-config|set", "(+set ~z)", "()"],
            &["reset", "skip-sanitize-payload", "+select|7"],
        ] {
            let (user, catalogue) = (of(rules), sample());
            let mut again = User::new(b"u", &catalogue, false);
            let described = text(&user);
            for rule in super::super::list::rules_of(described.as_bytes()).expect("balanced") {
                again.apply(&catalogue, false, &rule).unwrap_or_else(|error| panic!("{described}: {error:?}"));
            }
            assert_eq!(again, user, "{described}");
        }
        assert_eq!(text(&of(&["on", "nopass", "~*", "&*", "+@all"])), "on nopass ~* &* +@all");
        assert_eq!(text(&of(&["+get", "~x", "(~y)"])), "off ~x resetchannels -@all +get (~y resetchannels -@all)");
    }

    #[test]
    fn the_permission_that_came_furthest_denies() {
        let user = of(&["on", "+get", "~a", "(+get ~a ~b)"]);
        let keys = [1, 2].map(|at| KeyUse { at, reads: true, writes: false });
        let denied = |args: &[&[u8]]| {
            let request = Request { command: 0, is_free: false, first: 1, args, keys: &keys, channels: Channels::None };
            user.check(&request)
        };
        assert_eq!(denied(&[b"get", b"a", b"b"]), Ok(()));
        assert_eq!(denied(&[b"get", b"b", b"c"]), Err(Denied { reason: Reason::Key, at: 2 }));
        assert_eq!(denied(&[b"get", b"c", b"a"]), Err(Denied { reason: Reason::Key, at: 1 }));
    }
}
