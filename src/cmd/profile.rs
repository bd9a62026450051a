//! How often each command was called, how long it took, and what went wrong: what INFO commandstats, latencystats and errorstats, LATENCY
//! HISTOGRAM and the slow log tell. Each worker counts for itself, without atomics; who asks has all workers tell.
//!
//! ```text
//!  dozen of requests:   quick quick quick │ slow │ quick quick      a look at the clock at each bar, and at both ends
//!                       └── a stretch ──┘        └ stretch ┘        commands of a stretch share its time equally
//! ```
//! A look at the clock costs as much as a tenth of a GET. Commands on one key that always take about the same (rows of `quick_argc`) are timed
//! together, a dozen at most; all others by themselves. Sums are exact, and so are the times of all that can be slow. Below
//! `EXACT_BELOW` of the slow log's limit every command is timed by itself.

use super::spec::Command;
use crate::base::clock::Clock;
use crate::base::ticks::Ticker;
use crate::config::Config;
use std::collections::BTreeMap;
use std::time::Duration;

/// With a limit of the slow log below this every command is timed by itself.
const EXACT_BELOW: Duration = Duration::from_millis(1);
/// So many texts of errors are told apart; the rest is one.
const ERRORS_MAX: usize = 128;
const OTHER_ERRORS: &[u8] = b"OTHER";

/// Parts of each power of two that are told apart.
const PARTS: usize = 16;
const PART_BITS: u32 = PARTS.trailing_zeros();
/// Powers of two, in ticks: up to half a day.
const POWERS: usize = 44;

/// How many calls took how long, in ticks.
#[derive(Clone, Debug)]
pub struct Times([u64; PARTS * (POWERS + 1)]);

impl Times {
    fn new() -> Box<Times> {
        Box::new(Times([0; PARTS * (POWERS + 1)]))
    }

    /// The class of a time: exact below 16, then to a sixteenth.
    #[inline]
    fn class(ticks: u64) -> usize {
        if ticks < PARTS as u64 {
            return usize::try_from(ticks).unwrap_or(0);
        }
        let power = ticks.ilog2() - PART_BITS;
        let part = usize::try_from(ticks >> power).unwrap_or(0) - PARTS;
        (((power as usize + 1) << PART_BITS) + part).min(PARTS * (POWERS + 1) - 1)
    }

    /// The first time that is beyond a class.
    fn end(class: usize) -> u64 {
        let (power, part) = (class >> PART_BITS, class % PARTS);
        if power == 0 { part as u64 + 1 } else { ((PARTS + part) as u64 + 1) << (power - 1) }
    }

    fn absorb(&mut self, other: &Times) {
        self.0.iter_mut().zip(&other.0).for_each(|(sum, count)| *sum += count);
    }

    /// The ends of all classes that have calls, with how many took at most that long, and less.
    fn cumulative(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut sum = 0;
        self.0.iter().enumerate().filter(|(_, count)| **count > 0).map(move |(class, count)| {
            sum += count;
            (Times::end(class), sum)
        })
    }
}

/// Of one command or subcommand.
#[derive(Clone, Default, Debug)]
pub struct Calls {
    pub calls: u64,
    pub ticks: u64,
    /// That ended in an error.
    pub failed: u64,
    /// That were not begun, as they would have.
    pub rejected: u64,
    times: Option<Box<Times>>,
}

impl Calls {
    fn absorb(&mut self, other: &Calls) {
        self.calls += other.calls;
        self.ticks += other.ticks;
        self.failed += other.failed;
        self.rejected += other.rejected;
        if let Some(times) = &other.times {
            self.times.get_or_insert_with(Times::new).absorb(times);
        }
    }

    fn is_empty(&self) -> bool {
        self.calls == 0 && self.rejected == 0
    }
}

/// What one worker has counted.
#[derive(Debug)]
pub struct Profile {
    pub ticker: Ticker,
    /// What takes so many ticks is looked at: it may be slow.
    pub notable_ticks: u64,
    /// All bits, or none if every command is to be timed by itself.
    pub quick_mask: usize,
    tracks: bool,
    rows: Box<[Calls]>,
    errors: BTreeMap<Box<[u8]>, u64>,
}

/// Commands that are timed together, those alike behind one another counted as one.
pub struct Stretch {
    pub since: u64,
    runs: [(u16, u16); Stretch::MAX],
    len: usize,
    calls: u32,
}

impl Stretch {
    pub const MAX: usize = 12;

    #[inline(always)]
    #[must_use]
    pub fn new(since: u64) -> Stretch {
        Stretch { since, runs: [(u16::MAX, 0); Stretch::MAX], len: 0, calls: 0 }
    }

    #[inline(always)]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.calls == 0
    }

    /// The last command, of this number, is not to be counted here.
    pub fn take_back(&mut self, number: u16) {
        if let Some(last) = self.runs[..self.len].last_mut()
            && last.0 == number
        {
            last.1 -= 1;
            self.calls -= 1;
        }
    }

    /// So many more commands of this number. Not of more than `MAX` altogether.
    #[inline(always)]
    pub fn add(&mut self, number: u16, count: usize) {
        let count = u16::try_from(count).unwrap_or(u16::MAX);
        self.calls += u32::from(count);
        if let Some(last) = self.runs.get_mut(self.len.wrapping_sub(1))
            && last.0 == number
        {
            last.1 += count;
        } else if let Some(next) = self.runs.get_mut(self.len) {
            *next = (number, count);
            self.len += 1;
        }
    }
}

