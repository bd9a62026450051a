//! Random programs under random rules: an operator changes what a user may do, while the user runs commands of all generators, also in
//! transactions. (How rules about commands are told is not compared: Redis 7.0 reckons them, 7.2 and we keep them. A pattern `*` matches the empty name
//! here, and does not in Redis unless it is written `~*`; so none is among these.)

use super::transactions::{Turn, run_random};
use super::{Author, Step};

const OPERATOR: usize = 0;
const USER: usize = 1;

const RULES: &[&str] = &[
    "+@all",
    "-@all",
    "+@read",
    "+@write",
    "-@write",
    "+@string",
    "-@string",
    "+@list",
    "+@hash",
    "+@set",
    "+@sortedset",
    "-@keyspace",
    "+@keyspace",
    "+@fast",
    "-@slow",
    "-@dangerous",
    "+@connection",
    "+@transaction",
    "-@bitmap",
    "+@pubsub",
    "+get",
    "-get",
    "+set",
    "-set",
    "+mset",
    "+object",
    "-object|encoding",
    "+object|encoding",
    "+client|getname",
    "-client",
    "+select|1",
    "+select",
    "-multi",
    "+multi",
    "-exec",
    "+exec",
    "allcommands",
    "nocommands",
    "allkeys",
    "~*",
    "resetkeys",
    "~a",
    "~key:*",
    "%R~key:*",
    "%W~b",
    "%RW~c",
    "%R~?*",
    "%W~?*",
    "~with?space",
    "~[a-c]",
    "allchannels",
    "resetchannels",
    "&*",
    "&news",
    "&news:*",
    "(+get ~*)",
    "(+@all %R~?*)",
    "(-@all +@write %W~key:*)",
    "()",
    "(+publish &news)",
    "clearselectors",
    "on",
    "nonsense",
    "+nosuch",
    "%X~a",
    "+@nosuch",
    "(nonsense)",
    "~a b",
    "+config|get|x",
    "-select|0",
    "&a b",
];

impl Author {
    fn rules(&mut self, most: usize) -> Vec<Vec<u8>> {
        (0..1 + self.random.below(most)).map(|_| self.random.pick(RULES).as_bytes().to_vec()).collect()
    }

    fn wanted(&mut self) -> Step {
        match self.random.below(12) {
            0 => Step::new(&["PUBLISH", self.random.pick(&["news", "news:1", "other"]), "x"]),
            1 => Step::new(&["SPUBLISH", self.random.pick(&["news", "news:1", "other"]), "x"]),
            2 => Step::new(&["ACL", self.random.pick(&["WHOAMI", "USERS", "HELP X", "CAT"])]),
            3 => Step::new(&["SELECT", self.random.pick(&["0", "1"])]),
            _ => loop {
                // A number of keys that is none is read in ways of its own by the check in Redis.
                let step = self.step();
                let at = match step.name().as_str() {
                    "zunion" | "zinter" | "zdiff" | "sintercard" | "zintercard" | "lmpop" | "zmpop" => 1,
                    "blmpop" | "bzmpop" | "zunionstore" | "zinterstore" | "zdiffstore" => 2,
                    _ => break step,
                };
                if step.arguments.get(at).is_some_and(|count| matches!(&**count, [b'1'..=b'9'])) {
                    break step;
                }
            },
        }
    }

    fn ruled(&mut self) -> Vec<Turn> {
        let words = |words: &[&str], rest: Vec<Vec<u8>>| {
            let arguments = words.iter().map(|word| word.as_bytes().to_vec()).chain(rest).collect();
            Step { arguments, inline: false }
        };
        let by = |who, step| Turn { who, step };
        let mut turns = vec![
            by(OPERATOR, Step::new(&["ACL", "SETUSER", "u", "reset", "on", "nopass", "+acl|whoami"])),
            by(OPERATOR, words(&["ACL", "SETUSER", "u"], self.rules(6))),
            by(USER, Step::new(&["AUTH", "u", "x"])),
        ];
        for _ in 0..self.random.below(30) {
            match self.random.below(10) {
                0 => turns.push(by(OPERATOR, words(&["ACL", "SETUSER", "u"], self.rules(3)))),
                1 => turns.push(by(OPERATOR, words(&["ACL", "DRYRUN", "u"], self.wanted().arguments))),
                2 => {
                    turns.push(by(USER, Step::new(&["MULTI"])));
                    for _ in 0..self.random.below(5) {
                        if self.chance(6) {
                            turns.push(by(OPERATOR, words(&["ACL", "SETUSER", "u"], self.rules(2))));
                        }
                        turns.push(by(USER, self.wanted()));
                    }
                    turns.push(by(USER, Step::new(&["EXEC"])));
                }
                _ => turns.push(by(USER, self.wanted())),
            }
        }
        turns.push(by(OPERATOR, Step::new(&["ACL", "LOG", "RESET"])));
        turns.push(by(USER, Step::new(&["ACL", "WHOAMI"])));
        turns
    }
}

#[test]
fn random_rules_like_redis() {
    run_random("random_rules_like_redis", Author::ruled);
}
