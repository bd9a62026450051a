//! Against versions that look at one bit after the other.
use super::*;
use proptest::prelude::*;

fn bit(bytes: &[u8], at: usize) -> bool {
    bytes.get(at / 8).is_some_and(|byte| byte >> (7 - at % 8) & 1 != 0)
}

fn put(bytes: &mut [u8], at: usize, value: bool) {
    let mask = 1 << (7 - at % 8);
    bytes[at / 8] = bytes[at / 8] & !mask | if value { mask } else { 0 };
}

/// Bytes of which long runs are alike, so that searches go far and blocks are full.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let run = (prop_oneof![3 => Just(0u8), 3 => Just(0xff), 2 => any::<u8>()], 0..400usize);
    let runs = prop::collection::vec(run, 0..6)
        .prop_map(|runs| runs.into_iter().flat_map(|(byte, len)| std::iter::repeat_n(byte, len)).collect::<Vec<u8>>());
    prop_oneof![2 => runs, 1 => prop::collection::vec(any::<u8>(), 0..1200)]
}

fn operations() -> impl Strategy<Value = Operation> {
    use Operation::*;
    prop::sample::select(vec![And, Or, Xor, Not, Diff, Diff1, AndOr, One])
}

fn naive_operation(operation: Operation, bits: &[bool]) -> bool {
    let (x, y) = (bits[0], &bits[1..]);
    let any = y.contains(&true);
    match operation {
        Operation::And => bits.iter().all(|b| *b),
        Operation::Or => x || any,
        Operation::Xor => bits.iter().filter(|b| **b).count() % 2 == 1,
        Operation::Not => !x,
        Operation::Diff => x && !any,
        Operation::Diff1 => !x && any,
        Operation::AndOr => x && any,
        Operation::One => bits.iter().filter(|b| **b).count() == 1,
    }
}

fn naive_combine(operation: Operation, sources: &[Vec<u8>]) -> Vec<u8> {
    let len = sources.iter().map(Vec::len).max().unwrap_or(0);
    let mut result = vec![0; len];
    for at in 0..len * 8 {
        let bits: Vec<bool> = sources.iter().map(|source| bit(source, at)).collect();
        put(&mut result, at, naive_operation(operation, &bits));
    }
    result
}

/// As the command does it: the first set apart if need be, the others folded, those before `folded` ahead of time.
fn combine(operation: Operation, sources: &[Vec<u8>], ahead: usize) -> Vec<u8> {
    let len = sources.iter().map(Vec::len).max().unwrap_or(0);
    let (first, others): (&[u8], _) =
        if operation.sets_first_apart() { (&sources[0], &sources[1..]) } else { (&[], sources) };
    let (small, large) = others.split_at(ahead % (others.len() + 1));
    let mut early = Fold::new(operation);
    small.iter().for_each(|source| early.fold(source));
    let early = early.into_sources();
    assert!(early.len() <= 3);
    let mut fold = Fold::new(operation);
    // A fold that was used before is as good as new.
    fold.fold(&[0xff; 99]);
    fold.fold(&[0xff; 9]);
    fold.clear();
    early.iter().chain(large).for_each(|source| fold.fold(source));
    fold.finish(first, len).to_vec()
}

