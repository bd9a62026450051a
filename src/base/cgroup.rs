//! What control groups grant this process, of version 1 and 2: of CPU time, that is, how many CPUs it could keep busy, and of memory.
//!
//! It reads where the kernel says the files are (`/proc/self/cgroup`, `/proc/self/mountinfo`). Groups are nested, and each may have a
//! limit: the smallest on the path from the process's own group up to the mount counts. Without files, or without a limit, there is none.
//! Formats: cgroups(7), proc(5), and the kernel's documentation of `cpu.max` and `cpu.cfs_quota_us`, `memory.max` and `memory.limit_in_bytes`.
use std::path::{Path, PathBuf};

/// CPUs that the quota is worth, rounded up (a part of a CPU wants a thread, too), at least 1; `None`: no quota.
pub fn quota_cpus() -> Option<usize> {
    of_this_process("cpu", &cpus_of)
}

/// Bytes of memory that the group may use; `None`: as much as there is.
pub fn memory_bytes() -> Option<u64> {
    of_this_process("memory", &memory_of)
}

/// Where a group's files lie, of which version, and how they are read: what the group itself grants.
type Grant<'g, T> = &'g dyn Fn(&Path, bool, Read<'_>) -> Option<T>;
/// The text of a file, if there is such a file.
type Read<'r> = &'r dyn Fn(&Path) -> Option<String>;

fn of_this_process<T: Ord>(controller: &str, grant: Grant<'_, T>) -> Option<T> {
    let text = |path: &Path| std::fs::read_to_string(path).ok();
    let groups = text(Path::new("/proc/self/cgroup"))?;
    let mounts = text(Path::new("/proc/self/mountinfo"))?;
    smallest(controller, grant, &groups, &mounts, &text)
}

/// The smallest that any of the groups grants.
fn smallest<T: Ord>(controller: &str, grant: Grant<'_, T>, groups: &str, mounts: &str, read: Read<'_>) -> Option<T> {
    let groups = groups.lines().filter_map(|line| Group::parse(controller, line, mounts));
    groups.filter_map(|group| group.smallest(grant, read)).min()
}

/// A group of this process that can have a limit.
#[derive(Debug, PartialEq, Eq)]
struct Group {
    unified: bool,
    mount: PathBuf,
    directory: PathBuf,
}

impl Group {
    /// From a line `number:controllers:path` of `/proc/self/cgroup`. A number 0 without controllers is version 2.
    fn parse(controller: &str, line: &str, mounts: &str) -> Option<Group> {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let unified = controllers.is_empty();
        if !unified && !controllers.split(',').any(|one| one == controller) {
            return None;
        }
        let (root, mount) = mounts.lines().find_map(|line| mount_of(controller, line, unified))?;
        // A container may see its own group mounted, and not those above it. A path outside of what is mounted: the mount is all we see.
        let inside = Path::new(path).strip_prefix(&root).unwrap_or(Path::new(""));
        let inside = if inside.components().all(|part| matches!(part, std::path::Component::Normal(_))) {
            inside
        } else {
            Path::new("")
        };
        let directory = mount.join(inside);
        Some(Group { unified, mount, directory })
    }

    fn smallest<T: Ord>(&self, grant: Grant<'_, T>, read: Read<'_>) -> Option<T> {
        self.directory
            .ancestors()
            .take_while(|directory| directory.starts_with(&self.mount))
            .filter_map(|directory| grant(directory, self.unified, read))
            .min()
    }
}

fn cpus_of(directory: &Path, unified: bool, read: Read<'_>) -> Option<usize> {
    if unified {
        of_version_2(&read(&directory.join("cpu.max"))?)
    } else {
        of_version_1(&read(&directory.join("cpu.cfs_quota_us"))?, &read(&directory.join("cpu.cfs_period_us"))?)
    }
}

/// A number of bytes, or `max`. Version 1 says that there is no limit by a number that no machine has.
fn memory_of(directory: &Path, unified: bool, read: Read<'_>) -> Option<u64> {
    const NO_LIMIT_BYTES: u64 = 1 << 60;
    let file = if unified { "memory.max" } else { "memory.limit_in_bytes" };
    read(&directory.join(file))?.trim_ascii().parse().ok().filter(|bytes| *bytes < NO_LIMIT_BYTES)
}

/// Root within the hierarchy and mount point of a line of `mountinfo`, if it is that of version 2, or of a controller of version 1:
/// `36 35 98:0 /root /mount options [optional]... - type source options`.
fn mount_of(controller: &str, line: &str, unified: bool) -> Option<(PathBuf, PathBuf)> {
    let (before, after) = line.split_once(" - ")?;
    let mut after = after.split(' ');
    let (kind, options) = (after.next()?, after.nth(1)?);
    let fits =
        if unified { kind == "cgroup2" } else { kind == "cgroup" && options.split(',').any(|one| one == controller) };
    let mut fields = before.split(' ').skip(3);
    let (root, mount) = (fields.next()?, fields.next()?);
    fits.then(|| (unescaped(root), unescaped(mount)))
}

/// Blanks, tabs, line ends and backslashes stand there as `\040` and so on.
fn unescaped(field: &str) -> PathBuf {
    let mut text = String::with_capacity(field.len());
    let mut rest = field;
    while let Some((before, after)) = rest.split_once('\\') {
        text.push_str(before);
        match after.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()).filter(u8::is_ascii) {
            Some(byte) => {
                text.push(char::from(byte));
                rest = &after[3..];
            }
            None => {
                text.push('\\');
                rest = after;
            }
        }
    }
    text.push_str(rest);
    text.into()
}

