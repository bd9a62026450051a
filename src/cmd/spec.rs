//! What each command is: name, arity, flags, keys, ACL categories and documentation, one declarative row a command.
//!
//! A row (`spec::GET`) knows nothing of execution. `row.run(f)` joins it to whatever the executor calls, so the command
//! table is a list of `spec::GET.run(strings::get)`. Pipeline code reads rows, never names: a property that decides how a
//! command is treated is a flag here.
//!
//! Values are those that Redis 7.0 reports in `COMMAND INFO` and `COMMAND DOCS`; where Redis 7.2 differs in a fact that we
//! carry (CLIENT SETINFO, the deprecations of QUIT, SETNX, SETEX and PSETEX, the arguments of COMMAND GETKEYS), 7.2 wins; so do the
//! operations of BITOP that came with 8.2.
//!
//! Invariants: a name is lower-case ASCII; a subcommand's name is `parent|name`; the legacy key range is derived from the
//! key specifications and the categories that follow from a flag are derived from the flags, so neither can disagree.

/// A set of named bits. Bits without a text are for our own use and never printed; bits are declared in the order in
/// which Redis prints them.
macro_rules! bit_set {
    ($(#[$set_doc:meta])* $set:ident { $($(#[$bit_doc:meta])* $bit:ident: $at:literal $(= $text:literal)?,)* }) => {
        $(#[$set_doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct $set(u32);

        impl $set {
            pub const NONE: $set = $set(0);
            $($(#[$bit_doc])* pub const $bit: $set = $set(1 << $at);)*
            const NAMES: &'static [(u32, &'static str)] = &[$($((1 << $at, $text),)?)*];

            /// The union of `parts`.
            pub const fn of(parts: &[$set]) -> $set {
                let (mut bits, mut i) = (0, 0);
                while i < parts.len() {
                    bits |= parts[i].0;
                    i += 1;
                }
                $set(bits)
            }

            /// Whether every bit of `part` is set.
            #[inline]
            pub const fn contains(self, part: $set) -> bool { self.0 & part.0 == part.0 }

            /// Whether any bit of `part` is set: one test for several reasons to leave a fast path.
            #[inline]
            pub const fn intersects(self, part: $set) -> bool { self.0 & part.0 != 0 }

            /// The printed names of the bits that are set, in Redis's order.
            pub fn names(self) -> impl Iterator<Item = &'static str> + Clone {
                Self::NAMES.iter().filter(move |(bit, _)| self.0 & bit != 0).map(|&(_, name)| name)
            }
        }
    };
}

mod acl;
mod bitmap;
mod connection;
mod doc;
mod generic;
mod hash;
mod hash_ttl;
mod index;
mod keys;
mod list;
mod memory;
mod observe;
mod pubsub;
mod server;
mod set;
mod sorted_set;
mod sorted_set_ranges;
mod string;
mod transactions;

pub use acl::*;
pub use bitmap::*;
pub use connection::*;
pub use doc::{ArgDoc, ArgFlags, ArgKind, Doc, DocFlags, Group};
pub use generic::*;
pub use hash::*;
pub use hash_ttl::*;
pub use index::{Commands, Index};
pub use keys::{Begin, Find, KeyFlags, KeyPositions, KeySpec, Keys, Located, Refine};
pub use list::*;
pub use memory::*;
pub use observe::*;
pub use pubsub::*;
pub use server::*;
pub use set::*;
pub use sorted_set::*;
pub use sorted_set_ranges::*;
pub use string::*;
pub use transactions::*;

bit_set! {
    /// How the pipeline treats a command. The named ones are also what `COMMAND INFO` prints.
    Flags {
        /// May change the dataset.
        WRITE: 0 = "write",
        /// Never changes the dataset.
        READONLY: 1 = "readonly",
        /// Refused when memory is over its limit and nothing can be evicted.
        DENYOOM: 2 = "denyoom",
        ADMIN: 3 = "admin",
        PUBSUB: 4 = "pubsub",
        NOSCRIPT: 5 = "noscript",
        /// May wait for other clients.
        BLOCKING: 6 = "blocking",
        /// Allowed while the dataset is being loaded.
        LOADING: 7 = "loading",
        /// Allowed on a replica that lost its primary and may not serve stale data.
        STALE: 8 = "stale",
        SKIP_MONITOR: 9 = "skip_monitor",
        SKIP_SLOWLOG: 10 = "skip_slowlog",
        ASKING: 11 = "asking",
        /// Constant or logarithmic time: in the category `@fast`, the others in `@slow`.
        FAST: 12 = "fast",
        /// Allowed before authentication.
        NO_AUTH: 13 = "no_auth",
        NO_ASYNC_LOADING: 14 = "no_async_loading",
        NO_MULTI: 15 = "no_multi",
        /// Allowed while a script that timed out runs.
        ALLOW_BUSY: 16 = "allow_busy",
        NO_MANDATORY_KEYS: 17 = "no_mandatory_keys",
        /// The legacy key range does not tell all keys.
        MOVABLEKEYS: 18 = "movablekeys",
        /// Clients ask by it how the server is: it is answered while the dataset is being loaded, and refused when what is written cannot be saved.
        TELLS_OF_ERRORS: 22,
        /// CLIENT CACHING outlasts it.
        KEEPS_CACHING: 23,
        MAY_REPLICATE: 24,
        /// Off unless the configuration allows it (DEBUG).
        PROTECTED: 25,
        /// Reads or changes keys that its arguments do not name: with several workers every shard is to be locked.
        TOUCHES_ARBITRARY_KEYS: 26,
        /// Changes how the bytes after it must be parsed or to whom they belong: ends a parse batch.
        ENDS_BATCH: 27,
        /// Runs at once also between MULTI and EXEC.
        NOT_QUEUED: 28,
        /// Runs what was queued since MULTI (EXEC).
        RUNS_QUEUE: 29,
        /// Names keys of another database than the client's, or has later commands name them.
        OTHER_DATABASE: 30,
        /// Allowed in RESP2 for a client that has subscriptions.
        SUBSCRIBED: 31,
    }
}

bit_set! {
    /// ACL categories.
    Categories {
        KEYSPACE: 0 = "@keyspace",
        READ: 1 = "@read",
        WRITE: 2 = "@write",
        SET: 3 = "@set",
        SORTEDSET: 4 = "@sortedset",
        LIST: 5 = "@list",
        HASH: 6 = "@hash",
        STRING: 7 = "@string",
        BITMAP: 8 = "@bitmap",
        HYPERLOGLOG: 9 = "@hyperloglog",
        GEO: 10 = "@geo",
        STREAM: 11 = "@stream",
        PUBSUB: 12 = "@pubsub",
        ADMIN: 13 = "@admin",
        FAST: 14 = "@fast",
        SLOW: 15 = "@slow",
        BLOCKING: 16 = "@blocking",
        DANGEROUS: 17 = "@dangerous",
        CONNECTION: 18 = "@connection",
        TRANSACTION: 19 = "@transaction",
        SCRIPTING: 20 = "@scripting",
    }
}

impl Categories {
    /// The category called `name` in any case, without its `@`.
    pub fn from_name(name: &[u8]) -> Option<Categories> {
        let (bit, _) = Self::NAMES.iter().find(|(_, text)| text.as_bytes()[1..].eq_ignore_ascii_case(name))?;
        Some(Categories(*bit))
    }

    /// All of them with their names, without the `@`.
    pub fn named() -> impl Iterator<Item = (&'static str, Categories)> {
        Self::NAMES.iter().map(|&(bit, name)| (&name[1..], Categories(bit)))
    }

    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Adds what follows from the flags, by Redis's rules.
    const fn implied_by(self, flags: Flags) -> Categories {
        let mut all = self;
        if flags.contains(Flags::WRITE) {
            all = Categories::of(&[all, Categories::WRITE]);
        }
        // EVAL_RO and the like promise not to write, yet are not reads of a key.
        if flags.contains(Flags::READONLY) && !all.contains(Categories::SCRIPTING) {
            all = Categories::of(&[all, Categories::READ]);
        }
        if flags.contains(Flags::ADMIN) {
            all = Categories::of(&[all, Categories::ADMIN, Categories::DANGEROUS]);
        }
        if flags.contains(Flags::PUBSUB) {
            all = Categories::of(&[all, Categories::PUBSUB]);
        }
        if flags.contains(Flags::BLOCKING) {
            all = Categories::of(&[all, Categories::BLOCKING]);
        }
        let pace = if flags.contains(Flags::FAST) { Categories::FAST } else { Categories::SLOW };
        Categories::of(&[all, pace])
    }
}

/// The facts of one command, before it is joined to what runs it.
pub struct Row {
    pub name: &'static str,
    pub arity: i16,
    pub flags: Flags,
    /// Only the categories that do not follow from the flags.
    pub categories: Categories,
    pub key_specs: &'static [KeySpec],
    pub doc: &'static Doc,
}

impl Row {
    /// The table entry of a command without subcommands.
    pub const fn run<R>(&self, run: R) -> Command<R> {
        self.container(run, &[])
    }

    /// The table entry of a command with subcommands; `run` is called when none is given (COMMAND) or never (CONFIG).
    pub const fn container<R>(&self, run: R, subcommands: &'static [Command<R>]) -> Command<R> {
        Command {
            name: self.name,
            arity: self.arity,
            argc_min: self.arity.unsigned_abs() as usize,
            argc_more: if self.arity < 0 { usize::MAX >> 1 } else { 0 },
            flags: self.flags,
            keys: Keys::of(self.key_specs),
            first_key: Keys::of(self.key_specs).first().unsigned_abs() as usize,
            key_specs: self.key_specs,
            categories: self.categories.implied_by(self.flags),
            doc: self.doc,
            subcommands,
            locking: Locking::of(self.key_specs, self.flags),
            heeds: if self.flags.contains(Flags::DENYOOM) { u16::MAX } else { !SHORT },
            number: 0,
            quick_argc: quick_argc(self),
            run,
        }
    }
}

/// See [`Command::quick_argc`].
const fn quick_argc(row: &Row) -> usize {
    const QUICK_ARGC: usize = 8;
    let constant = matches!(row.doc.complexity.as_bytes(), b"O(1)") && !row.key_specs.is_empty();
    let one_key = matches!(Locking::of(row.key_specs, row.flags), Locking::One | Locking::None);
    let quick = constant || row.flags.contains(Flags::FAST);
    if quick && one_key && !row.flags.contains(Flags::BLOCKING) { QUICK_ARGC } else { 0 }
}

/// Which shards a command needs as a whole, where several workers share them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Locking {
    /// None beforehand: it names no key.
    None,
    /// That of its only key.
    One,
    /// Those of its keys.
    Many,
    /// All.
    All,
}

