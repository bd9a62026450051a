//! What a misspelt directive may have meant.

use super::table::DIRECTIVES;

/// The directive name most like `name`, if one is near enough for a slip of the keyboard.
pub(super) fn closest(name: &[u8]) -> Option<&'static str> {
    const NAME_BYTES_MAX: usize = 64;
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let name = name.to_ascii_lowercase();
    let (distance, best) = DIRECTIVES
        .iter()
        .flat_map(|directive| directive.names())
        .map(|known| (edit_distance(&name, known.as_bytes()), known))
        .min_by_key(|&(distance, _)| distance)?;
    (distance <= (name.len() / 3).max(1)).then_some(best)
}

/// Insertions, deletions, replacements and swaps of neighbours that lead from `a` to `b` (optimal string alignment).
fn edit_distance(a: &[u8], b: &[u8]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before_last[j - 2] + 1);
            }
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}
