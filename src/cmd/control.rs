//! Commands that act on clients: CLIENT KILL PAUSE UNPAUSE REPLY NO-EVICT NO-TOUCH UNBLOCK, and RESET.
//!
//! What concerns all clients has been done on every worker when it is answered: a killed client runs nothing more and is in no list, a pause
//! holds.

use super::client::{Class, Client, Replies, gate, mark};
use super::ctx::{Args, Budget, Ctx, Failure, Outcome};
use super::fleet::{Local, everywhere, everywhere_sliced};
use super::options::parse_int;
use super::pubsub::{behind_messages, look_at_subscriptions};
use super::spec::Flags;
use crate::acl::Users;
use crate::base::clock::whole_ns;
use crate::base::int;
use crate::proto::errors;
use std::sync::Arc;
use std::time::Duration;

// ---- CLIENT PAUSE ----

/// Reasons to look twice at commands of all clients, beside those of [`super::client::gate`] and in the same word.
pub mod reason {
    /// CLIENT PAUSE, or the server needs one: commands may have to wait.
    pub const PAUSE: u16 = 1 << 14;
    /// The dataset is not complete: few commands are answered.
    pub const LOADING: u16 = 1 << 13;
    /// What is written could not be saved: it is refused.
    pub const UNSAVED: u16 = 1 << 12;
}

/// What keeps commands from running, as it holds on one worker: CLIENT PAUSE, what saving and loading ask for (`store::flag`), and the pause that a
/// worker makes by itself while others do not come to take what is to be told to their clients (of messages, of changes): what could add to that waits.
#[derive(Default, Debug)]
pub struct Pause {
    /// Of [`reason`].
    reasons: u16,
    /// Monotonic time of the end of CLIENT PAUSE, 0 without one.
    until_ns: u64,
    /// It stops all commands, not only those that may write.
    all: bool,
    /// Of the store: commands that write wait, or all.
    writes_wait: bool,
    all_wait: bool,
    crowded: bool,
    /// Why nothing is written: the log cannot be.
    unlogged: bool,
}

impl Pause {
    /// Of [`reason`]; 0 nearly always.
    #[inline(always)]
    #[must_use]
    pub fn reasons(&self) -> u16 {
        self.reasons
    }

    /// Do commands wait?
    #[inline(always)]
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.reasons & reason::PAUSE != 0
    }

    fn was_asked_for(&self) -> bool {
        self.until_ns != 0
    }

    /// Does it stop a command of these flags?
    #[must_use]
    pub fn stops(&self, flags: Flags) -> bool {
        let writes = flags.intersects(Flags::of(&[Flags::WRITE, Flags::MAY_REPLICATE]));
        // What reads may have to tell, too: that it has missed a key.
        let tells = self.crowded && flags.intersects(Flags::of(&[Flags::WRITE, Flags::READONLY]));
        self.was_asked_for() && (self.all || writes) || self.all_wait || self.writes_wait && writes || tells
    }

    /// Others have much to take, or have taken it.
    #[inline]
    pub fn set_crowded(&mut self, crowded: bool) {
        self.crowded = crowded;
        self.set_reasons();
    }

    #[must_use]
    pub fn is_crowded(&self) -> bool {
        self.crowded
    }

    /// Why a command of these flags is refused now.
    #[must_use]
    pub fn refuses(&self, flags: Flags) -> Option<&'static str> {
        let asks = flags.contains(Flags::TELLS_OF_ERRORS);
        if asks || flags.contains(Flags::WRITE) {
            let unsaved = self.refuses_writes();
            if unsaved.is_some() {
                return unsaved;
            }
        }
        let loads = self.reasons & reason::LOADING != 0 && !asks && !flags.contains(Flags::LOADING);
        loads.then_some(errors::LOADING)
    }

    /// Why nothing is written now.
    #[must_use]
    pub fn refuses_writes(&self) -> Option<&'static str> {
        let text = if self.unlogged { errors::MISCONF_AOF } else { errors::MISCONF_RDB };
        (self.reasons & reason::UNSAVED != 0).then_some(text)
    }

    /// Looks at what saving and loading ask for. `unsaved`: what a failed save means is that nothing is written.
    #[inline]
    pub fn follow(&mut self, flags: u16, unsaved: impl FnOnce() -> bool) {
        use crate::store::flag;
        if flags == 0 && self.reasons == 0 {
            return;
        }
        self.writes_wait = flags & (flag::CROWDED | flag::ENDING | flag::LAGGING) != 0;
        self.all_wait = flags & flag::RELOADING != 0;
        self.reasons = 0;
        self.set_reasons();
        self.reasons |= if flags & flag::LOADING != 0 { reason::LOADING } else { 0 };
        self.unlogged = flags & flag::UNLOGGED != 0;
        let unsaved = self.unlogged || flags & flag::FAILED != 0 && unsaved();
        self.reasons |= if unsaved { reason::UNSAVED } else { 0 };
    }

    fn set_reasons(&mut self) {
        let waits = self.was_asked_for() || self.writes_wait || self.all_wait || self.crowded;
        self.reasons = self.reasons & !reason::PAUSE | if waits { reason::PAUSE } else { 0 };
    }

    /// Begins a pause; what is left of an earlier one stays in force, as in Redis: the later end and the stricter kind count.
    fn begin(&mut self, now_ns: u64, time: Duration, all: bool) {
        self.look_at(now_ns);
        self.all = all || (self.was_asked_for() && self.all);
        self.until_ns = self.until_ns.max(now_ns.saturating_add(whole_ns(time))).max(1);
        self.set_reasons();
    }

    /// CLIENT UNPAUSE.
    fn end(&mut self) {
        (self.until_ns, self.all) = (0, false);
        self.set_reasons();
    }

    /// Ends a pause whose time has come.
    pub fn look_at(&mut self, now_ns: u64) {
        if self.was_asked_for() && self.until_ns <= now_ns {
            self.end();
        }
    }

    /// How long it goes on; `None` without one.
    #[must_use]
    pub fn left(&self, now_ns: u64) -> Option<Duration> {
        self.was_asked_for().then(|| Duration::from_nanos(self.until_ns.saturating_sub(now_ns)))
    }
}

