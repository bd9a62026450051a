//! Commands about the deadlines of very many fields, in parts: HEXPIRE, HTTL, HPERSIST and their kin, HGETEX, HSETEX, HGETDEL.

use super::deadlines::{
    Condition, Given, MILLISECONDS_LEFT, NO_FIELD, SECONDS_LEFT, Show, UNIX_MILLISECONDS, UNIX_SECONDS, check_fields,
    give, parse_deadline, persist, told,
};
use super::values::{SetOptions, Then, Values};
use super::{Changed, change};
use crate::cmd::ctx::{Args, Ctx, Exec, Failure};
use crate::cmd::event::Event;
use crate::cmd::options::ExpireUnit;
use crate::cmd::parts::{InParts, suspend};
use crate::db::collections::Missing;
use crate::db::hold::Mode;
use crate::db::{DbError, Key};
use crate::proto::errors;
use crate::types::Edit;
use crate::types::hash::Hash;
use dolmen_slab::AllocError;

macro_rules! in_parts {
    ($name:ident, $run:expr, $work:expr) => {
        pub const $name: Exec = Exec::whole($run, |ctx, request| suspend(ctx, request, $work));
    };
}

in_parts!(MANY_HEXPIRE, super::hexpire, expire("hexpire", ExpireUnit::Seconds));
in_parts!(MANY_HPEXPIRE, super::hpexpire, expire("hpexpire", ExpireUnit::Milliseconds));
in_parts!(MANY_HEXPIREAT, super::hexpireat, expire("hexpireat", ExpireUnit::UnixSeconds));
in_parts!(MANY_HPEXPIREAT, super::hpexpireat, expire("hpexpireat", ExpireUnit::UnixMilliseconds));
in_parts!(MANY_HPERSIST, super::hpersist, Change::new(What::Persist));
in_parts!(MANY_HGETEX, super::hgetex, Change::new(What::GetEx(Then::Nothing)));
in_parts!(MANY_HGETDEL, super::hgetdel, Change::new(What::GetDel));
in_parts!(MANY_HTTL, super::httl, show("httl", SECONDS_LEFT));
in_parts!(MANY_HPTTL, super::hpttl, show("hpttl", MILLISECONDS_LEFT));
in_parts!(MANY_HEXPIRETIME, super::hexpiretime, show("hexpiretime", UNIX_SECONDS));
in_parts!(MANY_HPEXPIRETIME, super::hpexpiretime, show("hpexpiretime", UNIX_MILLISECONDS));
in_parts!(MANY_HSETEX, super::hsetex, SetEx::default());

/// What stands between the key and the fields.
#[derive(Default)]
struct Head(Vec<Vec<u8>>);

impl Head {
    /// Up to the number behind FIELDS, which is one of the first few words; where the fields begin.
    fn take<'a>(argc: usize, get: impl Fn(usize) -> &'a [u8]) -> (Head, usize) {
        const FIRST_MAX: usize = 10;
        let is_fields = |at: &usize| get(*at).eq_ignore_ascii_case(b"fields");
        // Without it the command finds what is wrong in these words.
        let first = (2..FIRST_MAX.min(argc - 1)).find(is_fields).map_or(FIRST_MAX.min(argc), |at| at + 2);
        (Head((2..first).map(|at| get(at).to_vec()).collect()), first)
    }

    fn words(&self) -> Vec<&[u8]> {
        self.0.iter().map(Vec::as_slice).collect()
    }
}

/// What is done to each field; what the words in front of them say is filled in by `Change::start`.
#[derive(Clone, Copy)]
enum What {
    Expire { command: &'static str, unit: ExpireUnit, deadline_ms: u64, condition: Condition },
    Persist,
    GetEx(Then),
    GetDel,
}

fn expire(command: &'static str, unit: ExpireUnit) -> Change {
    Change::new(What::Expire { command, unit, deadline_ms: 0, condition: Condition::Always })
}

struct Change {
    what: What,
    head: Head,
    fields: usize,
    /// Of the fields so far: a number of each, or its value.
    answers: Vec<i64>,
    values: Values,
    set: u64,
    deleted: u64,
    emptied: bool,
    expired: bool,
}

impl Change {
    fn new(what: What) -> Change {
        let (head, values) = (Head(Vec::new()), Values::new());
        Change {
            what,
            head,
            fields: 0,
            answers: Vec::new(),
            values,
            set: 0,
            deleted: 0,
            emptied: false,
            expired: false,
        }
    }

