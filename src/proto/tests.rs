//! Requests: known cases, and any stream cut anywhere against the naive parser.
use super::carry::{Carry, PendingBulk};
use super::naive::{self, Stream};
use super::resp::{LINE_MAX_BYTES, Limits, Opening, Parsed, ProtocolError, parse, parse_alike, parse_run};
use bumpalo::Bump;
use bumpalo::collections::Vec as ArenaVec;
use proptest::prelude::*;

const OPEN: Limits = Limits { max_bulk_bytes: 512 << 20, authenticated: true };
/// Small enough for tests to run into.
const TIGHT: Limits = Limits { max_bulk_bytes: 30_000, authenticated: false };

fn owned(args: &[&[u8]]) -> Vec<Vec<u8>> {
    args.iter().map(|arg| arg.to_vec()).collect()
}

/// As a session does it, the stream arriving in `chunks`: whole requests from the window, the cut one through the carry.
fn parse_chunks<'c>(chunks: impl IntoIterator<Item = &'c [u8]>, limits: &Limits) -> Stream {
    let (mut stream, mut carry, mut before) = (Stream::default(), Carry::new(), 0);
    for chunk in chunks {
        let mut at = 0;
        // Copied: valgrind and sanitizers see reads beyond the end.
        let window = chunk.to_vec().into_boxed_slice();
        let arena = Bump::new();
        while at < window.len() {
            let mut args = ArenaVec::new_in(&arena);
            args.push(&b"canary"[..]);
            let done = if carry.is_empty() {
                parse(&window, at, limits, &mut args).map(|parsed| match parsed {
                    Parsed::Request { end } => {
                        at = end;
                        true
                    }
                    Parsed::Incomplete => false,
                })
            } else {
                Ok(false)
            };
            let done = match done {
                Ok(false) => {
                    assert_eq!(args.as_slice(), [b"canary"]);
                    carry.feed(&window[at..], limits).map(|(consumed, complete)| {
                        assert!(complete || at + consumed == window.len());
                        at += consumed;
                        if complete {
                            carry.args(&mut args);
                        }
                        complete
                    })
                }
                done => done,
            };
            match done {
                Ok(true) => {
                    stream.requests.push((owned(&args[1..]), before + at));
                    drop(args);
                    carry.clear();
                }
                Ok(false) => {}
                Err(error) => {
                    stream.error = Some(error);
                    return stream;
                }
            }
        }
        before += chunk.len();
    }
    stream
}

fn assert_like_naive(stream: &[u8], cuts: &[usize], limits: &Limits) {
    let mut edges: Vec<usize> = cuts.iter().map(|cut| cut % (stream.len() + 1)).chain([0, stream.len()]).collect();
    edges.sort_unstable();
    let chunks = edges.windows(2).map(|edge| &stream[edge[0]..edge[1]]);
    assert_eq!(
        parse_chunks(chunks, limits),
        naive::parse_stream(stream, limits),
        "{} cut at {edges:?}",
        stream.escape_ascii()
    );
}

/// Whole, cut once at every place, and byte by byte.
fn assert_like_naive_everywhere(stream: &[u8], limits: &Limits) -> Stream {
    for cut in 0..=stream.len() {
        assert_like_naive(stream, &[cut], limits);
    }
    assert_eq!(parse_chunks(stream.chunks(1), limits), naive::parse_stream(stream, limits));
    naive::parse_stream(stream, limits)
}

fn command(args: &[&[u8]]) -> Vec<u8> {
    let mut wire = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        wire.extend(format!("${}\r\n", arg.len()).bytes());
        wire.extend_from_slice(arg);
        wire.extend(b"\r\n");
    }
    wire
}

