//! RDB files: nothing crashes, hangs or takes memory for what is only claimed, and a file is the same however it is cut. The first byte cuts; with
//! its lowest bit set the checksum is made right.
#![no_main]
use dolmen::persist::rdb::file::{Content, Error, Event, Part, Reader};
use dolmen::persist::rdb::payload::Checksum;
use libfuzzer_sys::fuzz_target;

const MAX_BYTES: u64 = 1 << 20;

fn read(file: &[u8], cut: usize) -> Result<(u64, u64), Error> {
    let mut reader = Reader::new(MAX_BYTES, 42);
    let (mut rest, mut checksum, mut values, mut steps, mut open) = (file, Checksum::default(), 0, 0, false);
    loop {
        let (content, part) = match reader.next()? {
            Event::Hungry => {
                let room = reader.room();
                let now = room.len().min(cut).min(rest.len());
                room[..now].copy_from_slice(&rest[..now]);
                reader.filled(now);
                rest = &rest[now..];
                steps += 1;
                assert!(steps < 1000 + 20 * file.len(), "it comes to an end");
                continue;
            }
            Event::Value(head, content, part) => {
                assert!(!open);
                checksum.update(head.key);
                values += 1;
                (content, part)
            }
            Event::More(content, part) => {
                assert!(open);
                (content, part)
            }
            Event::Aux { name, value } => {
                assert!(name.len() + value.len() <= 100 * file.len());
                continue;
            }
            Event::End => return Ok((values, checksum.value())),
            Event::Database(_) | Event::Sizes { .. } | Event::Empty(_) | Event::Skipped(_) => continue,
        };
        open = part == Part::Unfinished;
        match content {
            Content::Int(number) => checksum.update(&number.to_le_bytes()),
            Content::Bytes(bytes) | Content::Run(_, bytes) => checksum.update(bytes),
        }
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((&cut, input)) = input.split_first() else { return };
    let mut file = input.to_vec();
    if cut & 1 != 0 {
        file.push(255);
        let mut checksum = Checksum::default();
        checksum.update(&file);
        file.extend_from_slice(&checksum.value().to_le_bytes());
    }
    assert_eq!(read(&file, usize::MAX), read(&file, usize::from(cut) + 1));
});