impl Locking {
    const fn of(specs: &[KeySpec], flags: Flags) -> Locking {
        if flags.contains(Flags::TOUCHES_ARBITRARY_KEYS) {
            return Locking::All;
        }
        let mut i = 0;
        while i < specs.len() {
            if specs[i].is_incomplete() {
                return Locking::All;
            }
            i += 1;
        }
        match specs {
            [KeySpec { flags, .. }] if flags.contains(KeyFlags::NOT_KEY) => Locking::None,
            [] => Locking::None,
            [KeySpec { begin: Begin::Index(_), find: Find::Range { last: 0, .. }, .. }] => Locking::One,
            _ => Locking::Many,
        }
    }
}

/// One entry of the command table. `R` is what the executor calls.
#[derive(Clone, Copy)]
pub struct Command<R: 'static> {
    /// Lower-case; `parent|name` for a subcommand.
    pub name: &'static str,
    /// Arguments with the name itself: exactly so many, or at least `-arity` when negative.
    pub arity: i16,
    /// The same as `takes` wants it: at least so many arguments, and at most so many more.
    argc_min: usize,
    argc_more: usize,
    pub flags: Flags,
    pub keys: Keys,
    /// Position of the first key, 0 without keys.
    pub first_key: usize,
    pub key_specs: &'static [KeySpec],
    pub categories: Categories,
    pub doc: &'static Doc,
    pub subcommands: &'static [Command<R>],
    pub locking: Locking,
    /// Which of the reasons to look twice concern it: all, but for [`SHORT`] only if it may need some.
    pub heeds: u16,
    /// Its place among all commands and subcommands ([`numbered`]).
    number: u16,
    /// With at most so many arguments it always takes about the same, and little: its time need not be told from that of its neighbours.
    pub quick_argc: usize,
    pub run: R,
}

