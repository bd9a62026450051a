//! What was seen of late.

/// The largest of the values seen of late: of the last `TICKS` ticks, or up to twice as many.
#[derive(Clone, Default, Debug)]
pub struct RecentMax {
    current: u32,
    before: u32,
    ticks: u32,
}

impl RecentMax {
    /// Four seconds, at ten ticks a second.
    const TICKS: u32 = 40;

    #[inline]
    pub fn see(&mut self, value: u32) {
        self.current = self.current.max(value);
    }

    pub fn absorb(&mut self, other: &RecentMax) {
        self.see(other.get());
    }

    pub fn tick(&mut self) {
        self.ticks += 1;
        if self.ticks == Self::TICKS {
            *self = RecentMax { current: 0, before: self.current, ticks: 0 };
        }
    }

    #[must_use]
    pub fn get(&self) -> u32 {
        self.current.max(self.before)
    }
}
