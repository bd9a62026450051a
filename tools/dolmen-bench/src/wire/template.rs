//! Requests as templates: bytes that are the same every time, and holes that are filled in for each request.
//!
//! If all holes are numbers of known width they stand in a frame as zeros, and a request is one copy of the frame and a few digits. Otherwise
//! it is put together in steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::Protocol;
use crate::keys::{Keys, Space, Trace, below};
use crate::values::Values;
use crate::verify::Ledger;

/// A command as it is written down.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Of RESP.
    Arguments(Vec<String>),
    /// As it goes over the wire, in the protocol that it is of.
    Text(Protocol, String),
}

/// What a hole is filled with; in a command its name stands in braces.
#[derive(Clone, Debug, PartialEq)]
enum Hole {
    /// Digits of the key that was drawn for the request. `{key}` and `{id}` the first time, `{same}` and `{same_id}` always.
    Same,
    /// Digits of another key: `{key}` and `{id}` after the first time.
    Another,
    /// `{new}`: digits of the next key that does not exist yet.
    New,
    /// `{number}`: uniform below the number of keys, in as many digits as a key has.
    Number,
    /// A key out of a trace, the one drawn for the request or another one.
    Traced { another: bool },
    /// `{rand:A-B}`: uniform, both included.
    Between(u64, u64),
    /// `{length}`: from 1 to 100, also how often the follower of the request is repeated.
    Length,
    /// `{ttl}`, in seconds.
    Ttl,
    /// `{value}`.
    Value,
    /// `{sized}`: length, line end, value, as memcached wants it.
    Sized,
    /// `{stamp}`: a value that begins with the time.
    Stamp,
}

impl Hole {
    fn in_frame(&self) -> bool {
        matches!(self, Hole::Same | Hole::Another | Hole::New | Hole::Number)
    }
}

/// What the holes of a workload depend on.
#[derive(Clone, Debug)]
pub struct Names {
    pub prefix: String,
    /// Digits of a key or number.
    pub digits: usize,
    /// Seconds, both included.
    pub ttl: Option<(u64, u64)>,
    /// Keys are those of a trace instead of digits.
    pub trace: Option<Trace>,
    /// What all values are, if they are all the same.
    pub constant: Option<String>,
}

/// Digits of the time that a stamp begins with: nanoseconds since the start of the tool.
pub const STAMP_DIGITS: usize = 16;
/// The longest `{length}`.
const LENGTH_MAX: u64 = 100;

/// What one thread fills holes with.
pub struct Draws {
    rng: SmallRng,
    keys: Keys,
    names: Arc<Names>,
    values: Values,
    count: Arc<AtomicU64>,
    /// The key of the request.
    pub key: u64,
    /// The last `{length}`.
    pub length: u32,
    pub now_ns: u64,
    /// Where values are verified: what they are, and the version to write.
    pub verified: Option<(Arc<Ledger>, u32)>,
    scratch: Vec<u8>,
}

impl Draws {
    pub fn new(
        space: &Space,
        (thread, threads): (usize, usize),
        names: Arc<Names>,
        values: Values,
        seed: u64,
    ) -> Draws {
        Draws {
            rng: SmallRng::seed_from_u64(seed ^ 0xD1CE),
            keys: Keys::new(space, thread, threads, seed),
            names,
            values,
            count: space.count.clone(),
            key: 0,
            length: 1,
            now_ns: 0,
            verified: None,
            scratch: Vec::new(),
        }
    }

    #[inline]
    pub fn draw_key(&mut self) {
        self.key = self.keys.draw();
    }