    fn count(&mut self, given: Given) {
        self.set += u64::from(given == Given::Set);
        self.deleted += u64::from(given == Given::Deleted);
    }

    fn each(&mut self, edit: &mut Edit<'_, Hash>, field: &[u8], now_ms: u64) -> Result<(), AllocError> {
        match self.what {
            What::Expire { deadline_ms, condition, .. } => {
                let given = give(edit, field, deadline_ms, condition, now_ms)?;
                self.count(given);
                self.answers.push(given.answer());
            }
            What::Persist => {
                let answer = persist(edit, field, now_ms)?;
                self.set += u64::from(answer == 1);
                self.answers.push(answer);
            }
            What::GetEx(then) => {
                let given = then.apply(edit, &mut self.values, field, now_ms)?;
                self.count(given);
            }
            What::GetDel => {
                if self.values.take(edit.look(), field, now_ms) {
                    edit.remove(field, now_ms);
                    self.deleted += 1;
                }
            }
        }
        Ok(())
    }

    /// A field of a hash that is not there.
    fn absent(&mut self) {
        match self.what {
            What::Expire { .. } | What::Persist => self.answers.push(NO_FIELD),
            What::GetEx(_) | What::GetDel => self.values.none(),
        }
    }
}

impl InParts for Change {
    const MODE: Mode = Mode::Exclusive;

    fn begin<'a>(&mut self, argc: usize, get: impl Fn(usize) -> &'a [u8]) -> Result<usize, Failure> {
        let (head, first) = Head::take(argc, get);
        self.head = head;
        Ok(first)
    }

    fn start(&mut self, ctx: &mut Ctx<'_>, key: Key<'_>, elements: usize) -> Result<(), Failure> {
        ctx.db.look::<Hash>(key)?;
        let (words, now_ms) = (self.head.words(), ctx.db.clock_ms());
        let (options, no_number, command) = match &mut self.what {
            What::Expire { command, unit, deadline_ms, condition } => {
                *deadline_ms = parse_deadline(words[0], *unit, now_ms, command)?;
                *condition = Condition::parse(words[1]);
                (1 + usize::from(*condition != Condition::Always), errors::NUMFIELDS_POSITIVE, *command)
            }
            What::Persist => (0, errors::NUMFIELDS_NOT_POSITIVE, "hpersist"),
            What::GetDel => (0, errors::NUMFIELDS_NOT_POSITIVE, "hgetdel"),
            What::GetEx(then) => {
                let (wanted, options) = Then::parse(&words, now_ms)?;
                *then = wanted;
                (options, errors::NUMFIELDS_NOT_POSITIVE, "hgetex")
            }
        };
        check_fields(&words[options..], elements, no_number, command)?;
        self.fields = elements;
        Ok(())
    }

    fn part(&mut self, ctx: &mut Ctx<'_>, key: Key<'_>, part: Args<'_>) -> Result<bool, Failure> {
        let done = change(ctx, key, Missing::Skip, |edit, now_ms| {
            part.iter().try_for_each(|field| self.each(edit, field, now_ms)).map_err(DbError::from)
        })?;
        match done {
            Some(done) => {
                self.emptied = done.emptied;
                self.expired |= done.expired;
            }
            None => part.iter().for_each(|_| self.absent()),
        }
        Ok(true)
    }

    fn report(&mut self, ctx: &mut Ctx<'_>, key: Key<'_>) {
        let event = match self.what {
            What::Expire { .. } if self.deleted > 0 => Event::HDel,
            What::Expire { .. } => Event::HExpire,
            What::Persist => Event::HPersist,
            What::GetEx(then) => then.event(self.deleted > 0),
            What::GetDel => Event::HDel,
        };
        let fields = if matches!(self.what, What::Persist) { self.set.min(1) } else { self.set + self.deleted };
        let changed = Changed { value: (), emptied: self.emptied, expired: self.expired };
        changed.settle(ctx, key, event, fields);
    }

