//! The replies of COMMAND and its subcommands, and of `<container> HELP`, written from the rows.
//!
//! Owns the shape of these replies; knows neither the wire (see [`Sink`]) nor any single command. Shapes are those of
//! Redis 7.0: flags, categories, hints, key specifications and history are sets, attributes are maps, and a command
//! without subcommands ends in an empty set where one with subcommands has an array.

use super::spec::{ArgDoc, Begin, Categories, Command, Commands, Find, Flags, KeySpec, Located};

mod help;
#[cfg(test)]
mod tests;

pub use help::help;

const SYNTAX: &str = "ERR syntax error";
const NO_SUCH_COMMAND: &str = "ERR Invalid command specified";
const NO_KEYS: &str = "ERR The command has no key arguments";
const WRONG_ARITY: &str = "ERR Invalid number of arguments specified for command";
const WRONG_ARGUMENTS: &str = "ERR Invalid arguments specified for command";

/// Where a reply goes. Aggregates announce how many elements follow (a map: how many pairs); in RESP2 the sink turns
/// sets and maps into arrays.
pub trait Sink {
    fn array(&mut self, len: usize);
    fn set(&mut self, len: usize);
    fn map(&mut self, pairs: usize);
    fn simple(&mut self, text: &str);
    fn bulk(&mut self, bytes: &[u8]);
    fn int(&mut self, value: i64);
    fn null(&mut self);
    /// `text` begins with the code of the error.
    fn error(&mut self, text: &str);
}

/// COMMAND, and COMMAND INFO without names.
pub fn all<R>(commands: &Commands<R>, out: &mut impl Sink) {
    out.array(commands.rows().len());
    for command in commands.rows() {
        describe(command, out);
    }
}

/// COMMAND COUNT.
pub fn count<R>(commands: &Commands<R>, out: &mut impl Sink) {
    out.int(length(commands.rows().len()));
}

/// COMMAND INFO `names`: null for a name unknown.
pub fn info<R>(commands: &Commands<R>, names: &[&[u8]], out: &mut impl Sink) {
    if names.is_empty() {
        return all(commands, out);
    }
    out.array(names.len());
    for name in names {
        match commands.find_full(name) {
            Some(command) => describe(command, out),
            None => out.null(),
        }
    }
}

/// COMMAND DOCS `names`: names unknown are left out. No name: all commands.
pub fn docs<R>(commands: &Commands<R>, names: &[&[u8]], out: &mut impl Sink) {
    let found: Vec<&Command<R>> = match names {
        [] => commands.rows().iter().collect(),
        _ => names.iter().filter_map(|name| commands.find_full(name)).collect(),
    };
    out.map(found.len());
    for command in found {
        document(command, out);
    }
}

/// COMMAND LIST `args`: the names of all commands and subcommands, or of those that pass a filter. `glob` matches a
/// name against a pattern, in any case.
pub fn list<R>(commands: &Commands<R>, args: &[&[u8]], glob: impl Fn(&[u8], &[u8]) -> bool, out: &mut impl Sink) {
    let passes: &dyn Fn(&Command<R>) -> bool = match *args {
        [] => &|_| true,
        [by, kind, filter] if by.eq_ignore_ascii_case(b"filterby") => {
            if kind.eq_ignore_ascii_case(b"module") {
                // There are no modules.
                &|_| false
            } else if kind.eq_ignore_ascii_case(b"aclcat") {
                let category = Categories::from_name(filter);
                &move |command| category.is_some_and(|category| command.categories.contains(category))
            } else if kind.eq_ignore_ascii_case(b"pattern") {
                &|command| glob(filter, command.name.as_bytes())
            } else {
                return out.error(SYNTAX);
            }
        }
        _ => return out.error(SYNTAX),
    };
    let names = commands.all().filter(|command| passes(command));
    out.array(names.clone().count());
    for command in names {
        out.bulk(command.name.as_bytes());
    }
}

