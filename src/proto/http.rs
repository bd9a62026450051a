//! Heads of HTTP/1.1 requests, and of the answers to them, sans I/O: as much as a server of figures needs. Lines are parsed by `httparse`.
//!
//! No request may have a body, as none has a meaning; one that announces a body is refused, and so is a head above [`HEAD_BYTES_MAX`].

/// Longest head of a request, with its empty line.
pub const HEAD_BYTES_MAX: usize = 8 * 1024;
/// As many header fields as a request may have.
const FIELDS_MAX: usize = 64;

/// What was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    Get,
    /// The head of the answer only.
    Head,
    /// One that nothing here knows.
    Other,
}

/// A request without a body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    pub method: Method,
    /// Without what stands behind a question mark.
    pub path: String,
    /// The connection stays open behind the answer.
    pub keeps_alive: bool,
}

/// How an answer begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    Ok,
    BadRequest,
    NotFound,
    MethodNotAllowed,
    ContentTooLarge,
    FieldsTooLarge,
    Unavailable,
    VersionNotSupported,
}

impl Status {
    const fn line(self) -> &'static str {
        match self {
            Status::Ok => "200 OK",
            Status::BadRequest => "400 Bad Request",
            Status::NotFound => "404 Not Found",
            Status::MethodNotAllowed => "405 Method Not Allowed",
            Status::ContentTooLarge => "413 Content Too Large",
            Status::FieldsTooLarge => "431 Request Header Fields Too Large",
            Status::Unavailable => "503 Service Unavailable",
            Status::VersionNotSupported => "505 HTTP Version Not Supported",
        }
    }

    /// What it says, as the text of an answer.
    #[must_use]
    pub fn text(self) -> String {
        format!("{}\n", self.line())
    }
}

/// What the bytes received so far are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Parsed {
    /// The beginning of a request.
    Incomplete,
    /// A request, and where it ends.
    Request(Request, usize),
    /// It is answered so, and the connection closed.
    Refused(Status),
}

/// Looks for a request at the beginning of `bytes`.
#[must_use]
pub fn parse(bytes: &[u8]) -> Parsed {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut request = httparse::Request::new(&mut fields);
    // Whatever lies beyond the limit is not looked at, so its answer does not depend on how much has come.
    let head = &bytes[..bytes.len().min(HEAD_BYTES_MAX)];
    let end = match request.parse(head) {
        Ok(httparse::Status::Complete(end)) => end,
        Ok(httparse::Status::Partial) if bytes.len() >= HEAD_BYTES_MAX => {
            return Parsed::Refused(Status::FieldsTooLarge);
        }
        Ok(httparse::Status::Partial) => return Parsed::Incomplete,
        Err(httparse::Error::TooManyHeaders) => return Parsed::Refused(Status::FieldsTooLarge),
        Err(httparse::Error::Version) => return Parsed::Refused(Status::VersionNotSupported),
        Err(_) => return Parsed::Refused(Status::BadRequest),
    };
    let is_1_1 = request.version == Some(1);
    let mut keeps_alive = is_1_1;
    let mut hosts = 0;
    for field in request.headers.iter() {
        let has =
            |token: &[u8]| field.value.split(|b| *b == b',').any(|word| word.trim_ascii().eq_ignore_ascii_case(token));
        if field.name.eq_ignore_ascii_case("connection") {
            keeps_alive = (keeps_alive || has(b"keep-alive")) && !has(b"close");
        } else if field.name.eq_ignore_ascii_case("host") {
            hosts += 1;
        } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
            return Parsed::Refused(Status::ContentTooLarge);
        } else if field.name.eq_ignore_ascii_case("content-length") {
            match field.value.trim_ascii() {
                b"0" => {}
                length if !length.is_empty() && length.iter().all(u8::is_ascii_digit) => {
                    return Parsed::Refused(Status::ContentTooLarge);
                }
                _ => return Parsed::Refused(Status::BadRequest),
            }
        }
    }
    // RFC 9112, 3.2: a request of HTTP/1.1 names its host, once.
    if hosts > 1 || is_1_1 && hosts == 0 {
        return Parsed::Refused(Status::BadRequest);
    }
    let method = match request.method {
        Some("GET") => Method::Get,
        Some("HEAD") => Method::Head,
        _ => Method::Other,
    };
    let target = request.path.unwrap_or_default();
    // The absolute form, as proxies send it, names the host in front of the path.
    let target =
        target.strip_prefix("http://").map_or(target, |rest| rest.find('/').map_or("/", |slash| &rest[slash..]));
    let path = target.split('?').next().unwrap_or_default().to_owned();
    Parsed::Request(Request { method, path, keeps_alive }, end)
}

