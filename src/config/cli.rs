//! Redis's command line: `dolmen [/path/to/redis.conf] [--directive value ...]... [-]`, and what it answers itself.
//!
//! The grammar is parsed here, not by an argument parser: a directive takes every word up to the next one that begins with `--`, so
//! values such as `-::1` and `-1` are values; its first word is a value whatever it begins with (`--requirepass --x`); one word may hold
//! name and value (`"--port 7000"`); names are in either case; and `--save` may have no value at all. The table of directives is the only
//! list of options. Precedence: file, then standard input, then command line; of repeated directives the last.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::file::{self, DirectiveError};
use super::table::{DIRECTIVES, Group};
use super::{Config, words};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What the command line asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Start {
    /// Serve with this configuration.
    Serve(Box<Config>),
    /// Print this on standard output and end with success: `--help` or `--version`.
    Print(String),
}

/// Why the server cannot start. Displays as the lines to print on standard error.
#[derive(Debug)]
pub enum StartError {
    /// `None` = standard input.
    Read { path: Option<PathBuf>, why: io::Error },
    /// A line of a file, or of standard input.
    Line {
        path: Option<PathBuf>,
        /// From 1.
        number: usize,
        text: String,
        why: DirectiveError,
    },
    Argument {
        /// Position of the word in the command line, from 1.
        number: usize,
        /// That word and its values, quoted.
        text: String,
        why: DirectiveError,
    },
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |path: &Option<PathBuf>| match path {
            Some(path) => format!("'{}'", path.display()),
            None => "from standard input".to_owned(),
        };
        match self {
            StartError::Read { path, why } => {
                // The bare text of the system, as Redis prints it, where there is one.
                let why =
                    why.raw_os_error().map_or(why.to_string(), |e| nix::errno::Errno::from_raw(e).desc().to_owned());
                write!(f, "Fatal error, can't open config file {}: {why}", name(path))
            }
            StartError::Line { path, number, text, why } => {
                writeln!(f, "*** FATAL CONFIG FILE ERROR (Dolmen {VERSION}) ***")?;
                writeln!(f, "Reading the configuration file {}, at line {number}", name(path))?;
                write!(f, ">>> '{text}'\n{why}")
            }
            StartError::Argument { number, text, why } => {
                writeln!(f, "*** FATAL COMMAND LINE ERROR (Dolmen {VERSION}) ***")?;
                writeln!(f, "Reading the command line, at argument {number}")?;
                write!(f, ">>> '{text}'\n{why}")
            }
        }
    }
}

impl std::error::Error for StartError {}

/// Reads the command line, the program's name first as [`std::env::args_os`] gives it, and the files it names.
pub fn parse_command_line(args: impl Iterator<Item = OsString>) -> Result<Start, StartError> {
    parse(args, &mut io::stdin().lock())
}

pub(super) fn parse(args: impl Iterator<Item = OsString>, stdin: &mut dyn Read) -> Result<Start, StartError> {
    let words: Vec<Vec<u8>> = args.skip(1).map(OsString::into_vec).collect();
    match words.first().map(Vec::as_slice) {
        Some(b"-v" | b"--version") => return Ok(Start::Print(version())),
        Some(b"-h" | b"--help") => return Ok(Start::Print(help())),
        Some(b"memcached") => {
            let numbered: Vec<(usize, &[u8])> =
                words.iter().enumerate().skip(1).map(|(index, word)| (index + 1, word.as_slice())).collect();
            return super::memcached::parse(&numbered);
        }
        _ => {}
    }
    let path = words.first().filter(|word| word.first() != Some(&b'-')).map(|word| Path::new(OsStr::from_bytes(word)));
    let mut numbered: Vec<(usize, &[u8])> =
        words.iter().enumerate().map(|(index, word)| (index + 1, word.as_slice())).collect();
    if path.is_some() {
        numbered.remove(0);
    }
    let from_stdin = take_dash(&mut numbered);
    // Errors of the command line come before anything is read: a help text must not wait for standard input.
    let given = match directives(&numbered)? {
        Given::Directives(given) => given,
        Given::Print(text) => return Ok(Start::Print(text)),
    };

    let mut config = Config::default();
    if let Some(path) = path {
        // A path that cannot be made absolute (empty) fails to open next, with its own error.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let text = File::open(&path).and_then(|mut file| file::read(&mut file));
        apply_source(&mut config, Some(&path), text)?;
        config.config_file = Some(path);
    }
    if from_stdin {
        let text = file::read(stdin);
        apply_source(&mut config, None, text)?;
    }
    for directive in given {
        file::apply(&mut config, &directive.name, &directive.values).map_err(|why| directive.error(why))?;
    }
    Ok(Start::Serve(Box::new(config)))
}

