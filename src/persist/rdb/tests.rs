//! Collections: each encoding is written here as its description says, and read back however the bytes are cut.

use super::*;
use crate::base::entry::{self, Entry};
use crate::base::score;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeSet;

const MAX_BYTES: u64 = 1 << 20;

fn decode(value: &[u8], cuts: &[usize], budget: usize) -> Result<(Kind, Vec<u8>), Malformed> {
    let mut decoder = Decoder::new(*value.first().ok_or(Malformed)?, value.len() as u64, MAX_BYTES, 7)?;
    let (mut run, mut rest) = (Vec::new(), value);
    let mut cuts = cuts.iter().cycle();
    let mut steps = 0;
    loop {
        let before = run.len();
        match decoder.next(&mut run, budget)? {
            Progress::Done => return Ok((decoder.kind(), run)),
            Progress::Full => {}
            Progress::Hungry => {
                assert!(!rest.is_empty(), "it knows how much there is");
                let (now, later) = rest.split_at(cuts.next().map_or(rest.len(), |cut| 1 + cut % rest.len()));
                decoder.feed(now);
                rest = later;
            }
        }
        // An element more than the budget at most.
        assert!(run.len() - before <= budget.saturating_add(value.len() * lzf::GROWTH_MAX + 30));
        steps += 1;
        assert!(steps < 1000 + 200 * (value.len() + run.len()), "it comes to an end");
    }
}

fn whole(value: &[u8]) -> Result<(Kind, Vec<u8>), Malformed> {
    decode(value, &[], usize::MAX)
}

fn run_of<T: AsRef<[u8]>>(texts: &[T]) -> Vec<u8> {
    let mut run = Vec::new();
    texts.iter().for_each(|text| entry::put(&mut run, text.as_ref()));
    run
}

/// As the run of a hash without deadlines.
fn run_of_hash<T: AsRef<[u8]>>(texts: &[T]) -> Vec<u8> {
    let mut run = Vec::new();
    for pair in texts.chunks(2) {
        pair.iter().for_each(|text| entry::put(&mut run, text.as_ref()));
        entry::put_int(&mut run, 0);
    }
    run
}

fn run_of_zset<T: AsRef<[u8]>>(elements: &[(T, f64)]) -> Vec<u8> {
    let mut run = Vec::new();
    for (member, number) in elements {
        entry::put(&mut run, member.as_ref());
        score::to_entry(&mut run, *number);
    }
    run
}

// ---- writers, one an encoding ----

fn listpack<T: AsRef<[u8]>>(texts: &[T]) -> Vec<u8> {
    let mut elements = Vec::new();
    for text in texts {
        let text = text.as_ref();
        let start = elements.len();
        let len = u32::try_from(text.len()).unwrap();
        let [a, b, ..] = len.to_le_bytes();
        match Entry::of(text) {
            Entry::Int(n) => {
                let word = n.to_le_bytes();
                match n {
                    0..=127 => elements.push(word[0]),
                    -4096..=4095 => elements.extend([0xc0 | (word[1] & 0x1f), word[0]]),
                    -32_768..=32_767 => elements.extend([&[0xf1], &word[..2]].concat()),
                    -8_388_608..=8_388_607 => elements.extend([&[0xf2], &word[..3]].concat()),
                    _ if i32::try_from(n).is_ok() => elements.extend([&[0xf3], &word[..4]].concat()),
                    _ => elements.extend([&[0xf4], &word[..]].concat()),
                }
            }
            Entry::Bytes(_) => {
                match len {
                    0..64 => elements.push(0x80 | a),
                    64..4096 => elements.extend([0xe0 | b, a]),
                    _ => elements.extend([&[0xf0], &len.to_le_bytes()[..]].concat()),
                }
                elements.extend_from_slice(text);
            }
        }
        let len = elements.len() - start;
        let seven = |shift: usize| u8::try_from(len >> shift & 0x7f).unwrap();
        match len {
            0..0x80 => elements.push(seven(0)),
            0x80..0x4000 => elements.extend([seven(7), 0x80 | seven(0)]),
            _ => elements.extend([seven(14), 0x80 | seven(7), 0x80 | seven(0)]),
        }
    }
    let mut out = u32::try_from(elements.len() + 7).unwrap().to_le_bytes().to_vec();
    out.extend(u16::try_from(texts.len()).unwrap_or(u16::MAX).to_le_bytes());
    out.extend(elements);
    out.push(0xff);
    out
}

