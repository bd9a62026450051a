//! Random programs of two clients with transactions in them: what one has queued or watches, while the other writes to the same keys. Commands
//! inside are those of all generators.

use super::{Author, Difference, KEYS, Program, Step, cut, number, same};
use crate::harness::{Client, Reply, Server, skip};
use crate::hostile::Random;

/// A command, and which of the two clients sends it.
#[derive(Clone)]
pub(super) struct Turn {
    pub(super) who: usize,
    pub(super) step: Step,
}

impl Author {
    fn steering(&mut self) -> Step {
        // Mostly in an order that makes sense: MULTI is followed by EXEC at some time.
        let name = *self.random.pick(
            &["WATCH", "WATCH", "WATCH", "MULTI", "MULTI", "MULTI", "EXEC", "EXEC", "DISCARD", "UNWATCH", "RESET"]
                .each_ref(),
        );
        let mut arguments = vec![self.name(name)];
        if name == "WATCH" {
            arguments.extend(self.keys());
        }
        if self.chance(40) {
            arguments.push(self.value());
        } else if self.chance(40) {
            arguments.truncate(1);
        }
        let inline = self.chance(10) && arguments.iter().map(Vec::len).sum::<usize>() < 5000;
        Step { arguments, inline }
    }

    fn turns(&mut self) -> Vec<Turn> {
        let mut turns = Vec::new();
        for _ in 0..1 + self.random.below(25) {
            let who = self.random.below(2);
            match self.random.below(4) {
                0 => turns.push(Turn { who, step: self.steering() }),
                1 => {
                    // A whole transaction; the other may come between.
                    if self.chance(2) {
                        let keys = self.keys();
                        let arguments = [vec![self.name("WATCH")], keys].concat();
                        turns.push(Turn { who, step: Step { arguments, inline: false } });
                    }
                    turns.push(Turn { who, step: Step::new(&["MULTI"]) });
                    for _ in 0..self.random.below(6) {
                        let who = if self.chance(5) { 1 - who } else { who };
                        turns.push(Turn { who, step: self.step() });
                    }
                    turns.push(Turn { who, step: Step::new(&["EXEC"]) });
                }
                _ => turns.push(Turn { who, step: self.step() }),
            }
        }
        // What is left. (What was begun is ended.)
        let mut last: Program = vec![Step::new(&["RESET"])];
        for database in ["0", "1", "2"] {
            last.extend([Step::new(&["SELECT", database]), Step::new(&["DBSIZE"]), Step::new(&["KEYS", "*"])]);
            last.extend(KEYS.iter().map(|key| Step::new(&[b"DUMP".as_slice(), key])));
        }
        turns.extend(last.into_iter().map(|step| Turn { who: 0, step }));
        turns
    }
}

/// Two clients of each server.
struct Couples {
    ours: [Client; 2],
    oracle: [Client; 2],
}

impl Couples {
    fn new(server: &Server, oracle: &Server) -> Couples {
        let two = |server: &Server| [server.client(), server.client()];
        Couples { ours: two(server), oracle: two(oracle) }
    }

    /// Runs a program from empty databases; what one client sends in a row goes in pipelines of up to `depth`.
    fn run(&mut self, program: &[Turn], depth: usize) -> Option<Difference> {
        for client in self.ours.iter_mut().chain(&mut self.oracle) {
            for line in ["RESET", "FLUSHALL", "SELECT 0", "HELLO 2 SETNAME tester"] {
                assert!(!client.run(line).is_error(), "{line}");
            }
        }
        let mut queued: [Vec<Step>; 2] = Default::default();
        let mut at = 0;
        while at < program.len() {
            let who = program[at].who;
            let run = program[at..].iter().take(depth).take_while(|turn| turn.who == who).count();
            let turns = &program[at..at + run];
            let bytes: Vec<u8> = turns.iter().flat_map(|turn| turn.step.bytes()).collect();
            self.oracle[who].send(&bytes);
            self.ours[who].send(&bytes);
            let mut found = None;
            for (i, turn) in turns.iter().enumerate() {
                let (oracle, ours) = (self.oracle[who].read(), self.ours[who].read());
                if found.is_none() && !alike(&turn.step, &mut queued[who], &ours, &oracle) {
                    found = Some(Difference { at: at + i, ours, oracle });
                }
            }
            if found.is_some() {
                return found;
            }
            at += run;
        }
        None
    }

    /// Leaves out what does not matter for the failure, as long as something can be left out.
    fn shrink(&mut self, program: &[Turn], depth: usize) -> Option<(Vec<Turn>, Difference)> {
        let mut program = program.to_vec();
        let mut difference = self.run(&program, depth)?;
        program.truncate(difference.at + 1);
        let mut at = 0;
        while at < program.len() {
            let mut without = program.clone();
            without.remove(at);
            match self.run(&without, depth) {
                Some(smaller) => {
                    without.truncate(smaller.at + 1);
                    (program, difference, at) = (without, smaller, 0);
                }
                None => at += 1,
            }
        }
        Some((program, difference))
    }
}

/// Whether two replies mean the same; `queued`: the commands of the client's transaction.
pub(super) fn alike(step: &Step, queued: &mut Vec<Step>, ours: &Reply, oracle: &Reply) -> bool {
    if matches!(oracle, Reply::Simple(text) if text == "QUEUED") {
        queued.push(step.clone());
        return ours == oracle;
    }
    if matches!(step.name().as_str(), "exec" | "discard" | "reset") {
        let commands = std::mem::take(queued);
        if let (Reply::Array(ours), Reply::Array(oracle)) = (ours, oracle) {
            return ours.len() == commands.len()
                && ours.len() == oracle.len()
                && commands.iter().zip(ours.iter().zip(oracle)).all(|(step, (ours, oracle))| same(step, ours, oracle));
        }
    }
    same(step, ours, oracle)
}

#[test]
fn random_transactions_like_redis() {
    run_random("random_transactions_like_redis", Author::turns);
}

/// Runs random programs of two clients on our servers and on `redis-server`.
pub(super) fn run_random(test: &str, make: impl Fn(&mut Author) -> Vec<Turn>) {
    let Some(oracle) = Server::oracle() else {
        return skip(test, "there is no redis-server");
    };
    let servers = ["1", "3"].map(|workers| Server::with(&["--workers", workers]));
    let mut couples = servers.each_ref().map(|server| Couples::new(server, &oracle));
    let seed = number("DOLMEN_DIFF_SEED").unwrap_or(20_261_130);
    let commands = usize::try_from(number("DOLMEN_DIFF_COMMANDS").unwrap_or(20_000)).expect("a count");
    let (mut sent, mut round) = (0, 0);
    while sent < commands {
        let own = seed.wrapping_add(round);
        let mut author = Author { random: Random(own) };
        let depth = [1, 3, 20][author.random.below(3)];
        let which = author.random.below(2);
        let program = make(&mut author);
        if couples[which].run(&program, depth).is_some() {
            let mut fresh = Couples::new(&servers[which], &oracle);
            let (small, difference) = fresh.shrink(&program, depth).expect("the program fails again");
            let lines: Vec<String> = small.iter().map(|turn| format!("{}: {}", turn.who, turn.step.show())).collect();
            panic!(
                "the servers differ (DOLMEN_DIFF_SEED={own}, pipelines of {depth}, server {which}):\n    {}\n  ours:  {}\n  redis: {}",
                lines.join("\n    "),
                cut(&difference.ours),
                cut(&difference.oracle),
            );
        }
        (sent, round) = (sent + program.len(), round + 1);
    }
}
