//! MONITOR: a client is shown every command that any client has the server run, whichever workers the two are on; without passwords, and
//! without the commands of administrators. LOLWUT draws.
//!
//! A command is shown when nothing stands in its way any more, in the order in which its worker runs them. While nobody watches it costs a
//! bit among the reasons to look twice.

use super::client::mark;
use super::ctx::{Args, Ctx, Exec, Outcome};
use super::slowlog::REDACTED;
use super::spec::{Command, Flags};
use crate::base::quote::quote;
use std::io::Write as _;

pub fn monitor(ctx: &mut Ctx<'_>, _args: Args<'_>) -> Outcome {
    if !ctx.client().is(mark::MONITORS) {
        ctx.client().set_mark(mark::MONITORS, true);
        let me = ctx.me;
        ctx.pubsub.watch(me);
    }
    ctx.out().ok();
    Outcome::Done
}

/// The client watches no more.
pub fn stop(ctx: &mut Ctx<'_>) {
    if ctx.client().is(mark::MONITORS) {
        ctx.client().set_mark(mark::MONITORS, false);
        let me = ctx.me;
        ctx.pubsub.watch_no_more(me);
    }
}

/// A command is about to run: shows it.
#[cold]
#[inline(never)]
pub fn show(ctx: &mut Ctx<'_>, row: &'static Command<Exec>, args: Args<'_>) {
    if row.flags.intersects(Flags::of(&[Flags::SKIP_MONITOR, Flags::ADMIN])) {
        return;
    }
    let secrets = row.run.secrets.map_or(Vec::new(), |secrets| secrets(args));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let client = ctx.clients.get(ctx.me);
    let (database, address) = (client.database, client.remote());
    // As Redis tells it: the path without the 0 that stands for a port.
    let address = if client.is(mark::UNIX) {
        format!("unix:{}", address.strip_suffix(":0").unwrap_or(&address))
    } else {
        address
    };
    let mut line = Vec::with_capacity(128);
    let _ = write!(line, "+{}.{:06} [{database} {address}]", now.as_secs(), now.subsec_micros());
    for (at, arg) in args.iter().enumerate() {
        line.push(b' ');
        line.extend(quote(if secrets.contains(&at) { REDACTED } else { arg }));
    }
    line.extend_from_slice(b"\r\n");
    ctx.pubsub.show(&line);
}

// ---- LOLWUT ----

/// `LOLWUT [VERSION version [number ...]]`: a landscape, another one each time. Numbers: columns, and lines.
pub fn lolwut(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    const COLUMNS: usize = 66;
    const LINES: usize = 12;
    const MAX: i64 = 1000;
    let numbers = match args {
        [_, word, _version, rest @ ..] if word.eq_ignore_ascii_case(b"version") => rest,
        [_, rest @ ..] => rest,
        [] => &[],
    };
    let mut sizes = [COLUMNS, LINES];
    for (size, number) in sizes.iter_mut().zip(numbers) {
        match super::options::parse_int(number) {
            Ok(given) => *size = usize::try_from(given.clamp(1, MAX)).unwrap_or(1),
            Err(failure) => return ctx.fail(failure),
        }
    }
    let [columns, lines] = sizes;
    let mut text = landscape(columns, lines, || ctx.rng.next_u64());
    text.push_str(&format!("\nDolmen ver. {}\n", env!("CARGO_PKG_VERSION")));
    ctx.reply.verbatim(b"txt", text.as_bytes());
    Outcome::Done
}

/// Hills under stars, with a dolmen on them: three stones, where there is room.
fn landscape(columns: usize, lines: usize, mut random: impl FnMut() -> u64) -> String {
    let mut picture = vec![vec![' '; columns]; lines];
    let mut below = |n: usize| usize::try_from(random() % (n.max(1) as u64)).unwrap_or(0);
    for _ in 0..columns * lines / 40 {
        picture[below(lines / 2 + 1).min(lines - 1)][below(columns)] = ['.', '*', '+'][below(3)];
    }
    // A walk from left to right is the horizon.
    let mut height = lines / 4 + below(lines / 4 + 1);
    let mut horizon = Vec::with_capacity(columns);
    for column in 0..columns {
        height = match below(6) {
            0 => (height + 1).min(lines * 2 / 3),
            1 => height.saturating_sub(1).max(1),
            _ => height,
        };
        horizon.push(lines - height.clamp(1, lines));
        for (line, row) in picture.iter_mut().enumerate().skip(horizon[column]) {
            row[column] = if line == horizon[column] { '^' } else { [':', '.', ' ', ' '][below(4)] };
        }
    }
    let (wide, high) = (11, 3);
    if columns > wide {
        let at = below(columns - wide);
        let ground = horizon[at..at + wide].iter().copied().min().unwrap_or(0);
        if let Some(top) = ground.checked_sub(high) {
            let stones = ["___________", "|_________|", "  ||   ||  "];
            for (line, stone) in stones.iter().enumerate() {
                for (cell, letter) in picture[top + line][at..].iter_mut().zip(stone.chars()) {
                    *cell = letter;
                }
            }
            for (line, row) in picture.iter_mut().enumerate().skip(top + high) {
                for pillar in [at + 2, at + 3, at + 7, at + 8] {
                    if line < horizon[pillar] {
                        row[pillar] = '|';
                    }
                }
            }
        }
    }
    picture.iter().map(|row| row.iter().collect::<String>().trim_end().to_owned() + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::rng::Rng;

    #[test]
    fn landscapes_have_their_size() {
        let mut rng = Rng::seeded(7);
        for (columns, lines) in [(1, 1), (12, 2), (66, 12), (200, 40), (1, 30), (30, 1)] {
            let text = landscape(columns, lines, || rng.next_u64());
            assert_eq!(text.lines().count(), lines);
            assert!(text.lines().all(|line| line.chars().count() <= columns), "{text}");
            assert!(text.contains('^'), "{text}");
        }
    }
}
