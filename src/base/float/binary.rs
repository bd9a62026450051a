//! Rounding to a binary floating-point format, to the nearest and ties to even, from whole numbers of any size. Knows no text.

/// A binary format: numbers are `mantissa * 2^exponent`, the mantissa of at most `bits` bits.
#[derive(Clone, Copy)]
pub(super) struct Format {
    pub bits: u32,
    /// Of the denormal numbers and the least normal ones.
    pub exponent_min: i32,
    /// Of the greatest numbers.
    pub exponent_max: i32,
}

/// IEEE 754 binary64.
pub(super) const DOUBLE: Format = Format { bits: 53, exponent_min: -1074, exponent_max: 971 };
/// The 80 bits of the x87, C's `long double` on x86.
pub(super) const EXTENDED: Format = Format { bits: 64, exponent_min: -16445, exponent_max: 16320 };

/// Further away than any exponent of a format, with room to compute.
const FAR: i64 = 1 << 20;

impl Format {
    /// The number nearest to `value * 2^exponent`, where `value` is a bit more than it says if `inexact`; then it has more bits than the
    /// format. Mantissa and exponent, the mantissa with all bits of the format but for denormal numbers. `None`: it is too large.
    pub fn nearest(self, value: u128, inexact: bool, exponent: i64) -> Option<(u64, i32)> {
        if value == 0 {
            return Some((0, self.exponent_min));
        }
        let (exponent, value_bits) = (exponent.clamp(-FAR, FAR), 128 - i64::from(value.leading_zeros()));
        let drop = (value_bits - i64::from(self.bits)).max(i64::from(self.exponent_min) - exponent);
        debug_assert!(!inexact || drop > 0);
        let mut kept = match u32::try_from(drop) {
            // To the left; there is room, as at most `bits` bits are used.
            Err(_) => value << drop.unsigned_abs(),
            Ok(0) => value,
            Ok(drop) => {
                let kept = value.checked_shr(drop).unwrap_or(0);
                let rest = value - kept.checked_shl(drop).unwrap_or(0);
                // (Half of a unit that is out of sight is more than anything.)
                let up = 1u128
                    .checked_shl(drop - 1)
                    .is_some_and(|half| rest > half || (rest == half && (inexact || kept & 1 == 1)));
                kept + u128::from(up)
            }
        };
        let mut exponent = exponent + drop;
        if kept == 1 << self.bits {
            kept >>= 1;
            exponent += 1;
        }
        if exponent > i64::from(self.exponent_max) {
            return None;
        }
        Some((u64::try_from(kept).ok()?, i32::try_from(exponent).ok()?))
    }
}

/// A natural number of any size: limbs of 64 bits, the least significant first, the last one not 0.
#[derive(Clone, Debug, Default)]
pub(super) struct Natural(Vec<u64>);

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "limbs are cut out of products; lengths are short"
)]
impl Natural {
    pub fn from_decimal(digits: impl Iterator<Item = u8>) -> Natural {
        let mut number = Natural::default();
        let (mut chunk, mut scale) = (0, 1);
        for digit in digits {
            (chunk, scale) = (chunk * 10 + u64::from(digit), scale * 10);
            if scale == 10_u64.pow(19) {
                number.multiply_add(scale, chunk);
                (chunk, scale) = (0, 1);
            }
        }
        number.multiply_add(scale, chunk);
        number
    }

    pub fn from_u64(value: u64) -> Natural {
        let mut number = Natural(vec![value]);
        number.trim();
        number
    }

    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    pub fn multiply_add(&mut self, factor: u64, addend: u64) {
        let mut carry = addend;
        for limb in &mut self.0 {
            let wide = u128::from(*limb) * u128::from(factor) + u128::from(carry);
            (*limb, carry) = (wide as u64, (wide >> 64) as u64);
        }
        if carry > 0 {
            self.0.push(carry);
        }
    }

    pub fn multiply_by_power_of_5(&mut self, mut power: u64) {
        /// The greatest power of 5 below 2^64.
        const STEP: u32 = 27;
        while power >= u64::from(STEP) {
            self.multiply_add(5_u64.pow(STEP), 0);
            power -= u64::from(STEP);
        }
        self.multiply_add(5_u64.pow(power as u32), 0);
    }