/// `CLIENT PAUSE milliseconds [WRITE | ALL]`
pub fn pause(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let all = match args {
        [_, _, _] => true,
        [_, _, _, mode] if mode.eq_ignore_ascii_case(b"all") => true,
        [_, _, _, mode] if mode.eq_ignore_ascii_case(b"write") => false,
        [_, _, _, _] => return ctx.fail(errors::PAUSE_MODE),
        _ => return ctx.fail(errors::subcommand_syntax("client", args[1])),
    };
    let time = match int::parse_i64(args[2]).map(u64::try_from) {
        Some(Ok(ms)) => Duration::from_millis(ms),
        Some(Err(_)) => return ctx.fail(errors::TIMEOUT_NEGATIVE),
        None => return ctx.fail(errors::TIMEOUT_NOT_AN_INTEGER),
    };
    everywhere(
        ctx,
        move |local: &mut Local<'_>| local.pause.begin(local.clock.mono_ns(), time, all),
        |ctx, _| ctx.out().ok(),
    )
}

pub fn unpause(ctx: &mut Ctx<'_>, _args: Args<'_>) -> Outcome {
    everywhere(ctx, |local: &mut Local<'_>| local.pause.end(), |ctx, _| ctx.out().ok())
}

// ---- CLIENT KILL ----

/// Which clients CLIENT KILL ends.
#[derive(Clone, Default)]
struct Filter {
    id: Option<u64>,
    addr: Option<Vec<u8>>,
    laddr: Option<Vec<u8>>,
    /// Those of one class.
    class: Option<Class>,
    user: Option<Vec<u8>>,
    age_min_s: u64,
    /// The caller, if it stays.
    but: Option<u64>,
}

impl Filter {
    fn parse(options: Args<'_>, own: u64, users: &Users) -> Result<Filter, Failure> {
        let mut filter = Filter { but: Some(own), ..Filter::default() };
        let (pairs, rest) = options.as_chunks::<2>();
        for [name, value] in pairs {
            match &*name.to_ascii_lowercase() {
                b"id" => {
                    let id = int::parse_i64(value).and_then(|id| u64::try_from(id).ok()).filter(|id| *id > 0);
                    filter.id = Some(id.ok_or(errors::CLIENT_ID_POSITIVE)?);
                }
                b"type" => filter.class = Some(Class::parse(value).ok_or_else(|| errors::unknown_client_type(value))?),
                b"addr" => filter.addr = Some(value.to_vec()),
                b"laddr" => filter.laddr = Some(value.to_vec()),
                b"user" if users.get(value).is_some() => filter.user = Some(value.to_vec()),
                b"user" => return Err(errors::no_such_user(value).into()),
                b"maxage" => {
                    let age = int::parse_i64(value).ok_or(errors::MAXAGE_NOT_AN_INTEGER)?;
                    filter.age_min_s = u64::try_from(age).ok().filter(|age| *age > 0).ok_or(errors::MAXAGE_POSITIVE)?;
                }
                b"skipme" => match &*value.to_ascii_lowercase() {
                    b"yes" => filter.but = Some(own),
                    b"no" => filter.but = None,
                    _ => return Err(errors::SYNTAX.into()),
                },
                _ => return Err(errors::SYNTAX.into()),
            }
        }
        if rest.is_empty() { Ok(filter) } else { Err(errors::SYNTAX.into()) }
    }

    fn matches(&self, client: &Client, now_ms: u64) -> bool {
        let is = |wanted: &Option<Vec<u8>>, address: fn(&Client) -> String| {
            wanted.as_ref().is_none_or(|wanted| address(client).as_bytes() == wanted)
        };
        self.id.is_none_or(|id| client.id == id)
            && self.class.is_none_or(|class| client.class() == class)
            && self.user.as_ref().is_none_or(|user| client.user_name() == user)
            && self.but != Some(client.id)
            && client.age_s(now_ms) >= self.age_min_s
            && is(&self.addr, Client::remote)
            && is(&self.laddr, Client::local)
    }
}

/// `CLIENT KILL addr:port`, or `CLIENT KILL [ID id] [TYPE class] [ADDR addr] [LADDR addr] [USER name] [MAXAGE seconds] [SKIPME yes | no]`
pub fn kill(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let own = ctx.client().id;
    let old_form = args.len() == 3;
    let filter = if old_form {
        let addr = Some(args[2].to_vec());
        Filter { addr, ..Filter::default() }
    } else {
        match Filter::parse(&args[2..], own, ctx.acl.users()) {
            Ok(filter) => filter,
            Err(failure) => return ctx.fail(failure),
        }
    };
    let make = || {
        let (filter, mut seen, mut killed) = (filter.clone(), 0, 0);
        move |local: &mut Local<'_>, budget: &mut Budget| {
            let now_ms = local.clock.unix_ms();
            // Whose id is asked for needs no search.
            if let Some(id) = filter.id {
                seen = id.saturating_sub(1).max(seen);
            }
            while let Some((index, client)) = local.clients.after(seen) {
                seen = client.id;
                if filter.id.is_some_and(|id| seen > id) {
                    break;
                }
                if filter.matches(client, now_ms) {
                    local.clients.kill(index);
                    killed += 1;
                    // The caller takes its reply along.
                    if seen != own {
                        local.asks.kill.push(seen);
                    }
                }
                if budget.is_spent(8) {
                    return None;
                }
            }
            // So that INFO tells it wherever it is asked next.
            local.stats.clients = local.clients.alive() as u64;
            local.fleet.publish(local.stats);
            Some(killed)
        }
    };
    let outcome = everywhere_sliced(ctx, make, move |ctx, counts: Vec<i64>| {
        let killed = counts.into_iter().sum();
        match (old_form, killed) {
            (false, killed) => ctx.reply.int(killed),
            (true, 0) => {
                ctx.fail(errors::NO_SUCH_CLIENT);
            }
            (true, _) => ctx.out().ok(),
        }
    });
    if outcome == Outcome::Done && ctx.client().is_killed() { Outcome::Close } else { outcome }
}