/// COMMAND GETKEYS: the keys of the command `argv`.
pub fn get_keys<R>(commands: &Commands<R>, argv: &[&[u8]], out: &mut impl Sink) {
    keys_of(commands, argv, out, |_, key, out| out.bulk(key));
}

/// COMMAND GETKEYSANDFLAGS: the keys of the command `argv`, each with what the command does with it.
pub fn get_keys_and_flags<R>(commands: &Commands<R>, argv: &[&[u8]], out: &mut impl Sink) {
    keys_of(commands, argv, out, |spec, key, out| {
        out.array(2);
        out.bulk(key);
        simple_set(spec.flags_for(argv).names(), out);
    });
}

fn keys_of<R, S: Sink>(commands: &Commands<R>, argv: &[&[u8]], out: &mut S, write: impl Fn(&KeySpec, &[u8], &mut S)) {
    let Some(command) = commands.resolve(argv) else { return out.error(NO_SUCH_COMMAND) };
    if command.key_specs.is_empty() {
        return out.error(NO_KEYS);
    }
    if !command.takes(argv.len()) {
        return out.error(WRONG_ARITY);
    }
    let mut found = Vec::new();
    for spec in command.key_specs {
        match spec.locate(argv) {
            Located::At { first, last, step } => found.extend((first..=last).step_by(step).map(|at| (spec, argv[at]))),
            Located::Absent => {}
            Located::Invalid => {
                found.clear();
                break;
            }
        }
    }
    if found.is_empty() && !command.flags.contains(Flags::NO_MANDATORY_KEYS) {
        return out.error(WRONG_ARGUMENTS);
    }
    out.array(found.len());
    for (spec, key) in found {
        write(spec, key, out);
    }
}

/// The element of COMMAND INFO about one command.
fn describe<R>(command: &Command<R>, out: &mut impl Sink) {
    out.array(10);
    out.bulk(command.name.as_bytes());
    out.int(command.arity.into());
    simple_set(command.flags.names(), out);
    out.int(command.keys.first().into());
    out.int(command.keys.last().into());
    out.int(command.keys.step().into());
    simple_set(command.categories.names(), out);
    out.set(command.doc.tips.len());
    for tip in command.doc.tips {
        out.bulk(tip.as_bytes());
    }
    out.set(command.key_specs.len());
    for spec in command.key_specs {
        describe_keys(spec, out);
    }
    if command.subcommands.is_empty() {
        return out.set(0);
    }
    out.array(command.subcommands.len());
    for sub in command.subcommands {
        describe(sub, out);
    }
}

fn describe_keys(spec: &KeySpec, out: &mut impl Sink) {
    out.map(3 + usize::from(spec.notes.is_some()));
    if let Some(notes) = spec.notes {
        field("notes", notes, out);
    }
    out.bulk(b"flags");
    simple_set(spec.flags.names(), out);

    out.bulk(b"begin_search");
    out.map(2);
    let kind = match spec.begin {
        Begin::Index(_) => "index",
        Begin::Keyword { .. } => "keyword",
        Begin::Unknown => "unknown",
    };
    field("type", kind, out);
    out.bulk(b"spec");
    match spec.begin {
        Begin::Index(at) => numbers(&[("index", at.into())], out),
        Begin::Keyword { word, from } => {
            out.map(2);
            field("keyword", word, out);
            number("startfrom", from.into(), out);
        }
        Begin::Unknown => out.map(0),
    }

    out.bulk(b"find_keys");
    out.map(2);
    let kind = match spec.find {
        Find::Range { .. } => "range",
        Find::KeyNum { .. } => "keynum",
        Find::Unknown => "unknown",
    };
    field("type", kind, out);
    out.bulk(b"spec");
    match spec.find {
        Find::Range { last, step, limit } => {
            numbers(&[("lastkey", last.into()), ("keystep", step.into()), ("limit", limit.into())], out);
        }
        Find::KeyNum { count, first, step } => {
            numbers(&[("keynumidx", count.into()), ("firstkey", first.into()), ("keystep", step.into())], out);
        }
        Find::Unknown => out.map(0),
    }
}

