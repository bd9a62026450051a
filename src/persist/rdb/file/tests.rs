//! Files: what is written is read, however it is cut; files of all versions put together by hand; damaged ones.

use super::*;
use crate::base::entry::{self, Entries};
use crate::base::score;
use crate::persist::rdb::Form;
use crate::persist::rdb::payload::Checksum;
use proptest::collection::vec;
use proptest::prelude::*;

const MAX_BYTES: u64 = 8 << 20;

/// What a file says, with its values put together.
#[derive(Clone, PartialEq, Debug)]
enum Said {
    Aux(Vec<u8>, Vec<u8>),
    Database(u64),
    Sizes(u64, u64),
    Key { key: Vec<u8>, deadline_ms: Option<u64>, idle_seconds: Option<u64>, kind: Option<Kind>, bytes: Vec<u8> },
    Empty(Vec<u8>),
    Skipped(Skipped),
}

fn add(bytes: &mut Vec<u8>, content: Content<'_>) -> Option<Kind> {
    match content {
        Content::Int(number) => {
            bytes.extend_from_slice(number.to_string().as_bytes());
            None
        }
        Content::Bytes(piece) => {
            bytes.extend_from_slice(piece);
            None
        }
        Content::Run(kind, run) => {
            bytes.extend_from_slice(run);
            Some(kind)
        }
    }
}

/// Reads a file that comes in pieces of these sizes, and what is behind it.
fn read(file: &[u8], cuts: &[usize]) -> Result<(Vec<Said>, Vec<u8>), Error> {
    let mut reader = Reader::new(MAX_BYTES, 5);
    let (mut rest, mut cuts, mut said) = (file, cuts.iter().cycle(), Vec::new());
    let mut open = false;
    loop {
        match reader.next()? {
            Event::Hungry => {
                let room = reader.room();
                assert!(!room.is_empty());
                let want = cuts.next().map_or(usize::MAX, |cut| 1 + cut);
                let now = rest.len().min(room.len()).min(want);
                room[..now].copy_from_slice(&rest[..now]);
                reader.filled(now);
                rest = &rest[now..];
            }
            Event::Aux { name, value } => said.push(Said::Aux(name.to_vec(), value.to_vec())),
            Event::Database(number) => said.push(Said::Database(number)),
            Event::Sizes { keys, deadlines } => said.push(Said::Sizes(keys, deadlines)),
            Event::Skipped(what) => said.push(Said::Skipped(what)),
            Event::Empty(head) => said.push(Said::Empty(head.key.to_vec())),
            Event::Value(head, content, part) => {
                assert!(!open);
                open = part == Part::Unfinished;
                let mut bytes = Vec::new();
                let kind = add(&mut bytes, content);
                let Head { key, deadline_ms, idle_seconds } = head;
                said.push(Said::Key { key: key.to_vec(), deadline_ms, idle_seconds, kind, bytes });
            }
            Event::More(content, part) => {
                assert!(open);
                open = part == Part::Unfinished;
                let Some(Said::Key { bytes, kind, .. }) = said.last_mut() else { panic!("no key before it") };
                assert_eq!(add(bytes, content), *kind);
            }
            Event::End => {
                assert!(!open);
                assert_eq!(reader.offset(), (file.len() - rest.len() - reader.behind().len()) as u64);
                return Ok((said, [reader.behind(), rest].concat()));
            }
        }
    }
}

fn key(key: &[u8], kind: Option<Kind>, bytes: &[u8]) -> Said {
    Said::Key { key: key.to_vec(), deadline_ms: None, idle_seconds: None, kind, bytes: bytes.to_vec() }
}

fn run_of(texts: &[&str]) -> Vec<u8> {
    let mut run = Vec::new();
    texts.iter().for_each(|text| entry::put(&mut run, text.as_bytes()));
    run
}

/// A file of these parts.
fn file(magic: &str, parts: &[u8]) -> Vec<u8> {
    let mut file = [magic.as_bytes(), parts, &[255]].concat();
    let mut checksum = Checksum::default();
    checksum.update(&file);
    file.extend_from_slice(&checksum.value().to_le_bytes());
    file
}

fn told(file: &[u8]) -> Vec<Said> {
    let (said, behind) = read(file, &[]).unwrap();
    assert!(behind.is_empty());
    for cuts in [&[0][..], &[6], &[0, 70, 3]] {
        assert_eq!(read(file, cuts), Ok((said.clone(), Vec::new())));
    }
    said
}

