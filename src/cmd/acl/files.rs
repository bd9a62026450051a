//! Users from the configuration and from the file that `aclfile` names, and back into it.

use super::{CATALOGUE, spread};
use crate::acl::{Acl, LoadError, Users};
use crate::cmd::ctx::{Args, Ctx, Outcome};
use crate::cmd::elsewhere::elsewhere;
use crate::config::Config;
use crate::proto::errors;
use std::path::Path;
use std::sync::Arc;
use std::{fs, io};

/// The users with whom the server starts.
///
/// # Errors
/// If the configuration or the file is wrong: what to tell.
pub fn start(config: &Config) -> Result<Acl, String> {
    let catalogue = &*CATALOGUE;
    let mut users = Users::with_password(catalogue, &config.requirepass);
    if let Some(path) = &config.aclfile {
        if !config.users.is_empty() {
            return Err(
                "there are users in the configuration file, and an aclfile: put all of them into one place".into()
            );
        }
        let text = fs::read(path).map_err(|error| not_opened(path, &error))?;
        users = Users::parse(catalogue, config.acl_pubsub_default, &users, &path.display().to_string(), &text)?;
    }
    let mut seen = Vec::new();
    for words in &config.users {
        let Some((name, rules)) = words.split_first() else { continue };
        let rules = rules.iter().map(Vec::as_slice);
        let defined = users.define(catalogue, config.acl_pubsub_default, &mut seen, name, rules);
        defined.map_err(|error| {
            let why = match error {
                LoadError::Name => "the name has blanks in it".into(),
                LoadError::Duplicate => "Duplicate user found. A user can only be defined once in config files".into(),
                LoadError::Unmatched(word) => {
                    format!("Unmatched parenthesis in acl selector starting at '{}'.", String::from_utf8_lossy(&word))
                }
                LoadError::Rule(rule, error) => format!("'{}': {error}", String::from_utf8_lossy(&rule)),
            };
            format!("Error in user declaration '{}': {why}", String::from_utf8_lossy(name))
        })?;
    }
    for user in users.iter().filter(|user| !user.is_on && seen.iter().any(|name| **name == *user.name)) {
        log::info!(
            "The user '{}' is disabled (there is no 'on' modifier in the user description). Make sure this is not a configuration error.",
            String::from_utf8_lossy(&user.name)
        );
    }
    Ok(Acl::new(Arc::clone(catalogue), users))
}

/// The users as lines of the configuration file, each in words behind `user`: none, if they are in a file of their own, or are just what
/// `requirepass` makes.
pub fn configured(ctx: &Ctx<'_>) -> Vec<Vec<Vec<u8>>> {
    let lines = ctx.acl.users().lines();
    let as_password = Users::with_password(&ctx.acl.catalogue, &ctx.config.requirepass).lines();
    if ctx.config.aclfile.is_some() || lines == as_password {
        return Vec::new();
    }
    let words = |line: &Vec<u8>| line.split(|byte| *byte == b' ').skip(1).map(<[u8]>::to_vec).collect();
    lines.iter().map(words).collect()
}

fn not_opened(path: &Path, error: &io::Error) -> String {
    let why = error.raw_os_error().map_or(error.to_string(), |e| nix::errno::Errno::from_raw(e).desc().into());
    format!("Error loading ACLs, opening file '{}': {why}", path.display())
}

/// `ACL LOAD`: the users of the file, or none of them if something is wrong with it.
pub fn load(ctx: &mut Ctx<'_>, _args: Args<'_>) -> Outcome {
    let Some(path) = ctx.config.aclfile.clone() else { return ctx.fail(errors::NO_ACL_FILE) };
    let (catalogue, all_channels) = (Arc::clone(&ctx.acl.catalogue), ctx.config.acl_pubsub_default);
    // A user `default` that the file does not have is as at the start.
    let fresh = Users::with_password(&catalogue, &ctx.config.requirepass);
    let read = move || {
        let text = fs::read(&path).map_err(|error| not_opened(&path, &error))?;
        Users::parse(&catalogue, all_channels, &fresh, &path.display().to_string(), &text)
    };
    elsewhere(ctx, "ACL LOAD", read, |ctx, users| match users {
        Ok(Ok(loaded)) => {
            let changed = ctx.acl.change(|users| {
                *users = loaded;
                Ok::<_, ()>(())
            });
            debug_assert!(changed.is_ok());
            spread::everywhere(ctx, true, |ctx| ctx.out().ok())
        }
        Ok(Err(text)) => ctx.fail([b"ERR ", text.as_bytes()].concat()),
        Err(error) => ctx.fail(format!("ERR {error}")),
    })
}

/// `ACL SAVE`: the users to the file.
pub fn save(ctx: &mut Ctx<'_>, _args: Args<'_>) -> Outcome {
    let Some(path) = ctx.config.aclfile.clone() else { return ctx.fail(errors::NO_ACL_FILE) };
    let mut text = Vec::new();
    for line in ctx.acl.users().lines() {
        text.extend_from_slice(&line);
        text.push(b'\n');
    }
    elsewhere(
        ctx,
        "ACL SAVE",
        move || crate::config::replace_file(&path, &text),
        |ctx, saved| match saved.and_then(|saved| saved) {
            Ok(()) => {
                ctx.out().ok();
                Outcome::Done
            }
            Err(error) => {
                log::warn!("ACL SAVE failed: {error}");
                ctx.fail(errors::ACL_SAVE)
            }
        },
    )
}
