//! CLIENT TRACKING, CACHING, TRACKINGINFO and GETREDIR: which clients cache what they read, and how they want to hear that it has changed.
//! Which keys were read is kept in their shards (`db::tracking`), what is on its way to clients is `pubsub::caching`'s.

use super::client::{Client, gate};
use super::ctx::{Args, Ctx, Failure, Outcome};
use super::fleet::{Local, everywhere};
use super::options::parse_int;
use super::spec::{Command, Flags};
use crate::db::Key;
use crate::db::tracking::{Reader, Totals};
use crate::proto::errors;
use crate::pubsub::Exchange;
use crate::pubsub::caching::Address;
use std::sync::atomic::Ordering;

/// Which changes a client is told of.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Mode {
    /// Of the keys that it has read.
    #[default]
    Read,
    /// Of those that it has read directly behind CLIENT CACHING YES.
    OptIn,
    /// Of those that it has read, but for those directly behind CLIENT CACHING NO.
    OptOut,
    /// Of all, by the beginnings of their names.
    Broadcast,
}

/// What a client tracks.
#[derive(Default, Debug)]
pub struct Tracking {
    pub mode: Mode,
    /// Changes of its own are left out.
    pub is_noloop: bool,
    /// Who is told instead of it.
    pub redirect: Option<Address>,
    /// That client has gone.
    pub is_broken: bool,
    /// CLIENT CACHING was said for the next command.
    cached: bool,
    prefixes: Vec<Box<[u8]>>,
    prefixes_bytes: u64,
}

/// Of a prefix: what it takes here, and among those that all workers know.
const PREFIX_BYTES: u64 = 96;

impl Tracking {
    /// Memory of its prefixes in bytes, about.
    pub(super) fn prefixes_bytes(&self) -> u64 {
        self.prefixes_bytes
    }

    /// Shall what the next command reads be remembered?
    fn remembers(&self) -> bool {
        match self.mode {
            Mode::Read => true,
            Mode::OptIn => self.cached,
            Mode::OptOut => !self.cached,
            Mode::Broadcast => false,
        }
    }
}

/// The options of CLIENT TRACKING.
struct Options {
    on: bool,
    redirect: Option<u64>,
    broadcast: bool,
    optin: bool,
    optout: bool,
    noloop: bool,
    prefixes: Vec<Box<[u8]>>,
}

impl Options {
    fn parse(args: Args<'_>) -> Result<Options, Failure> {
        let mut options = Options {
            on: false,
            redirect: None,
            broadcast: false,
            optin: false,
            optout: false,
            noloop: false,
            prefixes: Vec::new(),
        };
        let mut rest = &args[3..];
        while let [option, tail @ ..] = rest {
            rest = match (&*option.to_ascii_lowercase(), tail) {
                (b"redirect", [id, tail @ ..]) => {
                    if options.redirect.is_some() {
                        return Err(errors::TRACKING_REDIRECTS.into());
                    }
                    // Nobody has an id below 1.
                    options.redirect = Some(u64::try_from(parse_int(id)?).unwrap_or(0));
                    tail
                }
                (b"prefix", [prefix, tail @ ..]) => {
                    options.prefixes.push((*prefix).into());
                    tail
                }
                (b"bcast", _) => {
                    options.broadcast = true;
                    tail
                }
                (b"optin", _) => {
                    options.optin = true;
                    tail
                }
                (b"optout", _) => {
                    options.optout = true;
                    tail
                }
                (b"noloop", _) => {
                    options.noloop = true;
                    tail
                }
                _ => return Err(errors::SYNTAX.into()),
            };
        }
        Ok(options)
    }

