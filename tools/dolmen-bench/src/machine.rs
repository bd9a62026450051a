//! The machine and the processes on it, as /proc tells.

use std::fs;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::Pid;
use serde::Serialize;

/// Pins the calling thread; threads and processes that it starts inherit that.
pub fn pin_to(cpus: &[usize]) -> bool {
    let mut set = CpuSet::new();
    let known = cpus.iter().all(|&cpu| set.set(cpu).is_ok());
    known && sched_setaffinity(Pid::from_raw(0), &set).is_ok()
}

/// The CPUs that this process may use.
pub fn allowed_cpus() -> Vec<usize> {
    let set = sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
    (0..CpuSet::count()).filter(|&cpu| set.is_set(cpu).unwrap_or(false)).collect()
}

/// Raises the limit of open files, of this process and of those that it starts later, as far as it may be.
pub fn allow_open_files(count: u64) -> bool {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return false };
    soft >= count
        || setrlimit(Resource::RLIMIT_NOFILE, count, hard.max(count)).is_ok()
        || setrlimit(Resource::RLIMIT_NOFILE, count.min(hard), hard).is_ok() && hard >= count
}

/// Puts the calling thread before all others of its CPU, where that is allowed.
pub fn real_time() -> bool {
    let parameters = libc::sched_param { sched_priority: 10 };
    // SAFETY: the parameters are read during the call only; 0 means the calling thread.
    #[allow(unsafe_code)]
    let done = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) };
    done == 0
}

/// What a record has to tell of the machine.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    pub date: String,
    pub kernel: String,
    pub architecture: String,
    pub cpu: String,
    pub cpus: usize,
}

impl Machine {
    pub fn read() -> Machine {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_string();
        let cpuinfo = text("/proc/cpuinfo");
        let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        Machine {
            date: jiff::ZonedDateTime::now().strftime("%Y-%m-%d %H:%M").to_string(),
            kernel: format!("Linux {}", text("/proc/sys/kernel/osrelease")),
            architecture: std::env::consts::ARCH.into(),
            cpu: model.map_or("unknown CPU", |(_, model)| model).into(),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }

    pub fn line(&self) -> String {
        let Machine { date, kernel, architecture, cpu, cpus } = self;
        format!("{date}, {architecture}, {kernel}, {cpus} CPUs, {cpu}")
    }
}

/// What a process has used so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// CPU time of all threads.
    pub cpu_ns: u64,
    pub resident_bytes: u64,
    /// Context switches of all threads: it slept, it was put aside.
    pub voluntary: u64,
    pub involuntary: u64,
}

impl Usage {
    /// Of a process, or `None` if it is gone. Threads that have ended count for CPU time only if the kernel keeps no finer account.
    pub fn of(pid: u32) -> Option<Usage> {
        let mut usage = Usage::default();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let field = |text: &str, name: &str| {
            text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse::<u64>().ok())
        };
        usage.resident_bytes = field(&status, "VmRSS:")? * 1024;
        let mut exact = true;
        for task in fs::read_dir(format!("/proc/{pid}/task")).ok()? {
            let Ok(task) = task else { continue };
            let read = |name: &str| fs::read_to_string(task.path().join(name)).unwrap_or_default();
            match read("schedstat").split_whitespace().next().and_then(|text| text.parse::<u64>().ok()) {
                Some(ns) => usage.cpu_ns += ns,
                None => exact = false,
            }
            let status = read("status");
            usage.voluntary += field(&status, "voluntary_ctxt_switches:").unwrap_or(0);
            usage.involuntary += field(&status, "nonvoluntary_ctxt_switches:").unwrap_or(0);
        }
        if !exact {
            usage.cpu_ns = ticks(pid)? * 10_000_000;
        }
        Some(usage)
    }
}

/// User and system time in hundredths of a second, of kernels without schedstat.
fn ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program may hold anything, and ends at the last bracket.
    let fields: Vec<&str> = stat[stat.rfind(')')? + 1..].split_whitespace().collect();
    Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_accounted_for() {
        let before = Usage::of(std::process::id()).expect("this process");
        assert!(before.resident_bytes > 100_000);
        let until = before.cpu_ns + 20_000_000;
        while Usage::of(std::process::id()).expect("this process").cpu_ns < until {
            std::hint::black_box((0..10_000).sum::<u64>());
        }
        assert!(ticks(std::process::id()).is_some());
        assert!(Usage::of(u32::MAX).is_none());
        let machine = Machine::read();
        assert!(machine.kernel.len() > "Linux ".len() && machine.cpus > 0);
    }
}
