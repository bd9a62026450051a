//! A sort under way: elements are gathered, weighed, put in order, and written or stored.

use super::super::ctx::{Budget, Ctx, Failure, NOBODY, Task};
use super::super::event::Event;
use super::super::many::OUT_HIGH_BYTES;
use super::options::{Options, Pattern};
use super::order::{Elements, Sorter, Weights};
use super::{Source, source_at};
use crate::base::entry::{self, Entries, Entry};
use crate::base::int;
use crate::db::any::AnyViewed;
use crate::db::hold::Mode;
use crate::db::item::Value;
use crate::db::view::Deadline;
use crate::db::{Db, DbError, Key, Type};
use crate::types::hash::{Hash, Text};
use crate::types::list::List;
use crate::types::{Body, Span};
use dolmen_slab::BlobRef;
use std::ops::Range;

/// Bytes of elements that are taken from a view, or stored, at once.
const PIECE_BYTES: usize = 4 << 10;
/// Elements that are worked off between two looks at the clock.
const LOOK: u32 = 16;
/// What holds more memory than this gives it back in slices.
const FREE_AT_ONCE_BYTES: usize = 1 << 20;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// Another command holds names.
    Waiting,
    Gathering,
    Weighing,
    Sorting,
    /// The result goes to the destination.
    Storing,
    /// The result goes to the client, with what is at other keys, whose names are held.
    Getting,
    /// The same of elements only: nothing is held.
    Writing,
    Freeing,
}

pub(super) struct Job {
    key: Vec<u8>,
    options: Options,
    /// The elements stay in the order in which they come.
    unsorted: bool,
    stage: Stage,
    holds: bool,
    view: Option<AnyViewed>,
    kind: Type,
    /// Elements still to be gathered.
    left: usize,
    /// Those taken from the view.
    run: Vec<u8>,
    elements: Elements,
    sorter: Sorter,
    /// Places in the order, of what was not written yet.
    range: Range<usize>,
    /// Elements of the result.
    count: usize,
    body: Body<List>,
}

impl Job {
    pub(super) fn new(key: &[u8], options: Options) -> Job {
        Job {
            key: key.to_vec(),
            unsorted: options.unsorted,
            options,
            stage: Stage::Gathering,
            holds: false,
            view: None,
            kind: Type::List,
            left: 0,
            run: Vec::new(),
            elements: Elements::new(0, Weights::Own),
            sorter: Sorter::default(),
            range: 0..0,
            count: 0,
            body: Body::default(),
        }
    }

    /// The patterns that name keys.
    fn patterns(&self) -> impl Iterator<Item = &Pattern> {
        let by = self.options.by.iter().filter(|_| !self.unsorted);
        by.chain(&self.options.get).filter(|pattern| matches!(pattern, Pattern::Key { .. }))
    }

    /// Other keys that are looked at for each element.
    pub(super) fn keys_each(&self) -> usize {
        self.patterns().count()
    }

    pub(super) fn needs_names(&self) -> bool {
        self.options.store.is_some() || self.keys_each() > 0
    }

    pub(super) fn wait_for_names(&mut self) {
        self.stage = Stage::Waiting;
    }

    /// The instant of the sort, or with `holds` the beginning of the one when all names are held: the shard of the key is locked.
    pub(super) fn begin(&mut self, ctx: &mut Ctx<'_>, key: Key<'_>, source: Option<Source>) {
        self.stage = Stage::Gathering;
        let Some(source) = source else { return };
        self.kind = source.kind;
        // A set has no order that a stored list could have.
        if source.kind == Type::Set && self.unsorted && self.options.store.is_some() {
            (self.unsorted, self.options.alpha, self.options.by) = (false, true, None);
        }
        let range = self.options.range(source.len);
        let span = if self.unsorted && source.kind != Type::Set {
            Span { skip: range.start, reverse: self.options.descending }
        } else {
            Span::default()
        };
        self.view = ctx.db.open_any_view(key, source.kind, span);
        self.left = match (self.unsorted, source.kind) {
            (false, _) => source.len,
            (true, Type::Set) => range.end,
            (true, _) => range.len(),
        };
        let weights = match (&self.options.by, self.options.alpha) {
            _ if self.unsorted => Weights::Own,
            (None, true) if self.collates(ctx) => Weights::Texts(Vec::new()),
            (None, true) => Weights::Own,
            (Some(_), true) => Weights::Texts(Vec::new()),
            (_, false) => Weights::Numbers(Vec::new()),
        };
        self.elements = Elements::new(self.left, weights);
    }

