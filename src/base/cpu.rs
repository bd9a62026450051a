//! What the operating system grants this process and what it has used: CPUs, memory, CPU time, open files.
//!
//! Readings, and the one limit worth raising. Nothing here fails: a reading that cannot be had (no `/proc`) is 0, a limit that cannot
//! be raised stays.

use std::io;
use std::time::Duration;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use nix::sys::time::TimeVal;
use nix::unistd::{Pid, SysconfVar, sysconf};

use super::cgroup;

/// CPUs of the calling thread's affinity mask, ascending; empty if the machine has more than a mask of the C library can name.
pub fn affinity() -> Vec<usize> {
    let Ok(mask) = sched_getaffinity(Pid::from_raw(0)) else { return Vec::new() };
    (0..CpuSet::count()).filter(|&cpu| mask.is_set(cpu) == Ok(true)).collect()
}

/// CPUs that this process may keep busy: those of the affinity mask, or fewer if a cgroup quota says so. At least 1.
pub fn usable_cpus() -> usize {
    // Of a machine too large for the mask the standard library knows the number at least.
    let in_mask = match affinity().len() {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        in_mask => in_mask,
    };
    within_quota(in_mask)
}

/// `cpus`, or fewer if a cgroup quota grants the time of fewer. At least 1.
pub fn within_quota(cpus: usize) -> usize {
    cgroup::quota_cpus().map_or(cpus, |quota| quota.min(cpus)).max(1)
}

/// CPUs of the machine that are online, ascending; where the kernel does not say, those of the affinity mask.
pub fn online() -> Vec<usize> {
    let listed = std::fs::read_to_string("/sys/devices/system/cpu/online").ok();
    listed.and_then(|text| parse_cpu_list(text.trim_ascii_end()).ok()).unwrap_or_else(affinity)
}

/// Lets the calling thread, and those it starts from now on, run on this CPU only.
///
/// # Errors
/// If there is no such CPU, or this process may not use it (a cpuset).
pub fn pin(cpu: usize) -> io::Result<()> {
    let mut mask = CpuSet::new();
    mask.set(cpu)?;
    Ok(sched_setaffinity(Pid::from_raw(0), &mask)?)
}

/// Whether a thread of this process may be pinned to each of `cpus`; else the first that is refused, and why.
///
/// # Errors
/// As [`pin`], or if no thread can be started to try it.
pub fn can_pin(cpus: &[usize]) -> Result<(), (usize, io::Error)> {
    // In a thread that ends with it: the mask of this one stays as it is.
    std::thread::scope(|scope| {
        let tried = std::thread::Builder::new()
            .spawn_scoped(scope, || cpus.iter().try_for_each(|&cpu| pin(cpu).map_err(|error| (cpu, error))))
            .map_err(|error| (cpus.first().copied().unwrap_or(0), error))?;
        tried.join().expect("pinning does not panic")
    })
}

/// Largest number of CPUs that a list may have, that of a mask of the C library.
const CPUS_MAX: usize = CpuSet::count();

/// A list of CPUs in the kernel's notation: `0,2-5`, or `0-6:2` for every second of them; in the order written. The error says what is
/// wrong with it.
pub fn parse_cpu_list(text: &str) -> Result<Vec<usize>, String> {
    let mut cpus = Vec::new();
    let number = |digits: &str| match digits.parse::<usize>() {
        Ok(number) if digits.bytes().all(|b| b.is_ascii_digit()) && number < CPUS_MAX => Ok(number),
        Ok(number) if number >= CPUS_MAX => Err(format!("CPU {number} is more than {} can be", CPUS_MAX - 1)),
        _ => Err(format!("'{digits}' is not the number of a CPU")),
    };
    for part in text.split(',') {
        let (range, step) = match part.split_once(':') {
            Some((range, step)) => (range, number(step)?),
            None => (part, 1),
        };
        let (first, last) = match range.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(range)?, number(range)?),
        };
        if first > last || step == 0 {
            return Err(format!("'{part}' is not a range of CPUs"));
        }
        for cpu in (first..=last).step_by(step) {
            if cpus.contains(&cpu) {
                return Err(format!("CPU {cpu} is named twice"));
            }
            cpus.push(cpu);
        }
    }
    Ok(cpus)
}

