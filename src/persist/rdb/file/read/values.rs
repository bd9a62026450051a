//! The values of keys.

use super::super::contents::{Contents, module_name, packed};
use super::super::{Error, Part};
use super::{Found, Next, PART_BYTES, Reader};
use crate::persist::rdb::whole::{decode_packed, packed_of};
use crate::persist::rdb::{Decoder, Progress, lzf, string, value_type};

impl Reader {
    /// The value of a key behind its name.
    pub(super) fn value(&mut self, value_type: u8) -> Result<Found, Error> {
        self.begun = false;
        match value_type {
            value_type::STRING => self.string_head(),
            value_type::STREAM | value_type::STREAM_2 | value_type::STREAM_3 => {
                Err(Error::Stream(std::mem::take(&mut self.key)))
            }
            value_type::MODULE | value_type::MODULE_2 => {
                let name = module_name(self.number()?);
                Err(Error::Module(std::mem::take(&mut self.key), name))
            }
            // In a file of a release candidate of Redis 7.4 it was something else.
            value_type::HASH_2 if !self.valkey => Err(Error::Type(std::mem::take(&mut self.key), value_type)),
            _ => {
                self.seed = self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
                if let Some(found) = self.small_collection(value_type)? {
                    return Ok(found);
                }
                let spare = self.spare.take();
                let Ok(mut decoder) = Decoder::of_stream(spare, value_type, self.max_bytes, self.seed) else {
                    return Err(Error::Type(std::mem::take(&mut self.key), value_type));
                };
                decoder.feed(&[value_type]);
                (self.run_is_out, self.next) = (true, Next::Elements(decoder));
                Ok(Found::More)
            }
        }
    }

    /// A collection that is one short string, and all there: most are. `None`: it is read in parts.
    fn small_collection(&mut self, value_type: u8) -> Result<Option<Found>, Error> {
        let Some((kind, format)) = packed_of(value_type) else { return Ok(None) };
        let from = self.at;
        let head = self.head()?;
        let (bytes, unpacked) = match head {
            string::Head::Plain { bytes } => (bytes, bytes),
            string::Head::Packed { packed_bytes, bytes } => (packed_bytes, bytes),
            string::Head::Int(_) => return Err(Error::Malformed),
        };
        let there = &self.buffer[self.at..self.filled];
        let (Some(text), true) =
            (usize::try_from(bytes).ok().and_then(|len| there.get(..len)), unpacked <= PART_BYTES as u64)
        else {
            self.at = from;
            return Ok(None);
        };
        let text = if let string::Head::Packed { .. } = head {
            self.text.clear();
            lzf::unpack(text, usize::try_from(unpacked).unwrap_or(0), &mut self.text)?;
            &self.text
        } else {
            text
        };
        self.run.clear();
        let (max_bytes, seed) = (self.max_bytes, self.seed);
        let count = decode_packed((kind, format), text, max_bytes, seed, &mut self.elements, &mut self.run)?;
        self.run_is_out = true;
        self.at += usize::try_from(bytes).unwrap_or(0);
        self.value_ends();
        Ok(Some(if count == 0 { Found::Empty } else { Found::Run(kind, Part::Last) }))
    }

    fn string_head(&mut self) -> Result<Found, Error> {
        let from = self.at;
        match self.head()? {
            string::Head::Int(number) => {
                self.value_ends();
                Ok(Found::Int(number))
            }
            string::Head::Plain { bytes } => {
                if bytes > self.max_bytes {
                    return Err(Error::Malformed);
                }
                if bytes > PART_BYTES as u64 {
                    self.next = Next::String(Contents { left: bytes, unpacker: None });
                    return Ok(Found::More);
                }
                let (start, len) = (self.at, usize::try_from(bytes).unwrap_or(0));
                if len > self.filled - start {
                    self.at = from;
                    return Ok(Found::Hungry);
                }
                self.at += len;
                self.value_ends();
                Ok(Found::Here(start..start + len, Part::Last))
            }
            string::Head::Packed { packed_bytes, bytes } => {
                self.text.clear();
                self.next = Next::String(packed(packed_bytes, bytes, self.max_bytes)?);
                Ok(Found::More)
            }
        }
    }

    /// A part of a string.
    pub(super) fn string(&mut self) -> Result<Found, Error> {
        let Next::String(contents) = &mut self.next else { unreachable!("as `step` found") };
        if contents.unpacker.is_none() {
            let len = (self.filled - self.at).min(PART_BYTES).min(usize::try_from(contents.left).unwrap_or(usize::MAX));
            if len == 0 {
                return Ok(Found::Hungry);
            }
            contents.left -= len as u64;
            let part = if contents.left == 0 { Part::Last } else { Part::Unfinished };
            let start = self.at;
            self.at += len;
            if part == Part::Last {
                self.value_ends();
            }
            return Ok(Found::Here(start..start + len, part));
        }
        // What was given out.
        if self.text.len() >= PART_BYTES {
            self.text.clear();
        }
        let at = self.at;
        self.at += contents.take(&self.buffer[at..self.filled], &mut self.text)?;
        match contents.left {
            0 => {
                self.value_ends();
                Ok(Found::Unpacked(Part::Last))
            }
            _ if self.text.len() >= PART_BYTES => Ok(Found::Unpacked(Part::Unfinished)),
            _ if self.at == at => Ok(Found::Hungry),
            _ => Ok(Found::More),
        }
    }

    pub(super) fn elements(&mut self) -> Result<Found, Error> {
        let Next::Elements(decoder) = &mut self.next else { unreachable!("as `step` found") };
        if std::mem::take(&mut self.run_is_out) {
            self.run.clear();
        }
        let kind = decoder.kind();
        loop {
            match decoder.next(&mut self.run, PART_BYTES)? {
                Progress::Full if self.run.len() >= PART_BYTES => {
                    self.run_is_out = true;
                    return Ok(Found::Run(kind, Part::Unfinished));
                }
                Progress::Full => {}
                Progress::Done => {
                    self.at -= decoder.take_back();
                    let is_empty = decoder.count() == 0;
                    if let Next::Elements(decoder) = std::mem::replace(&mut self.next, Next::Part) {
                        // One that has grown is given back.
                        self.spare = Some(decoder).filter(|decoder| decoder.bytes() <= PART_BYTES);
                    }
                    self.value_ends();
                    return Ok(if is_empty { Found::Empty } else { Found::Run(kind, Part::Last) });
                }
                Progress::Hungry => {
                    let there = self.filled - self.at;
                    if there == 0 && self.ended {
                        decoder.end();
                        continue;
                    }
                    // No more than it needs: what is left over in the end was copied in vain.
                    let wanted = usize::try_from(decoder.wants()).unwrap_or(usize::MAX).min(PART_BYTES);
                    let len = there.min(wanted);
                    if len < wanted && !self.ended {
                        // The buffer is filled anew, and what is left over has to lie in it.
                        self.at -= decoder.take_back();
                        return Ok(Found::Hungry);
                    }
                    decoder.feed(&self.buffer[self.at..self.at + len]);
                    self.at += len;
                }
            }
        }
    }
}