    /// Do they go together, and with what the client has asked for before?
    fn check(&self, before: Option<&Tracking>) -> Result<Mode, Failure> {
        if !self.broadcast && !self.prefixes.is_empty() {
            return Err(errors::TRACKING_PREFIX_WITHOUT_BCAST.into());
        }
        if before.is_some_and(|before| (before.mode == Mode::Broadcast) != self.broadcast) {
            return Err(errors::TRACKING_BCAST_SWITCH.into());
        }
        let mode = match (self.broadcast, self.optin, self.optout) {
            (true, false, false) => Mode::Broadcast,
            (true, ..) => return Err(errors::TRACKING_BCAST_OPT.into()),
            (false, true, true) => return Err(errors::TRACKING_BOTH_OPTS.into()),
            (false, true, false) => Mode::OptIn,
            (false, false, true) => Mode::OptOut,
            (false, false, false) => Mode::Read,
        };
        let switched = [(Mode::OptIn, Mode::OptOut), (Mode::OptOut, Mode::OptIn)];
        if before.is_some_and(|before| switched.contains(&(before.mode, mode))) {
            return Err(errors::TRACKING_OPT_SWITCH.into());
        }
        for (i, prefix) in self.prefixes.iter().enumerate() {
            let overlapping = |others: &'_ [Box<[u8]>]| {
                let place = others.iter().position(|other| prefix.starts_with(other) || other.starts_with(prefix))?;
                Some(others[place].clone())
            };
            if let Some(other) = before.and_then(|before| overlapping(&before.prefixes)) {
                return Err(errors::prefix_overlaps(prefix, "an existing", &other).into());
            }
            if let Some(other) = overlapping(&self.prefixes[i + 1..]) {
                return Err(errors::prefix_overlaps(prefix, "another provided", &other).into());
            }
        }
        Ok(mode)
    }

    /// Does as they say. `redirect`: the client of that number, and where it is.
    fn apply(self, ctx: &mut Ctx<'_>, redirect: Option<Address>) -> Outcome {
        let me = ctx.me;
        if !self.on {
            stop(ctx.clients.get_mut(me), ctx.db.totals(), ctx.pubsub);
            ctx.count_listening();
            ctx.out().ok();
            return Outcome::Done;
        }
        let mode = match self.check(ctx.client().tracking().map(|tracking| &*tracking)) {
            Ok(mode) => mode,
            Err(failure) => return ctx.fail(failure),
        };
        let client = ctx.clients.get_mut(me);
        let (was_on, own) = (client.gate & gate::TRACKS != 0, ctx.pubsub.address(client.id));
        client.set_gate(gate::TRACKS, true);
        let tracking = &mut client.labels_mut().tracking;
        (tracking.mode, tracking.is_noloop) = (mode, self.noloop);
        (tracking.redirect, tracking.is_broken) = (redirect, false);
        let mut begins = false;
        if mode == Mode::Broadcast {
            begins = !was_on;
            let all = || vec![Box::default()];
            for prefix in if self.prefixes.is_empty() { all() } else { self.prefixes } {
                // In their order, as they are told.
                if let Err(place) = tracking.prefixes.binary_search(&prefix) {
                    ctx.pubsub.prefixes.add(&prefix, own);
                    tracking.prefixes_bytes += PREFIX_BYTES + 2 * prefix.len() as u64;
                    tracking.prefixes.insert(place, prefix);
                }
            }
        }
        if !was_on {
            ctx.db.totals().clients.fetch_add(1, Ordering::Relaxed);
        }
        if begins {
            // First this, see `Listeners::tell`.
            ctx.db.totals().broadcasts.fetch_add(1, Ordering::SeqCst);
            ctx.db.each_shard(|shard| shard.listeners.broadcast());
        }
        ctx.count_listening();
        ctx.out().ok();
        Outcome::Done
    }
}

/// `CLIENT TRACKING ON | OFF [REDIRECT id] [PREFIX prefix ...] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]`
pub fn tracking(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let parsed = Options::parse(args).and_then(|options| match &*args[2].to_ascii_lowercase() {
        b"on" => Ok(Options { on: true, ..options }),
        b"off" => Ok(options),
        // A client that is not there is told of first.
        _ if options.redirect.is_some() => Ok(options),
        _ => Err(errors::SYNTAX.into()),
    });
    let options = match parsed {
        Ok(options) => options,
        Err(failure) => return ctx.fail(failure),
    };
    let Some(id) = options.redirect else { return options.apply(ctx, None) };
    let known = options.on || args[2].eq_ignore_ascii_case(b"off");
    everywhere(
        ctx,
        move |local: &mut Local<'_>| local.clients.by_id(id).is_some(),
        move |ctx, found| {
            match found.iter().position(|found| *found) {
                None => ctx.fail(errors::TRACKING_NO_CLIENT),
                Some(_) if !known => ctx.fail(errors::SYNTAX),
                Some(worker) => options.apply(ctx, Some(Address { worker, client: id })),
            };
        },
    )
}