impl Profile {
    /// Of so many commands.
    #[must_use]
    pub fn new(clock: &Clock, commands: usize) -> Profile {
        Profile {
            ticker: clock.ticker(),
            notable_ticks: u64::MAX,
            quick_mask: usize::MAX,
            tracks: true,
            rows: vec![Calls::default(); commands].into(),
            errors: BTreeMap::new(),
        }
    }

    /// The settings are these.
    pub fn follow(&mut self, config: &Config) {
        let slow = u64::try_from(config.slowlog_slower_us).ok().map(Duration::from_micros);
        let latency = Some(Duration::from_millis(config.latency_monitor_ms)).filter(|time| !time.is_zero());
        self.quick_mask = if slow.is_some_and(|slow| slow < EXACT_BELOW) { 0 } else { usize::MAX };
        let least = [slow, latency].into_iter().flatten().min();
        self.notable_ticks = least.map_or(u64::MAX, |least| self.ticker.ticks_of(least));
        self.tracks = config.latency_tracking;
    }

    /// The commands of a stretch have run: shares its time between them. Returns how long it was.
    #[inline(always)]
    pub fn settle(&mut self, stretch: &mut Stretch) -> u64 {
        let now = self.ticker.now();
        let ticks = now.saturating_sub(stretch.since);
        stretch.since = now;
        let calls = std::mem::take(&mut stretch.calls);
        if calls == 0 {
            return 0;
        }
        // What is left over in the division is of the first.
        let (each, mut left) = (ticks / u64::from(calls), ticks % u64::from(calls));
        let class = Times::class(each);
        for (number, count) in &stretch.runs[..std::mem::take(&mut stretch.len)] {
            let count = u64::from(*count);
            self.count(usize::from(*number), count, each * count + std::mem::take(&mut left), class);
        }
        ticks
    }

    /// A command has run by itself, for so many ticks.
    #[inline]
    pub fn one(&mut self, number: usize, ticks: u64) {
        self.count(number, 1, ticks, Times::class(ticks));
    }

    #[inline(always)]
    fn count(&mut self, number: usize, calls: u64, ticks: u64, class: usize) {
        let Some(row) = self.rows.get_mut(number) else { return };
        row.calls += calls;
        row.ticks += ticks;
        match &mut row.times {
            Some(times) if self.tracks => {
                if let Some(count) = times.0.get_mut(class) {
                    *count += calls;
                }
            }
            _ => self.first(number, calls, class),
        }
    }

    /// The first call of a command: what most of them never are.
    #[cold]
    #[inline(never)]
    fn first(&mut self, number: usize, calls: u64, class: usize) {
        if self.tracks {
            self.rows[number].times.get_or_insert_with(Times::new).0[class] += calls;
        }
    }

    #[cold]
    pub fn failed(&mut self, number: usize) {
        self.rows[number].failed += 1;
    }

    #[cold]
    pub fn rejected(&mut self, number: usize) {
        self.rows[number].rejected += 1;
    }

    /// A client was answered with this error.
    #[cold]
    pub fn error(&mut self, text: &[u8]) {
        let code = text.split(|byte| *byte == b' ').next().unwrap_or_default();
        let code = if code.is_empty() { b"ERR".as_slice() } else { code };
        if let Some(count) = self.errors.get_mut(code) {
            *count += 1;
        } else {
            let code = if self.errors.len() < ERRORS_MAX { code } else { OTHER_ERRORS };
            *self.errors.entry(code.into()).or_default() += 1;
        }
    }

    /// CONFIG RESETSTAT.
    pub fn reset(&mut self) {
        self.rows.fill(Calls::default());
        self.errors.clear();
    }

    /// Forgets how long these commands took.
    pub fn forget_times(&mut self) {
        self.rows.iter_mut().for_each(|row| row.times = None);
    }

    /// What it has counted, to be put together with that of others.
    #[must_use]
    pub fn report(&self) -> Report {
        let used = self.rows.iter().enumerate().filter(|(_, calls)| !calls.is_empty());
        Report { rows: used.map(|(number, calls)| (number, calls.clone())).collect(), errors: self.errors.clone() }
    }
}

/// What workers have counted.
#[derive(Clone, Default, Debug)]
pub struct Report {
    rows: BTreeMap<usize, Calls>,
    pub errors: BTreeMap<Box<[u8]>, u64>,
}

impl Report {
    /// That of all of them together.
    #[must_use]
    pub fn sum(reports: impl IntoIterator<Item = Report>) -> Report {
        let mut sum = Report::default();
        for report in reports {
            for (number, calls) in report.rows {
                sum.rows.entry(number).or_default().absorb(&calls);
            }
            for (code, count) in report.errors {
                *sum.errors.entry(code).or_default() += count;
            }
        }
        sum
    }

