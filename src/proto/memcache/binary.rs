//! The binary protocol: frames of a header, extras, a key and a value.
//!
//! ```text
//!  0       1        2            4          5          6         8            12       16    24
//! | magic | opcode | key length | extras l. | data type | status | body length | opaque | cas |   big-endian
//! ```

use super::{KEY_MAX_BYTES, Limits, Mode, Parsed, Verb, Wanted};
use bumpalo::collections::Vec as ArenaVec;

/// Begins a request.
pub const MAGIC: u8 = 0x80;
/// Begins a reply.
const MAGIC_REPLY: u8 = 0x81;
pub const HEADER_BYTES: usize = 24;
/// Longest value that no item is made of: what SASL exchanges.
const OTHER_VALUE_BYTES: usize = 16 * 1024;

macro_rules! opcodes {
    ($($name:ident = $code:literal,)*) => { $(pub const $name: u8 = $code;)* };
}

/// What a request asks for. A name that ends with `Q`: only what is out of the ordinary is answered.
pub mod opcode {
    opcodes! {
        GET = 0x00, SET = 0x01, ADD = 0x02, REPLACE = 0x03, DELETE = 0x04, INCREMENT = 0x05, DECREMENT = 0x06, QUIT = 0x07, FLUSH = 0x08,
        GETQ = 0x09, NOOP = 0x0a, VERSION = 0x0b, GETK = 0x0c, GETKQ = 0x0d, APPEND = 0x0e, PREPEND = 0x0f, STAT = 0x10,
        SETQ = 0x11, ADDQ = 0x12, REPLACEQ = 0x13, DELETEQ = 0x14, INCREMENTQ = 0x15, DECREMENTQ = 0x16, QUITQ = 0x17, FLUSHQ = 0x18,
        APPENDQ = 0x19, PREPENDQ = 0x1a, VERBOSITY = 0x1b, TOUCH = 0x1c, GAT = 0x1d, GATQ = 0x1e, GATK = 0x23, GATKQ = 0x24,
        SASL_LIST = 0x20, SASL_AUTH = 0x21, SASL_STEP = 0x22,
    }
}

/// How a request ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum Status {
    Ok = 0x00,
    NotFound = 0x01,
    Exists = 0x02,
    TooLarge = 0x03,
    Invalid = 0x04,
    NotStored = 0x05,
    NotANumber = 0x06,
    AuthError = 0x20,
    AuthContinue = 0x21,
    Unknown = 0x81,
    OutOfMemory = 0x82,
}

impl Status {
    /// The body of an error without one of its own.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Status::Ok | Status::AuthContinue => "",
            Status::NotFound => "Not found",
            Status::Exists => "Data exists for key.",
            Status::TooLarge => "Too large.",
            Status::Invalid => "Invalid arguments",
            Status::NotStored => "Not stored.",
            Status::NotANumber => "Non-numeric server-side value for incr or decr",
            Status::AuthError => "Auth failure.",
            Status::Unknown => "Unknown command",
            Status::OutOfMemory => "Out of memory",
        }
    }
}

/// A request's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    pub opcode: u8,
    pub key_bytes: usize,
    pub extras_bytes: usize,
    pub body_bytes: usize,
    /// The client's; comes back with the reply.
    pub opaque: [u8; 4],
    pub cas: u64,
}

impl Header {
    /// # Panics
    /// If there are less than [`HEADER_BYTES`].
    #[inline]
    #[must_use]
    pub fn read(bytes: &[u8]) -> Header {
        let header = bytes.first_chunk::<HEADER_BYTES>().expect("a whole header");
        let [_, opcode, k0, k1, extras, _, _, _, b0, b1, b2, b3, o0, o1, o2, o3, cas @ ..] = *header;
        Header {
            opcode,
            key_bytes: u16::from_be_bytes([k0, k1]).into(),
            extras_bytes: extras.into(),
            body_bytes: u32::from_be_bytes([b0, b1, b2, b3]) as usize,
            opaque: [o0, o1, o2, o3],
            cas: u64::from_be_bytes(cas),
        }
    }

    /// Bytes of the value.
    fn value_bytes(&self) -> usize {
        self.body_bytes - self.key_bytes - self.extras_bytes
    }

    /// Is only what is out of the ordinary answered?
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        use opcode::{GATKQ, GATQ, GETKQ, GETQ, PREPENDQ, SETQ};
        matches!(self.opcode, GETQ | GETKQ | SETQ..=PREPENDQ | GATQ | GATKQ)
    }

    /// The header of the reply.
    #[inline]
    #[must_use]
    pub fn reply(
        &self,
        status: Status,
        key_bytes: usize,
        extras_bytes: usize,
        body_bytes: usize,
        cas: u64,
    ) -> [u8; HEADER_BYTES] {
        let mut reply = [0; HEADER_BYTES];
        reply[0] = MAGIC_REPLY;
        reply[1] = self.opcode;
        // A key is 250 bytes long at most, a value below 4 GiB.
        reply[2..4].copy_from_slice(&u16::try_from(key_bytes).unwrap_or(u16::MAX).to_be_bytes());
        reply[4] = u8::try_from(extras_bytes).unwrap_or(u8::MAX);
        reply[6..8].copy_from_slice(&(status as u16).to_be_bytes());
        reply[8..12].copy_from_slice(&u32::try_from(body_bytes).unwrap_or(u32::MAX).to_be_bytes());
        reply[12..16].copy_from_slice(&self.opaque);
        reply[16..24].copy_from_slice(&cas.to_be_bytes());
        reply
    }
}