    /// Uniform below a bound, for choices beside keys.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        below(&mut self.rng, bound)
    }

    fn digits(&mut self, hole: &Hole) -> u64 {
        match hole {
            Hole::Another => self.draw_key(),
            Hole::New => self.key = self.count.fetch_add(1, Ordering::Relaxed),
            Hole::Number => return below(&mut self.rng, self.count.load(Ordering::Relaxed)),
            _ => {}
        }
        self.key
    }

    fn fill(&mut self, out: &mut Vec<u8>, hole: &Hole) {
        match hole {
            Hole::Same | Hole::Another | Hole::New | Hole::Number => {
                let (number, at) = (self.digits(hole), out.len());
                out.resize(at + self.names.digits, b'0');
                write_digits(&mut out[at..], number);
            }
            Hole::Traced { another } => {
                if *another {
                    self.draw_key();
                }
                if let Some(trace) = &self.names.trace {
                    out.extend_from_slice(&trace[self.key as usize]);
                }
            }
            Hole::Between(low, high) => {
                let number = low + self.below(high - low + 1);
                decimal(out, number);
            }
            Hole::Length => {
                self.length = 1 + self.below(LENGTH_MAX) as u32;
                decimal(out, self.length.into());
            }
            Hole::Ttl => {
                let (low, high) = self.names.ttl.unwrap_or((0, 0));
                let ttl = low + self.below(high - low + 1);
                decimal(out, ttl);
            }
            Hole::Value => self.value(out, |_, _| {}),
            Hole::Sized => self.value(out, |out, size| {
                decimal(out, size as u64);
                out.extend_from_slice(b"\r\n");
            }),
            Hole::Stamp => {
                let (size, at) = (self.values.sizes.draw(&mut self.rng), out.len());
                out.extend_from_slice(&[b'0'; STAMP_DIGITS]);
                write_digits(&mut out[at..], self.now_ns);
                let rest = size.saturating_sub(STAMP_DIGITS);
                out.extend_from_slice(self.values.cut(rest, &mut self.rng));
            }
        }
    }

    fn value(&mut self, out: &mut Vec<u8>, head: impl FnOnce(&mut Vec<u8>, usize)) {
        if let Some((ledger, version)) = &self.verified {
            head(out, ledger.size(self.key, *version));
            return ledger.content(self.key, *version, out);
        }
        let size = self.values.sizes.draw(&mut self.rng);
        head(out, size);
        out.extend_from_slice(self.values.cut(size, &mut self.rng));
    }
}

#[derive(Clone, Debug)]
enum Part {
    Text(Vec<u8>),
    Hole(Hole),
}

/// A request to be filled in.
#[derive(Clone, Debug)]
pub struct Template {
    shape: Shape,
    /// The request is about a key that is drawn before.
    pub keyed: bool,
    /// It makes a key that did not exist.
    pub inserts: bool,
}

#[derive(Clone, Debug)]
enum Shape {
    /// Each hole is so many digits of the frame from a place on.
    Frame(Vec<u8>, Vec<(usize, Hole)>),
    Steps(Vec<Step>),
}

#[derive(Clone, Debug)]
enum Step {
    Plain(Part),
    /// An argument of RESP, whose length is known when it is filled in.
    Argument(Vec<Part>),
    /// `{value}` and nothing else: the length is known before, and large values are copied once.
    Value,
}

impl Template {
    pub fn new(protocol: Protocol, command: &Command, names: &Names) -> Result<Template, String> {
        let mut reader = HoleReader { names, keyed: false, inserts: false };
        let mut steps = Vec::new();
        match command {
            Command::Arguments(arguments) if protocol.is_resp() => {
                steps.push(Step::Plain(Part::Text(format!("*{}\r\n", arguments.len()).into_bytes())));
                for argument in arguments {
                    reader.argument(argument, &mut steps)?;
                }
            }
            Command::Text(of, text) if of.is_resp() == protocol.is_resp() => {
                steps.extend(reader.parts(text)?.into_iter().map(Step::Plain));
            }
            Command::Arguments(arguments) => {
                return Err(format!("memcached has no command like {}", arguments.join(" ")));
            }
            Command::Text(of, text) => return Err(format!("{} is of {}", text.trim_end(), of.name())),
        }
        Ok(Template { shape: shape(steps, names.digits), keyed: reader.keyed, inserts: reader.inserts })
    }