/// A reason to look twice at a command that is one of the moment, beside those of `client::gate`: memory is near its limit.
pub const SHORT: u16 = 1 << 11;

/// A table whose rows, and those of their subcommands behind each, have numbers from 0 on. Made once a process: it is never given back.
///
/// # Panics
/// If there are 65,536 of them.
pub fn numbered<R: Copy>(rows: &[Command<R>]) -> &'static [Command<R>] {
    let mut next = 0..u16::MAX;
    let mut number = || next.next().expect("fewer commands than numbers");
    let mut row = |row: &Command<R>| {
        let own = number();
        let subcommands = row.subcommands.iter().map(|sub| Command { number: number(), ..*sub }).collect::<Vec<_>>();
        Command { number: own, subcommands: Vec::leak(subcommands), ..*row }
    };
    Vec::leak(rows.iter().map(&mut row).collect())
}

impl<R> Command<R> {
    /// Whether `argc` arguments, the name (and the subcommand's) included, suit the arity.
    #[inline(always)]
    pub fn takes(&self, argc: usize) -> bool {
        argc.wrapping_sub(self.argc_min) <= self.argc_more
    }

    /// Its place among all commands and subcommands ([`Commands::all`]).
    #[inline(always)]
    pub fn number(&self) -> usize {
        self.number.into()
    }

