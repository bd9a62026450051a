//! Keys with their values between workers and the threads that read and write files: a run of records.
//!
//! ```text
//! | what 1 | flags 1 | 0 2 | database 4 | key length 4 | value length 4 | count 4 | deadline 8 | idle 8 | client's flags 8 | key ... | value ... |
//!                                                                                          if flagged
//! ```
//! Little-endian, within one process. The value of a collection is a run of its elements (`base::entry`).

use crate::db::Type;

const HEADER_BYTES: usize = 20;
const HAS_DEADLINE: u8 = 1;
const IS_IDLE: u8 = 2;
const IS_TIMED: u8 = 4;
const HAS_CLIENT_FLAGS: u8 = 8;
const INT: u8 = 0;

/// A key with its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record<'a> {
    pub database: u32,
    pub key: &'a [u8],
    /// Unix milliseconds.
    pub deadline_ms: Option<u64>,
    /// Since when it was not used.
    pub idle_seconds: Option<u64>,
    /// What a client of memcached keeps beside it; 0: nothing.
    pub client_flags: u32,
    pub value: Value<'a>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Value<'a> {
    Raw(&'a [u8]),
    Int(i64),
    /// Elements of a collection. `count`: of all of it. `timed`: some of them have deadlines.
    Run {
        kind: Type,
        timed: bool,
        count: u32,
        run: &'a [u8],
    },
}

/// Appends a record.
///
/// # Panics
/// If key or value is 4 GiB long.
pub fn put(record: &Record<'_>, out: &mut Vec<u8>) {
    let (mut flags, number) = (0, if let Value::Int(number) = record.value { number } else { 0 }.to_le_bytes());
    let (what, value, count) = match record.value {
        Value::Raw(bytes) => (Type::String as u8, bytes, 0),
        Value::Int(_) => (INT, &number[..], 0),
        Value::Run { kind, timed, count, run } => {
            flags |= if timed { IS_TIMED } else { 0 };
            (kind as u8, run, count)
        }
    };
    flags |= if record.deadline_ms.is_some() { HAS_DEADLINE } else { 0 };
    flags |= if record.idle_seconds.is_some() { IS_IDLE } else { 0 };
    let client_flags = (record.client_flags != 0).then_some(u64::from(record.client_flags));
    flags |= if client_flags.is_some() { HAS_CLIENT_FLAGS } else { 0 };
    let len = |bytes: &[u8]| u32::try_from(bytes.len()).expect("a record is far shorter than 4 GiB").to_le_bytes();
    let mut header = [0; HEADER_BYTES];
    (header[0], header[1]) = (what, flags);
    header[4..8].copy_from_slice(&record.database.to_le_bytes());
    header[8..12].copy_from_slice(&len(record.key));
    header[12..16].copy_from_slice(&len(value));
    header[16..20].copy_from_slice(&count.to_le_bytes());
    out.reserve(HEADER_BYTES + 24 + record.key.len() + value.len());
    out.extend_from_slice(&header);
    for number in record.deadline_ms.iter().chain(&record.idle_seconds).chain(&client_flags) {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.extend_from_slice(record.key);
    out.extend_from_slice(value);
}

/// Takes the first record off a run.
///
/// # Panics
/// If the bytes are no run that `put` has made.
pub fn next<'a>(run: &mut &'a [u8]) -> Option<Record<'a>> {
    let (header, mut rest) = run.split_first_chunk::<HEADER_BYTES>()?;
    let word = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let mut number = |flagged: bool| {
        flagged.then(|| {
            let (bytes, behind) = rest.split_first_chunk::<8>().expect("a whole record");
            rest = behind;
            u64::from_le_bytes(*bytes)
        })
    };
    let deadline_ms = number(header[1] & HAS_DEADLINE != 0);
    let idle_seconds = number(header[1] & IS_IDLE != 0);
    let client_flags = number(header[1] & HAS_CLIENT_FLAGS != 0).map_or(0, |flags| u32::try_from(flags).unwrap_or(0));
    let (key, behind) = rest.split_at(word(8) as usize);
    let (value, behind) = behind.split_at(word(12) as usize);
    *run = behind;
    let value = match header[0] {
        INT => Value::Int(i64::from_le_bytes(value.try_into().expect("a whole record"))),
        what if what == Type::String as u8 => Value::Raw(value),
        what => {
            let kind = Type::ALL.iter().find(|kind| **kind as u8 == what).expect("one of the types");
            Value::Run { kind: *kind, timed: header[1] & IS_TIMED != 0, count: word(16), run: value }
        }
    };
    Some(Record { database: word(4), key, deadline_ms, idle_seconds, client_flags, value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_put_comes_back(
            parts in proptest::collection::vec(
                (any::<u32>(), 0..40usize, any::<Option<u64>>(), any::<Option<u64>>(), any::<Option<u32>>(), 0..7usize, any::<i64>(), 0..300usize), 0..20),
        ) {
            let bytes: Vec<u8> = (0..400u32).map(|i| i.to_le_bytes()[0]).collect();
            let records: Vec<Record<'_>> = parts
                .iter()
                .map(|&(database, key, deadline_ms, idle_seconds, client_flags, what, number, len)| Record {
                    database,
                    key: &bytes[..key],
                    deadline_ms,
                    idle_seconds,
                    client_flags: client_flags.unwrap_or(0),
                    value: match what {
                        0 | 1 => Value::Raw(&bytes[..len]),
                        2 => Value::Int(number),
                        _ => Value::Run { kind: Type::ALL[what - 2], timed: len % 2 == 0, count: database ^ 7, run: &bytes[..len] },
                    },
                })
                .collect();
            let mut run = Vec::new();
            records.iter().for_each(|record| put(record, &mut run));
            let mut rest = &run[..];
            let read: Vec<Record<'_>> = std::iter::from_fn(|| next(&mut rest)).collect();
            prop_assert_eq!(read, records);
            prop_assert!(rest.is_empty());
        }
    }
}
