//! Keyspace notifications: what has happened to keys (`db::listeners`) becomes messages on the channels of keys and of events, and
//! invalidations of what clients have cached.

use super::ctx::Ctx;
use crate::base::int;
use crate::base::notify::Classes;
use crate::db::listeners::News;
use crate::pubsub::caching::{Stale, To};
use crate::pubsub::{Exchange, Kind, Publication};
use std::sync::Arc;

impl Ctx<'_> {
    /// Publishes what has happened to keys so far: before what others must not find in front of it. Waits for no lock of the keyspace.
    pub fn publish_news(&mut self) {
        let news = self.db.take_news();
        if !news.is_empty() {
            publish(news, self.config.notify, self.pubsub);
        }
    }
}

/// Sends news on their way to those who subscribe.
#[cold]
#[inline(never)]
pub fn publish(news: Vec<News>, classes: Classes, pubsub: &mut Exchange) {
    let mut channel = Vec::new();
    for piece in news {
        match piece {
            News::Event { database, event, name } => {
                let event = event.name().as_bytes();
                if classes.by_key() {
                    name_channel(&mut channel, b"__keyspace@", database, &name);
                    post(pubsub, &channel, event);
                }
                if classes.by_event() {
                    name_channel(&mut channel, b"__keyevent@", database, event);
                    post(pubsub, &channel, &name);
                }
            }
            News::Stale { name, readers, by } => {
                let stale = Arc::new(Stale::keys(vec![(name, by)]));
                readers
                    .iter()
                    .for_each(|reader| pubsub.invalidate(reader.worker(), To::Reader(reader.client()), &stale));
            }
            News::Changed { name, by } => pubsub.changed(name, by),
            News::Flushed => pubsub.invalidate_all(),
        }
    }
}

/// `__keyspace@<database>__:<what>`
fn name_channel(channel: &mut Vec<u8>, kind: &[u8], database: usize, what: &[u8]) {
    channel.clear();
    channel.extend_from_slice(kind);
    channel.extend_from_slice(int::write_u64(&mut [0; int::MAX_DIGITS], database as u64));
    channel.extend_from_slice(b"__:");
    channel.extend_from_slice(what);
}

fn post(pubsub: &mut Exchange, channel: &[u8], text: &[u8]) {
    let mut audience = pubsub.registry.audience(Kind::Channel, channel);
    if audience.count() > 0 {
        let patterns = std::mem::take(&mut audience.patterns);
        pubsub.post(Publication::new(Kind::Channel, channel, text, patterns), &audience);
    }
}
