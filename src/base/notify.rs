//! The classes of keyspace notifications, as `notify-keyspace-events` selects them by letters.

/// A set of classes, and of the two kinds of channels they are told on.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Classes(u16);

/// The classes, as bits.
pub mod class {
    /// `g`: commands of any type.
    pub const GENERIC: u16 = 1;
    /// `$`
    pub const STRING: u16 = 1 << 1;
    /// `l`
    pub const LIST: u16 = 1 << 2;
    /// `s`
    pub const SET: u16 = 1 << 3;
    /// `h`
    pub const HASH: u16 = 1 << 4;
    /// `z`
    pub const ZSET: u16 = 1 << 5;
    /// `t`
    pub const STREAM: u16 = 1 << 6;
    /// `x`
    pub const EXPIRED: u16 = 1 << 7;
    /// `e`
    pub const EVICTED: u16 = 1 << 8;
    /// `n`, not part of `A`.
    pub const NEW: u16 = 1 << 9;
    /// `m`, not part of `A`.
    pub const MISSED: u16 = 1 << 10;
    /// `d`: of modules, of which there are none.
    pub const MODULE: u16 = 1 << 11;
}

/// Not classes, but where to tell them: `K`, on a channel of the key; `E`, on one of the event.
const BY_KEY: u16 = 1 << 12;
const BY_EVENT: u16 = 1 << 13;

/// In the order in which they are printed.
const LETTERS: [(u8, u16); 14] = [
    (b'g', class::GENERIC),
    (b'$', class::STRING),
    (b'l', class::LIST),
    (b's', class::SET),
    (b'h', class::HASH),
    (b'z', class::ZSET),
    (b'x', class::EXPIRED),
    (b'e', class::EVICTED),
    (b't', class::STREAM),
    (b'd', class::MODULE),
    (b'n', class::NEW),
    (b'K', BY_KEY),
    (b'E', BY_EVENT),
    (b'm', class::MISSED),
];

/// `A`: as many of the letters, from the first one on.
const ALL: usize = 10;

impl Classes {
    /// `None`: a letter is none of them.
    #[must_use]
    pub fn parse(letters: &[u8]) -> Option<Classes> {
        letters.iter().try_fold(Classes::default(), |Classes(bits), letter| match letter {
            b'A' => Some(Classes(bits | Classes::all())),
            letter => LETTERS.iter().find(|known| known.0 == *letter).map(|known| Classes(bits | known.1)),
        })
    }

    const fn all() -> u16 {
        let (mut bits, mut i) = (0, 0);
        while i < ALL {
            bits |= LETTERS[i].1;
            i += 1;
        }
        bits
    }

    /// As CONFIG GET prints them. (Redis 7.0 leaves `n` out behind `A`, so CONFIG REWRITE would lose it.)
    #[must_use]
    pub fn text(self) -> Vec<u8> {
        let mut text = Vec::new();
        let all = self.0 & Self::all() == Self::all();
        if all {
            text.push(b'A');
        }
        let rest = if all { &LETTERS[ALL..] } else { &LETTERS[..] };
        text.extend(rest.iter().filter(|known| self.0 & known.1 != 0).map(|known| known.0));
        text
    }

    /// The classes that are told at all: none without a kind of channel.
    #[must_use]
    pub fn told(self) -> u16 {
        if self.0 & (BY_KEY | BY_EVENT) == 0 { 0 } else { self.0 & !(BY_KEY | BY_EVENT) }
    }

    #[must_use]
    pub fn by_key(self) -> bool {
        self.0 & BY_KEY != 0
    }

    #[must_use]
    pub fn by_event(self) -> bool {
        self.0 & BY_EVENT != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters() {
        for (given, printed) in [
            ("", ""),
            ("A", "A"),
            ("g$lshzxetd", "A"),
            ("KEA", "AKE"),
            ("mEKA", "AKEm"),
            ("KAn", "AnK"),
            ("E$", "$E"),
            ("KExn", "xnKE"),
            ("td", "td"),
            ("ex", "xe"),
        ] {
            let classes = Classes::parse(given.as_bytes()).expect("known letters");
            assert_eq!(String::from_utf8(classes.text()).expect("letters"), printed, "{given}");
            assert_eq!(Classes::parse(&classes.text()), Some(classes));
            assert_eq!(classes.told() == 0, !given.contains(['K', 'E']), "{given}");
        }
        assert_eq!(Classes::parse(b"KQ"), None);
    }
}