/// `cpu.max`: `quota period` in microseconds, or `max period`.
fn of_version_2(text: &str) -> Option<usize> {
    let mut fields = text.split_ascii_whitespace();
    cpus(fields.next()?, fields.next()?)
}

/// `cpu.cfs_quota_us`, -1 for none, and `cpu.cfs_period_us`.
fn of_version_1(quota: &str, period: &str) -> Option<usize> {
    cpus(quota.trim_ascii(), period.trim_ascii())
}

fn cpus(quota: &str, period: &str) -> Option<usize> {
    let (quota, period) = (quota.parse::<u64>().ok()?, period.parse::<u64>().ok().filter(|&period| period > 0)?);
    Some(usize::try_from(quota.div_ceil(period)).unwrap_or(usize::MAX).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const V2: &str = "24 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
                      35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
    const V1: &str = "32 24 0:26 / /sys/fs/cgroup ro shared:8 - tmpfs tmpfs ro,mode=755\n\
                      33 32 0:27 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n\
                      36 32 0:30 / /sys/fs/cgroup/cpu,cpuacct rw shared:12 - cgroup cgroup rw,cpu,cpuacct\n\
                      37 32 0:31 / /sys/fs/cgroup/cpuset rw shared:13 - cgroup cgroup rw,cpuset\n";

    fn quota(groups: &str, mounts: &str, files: &[(&str, &str)]) -> Option<usize> {
        smallest("cpu", &cpus_of, groups, mounts, &|path| {
            files.iter().find(|(name, _)| Path::new(name) == path).map(|(_, text)| (*text).to_owned())
        })
    }

    #[test]
    fn a_quota_is_rounded_up() {
        for (text, want) in [
            ("max 100000\n", None),
            ("100000 100000\n", Some(1)),
            ("150000 100000\n", Some(2)),
            ("200000 100000\n", Some(2)),
            ("10000 100000\n", Some(1)),
            ("25000 50000\n", Some(1)),
            ("1600000 100000", Some(16)),
            ("", None),
            ("max", None),
            ("100000", None),
            ("x 100000", None),
            ("100000 0", None),
        ] {
            assert_eq!(quota("0::/a\n", V2, &[("/sys/fs/cgroup/a/cpu.max", text)]), want, "{text:?}");
        }
    }

    #[test]
    fn version_2_takes_the_smallest_on_the_path() {
        let files = [
            ("/sys/fs/cgroup/user.slice/a.scope/cpu.max", "max 100000"),
            ("/sys/fs/cgroup/user.slice/cpu.max", "300000 100000"),
            ("/sys/fs/cgroup/other/cpu.max", "100000 100000"),
            ("/sys/fs/cpu.max", "100000 100000"),
        ];
        assert_eq!(quota("0::/user.slice/a.scope\n", V2, &files), Some(3));
        assert_eq!(quota("0::/user.slice/a.scope/b/c\n", V2, &files), Some(3));
        assert_eq!(quota("0::/\n", V2, &files), None, "above the mount nothing counts");
        assert_eq!(quota("0::/elsewhere\n", V2, &files), None);
        let inner = [("/sys/fs/cgroup/a/cpu.max", "800000 100000"), ("/sys/fs/cgroup/a/b/cpu.max", "200000 100000")];
        assert_eq!(quota("0::/a/b\n", V2, &inner), Some(2));
    }

    #[test]
    fn version_1_has_two_files() {
        let groups =
            "12:cpuset:/\n11:memory:/docker/1\n4:cpu,cpuacct:/docker/1\n1:name=systemd:/docker/1\n0::/docker/1\n";
        let base = "/sys/fs/cgroup/cpu,cpuacct";
        let with = |quota_us: &str| {
            let inner = format!("{base}/docker/1");
            let names = [format!("{inner}/cpu.cfs_quota_us"), format!("{inner}/cpu.cfs_period_us")];
            let outer = [format!("{base}/docker/cpu.cfs_quota_us"), format!("{base}/docker/cpu.cfs_period_us")];
            let files =
                [(&*names[0], quota_us), (&*names[1], "100000\n"), (&*outer[0], "400000\n"), (&*outer[1], "100000\n")];
            quota(groups, V1, &files)
        };
        assert_eq!(with("250000\n"), Some(3));
        assert_eq!(with("-1\n"), Some(4));
        assert_eq!(with("900000\n"), Some(4));
        assert_eq!(quota(groups, V1, &[]), None);
        assert_eq!(quota(groups, "", &[]), None);
    }

    #[test]
    fn a_container_sees_its_own_group_only() {
        // The host's path, of which the group's root is mounted.
        let mounts = "36 32 0:30 /docker/1 /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu,cpuacct\n";
        let files =
            [("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n"), ("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")];
        assert_eq!(quota("4:cpu,cpuacct:/docker/1\n", mounts, &files), Some(1));
        assert_eq!(quota("4:cpuacct,cpu:/docker/1/inner\n", mounts, &files), Some(1));
        // A process that was moved above the root of its namespace.
        assert_eq!(quota("0::/../x\n", V2, &[("/sys/fs/cgroup/cpu.max", "200000 100000")]), Some(2));
        assert_eq!(quota("0::/a/../../x\n", V2, &[("/sys/fs/cgroup/cpu.max", "200000 100000")]), Some(2));
    }

    #[test]
    fn places_with_blanks_are_escaped() {
        let mounts = "35 24 0:30 / /my\\040groups\\134x rw - cgroup2 cgroup2 rw\n";
        assert_eq!(quota("0::/a:b\n", mounts, &[("/my groups\\x/a:b/cpu.max", "100000 50000")]), Some(2));
        assert_eq!(unescaped("a\\04"), Path::new("a\\04"));
        assert_eq!(unescaped("\\\u{e4}\u{e4}x"), Path::new("\\\u{e4}\u{e4}x"));
    }

    #[test]
    fn memory_is_limited_likewise() {
        let limit = |groups, mounts, name: &str, text: &str| {
            smallest("memory", &memory_of, groups, mounts, &|path| (path == Path::new(name)).then(|| text.to_owned()))
        };
        assert_eq!(limit("0::/a\n", V2, "/sys/fs/cgroup/a/memory.max", "1073741824\n"), Some(1 << 30));
        assert_eq!(limit("0::/a\n", V2, "/sys/fs/cgroup/a/memory.max", "max\n"), None);
        let file = "/sys/fs/cgroup/memory/memory.limit_in_bytes";
        assert_eq!(limit("4:memory:/\n2:cpu:/\n", V1, file, "4096\n"), Some(4096));
        assert_eq!(limit("4:memory:/\n", V1, file, "9223372036854771712\n"), None);
    }

    #[test]
    fn of_this_one() {
        assert!(quota_cpus().is_none_or(|cpus| cpus > 0));
        assert!(memory_bytes().is_none_or(|bytes| bytes > 0));
    }
}