/// A list of CPUs as [`parse_cpu_list`] reads it, with ranges for what ascends by one.
pub fn cpu_list_text(cpus: &[usize]) -> String {
    let runs: Vec<String> = cpus
        .chunk_by(|a, b| a + 1 == *b)
        .map(|run| match run {
            [first, .., last] => format!("{first}-{last}"),
            run => run.iter().map(usize::to_string).collect(),
        })
        .collect();
    runs.join(",")
}

/// Resident memory of this process, in bytes.
pub fn resident_bytes() -> u64 {
    let page_bytes = sysconf(SysconfVar::PAGE_SIZE).ok().flatten().and_then(|bytes| u64::try_from(bytes).ok());
    let pages = std::fs::read_to_string("/proc/self/statm").ok().and_then(|text| resident_pages(&text));
    pages.unwrap_or(0) * page_bytes.unwrap_or(4096)
}

/// Second field of `statm`.
fn resident_pages(statm: &str) -> Option<u64> {
    statm.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Memory of the machine, in bytes.
pub fn machine_bytes() -> u64 {
    let read = |what| sysconf(what).ok().flatten().and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
    read(SysconfVar::_PHYS_PAGES) * read(SysconfVar::PAGE_SIZE)
}

/// Memory that this process may use: of the machine, or less if a cgroup grants less.
pub fn usable_bytes() -> u64 {
    cgroup::memory_bytes().map_or(machine_bytes(), |granted| granted.min(machine_bytes()))
}

/// Largest resident memory that this process has had, in bytes.
pub fn resident_bytes_peak() -> u64 {
    // Not getrusage alone: its maximum survives execve, so a small server started by a large program would report that program's.
    let status = std::fs::read_to_string("/proc/self/status").ok();
    let kib = status.as_deref().and_then(high_water_kib);
    let kib = kib.or_else(|| u64::try_from(getrusage(UsageWho::RUSAGE_SELF).ok()?.max_rss()).ok());
    kib.unwrap_or(0) * 1024
}

/// `VmHWM:     5120 kB` of `/proc/self/status`.
fn high_water_kib(status: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    value.trim().strip_suffix("kB")?.trim_end().parse().ok()
}

/// CPU time used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    pub user: Duration,
    pub system: Duration,
}

/// Of all threads of this process.
pub fn process_times() -> CpuTimes {
    times(UsageWho::RUSAGE_SELF)
}

/// Of the calling thread.
pub fn thread_times() -> CpuTimes {
    times(UsageWho::RUSAGE_THREAD)
}

/// Of children that have ended and were waited for.
pub fn children_times() -> CpuTimes {
    times(UsageWho::RUSAGE_CHILDREN)
}

fn times(who: UsageWho) -> CpuTimes {
    let Ok(usage) = getrusage(who) else { return CpuTimes::default() };
    CpuTimes { user: duration(usage.user_time()), system: duration(usage.system_time()) }
}

fn duration(time: TimeVal) -> Duration {
    let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_micros(u64::try_from(time.tv_usec()).unwrap_or(0))
}

/// Descriptors beside those of clients: listeners, epoll, event and signal descriptors, files. Redis reserves as many.
pub const NOFILE_RESERVE: u64 = 32;

/// What Redis assumes where the limit cannot be read.
const NOFILE_ASSUMED: u64 = 1024;

/// Raises this process's limit of open files to `want` if it is lower, as far as the system lets it; returns the limit now in force.
pub fn raise_nofile(want: u64) -> u64 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return NOFILE_ASSUMED };
    let ceiling = std::fs::read_to_string("/proc/sys/fs/nr_open").ok().and_then(|text| text.trim().parse().ok());
    for limit in nofile_attempts(want, soft, hard, ceiling) {
        if setrlimit(Resource::RLIMIT_NOFILE, limit, hard.max(limit)).is_ok() {
            return limit;
        }
    }
    soft
}

