//! Holds the rules of the house: which layer may import which, how long a file may be, where `unsafe` may stand, what no file may say.
//!
//! It reads the sources as text, after blanking comments and strings, and leaves out what is compiled for tests only.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Which top folders (or files) of `src/` may name which others. `slab` and `policy` stand for the crates
/// `dolmen_slab` and `dolmen_policy`. Everything may name itself.
const LAYERS: &[(&str, &[&str])] = &[
    ("base", &["slab"]),
    ("config", &["base"]),
    ("net", &["base"]),
    // A reply may carry a counted blob; how one is laid out is nobody's business here.
    ("proto", &["slab", "base"]),
    ("table", &["slab", "base"]),
    ("types", &["slab", "base", "table"]),
    // Which items of a cache are worth least is judged by the same code in the simulator (tools/dolmen-simulate).
    ("db", &["slab", "policy", "base", "table", "types"]),
    // Codecs: bytes in, bytes out.
    ("persist", &["base"]),
    ("pubsub", &["slab", "base"]),
    // What joins the keyspace to files.
    ("store", &["slab", "base", "db", "persist"]),
    // Commands are numbers to it.
    ("acl", &["base"]),
    // Of the table commands and pipeline know the place that a key hashes to, to look it up ahead.
    ("cmd", &["slab", "base", "acl", "config", "proto", "table", "types", "db", "persist", "pubsub", "store"]),
    ("exec", &["slab", "base", "acl", "config", "proto", "table", "types", "db", "pubsub", "store", "cmd"]),
    // Of the network a session knows the names of connections and what to say about reading, never a descriptor.
    ("session", &["slab", "base", "config", "proto", "types", "db", "cmd", "exec", "net"]),
    (
        "worker",
        &["slab", "base", "acl", "config", "proto", "types", "db", "pubsub", "store", "cmd", "exec", "session", "net"],
    ),
    (
        "main",
        &["slab", "base", "acl", "config", "proto", "types", "db", "store", "cmd", "exec", "session", "net", "worker"],
    ),
];

/// The files (or, ending in a slash, folders) that may be unsafe, and why each is.
const UNSAFE: &[(&str, &str)] = &[
    ("slab/src/ahead.rs", "the scheduling class of the thread that faults pages in"),
    ("slab/src/blobs.rs", "counted bytes behind pointers"),
    ("slab/src/body.rs", "bodies of blobs"),
    ("slab/src/chunks.rs", "chunks within pages"),
    ("slab/src/extents.rs", "extents of large blobs"),
    ("slab/src/peek.rs", "reads that race with the owner, as hints"),
    ("slab/src/poison.rs", "tells AddressSanitizer what is free"),
    ("slab/src/region.rs", "mmap, madvise"),
    ("slab/src/slab.rs", "memory handed out by handle"),
    ("slab/benches/", "they use the slab's unsafe calls"),
    ("slab/tests/", "they use the slab's unsafe calls"),
    ("src/base/bytes.rs", "copies of short byte strings"),
    ("src/base/collate.rs", "locales of the C library"),
    ("src/base/heap.rs", "tunes the C library's allocator"),
    ("src/base/out.rs", "replies written into spare capacity"),
    ("src/base/sync/claim.rs", "a value that one of several threads takes"),
    ("src/base/sync/futex.rs", "the futex system call"),
    ("src/base/sync/lock.rs", "data behind a lock"),
    ("src/base/sync/mailbox.rs", "nodes that pass from thread to thread"),
    ("src/base/sync/models.rs", "accesses that loom watches"),
    ("src/base/sync/timed.rs", "a lock around a lock, the time stamp counter"),
    ("src/base/ticks.rs", "the time stamp counter"),
    ("src/db/access.rs", "items behind handles"),
    ("src/db/background.rs", "items behind handles"),
    ("src/db/item.rs", "items behind handles"),
    ("src/db/item/overwrite.rs", "items behind handles"),
    ("src/db/keyspace.rs", "shards behind their locks"),
    ("src/db/locks.rs", "shards behind their locks"),
    ("src/db/marks.rs", "items behind handles"),
    ("src/db/mod.rs", "items behind handles"),
    ("src/db/snapshot.rs", "items behind handles"),
    ("src/db/strings.rs", "items behind handles"),
    ("src/db/transfer.rs", "items behind handles"),
    ("src/db/view.rs", "items behind handles"),
    ("src/db/wheel/chain.rs", "blocks behind handles"),
    ("src/net/stack/xdp/bpf.rs", "the bpf system call"),
    ("src/net/stack/xdp/rings.rs", "rings and frames shared with the kernel"),
    ("src/net/sys.rs", "system calls"),
    ("src/net/uring/ring.rs", "rings and buffers shared with the kernel"),
    ("src/proto/resp.rs", "unaligned loads of digits"),
    ("src/proto/shape.rs", "unaligned loads of what is compared"),
    ("src/table/group.rs", "SIMD"),
    ("src/table/raw.rs", "buckets behind handles"),
    ("src/types/zset/memory.rs", "elements and nodes behind handles"),
    ("src/types/list/node.rs", "blocks and nodes behind handles"),
    ("src/types/hash/memory.rs", "chunks behind handles"),
    ("src/types/set/big.rs", "members behind handles"),
    ("tools/dolmen-bench/src/machine.rs", "the scheduling class of the thread that probes"),
];