#[test]
fn good_streams() {
    type Requests<'a> = &'a [&'a [&'a [u8]]];
    let cases: [(&[u8], Requests); 14] = [
        (b"", &[]),
        (b"PING\r\n", &[&[b"PING"]]),
        (b"PING\n", &[&[b"PING"]]),
        (b" get  k \r\n", &[&[b"get", b"k"]]),
        (b"set k \"a\\x00\\n b\" 'it\\'s'\r\n", &[&[b"set", b"k", b"a\0\n b", b"it's"]]),
        (b"\r\n", &[&[]]),
        (b" \t \n", &[&[]]),
        (b"\n\n", &[&[], &[]]),
        (b"*0\r\n*-1\r\n*-5\r\n*1\r\n$4\r\nPING\r\n", &[&[], &[], &[], &[b"PING"]]),
        // Row 1 of the collected bug reports: an empty line between two requests.
        (
            b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n\r\n*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\n",
            &[&[b"SET", b"k", b"v"], &[], &[b"ECHO", b"hi"]],
        ),
        (b"*2\r\n$0\r\n\r\n$4\r\n\r\n\r\n\r\n", &[&[b"", b"\r\n\r\n"]]),
        (b"*1\r\n$10\r\n0123456789\r\n", &[&[b"0123456789"]]),
        (b"*1\r\n$16\r\n0123456789abcdef\r\nPING\r\n", &[&[b"0123456789abcdef"], &[b"PING"]]),
        (b"a\0b \xff\n", &[&[b"a\0b", b"\xff"]]),
    ];
    for (stream, requests) in cases {
        let parsed = assert_like_naive_everywhere(stream, &OPEN);
        assert_eq!(
            parsed.requests.iter().map(|r| r.0.clone()).collect::<Vec<_>>(),
            requests.iter().map(|r| owned(r)).collect::<Vec<_>>()
        );
        assert_eq!(parsed.error, None);
        assert_eq!(parsed.requests.last().map_or(0, |r| r.1), stream.len());
    }
}

#[test]
fn bad_streams() {
    use ProtocolError::*;
    let cases: [(&[u8], ProtocolError); 38] = [
        (b"*a\r\n", MultibulkLength),
        (b"*\r\n", MultibulkLength),
        (b"*01\r\n", MultibulkLength),
        (b"*+1\r\n", MultibulkLength),
        (b"*-0\r\n", MultibulkLength),
        (b"*1 \r\n", MultibulkLength),
        (b"*1\rx", MultibulkLength),
        (b"*1\r\r\n", MultibulkLength),
        (b"*:\r\n$4\r\nPING\r\n", MultibulkLength),
        (b"*1:\r\n$4\r\nPING\r\n", MultibulkLength),
        (b"*2147483648\r\n", MultibulkLength),
        (b"*99999999999999999999\r\n", MultibulkLength),
        (b"*1\n$4\r\nPING\r\n", MultibulkLength),
        // Row 3: a negative length, and a nested array.
        (b"*2\r\n$4\r\nECHO\r\n$-1\r\n", BulkLength),
        (b"*2\r\n*1\r\n$4\r\nPING\r\n", ExpectedDollar(b'*')),
        (b"*1\r\n$\r\n", BulkLength),
        (b"*1\r\n$04\r\nPING\r\n", BulkLength),
        (b"*1\r\n$+4\r\nPING\r\n", BulkLength),
        (b"*1\r\n$-0\r\n\r\n", BulkLength),
        (b"*1\r\n$4 \r\nPING\r\n", BulkLength),
        (b"*1\r\n$:\r\nPING\r\n", BulkLength),
        (b"*1\r\n$1:\r\n0123456789abcdef\r\n", BulkLength),
        (b"*1\r\n$:1\r\n0123456789abcdef\r\n", BulkLength),
        (b"*1\r\n$/\r\nPING\r\n", BulkLength),
        (b"*1\r\n$4\n\nPING\r\n", BulkLength),
        (b"*1\r\n$4\rxPING\r\n", BulkLength),
        (b"*1\r\n$536870913\r\n", BulkLength),
        (b"*1\r\n$9223372036854775808\r\n", BulkLength),
        (b"*1\r\n$4\r\nPINGxx", BulkLength),
        (b"*1\r\n$4\r\nPING\r\r", BulkLength),
        (b"*1\r\n$4\r\nPING\n\n", BulkLength),
        (b"*1\r\n$3\r\nPING\r\n", BulkLength),
        (b"*1\r\n\r\n", ExpectedDollar(b'\r')),
        (b"*1\r\n\xff1\r\n", ExpectedDollar(b'\xff')),
        (b"*1\r\nPING\r\n", ExpectedDollar(b'P')),
        (b"get \"a\r\n", UnbalancedQuotes),
        (b"get 'a'b\r\n", UnbalancedQuotes),
        (b"PING\r\n*1\r\n$4\r\nPING\r\n*1\r\n$-1\r\n", BulkLength),
    ];
    for (stream, error) in cases {
        assert_eq!(assert_like_naive_everywhere(stream, &OPEN).error, Some(error), "{}", stream.escape_ascii());
    }
}

