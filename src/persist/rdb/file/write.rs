//! Writes a file, into memory that the caller empties.

use super::{Head, part};
use crate::persist::rdb::lzf::Packer;
use crate::persist::rdb::payload::Checksum;
use crate::persist::rdb::{Encoder, Form, VERSION_WRITTEN, string, value_type};

/// A file being written. What comes of it is taken with `take`, from time to time.
pub struct Writer {
    out: Vec<u8>,
    /// Of what was taken; `None`: none is wanted.
    checksum: Option<Checksum>,
    /// `None`: strings are not packed.
    packer: Option<Packer>,
    database: Option<u64>,
}

impl Writer {
    /// Begins a file.
    #[must_use]
    pub fn new(with_checksum: bool, packs: bool) -> Writer {
        let mut out = Vec::new();
        out.extend_from_slice(format!("REDIS{VERSION_WRITTEN:04}").as_bytes());
        let checksum = with_checksum.then(Checksum::default);
        Writer { out, checksum, packer: packs.then(Packer::default), database: None }
    }

    /// A fact about the file.
    pub fn aux(&mut self, name: &[u8], value: &[u8]) {
        self.out.push(part::AUX);
        string::write(name, &mut self.out);
        string::write(value, &mut self.out);
    }

    /// What follows is of database `number`.
    pub fn database(&mut self, number: u64) {
        if self.database != Some(number) {
            self.database = Some(number);
            self.out.push(part::DATABASE);
            string::write_length(number, &mut self.out);
        }
    }

    /// So many keys will follow of the database.
    pub fn sizes(&mut self, keys: u64, deadlines: u64) {
        self.out.push(part::SIZES);
        string::write_length(keys, &mut self.out);
        string::write_length(deadlines, &mut self.out);
    }

    fn head(&mut self, head: Head<'_>) {
        if let Some(deadline_ms) = head.deadline_ms {
            self.out.push(part::DEADLINE_MS);
            self.out.extend_from_slice(&deadline_ms.to_le_bytes());
        }
        if let Some(idle_seconds) = head.idle_seconds {
            self.out.push(part::IDLE);
            string::write_length(idle_seconds, &mut self.out);
        }
    }

    fn text(&mut self, text: &[u8]) {
        match &mut self.packer {
            Some(packer) => string::write_packed(text, packer, &mut self.out),
            None => string::write(text, &mut self.out),
        }
    }

    /// A key with a string.
    pub fn string(&mut self, head: Head<'_>, value: &[u8]) {
        self.head(head);
        self.out.push(value_type::STRING);
        self.text(head.key);
        self.text(value);
    }

    /// A key with the text of a number.
    pub fn number(&mut self, head: Head<'_>, value: i64) {
        self.head(head);
        self.out.push(value_type::STRING);
        self.text(head.key);
        string::write_int(value, &mut self.out);
    }

    /// A key with a long string of so many bytes, which come with [`Writer::piece`]. It is not packed.
    pub fn long_string(&mut self, head: Head<'_>, bytes: u64) {
        self.head(head);
        self.out.push(value_type::STRING);
        self.text(head.key);
        string::write_length(bytes, &mut self.out);
    }

    /// A piece of a long string.
    pub fn piece(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// A key with a collection of `count` elements, at least one, which come with [`Writer::elements`].
    #[must_use]
    pub fn collection(&mut self, head: Head<'_>, form: Form, count: u64) -> Encoder {
        self.head(head);
        // The type comes before the key, the rest of what the encoder begins with behind it.
        let mut begun = Vec::new();
        let encoder = Encoder::new(form, count, &mut begun);
        self.out.push(begun[0]);
        self.text(head.key);
        self.out.extend_from_slice(&begun[1..]);
        encoder
    }

    /// Elements of the collection of an encoder.
    pub fn elements(&mut self, encoder: &mut Encoder, run: &[u8]) {
        match &mut self.packer {
            Some(packer) => encoder.put_packed(run, packer, &mut self.out),
            None => encoder.put(run, &mut self.out),
        }
    }

    /// The end of the file.
    pub fn end(&mut self) {
        self.out.push(part::END);
        let checksum = self.checksum.take().map_or(0, |mut checksum| {
            checksum.update(&self.out);
            checksum.value()
        });
        self.out.extend_from_slice(&checksum.to_le_bytes());
    }

    /// Bytes that wait to be taken.
    #[must_use]
    pub fn len(&self) -> usize {
        self.out.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Takes what was written since the last call.
    pub fn take<R>(&mut self, with: impl FnOnce(&[u8]) -> R) -> R {
        if let Some(checksum) = &mut self.checksum {
            checksum.update(&self.out);
        }
        let result = with(&self.out);
        self.out.clear();
        result
    }
}
