//! Where the keys of a command are among its arguments, and what it does with them.

bit_set! {
    /// What a command does with the keys of one specification: one of RO, RW, OW, RM, and how it treats the value.
    KeyFlags {
        /// Reads the value, or facts about it.
        RO: 0 = "RO",
        /// Changes the value, from what it was or partly.
        RW: 1 = "RW",
        /// Overwrites the value whatever it was.
        OW: 2 = "OW",
        /// Removes the key.
        RM: 3 = "RM",
        /// Returns, copies or compares the data itself.
        ACCESS: 4 = "access",
        /// Replaces data from the arguments.
        UPDATE: 5 = "update",
        /// Only adds data.
        INSERT: 6 = "insert",
        /// Explicitly removes data.
        DELETE: 7 = "delete",
        /// Looks like a key for routing, but is none.
        NOT_KEY: 8 = "not_key",
        /// There may be keys that the specification does not find.
        INCOMPLETE: 9 = "incomplete",
        /// The other flags are the widest; the arguments may narrow them.
        VARIABLE_FLAGS: 10 = "variable_flags",
    }
}

/// Where the search for keys begins. Positions count the command's name as 0.
#[derive(Clone, Copy, Debug)]
pub enum Begin {
    Index(u8),
    /// After this word (any case); the search starts at `from`, backwards from the end when negative.
    Keyword {
        word: &'static str,
        from: i8,
    },
    Unknown,
}

/// How the keys continue from where the search began.
#[derive(Clone, Copy, Debug)]
pub enum Find {
    /// To `last`, relative to the first key, or from the end when negative; then `limit` > 1 divides the rest of the
    /// arguments first (XREAD: the first half).
    Range {
        last: i8,
        step: u8,
        limit: u8,
    },
    /// The number of keys stands at `count`, the first key at `first`, both relative to the beginning.
    KeyNum {
        count: u8,
        first: u8,
        step: u8,
    },
    Unknown,
}

/// One group of keys, in the terms of `COMMAND INFO`.
#[derive(Clone, Copy)]
pub struct KeySpec {
    pub notes: Option<&'static str>,
    pub flags: KeyFlags,
    pub begin: Begin,
    pub find: Find,
    /// The flags that hold for these very arguments, where `VARIABLE_FLAGS` is set.
    pub refine: Option<Refine>,
    /// Where the one key is that `begin` and `find` call unknown.
    pub finder: Option<Finder>,
}

/// Tells what the command `argv` (name first) does with its keys.
pub type Refine = fn(argv: &[&[u8]]) -> KeyFlags;

/// The position of a key in `argv` (name first), if it is there.
pub type Finder = fn(argv: &[&[u8]]) -> Option<usize>;

/// What a specification finds in an argument vector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Located {
    /// The positions `first`, `first + step`, ... up to `last` at most; all within the vector.
    At { first: usize, last: usize, step: usize },
    /// An optional group that is not there (its keyword is missing), or one that cannot be found.
    Absent,
    /// The arguments do not fit the specification.
    Invalid,
}

impl KeySpec {
    /// The first argument.
    pub const fn one(flags: KeyFlags) -> KeySpec {
        KeySpec::new(flags, Begin::Index(1), Find::Range { last: 0, step: 1, limit: 0 })
    }

    /// Every `step`-th argument from the first to the end.
    pub const fn every(step: u8, flags: KeyFlags) -> KeySpec {
        KeySpec::new(flags, Begin::Index(1), Find::Range { last: -1, step, limit: 0 })
    }

    pub const fn new(flags: KeyFlags, begin: Begin, find: Find) -> KeySpec {
        KeySpec { notes: None, flags, begin, find, refine: None, finder: None }
    }

    /// May there be keys that it does not find?
    pub const fn is_incomplete(&self) -> bool {
        self.flags.contains(KeyFlags::INCOMPLETE)
            || matches!(self.begin, Begin::Unknown)
            || matches!(self.find, Find::Unknown)
    }

    /// The flags for the command `argv`.
    pub fn flags_for(&self, argv: &[&[u8]]) -> KeyFlags {
        self.refine.map_or(self.flags, |refine| refine(argv))
    }