/// Nothing is decided before the deciding byte is there.
#[test]
fn cut_streams_are_incomplete() {
    for stream in [
        &b"*"[..],
        b"*1",
        b"*1\r",
        b"*a",
        b"*1\r\n$",
        b"*1\r\n$4\r",
        b"*1\r\nx",
        b"*1\r\n$4\r\nPING",
        b"*1\r\n$4\r\nPINGx",
        b"PING\r",
    ] {
        let parsed = assert_like_naive_everywhere(stream, &OPEN);
        assert_eq!((parsed.requests.len(), parsed.error), (0, None), "{}", stream.escape_ascii());
    }
}

#[test]
fn limits_before_auth() {
    let ten = command(&[&b"x"[..]; 10]);
    assert_eq!(assert_like_naive_everywhere(&ten, &TIGHT).requests.len(), 1);
    let eleven = command(&[&b"x"[..]; 11]);
    assert_eq!(assert_like_naive_everywhere(&eleven, &TIGHT).error, Some(ProtocolError::UnauthenticatedCount));
    assert_eq!(assert_like_naive_everywhere(&eleven, &OPEN).requests.len(), 1);
    for (bytes, error) in
        [(16384, None), (16385, Some(ProtocolError::UnauthenticatedBulk)), (30001, Some(ProtocolError::BulkLength))]
    {
        let wire = command(&[&vec![b'x'; bytes]]);
        for cuts in [&[][..], &[6], &[8], &[12], &[500, 16000]] {
            assert_like_naive(&wire, cuts, &TIGHT);
        }
        assert_eq!(naive::parse_stream(&wire, &TIGHT).error, error);
    }
}

#[test]
fn lines_that_are_too_long() {
    use ProtocolError::*;
    for (head, error) in
        [("", TooBigInline), ("*", TooBigCount), ("*1\r\n$", TooBigBulkHeader), ("*1\r\nx", TooBigBulkHeader)]
    {
        for (extra, end) in
            [(0, ""), (0, "\r\n"), (0, "\n"), (1, ""), (1, "\n"), (1, "\r\n"), (2, "\r\n"), (100_000, "\r\n")]
        {
            let line = head.rsplit('\n').next().unwrap().len();
            let mut wire = head.as_bytes().to_vec();
            wire.resize(head.len() + LINE_MAX_BYTES - line + extra, b'1');
            wire.extend(end.bytes());
            for cuts in [
                &[][..],
                &[1],
                &[head.len()],
                &[head.len() + LINE_MAX_BYTES - line],
                &[wire.len() - 1],
                &[9, 30_000, 65_536],
            ] {
                assert_like_naive(&wire, cuts, &OPEN);
            }
            if extra > 1 {
                assert_eq!(naive::parse_stream(&wire, &OPEN).error, Some(error));
            }
        }
    }
}

#[test]
fn claims_allocate_nothing() {
    let arena = Bump::new();
    let mut args = ArenaVec::new_in(&arena);
    let wire = b"*2147483647\r\n$536870912\r\nabc";
    assert_eq!(parse(wire, 0, &OPEN, &mut args), Ok(Parsed::Incomplete));
    assert!(arena.allocated_bytes() < 1024);
    let mut carry = Carry::new();
    assert_eq!(carry.feed(wire, &OPEN), Ok((wire.len(), false)));
    assert!(carry.bytes() < 1024, "{}", carry.bytes());
}

