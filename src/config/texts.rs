//! How values of some directives are read and written: those that are no plain number, switch or word.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::unistd::{AccessFlags, access};

use super::value::{self, ValueError};
use super::{BindAddr, Config, OutputLimit, OutputLimits, SavePoint};
use crate::base::collate::Collation;
use crate::base::cpu;

const BIND_ADDRS_MAX: usize = 16;

pub(super) fn save_points_text(config: &Config) -> Vec<u8> {
    let text = |point: &SavePoint| format!("{} {}", point.seconds, point.changes);
    config.save_points.points().iter().map(text).collect::<Vec<_>>().join(" ").into_bytes()
}

pub(super) fn set_save_points(config: &mut Config, words: &[&[u8]]) -> Result<(), ValueError> {
    let refused = || ValueError::Refused("Invalid save parameters".into());
    let number = |word: &[u8], min: u64| {
        let number = value::integer(word).ok().and_then(|number| u64::try_from(number).ok());
        number.filter(|number| *number >= min).ok_or_else(refused)
    };
    let (pairs, rest) = words.as_chunks::<2>();
    let point =
        |[seconds, changes]: &[&[u8]; 2]| Ok(SavePoint { seconds: number(seconds, 1)?, changes: number(changes, 0)? });
    let points = pairs.iter().map(point).collect::<Result<Vec<_>, _>>()?;
    // A word by itself is none, but for the empty one.
    if !matches!(rest, [] | [b""]) || (!rest.is_empty() && !points.is_empty()) {
        return Err(refused());
    }
    config.save_points.add(points);
    Ok(())
}

pub(super) fn set_dbfilename(config: &mut Config, word: &[u8]) -> Result<(), ValueError> {
    let refused = |why: &'static str| ValueError::Refused(why.into());
    if word.contains(&b'/') {
        return Err(refused("dbfilename can't be a path, just a filename"));
    }
    let name = std::str::from_utf8(word).ok().filter(|name| !name.is_empty() && !name.contains('\0'));
    config.dbfilename = name.ok_or_else(|| refused("dbfilename must be a name"))?.to_owned();
    Ok(())
}

pub(super) fn set_locale_collate(config: &mut Config, word: &[u8]) -> Result<(), ValueError> {
    let collation = std::str::from_utf8(word).ok().and_then(Collation::named);
    config.locale_collate = collation.ok_or(ValueError::Refused("Invalid locale name".into()))?;
    Ok(())
}

pub(super) fn set_cpu_list(config: &mut Config, word: &[u8]) -> Result<(), ValueError> {
    let refused = |why: String| ValueError::Refused(format!("cpu-list: {why}").into());
    let cpus = match word {
        b"" => Vec::new(),
        word => cpu::parse_cpu_list(&String::from_utf8_lossy(word)).map_err(refused)?,
    };
    let online = cpu::online();
    if let Some(missing) = cpus.iter().find(|cpu| !online.contains(cpu)) {
        return Err(refused(format!("this machine has no CPU {missing}, it has {}", cpu::cpu_list_text(&online))));
    }
    config.cpu_list = cpus;
    Ok(())
}

pub(super) fn bind_text(addresses: &[BindAddr]) -> Vec<u8> {
    let texts: Vec<String> =
        addresses.iter().map(|a| format!("{}{}", if a.optional { "-" } else { "" }, a.host)).collect();
    texts.join(" ").into_bytes()
}

pub(super) fn bind_addrs(words: &[&[u8]]) -> Result<Vec<BindAddr>, ValueError> {
    if words.len() > BIND_ADDRS_MAX {
        return Err(ValueError::BindCount);
    }
    let address = |word: &&[u8]| {
        let (optional, host) = match word.strip_prefix(b"-") {
            Some(host) => (true, host),
            None => (false, *word),
        };
        match std::str::from_utf8(host) {
            Ok(host) if !host.is_empty() && !host.contains([' ', '\0']) => {
                Ok(BindAddr { optional, host: host.to_owned() })
            }
            _ => Err(ValueError::Refused(format!("'{}' is not an address", String::from_utf8_lossy(word)).into())),
        }
    };
    words.iter().map(address).collect()
}

pub(super) fn path_text(path: Option<&Path>) -> Vec<u8> {
    path.map_or_else(Vec::new, |path| path.as_os_str().as_bytes().to_vec())
}

/// A path, or none for an empty word.
pub(super) fn optional_path(word: &[u8]) -> Result<Option<PathBuf>, ValueError> {
    if word.contains(&0) {
        return Err(ValueError::Refused("a path must not contain a NUL byte".into()));
    }
    Ok((!word.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(word))))
}

/// Stored as an absolute path, so that it means the same after the process has changed its directory.
pub(super) fn set_dir(config: &mut Config, word: &[u8]) -> Result<(), ValueError> {
    let path = optional_path(word)?.ok_or(ValueError::Os(Errno::ENOENT))?;
    let errno = |error: std::io::Error| ValueError::Os(error.raw_os_error().map_or(Errno::EIO, Errno::from_raw));
    let path = path.canonicalize().map_err(errno)?;
    if !path.metadata().map_err(errno)?.is_dir() {
        return Err(ValueError::Os(Errno::ENOTDIR));
    }
    access(&path, AccessFlags::X_OK).map_err(ValueError::Os)?;
    config.dir = path;
    Ok(())
}

pub(super) fn output_limits_text(limits: &OutputLimits) -> Vec<u8> {
    // "slave" is what Redis prints, whatever name was given.
    let text = |class: &str, l: &OutputLimit| format!("{class} {} {} {}", l.hard_bytes, l.soft_bytes, l.soft_s);
    [text("normal", &limits.normal), text("slave", &limits.replica), text("pubsub", &limits.pubsub)]
        .join(" ")
        .into_bytes()
}

/// `limits` with the classes that `words` name replaced.
pub(super) fn output_limits(mut limits: OutputLimits, words: &[&[u8]]) -> Result<OutputLimits, ValueError> {
    let (rows, rest) = words.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(ValueError::BufferArity);
    }
    for [class, hard, soft, seconds] in rows {
        let limit = match class.to_ascii_lowercase().as_slice() {
            b"normal" => &mut limits.normal,
            b"slave" | b"replica" => &mut limits.replica,
            b"pubsub" => &mut limits.pubsub,
            _ => return Err(ValueError::BufferClass),
        };
        let bytes = |word| value::memory(word).map_err(|_| ValueError::BufferLimit);
        let soft_s = value::integer(seconds).ok().and_then(|s| u64::try_from(s).ok()).ok_or(ValueError::BufferLimit)?;
        *limit = OutputLimit { hard_bytes: bytes(hard)?, soft_bytes: bytes(soft)?, soft_s };
    }
    Ok(limits)
}