/// The number at the beginning of extras, or where they say.
#[must_use]
pub fn number<const N: usize>(extras: &[u8], at: usize) -> u64 {
    extras[at..at + N].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// What a header asks for; `None`: it is not right.
fn verb_of(header: &Header) -> Option<Verb> {
    use opcode::*;
    let (key, extras, value) = (header.key_bytes, header.extras_bytes, header.value_bytes());
    let bare = key == 0 && extras == 0 && value == 0;
    let (verb, good) = match header.opcode {
        GET | GETQ | GETK | GETKQ => (Verb::BinaryGet, key > 0 && extras == 0 && value == 0),
        SET | SETQ | ADD | ADDQ | REPLACE | REPLACEQ => (Verb::BinaryStore, key > 0 && extras == 8),
        APPEND | APPENDQ | PREPEND | PREPENDQ => (Verb::BinaryConcat, key > 0 && extras == 0),
        DELETE | DELETEQ => (Verb::BinaryDelete, key > 0 && extras == 0 && value == 0),
        INCREMENT | INCREMENTQ | DECREMENT | DECREMENTQ => {
            (Verb::BinaryArithmetic, key > 0 && extras == 20 && value == 0)
        }
        TOUCH | GAT | GATQ | GATK | GATKQ => (Verb::BinaryTouch, key > 0 && extras == 4 && value == 0),
        FLUSH | FLUSHQ => (Verb::BinaryFlush, key == 0 && value == 0 && (extras == 0 || extras == 4)),
        STAT => (Verb::BinaryStat, extras == 0 && value == 0),
        NOOP | VERSION | QUIT | QUITQ => (Verb::BinaryOther, bare),
        VERBOSITY => (Verb::BinaryOther, key == 0 && extras == 4 && value == 0),
        SASL_LIST => (Verb::BinarySasl, bare),
        SASL_AUTH | SASL_STEP => (Verb::BinarySasl, key > 0 && extras == 0 && value <= OTHER_VALUE_BYTES),
        _ => (Verb::BinaryUnknown, true),
    };
    (good && key <= KEY_MAX_BYTES).then_some(verb)
}

#[inline]
pub(super) fn parse<'a: 'b, 'b>(
    buf: &'b [u8],
    pos: usize,
    mode: &mut Mode,
    limits: &Limits,
    args: &mut ArenaVec<'a, &'b [u8]>,
) -> Parsed {
    let rest = &buf[pos..];
    if rest.len() < HEADER_BYTES {
        return Parsed::Incomplete(Wanted { bytes: HEADER_BYTES, value: None });
    }
    let header = Header::read(rest);
    let (name, body) = rest.split_at(HEADER_BYTES);
    let ends = |verb, args: &mut ArenaVec<'a, &'b [u8]>| {
        args.push(name);
        Parsed::Request { verb, end: buf.len() }
    };
    if header.key_bytes + header.extras_bytes > header.body_bytes {
        return ends(Verb::BinaryUnframed, args);
    }
    let Some(verb) = verb_of(&header) else { return ends(Verb::BinaryInvalid, args) };
    if verb == Verb::BinaryUnknown {
        if header.body_bytes > 0 {
            *mode = Mode::Swallow(header.body_bytes as u64);
        }
        args.push(name);
        return Parsed::Request { verb, end: pos + HEADER_BYTES };
    }
    let before_value = header.extras_bytes + header.key_bytes;
    let stores = matches!(verb, Verb::BinaryStore | Verb::BinaryConcat);
    if stores && body.len() >= before_value {
        let has_flags = header.extras_bytes > 0 && body[..4] != [0; 4];
        let value_bytes = header.value_bytes() as u64;
        if !limits.takes(header.key_bytes, has_flags, value_bytes) {
            if value_bytes > 0 {
                *mode = Mode::Swallow(value_bytes);
            }
            args.extend([name, &body[header.extras_bytes..before_value]]);
            return Parsed::Request { verb: Verb::BinaryTooLarge, end: pos + HEADER_BYTES + before_value };
        }
    }
    if body.len() < header.body_bytes {
        let value_at = HEADER_BYTES + before_value;
        let value = (stores && body.len() >= before_value).then_some((value_at, header.value_bytes()));
        // Nothing more than is needed to judge the value.
        let bytes = if stores && value.is_none() { value_at } else { HEADER_BYTES + header.body_bytes };
        return Parsed::Incomplete(Wanted { bytes, value });
    }
    let (extras, behind) = body[..header.body_bytes].split_at(header.extras_bytes);
    let (key, value) = behind.split_at(header.key_bytes);
    args.extend([name, key, extras, value]);
    Parsed::Request { verb, end: pos + HEADER_BYTES + header.body_bytes }
}

/// See [`super::parse_head`].
pub(super) fn parse_head<'a: 'b, 'b>(head: &'b [u8], args: &mut ArenaVec<'a, &'b [u8]>) -> Option<Verb> {
    let header = Header::read(head.get(..HEADER_BYTES)?);
    let (name, body) = head.split_at(HEADER_BYTES);
    let extras = body.get(..header.extras_bytes)?;
    let key = body.get(header.extras_bytes..header.extras_bytes + header.key_bytes)?;
    args.extend([name, key, extras, b""]);
    verb_of(&header)
}
