//! `<container> HELP`, from the rows of the subcommands: what each is called, how it is used, what it does.

use super::Sink;
use crate::cmd::spec::{ArgDoc, ArgFlags, ArgKind, Command};

/// Writes the help of a command with subcommands as an array of lines.
pub fn help<R>(container: &Command<R>, out: &mut impl Sink) {
    let name = container.name.to_ascii_uppercase();
    let mut lines = vec![format!("{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:")];
    let mut entry = |head: String, summary: &str| lines.extend([head, format!("    {summary}.")]);
    if container.takes(1) {
        entry("(no subcommand)".to_owned(), container.doc.summary);
    }
    for sub in container.subcommands {
        let mut head = sub.short_name().to_ascii_uppercase();
        usage_all(sub.doc.args, " ", &mut head);
        entry(head, sub.doc.summary);
    }
    out.array(lines.len());
    for line in &lines {
        out.simple(line);
    }
}

/// Appends the usage of each of `args`, each after `separator`.
fn usage_all(args: &[ArgDoc], separator: &str, line: &mut String) {
    for arg in args {
        line.push_str(separator);
        usage(arg, line);
    }
}

/// Appends the usage of one argument: `[TYPE <NORMAL|MASTER>]`, `<name> [<name> ...]`.
fn usage(arg: &ArgDoc, line: &mut String) {
    let mut value = String::new();
    match arg.kind {
        ArgKind::PureToken => {}
        ArgKind::OneOf | ArgKind::Block => {
            let separator = if arg.kind == ArgKind::OneOf { "|" } else { " " };
            usage_all(arg.children, separator, &mut value);
            value.drain(..separator.len().min(value.len()));
            // Brackets of an optional choice without a token already hold it together.
            let bare = arg.flags.contains(ArgFlags::OPTIONAL) && arg.token.is_none();
            if arg.kind == ArgKind::OneOf && !bare {
                value = format!("({value})");
            }
        }
        _ => value = format!("<{}>", arg.display.unwrap_or(arg.name)),
    }
    let once = match arg.token {
        Some(token) if value.is_empty() => token.to_owned(),
        Some(token) => format!("{token} {value}"),
        None => value.clone(),
    };
    let repeats = arg.flags.contains(ArgFlags::MULTIPLE);
    let again = if arg.flags.contains(ArgFlags::MULTIPLE_TOKEN) { &once } else { &value };
    let all = if repeats { format!("{once} [{again} ...]") } else { once };
    if arg.flags.contains(ArgFlags::OPTIONAL) {
        line.push_str(&format!("[{all}]"));
    } else {
        line.push_str(&all);
    }
}