/// The head of an answer.
#[must_use]
pub fn head(status: Status, content_type: &str, body_bytes: usize, keeps_alive: bool) -> String {
    let allow = if status == Status::MethodNotAllowed { "Allow: GET, HEAD\r\n" } else { "" };
    let connection = if keeps_alive { "keep-alive" } else { "close" };
    format!(
        "HTTP/1.1 {}\r\nContent-Type: {content_type}\r\nContent-Length: {body_bytes}\r\nCache-Control: no-store\r\n{allow}Connection: {connection}\r\n\r\n",
        status.line()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request(text: &str) -> Parsed {
        parse(text.as_bytes())
    }

    #[test]
    fn requests() {
        let of = |method, path: &str, keeps_alive| Request { method, path: path.into(), keeps_alive };
        for (text, expected) in [
            ("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", of(Method::Get, "/metrics", true)),
            ("HEAD /metrics?x=1&y HTTP/1.1\r\nhost:a\r\n\r\n", of(Method::Head, "/metrics", true)),
            ("GET / HTTP/1.0\r\n\r\n", of(Method::Get, "/", false)),
            ("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", of(Method::Get, "/", true)),
            ("GET / HTTP/1.1\r\nHost: a\r\nConnection: x, Close\r\n\r\n", of(Method::Get, "/", false)),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", of(Method::Other, "/", true)),
            ("GET http://a.b:1/healthz HTTP/1.1\r\nHost: a\r\n\r\n", of(Method::Get, "/healthz", true)),
            ("GET http://a HTTP/1.1\r\nHost: a\r\n\r\n", of(Method::Get, "/", true)),
        ] {
            assert_eq!(request(text), Parsed::Request(expected, text.len()), "{text:?}");
        }
    }

    #[test]
    fn refusals() {
        for (text, status) in [
            ("GET / HTTP/1.1\r\n\r\n", Status::BadRequest),
            ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", Status::BadRequest),
            ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", Status::VersionNotSupported),
            ("GET\r\n\r\n", Status::BadRequest),
            ("*1\r\n$4\r\nPING\r\n", Status::BadRequest),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", Status::ContentTooLarge),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n", Status::BadRequest),
            ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", Status::ContentTooLarge),
        ] {
            assert_eq!(request(text), Parsed::Refused(status), "{text:?}");
        }
        let long = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}", "x".repeat(HEAD_BYTES_MAX));
        assert_eq!(request(&long), Parsed::Refused(Status::FieldsTooLarge));
        let many = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(FIELDS_MAX));
        assert_eq!(request(&many), Parsed::Refused(Status::FieldsTooLarge));
    }

    proptest! {
        /// A request is the same however much of it has come before, and nothing is made of less.
        #[test]
        fn cut_anywhere(path in "/[a-z]{0,20}", fields in proptest::collection::vec(("[A-Za-z-]{1,10}x", "[ -~]{0,30}"), 0..8)) {
            let fields: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            let text = format!("GET {path} HTTP/1.1\r\nHost: here\r\n{fields}\r\n");
            let expected = Request { method: Method::Get, path, keeps_alive: true };
            for cut in 0..text.len() {
                prop_assert_eq!(request(&text[..cut]), Parsed::Incomplete);
            }
            prop_assert_eq!(request(&(text.clone() + "GET")), Parsed::Request(expected, text.len()));
        }

        /// Whatever comes, something is made of it.
        #[test]
        fn anything(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let _ = parse(&bytes);
        }
    }
}