/// As redis-server 7.0.15 has written an empty database.
#[test]
fn an_empty_file_of_redis() {
    let bytes = b"REDIS0010\xfa\x09redis-ver\x067.0.15\xfa\x0aredis-bits\xc0\x40";
    let whole = file("REDIS0010", &bytes[9..]);
    assert_eq!(
        told(&whole),
        [Said::Aux(b"redis-ver".into(), b"7.0.15".into()), Said::Aux(b"redis-bits".into(), b"64".into())]
    );
}

#[test]
fn old_versions() {
    // Before version 5 there is no checksum. Deadlines in seconds, a zipmap, scores as text.
    let parts = b"\xfe\x00\xfd\x00\xca\x9a\x3b\x00\x01k\x01v\x04\x01h\x01\x01f\x01w\x09\x01m\x0a\x01\x02k1\x03\x00v12\xff\x03\x01z\x02\x01a\x011\x01b\xfe";
    for magic in ["REDIS0001", "REDIS0004"] {
        let old = [magic.as_bytes(), parts, &[255]].concat();
        let mut zset = Vec::new();
        for (member, number) in [("a", 1.0), ("b", f64::INFINITY)] {
            entry::put(&mut zset, member.as_bytes());
            score::to_entry(&mut zset, number);
        }
        let want = [
            Said::Database(0),
            Said::Key {
                key: b"k".into(),
                deadline_ms: Some(1_000_000_000_000),
                idle_seconds: None,
                kind: None,
                bytes: b"v".into(),
            },
            key(b"h", Some(Kind::Hash), &run_of(&["f", "w", "0"])),
            key(b"m", Some(Kind::Hash), &run_of(&["k1", "v12", "0"])),
            key(b"z", Some(Kind::Zset), &zset),
        ];
        assert_eq!(told(&old), want);
        assert_eq!(read(&[&old[..], b"*1"].concat(), &[]), Ok((want.to_vec(), b"*1".to_vec())));
    }
    // Version 5 and later: the sum is looked at, unless it is 0.
    let mut of_5 = file("REDIS0005", parts);
    assert_eq!(told(&of_5).len(), 5);
    let last = of_5.len() - 1;
    of_5[last] ^= 1;
    assert!(matches!(read(&of_5, &[]), Err(Error::Checksum { .. })));
    of_5[last - 7..].fill(0);
    assert_eq!(told(&of_5).len(), 5);
}

#[test]
fn facts_and_what_is_passed_over() {
    let long = vec![b'#'; 400_000];
    let parts = [
        b"\xfa\x03lua".as_slice(),
        b"\x80\x00\x06\x1a\x80",
        &long,
        // A library of functions; a module's things of each type.
        b"\xf5\x80\x00\x06\x1a\x80",
        &long,
        b"\xf7\x81AAAAAAAA\x02\x01\x05\x03abc\x01\x07\x02\x40\x50\x03ffff\x04dddddddd\x00",
        b"\xfe\x02\xfb\x03\x41\x00\xf8\x40\x64\xf9\x07\xfc\x01\x00\x00\x00\x00\x00\x00\x00\x00\x01k\xc1\x39\x30",
        b"\xf4\x05\x01\x00\x00\x01l\xc0\xff",
    ]
    .concat();
    let said = told(&file("REDIS0012", &parts));
    assert_eq!(
        said,
        [
            Said::Aux(b"lua".into(), long.clone()),
            Said::Skipped(Skipped::Functions),
            Said::Skipped(Skipped::ModuleAux(0x4141_4141_4141_4141)),
            Said::Database(2),
            Said::Sizes(3, 256),
            Said::Key {
                key: b"k".into(),
                deadline_ms: Some(1),
                idle_seconds: Some(100),
                kind: None,
                bytes: b"12345".into()
            },
            key(b"l", None, b"-1"),
        ]
    );
    // Valkey: a slot on its way, fields with deadlines behind them.
    let parts = b"\xf3\x03job\x02\x01\x05\x40\x80\x40\x90\x16\x01h\x02\x01a\x01b\xff\xff\xff\xff\xff\xff\xff\xff\x01c\x01d\x10\x00\x00\x00\x00\x00\x00\x00";
    assert_eq!(
        told(&file("VALKEY080", parts)),
        [Said::Skipped(Skipped::SlotImport), key(b"h", Some(Kind::Hash), &run_of(&["a", "b", "0", "c", "d", "16"]))]
    );
}