fn ziplist<T: AsRef<[u8]>>(texts: &[T]) -> Vec<u8> {
    let (mut elements, mut before) = (Vec::new(), 0usize);
    for text in texts {
        let text = text.as_ref();
        let start = elements.len();
        match u8::try_from(before) {
            Ok(short) if short < 254 => elements.push(short),
            _ => elements.extend([&[254], &u32::try_from(before).unwrap().to_le_bytes()[..]].concat()),
        }
        let len = u32::try_from(text.len()).unwrap();
        let [.., b, a] = len.to_be_bytes();
        match Entry::of(text) {
            Entry::Int(n) => {
                let word = n.to_le_bytes();
                match n {
                    0..=12 => elements.push(0xf1 + word[0]),
                    -128..=127 => elements.extend([0xfe, word[0]]),
                    -32_768..=32_767 => elements.extend([&[0xc0], &word[..2]].concat()),
                    -8_388_608..=8_388_607 => elements.extend([&[0xf0], &word[..3]].concat()),
                    _ if i32::try_from(n).is_ok() => elements.extend([&[0xd0], &word[..4]].concat()),
                    _ => elements.extend([&[0xe0], &word[..]].concat()),
                }
            }
            Entry::Bytes(_) => {
                match len {
                    0..64 => elements.push(a),
                    64..16_384 => elements.extend([0x40 | b, a]),
                    _ => elements.extend([&[0x80], &len.to_be_bytes()[..]].concat()),
                }
                elements.extend_from_slice(text);
            }
        }
        before = elements.len() - start;
    }
    let mut out = u32::try_from(elements.len() + 11).unwrap().to_le_bytes().to_vec();
    out.extend(u32::try_from(10 + elements.len() - before).unwrap().to_le_bytes());
    out.extend(u16::try_from(texts.len()).unwrap_or(u16::MAX).to_le_bytes());
    out.extend(elements);
    out.push(0xff);
    out
}

fn zipmap<T: AsRef<[u8]>>(texts: &[T]) -> Vec<u8> {
    let mut out = vec![u8::try_from(texts.len() / 2).unwrap_or(255).min(254)];
    for (i, text) in texts.iter().enumerate() {
        let text = text.as_ref();
        match u8::try_from(text.len()) {
            Ok(short) if short < 254 => out.push(short),
            _ => out.extend([&[254], &u32::try_from(text.len()).unwrap().to_le_bytes()[..]].concat()),
        }
        let unused = if i % 2 == 1 { i % 5 } else { 0 };
        if i % 2 == 1 {
            out.push(u8::try_from(unused).unwrap());
        }
        out.extend_from_slice(text);
        out.extend(vec![0xaa; unused]);
    }
    out.push(0xff);
    out
}

fn intset(numbers: &BTreeSet<i64>) -> Vec<u8> {
    let fits = |bits: u32| numbers.iter().all(|n| n >> (bits - 1) == 0 || n >> (bits - 1) == -1);
    let width = if fits(16) {
        2
    } else if fits(32) {
        4
    } else {
        8
    };
    let mut out = u32::try_from(width).unwrap().to_le_bytes().to_vec();
    out.extend(u32::try_from(numbers.len()).unwrap().to_le_bytes());
    numbers.iter().for_each(|n| out.extend_from_slice(&n.to_le_bytes()[..width]));
    out
}

/// LZF without any references, or as it is.
fn string_of(bytes: &[u8], packed: bool) -> Vec<u8> {
    let mut out = Vec::new();
    if !packed || bytes.is_empty() {
        string::write_length(bytes.len() as u64, &mut out);
        out.extend_from_slice(bytes);
        return out;
    }
    let pieces: Vec<u8> =
        bytes.chunks(32).flat_map(|piece| [&[u8::try_from(piece.len() - 1).unwrap()], piece].concat()).collect();
    out.push(0xc3);
    string::write_length(pieces.len() as u64, &mut out);
    string::write_length(bytes.len() as u64, &mut out);
    out.extend(pieces);
    out
}

fn holder(first: u8, bytes: &[u8], packed: bool) -> Vec<u8> {
    [&[first], &string_of(bytes, packed)[..]].concat()
}