/// Files of more than `LINES_WANTED` lines, and why they are not split.
const LONG: [(&str, &str); 5] = [
    ("src/config/table.rs", "one table: a row a directive"),
    ("src/db/item.rs", "one packed layout, its pack and unpack"),
    ("src/net/sim.rs", "one network, read from top to bottom"),
    ("src/table/raw.rs", "every access to table memory, in one place"),
    ("src/types/zset/memory.rs", "every access to the memory of sorted sets, in one place"),
];
const LINES_WANTED: usize = 600;
const LINES_ALLOWED: usize = 1000;

const JUNK_DRAWERS: [&str; 6] = ["util", "utils", "common", "misc", "helper", "helpers"];

/// Where the sources are that are not only tests.
const PRODUCT: [&str; 5] =
    ["src/", "slab/src/", "policy/src/", "tools/dolmen-bench/src/", "tools/dolmen-simulate/src/"];

/// The crates that the server is made of, beside its own.
const CRATES: [&str; 2] = ["slab", "policy"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A source file, with what the rules need of it.
struct Source {
    /// From the root, with slashes.
    name: String,
    text: String,
    /// `text` with comments, strings and characters blanked; the lines are the same.
    code: String,
    /// `code` without what is compiled for tests only; the lines are the same.
    product: String,
    /// Nothing but tests.
    test: bool,
}

fn sources() -> Vec<Source> {
    let mut paths = Vec::new();
    for folder in ["src", "slab", "policy", "benches", "tests", "tools", "perf", "examples", "fuzz"] {
        walk(&root().join(folder), &mut paths);
    }
    let mut sources: Vec<Source> = paths
        .iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .map(|path| {
            let text = fs::read_to_string(path).expect("a source is text");
            let code = blanked(&text);
            let name = path.strip_prefix(root()).expect("below the root").to_str().expect("text").to_string();
            let test = !PRODUCT.iter().any(|folder| name.starts_with(folder));
            Source { name, product: without_tests(&code), code, text, test }
        })
        .collect();
    // `#[cfg(test)] mod x;` makes a file, or a folder, of tests.
    let declared: Vec<String> = sources.iter().flat_map(test_modules).collect();
    for source in &mut sources {
        let stem = source.name.trim_end_matches(".rs").trim_end_matches("/mod");
        source.test |= declared.iter().any(|module| stem == module || stem.starts_with(&format!("{module}/")));
    }
    assert!(sources.len() > 20, "the sources were found");
    sources.sort_by(|a, b| a.name.cmp(&b.name));
    sources
}

fn walk(folder: &Path, into: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.expect("a readable folder").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && !matches!(name, "target" | "corpus" | "artifacts" | "coverage" | "out") {
            walk(&path, into);
        } else if path.is_file() {
            into.push(path);
        }
    }
}

/// Blanks comments, strings and characters, and keeps the ends of lines.
fn blanked(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out: Vec<u8> = Vec::with_capacity(bytes.len());
    let mut at = 0;
    let blank =
        |out: &mut Vec<u8>, piece: &[u8]| out.extend(piece.iter().map(|&b| if b == b'\n' { b'\n' } else { b' ' }));
    while at < bytes.len() {
        let rest = &bytes[at..];
        let length = if rest.starts_with(b"//") {
            rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len())
        } else if rest.starts_with(b"/*") {
            block_comment(rest)
        } else if let Some(length) = raw_string(rest).filter(|_| !in_word(bytes, at)) {
            length
        } else if rest[0] == b'"' {
            quoted(rest, b'"')
        } else if rest[0] == b'\'' && is_character(rest) {
            quoted(rest, b'\'')
        } else {
            out.push(rest[0]);
            at += 1;
            continue;
        };
        blank(&mut out, &rest[..length]);
        at += length;
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn in_word(bytes: &[u8], at: usize) -> bool {
    at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_')
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                break;
            }
        } else {
            at += 1;
        }
    }
    at
}