    pub fn bits(&self) -> u64 {
        self.0.last().map_or(0, |last| self.0.len() as u64 * 64 - u64::from(last.leading_zeros()))
    }

    pub fn shift_left(&mut self, bits: u64) {
        if self.0.is_empty() {
            return;
        }
        let (limbs, bits) = ((bits / 64) as usize, (bits % 64) as u32);
        if bits > 0 {
            let mut carry = 0;
            for limb in &mut self.0 {
                let wide = u128::from(*limb) << bits | u128::from(carry);
                (*limb, carry) = (wide as u64, (wide >> 64) as u64);
            }
            if carry > 0 {
                self.0.push(carry);
            }
        }
        self.0.splice(0..0, std::iter::repeat_n(0, limbs));
    }

    /// The upper 128 bits, whether bits below them are set, and the power of two of the lowest of them.
    pub fn head(&self) -> (u128, bool, i64) {
        let used = self.0.len();
        let limb = |i: usize| self.0.get(i).copied().unwrap_or(0);
        if used <= 2 {
            return (u128::from(limb(1)) << 64 | u128::from(limb(0)), false, 0);
        }
        let (top, middle, low) = (limb(used - 1), limb(used - 2), limb(used - 3));
        let free = top.leading_zeros();
        let upper = u128::from(top) << 64 | u128::from(middle);
        // `free` bits of the third limb move up.
        let moved = (u128::from(low) << free >> 64) as u64;
        let head = upper << free | u128::from(moved);
        let rest = low << free != 0 || self.0[..used - 3].iter().any(|&limb| limb != 0);
        (head, rest, (used as i64 - 2) * 64 - i64::from(free))
    }

    /// The quotient of two numbers that are not 0, to at least 67 bits, whether it is a bit more than that, and the power of two of its
    /// lowest bit.
    pub fn quotient(mut self, mut divisor: Natural) -> (u128, bool, i64) {
        const STEPS: i64 = 68;
        let (bits, divisor_bits) = (self.bits(), divisor.bits());
        self.shift_left(divisor_bits.saturating_sub(bits));
        divisor.shift_left(bits.saturating_sub(divisor_bits));
        let mut quotient = 0;
        for _ in 0..STEPS {
            quotient <<= 1;
            if self.at_least(&divisor) {
                self.subtract(&divisor);
                quotient |= 1;
            }
            self.shift_left(1);
        }
        let scale = bits.cast_signed() - divisor_bits.cast_signed() - (STEPS - 1);
        (quotient, !self.0.is_empty(), scale)
    }

    fn at_least(&self, other: &Natural) -> bool {
        self.0.len().cmp(&other.0.len()).then_with(|| self.0.iter().rev().cmp(other.0.iter().rev())).is_ge()
    }

    /// `other` is not greater.
    fn subtract(&mut self, other: &Natural) {
        let mut borrow = false;
        for (i, limb) in self.0.iter_mut().enumerate() {
            let (less, first) = limb.overflowing_sub(other.0.get(i).copied().unwrap_or(0));
            let (less, second) = less.overflowing_sub(u64::from(borrow));
            (*limb, borrow) = (less, first || second);
        }
        debug_assert!(!borrow);
        self.trim();
    }