    /// What a command or subcommand has, if it was ever called.
    #[must_use]
    pub fn of<R>(&self, row: &Command<R>) -> Option<&Calls> {
        self.rows.get(&row.number())
    }
}

/// Times of calls, in nanoseconds.
pub struct Spread<'t> {
    times: &'t Times,
    ns_per_tick: f64,
    pub calls: u64,
}

impl Calls {
    /// The time of all calls together.
    #[must_use]
    pub fn micros(&self, ns_per_tick: f64) -> u64 {
        to_ns(self.ticks, ns_per_tick) / 1000
    }

    /// How their times are spread; `None`: nobody has kept them.
    #[must_use]
    pub fn spread(&self, ns_per_tick: f64) -> Option<Spread<'_>> {
        let times = self.times.as_deref()?;
        let calls = times.0.iter().sum();
        (calls > 0).then_some(Spread { times, ns_per_tick, calls })
    }
}

fn to_ns(ticks: u64, ns_per_tick: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "not negative; 15 digits are kept"
    )]
    let ns = (ticks as f64 * ns_per_tick) as u64;
    ns
}

impl Spread<'_> {
    /// The time in which so many of a hundred calls were done.
    #[must_use]
    pub fn percentile_ns(&self, percent: f64) -> u64 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "between 0 and the calls"
        )]
        let wanted = ((self.calls as f64 * percent / 100.0).ceil() as u64).clamp(1, self.calls);
        let found = self.times.cumulative().find(|(_, sum)| *sum >= wanted);
        found.map_or(0, |(end, _)| to_ns(end, self.ns_per_tick))
    }

    /// How many calls were done within each power of two of nanoseconds from 1024 on; those in which none came to an end are left out.
    #[must_use]
    pub fn powers(&self) -> Vec<(u64, u64)> {
        let mut powers: Vec<(u64, u64)> = Vec::new();
        for (end, sum) in self.times.cumulative() {
            let bound = to_ns(end, self.ns_per_tick).max(1024).next_power_of_two();
            match powers.last_mut() {
                Some(last) if last.0 == bound => last.1 = sum,
                _ => powers.push((bound, sum)),
            }
        }
        powers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn profile() -> Profile {
        Profile::new(&Clock::manual(0, 0), 3)
    }

    proptest! {
        #[test]
        fn classes_hold_what_is_in_them(ticks in 0u64..1 << 46) {
            let class = Times::class(ticks);
            prop_assert!(ticks < Times::end(class));
            prop_assert!(class == 0 || ticks >= Times::end(class - 1));
            // To a sixteenth.
            prop_assert!(Times::end(class) - ticks <= ticks / 16 + 1);
        }
    }

    #[test]
    fn the_longest_times_have_a_class() {
        assert_eq!(Times::class(u64::MAX), PARTS * (POWERS + 1) - 1);
        assert_eq!(Times::class(0), 0);
    }

    #[test]
    fn stretches_are_shared_to_the_last_tick() {
        let mut profile = profile();
        let mut stretch = Stretch::new(0);
        // Time stands still here: it began before.
        profile.ticker = Ticker::Still;
        for number in [0, 0, 1, 0, 1, 1, 1] {
            stretch.add(number, 1);
        }
        stretch.since = 0;
        assert_eq!(profile.settle(&mut stretch), 0);
        assert!(stretch.is_empty());
        let report = Report::sum([profile.report(), profile.report()]);
        assert_eq!(report.rows.iter().map(|(n, calls)| (*n, calls.calls)).collect::<Vec<_>>(), [(0, 6), (1, 8)]);
        assert_eq!(profile.settle(&mut stretch), 0, "nothing has run since");
    }

    #[test]
    fn percentiles_and_powers() {
        let mut profile = profile();
        for ticks in 1..=1000 {
            profile.one(2, ticks * 100);
        }
        let report = profile.report();
        let spread = report.rows[&2].spread(1.0).expect("times");
        assert_eq!(report.rows[&2].micros(1.0), 50_050);
        for (percent, ns) in [(50.0, 50_000), (99.0, 99_000), (100.0, 100_000), (0.0, 100)] {
            let told = spread.percentile_ns(percent);
            assert!(told >= ns && told <= ns + ns / 16 + 1, "{percent}: {told}");
        }
        let powers = spread.powers();
        assert_eq!(powers.last(), Some(&(131_072, 1000)));
        assert!(powers.is_sorted() && powers[0].0 == 1024);
        profile.forget_times();
        assert!(profile.report().rows[&2].spread(1.0).is_none());
    }

    #[test]
    fn errors_by_their_codes() {
        let mut profile = profile();
        for text in ["ERR a", "ERR b", "WRONGTYPE x", ""] {
            profile.error(text.as_bytes());
        }
        for n in 0..ERRORS_MAX + 10 {
            profile.error(format!("E{n} x").as_bytes());
        }
        let errors = profile.report().errors;
        assert_eq!((errors[b"ERR".as_slice()], errors[b"WRONGTYPE".as_slice()]), (3, 1));
        assert_eq!((errors.len(), errors[OTHER_ERRORS]), (ERRORS_MAX + 1, 12));
    }
}
