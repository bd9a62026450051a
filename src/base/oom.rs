//! Whom the kernel kills first when memory runs out: the process's `oom_score_adj`.

use std::fs;
use std::io;
use std::sync::OnceLock;

/// Largest value that a user may give; the kernel's own bound is half of it.
pub const VALUE_MAX: i32 = 2000;
const SCORE_MAX: i32 = 1000;
const PATH: &str = "/proc/self/oom_score_adj";

/// What becomes of the score that the process was started with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adjust {
    No,
    /// As `Relative`.
    Yes,
    Relative,
    Absolute,
}

/// The score that the process was started with.
static INHERITED: OnceLock<i32> = OnceLock::new();

/// The score for a value.
fn score(how: Adjust, value: i32, inherited: i32) -> i32 {
    let score = match how {
        Adjust::No => inherited,
        Adjust::Yes | Adjust::Relative => inherited + value,
        Adjust::Absolute => value,
    };
    score.clamp(-SCORE_MAX, SCORE_MAX)
}

/// Sets the score; `No` gives back what the process was started with.
///
/// # Errors
/// As the system tells: a score below the inherited one takes a right.
pub fn adjust(how: Adjust, value: i32) -> io::Result<()> {
    let read = || fs::read_to_string(PATH).ok().and_then(|text| text.trim().parse().ok());
    let inherited = match INHERITED.get() {
        Some(inherited) => *inherited,
        // Never changed, so there is nothing to give back.
        None if how == Adjust::No => return Ok(()),
        None => *INHERITED.get_or_init(|| read().unwrap_or(0)),
    };
    fs::write(PATH, score(how, value, inherited).to_string())
}

#[cfg(test)]
mod tests {
    use super::{Adjust, score};

    #[test]
    fn scores() {
        for (how, value, inherited, expected) in [
            (Adjust::No, 500, 7, 7),
            (Adjust::Yes, 500, 7, 507),
            (Adjust::Relative, -20, 7, -13),
            (Adjust::Relative, 2000, 7, 1000),
            (Adjust::Absolute, 500, 7, 500),
            (Adjust::Absolute, -2000, 7, -1000),
        ] {
            assert_eq!(score(how, value, inherited), expected, "{how:?} {value}");
        }
    }
}