/// The memory of a large value that arrives piece by piece: at most twice what has arrived, and no slack in the end.
#[test]
fn a_large_bulk_ends_without_slack() {
    let bytes = 10_000_000;
    let mut carry = Carry::new();
    carry.feed(format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${bytes}\r\n").as_bytes(), &OPEN).unwrap();
    let piece = [b'x'; 16384];
    let mut have = 0;
    while have < bytes {
        let take = piece.len().min(bytes - have);
        assert_eq!(carry.feed(&piece[..take], &OPEN), Ok((take, false)));
        have += take;
        assert!(carry.bytes() <= 2 * have + 1024, "{have} {}", carry.bytes());
    }
    assert_eq!(carry.feed(b"\r\n", &OPEN), Ok((2, true)));
    assert!(carry.bytes() < bytes + 1024);
    assert_eq!(carry.arg(2).map(<[u8]>::len), Some(bytes));
    carry.clear();
    assert_eq!(carry.bytes(), 0);
    assert_eq!(size_of::<Carry>(), 8);
}

#[test]
fn finished_arguments_can_be_read() {
    let mut carry = Carry::new();
    assert_eq!((carry.arg(0), carry.arg_counts(), carry.pending_bulk()), (None, (0, 0), None));
    carry.feed(b"*4\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nab", &OPEN).unwrap();
    assert_eq!((carry.arg(0), carry.arg(1), carry.arg(2)), (Some(&b"SET"[..]), Some(&b"k"[..]), None));
    assert_eq!(carry.arg_counts(), (2, 4));
    assert_eq!(carry.pending_bulk(), Some(PendingBulk { arg_index: 2, bulk_bytes: 5, body_have: 2 }));
    carry.feed(b"cde", &OPEN).unwrap();
    assert_eq!(carry.pending_bulk(), None);
}

#[test]
fn a_diverted_body_passes_by() {
    for have in 0..5 {
        for cut in 0..=4 {
            let mut carry = Carry::new();
            assert_eq!(carry.divert(), b"");
            let body = &b"hello"[..];
            carry.feed(b"*4\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\n", &OPEN).unwrap();
            carry.feed(&body[..have], &OPEN).unwrap();
            assert_eq!(carry.divert(), body[..have]);
            assert_eq!((carry.pending_bulk(), carry.divert()), (None, vec![]));
            assert_eq!(carry.feed(b"not now", &OPEN), Ok((0, false)));
            carry.diverted_done();
            let rest = b"\r\n$2\r\nNX\r\nnext";
            assert_eq!(carry.feed(&rest[..cut], &OPEN), Ok((cut, false)));
            assert_eq!(carry.feed(&rest[cut..], &OPEN), Ok((10 - cut, true)));
            let arena = Bump::new();
            let mut args = ArenaVec::new_in(&arena);
            carry.args(&mut args);
            assert_eq!(args.as_slice(), [&b"SET"[..], b"k", b"", b"NX"]);
        }
    }
    let mut carry = Carry::new();
    carry.feed(b"*1\r\n$5\r\n", &OPEN).unwrap();
    carry.divert();
    carry.diverted_done();
    assert_eq!(carry.feed(b"xx", &OPEN), Err(ProtocolError::BulkLength));
}

#[test]
fn error_texts() {
    use ProtocolError::*;
    let texts = [
        (MultibulkLength, "invalid multibulk length"),
        (BulkLength, "invalid bulk length"),
        (ExpectedDollar(b'x'), "expected '$', got 'x'"),
        (TooBigInline, "too big inline request"),
        (TooBigCount, "too big mbulk count string"),
        (TooBigBulkHeader, "too big bulk count string"),
        (UnbalancedQuotes, "unbalanced quotes in request"),
        (UnauthenticatedCount, "unauthenticated multibulk length"),
        (UnauthenticatedBulk, "unauthenticated bulk length"),
    ];
    for (error, text) in texts {
        assert_eq!(error.text(), format!("ERR Protocol error: {text}").into_bytes());
    }
}

/// One request of a stream: multibulk with arguments of all lengths' classes, or a line.
fn requests() -> impl Strategy<Value = Vec<u8>> {
    let length = prop_oneof![6 => 0usize..20, 2 => 90usize..120, 1 => 995usize..1005, 1 => Just(16_384usize), 1 => Just(16_385usize)];
    let arg = (length, any::<u8>()).prop_map(|(length, seed)| {
        let mut byte = seed;
        std::iter::repeat_with(|| {
            byte = byte.wrapping_mul(29).wrapping_add(17);
            // Line ends inside bodies are the interesting bytes.
            if byte % 11 == 0 { b"\r\n*$"[usize::from(byte >> 6)] } else { byte }
        })
        .take(length)
        .collect::<Vec<u8>>()
    });
    let multibulk = proptest::collection::vec(arg, 0..13)
        .prop_map(|args| command(&args.iter().map(Vec::as_slice).collect::<Vec<_>>()));
    let inline = "[ a-c\"'\\\\x0\t]{0,12}\r?\n".prop_map(String::into_bytes);
    let odd = prop_oneof![Just(b"*-1\r\n".to_vec()), Just(b"\r\n".to_vec()), Just(b"*1\r\n$-1\r\n".to_vec())];
    prop_oneof![8 => multibulk, 3 => inline, 1 => odd]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_stream_in_any_pieces(
        requests in proptest::collection::vec(requests(), 1..8),
        cuts in proptest::collection::vec(any::<usize>(), 0..12),
        authenticated: bool,
    ) {
        assert_like_naive(&requests.concat(), &cuts, &Limits { authenticated, ..TIGHT });
    }

    #[test]
    fn any_damage(
        requests in proptest::collection::vec(requests(), 1..4),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), prop_oneof![any::<u8>(), prop::sample::select(&b"*$\r\n0189-+ "[..])]), 1..4),
        cuts in proptest::collection::vec(any::<usize>(), 0..6),
        authenticated: bool,
    ) {
        let mut stream = requests.concat();
        for (at, byte) in damage {
            // Half of them near the front, where the headers are.
            let span = if byte % 2 == 0 { stream.len() } else { stream.len().min(24) };
            stream[at.index(span)] = byte;
        }
        assert_like_naive(&stream, &cuts, &Limits { authenticated, ..TIGHT });
    }

    #[test]
    fn any_bytes_of_the_alphabet(stream in "[*$0-3\r\n a\"'-]{0,40}", cuts in proptest::collection::vec(any::<usize>(), 0..6)) {
        assert_like_naive(stream.as_bytes(), &cuts, &TIGHT);
    }

}