fn apply_source(config: &mut Config, path: Option<&Path>, text: io::Result<Vec<u8>>) -> Result<(), StartError> {
    let path = || path.map(Path::to_owned);
    let text = text.map_err(|why| StartError::Read { path: path(), why })?;
    file::apply_text(config, &text).map_err(|error| StartError::Line {
        path: path(),
        number: error.number,
        text: error.text,
        why: error.why,
    })
}

/// Removes the `-` that asks for standard input: the very first word, or the last.
fn take_dash(words: &mut Vec<(usize, &[u8])>) -> bool {
    let before = words.len();
    let last = words.last().map(|&(number, _)| number);
    words.retain(|&(number, word)| !(word == b"-" && (number == 1 || Some(number) == last)));
    words.len() < before
}

/// One directive of the command line.
#[derive(Debug)]
struct GivenDirective {
    /// Position of its first word.
    number: usize,
    name: Vec<u8>,
    values: Vec<Vec<u8>>,
}

impl GivenDirective {
    fn error(&self, why: DirectiveError) -> StartError {
        let mut text = format!("--{}", String::from_utf8_lossy(&self.name));
        for value in &self.values {
            text.push(' ');
            text.push_str(&words::quote(value));
        }
        StartError::Argument { number: self.number, text, why }
    }
}

enum Given {
    Directives(Vec<GivenDirective>),
    Print(String),
}

/// Words to directives.
fn directives(numbered: &[(usize, &[u8])]) -> Result<Given, StartError> {
    let mut given: Vec<GivenDirective> = Vec::new();
    // Whether the last directive has its first value, so that a word with `--` begins another.
    let mut complete = true;
    let mut rest = numbered.iter().peekable();
    while let Some(&(number, word)) = rest.next() {
        let option = word.strip_prefix(b"--").filter(|_| complete);
        let Some(option) = option else {
            let Some(directive) = given.last_mut() else {
                let text = words::quote(word);
                return Err(StartError::Argument { number, text, why: DirectiveError::Stray });
            };
            directive.values.push(word.to_vec());
            complete = true;
            continue;
        };
        match option {
            b"help" => return Ok(Given::Print(help())),
            b"version" => return Ok(Given::Print(version())),
            _ => {}
        }
        let refused = |why| StartError::Argument { number, text: String::from_utf8_lossy(word).into_owned(), why };
        let mut parts = words::split(option).ok_or_else(|| refused(DirectiveError::Quotes))?.into_iter();
        let name = parts.next().ok_or_else(|| refused(DirectiveError::Stray))?;
        let values: Vec<Vec<u8>> = parts.collect();
        // Scripts that build the line from an empty variable write `--save` with nothing behind it.
        let may_be_bare =
            name.eq_ignore_ascii_case(b"save") && rest.peek().is_none_or(|(_, next)| next.starts_with(b"--"));
        complete = !values.is_empty() || may_be_bare;
        given.push(GivenDirective { number, name, values });
    }
    Ok(Given::Directives(given))
}

pub(super) fn version() -> String {
    format!("Dolmen server v={VERSION} bits={}\n", usize::BITS)
}

fn help() -> String {
    let mut text = format!(
        "Dolmen {VERSION}: an in-memory key-value server that speaks the Redis protocol.

Usage: dolmen [/path/to/redis.conf] [--directive value ...]... [-]
       dolmen -            reads the configuration from standard input
       dolmen memcached    serves memcached's protocol, with its options: see dolmen memcached -h
       dolmen --help, -h
       dolmen --version, -v

Examples:
       dolmen --port 7000
       dolmen /etc/redis/redis.conf --loglevel verbose
       echo 'maxclients 100' | dolmen - --bind 127.0.0.1 -::1

The command line overrides the file; the last of repeated directives counts. Sizes take b, k, kb, m, mb, g, gb.
"
    );
    for group in Group::ALL {
        text.push_str(&format!("\n{}:\n", group.title()));
        for directive in DIRECTIVES.iter().filter(|directive| directive.group == group) {
            const SUMMARY_COLUMN: usize = 34;
            let left = format!("  --{} {}", directive.name, directive.value_form());
            let default = if directive.default.is_empty() { "\"\"" } else { directive.default };
            let gap = if left.len() + 2 > SUMMARY_COLUMN {
                format!("\n{}", " ".repeat(SUMMARY_COLUMN))
            } else {
                " ".repeat(SUMMARY_COLUMN - left.len())
            };
            text.push_str(&format!("{left}{gap}{} [default: {default}]\n", directive.summary));
        }
    }
    text
}
