//! Commands about the connection itself: PING ECHO QUIT HELLO SELECT CLIENT.

use super::client::{Class, gate};
use super::ctx::{Args, Budget, Ctx, Outcome};
use super::fleet::{Local, everywhere_sliced};
use super::options::parse_int;
use super::pubsub::look_at_subscriptions;
use crate::base::int;
use crate::proto::errors;

pub fn ping(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    if ctx.client().gate & gate::LISTENS != 0 && args.len() <= 2 {
        // A reply that a client in RESP2 can tell from messages.
        ctx.reply.array(2);
        ctx.reply.bulk(b"pong");
        ctx.reply.bulk(args.get(1).copied().unwrap_or_default());
        return Outcome::Done;
    }
    match args {
        [_] => ctx.reply.simple("PONG"),
        [_, text] => ctx.reply.bulk(text),
        _ => return ctx.fail(errors::wrong_number_of_arguments("ping")),
    }
    Outcome::Done
}

pub fn echo(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    ctx.reply.bulk(args[1]);
    Outcome::Done
}

pub fn quit(ctx: &mut Ctx<'_>, _args: Args<'_>) -> Outcome {
    ctx.out().ok();
    Outcome::Close
}

pub fn select(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    ctx.attempt(|ctx| {
        let index = i32::try_from(parse_int(args[1])?).map_err(|_| errors::NOT_AN_INT)?;
        let databases = ctx.db.databases();
        let index = usize::try_from(index).ok().filter(|i| *i < databases).ok_or(errors::DB_OUT_OF_RANGE)?;
        ctx.client().database = u32::try_from(index).unwrap_or(0);
        ctx.out().ok();
        Ok(())
    })
}

/// `HELLO [version [AUTH user password] [SETNAME name]]`
pub fn hello(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    ctx.attempt(|ctx| {
        let mut resp3 = ctx.client().resp3;
        if let Some(version) = args.get(1) {
            match int::parse_i64(version) {
                Some(2) => resp3 = false,
                Some(3) => resp3 = true,
                Some(_) => return Err(errors::NOPROTO.into()),
                None => return Err(errors::PROTOCOL_VERSION.into()),
            }
        }
        // As in Redis each option takes effect when it is read, whatever follows.
        let mut rest = args.get(2..).unwrap_or_default();
        while let [option, tail @ ..] = rest {
            rest = match (&*option.to_ascii_lowercase(), tail) {
                (b"auth", [user, password, tail @ ..]) => {
                    super::acl::log_in(ctx, args[0], user, password)?;
                    tail
                }
                (b"setname", [given, tail @ ..]) => {
                    if !is_label(given) {
                        return Err(errors::CLIENT_NAME.into());
                    }
                    ctx.client().labels_mut().name = given.to_vec();
                    tail
                }
                _ => return Err(errors::hello_option(option).into()),
            };
        }
        if ctx.client().gate & gate::UNAUTHENTICATED != 0 {
            return Err(errors::NOAUTH_HELLO.into());
        }
        ctx.client().resp3 = resp3;
        look_at_subscriptions(ctx);
        ctx.reply.set_version(resp3);
        let id = ctx.client().id;
        ctx.reply.map(7);
        for (field, value) in [("server", "redis"), ("version", super::server::COMPATIBLE_VERSION)] {
            ctx.reply.bulk(field.as_bytes());
            ctx.reply.bulk(value.as_bytes());
        }
        ctx.reply.bulk(b"proto");
        ctx.reply.int(if resp3 { 3 } else { 2 });
        ctx.reply.bulk(b"id");
        ctx.reply.int(id.cast_signed());
        for (field, value) in [("mode", "standalone"), ("role", "master")] {
            ctx.reply.bulk(field.as_bytes());
            ctx.reply.bulk(value.as_bytes());
        }
        ctx.reply.bulk(b"modules");
        ctx.reply.array(0);
        Ok(())
    })
}

// ---- CLIENT ----

/// Names of clients and libraries: printable, without spaces, so that CLIENT LIST stays parseable.
fn is_label(text: &[u8]) -> bool {
    text.iter().all(|b| (b'!'..=b'~').contains(b))
}

pub fn client_id(ctx: &mut Ctx<'_>, _args: Args<'_>) -> Outcome {
    let id = ctx.client().id;
    ctx.reply.int(id.cast_signed());
    Outcome::Done
}

pub fn client_getname(ctx: &mut Ctx<'_>, _args: Args<'_>) -> Outcome {
    let name = ctx.clients.get(ctx.me).name();
    if name.is_empty() {
        ctx.reply.null()
    } else {
        ctx.reply.bulk(name)
    }
    Outcome::Done
}