fn plain<T: AsRef<[u8]>>(first: u8, count: usize, texts: &[T], packed: bool) -> Vec<u8> {
    let mut out = vec![first];
    string::write_length(count as u64, &mut out);
    for text in texts {
        let text = text.as_ref();
        if text.len() > 20 { out.extend(string_of(text, packed)) } else { string::write(text, &mut out) }
    }
    out
}

fn nodes<T: AsRef<[u8]>>(texts: &[T], of: usize, marked: bool, packed: bool) -> Vec<u8> {
    let mut out = vec![if marked { value_type::LIST_QUICKLIST_2 } else { value_type::LIST_QUICKLIST }];
    string::write_length(texts.chunks(of).count() as u64 + 1, &mut out);
    for (i, node) in texts.chunks(of).enumerate() {
        if i == 0 {
            // One that is empty, as Redis skips it.
            if marked {
                out.push(2);
            }
            let empty: [&[u8]; 0] = [];
            out.extend(string_of(&if marked { listpack(&empty) } else { ziplist(&empty) }, packed));
        }
        match (marked, node) {
            (true, [alone]) => {
                out.push(1);
                out.extend(string_of(alone.as_ref(), packed));
            }
            (true, _) => {
                out.push(2);
                out.extend(string_of(&listpack(node), packed));
            }
            (false, _) => out.extend(string_of(&ziplist(node), packed)),
        }
    }
    out
}

fn scores(first: u8, elements: &[(Vec<u8>, f64)]) -> Vec<u8> {
    let mut out = vec![first];
    string::write_length(elements.len() as u64, &mut out);
    for (member, number) in elements {
        string::write(member, &mut out);
        match (first, *number) {
            (value_type::ZSET_2, _) => out.extend_from_slice(&number.to_le_bytes()),
            (_, f64::INFINITY) => out.push(254),
            (_, f64::NEG_INFINITY) => out.push(255),
            _ => {
                let text = number_text(*number);
                out.push(u8::try_from(text.len()).unwrap());
                out.extend(text);
            }
        }
    }
    out
}

fn number_text(number: f64) -> Vec<u8> {
    crate::base::float::write_17(&mut [0; crate::base::float::MAX_BYTES], number).to_vec()
}

// ---- what is written and read ----

fn text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => vec(any::<u8>(), 0..30),
        1 => (0usize..600, any::<u8>()).prop_map(|(len, byte)| vec![byte; len]),
        1 => prop_oneof![Just(4095usize), Just(4096), Just(16_383), Just(16_384), Just(70_000)].prop_map(|len| vec![b'x'; len]),
        3 => (any::<i64>(), 0u32..64).prop_map(|(n, shift)| (n >> shift).to_string().into_bytes()),
    ]
}

fn distinct(texts: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let mut seen = BTreeSet::new();
    texts.into_iter().filter(|text| seen.insert(text.clone())).collect()
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        (-1000i32..1000).prop_map(|n| f64::from(n) / 4.0),
        any::<f64>().prop_filter("a score", |n| !n.is_nan()),
        Just(f64::INFINITY),
        Just(f64::NEG_INFINITY),
        Just(-0.0),
    ]
}