/// A client tracks no more.
pub fn stop(client: &mut Client, totals: &Totals, pubsub: &Exchange) {
    let own = pubsub.address(client.id);
    let Some(tracking) = client.tracking().map(std::mem::take) else { return };
    client.set_gate(gate::TRACKS, false);
    tracking.prefixes.iter().for_each(|prefix| pubsub.prefixes.remove(prefix, own));
    totals.clients.fetch_sub(1, Ordering::Relaxed);
    if tracking.mode == Mode::Broadcast {
        totals.broadcasts.fetch_sub(1, Ordering::SeqCst);
    }
}

/// `CLIENT CACHING YES | NO`
pub fn caching(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let Some(tracking) = ctx.client().tracking() else { return ctx.fail(errors::CACHING_WITHOUT_TRACKING) };
    let (mode, refused) = match &*args[2].to_ascii_lowercase() {
        b"yes" => (Mode::OptIn, errors::CACHING_YES),
        b"no" => (Mode::OptOut, errors::CACHING_NO),
        _ => return ctx.fail(errors::SYNTAX),
    };
    if tracking.mode != mode {
        return ctx.fail(refused);
    }
    tracking.cached = true;
    ctx.out().ok();
    Outcome::Done
}

/// `CLIENT GETREDIR`
pub fn getredir(ctx: &mut Ctx<'_>, _args: Args<'_>) -> Outcome {
    let redirect = ctx.client().tracking().map(|tracking| tracking.redirect.map_or(0, |to| to.client));
    ctx.reply.int(redirect.map_or(-1, u64::cast_signed));
    Outcome::Done
}

/// `CLIENT TRACKINGINFO`
pub fn trackinginfo(ctx: &mut Ctx<'_>, _args: Args<'_>) -> Outcome {
    let Ctx { clients, reply, me, .. } = ctx;
    let tracking = clients.get_mut(*me).tracking();
    let mut flags: Vec<&str> = Vec::new();
    match &tracking {
        None => flags.push("off"),
        Some(tracking) => {
            flags.push("on");
            match (tracking.mode, tracking.cached) {
                (Mode::Read, _) => {}
                (Mode::Broadcast, _) => flags.push("bcast"),
                (Mode::OptIn, cached) => flags.extend(["optin"].into_iter().chain(cached.then_some("caching-yes"))),
                (Mode::OptOut, cached) => flags.extend(["optout"].into_iter().chain(cached.then_some("caching-no"))),
            }
            flags.extend(tracking.is_noloop.then_some("noloop"));
            flags.extend(tracking.is_broken.then_some("broken_redirect"));
        }
    }
    let redirect = tracking.as_ref().map_or(-1, |tracking| tracking.redirect.map_or(0, |to| to.client.cast_signed()));
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"redirect");
    reply.int(redirect);
    reply.bulk(b"prefixes");
    let prefixes = tracking.map_or(&[][..], |tracking| &tracking.prefixes);
    reply.array(prefixes.len());
    prefixes.iter().for_each(|prefix| reply.bulk(prefix));
    Outcome::Done
}

impl Ctx<'_> {
    /// The client is about to run a command, which will read these keys: those that it may cache are remembered from now on, so that it is told
    /// of the first change behind what it reads.
    pub fn track<'k, R>(&mut self, row: &Command<R>, keys: impl Iterator<Item = &'k [u8]>) {
        if let Some(reader) = self.reader(row) {
            for name in keys {
                let key: Key<'_> = self.key(name);
                self.db.mark_read(key, reader);
            }
        }
        if self.client().gate & gate::MULTI == 0 && !row.flags.contains(Flags::KEEPS_CACHING) {
            self.end_caching();
        }
    }

    /// The client, if it caches what a command of this row reads.
    pub fn reader<R>(&mut self, row: &Command<R>) -> Option<Reader> {
        let remembers = self.client().tracking()?.remembers();
        (remembers && row.flags.contains(Flags::READONLY)).then(|| Reader::new(self.client().id, self.pubsub.me()))
    }

    /// CLIENT CACHING holds for one command, or one transaction, which this was.
    pub fn end_caching(&mut self) {
        if let Some(tracking) = self.client().tracking() {
            tracking.cached = false;
        }
    }
}