pub fn client_setname(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    if !is_label(args[2]) {
        return ctx.fail(errors::CLIENT_NAME);
    }
    ctx.client().labels_mut().name = args[2].to_vec();
    ctx.out().ok();
    Outcome::Done
}

/// CLIENT SETINFO LIB-NAME name | LIB-VER version
pub fn client_setinfo(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    ctx.attempt(|ctx| {
        let option = args[2].to_ascii_lowercase();
        let text = match &*option {
            b"lib-name" | b"lib-ver" if is_label(args[3]) => args[3].to_vec(),
            b"lib-name" | b"lib-ver" => return Err(errors::client_label(&option).into()),
            _ => return Err(errors::unrecognized_option(args[2]).into()),
        };
        let labels = ctx.client().labels_mut();
        if &*option == b"lib-name" {
            labels.lib_name = text;
        } else {
            labels.lib_version = text;
        }
        ctx.out().ok();
        Ok(())
    })
}

pub fn client_info(ctx: &mut Ctx<'_>, _args: Args<'_>) -> Outcome {
    let mut line = Vec::new();
    if !ctx.in_multi() {
        ctx.client().last_command = &"client|info";
    }
    ctx.clients.get(ctx.me).describe(ctx.db.now_ms(), &mut line);
    line.push(b'\n');
    ctx.reply.verbatim(b"txt", &line);
    Outcome::Done
}

/// `CLIENT LIST [TYPE normal | master | replica | pubsub] [ID id ...]`
pub fn client_list(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let mut ids = None;
    if !ctx.in_multi() {
        ctx.client().last_command = &"client|list";
    }
    let mut class = None;
    match (args.get(2).map(|a| a.to_ascii_lowercase()).as_deref(), args.len()) {
        (None, _) => {}
        (Some(b"type"), 4) => match Class::parse(args[3]) {
            Some(wanted) => class = Some(wanted),
            None => return ctx.fail(errors::unknown_client_type(args[3])),
        },
        (Some(b"id"), 4..) => {
            // Nobody has an id below 1, but asking is no error.
            let parsed: Option<Vec<u64>> =
                args[3..].iter().map(|a| Some(u64::try_from(int::parse_i64(a)?).unwrap_or(0))).collect();
            match parsed {
                Some(parsed) => ids = Some(parsed),
                None => return ctx.fail(errors::INVALID_CLIENT_ID),
            }
        }
        _ => return ctx.fail(errors::SYNTAX),
    }
    let make = {
        let ids = ids.clone();
        move || ClientLines { ids: ids.clone(), class, at: 0, next_id: 0, lines: Vec::new() }.part()
    };
    everywhere_sliced(ctx, make, move |ctx, answers| {
        let mut lines: Vec<_> = answers.into_iter().flatten().collect();
        lines.sort_unstable_by_key(|line| line.0);
        let mut text = Vec::new();
        match ids {
            None => lines.iter().for_each(|line| text.extend_from_slice(&line.1)),
            Some(ids) => {
                for id in ids {
                    if let Ok(at) = lines.binary_search_by_key(&id, |line| line.0) {
                        text.extend_from_slice(&lines[at].1);
                    }
                }
            }
        }
        ctx.reply.verbatim(b"txt", &text);
    })
}

/// One worker's part of CLIENT LIST: the lines of its clients.
struct ClientLines {
    ids: Option<Vec<u64>>,
    class: Option<Class>,
    at: usize,
    next_id: u64,
    lines: Vec<(u64, Vec<u8>)>,
}

impl ClientLines {
    fn part(mut self) -> impl FnMut(&mut Local<'_>, &mut Budget) -> Option<Vec<(u64, Vec<u8>)>> {
        move |local, budget| self.step(local, budget).then(|| std::mem::take(&mut self.lines))
    }

    fn step(&mut self, local: &mut Local<'_>, budget: &mut Budget) -> bool {
        let now_ms = local.clock.unix_ms();
        loop {
            let client = match &self.ids {
                Some(ids) => match ids.get(self.at) {
                    Some(id) => local.clients.by_id(*id),
                    None => return true,
                },
                None => match local.clients.after(self.next_id) {
                    Some((_, client)) => Some(client),
                    None => return true,
                },
            };
            if let Some(client) = client {
                self.next_id = client.id;
                if self.class.is_none_or(|class| client.class() == class) {
                    let mut line = Vec::new();
                    client.describe(now_ms, &mut line);
                    line.push(b'\n');
                    self.lines.push((client.id, line));
                }
            }
            self.at += 1;
            if budget.is_spent(8) {
                return false;
            }
        }
    }
}