proptest! {
    // Slow: a call a byte.
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Requests alike, mostly of the same lengths, perhaps with a damaged byte: a run of them is what they are one by one, and no shorter.
    #[test]
    fn a_run_is_what_its_requests_are(
        lengths in proptest::collection::vec((0usize..3, 0usize..40), 1..5),
        exceptions in proptest::collection::vec((any::<prop::sample::Index>(), 0usize..4, 0usize..130), 0..4),
        name in prop_oneof![Just("GET"), Just("SET"), Just("HSETNX"), Just("X")],
        requests in 2usize..40,
        damage in proptest::option::weighted(0.4, (any::<prop::sample::Index>(), prop::sample::select(b"$*0129\r\nx".to_vec()))),
        room in 0usize..40,
    ) {
        let usual = [8, 16, 100];
        let mut all = vec![lengths.iter().map(|(kind, more)| usual[*kind] + more % 3).collect::<Vec<_>>(); requests];
        for (at, argument, length) in exceptions {
            let request = at.index(requests);
            let argument = argument % all[request].len();
            all[request][argument] = length;
        }
        let mut stream = Vec::new();
        for (n, lengths) in all.iter().enumerate() {
            let filler = [b'a' + u8::try_from(n % 26).unwrap(); 130];
            let args: Vec<&[u8]> =
                std::iter::once(name.as_bytes()).chain(lengths.iter().map(|length| &filler[..*length])).collect();
            stream.extend(command(&args));
        }
        if let Some((at, byte)) = damage {
            let at = at.index(stream.len());
            stream[at] = byte;
        }
        let window = stream.into_boxed_slice();
        let arena = Bump::new();
        let mut args = ArenaVec::new_in(&arena);
        let Ok(Parsed::Request { end: first }) = parse(&window, 0, &OPEN, &mut args) else { return Ok(()) };
        prop_assume!(!args.is_empty());
        let opening = Opening::of(&window, 0, args[0], args.len());
        let mut ends = vec![0; room];
        let count = args.len();
        let ran = if first < window.len() { parse_run(&window, first, &opening, &OPEN, &mut args, &mut ends) } else { 0 };
        let (mut at, mut expected) = (first, ArenaVec::new_in(&arena));
        parse(&window, 0, &OPEN, &mut expected).unwrap();
        for end in &ends[..ran] {
            let from = expected.len();
            let parsed = parse(&window, at, &OPEN, &mut expected);
            prop_assert_eq!(parsed, Ok(Parsed::Request { end: *end }));
            prop_assert_eq!(expected.len() - from, count);
            prop_assert_eq!(expected[from], args[0]);
            at = *end;
        }
        prop_assert_eq!(owned(&args)[..(ran + 1) * count].to_vec(), owned(&expected));
        if ran < room && first < window.len() {
            let next = parse_alike(&window, at, &opening, &OPEN, &mut expected);
            prop_assert!(!matches!(next, Some(Ok(Parsed::Request { .. }))), "{ran} of {requests}: {next:?}");
        }
    }

    #[test]
    fn byte_by_byte(requests in proptest::collection::vec(requests(), 1..4)) {
        let stream = requests.concat();
        prop_assert_eq!(parse_chunks(stream.chunks(1), &OPEN), naive::parse_stream(&stream, &OPEN));
    }
}