    /// Finds the group in `argv` (name first).
    pub fn locate(&self, argv: &[&[u8]]) -> Located {
        let argc = argv.len();
        let begin = match self.begin {
            Begin::Index(at) => usize::from(at),
            Begin::Keyword { word, from } => match after_keyword(argv, word, from) {
                Some(at) => at,
                None => return Located::Absent,
            },
            Begin::Unknown => {
                let found = self.finder.and_then(|finder| finder(argv));
                return found.map_or(Located::Absent, |at| Located::At { first: at, last: at, step: 1 });
            }
        };
        let found = match self.find {
            Find::Range { last, step, limit } => {
                let back = usize::from(last.unsigned_abs());
                let last = if last >= 0 {
                    Some(begin + back)
                } else if limit <= 1 {
                    argc.checked_sub(back)
                } else {
                    (begin + argc.saturating_sub(begin) / usize::from(limit)).checked_sub(back)
                };
                last.map(|last| (begin, last, usize::from(step)))
            }
            Find::KeyNum { count, first, step } => {
                let (first, step) = (begin + usize::from(first), usize::from(step));
                let count = argv.get(begin + usize::from(count)).and_then(|digits| decimal(digits));
                count.and_then(|count| count.checked_sub(1)).and_then(|gaps| gaps.checked_mul(step)).map(|length| {
                    // Saturating: a count near the maximum is beyond `argc` either way.
                    (first, first.saturating_add(length), step)
                })
            }
            Find::Unknown => return Located::Absent,
        };
        match found {
            Some((first, last, step)) if first <= last && last < argc => Located::At { first, last, step },
            _ => Located::Invalid,
        }
    }
}

/// The position after `word`. The search covers the arguments from `from` to the last but one forwards, or backwards
/// from `from` before the end to the second; where it ends the keyword could introduce no key.
fn after_keyword(argv: &[&[u8]], word: &str, from: i8) -> Option<usize> {
    let is_word = |&at: &usize| argv[at].eq_ignore_ascii_case(word.as_bytes());
    let distance = usize::from(from.unsigned_abs());
    let at = if from > 0 {
        (distance..argv.len().saturating_sub(1)).find(is_word)
    } else {
        (2..(argv.len() + 1).saturating_sub(distance)).rev().find(is_word)
    };
    at.map(|at| at + 1)
}

/// A count of keys: digits only.
fn decimal(digits: &[u8]) -> Option<usize> {
    let text = str::from_utf8(digits).ok()?;
    text.parse().ok().filter(|_| digits[0].is_ascii_digit())
}

/// The keys of a command as the pipeline needs them: an arithmetic progression of positions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keys {
    None,
    /// From `first` to `last` by `step`; a negative `last` counts from the end (-1: the last argument).
    Range {
        first: i16,
        last: i16,
        step: i16,
    },
}

impl Keys {
    /// The range that covers `specs`, which must be one group or groups that follow each other.
    pub(super) const fn of(specs: &[KeySpec]) -> Keys {
        let mut keys = Keys::None;
        let mut i = 0;
        while i < specs.len() {
            // A number of keys that the arguments tell (`MOVABLEKEYS`), or keys that nobody knows beforehand: as for COMMAND INFO, those that are
            // known come before them.
            if matches!(specs[i].find, Find::KeyNum { .. } | Find::Unknown) {
                return keys;
            }
            let (Begin::Index(begin), Find::Range { last, step, limit: 0 }) = (specs[i].begin, specs[i].find) else {
                panic!("these keys are no progression: Keys needs a new variant");
            };
            // Casts that widen; `From` is not const.
            let (first, step) = (begin as i16, step as i16);
            let last = if last >= 0 { first + last as i16 } else { last as i16 };
            keys = match keys {
                Keys::None => Keys::Range { first, last, step },
                Keys::Range { first: start, last: end, step: 1 } if step == 1 && end >= 0 && end + 1 == first => {
                    Keys::Range { first: start, last, step }
                }
                Keys::Range { .. } => panic!("these keys are no progression: Keys needs a new variant"),
            };
            i += 1;
        }
        keys
    }

    /// `first` as `COMMAND INFO` prints it: 0 without keys.
    #[inline]
    pub const fn first(self) -> i16 {
        match self {
            Keys::None => 0,
            Keys::Range { first, .. } => first,
        }
    }

    /// `last` as `COMMAND INFO` prints it: 0 without keys.
    #[inline]
    pub const fn last(self) -> i16 {
        match self {
            Keys::None => 0,
            Keys::Range { last, .. } => last,
        }
    }

    /// `step` as `COMMAND INFO` prints it: 0 without keys.
    #[inline]
    pub const fn step(self) -> i16 {
        match self {
            Keys::None => 0,
            Keys::Range { step, .. } => step,
        }
    }