    /// Appends the decimal digits.
    pub fn write(mut self, into: &mut Vec<u8>) {
        /// Ten to the ninth: a remainder and 32 more bits are divided by the machine's own division.
        const CHUNK: u64 = 1_000_000_000;
        let mut chunks = Vec::new();
        while !self.0.is_empty() {
            let mut rest = 0;
            for limb in self.0.iter_mut().rev() {
                let upper = (rest << 32) | (*limb >> 32);
                let lower = ((upper % CHUNK) << 32) | (*limb & 0xffff_ffff);
                *limb = ((upper / CHUNK) << 32) | (lower / CHUNK);
                rest = lower % CHUNK;
            }
            self.trim();
            chunks.push(rest);
        }
        let mut chunks = chunks.into_iter().rev();
        into.extend_from_slice(chunks.next().unwrap_or(0).to_string().as_bytes());
        for chunk in chunks {
            into.extend_from_slice(format!("{chunk:09}").as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn natural(value: u128) -> Natural {
        let text = value.to_string();
        Natural::from_decimal(text.bytes().map(|digit| digit - b'0'))
    }

    fn text(number: Natural) -> String {
        let mut text = Vec::new();
        number.write(&mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn limits_of_the_formats() {
        assert_eq!(EXTENDED.nearest(u128::from(u64::MAX), false, 16320), Some((u64::MAX, 16320)));
        assert_eq!(EXTENDED.nearest(1, false, 16384), None);
        // Just below half of a unit of the last place above the greatest number, and that half.
        let above = u128::from(u64::MAX) << 2;
        assert_eq!(EXTENDED.nearest(above + 1, false, 16318), Some((u64::MAX, 16320)));
        assert_eq!(EXTENDED.nearest(above + 2, false, 16318), None);
        assert_eq!(EXTENDED.nearest(1, false, -16445), Some((1, -16445)));
        assert_eq!(EXTENDED.nearest(1, false, -16446), Some((0, -16445)));
        assert_eq!(EXTENDED.nearest(3, false, -16446), Some((2, -16445)));
        assert_eq!(EXTENDED.nearest(u128::MAX, true, -1_000_000), Some((0, -16445)));
        assert_eq!(DOUBLE.nearest(1, false, 1024), None);
    }

    proptest! {
        #[test]
        fn text_and_shifts(value: u128, bits in 0u32..128) {
            prop_assert_eq!(text(natural(value)), value.to_string());
            let value = value >> bits;
            let mut shifted = natural(value);
            shifted.shift_left(u64::from(bits));
            prop_assert_eq!(text(shifted), (value << bits).to_string());
            prop_assert_eq!(natural(value).bits(), 128 - u64::from(value.leading_zeros()));
        }

        #[test]
        fn heads(value in 1u128.., shift in 0u64..400, low in 0u64..3) {
            let mut number = natural(value);
            number.shift_left(shift);
            number.multiply_add(1, low);
            let (head, rest, scale) = number.head();
            // What is below the head is less than its lowest bit, and there exactly if `rest` says so.
            let mut again = Natural(vec![0, 0]);
            again.0[0] = u64::try_from(head & u128::from(u64::MAX)).unwrap();
            again.0[1] = u64::try_from(head >> 64).unwrap();
            again.trim();
            again.shift_left(u64::try_from(scale).unwrap());
            prop_assert!(number.at_least(&again));
            number.subtract(&again);
            prop_assert_eq!(rest, number.bits() > 0);
            prop_assert!(number.bits() <= u64::try_from(scale).unwrap());
        }

        #[test]
        fn quotients(a in 1u64.., b in 1u64.., up in 0u64..200) {
            let mut dividend = natural(u128::from(a));
            dividend.shift_left(up);
            let (quotient, inexact, scale) = dividend.quotient(natural(u128::from(b)));
            // a * 2^up / b = quotient * 2^scale, or a bit more: times b, within one unit of the last place.
            let (mut low, mut high) = (natural(quotient), natural(quotient + 1));
            low.multiply_add(b, 0);
            high.multiply_add(b, 0);
            let mut whole = natural(u128::from(a));
            whole.shift_left(up + 500);
            for bound in [&mut low, &mut high] {
                bound.shift_left(u64::try_from(scale + 500).unwrap());
            }
            prop_assert!(whole.at_least(&low) && !whole.at_least(&high));
            prop_assert_eq!(inexact, !low.at_least(&whole));
            prop_assert!(quotient >= 1 << 66);
        }

        #[test]
        fn doubles_round_as_the_hardware_does(value: u128) {
            #[expect(clippy::cast_precision_loss, reason = "the rounding under test")]
            let expected = value as f64;
            let (mantissa, exponent) = DOUBLE.nearest(value, false, 0).unwrap();
            #[expect(clippy::cast_precision_loss, reason = "53 bits")]
            let ours = mantissa as f64 * 2f64.powi(exponent);
            prop_assert_eq!(ours.to_bits(), expected.to_bits());
        }
    }
}
