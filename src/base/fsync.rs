//! When what is written to a file is made to last.

/// Its numbers are places in the setting's list of names.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Fsync {
    #[default]
    EverySecond = 0,
    /// Before it is answered.
    Always = 1,
    /// When the system likes to.
    Never = 2,
}

impl Fsync {
    #[must_use]
    pub fn of(number: u8) -> Fsync {
        match number {
            1 => Fsync::Always,
            2 => Fsync::Never,
            _ => Fsync::EverySecond,
        }
    }
}