    /// Appends one request.
    #[inline]
    pub fn write(&self, out: &mut Vec<u8>, draws: &mut Draws) {
        match &self.shape {
            Shape::Frame(frame, holes) => {
                let (start, digits) = (out.len(), draws.names.digits);
                out.extend_from_slice(frame);
                for (at, hole) in holes {
                    let number = draws.digits(hole);
                    write_digits(&mut out[start + at..start + at + digits], number);
                }
            }
            Shape::Steps(steps) => steps.iter().for_each(|step| step.write(out, draws)),
        }
    }
}

impl Template {
    /// Makes other requests of those that `out` is full of, if they are made of a frame: only digits change.
    pub fn rewrite(&self, out: &mut [u8], draws: &mut Draws) -> bool {
        let Shape::Frame(frame, holes) = &self.shape else { return false };
        let draws_key = self.keyed && !self.inserts;
        for request in out.chunks_exact_mut(frame.len()) {
            if draws_key {
                draws.draw_key();
            }
            for (at, hole) in holes {
                let number = draws.digits(hole);
                overwrite_digits(&mut request[*at..*at + draws.names.digits], number);
            }
        }
        true
    }
}

impl Step {
    fn write(&self, out: &mut Vec<u8>, draws: &mut Draws) {
        match self {
            Step::Plain(part) => part.write(out, draws),
            Step::Argument(parts) => {
                let mut scratch = std::mem::take(&mut draws.scratch);
                scratch.clear();
                parts.iter().for_each(|part| part.write(&mut scratch, draws));
                length_line(out, scratch.len());
                out.extend_from_slice(&scratch);
                out.extend_from_slice(b"\r\n");
                draws.scratch = scratch;
            }
            Step::Value => {
                draws.value(out, length_line);
                out.extend_from_slice(b"\r\n");
            }
        }
    }
}

impl Part {
    fn write(&self, out: &mut Vec<u8>, draws: &mut Draws) {
        match self {
            Part::Text(text) => out.extend_from_slice(text),
            Part::Hole(hole) => draws.fill(out, hole),
        }
    }
}

/// Reads the holes of one command, in order.
struct HoleReader<'a> {
    names: &'a Names,
    keyed: bool,
    inserts: bool,
}