/// A value of any encoding, and what comes of it.
fn value() -> impl Strategy<Value = (Kind, Vec<u8>, Vec<u8>)> {
    let texts = vec(text(), 1..20);
    let zset = vec((text(), number()), 1..20).prop_map(|elements| {
        let mut seen = BTreeSet::new();
        elements.into_iter().filter(|(member, _)| seen.insert(member.clone())).collect::<Vec<_>>()
    });
    let numbers = proptest::collection::btree_set((any::<i64>(), 0u32..64).prop_map(|(n, shift)| n >> shift), 1..40);
    prop_oneof![
        (0u8..4, texts, 1usize..5, any::<bool>()).prop_map(|(encoding, texts, of, packed)| {
            let value = match encoding {
                0 => plain(value_type::LIST, texts.len(), &texts, packed),
                1 => holder(value_type::LIST_ZIPLIST, &ziplist(&texts), packed),
                2 => nodes(&texts, of, false, packed),
                _ => nodes(&texts, of, true, packed),
            };
            (Kind::List, value, run_of(&texts))
        }),
        (any::<bool>(), vec(text(), 1..20).prop_map(distinct), any::<bool>()).prop_map(|(is_plain, texts, packed)| {
            let value = if is_plain {
                plain(value_type::SET, texts.len(), &texts, packed)
            } else {
                holder(value_type::SET_LISTPACK, &listpack(&texts), packed)
            };
            (Kind::Set, value, run_of(&texts))
        }),
        (numbers, any::<bool>()).prop_map(|(numbers, packed)| {
            let texts: Vec<String> = numbers.iter().map(i64::to_string).collect();
            (Kind::Set, holder(value_type::SET_INTSET, &intset(&numbers), packed), run_of(&texts))
        }),
        (0u8..4, vec(text(), 1..20).prop_map(distinct), text(), any::<bool>()).prop_map(
            |(encoding, fields, with, packed)| {
                let texts: Vec<Vec<u8>> =
                    fields.iter().flat_map(|field| [field.clone(), [&with[..], field].concat()]).collect();
                let value = match encoding {
                    0 => plain(value_type::HASH, fields.len(), &texts, packed),
                    1 => holder(value_type::HASH_ZIPMAP, &zipmap(&texts), packed),
                    2 => holder(value_type::HASH_ZIPLIST, &ziplist(&texts), packed),
                    _ => holder(value_type::HASH_LISTPACK, &listpack(&texts), packed),
                };
                (Kind::Hash, value, run_of_hash(&texts))
            }
        ),
        (0u8..4, zset, any::<bool>()).prop_map(|(encoding, elements, packed)| {
            let texts: Vec<Vec<u8>> =
                elements.iter().flat_map(|(member, number)| [member.clone(), number_text(*number)]).collect();
            let value = match encoding {
                0 => scores(value_type::ZSET, &elements),
                1 => scores(value_type::ZSET_2, &elements),
                2 => holder(value_type::ZSET_ZIPLIST, &ziplist(&texts), packed),
                _ => holder(value_type::ZSET_LISTPACK, &listpack(&texts), packed),
            };
            (Kind::Zset, value, run_of_zset(&elements))
        }),
    ]
}

fn form(kind: Kind) -> Form {
    match kind {
        Kind::List => Form::List,
        Kind::Set => Form::Set,
        Kind::Zset => Form::Zset,
        Kind::Hash => Form::Hash,
    }
}

fn entries_of(kind: Kind) -> usize {
    match kind {
        Kind::List | Kind::Set => 1,
        Kind::Zset => 2,
        Kind::Hash => 3,
    }
}

