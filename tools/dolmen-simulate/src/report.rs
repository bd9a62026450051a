//! Results: a table for people, comma-separated values for programs.

use std::fmt::Write as _;

/// A policy on one trace at one size.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub workload: String,
    pub mb: f64,
    pub policy: String,
    pub seed: u64,
    pub hit_percent: f64,
    pub note: String,
}

/// The mean over the seeds.
pub fn mean(outcomes: &[Outcome], workload: &str, mb: f64, policy: &str) -> Option<f64> {
    let of = |outcome: &&Outcome| outcome.workload == workload && outcome.mb == mb && outcome.policy == policy;
    let ratios: Vec<f64> = outcomes.iter().filter(of).map(|outcome| outcome.hit_percent).collect();
    (!ratios.is_empty()).then(|| ratios.iter().sum::<f64>() / ratios.len() as f64)
}

/// What there is of something, in the order of its first occurrence.
pub fn distinct<T: PartialEq>(outcomes: &[Outcome], what: impl Fn(&Outcome) -> T) -> Vec<T> {
    let mut found = Vec::new();
    for value in outcomes.iter().map(what) {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}

/// A table for each size: a row a policy, a column a workload. The best of what can be had is marked.
pub fn table(outcomes: &[Outcome]) -> String {
    let workloads = distinct(outcomes, |outcome| outcome.workload.clone());
    let policies = distinct(outcomes, |outcome| outcome.policy.clone());
    let width = policies.iter().map(String::len).max().unwrap_or(0);
    let mut text = String::new();
    for mb in distinct(outcomes, |outcome| outcome.mb) {
        let _ = write!(text, "{:width$}", format!("{mb} MiB"));
        for workload in &workloads {
            let _ = write!(text, " {workload:>10}");
        }
        text.push('\n');
        let best: Vec<f64> = workloads
            .iter()
            .map(|workload| {
                let possible = policies.iter().filter(|policy| *policy != "belady");
                possible.filter_map(|policy| mean(outcomes, workload, mb, policy)).fold(0.0, f64::max)
            })
            .collect();
        for policy in &policies {
            let _ = write!(text, "{policy:width$}");
            for (workload, best) in workloads.iter().zip(&best) {
                let _ = match mean(outcomes, workload, mb, policy) {
                    Some(ratio) => {
                        let mark = if ratio == *best { "*" } else { "" };
                        write!(text, " {:>10}", format!("{mark}{ratio:.2}"))
                    }
                    None => write!(text, " {:>10}", ""),
                };
            }
            text.push('\n');
        }
        text.push('\n');
    }
    text
}

/// A line a run.
pub fn csv(outcomes: &[Outcome]) -> String {
    let mut text = String::from("workload,mib,policy,seed,hit_percent\n");
    for Outcome { workload, mb, policy, seed, hit_percent, .. } in outcomes {
        let _ = writeln!(text, "{},{mb},{policy},{seed},{hit_percent:.4}", quoted(workload));
    }
    text
}

/// A name of a file may have what separates.
fn quoted(name: &str) -> String {
    if name.contains([',', '"', '\n']) { format!("\"{}\"", name.replace('"', "\"\"")) } else { name.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes() -> Vec<Outcome> {
        let of = |workload: &str, policy: &str, seed, hit_percent| Outcome {
            workload: workload.into(),
            mb: 64.0,
            policy: policy.into(),
            seed,
            hit_percent,
            note: String::new(),
        };
        vec![
            of("scan", "lru", 1, 60.0),
            of("scan", "lru", 2, 61.0),
            of("scan", "smart", 1, 65.0),
            of("scan", "belady", 1, 70.0),
            of("a,b", "lru", 1, 50.0),
        ]
    }

    #[test]
    fn the_table_has_means_and_marks_the_best() {
        let text = table(&outcomes());
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["64", "MiB", "scan", "a,b"]);
        assert_eq!(lines[1], ["lru", "60.50", "*50.00"]);
        assert_eq!(lines[2], ["smart", "*65.00"]);
        assert_eq!(lines[3], ["belady", "70.00"]);
    }

    #[test]
    fn values_separated_by_commas() {
        let text = csv(&outcomes());
        assert_eq!(text.lines().count(), 6);
        assert!(text.contains("\nscan,64,lru,2,61.0000\n") && text.contains("\n\"a,b\",64,lru,1,50.0000\n"));
    }
}
