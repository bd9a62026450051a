//! Known requests, and any stream cut anywhere against the naive parser.
use super::carry::Carry;
use super::naive::{self, Asked};
use super::*;
use bumpalo::Bump;
use proptest::prelude::*;

const OPEN: Limits = Limits { item_bytes_max: 1 << 20, authenticated: true };
/// Small enough for tests to run into.
const TIGHT: Limits = Limits { item_bytes_max: 120, authenticated: true };

/// As a session does it, the stream arriving in `chunks`.
fn parse_chunks<'c>(chunks: impl IntoIterator<Item = &'c [u8]>, limits: &Limits) -> Vec<Asked> {
    let (mut asked, mut mode, mut carry) = (Vec::new(), Mode::Request, None::<Carry>);
    for chunk in chunks {
        let mut at = 0;
        while at < chunk.len() {
            let window = match &mut carry {
                None => {
                    let rest = chunk[at..].to_vec();
                    at = chunk.len();
                    rest
                }
                Some(kept) => {
                    let (taken, whole) = kept.feed(&chunk[at..]);
                    at += taken;
                    if !whole {
                        continue;
                    }
                    mode = kept.mode;
                    kept.take()
                }
            };
            carry = None;
            // Boxed: valgrind and sanitizers see reads beyond the end.
            let window = window.into_boxed_slice();
            let (arena, mut pos) = (Bump::new(), 0);
            while pos < window.len() {
                let mut args = ArenaVec::new_in(&arena);
                let before = mode;
                match parse(&window, pos, &mut mode, limits, &mut args) {
                    Parsed::Request { verb, end } => {
                        assert!(end > pos && end <= window.len());
                        pos = end;
                        asked.push((verb, args[1..].iter().map(|arg| arg.to_vec()).collect()));
                        if [Verb::FailClose, Verb::BinaryInvalid, Verb::BinaryUnframed].contains(&verb) {
                            return asked;
                        }
                    }
                    Parsed::Nothing { end } => {
                        assert!(end > pos && end <= window.len() && args.is_empty());
                        pos = end;
                    }
                    Parsed::Incomplete(wanted) => {
                        assert!(args.is_empty() && mode == before);
                        assert!(wanted.bytes == 0 || wanted.bytes > window.len() - pos);
                        if let Some((value_at, value_bytes)) = wanted.value {
                            check_head(&window[pos..], value_at, value_bytes, limits);
                        }
                        carry = Some(Carry::new(mode, &window[pos..], wanted));
                        pos = window.len();
                    }
                }
            }
        }
    }
    asked
}

/// With nothing but what is in front of the value, the request has the same arguments.
fn check_head(request: &[u8], value_at: usize, value_bytes: usize, limits: &Limits) {
    let head = request[..value_at].to_vec();
    let mut whole = head.clone();
    let arena = Bump::new();
    let mut args = ArenaVec::new_in(&arena);
    let verb = parse_head(&head, limits, &mut args).map(|verb| (verb, args.iter().map(|a| a.to_vec()).collect()));
    whole.resize(value_at + value_bytes, b'v');
    whole.extend(b"\r\n");
    let mut args = ArenaVec::new_in(&arena);
    let Parsed::Request { verb: expected, .. } = parse(&whole, 0, &mut Mode::Request, limits, &mut args) else {
        panic!("{verb:?}: it is whole now")
    };
    // The value is what lies in its place; a flag may look like it.
    let value = whole[value_at..].as_ptr_range();
    let expected_args: Vec<Vec<u8>> =
        args.iter().map(|arg| if value.contains(&arg.as_ptr()) { vec![] } else { arg.to_vec() }).collect();
    assert_eq!(verb, Some((expected, expected_args)));
}

fn asked(stream: &[u8]) -> Vec<Asked> {
    parse_chunks([stream], &OPEN)
}