proptest! {
    #[test]
    fn every_encoding_is_read((kind, value, want) in value(), cuts in vec(0usize..5000, 0..9), budget in 1usize..3000, behind in vec(any::<u8>(), 0..3)) {
        prop_assert_eq!(whole(&value), Ok((kind, want.clone())));
        let cut = [&value[..], &behind].concat();
        prop_assert_eq!(decode(&cut, &cuts, budget), Ok((kind, want)));
    }

    #[test]
    fn what_is_written_is_read((kind, _, run) in value(), cuts in vec(0usize..100, 0..9), at: usize) {
        let entries: Vec<Entry<'_>> = entry::Entries::new(&run).collect();
        let count = entries.len() / entries_of(kind);
        let mut value = Vec::new();
        let mut encoder = Encoder::new(form(kind), count as u64, &mut value);
        let mut parts = [Vec::new(), Vec::new()];
        for (i, element) in entries.chunks(entries_of(kind)).enumerate() {
            element.iter().for_each(|entry| entry.put(&mut parts[usize::from(i > at % count)]));
        }
        parts.iter().for_each(|part| encoder.put(part, &mut value));
        prop_assert_eq!((encoder.left(), form(kind).kind()), (0, kind));
        prop_assert_eq!(kind_of(value[0]), Some(kind));
        prop_assert_eq!(decode(&value, &cuts, 100), Ok((kind, run)));
    }

    #[test]
    fn damage_is_noticed_or_harmless(
        (_, mut value, _) in value(), changes in vec((any::<usize>(), any::<u8>()), 1..4), cut: usize, cuts in vec(0usize..100, 0..9), budget in 1usize..300,
    ) {
        for (at, byte) in changes {
            // Where the heads are more often than elsewhere.
            let len = if byte % 2 == 0 { value.len() } else { value.len().min(24) };
            value[at % len] = byte;
        }
        let all = whole(&value);
        prop_assert_eq!(&decode(&value, &cuts, budget), &all);
        if let Ok((kind, run)) = &all
            && *kind != Kind::List
        {
            let mut seen = BTreeSet::new();
            let names = entry::Entries::new(run).step_by(entries_of(*kind));
            prop_assert!(names.map(Entry::to_vec).all(|name| seen.insert(name)), "distinct");
        }
        let short = &value[..cut % value.len()];
        prop_assert_eq!(decode(short, &cuts, budget), whole(short));
    }

    #[test]
    fn without_its_end_nothing_is_whole((_, value, _) in value(), cut: usize) {
        prop_assert_eq!(whole(&value[..cut % value.len()]), Err(Malformed));
    }

    #[test]
    fn any_bytes(first in 0u8..27, bytes in vec(any::<u8>(), 0..100), cuts in vec(0usize..9, 0..9)) {
        let value = [&[first], &bytes[..]].concat();
        prop_assert_eq!(decode(&value, &cuts, 20), whole(&value));
    }

    #[test]
    fn deadlines_of_fields(fields in vec((text(), 0u64..3), 1..10), first in 1u64..1 << 40) {
        let mut seen = BTreeSet::new();
        let fields: Vec<_> = fields.into_iter().filter(|(field, _)| seen.insert(field.clone())).collect();
        let (mut run, mut texts) = (Vec::new(), Vec::new());
        for (field, from_first) in &fields {
            let at = if *from_first == 0 { 0 } else { first + from_first - 1 };
            entry::put(&mut run, field);
            entry::put(&mut run, b"value");
            entry::put_int(&mut run, i64::try_from(at).unwrap());
            texts.extend([field.clone(), b"value".to_vec(), at.to_string().into_bytes()]);
        }
        let mut value = Vec::new();
        for first_ms in [first, 1] {
            value.clear();
            let mut encoder = Encoder::new(Form::HashWithDeadlines { first_ms }, fields.len() as u64, &mut value);
            encoder.put(&run, &mut value);
            prop_assert_eq!(decode(&value, &[3, 70], 50), Ok((Kind::Hash, run.clone())));
        }
        let dated = [&[value_type::HASH_LISTPACK_EX], &first.to_le_bytes()[..], &string_of(&listpack(&texts), false)].concat();
        prop_assert_eq!(decode(&dated, &[3, 70], 50), Ok((Kind::Hash, run)));
    }
}

