//! Any stream in any pieces: windows and carry against the naive parser. The first byte chooses the limits, the next four the pieces.
#![no_main]
use bumpalo::Bump;
use bumpalo::collections::Vec as ArenaVec;
use dolmen::proto::carry::Carry;
use dolmen::proto::naive::{Stream, parse_stream};
use dolmen::proto::resp::{Limits, Opening, Parsed, parse, parse_alike};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&[choice, ref pieces @ ..], stream)) = input.split_first_chunk::<5>() else { return };
    let limits = Limits { max_bulk_bytes: 9_999 + u64::from(choice >> 1) * 100, authenticated: choice & 1 == 0 };
    let (mut parsed, mut carry, mut before, mut piece) = (Stream::default(), Carry::new(), 0, 0);
    'stream: while before < stream.len() {
        let bytes = usize::from(pieces[piece % 4]).max(1).min(stream.len() - before);
        piece += 1;
        let window = stream[before..before + bytes].to_vec();
        let arena = Bump::new();
        let (mut at, mut opening) = (0, Opening::default());
        while at < window.len() {
            let mut args = ArenaVec::new_in(&arena);
            let outcome = if carry.is_empty() {
                // As a session does: a request that begins as the one before takes the short way.
                let alike = parse_alike(&window, at, &opening, &limits, &mut args);
                alike.unwrap_or_else(|| parse(&window, at, &limits, &mut args))
            } else {
                Ok(Parsed::Incomplete)
            };
            if let (Ok(Parsed::Request { .. }), Some(name)) = (&outcome, args.first()) {
                opening = Opening::of(&window, at, name, args.len());
            }
            let fed = match outcome {
                Ok(Parsed::Request { end }) => Ok((end - at, true)),
                Ok(Parsed::Incomplete) => carry.feed(&window[at..], &limits),
                Err(error) => Err(error),
            };
            match fed {
                Ok((consumed, complete)) => {
                    at += consumed;
                    if complete {
                        carry.args(&mut args);
                        parsed.requests.push((args.iter().map(|arg| arg.to_vec()).collect(), before + at));
                        drop(args);
                        carry.clear();
                    } else {
                        assert_eq!(at, window.len());
                    }
                }
                Err(error) => {
                    parsed.error = Some(error);
                    break 'stream;
                }
            }
        }
        before += bytes;
    }
    assert_eq!(parsed, parse_stream(stream, &limits));
});
