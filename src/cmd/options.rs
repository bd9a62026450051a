//! Arguments that many commands share: integers, times.

use super::ctx::Failure;
use crate::base::int;
use crate::db::item::DEADLINE_MAX_MS;
use crate::proto::errors;

/// An integer argument, in Redis's strict form.
///
/// # Errors
/// The text that Redis answers.
pub fn parse_int(argument: &[u8]) -> Result<i64, Failure> {
    int::parse_i64(argument).ok_or(Failure::Text(errors::NOT_AN_INTEGER))
}

/// What the number of an expiry argument counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExpireUnit {
    /// From now.
    Seconds,
    /// From now.
    Milliseconds,
    UnixSeconds,
    UnixMilliseconds,
}

/// The Unix time in milliseconds that an expiry argument means, `None` if it overflows 64 bits. Times beyond what an item can hold
/// (the year 10889) become the latest that it can; times before the epoch stay negative.
#[must_use]
pub fn deadline_from(now_ms: u64, unit: ExpireUnit, number: i64) -> Option<i64> {
    let ms = match unit {
        ExpireUnit::Seconds | ExpireUnit::UnixSeconds => number.checked_mul(1000)?,
        ExpireUnit::Milliseconds | ExpireUnit::UnixMilliseconds => number,
    };
    let at = match unit {
        ExpireUnit::Seconds | ExpireUnit::Milliseconds => ms.checked_add(i64::try_from(now_ms).ok()?)?,
        ExpireUnit::UnixSeconds | ExpireUnit::UnixMilliseconds => ms,
    };
    Some(at.min(DEADLINE_MAX_MS.cast_signed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines() {
        use ExpireUnit::*;
        assert_eq!(deadline_from(1000, Seconds, 5), Some(6000));
        assert_eq!(deadline_from(1000, Milliseconds, -5), Some(995));
        assert_eq!(deadline_from(1000, UnixSeconds, 5), Some(5000));
        assert_eq!(deadline_from(1000, UnixMilliseconds, i64::MAX), Some(DEADLINE_MAX_MS.cast_signed()));
        assert_eq!(deadline_from(1000, Seconds, i64::MAX / 1000), None, "overflows when now is added");
        assert_eq!(deadline_from(1000, Seconds, i64::MIN), None);
        assert_eq!(deadline_from(1000, Milliseconds, i64::MAX), None);
    }
}
