//! Payloads of RESTORE, and the strings in them: nothing crashes or outgrows its limit, a string is the same however its packed bytes are cut, and
//! what is written is read back. The first byte cuts.
#![no_main]
use dolmen::persist::rdb::lzf::Unpacker;
use dolmen::persist::rdb::payload;
use dolmen::persist::rdb::string::{self, Head, Text};
use libfuzzer_sys::fuzz_target;

const MAX_BYTES: u64 = 1 << 20;

fn bytes(text: &Text<'_>) -> Vec<u8> {
    match text {
        Text::Int(number) => number.to_string().into_bytes(),
        Text::Plain(bytes) => bytes.to_vec(),
        Text::Unpacked(bytes) => bytes.clone(),
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((&cut, input)) = input.split_first() else { return };
    let mut sealed = input.to_vec();
    payload::seal(&mut sealed);
    assert_eq!(payload::open(&sealed), Ok(input));
    let _ = payload::open(input);

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