// ---- The caller itself ----

/// `CLIENT REPLY ON | OFF | SKIP`
pub fn reply(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    match &*args[2].to_ascii_lowercase() {
        b"on" => {
            ctx.client().set_replies(Replies::All);
            ctx.out().ok();
        }
        b"off" => ctx.client().set_replies(Replies::None),
        b"skip" => {
            let client = ctx.client();
            if client.replies() != Replies::None {
                client.set_replies(Replies::SkipNext);
            }
        }
        _ => return ctx.fail(errors::SYNTAX),
    }
    Outcome::Done
}

fn on_or_off(word: &[u8]) -> Result<bool, Failure> {
    match &*word.to_ascii_lowercase() {
        b"on" => Ok(true),
        b"off" => Ok(false),
        _ => Err(errors::SYNTAX.into()),
    }
}

/// `CLIENT NO-EVICT ON | OFF`
pub fn no_evict(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    ctx.attempt(|ctx| {
        let on = on_or_off(args[2])?;
        ctx.client().set_mark(mark::NO_EVICT, on);
        ctx.out().ok();
        Ok(())
    })
}

/// `CLIENT NO-TOUCH ON | OFF`
pub fn no_touch(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    ctx.attempt(|ctx| {
        let on = on_or_off(args[2])?;
        ctx.client().set_gate(gate::NO_TOUCH, on);
        ctx.out().ok();
        Ok(())
    })
}

