//! Payloads of RESTORE, and the strings in them: nothing crashes or outgrows its limit, a string is the same however its packed bytes are cut, and
//! what is written is read back. Collections: no claim crashes them or keeps them busy, they are the same however the bytes are cut, no name
//! comes twice, and what was read is written and read again. The first byte cuts.
#![no_main]
use dolmen::base::entry::{Entries, Entry};
use dolmen::persist::rdb::lzf::Unpacker;
use dolmen::persist::rdb::string::{self, Head, Text};
use dolmen::persist::rdb::{Decoder, Encoder, Form, Kind, Malformed, Progress, payload};
use libfuzzer_sys::fuzz_target;
use std::collections::HashSet;

const MAX_BYTES: u64 = 1 << 20;

fn bytes(text: &Text<'_>) -> Vec<u8> {
    match text {
        Text::Int(number) => number.to_string().into_bytes(),
        Text::Plain(bytes) => bytes.to_vec(),
        Text::Unpacked(bytes) => bytes.clone(),
    }
}

fn collection(value: &[u8], piece_bytes: usize, budget_bytes: usize) -> Result<(Kind, Vec<u8>), Malformed> {
    let mut decoder = Decoder::new(*value.first().ok_or(Malformed)?, value.len() as u64, MAX_BYTES, 42)?;
    let (mut run, mut pieces, mut steps) = (Vec::new(), value.chunks(piece_bytes), 0);
    loop {
        match decoder.next(&mut run, budget_bytes)? {
            Progress::Hungry => decoder.feed(pieces.next().expect("it knows its end")),
            Progress::Full => {}
            Progress::Done => return Ok((decoder.kind(), run)),
        }
        steps += 1;
        assert!(steps < 1000 + 200 * value.len(), "it comes to an end");
    }
}

fn check_collection(value: &[u8], cut: usize) {
    let read = collection(value, usize::MAX, usize::MAX);
    assert_eq!(collection(value, cut, 1 + cut % 50), read);
    let Ok((kind, run)) = read else { return };
    let entries: Vec<Entry<'_>> = Entries::new(&run).collect();
    let (form, of) = match kind {
        Kind::List => (Form::List, 1),
        Kind::Set => (Form::Set, 1),
        Kind::Zset => (Form::Zset, 2),
        Kind::Hash => (Form::HashWithDeadlines { first_ms: 1 }, 3),
    };
    assert!(!entries.is_empty() && entries.len() % of == 0);
    if kind != Kind::List {
        let names: HashSet<Vec<u8>> = entries.iter().step_by(of).map(|entry| entry.to_vec()).collect();
        assert_eq!(names.len(), entries.len() / of);
    }
    let mut written = Vec::new();
    Encoder::new(form, (entries.len() / of) as u64, &mut written).put(&run, &mut written);
    assert_eq!(collection(&written, cut, 100), Ok((kind, run)));
}

fuzz_target!(|input: &[u8]| {
    let Some((&cut, input)) = input.split_first() else { return };
    let mut sealed = input.to_vec();
    payload::seal(&mut sealed);
    assert_eq!(payload::open(&sealed), Ok(input));
    let _ = payload::open(input);

    check_collection(input, usize::from(cut) + 1);
    let read = string::read(&mut &input[..], MAX_BYTES);
    let mut rest = input;
    if let Ok(Head::Packed { packed_bytes, bytes: said }) = string::read_head(&mut rest)
        && let Some(packed) = usize::try_from(packed_bytes).ok().and_then(|n| rest.get(..n))
        && said <= MAX_BYTES
    {
        let (mut unpacker, mut out) = (Unpacker::new(said), Vec::new());
        let fed = packed.chunks(usize::from(cut) + 1).try_for_each(|piece| {
            unpacker.feed(piece)?;
            unpacker.take(|bytes| out.extend_from_slice(bytes));
            Ok(())
        });
        let whole = fed.and_then(|()| unpacker.finish()).map(|()| out);
        assert_eq!(whole, read.as_ref().map(bytes).map_err(|e| *e));
    }
    if let Ok(text) = &read {
        assert!(bytes(text).len() as u64 <= MAX_BYTES);
    }
    let mut written = Vec::new();
    string::write(input, &mut written);
    assert!(string::read(&mut &written[..], MAX_BYTES).is_ok_and(|text| bytes(&text) == input));
});
