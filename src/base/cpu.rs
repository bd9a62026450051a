//! What the operating system grants this process and what it has used: CPUs, memory, CPU time, open files.
//!
//! Readings, and the one limit worth raising. Nothing here fails: a reading that cannot be had (no `/proc`) is 0, a limit that cannot
//! be raised stays.

use std::num::NonZero;
use std::time::Duration;

use nix::sched::{CpuSet, sched_getaffinity};
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use nix::sys::time::TimeVal;
use nix::unistd::{Pid, SysconfVar, sysconf};

/// CPUs of the calling thread's affinity mask, ascending; empty if the machine has more than a mask of the C library can name.
pub fn affinity() -> Vec<usize> {
    let Ok(mask) = sched_getaffinity(Pid::from_raw(0)) else { return Vec::new() };
    (0..CpuSet::count()).filter(|&cpu| mask.is_set(cpu) == Ok(true)).collect()
}

/// CPUs that this process may keep busy: those of the affinity mask, or fewer if a cgroup quota says so. At least 1.
pub fn usable_cpus() -> usize {
    // The standard library reads the mask and the quotas of both versions of cgroups.
    let granted = std::thread::available_parallelism().map_or(1, NonZero::get);
    match affinity().len() {
        0 => granted,
        in_mask => granted.min(in_mask),
    }
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
            nix::sched::sched_setaffinity(Pid::from_raw(0), &mask).unwrap();
            (cpu, affinity(), usable_cpus())
        });
        let (cpu, mask, usable) = one.join().unwrap();
        assert_eq!((mask, usable), (vec![cpu], 1));
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