#[test]
fn lines() {
    let only = |line: &str| {
        let mut all = asked(line.as_bytes());
        assert_eq!(all.len(), 1, "{line:?}: {all:?}");
        all.remove(0)
    };
    let words = |args: &[&str]| args.iter().map(|arg| arg.as_bytes().to_vec()).collect::<Vec<_>>();
    for (line, verb, args) in [
        ("get k\r\n", Verb::GetLast, &["k"][..]),
        ("get k\n", Verb::GetLast, &["k"]),
        ("  gets   k  \r\n", Verb::GetsLast, &["k"]),
        ("set k 1 -1 2 noreply\r\nab\r\n", Verb::Set, &["k", "1", "-1", "ab", "noreply"]),
        ("set k 1 0 0\r\n\r\n", Verb::Set, &["k", "1", "0", "", ""]),
        ("cas k 0 0 1 77\r\nx\r\n", Verb::Cas, &["k", "0", "0", "x", "", "77"]),
        ("set k 0 0 1\r\nxyz", Verb::Fail, &["CLIENT_ERROR bad data chunk"]),
        ("set k 0 0 -1\r\n", Verb::Fail, &["CLIENT_ERROR bad command line format"]),
        ("set k x 0 3\r\nget\r\n", Verb::Fail, &["CLIENT_ERROR bad command line format"]),
        ("set k 0 0\r\n", Verb::Fail, &["ERROR"]),
        ("incr k 5\r\n", Verb::Incr, &["k", "5", ""]),
        ("touch k 5 noreply\r\n", Verb::Touch, &["k", "5", "noreply"]),
        ("delete k 0 noreply\r\n", Verb::Delete, &["k", "noreply"]),
        ("delete k 1\r\n", Verb::Fail, &["CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]"]),
        ("flush_all noreply\r\n", Verb::FlushAll, &["", "noreply"]),
        ("flush_all 10\r\n", Verb::FlushAll, &["10", ""]),
        ("stats items x\r\n", Verb::Stats, &["items", "x"]),
        ("mg k v t\r\n", Verb::MetaGet, &["k", "v", "t"]),
        ("mg a2V5 b k\r\n", Verb::MetaGet, &["key", "b", "k"]),
        ("mg !!! b\r\n", Verb::Fail, &["CLIENT_ERROR error decoding key"]),
        ("ms k 2 T30 Fx\r\nab\r\n", Verb::MetaSet, &["k", "ab", "T30", "Fx"]),
        ("mn\r\n", Verb::MetaNoop, &[]),
        ("\r\n", Verb::Fail, &["ERROR"]),
        ("GET k\r\n", Verb::Fail, &["ERROR"]),
        ("get\r\n", Verb::Fail, &["ERROR"]),
        ("get  \r\n", Verb::Fail, &["ERROR"]),
        ("GET / HTTP/1.1\r\n", Verb::Quit, &[]),
        ("get a\tb\rc\r\n", Verb::GetLast, &["a\tb\rc"]),
    ] {
        assert_eq!(only(line), (verb, words(args)), "{line:?}");
    }
}

#[test]
fn a_line_of_keys_may_be_as_long_as_it_likes_and_others_not() {
    let keys: String = (0..10_000).map(|n| format!(" key{n}")).collect();
    let line = format!("get{keys}\r\n");
    let whole = asked(line.as_bytes());
    assert_eq!(whole.len(), 10_000);
    assert!(whole[..9_999].iter().all(|(verb, _)| *verb == Verb::Get) && whole[9_999].0 == Verb::GetLast);
    assert_eq!(parse_chunks(line.as_bytes().chunks(1000), &OPEN), whole);
    for line in [format!("mg k {}\r\n", "x".repeat(2100)), "x".repeat(2100)] {
        let refused = parse_chunks(line.as_bytes().chunks(100), &OPEN);
        assert_eq!(refused, [(Verb::FailClose, vec![b"CLIENT_ERROR line too long".to_vec()])]);
    }
    let long = format!("get a {} b c\r\nversion\r\n", "k".repeat(251));
    let verbs: Vec<Verb> = asked(long.as_bytes()).iter().map(|(verb, _)| *verb).collect();
    assert_eq!(verbs, [Verb::Get, Verb::FailKeys, Verb::Version]);
}

#[test]
fn what_is_too_large_is_passed_over() {
    let stream =
        format!("set k 0 0 200\r\n{}\r\nadd k 0 0 200 noreply\r\n{0}\r\nms k 200\r\n{0}\r\nget k\r\n", "v".repeat(200));
    let all = parse_chunks(stream.as_bytes().chunks(7), &TIGHT);
    let large = |args: &[&str]| (Verb::TooLarge, args.iter().map(|arg| arg.as_bytes().to_vec()).collect());
    let last = (Verb::GetLast, vec![b"k".to_vec()]);
    assert_eq!(all, [large(&["k", ""]), large(&["k", "noreply", "keep"]), large(&["k", "ms"]), last]);
}

fn frame(opcode: u8, key: &[u8], extras: &[u8], value: &[u8]) -> Vec<u8> {
    let body = key.len() + extras.len() + value.len();
    let mut frame = vec![MAGIC_BYTE, opcode];
    frame.extend(u16::try_from(key.len()).unwrap().to_be_bytes());
    frame.extend([u8::try_from(extras.len()).unwrap(), 0, 0, 0]);
    frame.extend(u32::try_from(body).unwrap().to_be_bytes());
    frame.extend([7; 12]);
    frame.extend([extras, key, value].concat());
    frame
}

const MAGIC_BYTE: u8 = binary::MAGIC;