/// The length of `r"..."`, `r#"..."#`, `br"..."` and so on, when `rest` begins with one.
fn raw_string(rest: &[u8]) -> Option<usize> {
    let prefix = rest.iter().take(2).take_while(|&&b| matches!(b, b'b' | b'c' | b'r')).count();
    if prefix == 0 || rest[prefix - 1] != b'r' {
        return None;
    }
    let hashes = rest[prefix..].iter().take_while(|&&b| b == b'#').count();
    let body = prefix + hashes;
    if rest.get(body) != Some(&b'"') {
        return None;
    }
    let end: Vec<u8> = std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
    let closing = rest[body + 1..].windows(end.len()).position(|window| window == end)?;
    Some(body + 1 + closing + end.len())
}

fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != quote {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

/// A character, not a lifetime.
fn is_character(rest: &[u8]) -> bool {
    match rest.get(1) {
        Some(b'\\') => true,
        Some(first) if first.is_ascii() => rest.get(2) == Some(&b'\''),
        Some(_) => rest.iter().skip(2).take(4).any(|&b| b == b'\''),
        None => false,
    }
}

/// Where the item that begins at `from` ends: after its first `;` or its braces, whichever comes first.
fn end_of_item(code: &str, from: usize) -> usize {
    let (mut depth, mut at) = (0_usize, from);
    for byte in code.as_bytes()[from..].iter().copied() {
        at += 1;
        match byte {
            b'{' | b'[' | b'(' => depth += 1,
            b'}' | b']' | b')' => {
                depth = depth.saturating_sub(1);
                if depth == 0 && byte == b'}' {
                    break;
                }
            }
            b';' if depth == 0 => break,
            _ => {}
        }
    }
    at
}

const CFG_TEST: &str = "#[cfg(test)]";

fn without_tests(code: &str) -> String {
    let mut product = String::with_capacity(code.len());
    let mut from = 0;
    while let Some(found) = code[from..].find(CFG_TEST) {
        let (start, end) = (from + found, end_of_item(code, from + found + CFG_TEST.len()));
        product.push_str(&code[from..start]);
        product.extend(code[start..end].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        from = end;
    }
    product.push_str(&code[from..]);
    product
}

/// The modules that a file declares for tests, as paths without `.rs`.
fn test_modules(source: &Source) -> Vec<String> {
    let folder = match source.name.rsplit_once('/') {
        Some((folder, "mod.rs" | "lib.rs" | "main.rs")) => folder.to_string(),
        _ => source.name.trim_end_matches(".rs").to_string(),
    };
    source
        .code
        .match_indices(CFG_TEST)
        .filter_map(|(at, _)| {
            let item = &source.code[at + CFG_TEST.len()..end_of_item(&source.code, at + CFG_TEST.len())];
            let name = item
                .trim()
                .trim_start_matches("pub(crate) ")
                .trim_start_matches("pub ")
                .strip_prefix("mod ")?
                .strip_suffix(';')?;
            Some(format!("{folder}/{}", name.trim()))
        })
        .collect()
}

/// The first word at `text`.
fn word(text: &str) -> &str {
    let text = text.trim_start();
    &text[..text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len())]
}

/// The positions of a whole word.
fn words<'a>(code: &'a str, wanted: &'a str) -> impl Iterator<Item = usize> + 'a {
    let part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    code.match_indices(wanted)
        .map(|(at, _)| at)
        .filter(move |&at| !part(code[..at].chars().next_back()) && !part(code[at + wanted.len()..].chars().next()))
}

fn line(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// The first segments of a path: one, or those of a group (`{base::x, db}`).
fn first_segments(path: &str) -> Vec<String> {
    let path = path.trim_start();
    let Some(group) = path.strip_prefix('{') else { return vec![word(path).to_string()] };
    let (mut segments, mut depth, mut expecting) = (Vec::new(), 0, true);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => expecting = true,
            _ if expecting && depth == 0 && !c.is_whitespace() => {
                segments.push(word(&group[at..]).to_string());
                expecting = false;
            }
            _ => {}
        }
    }
    segments
}

