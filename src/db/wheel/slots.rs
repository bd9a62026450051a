//! Geometry of the wheel: levels and their slots, and the codes that name a slot. Knows neither time nor items.
use super::chain::Chain;

pub(super) const TICK_SHIFT: u32 = 4;
pub(super) const LEVELS: usize = 5;
pub(super) const SLOTS: usize = 256;
/// Each level's slot is `1 << LEVEL_SHIFT` of the level below. One less than the 8 bits of a slot number: the overlap lets a slot be cascaded
/// during the whole slot before it.
pub(super) const LEVEL_SHIFT: u32 = 7;
const _: () = assert!(SLOTS == 2 << LEVEL_SHIFT);

/// Not armed.
pub const UNARMED: u16 = 0;
/// In the queue of entries for which the slab had no room: this, plus the bit `gen`.
pub(super) const PARKED: u16 = 7 << 9;

/// The bit `gen` of a code.
pub(super) const GENERATION: u16 = 1 << 8;

#[inline]
pub(super) fn is_parked(code: u16) -> bool {
    code & !GENERATION == PARKED
}

/// What a code other than `UNARMED` and of parked entries says.
///
/// ```text
///   15      12 11       9  8   7         0
///  ┌──────────┬──────────┬───┬────────────┐
///  │    0     │ level + 1│gen│    slot    │
///  └──────────┴──────────┴───┴────────────┘
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) level: usize,
    pub(super) slot: usize,
    pub(super) generation: bool,
}
const _: () = assert!(LEVELS < 7 && SLOTS == 256);

impl Place {
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "level < 5 and slot < 256")]
    pub(super) fn pack(self) -> u16 {
        debug_assert!(self.level < LEVELS && self.slot < SLOTS);
        (self.level as u16 + 1) << 9 | u16::from(self.generation) << 8 | self.slot as u16
    }

    #[inline]
    pub(super) fn unpack(code: u16) -> Option<Place> {
        let level = usize::from(code >> 9).checked_sub(1)?;
        (level < LEVELS).then_some(Place { level, slot: usize::from(code & 0xff), generation: code & GENERATION != 0 })
    }
}

/// 256 bits, one a slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bits([u64; SLOTS / 64]);

impl Bits {
    pub(super) const EMPTY: Bits = Bits([0; SLOTS / 64]);

    #[inline]
    pub(super) fn get(&self, i: usize) -> bool {
        self.0[i / 64] >> (i % 64) & 1 != 0
    }
    #[inline]
    pub(super) fn set(&mut self, i: usize, on: bool) {
        let mask = 1 << (i % 64);
        if on { self.0[i / 64] |= mask } else { self.0[i / 64] &= !mask }
    }
    /// First set bit at or after `from`, not wrapping.
    #[inline]
    pub(super) fn next(&self, from: usize) -> Option<usize> {
        let mut word = from / 64;
        let mut bits = *self.0.get(word)? & !0 << (from % 64);
        while bits == 0 {
            word += 1;
            bits = *self.0.get(word)?;
        }
        Some(word * 64 + bits.trailing_zeros() as usize)
    }
    /// Distance from `from` to the first set bit at or after it, wrapping round.
    #[inline]
    pub(super) fn distance(&self, from: usize) -> Option<u64> {
        self.next(from).map(|i| i - from).or_else(|| self.next(0).map(|i| i + SLOTS - from)).map(|d| d as u64)
    }
}

#[derive(Debug)]
pub(super) struct Level {
    pub(super) chains: [Chain; SLOTS],
    /// Slots that hold an entry, in `chains` or in the chain set aside by a purge.
    pub(super) occupied: Bits,
    /// The `gen` bit in the codes of the entries in `chains`.
    pub(super) generation: Bits,
}

impl Level {
    pub(super) fn new() -> Box<Level> {
        Box::new(Level { chains: [Chain::EMPTY; SLOTS], occupied: Bits::EMPTY, generation: Bits::EMPTY })
    }
}

/// Ticks a slot of this level, as a power of two.
#[inline]
pub(super) fn shift_of(level: usize) -> u32 {
    debug_assert!(level < LEVELS);
    LEVEL_SHIFT * u32::try_from(level).unwrap_or_default()
}

/// Number of a slot on its level, from its number since the beginning of time.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "reduced to 8 bits")]
pub(super) fn slot_of(absolute: u64) -> usize {
    (absolute % SLOTS as u64) as usize
}
