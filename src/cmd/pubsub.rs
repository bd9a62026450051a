//! PUBLISH and SUBSCRIBE with their kin, PUBSUB: what they read and answer. Who listens and how messages travel is `crate::pubsub`'s.

use super::client::{gate, mark};
use super::ctx::{Args, Budget, Ctx, FIRST_SLICE, Outcome, Task};
use crate::base::glob::glob_matches;
use crate::db::DbError;
use crate::pubsub::{Kind, Publication, Registry, SHARED_MIN_BYTES};

/// The word that answers a change of what a client listens to.
const fn verb(kind: Kind, on: bool) -> &'static [u8] {
    match (kind, on) {
        (Kind::Channel, true) => b"subscribe",
        (Kind::Channel, false) => b"unsubscribe",
        (Kind::Pattern, true) => b"psubscribe",
        (Kind::Pattern, false) => b"punsubscribe",
        (Kind::Shard, true) => b"ssubscribe",
        (Kind::Shard, false) => b"sunsubscribe",
    }
}

/// Subscriptions as a reply to one counts them: shard channels apart.
fn counted(ctx: &Ctx<'_>, kind: Kind) -> usize {
    let count = |kind| ctx.pubsub.subscriptions.count(ctx.me, kind);
    if kind == Kind::Shard { count(kind) } else { count(Kind::Channel) + count(Kind::Pattern) }
}

fn answer(ctx: &mut Ctx<'_>, kind: Kind, on: bool, name: Option<&[u8]>) {
    let count = counted(ctx, kind);
    ctx.client().set_mark(mark::PUSHED, true);
    ctx.reply.push(3);
    ctx.reply.bulk(verb(kind, on));
    match name {
        Some(name) => ctx.reply.bulk(name),
        None => ctx.reply.null(),
    }
    ctx.reply.count(count);
}

/// What a client listens to has changed, or its protocol: what it may do, and which limit its output has.
pub fn look_at_subscriptions(ctx: &mut Ctx<'_>) {
    let counts = [Kind::Channel, Kind::Pattern, Kind::Shard].map(|kind| ctx.pubsub.subscriptions.count(ctx.me, kind));
    let listens = counts != [0; 3];
    let client = ctx.client();
    if listens || client.is(mark::LISTENS) {
        client.labels_mut().subscriptions = counts;
    }
    client.set_mark(mark::LISTENS, listens);
    let restricted = listens && !client.resp3;
    client.set_gate(gate::LISTENS, restricted);
    ctx.count_listening();
}

impl Ctx<'_> {
    /// What the client's subscriptions and prefixes take has changed.
    pub fn count_listening(&mut self) {
        let subscriptions = self.pubsub.subscriptions.bytes(self.me);
        let client = self.client();
        let prefixes = client.tracking().map_or(0, |tracking| tracking.prefixes_bytes());
        let bytes = subscriptions + prefixes;
        let before = client.set_listening_bytes(bytes);
        self.stats.clients_bytes = self.stats.clients_bytes + bytes - before;
    }
}

/// Runs what changes a client's subscriptions when all that was published before has been written to its subscribers of then, be it at once. (Within
/// EXEC it does not wait.)
pub fn behind_messages(ctx: &mut Ctx<'_>, args: Args<'_>, run: fn(&mut Ctx<'_>, Args<'_>)) -> Outcome {
    ctx.publish_news();
    if ctx.pubsub.outbox.is_empty() || ctx.may_not_wait() {
        run(ctx, args);
        return Outcome::Done;
    }
    let args = args.iter().map(|arg| arg.to_vec()).collect();
    let behind = Behind { run, args, round: ctx.pubsub.wait_for_delivery() };
    ctx.suspend(Box::new(behind))
}

/// See `behind_messages`.
struct Behind {
    run: fn(&mut Ctx<'_>, Args<'_>),
    args: Vec<Vec<u8>>,
    round: u64,
}

impl Task for Behind {
    fn step(&mut self, ctx: &mut Ctx<'_>, _budget: &mut Budget) -> bool {
        if ctx.pubsub.is_delivered(self.round) {
            let args: Vec<&[u8]> = self.args.iter().map(Vec::as_slice).collect();
            (self.run)(ctx, &args);
            return true;
        }
        false
    }

    fn bytes(&self) -> usize {
        self.args.iter().map(Vec::capacity).sum()
    }

    fn is_mid_reply(&self) -> bool {
        false
    }
}

fn listen(ctx: &mut Ctx<'_>, args: Args<'_>, kind: Kind) {
    for name in &args[1..] {
        let me = ctx.me;
        ctx.pubsub.subscribe(me, kind, name);
        answer(ctx, kind, true, Some(name));
    }
    look_at_subscriptions(ctx);
}

fn listen_no_more(ctx: &mut Ctx<'_>, args: Args<'_>, kind: Kind) {
    let me = ctx.me;
    if args.len() > 1 {
        for name in &args[1..] {
            ctx.pubsub.unsubscribe(me, kind, name);
            answer(ctx, kind, false, Some(name));
        }
    } else {
        let names = ctx.pubsub.subscriptions.names(me, kind);
        for name in &names {
            ctx.pubsub.unsubscribe(me, kind, name);
            answer(ctx, kind, false, Some(name));
        }
        if names.is_empty() {
            answer(ctx, kind, false, None);
        }
    }
    look_at_subscriptions(ctx);
}

pub fn subscribe(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    behind_messages(ctx, args, |ctx, args| listen(ctx, args, Kind::Channel))
}

pub fn psubscribe(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    behind_messages(ctx, args, |ctx, args| listen(ctx, args, Kind::Pattern))
}