/// The pair of COMMAND DOCS about one command: its name, and a map that has only what there is to tell.
fn document<R>(command: &Command<R>, out: &mut impl Sink) {
    let doc = command.doc;
    let optional = [
        !doc.complexity.is_empty(),
        doc.flags.names().next().is_some(),
        doc.deprecated_since.is_some(),
        doc.replaced_by.is_some(),
        !doc.history.is_empty(),
        !doc.args.is_empty(),
        !command.subcommands.is_empty(),
    ];
    out.bulk(command.name.as_bytes());
    out.map(3 + present(&optional));
    field("summary", doc.summary, out);
    field("since", doc.since, out);
    field("group", doc.group.name(), out);
    field_if("complexity", Some(doc.complexity).filter(|text| !text.is_empty()), out);
    if doc.flags.names().next().is_some() {
        out.bulk(b"doc_flags");
        simple_set(doc.flags.names(), out);
    }
    field_if("deprecated_since", doc.deprecated_since, out);
    field_if("replaced_by", doc.replaced_by, out);
    if !doc.history.is_empty() {
        out.bulk(b"history");
        out.set(doc.history.len());
        for (version, change) in doc.history {
            out.array(2);
            out.bulk(version.as_bytes());
            out.bulk(change.as_bytes());
        }
    }
    arguments(doc.args, out);
    if !command.subcommands.is_empty() {
        out.bulk(b"subcommands");
        out.map(command.subcommands.len());
        for sub in command.subcommands {
            document(sub, out);
        }
    }
}

/// The field `arguments`, unless there are none.
fn arguments(args: &[ArgDoc], out: &mut impl Sink) {
    if args.is_empty() {
        return;
    }
    out.bulk(b"arguments");
    out.array(args.len());
    for arg in args {
        argument(arg, out);
    }
}

fn argument(arg: &ArgDoc, out: &mut impl Sink) {
    let flagged = arg.flags.names().next().is_some();
    let optional = [
        arg.display.is_some(),
        arg.key_spec_index.is_some(),
        arg.token.is_some(),
        arg.since.is_some(),
        arg.deprecated_since.is_some(),
        flagged,
        !arg.children.is_empty(),
    ];
    out.map(2 + present(&optional));
    field("name", arg.name, out);
    field("type", arg.kind.name(), out);
    field_if("display_text", arg.display, out);
    if let Some(index) = arg.key_spec_index {
        number("key_spec_index", index.into(), out);
    }
    field_if("token", arg.token, out);
    field_if("since", arg.since, out);
    field_if("deprecated_since", arg.deprecated_since, out);
    if flagged {
        out.bulk(b"flags");
        simple_set(arg.flags.names(), out);
    }
    arguments(arg.children, out);
}

fn present(fields: &[bool]) -> usize {
    fields.iter().filter(|&&is| is).count()
}

fn field(name: &str, text: &str, out: &mut impl Sink) {
    out.bulk(name.as_bytes());
    out.bulk(text.as_bytes());
}

fn field_if(name: &str, text: Option<&str>, out: &mut impl Sink) {
    if let Some(text) = text {
        field(name, text, out);
    }
}

fn number(name: &str, value: i64, out: &mut impl Sink) {
    out.bulk(name.as_bytes());
    out.int(value);
}

fn numbers(fields: &[(&str, i64)], out: &mut impl Sink) {
    out.map(fields.len());
    for (name, value) in fields {
        number(name, *value, out);
    }
}

fn simple_set(names: impl Iterator<Item = &'static str> + Clone, out: &mut impl Sink) {
    out.set(names.clone().count());
    for name in names {
        out.simple(name);
    }
}

fn length(len: usize) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}