#[test]
fn frames() {
    let stream = [
        frame(0, b"k", b"", b""),
        frame(1, b"k", &[0; 8], b"value"),
        frame(0x77, b"k", b"", b"value"),
        frame(0x0a, b"", b"", b""),
        frame(0, b"", b"", b""),
        frame(0, b"never", b"", b""),
    ]
    .concat();
    let all = parse_chunks(stream.chunks(5), &OPEN);
    let verbs: Vec<Verb> = all.iter().map(|(verb, _)| *verb).collect();
    assert_eq!(
        verbs,
        [Verb::BinaryGet, Verb::BinaryStore, Verb::BinaryUnknown, Verb::BinaryOther, Verb::BinaryInvalid]
    );
    assert_eq!(all[1].1, [b"k".to_vec(), vec![0; 8], b"value".to_vec()]);
    let header = binary::Header::read(&stream);
    assert_eq!((header.opaque, header.cas), ([7; 4], 0x0707_0707_0707_0707));
    let reply = header.reply(binary::Status::NotFound, 1, 2, 3, 4);
    assert_eq!(reply, [0x81, 0, 0, 1, 2, 0, 0, 1, 0, 0, 0, 3, 7, 7, 7, 7, 0, 0, 0, 0, 0, 0, 0, 4]);
}

fn piece() -> impl Strategy<Value = Vec<u8>> {
    let word = || {
        prop_oneof![
            6 => "[a-z]{1,3}", 3 => "[0-9]{1,3}", 1 => "-?[0-9]{1,20}", 1 => Just("noreply".to_string()), 1 => "[bFTNO][0-9]{0,2}",
            1 => Just("a2V5".to_string()), 1 => "[k]{245,256}", 1 => "[\t\r]{0,2}[a-z]", 1 => Just("HTTP/1.1".to_string()),
        ]
    };
    let name = prop::sample::select(vec![
        "get",
        "gets",
        "bget",
        "gat",
        "gats",
        "set",
        "add",
        "replace",
        "append",
        "prepend",
        "cas",
        "incr",
        "decr",
        "delete",
        "touch",
        "flush_all",
        "stats",
        "version",
        "verbosity",
        "quit",
        "shutdown",
        "mg",
        "ms",
        "md",
        "ma",
        "mn",
        "me",
        "nothing",
        "",
    ]);
    let gap = || prop_oneof![9 => Just(" "), 1 => Just("   ")];
    let end = || prop_oneof![8 => Just("\r\n"), 1 => Just("\n"), 1 => Just("\r"), 1 => Just(" \r\n")];
    let line = (name, prop::collection::vec((gap(), word()), 0..8), end()).prop_map(|(name, words, end)| {
        let words: String = words.into_iter().map(|(gap, word)| format!("{gap}{word}")).collect();
        format!("{name}{words}{end}").into_bytes()
    });
    let store =
        (prop::sample::select(vec!["set", "add", "append", "cas"]), word(), 0..130usize, -1..2i32, any::<bool>())
            .prop_map(|(name, key, length, off, noreply)| {
                let announced = (i64::try_from(length).unwrap() + i64::from(off)).max(0);
                let cas = if name == "cas" { " 5" } else { "" };
                let noreply = if noreply { " noreply" } else { "" };
                format!("{name} {key} 0 0 {announced}{cas}{noreply}\r\n{}\r\n", "v".repeat(length)).into_bytes()
            });
    let meta = (word(), 0..130usize, prop::collection::vec(word(), 0..20)).prop_map(|(key, length, flags)| {
        format!("ms {key} {length} {}\r\n{}\r\n", flags.join(" "), "v".repeat(length)).into_bytes()
    });
    let binary = (0..0x28u8, 0..3usize, prop::sample::select(vec![0usize, 4, 8, 20, 3]), 0..130usize).prop_map(
        |(opcode, key, extras, value)| frame(opcode, &vec![b'k'; key], &vec![0; extras], &vec![b'v'; value % 5 * 30]),
    );
    prop_oneof![
        6 => line, 4 => store, 2 => meta, 3 => binary,
        1 => prop::collection::vec(any::<u8>(), 0..30),
        1 => Just(b"\n".to_vec()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_stream_in_any_pieces(pieces in prop::collection::vec(piece(), 0..12), cuts in prop::collection::vec(1..60usize, 1..6), tight: bool) {
        let stream = pieces.concat();
        let limits = if tight { TIGHT } else { OPEN };
        let expected = naive::parse_stream(&stream, &limits);
        prop_assert_eq!(&parse_chunks([&stream[..]], &limits), &expected, "whole: {}", String::from_utf8_lossy(&stream));
        // Of a line of many keys whose end is missing, those in a carry wait for it: the last line gets its end.
        let stream = [&stream[..], b"\n"].concat();
        let expected = naive::parse_stream(&stream, &limits);
        let (mut chunks, mut at, mut i) = (Vec::new(), 0, 0);
        while at < stream.len() {
            let end = stream.len().min(at + cuts[i % cuts.len()]);
            chunks.push(&stream[at..end]);
            (at, i) = (end, i + 1);
        }
        prop_assert_eq!(&parse_chunks(chunks, &limits), &expected, "cut: {}", String::from_utf8_lossy(&stream));
    }
}