pub fn ssubscribe(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    behind_messages(ctx, args, |ctx, args| listen(ctx, args, Kind::Shard))
}

pub fn unsubscribe(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    behind_messages(ctx, args, |ctx, args| listen_no_more(ctx, args, Kind::Channel))
}

pub fn punsubscribe(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    behind_messages(ctx, args, |ctx, args| listen_no_more(ctx, args, Kind::Pattern))
}

pub fn sunsubscribe(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    behind_messages(ctx, args, |ctx, args| listen_no_more(ctx, args, Kind::Shard))
}

// ---- publishing ----

pub fn publish(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    post(ctx, args, Kind::Channel)
}

pub fn spublish(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    post(ctx, args, Kind::Shard)
}

fn post(ctx: &mut Ctx<'_>, args: Args<'_>, kind: Kind) -> Outcome {
    let (channel, text) = (args[1], args[2]);
    if ctx.pubsub.is_full() && !ctx.may_not_wait() {
        let later = Later { kind, channel: channel.to_vec(), text: text.to_vec() };
        return ctx.suspend(Box::new(later));
    }
    match deliver(ctx, kind, channel, text) {
        Ok(count) => ctx.reply.count(count),
        Err(error) => return ctx.fail(error),
    }
    Outcome::Done
}

/// Sends a message on its way. Returns how many get it.
fn deliver(ctx: &mut Ctx<'_>, kind: Kind, channel: &[u8], text: &[u8]) -> Result<usize, DbError> {
    ctx.publish_news();
    let mut audience = ctx.pubsub.registry.audience(kind, channel);
    let count = audience.count();
    if count > 0 {
        let patterns = std::mem::take(&mut audience.patterns);
        let publication = if text.len() < SHARED_MIN_BYTES || ctx.in_multi() {
            Publication::new(kind, channel, text, patterns)
        } else {
            // (Not within EXEC, which has the shards of its keys only.) It lies in the shard where a key of the channel's name would, until the last of them was sent.
            let key = ctx.key(channel);
            let blob = ctx.db.blob_new(key, text.len())?;
            let appended = ctx.db.blob_append(key, blob, text);
            let shared = ctx.db.blob_ref(blob);
            ctx.db.blob_drop(key, blob);
            appended?;
            Publication::of_blob(kind, channel, shared, patterns)
        };
        ctx.pubsub.post(publication, &audience);
    }
    Ok(count)
}

/// PUBLISH, while another worker has too many messages to take.
struct Later {
    kind: Kind,
    channel: Vec<u8>,
    text: Vec<u8>,
}

impl Task for Later {
    fn step(&mut self, ctx: &mut Ctx<'_>, _budget: &mut Budget) -> bool {
        if ctx.pubsub.is_full() {
            return false;
        }
        match deliver(ctx, self.kind, &self.channel, &self.text) {
            Ok(count) => ctx.reply.count(count),
            Err(error) => {
                ctx.fail(error);
            }
        }
        true
    }

    fn bytes(&self) -> usize {
        self.channel.capacity() + self.text.capacity()
    }
}

// ---- PUBSUB ----

pub fn channels(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    list(ctx, args, Kind::Channel)
}

pub fn shard_channels(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    list(ctx, args, Kind::Shard)
}

/// `PUBSUB CHANNELS | SHARDCHANNELS [pattern]`
fn list(ctx: &mut Ctx<'_>, args: Args<'_>, kind: Kind) -> Outcome {
    if args.len() > 3 {
        let text = crate::proto::errors::subcommand_syntax("pubsub", args[1]);
        return ctx.fail(text);
    }
    let pattern = args.get(2).map(|pattern| pattern.to_vec());
    let mut task = List { kind, pattern, part: 0, names: Vec::new() };
    if task.step(ctx, &mut Budget::new(ctx.clock, FIRST_SLICE)) {
        return Outcome::Done;
    }
    ctx.suspend(Box::new(task))
}

/// The channels that somebody listens to, gathered part by part.
struct List {
    kind: Kind,
    pattern: Option<Vec<u8>>,
    part: usize,
    names: Vec<Box<[u8]>>,
}

impl Task for List {
    fn step(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        while self.part < Registry::PARTS {
            let (pattern, names) = (&self.pattern, &mut self.names);
            ctx.pubsub.registry.part_names(self.kind, self.part, |name| {
                if pattern.as_ref().is_none_or(|pattern| glob_matches(pattern, name, false)) {
                    names.push(name.into());
                }
            });
            self.part += 1;
            if budget.is_spent(1) && self.part < Registry::PARTS {
                return false;
            }
        }
        ctx.reply.array(self.names.len());
        self.names.iter().for_each(|name| ctx.reply.bulk(name));
        true
    }

    fn bytes(&self) -> usize {
        self.names.iter().map(|name| name.len() + size_of::<Box<[u8]>>()).sum()
    }
}

pub fn numsub(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    count_each(ctx, args, Kind::Channel)
}

pub fn shard_numsub(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    count_each(ctx, args, Kind::Shard)
}

/// `PUBSUB NUMSUB | SHARDNUMSUB [channel ...]`
fn count_each(ctx: &mut Ctx<'_>, args: Args<'_>, kind: Kind) -> Outcome {
    ctx.reply.array((args.len() - 2) * 2);
    for channel in &args[2..] {
        let count = ctx.pubsub.registry.subscribers(kind, channel);
        ctx.reply.bulk(channel);
        ctx.reply.count(count);
    }
    Outcome::Done
}

/// `PUBSUB NUMPAT`
pub fn numpat(ctx: &mut Ctx<'_>, _args: Args<'_>) -> Outcome {
    let count = ctx.pubsub.registry.patterns();
    ctx.reply.count(count);
    Outcome::Done
}
