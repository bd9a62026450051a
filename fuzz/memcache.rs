//! What the two targets of memcached's protocols do with an input.
use bumpalo::Bump;
use bumpalo::collections::Vec as ArenaVec;
use dolmen::proto::memcache::carry::Carry;
use dolmen::proto::memcache::{Limits, Mode, Parsed, Verb, naive, parse};

/// The stream is what follows five bytes, behind `head`.
pub fn check(input: &[u8], head: &[u8]) {
    let Some((&[choice, ref pieces @ ..], stream)) = input.split_first_chunk::<5>() else { return };
    let stream = [head, stream].concat();
    let limits = Limits { item_bytes_max: 70 + u64::from(choice >> 1) * 20, authenticated: choice & 1 == 0 };
    let (mut asked, mut mode, mut carry, mut before, mut piece) = (Vec::new(), Mode::Request, None::<Carry>, 0, 0);
    'stream: while before < stream.len() {
        let bytes = usize::from(pieces[piece % 4]).max(1).min(stream.len() - before);
        piece += 1;
        let chunk = &stream[before..before + bytes];
        before += bytes;
        let mut at = 0;
        while at < chunk.len() {
            let window = match carry.take() {
                None => {
                    let rest = chunk[at..].to_vec();
                    at = chunk.len();
                    rest
                }
                Some(mut kept) => {
                    let (taken, whole) = kept.feed(&chunk[at..]);
                    at += taken;
                    if !whole {
                        carry = Some(kept);
                        continue;
                    }
                    mode = kept.mode;
                    kept.take()
                }
            };
            let (arena, mut pos) = (Bump::new(), 0);
            while pos < window.len() {
                let mut args = ArenaVec::new_in(&arena);
                match parse(&window, pos, &mut mode, &limits, &mut args) {
                    Parsed::Request { verb, end } => {
                        pos = end;
                        asked.push((verb, args[1..].iter().map(|arg| arg.to_vec()).collect()));
                        if [Verb::FailClose, Verb::BinaryInvalid, Verb::BinaryUnframed].contains(&verb) {
                            break 'stream;
                        }
                    }
                    Parsed::Nothing { end } => pos = end,
                    Parsed::Incomplete(wanted) => {
                        carry = Some(Carry::new(mode, &window[pos..], wanted));
                        pos = window.len();
                    }
                }
            }
        }
    }
    let wanted = naive::parse_stream(&stream, &limits);
    if carry.is_some() {
        // Of a line of many keys whose end is missing, those in a carry wait for it.
        assert!(wanted.starts_with(&asked), "{asked:?} is not how {wanted:?} begins");
    } else {
        assert_eq!(asked, wanted);
    }
}