    /// The same, as small as it is.
    #[inline(always)]
    pub fn short_number(&self) -> u16 {
        self.number
    }

    /// The name as typed: `get` of `config|get`.
    pub fn short_name(&self) -> &'static str {
        self.name.split_once('|').map_or(self.name, |(_, short)| short)
    }

    /// The subcommand called `name` in any case.
    pub fn subcommand(&self, name: &[u8]) -> Option<&'static Command<R>> {
        let prefix = self.name.len() + 1;
        self.subcommands.iter().find(|sub| sub.name.as_bytes()[prefix..].eq_ignore_ascii_case(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arity_counts_the_name() {
        let (get, set) = (GET.run(()), SET.run(()));
        assert_eq!([1, 2, 3].map(|argc| get.takes(argc)), [false, true, false]);
        assert_eq!([0, 2, 3, 300].map(|argc| set.takes(argc)), [false, false, true, true]);
    }

    #[test]
    fn categories_follow_from_flags() {
        let names = |row: &Row| row.run(()).categories.names().collect::<Vec<_>>();
        assert_eq!(names(&SHUTDOWN), ["@admin", "@slow", "@dangerous"]);
        assert_eq!(names(&GET), ["@read", "@string", "@fast"]);
        assert_eq!(Categories::from_name(b"SortedSet"), Some(Categories::SORTEDSET));
        assert_eq!(Categories::from_name(b"@sortedset"), None);
        let scripted = Categories::SCRIPTING.implied_by(Flags::READONLY);
        assert_eq!(scripted.names().collect::<Vec<_>>(), ["@slow", "@scripting"]);
        let waits = Categories::LIST.implied_by(Flags::of(&[Flags::WRITE, Flags::BLOCKING]));
        assert_eq!(waits.names().collect::<Vec<_>>(), ["@write", "@list", "@slow", "@blocking"]);
    }

    #[test]
    fn subcommands_are_found_in_any_case() {
        type Run = fn() -> u8;
        static ROWS: [Command<Run>; 1] = [CONFIG.container(|| 0, &[CONFIG_GET.run(|| 1), CONFIG_HELP.run(|| 2)])];
        let [config] = &ROWS;
        assert_eq!(config.subcommand(b"hElP").map(|sub| (sub.run)()), Some(2));
        assert_eq!(config.subcommand(b"get").map(|sub| sub.short_name()), Some("get"));
        assert!(config.subcommand(b"").is_none() && config.subcommand(b"config|get").is_none());
        assert_eq!(config.short_name(), "config");
    }
}
