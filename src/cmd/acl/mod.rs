//! ACL: the commands about users, and becoming one (AUTH, HELLO AUTH). Rules and their meaning are `crate::acl`'s; when a command may run is
//! asked in [`check`], how a change reaches the clients is in [`spread`].

mod check;
mod files;
mod spread;

pub use check::{Refusal, allow, may_read_any_key};
pub use files::{configured, load, save, start};
pub use spread::Sweep;

use super::ctx::{Args, Ctx, Exec, Failure, Outcome};
use super::options::parse_int;
use super::spec::{Categories, Command};
use crate::acl::{Acl, Catalogue, Context, Denial, Entry, LoadError, Permissions, Reason, Users, hex};
use crate::proto::errors;
use std::sync::{Arc, LazyLock};

/// The commands as rules name them; their numbers are those of the rows.
static CATALOGUE: LazyLock<Arc<Catalogue>> = LazyLock::new(|| {
    let entry = |row: &Command<Exec>| Entry {
        name: row.name,
        categories: row.categories.bits(),
        is_container: !row.subcommands.is_empty(),
    };
    let families = super::table::COMMANDS.iter().map(|row| std::iter::once(row).chain(row.subcommands));
    let categories = Categories::named().map(|(name, category)| (name, category.bits())).collect();
    Arc::new(Catalogue::new(families.flatten().map(entry).collect(), categories))
});

/// One user, who needs this password (none, if it is empty) and may do all.
#[must_use]
pub fn with_password(password: &[u8]) -> Acl {
    let users = Users::with_password(&CATALOGUE, password);
    Acl::new(Arc::clone(&CATALOGUE), users)
}

// ---- becoming somebody ----

/// The client becomes a user, if this is a password of it.
pub fn log_in(ctx: &mut Ctx<'_>, command: &[u8], name: &[u8], password: &[u8]) -> Result<(), Failure> {
    let user = ctx.acl.users().get(name).filter(|user| user.is_let_in(password)).cloned();
    let Some(user) = user else {
        check::note(ctx, None, command, name);
        return Err(errors::WRONGPASS.into());
    };
    let client = ctx.client();
    client.gate &= !super::client::gate::UNAUTHENTICATED;
    client.become_user(&user);
    Ok(())
}

/// `AUTH [user] password`
pub fn auth(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    ctx.attempt(|ctx| {
        match args {
            [_, password] => {
                if ctx.acl.users().default_user().no_password {
                    return Err(errors::AUTH_WITHOUT_PASSWORD.into());
                }
                log_in(ctx, args[0], crate::acl::DEFAULT, password)?;
            }
            [_, user, password] => log_in(ctx, args[0], user, password)?,
            _ => return Err(errors::SYNTAX.into()),
        }
        ctx.out().ok();
        Ok(())
    })
}

pub fn whoami(ctx: &mut Ctx<'_>, _args: Args<'_>) -> Outcome {
    let name = ctx.clients.get(ctx.me).user_name();
    ctx.reply.bulk(name);
    Outcome::Done
}

// ---- changes ----

/// `ACL SETUSER name [rule ...]`
pub fn setuser(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let catalogue = Arc::clone(&ctx.acl.catalogue);
    let all_channels = ctx.config.acl_pubsub_default;
    let changed = ctx.acl.change(|users| users.set(&catalogue, all_channels, args[2], args[3..].iter().copied()));
    match changed {
        Ok(()) => spread::everywhere(ctx, false, |ctx| ctx.out().ok()),
        Err(LoadError::Name) => ctx.fail(errors::USER_NAME),
        Err(LoadError::Unmatched(word)) => ctx.fail(errors::acl_parenthesis(&word)),
        Err(LoadError::Rule(rule, error)) => ctx.fail(errors::acl_rule(&rule, &error.to_string())),
        Err(LoadError::Duplicate) => unreachable!("only what is defined anew can be defined twice"),
    }
}

/// `ACL DELUSER name [name ...]`
pub fn deluser(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    if args[2..].contains(&crate::acl::DEFAULT) {
        return ctx.fail(errors::DEFAULT_USER);
    }
    let removed = ctx.acl.change(|users| Ok::<_, Failure>(args[2..].iter().filter(|name| users.remove(name)).count()));
    let removed = removed.unwrap_or(0);
    spread::everywhere(ctx, false, move |ctx| ctx.reply.count(removed))
}

// ---- looking ----

/// `ACL GETUSER name`
pub fn getuser(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let Some(user) = ctx.acl.users().get(args[2]).cloned() else {
        ctx.reply.null();
        return Outcome::Done;
    };
    let reply = &mut ctx.reply;
    reply.map(6);
    reply.bulk(b"flags");
    let flags = user.flags();
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"passwords");
    reply.array(user.passwords().len());
    user.passwords().iter().for_each(|password| reply.bulk(hex(password).as_bytes()));
    permissions(ctx, &user.root);
    ctx.reply.bulk(b"selectors");
    ctx.reply.array(user.selectors.len());
    for selector in &user.selectors {
        ctx.reply.map(3);
        permissions(ctx, selector);
    }
    Outcome::Done
}

fn permissions(ctx: &mut Ctx<'_>, permissions: &Permissions) {
    ctx.reply.bulk(b"commands");
    ctx.reply.bulk(permissions.commands_text().as_bytes());
    ctx.reply.bulk(b"keys");
    ctx.reply.bulk(&permissions.keys_text());
    ctx.reply.bulk(b"channels");
    ctx.reply.bulk(&permissions.channels_text());
}