    /// The positions of the keys among `argc` arguments (name included); never one outside them.
    #[inline]
    pub fn positions(self, argc: usize) -> KeyPositions {
        match self {
            Keys::None => KeyPositions { next: 0, end: 0, step: 1 },
            Keys::Range { first, last, step } => {
                let last_distance = usize::from(last.unsigned_abs());
                let end = if last < 0 { (argc + 1).saturating_sub(last_distance) } else { argc.min(last_distance + 1) };
                KeyPositions { next: usize::from(first.unsigned_abs()), end, step: usize::from(step.unsigned_abs()) }
            }
        }
    }
}

/// The positions of a command's keys, ascending.
#[derive(Clone, Debug)]
pub struct KeyPositions {
    next: usize,
    /// One past the last position that may be a key; at most the number of arguments.
    end: usize,
    step: usize,
}

impl Iterator for KeyPositions {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        let at = self.next;
        if at >= self.end {
            return None;
        }
        self.next = at + self.step;
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn argv(line: &str) -> Vec<&[u8]> {
        line.split(' ').map(str::as_bytes).collect()
    }

    const RO: KeyFlags = KeyFlags::RO;

    // Recorded from Redis's COMMAND GETKEYS for XREAD, ZUNION, LMPOP, MIGRATE and SORT.
    #[test]
    fn locates_like_redis() {
        let streams =
            KeySpec::new(RO, Begin::Keyword { word: "STREAMS", from: 1 }, Find::Range { last: -1, step: 1, limit: 2 });
        assert_eq!(streams.locate(&argv("xread streams a b 1 2")), Located::At { first: 2, last: 3, step: 1 });
        assert_eq!(streams.locate(&argv("xread STREAMS a b 1")), Located::At { first: 2, last: 2, step: 1 });
        assert_eq!(streams.locate(&argv("xread count 1 a b")), Located::Absent);
        assert_eq!(streams.locate(&argv("xread count 1 streams a")), Located::Invalid);
        assert_eq!(streams.locate(&argv("xread block 0 x streams")), Located::Absent);

        let counted = KeySpec::new(RO, Begin::Index(1), Find::KeyNum { count: 0, first: 1, step: 1 });
        assert_eq!(counted.locate(&argv("lmpop 2 a b left")), Located::At { first: 2, last: 3, step: 1 });
        for line in ["zunion 0 a", "zunion -1 a", "zunion x a", "zunion +1 a", "zunion 3 a b", "zunion"] {
            assert_eq!(counted.locate(&argv(line)), Located::Invalid, "{line}");
        }
        assert_eq!(counted.locate(&argv("zunion 18446744073709551615 a")), Located::Invalid);

        let last =
            KeySpec::new(RO, Begin::Keyword { word: "KEYS", from: -2 }, Find::Range { last: -1, step: 1, limit: 0 });
        assert_eq!(last.locate(&argv("migrate h p e 0 9 keys a b")), Located::At { first: 7, last: 8, step: 1 });
        assert_eq!(last.locate(&argv("migrate h p a 0 9")), Located::Absent);

        let unknown = KeySpec::new(RO, Begin::Unknown, Find::Unknown);
        assert_eq!(unknown.locate(&argv("sort a by b")), Located::Absent);
    }

    #[test]
    fn consecutive_groups_make_one_range() {
        let second = KeySpec::new(RO, Begin::Index(2), Find::Range { last: -1, step: 1, limit: 0 });
        assert_eq!(Keys::of(&[]), Keys::None);
        assert_eq!(Keys::of(&[KeySpec::one(RO), second]), Keys::Range { first: 1, last: -1, step: 1 });
        assert_eq!(Keys::of(&[KeySpec::every(2, RO)]), Keys::Range { first: 1, last: -1, step: 2 });
    }

    proptest! {
        /// The progression of the pipeline and the specification of `COMMAND INFO` name the same positions.
        #[test]
        fn positions_agree_with_the_specification(
            begin in 1u8..4, last in -3i8..3, step in 1u8..3, argc in 1usize..12,
        ) {
            let spec = KeySpec::new(RO, Begin::Index(begin), Find::Range { last, step, limit: 0 });
            let args = vec![b"x".as_slice(); argc];
            let fast: Vec<usize> = Keys::of(&[spec]).positions(argc).collect();
            match spec.locate(&args) {
                Located::At { first, last, step } => {
                    prop_assert_eq!(fast, (first..=last).step_by(step).collect::<Vec<_>>());
                }
                // A vector too short for its specification: what is there is reported, never more.
                _ => prop_assert!(fast.iter().all(|&at| at < argc)),
            }
        }
    }
}
