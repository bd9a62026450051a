//! Reads a file, as its bytes come. Memory is bounded by the buffer, one part of a value, and what long keys and facts have really brought:
//! nothing is kept for what the file only claims.

mod values;

use super::contents::{Contents, packed};
use super::{CHECKSUM_SINCE, Content, Error, Event, Head, Part, Skipped, part};
use crate::persist::rdb::elements::Elements;
use crate::persist::rdb::payload::Checksum;
use crate::persist::rdb::string::{self, HEAD_BYTES_MAX};
use crate::persist::rdb::{Decoder, Malformed};

/// The most that is wanted at once.
pub const READ_BYTES: usize = 256 << 10;
/// A string of at most so many bytes is one part, as soon as all of it is there; so is a run that has grown to so many.
const PART_BYTES: usize = 64 << 10;
/// What is read in one piece is no longer: numbers, and the beginning of a string.
const ITEM_BYTES_MAX: usize = 64;
const MAGIC_BYTES: usize = 9;
const CHECKSUM_BYTES: usize = 8;
/// Longest key, fact or code.
const TEXT_BYTES_MAX: u64 = 512 << 20;
/// The latest version that Redis and Valkey may have: between them only the encodings of values differ, and one that is not known is refused.
const VERSION_MAX: u32 = 999;

/// What stands before the text that is being read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Text {
    Key(u8),
    AuxName,
    AuxValue,
    Functions,
    SlotImport,
    /// Of what a module keeps.
    Module,
}

/// What comes next.
enum Next {
    Magic,
    Part,
    /// A text, whose head comes first.
    Text(Text),
    /// The contents of a text.
    TextContents(Text, Contents),
    Value(u8),
    /// The contents of a string, in parts.
    String(Contents),
    Elements(Box<Decoder>),
    /// Numbers that mean nothing here.
    Numbers(u64),
    /// The next thing that a module keeps.
    ModuleAux,
    Checksum,
    End,
}

/// A file being read.
pub struct Reader {
    buffer: Box<[u8]>,
    /// What was read and not yet used.
    at: usize,
    filled: usize,
    /// Bytes that went by before the buffer begins.
    before: u64,
    /// Everything before this was summed up.
    summed: usize,
    checksum: Checksum,
    /// No more will come.
    ended: bool,
    version: u32,
    valkey: bool,
    next: Next,
    max_bytes: u64,
    seed: u64,
    key: Vec<u8>,
    deadline_ms: Option<u64>,
    idle_seconds: Option<u64>,
    /// The first part of the value at hand was given out.
    begun: bool,
    /// All of it was: what was said of it is not said of the next.
    over: bool,
    aux_name: Vec<u8>,
    text: Vec<u8>,
    /// For collections that are read in one go.
    elements: Elements,
    /// The decoder of the last other collection, for its memory.
    spare: Option<Box<Decoder>>,
    run: Vec<u8>,
    /// It was given out.
    run_is_out: bool,
}

/// What a step found, in a form that borrows nothing.
enum Found {
    More,
    Hungry,
    Aux,
    Database(u64),
    Sizes(u64, u64),
    Int(i64),
    /// A string, where it lies in the buffer.
    Here(std::ops::Range<usize>, Part),
    /// A string, in `text`.
    Unpacked(Part),
    Run(crate::persist::rdb::Kind, Part),
    Empty,
    Skipped(Skipped),
    End,
}

impl From<Malformed> for Error {
    fn from(_: Malformed) -> Error {
        Error::Malformed
    }
}

impl Reader {
    /// `max_bytes`: no string is longer. `seed`: a random number.
    #[must_use]
    pub fn new(max_bytes: u64, seed: u64) -> Reader {
        Reader {
            buffer: vec![0; READ_BYTES].into_boxed_slice(),
            at: 0,
            filled: 0,
            before: 0,
            summed: 0,
            checksum: Checksum::default(),
            ended: false,
            version: 0,
            valkey: false,
            next: Next::Magic,
            max_bytes,
            seed,
            key: Vec::new(),
            deadline_ms: None,
            idle_seconds: None,
            begun: false,
            over: false,
            aux_name: Vec::new(),
            text: Vec::new(),
            elements: Elements::new(),
            spare: None,
            run: Vec::new(),
            run_is_out: false,
        }
    }