#[test]
fn refused_with_a_reason() {
    let of = |parts: &[u8]| read(&file("REDIS0011", parts), &[]).unwrap_err();
    assert_eq!(of(b"\x0f\x01s\x00"), Error::Stream(b"s".into()));
    assert_eq!(of(b"\x15\x01s\x00"), Error::Stream(b"s".into()));
    assert_eq!(of(b"\x16\x01s\x00"), Error::Type(b"s".into(), 22));
    assert_eq!(of(b"\x63\x01s\x00"), Error::Type(b"s".into(), 99));
    assert_eq!(of(b"\xf6\x01s\x00"), Error::EarlyFunctions);
    // As RedisBloom writes its type.
    let bloom = [b"\x07\x01m\x81".as_slice(), &0x3041_d4a2_8e15_0404_u64.to_be_bytes()].concat();
    let Error::Module(of_key, name) = of(&bloom) else { panic!("a module") };
    assert_eq!((of_key, name.len()), (b"m".to_vec(), 9));
    assert_eq!(of(b"\x00\x01k\x05abc"), Error::Truncated);
    assert_eq!(of(b"\x01\x01k\x01\xc4"), Error::Malformed);
    for (start, error) in [
        ("REDIS0000", Error::Version(0)),
        ("REDIS00x1", Error::Foreign),
        ("VALKEY999", Error::Truncated),
        ("redis0010", Error::Foreign),
        ("REDIS", Error::Foreign),
        ("", Error::Foreign),
    ] {
        assert_eq!(read(start.as_bytes(), &[]), Err(error), "{start}");
    }
    // A collection without elements is told of.
    let empty = b"\x04\x01h\x00\x0b\x01i\x08\x02\x00\x00\x00\x00\x00\x00\x00\x00\x01k\x00";
    assert_eq!(
        told(&file("REDIS0006", empty)),
        [Said::Empty(b"h".into()), Said::Empty(b"i".into()), key(b"k", None, b"")]
    );
    // The texts name the key.
    assert!(Error::Stream(b"a\nb".into()).to_string().contains("\"a\\nb\""));
}

/// What a claim costs is bounded by what is there.
#[test]
fn claims_of_length() {
    for claim in [
        b"\x00\x81\x7f\xff\xff\xff\xff\xff\xff\xffk".as_slice(),
        b"\x00\x01k\x81\x7f\xff\xff\xff\xff\xff\xff\xffk",
        b"\x00\x01k\x80\x00\x70\x00\x00k",
        b"\x00\x01k\xc3\x03\x80\x7f\xff\xff\xff\x00ab",
        b"\x04\x01k\x81\x7f\xff\xff\xff\xff\xff\xff\xff\x01a\x01b",
        b"\x01\x01k\x01\x80\x7f\xff\xff\xff\x01a\x01b",
        b"\xf3\x01j\x81\x7f\xff\xff\xff\xff\xff\xff\xff",
    ] {
        assert!(read(&file("VALKEY080", claim), &[]).is_err());
    }
}

#[derive(Clone, Debug)]
enum Made {
    Database(u64),
    Text(usize, usize),
    Number(i64),
    Elements(u8, usize, usize),
}

fn made() -> impl Strategy<Value = Made> {
    prop_oneof![
        1 => prop_oneof![0..20u64, Just(70_000)].prop_map(Made::Database),
        6 => (prop_oneof![6 => 0..200usize, 1 => 60_000..70_000usize, 1 => 0..400_000usize], 1..40usize)
            .prop_map(|(len, period)| Made::Text(len, period)),
        2 => any::<i64>().prop_map(Made::Number),
        4 => (0..4u8, prop_oneof![4 => 1..30usize, 1 => 1..4000usize], 1..200usize)
            .prop_map(|(kind, count, len)| Made::Elements(kind, count, len)),
    ]
}