    fn reply(&mut self, ctx: &mut Ctx<'_>) {
        ctx.reply.array(self.fields);
        self.answers.iter().for_each(|answer| ctx.reply.int(*answer));
        std::mem::take(&mut self.values).reply(ctx);
    }
}

fn show(command: &'static str, show: Show) -> Tell {
    Tell { command, show, head: Head(Vec::new()) }
}

struct Tell {
    command: &'static str,
    show: Show,
    head: Head,
}

impl InParts for Tell {
    const MODE: Mode = Mode::Shared;

    fn begin<'a>(&mut self, argc: usize, get: impl Fn(usize) -> &'a [u8]) -> Result<usize, Failure> {
        let (head, first) = Head::take(argc, get);
        self.head = head;
        Ok(first)
    }

    fn start(&mut self, ctx: &mut Ctx<'_>, key: Key<'_>, elements: usize) -> Result<(), Failure> {
        ctx.db.read::<Hash>(key)?;
        check_fields(&self.head.words(), elements, errors::NUMFIELDS_NOT_POSITIVE, self.command)?;
        ctx.reply.array(elements);
        Ok(())
    }

    fn part(&mut self, ctx: &mut Ctx<'_>, key: Key<'_>, part: Args<'_>) -> Result<bool, Failure> {
        let now_ms = ctx.db.now_ms();
        let look = ctx.db.look::<Hash>(key)?;
        part.iter().for_each(|field| ctx.reply.int(told(look, field, now_ms, self.show)));
        Ok(true)
    }
}

#[derive(Default)]
struct SetEx {
    head: Head,
    options: Option<SetOptions>,
    fields: usize,
    set: usize,
    emptied: bool,
    expired: bool,
}

impl SetEx {
    fn options(&self) -> SetOptions {
        let Some(options) = self.options else { unreachable!("`start` comes first") };
        options
    }
}

impl InParts for SetEx {
    const MODE: Mode = Mode::Exclusive;
    const GROUP: usize = 2;

    fn begin<'a>(&mut self, argc: usize, get: impl Fn(usize) -> &'a [u8]) -> Result<usize, Failure> {
        let (head, first) = Head::take(argc, get);
        // Without FIELDS among the first words something else is wrong with them, which `start` says.
        let has_fields = head.0.iter().any(|word| word.eq_ignore_ascii_case(b"fields"));
        if has_fields && !(argc - first).is_multiple_of(2) {
            return Err(errors::wrong_number_of_arguments("hsetex").into());
        }
        self.head = head;
        Ok(first)
    }

    fn start(&mut self, ctx: &mut Ctx<'_>, _: Key<'_>, elements: usize) -> Result<(), Failure> {
        let words = self.head.words();
        self.options = Some(SetOptions::parse(ctx, &words, words.len() + 2 * elements)?);
        self.fields = elements;
        Ok(())
    }

    fn looks(&self) -> bool {
        self.options.is_some_and(|options| options.present.is_some())
    }

    fn look(&mut self, ctx: &mut Ctx<'_>, key: Key<'_>, part: Args<'_>) -> Result<bool, Failure> {
        let now_ms = ctx.db.now_ms();
        let look = ctx.db.look::<Hash>(key)?;
        Ok(self.options().allow(look, part, now_ms))
    }

    fn part(&mut self, ctx: &mut Ctx<'_>, key: Key<'_>, part: Args<'_>) -> Result<bool, Failure> {
        // (What was there is, as the name is held, but for fields that have just expired: with them all of the hash.)
        let options = self.options();
        let done = change(ctx, key, Missing::Create, |edit, now_ms| Ok(options.set(edit, part, now_ms)?))?;
        if let Some(done) = done {
            self.set += part.len() / 2;
            self.emptied = done.emptied;
            self.expired |= done.expired;
        }
        Ok(true)
    }

    fn report(&mut self, ctx: &mut Ctx<'_>, key: Key<'_>) {
        if self.set > 0 {
            self.options().report(ctx, key, self.set);
        }
        if self.emptied && (self.set > 0 || self.expired) {
            ctx.also(key, Event::Del);
        }
    }

    fn reply(&mut self, ctx: &mut Ctx<'_>) {
        ctx.reply.int(i64::from(self.set == self.fields));
    }
}