    /// Where the next bytes of the file belong; never empty behind [`Event::Hungry`]. Followed by `filled`.
    pub fn room(&mut self) -> &mut [u8] {
        self.sum();
        self.buffer.copy_within(self.at..self.filled, 0);
        self.before += self.at as u64;
        self.filled -= self.at;
        (self.at, self.summed) = (0, 0);
        &mut self.buffer[self.filled..]
    }

    /// So many bytes were put into the room; none: the file has no more.
    pub fn filled(&mut self, bytes: usize) {
        self.filled += bytes;
        self.ended |= bytes == 0;
    }

    /// The version of the format; 0 before it was read.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.version
    }

    /// How many bytes of the file were used.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.before + self.at as u64
    }

    /// What was read and does not belong to the file: it follows its end.
    #[must_use]
    pub fn behind(&self) -> &[u8] {
        &self.buffer[self.at..self.filled]
    }

    /// What comes next.
    ///
    /// # Errors
    /// If it is nothing that can be read; nothing else is called then. Values that are unfinished are void.
    #[expect(clippy::should_implement_trait, reason = "events borrow from the reader")]
    pub fn next(&mut self) -> Result<Event<'_>, Error> {
        if std::mem::take(&mut self.over) {
            (self.deadline_ms, self.idle_seconds) = (None, None);
        }
        let found = loop {
            match self.step()? {
                Found::More => {}
                Found::Hungry if self.ended => return Err(Error::Truncated),
                found => break found,
            }
        };
        let (deadline_ms, idle_seconds) = (self.deadline_ms, self.idle_seconds);
        let head = Head { key: &self.key, deadline_ms, idle_seconds };
        let begun = &mut self.begun;
        let (content, part) = match found {
            Found::More => unreachable!("left out above"),
            Found::Hungry => return Ok(Event::Hungry),
            Found::Aux => return Ok(Event::Aux { name: &self.aux_name, value: &self.text }),
            Found::Database(number) => return Ok(Event::Database(number)),
            Found::Sizes(keys, deadlines) => return Ok(Event::Sizes { keys, deadlines }),
            Found::Skipped(what) => return Ok(Event::Skipped(what)),
            Found::End => return Ok(Event::End),
            Found::Empty => return Ok(Event::Empty(head)),
            Found::Int(number) => (Content::Int(number), Part::Last),
            Found::Here(place, part) => (Content::Bytes(&self.buffer[place]), part),
            Found::Unpacked(part) => (Content::Bytes(&self.text), part),
            Found::Run(kind, part) => (Content::Run(kind, &self.run), part),
        };
        Ok(if std::mem::replace(begun, true) { Event::More(content, part) } else { Event::Value(head, content, part) })
    }

    fn rest(&self) -> &[u8] {
        &self.buffer[self.at..self.filled]
    }

    /// Is all there that could be needed for something short?
    fn has_item(&self) -> bool {
        self.filled - self.at >= ITEM_BYTES_MAX || self.ended
    }

    fn sum(&mut self) {
        if self.version >= CHECKSUM_SINCE || self.version == 0 {
            self.checksum.update(&self.buffer[self.summed..self.at]);
        }
        self.summed = self.at;
    }

    fn step(&mut self) -> Result<Found, Error> {
        match &self.next {
            Next::TextContents(..) | Next::String(_) | Next::Elements(_) | Next::End => {}
            _ if !self.has_item() => return Ok(Found::Hungry),
            _ => {}
        }
        match self.next {
            Next::Magic => self.magic(),
            Next::Part => self.part(),
            Next::Text(what) => self.text_head(what),
            Next::TextContents(what, _) => self.text_contents(what),
            Next::Value(value_type) => self.value(value_type),
            Next::String(_) => self.string(),
            Next::Elements(_) => self.elements(),
            Next::Numbers(left) => {
                if left == 0 {
                    self.next = Next::Part;
                } else {
                    self.number()?;
                    self.next = Next::Numbers(left - 1);
                }
                Ok(Found::More)
            }
            Next::ModuleAux => self.module_aux(),
            Next::Checksum => self.check(),
            Next::End => Ok(Found::End),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let bytes = self.rest().first_chunk::<N>().copied().ok_or(Error::Truncated)?;
        self.at += N;
        Ok(bytes)
    }

    fn head(&mut self) -> Result<string::Head, Error> {
        let mut rest = self.rest();
        let before = rest.len();
        let head = string::read_head(&mut rest);
        let taken = before - rest.len();
        let head =
            head.map_err(|Malformed| if before < HEAD_BYTES_MAX { Error::Truncated } else { Error::Malformed })?;
        self.at += taken;
        Ok(head)
    }

    fn number(&mut self) -> Result<u64, Error> {
        match self.head()? {
            string::Head::Plain { bytes } => Ok(bytes),
            _ => Err(Error::Malformed),
        }
    }

    fn magic(&mut self) -> Result<Found, Error> {
        let magic: [u8; MAGIC_BYTES] = self.array().map_err(|_| Error::Foreign)?;
        let digits = if let Some(digits) = magic.strip_prefix(b"REDIS") {
            digits
        } else {
            self.valkey = true;
            magic.strip_prefix(b"VALKEY").ok_or(Error::Foreign)?
        };
        let digit = |sum: u32, byte: &u8| byte.is_ascii_digit().then(|| sum * 10 + u32::from(byte - b'0'));
        self.version = digits.iter().try_fold(0, digit).ok_or(Error::Foreign)?;
        if self.version == 0 || self.version > VERSION_MAX {
            return Err(Error::Version(self.version));
        }
        self.next = Next::Part;
        Ok(Found::More)
    }

    fn part(&mut self) -> Result<Found, Error> {
        let [kind] = self.array()?;
        match kind {
            part::AUX => self.next = Next::Text(Text::AuxName),
            part::DATABASE => return self.number().map(Found::Database),
            part::SIZES => return Ok(Found::Sizes(self.number()?, self.number()?)),
            part::DEADLINE_MS => self.deadline_ms = Some(u64::from_le_bytes(self.array()?)),
            part::DEADLINE_S => {
                let seconds = i32::from_le_bytes(self.array()?);
                self.deadline_ms = Some(u64::try_from(seconds).unwrap_or(0) * 1000);
            }
            part::IDLE => self.idle_seconds = Some(self.number()?),
            part::FREQUENCY => {
                self.array::<1>()?;
            }
            part::SLOT_INFO => self.next = Next::Numbers(3),
            part::SLOT_IMPORT if self.valkey => self.next = Next::Text(Text::SlotImport),
            part::FUNCTION => self.next = Next::Text(Text::Functions),
            part::FUNCTION_BEFORE_7 => return Err(Error::EarlyFunctions),
            part::MODULE => {
                let module = self.number()?;
                // When it was written: before or behind the keys.
                for _ in 0..2 {
                    self.number()?;
                }
                self.next = Next::ModuleAux;
                return Ok(Found::Skipped(Skipped::ModuleAux(module)));
            }
            part::END => self.next = Next::Checksum,
            value_type => self.next = Next::Text(Text::Key(value_type)),
        }
        Ok(Found::More)
    }

    /// What a module keeps: things with a type each.
    fn module_aux(&mut self) -> Result<Found, Error> {
        const END: u64 = 0;
        const SIGNED: u64 = 1;
        const UNSIGNED: u64 = 2;
        const FLOAT: u64 = 3;
        const DOUBLE: u64 = 4;
        const STRING: u64 = 5;
        match self.number()? {
            END => self.next = Next::Part,
            SIGNED | UNSIGNED => {
                self.number()?;
            }
            FLOAT => {
                self.array::<4>()?;
            }
            DOUBLE => {
                self.array::<8>()?;
            }
            STRING => self.next = Next::Text(Text::Module),
            _ => return Err(Error::Malformed),
        }
        Ok(Found::More)
    }

    fn target(&mut self, what: Text) -> &mut Vec<u8> {
        match what {
            Text::Key(_) => &mut self.key,
            Text::AuxName => &mut self.aux_name,
            _ => &mut self.text,
        }
    }

    fn text_head(&mut self, what: Text) -> Result<Found, Error> {
        let head = self.head()?;
        self.target(what).clear();
        let contents = match head {
            string::Head::Int(number) => {
                let mut digits = [0; crate::base::int::MAX_DIGITS];
                let digits = crate::base::int::write_i64(&mut digits, number);
                self.target(what).extend_from_slice(digits);
                return self.after_text(what);
            }
            string::Head::Plain { bytes } if bytes <= (self.filled - self.at) as u64 => {
                // The common case.
                let from = self.at;
                self.at += usize::try_from(bytes).unwrap_or(0);
                let (buffer, to) = (std::mem::take(&mut self.buffer), self.at);
                self.target(what).extend_from_slice(&buffer[from..to]);
                self.buffer = buffer;
                return self.after_text(what);
            }
            string::Head::Plain { bytes } if bytes > TEXT_BYTES_MAX => return Err(Error::Malformed),
            string::Head::Plain { bytes } => Contents { left: bytes, unpacker: None },
            string::Head::Packed { packed_bytes, bytes } => packed(packed_bytes, bytes, TEXT_BYTES_MAX)?,
        };
        self.next = Next::TextContents(what, contents);
        Ok(Found::More)
    }

    fn text_contents(&mut self, what: Text) -> Result<Found, Error> {
        let Next::TextContents(_, contents) = &mut self.next else { unreachable!("as `step` found") };
        let (at, filled) = (self.at, self.filled);
        let target = match what {
            Text::Key(_) => &mut self.key,
            Text::AuxName => &mut self.aux_name,
            _ => &mut self.text,
        };
        self.at += contents.take(&self.buffer[at..filled], target)?;
        if contents.left > 0 {
            return Ok(if self.at == at { Found::Hungry } else { Found::More });
        }
        if !matches!(what, Text::Key(_) | Text::AuxName | Text::AuxValue) {
            // Nobody will ask for it.
            self.text = Vec::new();
        }
        self.after_text(what)
    }

    fn after_text(&mut self, what: Text) -> Result<Found, Error> {
        self.next = match what {
            Text::Key(value_type) => Next::Value(value_type),
            Text::AuxName => Next::Text(Text::AuxValue),
            Text::Module => Next::ModuleAux,
            Text::AuxValue => {
                self.next = Next::Part;
                return Ok(Found::Aux);
            }
            Text::Functions => {
                self.next = Next::Part;
                return Ok(Found::Skipped(Skipped::Functions));
            }
            Text::SlotImport => {
                if !self.has_item() {
                    self.next = Next::TextContents(what, Contents { left: 0, unpacker: None });
                    return Ok(Found::Hungry);
                }
                let ranges = self.number()?;
                self.next = Next::Numbers(ranges.checked_mul(2).ok_or(Error::Malformed)?);
                return Ok(Found::Skipped(Skipped::SlotImport));
            }
        };
        Ok(Found::More)
    }

    fn value_ends(&mut self) {
        self.next = Next::Part;
        self.over = true;
    }

    fn check(&mut self) -> Result<Found, Error> {
        if self.version < CHECKSUM_SINCE {
            self.next = Next::End;
            return Ok(Found::End);
        }
        self.sum();
        let of_file = u64::from_le_bytes(self.array::<CHECKSUM_BYTES>()?);
        let computed = std::mem::take(&mut self.checksum).value();
        if of_file != 0 && of_file != computed {
            return Err(Error::Checksum { of_file, computed });
        }
        self.next = Next::End;
        Ok(Found::End)
    }
}
