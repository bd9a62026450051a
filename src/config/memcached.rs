//! memcached's command line, as `dolmen memcached ...` takes it: its options become directives. What comes behind the options of memcached may be
//! directives of our own (`--requirepass secret`), so everything can be set.
//!
//! Without options the server is as memcached is: port 11211 on all addresses, no port of Redis's, no protected mode, 1024 connections, no snapshots.

use super::cli::{Start, StartError, version};
use super::file::{self, DirectiveError};
use super::table::find;
use super::{Config, ValueError};

/// An option: its letter, its long name, and whether a value follows.
struct Option {
    letter: u8,
    name: &'static str,
    value: bool,
    what: What,
}

enum What {
    /// Sets a directive.
    Set(&'static str),
    /// Is of no effect here: why, for `--help`.
    Ignored(&'static str),
    Refused(&'static str),
    Special,
}

const fn option(letter: u8, name: &'static str, value: bool, what: What) -> Option {
    Option { letter, name, value, what }
}

const OPTIONS: &[Option] = &[
    option(b'p', "port", true, What::Special),
    option(b'l', "listen", true, What::Special),
    option(b's', "unix-socket", true, What::Set("memcached-unixsocket")),
    option(b'a', "unix-mask", true, What::Set("memcached-unixsocketperm")),
    option(b'U', "udp-port", true, What::Special),
    option(b'm', "memory-limit", true, What::Special),
    option(b'M', "disable-evictions", false, What::Special),
    option(b'c', "conn-limit", true, What::Set("maxclients")),
    option(b't', "threads", true, What::Set("workers")),
    option(b'I', "max-item-size", true, What::Set("memcached-max-item-size")),
    option(b'b', "listen-backlog", true, What::Set("tcp-backlog")),
    option(b'A', "enable-shutdown", false, What::Special),
    option(b'F', "disable-flush-all", false, What::Special),
    option(b'v', "verbose", false, What::Special),
    option(b'V', "version", false, What::Special),
    option(b'h', "help", false, What::Special),
    option(b'u', "user", true, What::Special),
    option(b'd', "daemon", false, What::Refused("a service manager starts it in the background")),
    option(b'S', "enable-sasl", false, What::Refused("--requirepass sets the password that SASL PLAIN asks for")),
    option(b'Y', "auth-file", true, What::Refused("--requirepass sets the password")),
    option(b'Z', "enable-ssl", false, What::Refused("there is no TLS")),
    option(b'e', "memory-file", true, What::Refused("--save keeps values across restarts")),
    option(b'P', "pidfile", true, What::Set("pidfile")),
    option(b'B', "protocol", true, What::Ignored("each request tells its protocol")),
    option(b'C', "disable-cas", false, What::Ignored("a value has a number only when somebody asks")),
    option(b'R', "max-reqs-per-event", true, What::Ignored("a turn is bounded by its time")),
    option(b'f', "slab-growth-factor", true, What::Ignored("classes of memory are fixed")),
    option(b'n', "slab-min-size", true, What::Ignored("classes of memory are fixed")),
    option(b'L', "enable-largepages", false, What::Ignored("huge pages are used anyway")),
    option(b'k', "lock-memory", false, What::Ignored("memory is not locked")),
    option(b'r', "enable-coredumps", false, What::Ignored("the limit of core dumps is left alone")),
    option(b'D', "stat-prefix", true, What::Ignored("there are no statistics by prefix")),
    option(b'X', "disable-dumping", false, What::Ignored("there is nothing to dump keys with")),
    option(b'W', "disable-watch", false, What::Ignored("there is no watch command")),
    option(b'o', "extended", true, What::Special),
];

/// Words behind `dolmen memcached`, with their positions in the command line.
pub(super) fn parse(words: &[(usize, &[u8])]) -> Result<Start, StartError> {
    let mut config = Config::default();
    let mut given = Given::default();
    for (name, value) in [
        ("port", "0"),
        ("memcached-port", "11211"),
        ("bind", "* -::*"),
        ("protected-mode", "no"),
        ("maxclients", "1024"),
        ("save", ""),
    ] {
        set(&mut config, 0, name, value.as_bytes())?;
    }
    set(&mut config, 0, "memcached-unixsocketperm", b"700")?;
    let mut rest = words.iter().copied();
    while let Some((number, word)) = rest.next() {
        let refused = |why: &str| refuse(number, word, why);
        if let Some(long) = word.strip_prefix(b"--") {
            let (name, attached) = match long.iter().position(|byte| *byte == b'=') {
                Some(at) => (&long[..at], Some(&long[at + 1..])),
                None => (long, None),
            };
            let Some(option) = OPTIONS.iter().find(|option| option.name.as_bytes() == name) else {
                // One of our own, with its value.
                if find(name).is_none() {
                    return Err(refused("no such option, and no directive"));
                }
                let value = attached.or_else(|| rest.next().map(|(_, value)| value));
                let Some(value) = value else { return Err(refused("a value is missing")) };
                let name = String::from_utf8_lossy(name);
                set(&mut config, number, &name, value)?;
                given.own = true;
                continue;
            };
            let value =
                if option.value { attached.or_else(|| rest.next().map(|(_, value)| value)) } else { Some(&b""[..]) };
            let Some(value) = value else { return Err(refused("a value is missing")) };
            if let Some(text) = apply(&mut config, &mut given, option, (number, word), value)? {
                return Ok(Start::Print(text));
            }
            continue;
        }
        let Some(mut letters) = word.strip_prefix(b"-").filter(|letters| !letters.is_empty()) else {
            return Err(refused("an option is expected"));
        };
        while let [letter, behind @ ..] = letters {
            letters = behind;
            let Some(option) = OPTIONS.iter().find(|option| option.letter == *letter) else {
                return Err(refused("no such option"));
            };
            let value = match (option.value, behind.is_empty()) {
                (false, _) => Some(&b""[..]),
                (true, false) => Some(std::mem::take(&mut letters)),
                (true, true) => rest.next().map(|(_, value)| value),
            };
            let Some(value) = value else { return Err(refused("a value is missing")) };
            if let Some(text) = apply(&mut config, &mut given, option, (number, word), value)? {
                return Ok(Start::Print(text));
            }
        }
    }
    // A Unix socket takes the place of the port, unless one is named.
    if config.memcached_unixsocket.is_some() && !given.port {
        set(&mut config, 0, "memcached-port", b"0")?;
    }
    given.limit_memory(&mut config)?;
    Ok(Start::Serve(Box::new(config)))
}

/// What options have said that is put together at the end.
#[derive(Default)]
struct Given {
    port: bool,
    own: bool,
    addresses: Vec<String>,
    verbose: usize,
    memory_mb: std::option::Option<(usize, u64)>,
    keeps_all: bool,
}

impl Given {
    /// `-m` and `-M`.
    fn limit_memory(&self, config: &mut Config) -> Result<(), StartError> {
        let Some((number, mb)) = self.memory_mb else { return Ok(()) };
        set(config, number, "maxmemory", format!("{mb}mb").as_bytes())?;
        let policy: &[u8] = if self.keeps_all { b"noeviction" } else { b"allkeys-smart" };
        set(config, number, "maxmemory-policy", policy)
    }
}

fn refuse(number: usize, word: &[u8], why: &str) -> StartError {
    let why = DirectiveError::Value(ValueError::Refused(why.to_owned().into()));
    StartError::Argument { number, text: String::from_utf8_lossy(word).into_owned(), why }
}

fn set(config: &mut Config, number: usize, name: &str, value: &[u8]) -> Result<(), StartError> {
    let values = if name == "bind" {
        value.split(|byte| *byte == b' ').map(<[u8]>::to_vec).collect()
    } else {
        vec![value.to_vec()]
    };
    file::apply(config, name.as_bytes(), &values).map_err(|why| StartError::Argument {
        number,
        text: format!("{name} {}", String::from_utf8_lossy(value)),
        why,
    })
}

/// Applies an option; `Some`: what to print instead of serving.
fn apply(
    config: &mut Config,
    given: &mut Given,
    option: &Option,
    (number, word): (usize, &[u8]),
    value: &[u8],
) -> Result<std::option::Option<String>, StartError> {
    let text = String::from_utf8_lossy(value).into_owned();
    match (&option.what, option.letter) {
        (What::Set(name), b'I') => {
            // Here `m` is a binary million, for directives it is a decimal one.
            let unit = if text.ends_with(['k', 'K', 'm', 'M', 'g', 'G']) { "b" } else { "" };
            set(config, number, name, format!("{text}{unit}").as_bytes())?;
        }
        (What::Set(name), _) => set(config, number, name, value)?,
        (What::Ignored(_), _) => {}
        (What::Refused(why), _) => return Err(refuse(number, word, why)),
        (What::Special, b'p') => {
            given.port = true;
            set(config, number, "memcached-port", value)?;
        }
        (What::Special, b'l') => {
            for address in text.split(',').filter(|address| !address.is_empty()) {
                let (host, port) = split_address(address);
                if let Some(port) = port {
                    given.port = true;
                    set(config, number, "memcached-port", port.as_bytes())?;
                }
                given.addresses.push(host.to_owned());
            }
            set(config, number, "bind", given.addresses.join(" ").as_bytes())?;
        }
        (What::Special, b'U') if text == "0" => {}
        (What::Special, b'U') => return Err(refuse(number, word, "there is no UDP: only -U 0 is accepted")),
        (What::Special, b'm') => match text.parse() {
            Ok(mb) => given.memory_mb = Some((number, mb)),
            Err(_) => return Err(refuse(number, word, "a number of megabytes is expected")),
        },
        (What::Special, b'M') => given.keeps_all = true,
        (What::Special, b'A') => set(config, number, "memcached-shutdown", b"yes")?,
        (What::Special, b'F') => set(config, number, "memcached-flush-all", b"no")?,
        (What::Special, b'v') => {
            given.verbose += 1;
            let level: &[u8] = if given.verbose == 1 { b"verbose" } else { b"debug" };
            set(config, number, "loglevel", level)?;
        }
        // The others concern what is not there.
        (What::Special, b'o') => {
            for word in text.split(',') {
                if let Some(seconds) = word.strip_prefix("idle_timeout=") {
                    set(config, number, "timeout", seconds.as_bytes())?;
                }
            }
        }
        (What::Special, b'u') => config.user = Some(text),
        (What::Special, b'V') => return Ok(Some(version())),
        (What::Special, _) => return Ok(Some(help())),
    }
    Ok(None)
}

/// The host of an address, and its port if there is one.
fn split_address(address: &str) -> (&str, std::option::Option<&str>) {
    if let Some((host, port)) = address.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return (host, port.strip_prefix(':'));
    }
    match address.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') => (host, Some(port)),
        _ => (address, None),
    }
}

fn help() -> String {
    let mut text = String::from(
        "Usage: dolmen memcached [options of memcached] [--directive value ...]\n\nServes memcached's protocol on port 11211, as memcached would.\n\n",
    );
    for Option { letter, name, value, what } in OPTIONS {
        let value = if *value { " <value>" } else { "" };
        let about = match what {
            What::Set(directive) => format!("as --{directive}"),
            What::Ignored(why) => format!("accepted without effect: {why}"),
            What::Refused(why) => format!("not accepted: {why}"),
            What::Special => match letter {
                b'p' => "TCP port, 0 = none (11211)".into(),
                b'l' => "addresses to listen on, with commas between them (all)".into(),
                b'U' => "only 0 is accepted: there is no UDP".into(),
                b'm' => "limit of memory in megabytes, where the server has one to set".into(),
                b'M' => "with that limit, refuse what goes beyond it".into(),
                b'A' => "clients may end the server by shutdown".into(),
                b'F' => "clients may not use flush_all".into(),
                b'v' => "log more; twice, even more".into(),
                b'o' => "of these words idle_timeout=<seconds> has an effect".into(),
                b'u' => "the user to become, if started as root".into(),
                b'V' => "print the version".into(),
                _ => "print this".into(),
            },
        };
        text.push_str(&format!("  -{}, --{name}{value}\n      {about}\n", char::from(*letter)));
    }
    text
}