/// A value of one encoding with something that must not be.
#[test]
fn refused() {
    let none: [&[u8]; 0] = [];
    let twice: [&[u8]; 2] = [b"a", b"a"];
    let four: [&[u8]; 4] = [b"a", b"1", b"a", b"2"];
    let odd: [&[u8]; 3] = [b"a", b"1", b"b"];
    let nan = [(b"a".to_vec(), f64::NAN)];
    let pair = [(b"a".to_vec(), 1.0), (b"a".to_vec(), 2.0)];
    let mut bad: Vec<(&str, Vec<u8>)> = vec![
        ("empty list", plain(value_type::LIST, 0, &none, false)),
        ("empty set", plain(value_type::SET, 0, &none, false)),
        ("empty hash", plain(value_type::HASH, 0, &none, false)),
        ("empty zset", scores(value_type::ZSET_2, &[])),
        ("empty ziplist", holder(value_type::LIST_ZIPLIST, &ziplist(&none), false)),
        ("empty listpack", holder(value_type::HASH_LISTPACK, &listpack(&none), false)),
        ("empty zipmap", holder(value_type::HASH_ZIPMAP, &zipmap(&none), false)),
        ("empty intset", holder(value_type::SET_INTSET, &intset(&BTreeSet::new()), false)),
        ("empty nodes", [&[value_type::LIST_QUICKLIST, 1], &string_of(&ziplist(&none), false)[..]].concat()),
        ("no nodes", vec![value_type::LIST_QUICKLIST_2, 0]),
        ("a member twice", plain(value_type::SET, 2, &twice, false)),
        ("a member twice in a listpack", holder(value_type::SET_LISTPACK, &listpack(&twice), false)),
        ("a field twice", plain(value_type::HASH, 2, &four, false)),
        ("a field twice in a listpack", holder(value_type::HASH_LISTPACK, &listpack(&four), false)),
        ("a field twice in a ziplist", holder(value_type::HASH_ZIPLIST, &ziplist(&four), false)),
        ("a field twice in a zipmap", holder(value_type::HASH_ZIPMAP, &zipmap(&four), false)),
        ("a zset's member twice", scores(value_type::ZSET_2, &pair)),
        ("a zset's member twice in a listpack", holder(value_type::ZSET_LISTPACK, &listpack(&four), false)),
        ("a field without a value", holder(value_type::HASH_LISTPACK, &listpack(&odd), false)),
        ("a member without a score", holder(value_type::ZSET_ZIPLIST, &ziplist(&odd), false)),
        ("no number", scores(value_type::ZSET_2, &nan)),
        ("no number, old", vec![value_type::ZSET, 1, 1, b'a', 253]),
        ("no number as text", holder(value_type::ZSET_LISTPACK, &listpack(&[b"a", &b"nan"[..]]), false)),
        ("a score of letters", vec![value_type::ZSET, 1, 1, b'a', 1, b'x']),
        ("a count beyond the bytes", vec![value_type::SET, 2, 1, b'a']),
        ("a count of 64 bits", [&[value_type::LIST, 0x81][..], &[0xff; 8], &[1, b'a']].concat()),
        ("a length beyond the bytes", vec![value_type::LIST, 1, 0x80, 0xff, 0xff, 0xff, 0xff, b'a']),
        ("too long an element", [&[value_type::LIST, 1, 0xc3, 1, 0x81][..], &[0, 0, 0, 0, 1, 0, 0, 0], &[0]].concat()),
        ("unpacked to more than can be", vec![value_type::LIST_ZIPLIST, 0xc3, 1, 0x80, 0x7f, 0xff, 0xff, 0xff, 0]),
        ("a node that is neither", vec![value_type::LIST_QUICKLIST_2, 1, 3, 1, b'a']),
        ("a holder that is a number", vec![value_type::SET_INTSET, 0xc0, 1]),
        ("descending integers", {
            let mut set = intset(&BTreeSet::from([1, 2]));
            set[8] = 2;
            holder(value_type::SET_INTSET, &set, false)
        }),
        ("integers of 3 bytes", holder(value_type::SET_INTSET, &[3, 0, 0, 0, 1, 0, 0, 0, 1, 2, 3], false)),
        ("a deadline beyond all", {
            let mut value = [&[value_type::HASH_METADATA][..], &[0xff; 8], &[1, 2]].concat();
            value.extend([1, b'f', 1, b'v']);
            value
        }),
    ];
    for (what, of, format) in [
        ("listpack", listpack(&[b"first", &b"2"[..], b"third"]), value_type::SET_LISTPACK),
        ("ziplist", ziplist(&[b"first", &b"2"[..], b"third"]), value_type::LIST_ZIPLIST),
        ("zipmap", zipmap(&[b"first", &b"2"[..]]), value_type::HASH_ZIPMAP),
        ("intset", intset(&BTreeSet::from([1, 2, 70_000])), value_type::SET_INTSET),
    ] {
        assert!(whole(&holder(format, &of, false)).is_ok(), "{what}");
        // The end is missing, comes twice, or is another.
        bad.push((what, holder(format, &of[..of.len() - 1], false)));
        bad.push((what, holder(format, &[&of[..], &[0xff]].concat(), false)));
        if what != "intset" {
            let mut other = of.clone();
            *other.last_mut().unwrap() = 0xf5;
            bad.push((what, holder(format, &other, true)));
        }
        // All the header says is true.
        for at in 0..if what == "zipmap" { 1 } else { 6 } {
            let mut other = of.clone();
            other[at] ^= 1;
            bad.push((what, holder(format, &other, true)));
        }
    }
    for (what, value) in &bad {
        assert_eq!(whole(value), Err(Malformed), "{what}: {value:02x?}");
        assert_eq!(decode(value, &[0], 1), Err(Malformed), "{what}, in bytes");
    }
    for first in [0, 6, 7, 8, 15, 19, 21, 23, 26, 255] {
        assert_eq!((kind_of(first), whole(&[first, 1, 1, b'a'])), (None, Err(Malformed)), "type {first}");
    }
}