impl HoleReader<'_> {
    /// Text and holes; a brace that is doubled stands for itself.
    fn parts(&mut self, text: &str) -> Result<Vec<Part>, String> {
        let (mut parts, mut plain, mut rest) = (Vec::new(), String::new(), text);
        while let Some(at) = rest.find(['{', '}']) {
            plain.push_str(&rest[..at]);
            let brace = &rest[at..=at];
            rest = &rest[at + 1..];
            if let Some(behind) = rest.strip_prefix(brace) {
                plain.push_str(brace);
                rest = behind;
            } else if brace == "{" {
                let (name, behind) = rest.split_once('}').ok_or(format!("{text}: a brace is not closed"))?;
                rest = behind;
                let filling = self.hole(name).ok_or(format!(
                    "{text}: there is no {{{name}}}; there are key id same same_id new number rand:A-B length ttl value stamp"
                ))?;
                for part in filling {
                    match part {
                        Part::Text(text) => plain.push_str(&String::from_utf8_lossy(&text)),
                        hole => {
                            if !plain.is_empty() {
                                parts.push(Part::Text(std::mem::take(&mut plain).into_bytes()));
                            }
                            parts.push(hole);
                        }
                    }
                }
            } else {
                return Err(format!("{text}: a brace is not opened"));
            }
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(Part::Text(plain.into_bytes()));
        }
        Ok(parts)
    }

    fn hole(&mut self, name: &str) -> Option<Vec<Part>> {
        let names = self.names;
        let prefix = || Part::Text(names.prefix.clone().into_bytes());
        let one = |hole| Some(vec![Part::Hole(hole)]);
        match name {
            "key" | "id" | "same" | "same_id" => {
                let another = self.keyed && !name.starts_with("same");
                self.keyed = true;
                match (name, &names.trace) {
                    ("key" | "same", Some(_)) => one(Hole::Traced { another }),
                    ("key" | "same", None) => {
                        Some(vec![prefix(), Part::Hole(if another { Hole::Another } else { Hole::Same })])
                    }
                    _ => one(if another { Hole::Another } else { Hole::Same }),
                }
            }
            "new" => {
                // A second one would be another key, which nobody wants.
                let hole = if self.inserts { Hole::Same } else { Hole::New };
                (self.keyed, self.inserts) = (true, true);
                Some(vec![prefix(), Part::Hole(hole)])
            }
            "number" => one(Hole::Number),
            "length" => one(Hole::Length),
            "ttl" => one(Hole::Ttl),
            "value" => match &names.constant {
                Some(constant) => Some(vec![Part::Text(constant.clone().into_bytes())]),
                None => one(Hole::Value),
            },
            "sized" => match &names.constant {
                Some(constant) => Some(vec![Part::Text(format!("{}\r\n{constant}", constant.len()).into_bytes())]),
                None => one(Hole::Sized),
            },
            "stamp" => one(Hole::Stamp),
            _ => {
                let (low, high) = name.strip_prefix("rand:")?.split_once('-')?;
                let (low, high) = (low.parse().ok()?, high.parse().ok()?);
                (low <= high && high < u64::MAX).then(|| vec![Part::Hole(Hole::Between(low, high))])
            }
        }
    }

    fn argument(&mut self, argument: &str, steps: &mut Vec<Step>) -> Result<(), String> {
        let parts = self.parts(argument)?;
        if matches!(parts[..], [Part::Hole(Hole::Value)]) {
            steps.push(Step::Value);
            return Ok(());
        }
        let digits = self.names.digits;
        let width = parts.iter().map(|part| match part {
            Part::Text(text) => Some(text.len()),
            Part::Hole(hole) => hole.in_frame().then_some(digits),
        });
        match width.sum::<Option<usize>>() {
            None => steps.push(Step::Argument(parts)),
            Some(width) => {
                steps.push(Step::Plain(Part::Text(format!("${width}\r\n").into_bytes())));
                steps.extend(parts.into_iter().map(Step::Plain));
                steps.push(Step::Plain(Part::Text(b"\r\n".to_vec())));
            }
        }
        Ok(())
    }
}

/// Joins neighbouring texts, and makes a frame of steps if all widths are known.
fn shape(steps: Vec<Step>, digits: usize) -> Shape {
    let mut joined: Vec<Step> = Vec::new();
    for step in steps {
        match (joined.last_mut(), step) {
            (Some(Step::Plain(Part::Text(before))), Step::Plain(Part::Text(text))) => before.extend_from_slice(&text),
            (_, step) => joined.push(step),
        }
    }
    let framed = |step: &Step| match step {
        Step::Plain(Part::Text(_)) => true,
        Step::Plain(Part::Hole(hole)) => hole.in_frame(),
        Step::Argument(_) | Step::Value => false,
    };
    if !joined.iter().all(framed) {
        return Shape::Steps(joined);
    }
    let (mut frame, mut holes) = (Vec::new(), Vec::new());
    for step in joined {
        match step {
            Step::Plain(Part::Text(text)) => frame.extend_from_slice(&text),
            Step::Plain(Part::Hole(hole)) => {
                holes.push((frame.len(), hole));
                frame.resize(frame.len() + digits, b'0');
            }
            Step::Argument(_) | Step::Value => {}
        }
    }
    Shape::Frame(frame, holes)
}

fn length_line(out: &mut Vec<u8>, length: usize) {
    out.push(b'$');
    decimal(out, length as u64);
    out.extend_from_slice(b"\r\n");
}