fn bulks<T: AsRef<[u8]>>(ctx: &mut Ctx<'_>, texts: impl ExactSizeIterator<Item = T>) -> Outcome {
    ctx.reply.array(texts.len());
    texts.for_each(|text| ctx.reply.bulk(text.as_ref()));
    Outcome::Done
}

pub fn list(ctx: &mut Ctx<'_>, _args: Args<'_>) -> Outcome {
    let lines = ctx.acl.users().lines();
    bulks(ctx, lines.iter())
}

pub fn users(ctx: &mut Ctx<'_>, _args: Args<'_>) -> Outcome {
    let users = Arc::clone(ctx.acl.users());
    bulks(ctx, users.iter().map(|user| &user.name))
}

/// `ACL CAT [category]`
pub fn cat(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let catalogue = Arc::clone(&ctx.acl.catalogue);
    match args {
        [_, _] => bulks(ctx, catalogue.category_names()),
        [_, _, name] => match catalogue.category(name) {
            Some(category) => {
                let names: Vec<_> = catalogue.of_category(category).map(|at| catalogue.entry(at).name).collect();
                bulks(ctx, names.iter())
            }
            None => ctx.fail(errors::acl_category(name)),
        },
        _ => ctx.fail(errors::subcommand_syntax("acl", args[1])),
    }
}

/// `ACL GENPASS [bits]`: so many bits from the operating system's generator, as digits of 4.
pub fn genpass(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    const BITS_MAX: i64 = 4096;
    let bits = match args {
        [_, _] => 256,
        [_, _, bits] => match parse_int(bits) {
            Ok(bits) => bits,
            Err(failure) => return ctx.fail(failure),
        },
        _ => return ctx.fail(errors::subcommand_syntax("acl", args[1])),
    };
    let Some(bits) = usize::try_from(bits).ok().filter(|_| (1..=BITS_MAX).contains(&bits)) else {
        return ctx.fail(errors::GENPASS_BITS);
    };
    let digits = bits.div_ceil(4);
    let mut bytes = vec![0; digits.div_ceil(2)];
    if let Err(error) = getrandom::fill(&mut bytes) {
        return ctx.fail(format!("ERR no random numbers from the operating system: {error}"));
    }
    ctx.reply.bulk(&hex(&bytes).as_bytes()[..digits]);
    Outcome::Done
}

/// `ACL DRYRUN name command [argument ...]`
pub fn dryrun(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let Some(user) = ctx.acl.users().get(args[2]).cloned() else {
        return ctx.fail(errors::acl_user_not_found(args[2]));
    };
    let args = &args[3..];
    let Some(row) = ctx.commands.resolve(args) else {
        return ctx.fail(errors::acl_command_not_found(args[0]));
    };
    if !row.takes(args.len()) {
        return ctx.fail(errors::wrong_number_of_arguments(row.name));
    }
    match check::denied(&user, row, args) {
        None => ctx.out().ok(),
        Some(denied) => {
            let text = match denied.reason {
                Reason::Command => errors::acl_would_deny("run", row.name.as_bytes(), "command"),
                Reason::Key => errors::acl_would_deny("access", args[denied.at], "key"),
                Reason::Channel => errors::acl_would_deny("access", args[denied.at], "channel"),
            };
            ctx.reply.bulk(&text);
        }
    }
    Outcome::Done
}

// ---- the log ----

/// `ACL LOG [count | RESET]`
pub fn log(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    const COUNT: usize = 10;
    let count = match args {
        [_, _] => COUNT,
        [_, _, word] if word.eq_ignore_ascii_case(b"reset") => {
            ctx.acl.log().clear();
            ctx.out().ok();
            return Outcome::Done;
        }
        [_, _, count] => match parse_int(count) {
            Ok(count) => usize::try_from(count).unwrap_or(0),
            Err(failure) => return ctx.fail(failure),
        },
        _ => return ctx.fail(errors::subcommand_syntax("acl", args[1])),
    };
    let entries: Vec<Denial> = ctx.acl.log().entries().iter().take(count).cloned().collect();
    let now_ms = ctx.db.now_ms();
    ctx.reply.array(entries.len());
    for entry in entries {
        let reply = &mut ctx.reply;
        let int = |n: u64| n.cast_signed();
        reply.map(10);
        reply.bulk(b"count");
        reply.int(int(entry.count));
        for (name, value) in [
            ("reason", entry.reason_name().as_bytes()),
            ("context", entry.context.name().as_bytes()),
            ("object", &entry.object),
            ("username", &entry.user),
        ] {
            reply.bulk(name.as_bytes());
            reply.bulk(value);
        }
        reply.bulk(b"age-seconds");
        #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
        let age_s = now_ms.saturating_sub(entry.at_ms) as f64 / 1000.0;
        reply.double(age_s);
        reply.bulk(b"client-info");
        reply.bulk(&entry.client);
        for (name, value) in
            [("entry-id", entry.id), ("timestamp-created", entry.first_ms), ("timestamp-last-updated", entry.at_ms)]
        {
            reply.bulk(name.as_bytes());
            reply.int(int(value));
        }
    }
    Outcome::Done
}

/// Where a client is when something is denied to it.
fn context_of(ctx: &mut Ctx<'_>) -> Context {
    if ctx.client().gate & super::client::gate::MULTI != 0 || ctx.in_multi() {
        Context::Multi
    } else {
        Context::Toplevel
    }
}
