//! Bytes on the wire: requests are built from templates ([`template`]), replies are recognised by [`reply`]. Sans I/O.

pub mod reply;
pub mod template;

/// What a server is spoken to in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Resp2,
    Resp3,
    Memcached,
}

impl Protocol {
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Resp2 => "RESP2",
            Protocol::Resp3 => "RESP3",
            Protocol::Memcached => "memcached text",
        }
    }

    pub fn is_resp(self) -> bool {
        self != Protocol::Memcached
    }
}

/// A request of these arguments in RESP.
pub fn resp_request(arguments: &[&[u8]]) -> Vec<u8> {
    let mut request = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        request.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        request.extend_from_slice(argument);
        request.extend_from_slice(b"\r\n");
    }
    request
}