fn text(len: usize, period: usize) -> Vec<u8> {
    (0..len).map(|i| u8::try_from(i % period * 37 % 251).unwrap()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn what_is_written_is_read(
        parts in vec((made(), prop_oneof![3 => Just(None), 1 => any::<u64>().prop_map(Some)], 1..90usize), 0..40),
        sums: bool, packs: bool, cuts in vec(prop_oneof![0..40usize, 0..100_000usize], 1..20),
    ) {
        let mut writer = Writer::new(sums, packs);
        let (mut file, mut want) = (Vec::new(), vec![Said::Aux(b"redis-ver".into(), b"7.0".into())]);
        writer.aux(b"redis-ver", b"7.0");
        for (i, (made, deadline_ms, name_len)) in parts.iter().enumerate() {
            let name = [format!("{i}:").as_bytes(), &text(*name_len, 9)].concat();
            let head = Head { key: &name, deadline_ms: *deadline_ms, idle_seconds: deadline_ms.map(|at| at % 1000) };
            let said = |kind, bytes| Said::Key { key: name.clone(), deadline_ms: *deadline_ms, idle_seconds: head.idle_seconds, kind, bytes };
            match made {
                Made::Database(number) => {
                    let same = want.iter().rev().find_map(|said| if let Said::Database(n) = said { Some(n == number) } else { None });
                    writer.database(*number);
                    if same != Some(true) {
                        writer.sizes(i as u64, 1);
                        want.extend([Said::Database(*number), Said::Sizes(i as u64, 1)]);
                    }
                }
                Made::Text(len, period) if len % 3 == 0 && *len > 0 => {
                    let text = text(*len, *period);
                    writer.long_string(head, text.len() as u64);
                    text.chunks(50_000).for_each(|piece| writer.piece(piece));
                    want.push(said(None, text));
                }
                Made::Text(len, period) => {
                    let text = text(*len, *period);
                    writer.string(head, &text);
                    want.push(said(None, text));
                }
                Made::Number(number) => {
                    writer.number(head, *number);
                    want.push(said(None, number.to_string().into_bytes()));
                }
                Made::Elements(kind, count, len) => {
                    let form = [Form::List, Form::Set, Form::Zset, Form::HashWithDeadlines { first_ms: 1 }][usize::from(*kind)];
                    let mut runs: Vec<Vec<u8>> = vec![Vec::new()];
                    for element in 0..*count {
                        let run = runs.last_mut().unwrap();
                        entry::put(run, &[&text(*len, 20)[..], element.to_string().as_bytes()].concat());
                        match form {
                            Form::Zset => score::to_entry(run, element as f64 / 3.0),
                            Form::HashWithDeadlines { .. } => {
                                entry::put(run, element.to_string().as_bytes());
                                entry::put_int(run, i64::from(element % 3 == 0) * 1_700_000_000_000);
                            }
                            _ => {}
                        }
                        if run.len() > 10_000 {
                            runs.push(Vec::new());
                        }
                    }
                    let mut encoder = writer.collection(head, form, *count as u64);
                    runs.iter().for_each(|run| writer.elements(&mut encoder, run));
                    prop_assert_eq!(encoder.left(), 0);
                    want.push(said(Some(form.kind()), runs.concat()));
                }
            }
            if i % 3 == 0 {
                writer.take(|bytes| file.extend_from_slice(bytes));
            }
        }
        writer.end();
        writer.take(|bytes| file.extend_from_slice(bytes));
        prop_assert!(writer.is_empty());
        prop_assert!(read(&file, &cuts) == Ok((want.clone(), Vec::new())));
        prop_assert!(read(&[&file[..], b"behind"].concat(), &[]) == Ok((want, b"behind".to_vec())));
        // Cut off or changed anywhere it is not what it was.
        for at in [0, 3, 9, 20, file.len() / 2, file.len() - 9, file.len() - 1] {
            if at < file.len() {
                prop_assert!(read(&file[..at], &cuts).is_err());
                let mut damaged = file.clone();
                damaged[at] ^= 4;
                let damaged = read(&damaged, &[]);
                prop_assert!(!sums || damaged.is_err());
            }
        }
    }

    #[test]
    fn any_bytes(bytes in vec(any::<u8>(), 0..300), parts in vec(prop_oneof![0..26u8, 240..=255u8, 0..=255u8], 0..40), cut in 0..50usize) {
        for body in [&bytes[..], &[&parts[..], &bytes].concat()] {
            let file = file("REDIS0011", body);
            prop_assert_eq!(read(&file, &[]), read(&file, &[cut]));
        }
    }
}

#[test]
fn long_elements() {
    let (mut run, mut file) = (Vec::new(), Vec::new());
    for len in [300_000, 0, 70_000] {
        entry::put(&mut run, &text(len, 250));
    }
    for packs in [false, true] {
        let mut writer = Writer::new(true, packs);
        let head = Head { key: b"k", deadline_ms: None, idle_seconds: None };
        let mut encoder = writer.collection(head, Form::List, 3);
        writer.elements(&mut encoder, &run);
        writer.end();
        file.clear();
        writer.take(|bytes| file.extend_from_slice(bytes));
        let (said, _) = read(&file, &[]).unwrap();
        let [Said::Key { bytes, .. }] = &said[..] else { panic!("one key") };
        assert!(*bytes == run);
        assert_eq!(Entries::new(bytes).count(), 3);
    }
}