    /// Texts are compared by the rules of a language, which a result that is stored does not depend on.
    fn collates(&self, ctx: &Ctx<'_>) -> bool {
        self.options.store.is_none() && !ctx.config.locale_collate.is_by_bytes()
    }

    /// Becomes the holder of names, and begins. False: there is another holder.
    fn take_names(&mut self, ctx: &mut Ctx<'_>) -> Result<bool, Failure> {
        let name = std::mem::take(&mut self.key);
        let key = ctx.key(&name);
        let len = source_at(&mut ctx.db, key).map(|source| source.map_or(0, |source| source.len));
        let begun = match len {
            Ok(len) if ctx.db.hold_begin(len.saturating_mul(self.keys_each()) + 2, Mode::Shared) => {
                self.holds = true;
                ctx.db.hold(key.hash);
                // Since the look at it another may have come.
                source_at(&mut ctx.db, key).map(|source| {
                    self.begin(ctx, key, source);
                    true
                })
            }
            Ok(_) => Ok(false),
            Err(failure) => Err(failure),
        };
        self.key = name;
        if self.holds
            && let Some(destination) = &self.options.store
        {
            let hash = ctx.key(destination).hash;
            ctx.db.hold(hash);
        }
        begun
    }

    /// One piece of the source. True: that was the last.
    fn gather(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> Result<bool, Failure> {
        let mut name = Vec::new();
        while self.left > 0 {
            let Some(view) = &mut self.view else { break };
            self.run.clear();
            let more = view.next(&mut ctx.db, &mut self.run, PIECE_BYTES).map_err(|_| DbError::OutOfMemory)?;
            let mut entries = Entries::new(&self.run);
            while self.left > 0
                && let Some(element) = entries.next()
            {
                if self.kind == Type::Zset {
                    entries.next();
                }
                let mut digits = [0; int::MAX_DIGITS];
                let element = element.text(&mut digits);
                self.elements.push(element);
                self.left -= 1;
                if !self.holds {
                    continue;
                }
                let by = self.options.by.iter().filter(|_| !self.unsorted);
                for pattern in by.chain(&self.options.get) {
                    if pattern.name(element, &mut name) {
                        let hash = ctx.key(&name).hash;
                        ctx.db.hold(hash);
                    }
                }
            }
            if !more {
                break;
            }
            if budget.is_spent(1) {
                return Ok(false);
            }
        }
        if let Some(view) = self.view.take() {
            view.close(&mut ctx.db);
        }
        self.run = Vec::new();
        Ok(true)
    }

    /// Some elements get their weights. True: all have them.
    fn weigh(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> Result<bool, Failure> {
        let collates = self.collates(ctx);
        let mut name = Vec::new();
        while self.elements.weighed() < self.elements.len() {
            let nth = self.elements.weighed();
            let element = self.elements.get(nth);
            match &self.options.by {
                None if collates => {
                    let key = ctx.config.locale_collate.key(element);
                    self.elements.weigh(Some(&key))?;
                }
                None => self.elements.weigh_itself()?,
                Some(by) => {
                    let mut text = text_of(&mut ctx.db, by, element, &mut name);
                    if let Some(text) = &mut text
                        && collates
                        && self.options.alpha
                    {
                        *text = ctx.config.locale_collate.key(text);
                    }
                    self.elements.weigh(text.as_deref())?;
                }
            }
            if budget.is_spent(LOOK) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// All is in order: which elements are the result.
    fn finish_order(&mut self, ctx: &mut Ctx<'_>) {
        let all = self.elements.len();
        self.range = match (self.unsorted, self.kind) {
            // Only those were gathered.
            (true, Type::List | Type::Zset) => 0..all,
            _ => self.options.range(all),
        };
        self.count = self.range.len() * self.options.get.len().max(1);
        self.stage = match self.options.store {
            Some(_) => Stage::Storing,
            None if self.options.get.iter().any(|get| matches!(get, Pattern::Key { .. })) => Stage::Getting,
            None => Stage::Writing,
        };
        if self.stage != Stage::Storing {
            ctx.reply.array(self.count);
        }
        if self.stage == Stage::Writing {
            self.release(&mut ctx.db);
        }
    }

    fn element(&self, place: usize) -> &[u8] {
        self.elements.get(if self.unsorted { place } else { self.sorter.nth(place) })
    }

    /// Writes the result. True: that was all.
    fn write(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        let mut name = Vec::new();
        while !self.range.is_empty() {
            let element = self.element(self.range.start);
            if self.options.get.is_empty() {
                ctx.reply.bulk(element);
            }
            for pattern in &self.options.get {
                reply_got(ctx, pattern, element, &mut name);
            }
            self.range.start += 1;
            // Who holds names does not wait for its client, or others would.
            let full = self.stage == Stage::Writing && ctx.out().queued() > OUT_HIGH_BYTES;
            if full || budget.is_spent(LOOK) {
                return self.range.is_empty();
            }
        }
        true
    }

    /// Adds to what will be stored. True: it is stored.
    fn store(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> Result<bool, Failure> {
        let Some(destination) = self.options.store.take() else { return Ok(true) };
        let done = self.store_at(ctx, &destination, budget);
        self.options.store = Some(destination);
        done
    }

    fn store_at(&mut self, ctx: &mut Ctx<'_>, destination: &[u8], budget: &mut Budget) -> Result<bool, Failure> {
        let key = ctx.key(destination);
        let mut name = Vec::new();
        while !self.range.is_empty() {
            let mut run = Vec::new();
            while !self.range.is_empty() && run.len() < PIECE_BYTES {
                let element = self.element(self.range.start);
                if self.options.get.is_empty() {
                    entry::put(&mut run, element);
                }
                for pattern in &self.options.get {
                    // What is not there is an empty element.
                    let text = text_of(&mut ctx.db, pattern, element, &mut name).unwrap_or_default();
                    entry::put(&mut run, &text);
                }
                self.range.start += 1;
                if budget.is_spent(LOOK) {
                    ctx.db.extend_body(key, &mut self.body, &run)?;
                    return Ok(false);
                }
            }
            ctx.db.extend_body(key, &mut self.body, &run)?;
        }
        let was_there = ctx.db.store(key, std::mem::take(&mut self.body), Deadline::None)?;
        if self.count > 0 {
            ctx.report(key, Event::SortStore);
            ctx.change(self.count as u64 - 1);
        } else if was_there {
            ctx.report(key, Event::Del);
        }
        ctx.reply.count(self.count);
        Ok(true)
    }

    fn release(&mut self, db: &mut Db<'_>) {
        if std::mem::take(&mut self.holds) {
            db.hold_end();
        }
    }

    /// Gives back what lies in shards.
    fn give_back(&mut self, db: &mut Db<'_>) {
        if let Some(view) = self.view.take() {
            view.close(db);
        }
        if let Some(destination) = &self.options.store {
            let home = db.key(destination);
            db.drop_body(home, std::mem::take(&mut self.body));
        }
        self.release(db);
    }

    /// Works at one stage. True: the reply is complete.
    fn go_on(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> Result<bool, Failure> {
        loop {
            let done = match self.stage {
                Stage::Waiting => {
                    if !self.take_names(ctx)? {
                        return Ok(false);
                    }
                    continue;
                }
                Stage::Gathering => self.gather(ctx, budget)?,
                Stage::Weighing => self.weigh(ctx, budget)?,
                Stage::Sorting => self.sorter.step(&self.elements, || !budget.is_spent(4)),
                Stage::Storing => self.store(ctx, budget)?,
                Stage::Getting | Stage::Writing => self.write(ctx, budget),
                Stage::Freeing => true,
            };
            if !done {
                return Ok(false);
            }
            match self.stage {
                Stage::Gathering if self.unsorted => self.finish_order(ctx),
                Stage::Gathering => self.stage = Stage::Weighing,
                Stage::Weighing => {
                    self.sorter = Sorter::new(self.elements.len(), self.options.descending);
                    self.stage = Stage::Sorting;
                }
                Stage::Sorting => self.finish_order(ctx),
                _ => return Ok(true),
            }
        }
    }

    /// Frees what it holds. True: all was.
    fn free(&mut self, budget: &mut Budget) -> bool {
        std::mem::take(&mut self.sorter).free();
        while self.elements.free_some() {
            if budget.is_spent(1) {
                return false;
            }
        }
        true
    }
}

impl Task for Job {
    fn step(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        if self.stage != Stage::Freeing {
            if ctx.me != NOBODY {
                match self.go_on(ctx, budget) {
                    Ok(false) => return false,
                    Ok(true) => {}
                    Err(failure) => {
                        ctx.fail(failure);
                    }
                }
            }
            self.give_back(&mut ctx.db);
            self.stage = Stage::Freeing;
            if self.bytes() > FREE_AT_ONCE_BYTES {
                return false;
            }
        }
        self.free(budget)
    }

    fn bytes(&self) -> usize {
        let view = self.view.as_ref().map_or(0, AnyViewed::held_bytes);
        view + self.run.capacity() + self.elements.bytes() + self.sorter.bytes()
    }

    fn waits_for_room(&self) -> bool {
        self.stage == Stage::Writing
    }

    /// Without its client it only has memory to free.
    fn must_finish(&self) -> bool {
        self.bytes() > FREE_AT_ONCE_BYTES
    }

    fn abandon(&mut self, db: &mut Db<'_>) {
        self.give_back(db);
    }
}

/// What a pattern means for an element.
enum Got<'a> {
    Entry(Entry<'a>),
    Blob(BlobRef),
}

/// Shows what a pattern that names keys means for an element; `name` is memory for the name.
fn look_up<T>(
    db: &mut Db<'_>,
    pattern: &Pattern,
    element: &[u8],
    name: &mut Vec<u8>,
    see: impl FnOnce(Option<Got<'_>>) -> T,
) -> T {
    if !pattern.name(element, name) {
        return see(None);
    }
    let key = db.key(name);
    // Of another type is as good as not there.
    if let Some(field) = pattern.field() {
        let now_ms = db.now_ms();
        let look = db.read::<Hash>(key).ok().flatten();
        let value = look.and_then(|look| Some((look.slab, look.field(field, now_ms)?.value)));
        return see(value.map(|(slab, value)| match value {
            Text::Entry(entry) => Got::Entry(entry),
            Text::Blob(id) => Got::Blob(slab.blob_ref(id)),
        }));
    }
    match db.read_string(key) {
        Ok(Some(Value::Raw(bytes))) => see(Some(Got::Entry(Entry::Bytes(bytes)))),
        Ok(Some(Value::Int(value))) => see(Some(Got::Entry(Entry::Int(value)))),
        Ok(Some(Value::Blob(id))) => {
            let blob = db.blob_ref(id);
            see(Some(Got::Blob(blob)))
        }
        Ok(None) | Err(_) => see(None),
    }
}

/// The text that a pattern means for an element.
fn text_of(db: &mut Db<'_>, pattern: &Pattern, element: &[u8], name: &mut Vec<u8>) -> Option<Vec<u8>> {
    if matches!(pattern, Pattern::Element) {
        return Some(element.to_vec());
    }
    look_up(db, pattern, element, name, |got| match got? {
        Got::Entry(entry) => Some(entry.to_vec()),
        Got::Blob(blob) => {
            let mut text = Vec::with_capacity(blob.len());
            (0..blob.segments()).for_each(|nth| text.extend_from_slice(blob.segment(nth)));
            Some(text)
        }
    })
}

fn reply_got(ctx: &mut Ctx<'_>, pattern: &Pattern, element: &[u8], name: &mut Vec<u8>) {
    let Ctx { db, reply, .. } = ctx;
    if matches!(pattern, Pattern::Element) {
        return reply.bulk(element);
    }
    look_up(db, pattern, element, name, |got| match got {
        None => reply.null(),
        Some(Got::Entry(entry)) => reply.entry(entry),
        Some(Got::Blob(blob)) => reply.bulk_shared(blob),
    });
}
