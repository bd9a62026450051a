//! When memory is moved to give some of it back, as directives say it.

/// See `activedefrag`. By itself each size class has its marks (the slab's); these come on top.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Defrag {
    pub is_on: bool,
    /// Free room between what is in use is left alone below this, in bytes.
    pub ignore_bytes: u64,
    /// So is what is less than this part of what is in use, in percent.
    pub threshold_percent: u64,
}

impl Default for Defrag {
    fn default() -> Defrag {
        Defrag { is_on: true, ignore_bytes: 0, threshold_percent: 0 }
    }
}

impl Defrag {
    /// What one of so many parts of the whole goes by.
    #[must_use]
    pub fn share(self, parts: usize) -> Defrag {
        Defrag { ignore_bytes: self.ignore_bytes / parts.max(1) as u64, ..self }
    }
}
