//! `redis.conf`: one directive a line, Redis's quoting, `#` at the start of a line for comments.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::table;
use super::value::ValueError;
use super::{Config, words};
use crate::base::glob::glob_matches;

/// Longest configuration read, in bytes: a device or a mistaken path must not fill the memory.
const TEXT_BYTES_MAX: u64 = 16 << 20;

/// Why one directive was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DirectiveError {
    Quotes,
    Unknown {
        name: String,
        closest: Option<&'static str>,
    },
    /// `include` of a file that cannot be read.
    Include {
        path: PathBuf,
        why: String,
    },
    /// A line of an included file.
    Included {
        path: PathBuf,
        number: usize,
        text: String,
        why: Box<DirectiveError>,
    },
    /// A word of the command line that no directive precedes.
    Stray,
    Value(ValueError),
}

impl fmt::Display for DirectiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DirectiveError::Quotes => f.write_str("Unbalanced quotes in configuration line"),
            DirectiveError::Unknown { name, closest } => {
                write!(f, "Bad directive or wrong number of arguments: there is no '{name}'")?;
                match closest {
                    Some(closest) => write!(f, ", did you mean '{closest}'?"),
                    None => Ok(()),
                }
            }
            DirectiveError::Include { path, why } => {
                write!(f, "Fatal error, can't open config file '{}': {why}", path.display())
            }
            DirectiveError::Included { path, number, text, why } => {
                write!(f, "in '{}', at line {number}\n>>> '{text}'\n{why}", path.display())
            }
            DirectiveError::Stray => f.write_str("a value without a directive: expected --directive"),
            DirectiveError::Value(error) => error.fmt(f),
        }
    }
}

/// The line that was refused.
#[derive(Debug)]
pub(super) struct LineError {
    /// From 1.
    pub number: usize,
    /// Without the blanks around it.
    pub text: String,
    pub why: DirectiveError,
}

/// Reads everything, up to a limit.
pub(super) fn read(source: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    source.take(TEXT_BYTES_MAX + 1).read_to_end(&mut text)?;
    if text.len() as u64 > TEXT_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "longer than a configuration can be"));
    }
    Ok(text)
}

/// Applies every line of `text` in order; a later directive replaces an earlier one.
pub(super) fn apply_text(config: &mut Config, text: &[u8]) -> Result<(), LineError> {
    for (index, line) in text.split(|&b| b == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.first() == Some(&b'#') {
            continue;
        }
        let applied = match words::split(line) {
            None => Err(DirectiveError::Quotes),
            Some(words) => match words.split_first() {
                None => Ok(()),
                Some((name, values)) => apply(config, name, values),
            },
        };
        applied.map_err(|why| LineError {
            number: index + 1,
            text: String::from_utf8_lossy(line).into_owned(),
            why,
        })?;
    }
    Ok(())
}

/// Applies one directive.
pub(super) fn apply(config: &mut Config, name: &[u8], values: &[Vec<u8>]) -> Result<(), DirectiveError> {
    if name.eq_ignore_ascii_case(b"include") {
        return values.iter().try_for_each(|pattern| include(config, pattern));
    }
    if name.eq_ignore_ascii_case(b"user") {
        // Not a setting: each adds one.
        config.users.push(values.to_vec());
        return Ok(());
    }
    if name.eq_ignore_ascii_case(b"rename-command") {
        let [old, new] = values else { return Err(DirectiveError::Value(ValueError::Arity)) };
        config.renames.push([old.clone(), new.clone()]);
        return Ok(());
    }
    let Some(directive) = table::find(name) else {
        let closest = super::spelling::closest(name);
        return Err(DirectiveError::Unknown { name: String::from_utf8_lossy(name).into_owned(), closest });
    };
    let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
    directive.apply(config, &values).map_err(DirectiveError::Value)
}

/// Files that include each other go no deeper.
const DEPTH_MAX: u32 = 16;

/// Applies the files that a pattern names, in the order of their names. A pattern that names none is no error, a path is.
fn include(config: &mut Config, pattern: &[u8]) -> Result<(), DirectiveError> {
    let pattern = Path::new(OsStr::from_bytes(pattern));
    let failed = |why: &str| DirectiveError::Include { path: pattern.to_owned(), why: why.into() };
    let name = pattern.file_name().ok_or_else(|| failed("no file"))?.as_bytes();
    let paths = if memchr::memchr3(b'*', b'?', b'[', name).is_some() {
        let folder = pattern.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries
            .filter(|entry| glob_matches(name, entry.file_name().as_bytes(), false))
            .map(|entry| folder.join(entry.file_name()))
            .collect();
        paths.sort();
        paths
    } else {
        vec![pattern.to_owned()]
    };
    if config.included >= DEPTH_MAX {
        return Err(failed("files include each other"));
    }
    for path in paths {
        let text = File::open(&path).and_then(|mut file| read(&mut file));
        let text = text.map_err(|error| DirectiveError::Include { path: path.clone(), why: error.to_string() })?;
        config.included += 1;
        let applied = apply_text(config, &text);
        config.included -= 1;
        applied.map_err(|LineError { number, text, why }| DirectiveError::Included {
            path,
            number,
            text,
            why: Box::new(why),
        })?;
    }
    Ok(())
}