/// Soft limits to try, best first: what is wanted, the kernel's ceiling for a privileged process, this process's own hard limit.
/// Only ever above `soft`.
fn nofile_attempts(want: u64, soft: u64, hard: u64, ceiling: Option<u64>) -> impl Iterator<Item = u64> {
    [Some(want), ceiling.filter(|&ceiling| ceiling > hard), Some(hard)]
        .into_iter()
        .flatten()
        .map(move |limit| limit.min(want))
        .filter(move |&limit| limit > soft)
}

/// What `maxclients` comes to under the limit of open files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientRoom {
    /// At most what was asked for; 0 if the limit leaves no room for any.
    pub maxclients: u32,
    /// Descriptors that what was asked for needs.
    pub nofile_wanted: u64,
    /// Limit in force.
    pub nofile: u64,
}

impl ClientRoom {
    /// Raises the limit for `maxclients` and [`NOFILE_RESERVE`], and says how many clients fit.
    pub fn make(maxclients: u32) -> ClientRoom {
        let wanted = u64::from(maxclients) + NOFILE_RESERVE;
        ClientRoom::within(maxclients, raise_nofile(wanted))
    }

    fn within(maxclients: u32, nofile: u64) -> ClientRoom {
        let room = u32::try_from(nofile.saturating_sub(NOFILE_RESERVE)).unwrap_or(u32::MAX);
        ClientRoom { maxclients: maxclients.min(room), nofile_wanted: u64::from(maxclients) + NOFILE_RESERVE, nofile }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus() {
        let mask = affinity();
        assert!(!mask.is_empty() && mask.is_sorted());
        assert!((1..=mask.len()).contains(&usable_cpus()));
    }

    #[test]
    fn affinity_follows_the_mask_of_the_thread() {
        // In a thread of its own: the mask goes with it.
        let one = std::thread::spawn(|| {
            let cpu = *affinity().last().unwrap();
            let mut mask = CpuSet::new();
            mask.set(cpu).unwrap();
            sched_setaffinity(Pid::from_raw(0), &mask).unwrap();
            (cpu, affinity(), usable_cpus())
        });
        let (cpu, mask, usable) = one.join().unwrap();
        assert_eq!((mask, usable), (vec![cpu], 1));
    }

    #[test]
    fn a_pinned_thread_has_one_cpu() {
        let cpu = *affinity().last().unwrap();
        let pinned = std::thread::spawn(move || (pin(cpu), affinity(), pin(CPUS_MAX - 1), pin(CPUS_MAX), affinity()));
        let (pinned, mask, beyond, no_cpu, after) = pinned.join().unwrap();
        pinned.unwrap();
        assert_eq!((&mask, &after), (&vec![cpu], &vec![cpu]), "a failure changes nothing");
        assert!(no_cpu.is_err());
        assert!(beyond.is_err() || online().contains(&(CPUS_MAX - 1)));
    }

    #[test]
    fn what_can_be_pinned() {
        let before = affinity();
        can_pin(&before).unwrap();
        can_pin(&[]).unwrap();
        assert_eq!(can_pin(&[before[0], CPUS_MAX]).unwrap_err().0, CPUS_MAX);
        assert_eq!(affinity(), before);
    }

    #[test]
    fn cpus_online() {
        let online = online();
        assert!(affinity().iter().all(|cpu| online.contains(cpu)) && online.is_sorted());
    }

    #[test]
    fn cpu_lists() {
        let rows: &[(&str, &[usize], &str)] = &[
            ("0", &[0], "0"),
            ("0,2-5", &[0, 2, 3, 4, 5], "0,2-5"),
            ("5,4,0-1", &[5, 4, 0, 1], "5,4,0-1"),
            ("3-3", &[3], "3"),
            ("0-6:2", &[0, 2, 4, 6], "0,2,4,6"),
            ("1-2,3", &[1, 2, 3], "1-3"),
            ("1023", &[1023], "1023"),
        ];
        for (text, cpus, printed) in rows {
            assert_eq!(parse_cpu_list(text).as_deref(), Ok(*cpus), "{text}");
            assert_eq!(cpu_list_text(cpus), *printed);
            assert_eq!(parse_cpu_list(printed).as_deref(), Ok(*cpus));
        }
        let refused = [
            ("", "'' is not the number of a CPU"),
            ("0,", "'' is not the number of a CPU"),
            ("a", "'a' is not the number of a CPU"),
            ("+1", "'+1' is not the number of a CPU"),
            ("-1", "'' is not the number of a CPU"),
            ("0 1", "'0 1' is not the number of a CPU"),
            ("5-2", "'5-2' is not a range of CPUs"),
            ("0-4:0", "'0-4:0' is not a range of CPUs"),
            ("0-3,2", "CPU 2 is named twice"),
            ("1024", "CPU 1024 is more than 1023 can be"),
            ("0-99999999999", "CPU 99999999999 is more than 1023 can be"),
        ];
        for (text, why) in refused {
            assert_eq!(parse_cpu_list(text), Err(why.to_owned()), "{text}");
        }
        assert_eq!(cpu_list_text(&[]), "");
    }

    #[test]
    fn memory_is_seen() {
        assert_eq!(resident_pages("5120 1200 800 40 0 300 0\n"), Some(1200));
        assert_eq!(resident_pages("5120"), None);
        assert_eq!(high_water_kib("Name:\tx\nVmHWM:\t    5120 kB\nVmRSS:\t 4 kB\n"), Some(5120));
        assert_eq!(high_water_kib("Name:\tx\n"), None);
        const BLOCK_BYTES: usize = 32 << 20;
        let before = resident_bytes();
        assert!(before > 0);
        let block = std::hint::black_box(vec![1u8; BLOCK_BYTES]);
        // The peak only: other tests of this process may give memory back at the same time.
        assert!(resident_bytes_peak() >= BLOCK_BYTES as u64);
        drop(block);
    }

    #[test]
    fn cpu_time_grows_with_work() {
        let sum = |times: CpuTimes| times.user + times.system;
        let before = thread_times();
        let mut x = 1u64;
        // Until the clock of the thread has moved, however coarse it is; bounded by the work of some seconds.
        let moved = (0..10_000).any(|_| {
            for _ in 0..100_000 {
                x = std::hint::black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
            }
            sum(thread_times()) > sum(before)
        });
        assert!(moved);
        assert!(sum(process_times()) > Duration::ZERO);
        assert_eq!(duration(TimeVal::new(3, 250_000)), Duration::from_millis(3250));
    }

    #[test]
    fn nofile_is_raised_as_far_as_it_goes() {
        let attempts = |want, soft, hard, ceiling| nofile_attempts(want, soft, hard, ceiling).collect::<Vec<_>>();
        assert_eq!(attempts(1000, 1024, 4096, Some(1 << 20)), [] as [u64; 0], "enough already");
        assert_eq!(attempts(1024, 1024, 4096, None), [] as [u64; 0]);
        assert_eq!(attempts(10_032, 1024, 4096, Some(1 << 20)), [10_032, 10_032, 4096]);
        assert_eq!(attempts(1 << 30, 1024, 4096, Some(1 << 20)), [1 << 30, 1 << 20, 4096]);
        assert_eq!(attempts(1 << 30, 4096, 4096, None), [1 << 30]);
        assert_eq!(attempts(1 << 30, 4096, 8192, Some(4096)), [1 << 30, 8192]);
    }

    #[test]
    fn nofile_limit_in_force_is_reported() {
        // Never equal: another test of this process may raise it meanwhile.
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        assert!(raise_nofile(1) >= soft, "never lowered");
        let want = hard.min(soft + 1);
        let got = raise_nofile(want);
        assert!(got >= want && getrlimit(Resource::RLIMIT_NOFILE).unwrap().0 >= got);
    }

    #[test]
    fn clients_fit_the_limit() {
        let room = |maxclients, nofile| ClientRoom::within(maxclients, nofile).maxclients;
        assert_eq!(room(10_000, 10_032), 10_000);
        assert_eq!(room(10_000, 1 << 20), 10_000);
        assert_eq!(room(100_000_000, 20_000), 19_968, "as redis-server 7.0.15 under the same limit");
        assert_eq!(room(1, 32), 0);
        assert_eq!(room(1, 7), 0);
        assert_eq!(room(u32::MAX, u64::MAX), u32::MAX);
        assert_eq!(ClientRoom::within(100, 20_000).nofile_wanted, 132);
    }
}
