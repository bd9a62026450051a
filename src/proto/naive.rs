//! The request parser written down as the protocol reads, with no regard for speed: the oracle of tests and fuzz targets. It sees the
//! whole stream at once.
use super::resp::{LINE_MAX_BYTES, Limits, ProtocolError};
use crate::base::quote;

/// What a whole stream amounts to.
#[derive(Default, PartialEq, Eq, Debug)]
pub struct Stream {
    /// The arguments of each complete request, and where it ends.
    pub requests: Vec<(Vec<Vec<u8>>, usize)>,
    /// The error of the request after those.
    pub error: Option<ProtocolError>,
}

enum Stop {
    Incomplete,
    Wrong(ProtocolError),
}

pub fn parse_stream(stream: &[u8], limits: &Limits) -> Stream {
    let mut result = Stream::default();
    let mut at = 0;
    loop {
        match request(&stream[at..], limits) {
            Ok((args, length)) => {
                at += length;
                result.requests.push((args, at));
            }
            Err(Stop::Incomplete) => return result,
            Err(Stop::Wrong(error)) => {
                result.error = Some(error);
                return result;
            }
        }
    }
}

fn request(bytes: &[u8], limits: &Limits) -> Result<(Vec<Vec<u8>>, usize), Stop> {
    if bytes.is_empty() {
        return Err(Stop::Incomplete);
    }
    if bytes[0] == 0x80 {
        return Err(Stop::Wrong(ProtocolError::Memcache));
    }
    if bytes[0] != b'*' {
        let line = line(bytes, "\n", ProtocolError::TooBigInline)?;
        let text = line.strip_suffix(b"\r").unwrap_or(line);
        let args = quote::split_args(text).map_err(|_| Stop::Wrong(ProtocolError::UnbalancedQuotes))?;
        return Ok((args, line.len() + 1));
    }
    let first = header(bytes, ProtocolError::TooBigCount)?;
    let count = number(first).filter(|&n| n <= 2147483647).ok_or(Stop::Wrong(ProtocolError::MultibulkLength))?;
    if count > 10 && !limits.authenticated {
        return Err(Stop::Wrong(ProtocolError::UnauthenticatedCount));
    }
    let mut at = first.len() + 2;
    let mut args = Vec::new();
    for _ in 0..count {
        let header = header(&bytes[at..], ProtocolError::TooBigBulkHeader)?;
        if header[0] != b'$' {
            return Err(Stop::Wrong(ProtocolError::ExpectedDollar(header[0])));
        }
        let length = number(header)
            .filter(|&n| n >= 0 && n <= i128::from(limits.max_bulk_bytes))
            .ok_or(Stop::Wrong(ProtocolError::BulkLength))?;
        if length > 16384 && !limits.authenticated {
            return Err(Stop::Wrong(ProtocolError::UnauthenticatedBulk));
        }
        at += header.len() + 2;
        let length = usize::try_from(length).map_err(|_| Stop::Incomplete)?;
        let Some(body) = bytes[at..].get(..length + 2) else {
            return Err(Stop::Incomplete);
        };
        let body = body.strip_suffix(b"\r\n").ok_or(Stop::Wrong(ProtocolError::BulkLength))?;
        args.push(body.to_vec());
        at += length + 2;
    }
    Ok((args, at))
}

/// Up to `end`, which is not included.
fn line<'b>(bytes: &'b [u8], end: &str, too_long: ProtocolError) -> Result<&'b [u8], Stop> {
    match bytes.iter().position(|&b| b == end.as_bytes()[0]) {
        Some(length) if length <= LINE_MAX_BYTES => Ok(&bytes[..length]),
        None if bytes.len() <= LINE_MAX_BYTES => Err(Stop::Incomplete),
        _ => Err(Stop::Wrong(too_long)),
    }
}

/// A line with a number; if it does not end in CR LF, one with no number. Its first byte is the sigil, or the CR.
fn header(bytes: &[u8], too_long: ProtocolError) -> Result<&[u8], Stop> {
    let line = line(bytes, "\r", too_long)?;
    match bytes.get(line.len() + 1) {
        None => Err(Stop::Incomplete),
        Some(b'\n') if !line.is_empty() => Ok(line),
        Some(_) => Ok(&bytes[..1]),
    }
}

fn number(header: &[u8]) -> Option<i128> {
    let text = std::str::from_utf8(&header[1..]).ok()?;
    text.parse::<i64>().ok().filter(|n| n.to_string() == text).map(i128::from)
}
