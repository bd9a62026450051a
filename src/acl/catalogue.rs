//! The commands as rules name them.

use std::collections::HashMap;

/// What a rule needs to know of a command or a subcommand.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// In lower case; `parent|name` for a subcommand.
    pub name: &'static str,
    /// A bit for each category.
    pub categories: u32,
    /// Is it one that comes with subcommands?
    pub is_container: bool,
}

/// All commands and subcommands; what belongs to a container follows it.
#[derive(Debug)]
pub struct Catalogue {
    entries: Vec<Entry>,
    by_name: HashMap<&'static str, usize>,
    /// Names without their `@`, each with its bit.
    categories: Vec<(&'static str, u32)>,
}

impl Catalogue {
    #[must_use]
    pub fn new(entries: Vec<Entry>, categories: Vec<(&'static str, u32)>) -> Catalogue {
        let by_name = entries.iter().enumerate().map(|(at, entry)| (entry.name, at)).collect();
        Catalogue { entries, by_name, categories }
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The number of a command by its full name, in any case.
    #[must_use]
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        let name = String::from_utf8(name.to_ascii_lowercase()).ok()?;
        self.by_name.get(name.as_str()).copied()
    }

    #[must_use]
    pub fn entry(&self, at: usize) -> &Entry {
        &self.entries[at]
    }

    /// The numbers of a command and its subcommands.
    pub fn family(&self, at: usize) -> impl Iterator<Item = usize> + use<'_> {
        let own = self.entries[at].name;
        let is_sub = move |i: &usize| {
            let name = self.entries[*i].name;
            name.len() > own.len() && name.starts_with(own) && name.as_bytes()[own.len()] == b'|'
        };
        std::iter::once(at).chain((at + 1..self.entries.len()).take_while(is_sub))
    }

    /// The bit of a category by its name, in any case.
    #[must_use]
    pub fn category(&self, name: &[u8]) -> Option<u32> {
        self.categories.iter().find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name)).map(|(_, bit)| *bit)
    }

    pub fn category_names(&self) -> impl ExactSizeIterator<Item = &'static str> + use<'_> {
        self.categories.iter().map(|(name, _)| *name)
    }

    /// The commands of a category, given by its bit.
    pub fn of_category(&self, bit: u32) -> impl Iterator<Item = usize> + use<'_> {
        self.entries.iter().enumerate().filter(move |(_, entry)| entry.categories & bit != 0).map(|(at, _)| at)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub const READ: u32 = 1;
    pub const WRITE: u32 = 2;
    pub const ADMIN: u32 = 4;

    /// A few commands of three categories.
    pub fn sample() -> Catalogue {
        let entry = |name, categories, is_container| Entry { name, categories, is_container };
        Catalogue::new(
            vec![
                entry("get", READ, false),
                entry("set", WRITE, false),
                entry("config", ADMIN, true),
                entry("config|get", ADMIN, false),
                entry("config|set", ADMIN, false),
                entry("configure", ADMIN, false),
                entry("select", 0, false),
            ],
            vec![("read", READ), ("write", WRITE), ("admin", ADMIN)],
        )
    }

    #[test]
    fn names_and_families() {
        let catalogue = sample();
        assert_eq!(catalogue.find(b"CONFIG|Get"), Some(3));
        assert_eq!((catalogue.find(b"conf"), catalogue.find(b"\xff")), (None, None));
        assert_eq!(catalogue.family(2).collect::<Vec<_>>(), [2, 3, 4]);
        assert_eq!(catalogue.family(0).collect::<Vec<_>>(), [0]);
        assert_eq!(catalogue.category(b"ADMIN"), Some(ADMIN));
        assert_eq!(catalogue.of_category(ADMIN).collect::<Vec<_>>(), [2, 3, 4, 5]);
    }
}