/// `CLIENT UNBLOCK id [TIMEOUT | ERROR]`: a client that waits for a key goes on, as if its time were up or with an error. Those that go on in
/// slices or are paused are not blocked in this sense.
pub fn unblock(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let parsed = match args.get(3).map(|reason| reason.to_ascii_lowercase()).as_deref() {
        Some(_) if args.len() > 4 => Err(errors::subcommand_syntax("client", args[1]).into()),
        None | Some(b"timeout") => parse_int(args[2]).map(|id| (id, false)),
        Some(b"error") => parse_int(args[2]).map(|id| (id, true)),
        Some(_) => Err(errors::UNBLOCK_REASON.into()),
    };
    let (id, error) = match parsed {
        Ok((id, error)) => (u64::try_from(id).unwrap_or(0), error),
        Err(failure) => return ctx.fail(failure),
    };
    let unblock = move |local: &mut Local<'_>| {
        let done = local.blocking.unblock(id, error);
        if done {
            local.asks.wake.push(id);
        }
        done
    };
    everywhere(ctx, unblock, |ctx, answers: Vec<bool>| {
        let done = answers.contains(&true);
        ctx.reply.int(i64::from(done));
    })
}

/// RESET: the connection as it was when it was made.
pub fn reset(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    if ctx.client().is(mark::LISTENS) {
        return behind_messages(ctx, args, |ctx, _| begin_anew(ctx));
    }
    begin_anew(ctx);
    Outcome::Done
}

fn begin_anew(ctx: &mut Ctx<'_>) {
    let user = Arc::clone(ctx.acl.users().default_user());
    ctx.end_transaction();
    super::monitor::stop(ctx);
    if ctx.client().is(mark::LISTENS) {
        let me = ctx.me;
        ctx.pubsub.leave(me);
        look_at_subscriptions(ctx);
    }
    let me = ctx.me;
    super::tracking::stop(ctx.clients.get_mut(me), ctx.db.totals(), ctx.pubsub);
    let client = ctx.client();
    client.reset();
    client.become_user(&user);
    client.set_gate(gate::UNAUTHENTICATED, !user.is_open());
    ctx.reply.set_version(false);
    ctx.reply.simple("RESET");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_add_up() {
        let ms = Duration::from_millis;
        let mut pause = Pause::default();
        assert!(!pause.is_on() && !pause.stops(Flags::WRITE) && pause.left(5).is_none());
        pause.begin(1_000, ms(1), false);
        assert!(pause.stops(Flags::WRITE) && pause.stops(Flags::MAY_REPLICATE) && !pause.stops(Flags::READONLY));
        // Shorter and stricter: the later end stays, the stricter kind is taken.
        pause.begin(2_000, Duration::ZERO, true);
        assert!(pause.stops(Flags::READONLY));
        assert_eq!(pause.left(1_000), Some(ms(1)));
        pause.begin(2_000, ms(2), false);
        assert!(pause.stops(Flags::READONLY), "the stricter one goes on");
        pause.look_at(2_001_999);
        assert!(pause.is_on());
        pause.look_at(2_002_000);
        assert!(!pause.is_on());
        // One that is over leaves nothing to the next.
        pause.begin(3_000_000, ms(1), true);
        pause.begin(9_000_000, ms(1), false);
        assert!(!pause.stops(Flags::READONLY) && pause.stops(Flags::WRITE));
    }

    #[test]
    fn endless_pauses() {
        let mut pause = Pause::default();
        pause.begin(7, Duration::from_millis(u64::MAX), true);
        pause.look_at(u64::MAX - 1);
        assert!(pause.is_on());
    }
}