/// Every top folder that a file of `src/` names, with the place.
fn imports(source: &Source) -> Vec<(String, usize)> {
    let code = &source.product;
    let mut found = Vec::new();
    for name in CRATES {
        found.extend(words(code, &format!("dolmen_{name}")).map(|at| (name.to_string(), line(code, at))));
    }
    for at in words(code, "crate") {
        if let Some(path) = code[at + "crate".len()..].trim_start().strip_prefix("::") {
            found.extend(first_segments(path).into_iter().map(|segment| (segment, line(code, at))));
        }
    }
    // As many `super` as the module is deep lead to the root.
    let inside = source.name.trim_start_matches("src/").trim_end_matches(".rs").trim_end_matches("/mod");
    let climb = "super::".repeat(inside.matches('/').count() + 1);
    for (at, _) in code.match_indices(&climb) {
        if !code[..at].ends_with("super::") {
            found
                .extend(first_segments(&code[at + climb.len()..]).into_iter().map(|segment| (segment, line(code, at))));
        }
    }
    found
}

#[test]
fn imports_go_one_way() {
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    for source in
        sources().iter().filter(|source| source.name.starts_with("src/") && !source.test && source.name != "src/lib.rs")
    {
        let layer =
            source.name["src/".len()..].split('/').next().expect("a folder").trim_end_matches(".rs").to_string();
        let Some((_, allowed)) = LAYERS.iter().find(|(name, _)| *name == layer) else {
            wrong.push(format!("{}: {layer} is not among the layers of tests/tidy.rs", source.name));
            continue;
        };
        for (target, line) in imports(source) {
            let known = LAYERS.iter().any(|(name, _)| *name == target) || CRATES.contains(&target.as_str());
            if known && target != layer && !allowed.contains(&target.as_str()) {
                wrong.push(format!("{}:{line}: {layer} must not know {target}", source.name));
            }
        }
        seen.insert(layer);
    }
    let stale = LAYERS.iter().filter(|(name, _)| !seen.contains(*name));
    wrong.extend(stale.map(|(name, _)| format!("tests/tidy.rs: there is no layer {name}")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn slab_and_policy_stand_alone() {
    for name in CRATES {
        let manifest = fs::read_to_string(root().join(name).join("Cargo.toml")).expect("its manifest");
        assert!(!manifest.contains("path ="), "dolmen-{name} depends on nothing of ours");
        for source in sources().iter().filter(|source| source.name.starts_with(&format!("{name}/src/"))) {
            assert_eq!(words(&source.product, "dolmen").next(), None, "{} names the server", source.name);
        }
    }
}

/// No descriptor appears above `net`.
#[test]
fn descriptors_stay_in_the_network() {
    let mut wrong = Vec::new();
    for source in sources()
        .iter()
        .filter(|source| source.name.starts_with("src/") && !source.name.starts_with("src/net/") && !source.test)
    {
        for name in ["RawFd", "OwnedFd", "BorrowedFd", "AsRawFd", "AsFd", "FromRawFd", "IntoRawFd"] {
            wrong.extend(
                words(&source.product, name).map(|at| format!("{}:{}: {name}", source.name, line(&source.product, at))),
            );
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn files_are_short() {
    let sources = sources();
    let mut wrong = Vec::new();
    for source in sources.iter().filter(|source| !source.test) {
        // Lines of tests in between do not count.
        let cut: usize =
            source.code.lines().zip(source.product.lines()).filter(|(code, product)| code != product).count();
        let lines = source.text.lines().count() - cut;
        let listed = LONG.iter().any(|(name, _)| *name == source.name);
        if lines > LINES_ALLOWED {
            wrong.push(format!("{} has {lines} lines", source.name));
        } else if lines > LINES_WANTED && !listed {
            wrong.push(format!(
                "{} has {lines} lines, more than {LINES_WANTED}, and is not on the list in tests/tidy.rs",
                source.name
            ));
        } else if lines <= LINES_WANTED && listed {
            wrong.push(format!("{} is short again: take it off the list in tests/tidy.rs", source.name));
        }
    }
    for (name, _) in LONG {
        if !sources.iter().any(|source| source.name == name) {
            wrong.push(format!("{name} is on the list in tests/tidy.rs and does not exist"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_junk_drawers() {
    for source in sources() {
        let parts = source.name.trim_end_matches(".rs").split('/').map(str::to_string).collect::<Vec<_>>();
        let named = words(&source.code, "mod").map(|at| word(&source.code[at + 3..]).to_string()).collect::<Vec<_>>();
        for name in parts.iter().chain(&named) {
            assert!(!JUNK_DRAWERS.contains(&name.as_str()), "{}: no module is called {name}", source.name);
        }
    }
}

#[test]
fn unsafe_is_where_it_may_be() {
    let sources = sources();
    let mut wrong = Vec::new();
    for source in &sources {
        let places: Vec<usize> = words(&source.code, "unsafe").collect();
        let listed = UNSAFE.iter().any(|(name, _)| covers(name, &source.name));
        let named = UNSAFE.iter().any(|(name, _)| *name == source.name);
        if named && places.is_empty() {
            wrong.push(format!("{} is not unsafe any more: take it off the list in tests/tidy.rs", source.name));
        }
        for at in places {
            let place = format!("{}:{}", source.name, line(&source.code, at));
            if !listed {
                wrong.push(format!("{place}: unsafe, and the file is not on the list in tests/tidy.rs"));
            }
            let next = source.code[at + "unsafe".len()..].trim_start();
            let (wanted, near) = match word(next) {
                // The type of a function, or an attribute like unsafe(no_mangle).
                "fn" if word(&next[2..]).is_empty() => continue,
                _ if next.starts_with('(') => continue,
                "fn" | "trait" => ("# Safety", 40),
                "extern" => continue,
                _ => ("SAFETY:", 12),
            };
            // The methods of an unsafe trait are explained where it is declared.
            let comment = comment_above(&source.text, line(&source.text, at), near);
            let said = comment.contains(wanted) || (wanted == "# Safety" && comment.contains("SAFETY:"));
            if !said {
                wrong.push(format!("{place}: no {wanted} above it"));
            }
        }
    }
    for (name, _) in UNSAFE {
        if !sources.iter().any(|source| covers(name, &source.name)) {
            wrong.push(format!("{name} is on the list in tests/tidy.rs and does not exist"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Whether a name of a list is this file, or a folder that holds it.
fn covers(listed: &str, file: &str) -> bool {
    listed == file || (listed.ends_with('/') && file.starts_with(listed))
}

/// The comments in the lines above `line` (counted from 1), up to the end of the statement or item before it.
fn comment_above(text: &str, line: usize, near: usize) -> String {
    let lines: Vec<&str> = text.lines().take(line).collect();
    let mut comments = String::new();
    for (distance, text) in lines.iter().rev().enumerate().take(near) {
        let trimmed = text.trim();
        if trimmed.starts_with("//") {
            comments.insert_str(0, trimmed);
        } else if let Some((_, behind)) = trimmed.split_once("// SAFETY") {
            comments.insert_str(0, &format!("// SAFETY{behind}"));
        } else if distance > 0 && (trimmed.is_empty() || trimmed.ends_with('}') || trimmed.ends_with(';')) {
            break;
        }
    }
    comments
}

#[test]
fn nothing_is_unfinished() {
    let mut wrong = Vec::new();
    let ours = ["src/", "slab/", "policy/"];
    for source in sources().iter().filter(|source| ours.iter().any(|folder| source.name.starts_with(folder))) {
        for name in ["todo", "unimplemented", "dbg"] {
            let macros = words(&source.code, name).filter(|at| source.code[at + name.len()..].starts_with('!'));
            wrong.extend(macros.map(|at| format!("{}:{}: {name}!", source.name, line(&source.code, at))));
        }
        for (number, text) in source.text.lines().enumerate() {
            for mark in ["TODO", "FIXME", "XXX", "(to come)"] {
                if text.split("//").nth(1).is_some_and(|comment| comment.contains(mark)) {
                    wrong.push(format!("{}:{}: {mark}", source.name, number + 1));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_module_says_what_it_owns() {
    let bare: Vec<String> = sources()
        .iter()
        .filter(|source| !source.text.starts_with("//!") && !source.text.starts_with("#!"))
        .map(|source| source.name.clone())
        .collect();
    assert!(bare.is_empty(), "no //! at the top of: {}", bare.join(", "));
}

/// What git knows, or, without git, everything.
fn tracked() -> Vec<PathBuf> {
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root()).output();
    if let Ok(output) = listed.as_ref()
        && output.status.success()
        && !output.stdout.is_empty()
    {
        let names = String::from_utf8(output.stdout.clone()).expect("names are text");
        return names.split('\0').filter(|name| !name.is_empty()).map(|name| root().join(name)).collect();
    }
    let mut paths = Vec::new();
    walk(root(), &mut paths);
    paths.retain(|path| !path.components().any(|part| part.as_os_str() == ".git"));
    paths
}

/// No file names a place of the machine it was written on, or of the network.
#[test]
fn no_traces_of_a_machine() {
    // In pieces, so that this file does not contain them.
    let machine = [["/wo", "rk/"], ["/tm", "p/"], ["/ro", "ot/"], ["/ho", "me/"]].map(|parts| parts.concat());
    let hosts = [
        ["index.crates", ".io"],
        ["static.crates", ".io"],
        ["py", "pi.org"],
        ["pythonhosted", ".org"],
        ["proxy.golang", ".org"],
        ["deb.debian", ".org"],
        ["registry.npmjs", ".org"],
        ["archive.ubuntu", ".com"],
    ]
    .map(|parts| parts.concat());
    let mut wrong = Vec::new();
    for path in tracked() {
        // What was deleted and not yet committed, and what is not text.
        let Ok(text) = fs::read_to_string(&path) else { continue };
        for (number, line) in text.lines().enumerate() {
            for trace in machine.iter().chain(&hosts) {
                let from_root = |at: usize| {
                    !line[..at].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '}' | '-'))
                };
                if line.match_indices(trace.as_str()).any(|(at, _)| !trace.starts_with('/') || from_root(at)) {
                    wrong.push(format!("{}:{}: {trace}", path.display(), number + 1));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A table that the README takes from a record says from which (`<!-- from perf/records/... -->`), and each of its lines stands there.
#[test]
fn the_readme_quotes_what_was_recorded() {
    let readme = fs::read_to_string(root().join("README.md")).expect("a README");
    let mut quotes = 0;
    for (at, _) in readme.match_indices("<!-- from ") {
        let rest = &readme[at + "<!-- from ".len()..];
        let (name, rest) = rest.split_once(" -->").expect("the end of the comment");
        let record =
            fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("README quotes {name}: {error}"));
        let block = rest
            .trim_start()
            .strip_prefix("```text\n")
            .unwrap_or_else(|| panic!("a text block after the mention of {name}"));
        let (block, _) = block.split_once("```").expect("the end of the block");
        for line in block.lines().filter(|line| !line.trim().is_empty()) {
            assert!(
                record.lines().any(|recorded| recorded == line),
                "README quotes a line that {name} does not have: {line}"
            );
        }
        quotes += 1;
    }
    let tables = readme.matches("<!-- from ").count();
    assert_eq!(quotes, tables);
    assert!(readme.contains("cargo run --release"), "the README says how to start it");
}

/// The rules' own eyes: what is blanked, and what counts as a test.
#[test]
fn the_reader_of_sources() {
    let text = "let a = \"unsafe // \\\" { \"; // unsafe\nlet b = '{'; let c: &'static str = r#\"unsafe \" \"#; /* unsafe /* { */ */ let d = b'\\'';";
    let code = blanked(text);
    assert_eq!(code.lines().count(), 2);
    assert!(!code.contains("unsafe") && !code.contains('{'), "{code}");
    assert!(code.contains("&'static str") && code.contains("let d ="), "{code}");

    let code =
        "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() { if x {} }\n}\nfn c() {}\n#[cfg(test)] mod d;\nfn e() {}";
    let product = without_tests(code);
    assert_eq!(product.lines().count(), code.lines().count());
    assert!(product.contains("fn a") && product.contains("fn c") && product.contains("fn e"));
    assert!(!product.contains("fn b") && !product.contains("mod d"));

    let source = |name: &str, text: &str| Source {
        name: name.into(),
        text: text.into(),
        code: blanked(text),
        product: without_tests(&blanked(text)),
        test: false,
    };
    let names = |source: &Source| imports(source).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    let text = "use crate::{base::{int, x}, db};\nuse crate::net::Out;\nuse dolmen_slab::Slab;\nlet x = super::super::cmd::y; super::item;";
    assert_eq!(names(&source("src/db/item.rs", text)), ["slab", "base", "db", "net", "cmd"]);
    assert_eq!(names(&source("src/db/mod.rs", "use super::exec::x;")), ["exec"]);
    assert_eq!(names(&source("src/db/a/b.rs", "use super::super::exec::x;")), [""; 0]);
    assert_eq!(test_modules(&source("src/db/mod.rs", "#[cfg(test)]\nmod tests;")), ["src/db/tests"]);
    assert_eq!(test_modules(&source("src/db/item.rs", "#[cfg(test)]\npub(crate) mod model;")), ["src/db/item/model"]);
}