proptest! {
    #[test]
    fn counts_as_bit_by_bit(bytes in bytes(), from: prop::sample::Index, to: prop::sample::Index) {
        let all = bytes.len() * 8;
        let (a, b) = (from.index(all + 1), to.index(all + 1));
        let (from, to) = (a.min(b), a.max(b));
        prop_assert_eq!(count(&bytes), (0..all).filter(|&at| bit(&bytes, at)).count() as u64);
        prop_assert_eq!(count_in(&bytes, from, to), (from..to).filter(|&at| bit(&bytes, at)).count() as u64);
        prop_assert_eq!(count_in(&bytes, 0, all), count(&bytes));
    }

    #[test]
    fn finds_as_bit_by_bit(bytes in bytes(), wanted: bool, from: prop::sample::Index, to: prop::sample::Index) {
        let all = bytes.len() * 8;
        let (a, b) = (from.index(all + 1), to.index(all + 1));
        let (from, to) = (a.min(b), a.max(b));
        prop_assert_eq!(find_in(&bytes, wanted, from, to), (from..to).find(|&at| bit(&bytes, at) == wanted));
        prop_assert_eq!(find_in(&bytes, wanted, 0, all), (0..all).find(|&at| bit(&bytes, at) == wanted));
    }

    #[test]
    fn combines_as_bit_by_bit(operation in operations(), mut sources in prop::collection::vec(bytes(), 1..6), ahead: usize) {
        if operation == Operation::Not {
            sources.truncate(1);
        }
        prop_assert_eq!(combine(operation, &sources, ahead), naive_combine(operation, &sources));
    }

    #[test]
    fn fields_are_read_and_written_bit_by_bit(
        mut bytes in prop::collection::vec(any::<u8>(), FIELD_BYTES_MAX), signed: bool, bits in 1..=64i64, shift in 0..8u32, value: i64,
    ) {
        let Some(field) = Field::new(signed, bits) else {
            prop_assert!(bits == 64 && !signed);
            return Ok(());
        };
        let places: Vec<usize> = (0..field.bits() as usize).map(|at| shift as usize + at).collect();
        let naive = |bytes: &[u8]| {
            let number = places.iter().fold(0i128, |number, &at| number * 2 + i128::from(bit(bytes, at)));
            if signed && bit(bytes, places[0]) { number - (1i128 << bits) } else { number }
        };
        prop_assert_eq!(i128::from(field.get(&bytes, shift)), naive(&bytes));
        // What is cut off reads as zeros.
        for keep in 0..FIELD_BYTES_MAX {
            let mut padded = bytes[..keep].to_vec();
            padded.resize(FIELD_BYTES_MAX, 0);
            prop_assert_eq!(i128::from(field.get(&bytes[..keep], shift)), naive(&padded));
        }
        let mut expected = bytes.clone();
        for (index, &at) in places.iter().rev().enumerate() {
            put(&mut expected, at, value >> index & 1 != 0);
        }
        let touched = field.bytes(shift);
        field.set(&mut bytes[..touched], shift, value);
        prop_assert_eq!(&bytes, &expected);
        prop_assert!((touched - 1) * 8 < shift as usize + field.bits() as usize, "no byte more than it needs");
    }

    #[test]
    fn numbers_wrap_saturate_or_fail(signed: bool, bits in 1..=64i64, old: i64, value: i64, small in -3..=3i64, near: bool) {
        let Some(field) = Field::new(signed, bits) else { return Ok(()) };
        let (min, max) = field.range();
        // Half of the time close to the ends.
        let value = if near { (if small < 0 { min } else { max } + i128::from(small)).try_into().unwrap_or(value) } else { value };
        let old = field.fit(old, Overflow::Wrap).unwrap();
        let taken = if signed { i128::from(value) } else { i128::from(value.cast_unsigned()) };
        for (exact, results) in [
            (taken, [Overflow::Wrap, Overflow::Saturate, Overflow::Fail].map(|o| field.fit(value, o))),
            (i128::from(old) + i128::from(value), [Overflow::Wrap, Overflow::Saturate, Overflow::Fail].map(|o| field.add(old, value, o))),
        ] {
            let fits = exact >= min && exact <= max;
            let wrapped = i128::from(results[0].unwrap());
            prop_assert!(wrapped >= min && wrapped <= max && (wrapped - exact) % (1i128 << bits) == 0);
            prop_assert_eq!(i128::from(results[1].unwrap()), exact.clamp(min, max));
            prop_assert_eq!(results[2].map(i128::from), fits.then_some(exact));
        }
    }
}

#[test]
fn widths_of_fields() {
    let exists = |signed, bits| Field::new(signed, bits).is_some();
    assert!(exists(true, 1) && exists(true, 64) && exists(false, 1) && exists(false, 63));
    for bits in [i64::MIN, -1, 0, 65, 256 + 8, i64::MAX] {
        assert!(!exists(true, bits) && !exists(false, bits));
    }
    assert!(!exists(false, 64));
    assert!((1..=64).filter_map(|bits| Field::new(true, bits)).all(|field| field.bytes(7) <= FIELD_BYTES_MAX));
}
