//! Names held by a command that runs in slices (MSET, MGET, DEL, EXISTS of very many keys): other commands that name one of them wait
//! until it has finished, so that a sliced command is still atomic to everybody.
//!
//! One holder at a time. The set is a Bloom filter (B. H. Bloom, 1970; two probes, 16 bits a key): a false positive makes a command
//! wait a little for nothing, and adding a name is O(1) without ever rehashing, so that taking a million names can be sliced too.

/// What a holder does with the names it holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Mode {
    // Several workers tell each other the mode by its number, and by 0 that there is no holder.
    /// It reads: commands that write wait.
    Shared = 1,
    /// It writes: all commands wait.
    Exclusive = 2,
}

/// The names that are held in a shard.
#[derive(Default, Debug)]
pub struct Holds {
    mode: Option<Mode>,
    bits: Vec<u64>,
}

impl Holds {
    /// Is nothing held?
    #[inline(always)]
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.mode.is_none()
    }

    /// Becomes the holder of up to `names` names (none yet); false if there is another holder.
    pub fn begin(&mut self, names: usize, mode: Mode) -> bool {
        if self.mode.is_some() {
            return false;
        }
        // Zeroed memory of this size comes from the kernel as it is touched.
        self.bits = vec![0; (names / 4).next_power_of_two().max(16)];
        self.mode = Some(mode);
        true
    }

    /// Holds a name from now on.
    pub fn add(&mut self, database: usize, hash: u64) {
        for (word, bit) in self.probes(database, hash) {
            self.bits[word] |= bit;
        }
    }

    /// Must a command that names this key wait?
    #[must_use]
    pub fn blocks(&self, database: usize, hash: u64, writes: bool) -> bool {
        match self.mode {
            None => false,
            Some(Mode::Shared) if !writes => false,
            Some(_) => self.probes(database, hash).iter().all(|&(word, bit)| self.bits[word] & bit != 0),
        }
    }

    /// Must a command that touches the keyspace without naming keys (FLUSHALL, SCAN) wait?
    #[must_use]
    pub fn blocks_unnamed(&self, writes: bool) -> bool {
        match self.mode {
            None => false,
            Some(Mode::Shared) => writes,
            Some(Mode::Exclusive) => true,
        }
    }

    /// The holder has finished.
    pub fn end(&mut self) {
        *self = Holds::default();
    }

    /// Memory held, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bits.len() * 8
    }

    fn probes(&self, database: usize, hash: u64) -> [(usize, u64); 2] {
        let mixed = hash ^ (database as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        [mixed, mixed.rotate_right(32)].map(|h| ((h >> 6) as usize & (self.bits.len() - 1), 1 << (h & 63)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_what_was_added_and_little_else() {
        let mut holds = Holds::default();
        assert!(!holds.blocks(0, 7, true));
        assert!(holds.begin(1000, Mode::Exclusive));
        assert!(!holds.begin(1, Mode::Shared), "one holder at a time");
        let hash = |i: u64| crate::base::hash::hash_key(1, &i.to_le_bytes());
        for i in 0..1000 {
            holds.add(3, hash(i));
        }
        assert!((0..1000).all(|i| holds.blocks(3, hash(i), false)));
        let wrong = (0..10_000).filter(|&i| holds.blocks(4, hash(i), true)).count();
        assert!(wrong < 500, "{wrong} of 10,000 other names blocked");
        assert!(holds.blocks_unnamed(false));
        holds.end();
        assert!(holds.is_idle() && !holds.blocks(3, hash(1), true) && !holds.blocks_unnamed(true));
    }

    #[test]
    fn shared_names_may_be_read() {
        let mut holds = Holds::default();
        assert!(holds.begin(1, Mode::Shared));
        holds.add(0, 99);
        assert!(!holds.blocks(0, 99, false) && holds.blocks(0, 99, true));
        assert!(!holds.blocks_unnamed(false) && holds.blocks_unnamed(true));
    }
}