/// What is large comes in runs of the size that was asked for, and nothing is held for long.
#[test]
fn runs_are_as_small_as_was_asked_for() {
    let texts: Vec<String> = (0..100_000).map(|i| format!("element:{i}")).collect();
    let value = plain(value_type::SET, texts.len(), &texts, false);
    let mut decoder = Decoder::new(value[0], value.len() as u64, MAX_BYTES, 7).unwrap();
    let (mut run, mut all, mut pieces) = (Vec::new(), Vec::new(), value.chunks(4096));
    loop {
        run.clear();
        let progress = decoder.next(&mut run, 1000).unwrap();
        assert!(run.len() < 1000 + 20);
        all.extend_from_slice(&run);
        match progress {
            Progress::Hungry => decoder.feed(pieces.next().unwrap()),
            Progress::Full => {}
            Progress::Done => break,
        }
    }
    assert!(all == run_of(&texts));
    assert_eq!(decoder.count(), 100_000);
    assert!(decoder.bytes() < 100_000 * 64, "{}", decoder.bytes());

    // Sixty megabytes of zeros, from a payload of seven hundred kilobytes: it is refused or read in bounded steps.
    let mut packed = vec![0, 0];
    while packed.len() < 200_000 {
        packed.extend([0xe0, 255, 0]);
    }
    let bytes = 1 + (packed.len() as u64 - 2) / 3 * 264;
    let mut value = vec![value_type::LIST, 1, 0xc3];
    string::write_length(packed.len() as u64, &mut value);
    string::write_length(bytes, &mut value);
    value.extend(&packed);
    let mut decoder = Decoder::new(value[0], value.len() as u64, u64::MAX, 7).unwrap();
    decoder.feed(&value);
    let (mut run, mut calls) = (Vec::new(), 0);
    while decoder.next(&mut run, 1000).unwrap() != Progress::Done {
        calls += 1;
    }
    assert!(calls > 200, "{calls}");
    assert_eq!(run.len() as u64, bytes + 5);
    assert_eq!(whole(&value), Err(Malformed), "longer than is allowed");
}

/// As redis-server 7.0.15 dumped them: lists (one packed, with a reference in it; one of two nodes), sets, hashes, zsets.
#[test]
fn values_of_redis() {
    let x = "x".repeat(70);
    let list = run_of(&["a", "12", "-5000", &x]);
    for (value, kind, run) in [
        (
            &b"\x12\x01\x02\xc3\x19@Y\x11Y\x00\x00\x00\x04\x00\x81a\x02\x0c\x01\xf1x\xec\x03\xe0Fx\xe0<\x00\x01H\xff"[..],
            Kind::List,
            list,
        ),
        (
            b"\x12\x02\x02\x0d\x0d\x00\x00\x00\x02\x00\x81a\x02\x81b\x02\xff\x02\x0c\x0c\x00\x00\x00\x02\x00\x81c\x02\x01\x01\xff",
            Kind::List,
            run_of(&["a", "b", "c", "1"]),
        ),
        (
            b"\x0b\x14\x04\x00\x00\x00\x03\x00\x00\x00\x90\xee\xfe\xff\x01\x00\x00\x00\x05\x00\x00\x00",
            Kind::Set,
            run_of(&["-70000", "1", "5"]),
        ),
        (b"\x02\x02\x01b\x01a", Kind::Set, run_of(&["b", "a"])),
        (
            b"\x10\x12\x12\x00\x00\x00\x04\x00\x81f\x02\x81v\x02\x01\x01\xc1,\x02\xff",
            Kind::Hash,
            run_of_hash(&["f", "v", "1", "300"]),
        ),
        (b"\x04\x01\x01f\x01v", Kind::Hash, run_of_hash(&["f", "v"])),
        (
            b"\x11\x1d\x1d\x00\x00\x00\x06\x00\x81b\x02\xdf\xfd\x02\x81a\x02\x831.5\x04\x81c\x02\x83inf\x04\xff",
            Kind::Zset,
            run_of_zset(&[("b", -3.0), ("a", 1.5), ("c", f64::INFINITY)]),
        ),
        (
            b"\x05\x02\x01a\x00\x00\x00\x00\x00\x00\xf8?\x01b\x00\x00\x00\x00\x00\x00\xf0\xff",
            Kind::Zset,
            run_of_zset(&[("a", 1.5), ("b", f64::NEG_INFINITY)]),
        ),
    ] {
        assert_eq!(whole(value), Ok((kind, run)), "{value:02x?}");
    }
}