fn decimal(out: &mut Vec<u8>, number: u64) {
    let mut digits = [0; 20];
    let (mut at, mut left) = (digits.len(), number);
    loop {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Writes a number at the end of a place that holds zeros, two digits at a time.
#[inline]
fn write_digits(place: &mut [u8], mut number: u64) {
    const PAIRS: [[u8; 2]; 100] = {
        let (mut pairs, mut i) = ([[0; 2]; 100], 0);
        while i < 100 {
            pairs[i] = [b'0' + (i / 10) as u8, b'0' + (i % 10) as u8];
            i += 1;
        }
        pairs
    };
    let mut end = place.len();
    while number > 0 && end >= 2 {
        place[end - 2..end].copy_from_slice(&PAIRS[(number % 100) as usize]);
        number /= 100;
        end -= 2;
    }
    if number > 0 && end == 1 {
        place[0] = b'0' + (number % 10) as u8;
    }
}

/// Writes a number over another one.
#[inline]
fn overwrite_digits(place: &mut [u8], number: u64) {
    match place.split_last_chunk_mut::<8>() {
        Some((front, last)) => {
            *last = eight_digits(number % 100_000_000);
            front.fill(b'0');
            if number >= 100_000_000 {
                write_digits(front, number / 100_000_000);
            }
        }
        None => {
            place.fill(b'0');
            write_digits(place, number);
        }
    }
}

/// The digits of a number below 10^8, all at once: halves of four digits, then of two, then of one, each step in parallel lanes.
#[inline]
fn eight_digits(number: u64) -> [u8; 8] {
    let (high, low) = (number / 10_000, number % 10_000);
    let fours = high | low << 32;
    // n / 100 for n < 10^4, and n / 10 for n < 100, as multiplications that fit their lanes.
    let hundreds = ((fours * 10_486) >> 20) & 0x0000_007F_0000_007F;
    let twos = hundreds | (fours - hundreds * 100) << 16;
    let tens = ((twos * 103) >> 10) & 0x000F_000F_000F_000F;
    let ones = tens | (twos - tens * 10) << 8;
    (ones | 0x3030_3030_3030_3030).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Pick;
    use crate::wire::reply::whole;

    fn names() -> Names {
        Names { prefix: "key:".into(), digits: 12, ttl: Some((60, 60)), trace: None, constant: None }
    }

    /// `count` requests from keys in turn.
    fn written(protocol: Protocol, command: &Command, names: Names, sizes: &str, count: usize) -> Vec<u8> {
        let trace = names.trace.clone();
        let pick = if trace.is_some() { Pick::File("".into()) } else { Pick::Sequential };
        let space = Space { pick, count: Arc::new(AtomicU64::new(1000)), trace };
        let template = Template::new(protocol, command, &names).expect("a template");
        let mut draws = Draws::new(&space, (0, 1), Arc::new(names), Values::new(sizes.parse().expect("sizes"), 1), 1);
        let mut out = Vec::new();
        for _ in 0..count {
            if template.keyed && !template.inserts {
                draws.draw_key();
            }
            template.write(&mut out, &mut draws);
        }
        out
    }

    fn arguments(text: &str) -> Command {
        Command::Arguments(text.split(' ').map(str::to_string).collect())
    }

    fn resp(text: &str, names: Names, sizes: &str, count: usize) -> String {
        let bytes = written(Protocol::Resp2, &arguments(text), names, sizes, count);
        // It is well formed: as many requests as were written.
        let (mut rest, mut seen) = (&bytes[..], 0);
        while !rest.is_empty() {
            rest = &rest[whole(Protocol::Resp2, rest).expect("RESP").expect("complete").length..];
            seen += 1;
        }
        assert_eq!(seen, count);
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn a_frame_is_patched() {
        let constant = Names { constant: Some("abc".into()), ..names() };
        let two = resp("SET {key} {value}", constant, "3", 2);
        assert_eq!(
            two,
            "*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000000\r\n$3\r\nabc\r\n*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000001\r\n$3\r\nabc\r\n"
        );
        assert_eq!(resp("MGET {key} {key} {same} {same_id}", names(), "3", 1).matches("000000000000").count(), 1);
        let odd = Names { digits: 3, ..names() };
        assert!(resp("GET {id}", odd, "3", 1000).ends_with("$3\r\n999\r\n"));
    }

    #[test]
    fn steps_know_their_lengths() {
        for _ in 0..20 {
            resp("HSET h:{rand:0-1000} f{rand:5-5}x {value} {ttl} {stamp}", names(), "0-300", 50);
        }
        let text = resp("HSET h f{rand:5-5}x {ttl}", names(), "3", 1);
        assert_eq!(text, "*4\r\n$4\r\nHSET\r\n$1\r\nh\r\n$3\r\nf5x\r\n$2\r\n60\r\n");
        assert!(resp("PUBLISH c {stamp}", names(), "3", 1).contains("$16\r\n0000000000000000\r\n"));
        assert!(resp("PUBLISH c {stamp}", names(), "20", 1).contains("$20\r\n"));
    }

    #[test]
    fn new_keys_are_counted_up() {
        let text = resp("HSET {new} f {same_id}", names(), "3", 2);
        assert!(text.contains("key:000000001000") && text.contains("key:000000001001"), "{text}");
        assert_eq!(text.matches("000000001000").count(), 2);
    }

    #[test]
    fn keys_of_a_trace() {
        let trace = Some(Arc::new(vec![Box::from(&b"one"[..]), Box::from(&b"twenty"[..])]));
        let text = resp("GET {key}", Names { trace, ..names() }, "3", 3);
        assert_eq!(text.matches("$3\r\none\r\n").count(), 2);
        assert_eq!(text.matches("$6\r\ntwenty\r\n").count(), 1);
    }

    #[test]
    fn text_of_memcached() {
        let set = Command::Text(Protocol::Memcached, "set {key} 0 {ttl} {sized}\r\n".into());
        let text = String::from_utf8(written(Protocol::Memcached, &set, names(), "5", 1)).expect("text");
        let (head, value) = text.split_once("\r\n").expect("two lines");
        assert_eq!(head, "set key:000000000000 0 60 5");
        assert_eq!(value.len(), 7);
        assert!(Template::new(Protocol::Resp2, &set, &names()).is_err());
        assert!(Template::new(Protocol::Memcached, &arguments("LPUSH a b"), &names()).is_err());
    }

    #[test]
    fn wrong_holes_are_told() {
        for wrong in ["GET {keys}", "GET {", "GET }", "GET {rand:5-1}", "GET {rand:x}"] {
            assert!(Template::new(Protocol::Resp2, &arguments(wrong), &names()).is_err(), "{wrong}");
        }
        assert!(resp("SET {{key}} v", names(), "3", 1).contains("$5\r\n{key}\r\n"));
    }

    #[test]
    fn eight_digits_at_once() {
        for number in (0..20_000).chain((0..100_000_000).step_by(997)).chain([99_999_999, 12_345_678]) {
            assert_eq!(eight_digits(number), format!("{number:08}").as_bytes());
        }
        for number in [0, 7, 99_999_999, 100_000_000, 123_456_789_012, 999_999_999_999] {
            let mut place = *b"987654321098";
            overwrite_digits(&mut place, number);
            assert_eq!(&place[..], format!("{number:012}").as_bytes());
        }
    }

    #[test]
    fn requests_are_made_of_others() {
        let command = arguments("GET {key}");
        let space = Space { pick: Pick::Sequential, count: Arc::new(AtomicU64::new(1000)), trace: None };
        let template = Template::new(Protocol::Resp2, &command, &names()).expect("a template");
        let values = Values::new("3".parse().expect("sizes"), 1);
        let mut draws = Draws::new(&space, (0, 1), Arc::new(names()), values, 1);
        let mut out = b"*2\r\n$3\r\nGET\r\n$16\r\nkey:999999999999\r\n".repeat(3);
        assert!(template.rewrite(&mut out, &mut draws));
        let three = written(Protocol::Resp2, &command, names(), "3", 3);
        assert_eq!(out, three);
    }

    #[test]
    fn digits_of_any_width() {
        for (number, width, text) in [(0, 3, "000"), (7, 3, "007"), (123, 3, "123"), (9876, 5, "09876"), (10, 2, "10")]
        {
            let mut place = vec![b'0'; width];
            write_digits(&mut place, number);
            assert_eq!(place, text.as_bytes());
            place.fill(b'9');
            overwrite_digits(&mut place, number);
            assert_eq!(place, text.as_bytes());
            let mut out = Vec::new();
            decimal(&mut out, number);
            assert_eq!(out, number.to_string().as_bytes());
        }
    }
}
