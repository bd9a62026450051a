//! A server that is measured: started on a port of its own, pinned, in an empty folder, asked for what it uses, and ended.

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::client::{Access, Client, Failure, Target};
use crate::machine::{self, Usage};
use crate::wire::Protocol;

/// A server as it is named on the command line.
#[derive(Clone, Debug, PartialEq)]
pub struct Named {
    pub name: String,
    pub command: String,
    pub protocol: Protocol,
}

/// The name under which this tool's own null server goes.
pub const FLOOR: &str = "floor";

impl Named {
    /// `NAME=COMMAND`, or a name that is known.
    pub fn parse(text: &str, value_bytes: usize) -> Result<Named, String> {
        let (name, command) = match text.split_once('=') {
            Some((name, command)) => (name.to_string(), command.to_string()),
            None => (text.to_string(), known(text, value_bytes)?),
        };
        let speaks_memcached = name == "memcached" || name.starts_with("mc:");
        let protocol = if speaks_memcached { Protocol::Memcached } else { Protocol::Resp2 };
        let name = name.trim_start_matches("mc:").to_string();
        if !command.contains("{port}") {
            return Err(format!("{name}: the command needs {{port}} where the port belongs"));
        }
        Ok(Named { name, command, protocol })
    }

    /// Those that are asked for, or the floor and what is installed.
    pub fn all(texts: &[String], value_bytes: usize) -> Result<Vec<Named>, String> {
        if !texts.is_empty() {
            return texts.iter().map(|text| Named::parse(text, value_bytes)).collect();
        }
        let mut all = vec![Named::parse(FLOOR, value_bytes)?];
        if installed("redis-server") {
            all.push(Named::parse("redis-server", value_bytes)?);
        }
        Ok(all)
    }

    /// What the program says it is; no paths of this machine.
    pub fn version(&self) -> String {
        if self.name == FLOOR {
            return format!("dolmen-bench null {}", env!("CARGO_PKG_VERSION"));
        }
        let words = shell_words::split(&self.command).unwrap_or_default();
        let Some(program) = words.first() else { return String::new() };
        let told = Command::new(program).arg("--version").stdin(Stdio::null()).output().ok();
        let told = told.filter(|output| output.status.success()).map(|output| {
            let text = if output.stdout.is_empty() { output.stderr } else { output.stdout };
            String::from_utf8_lossy(&text).lines().next().unwrap_or_default().to_string()
        });
        let base = program.rsplit('/').next().unwrap_or_default().to_string();
        told.filter(|line| !line.is_empty()).unwrap_or(base)
    }
}

fn known(name: &str, value_bytes: usize) -> Result<String, String> {
    match name {
        "floor" => {
            let own = std::env::current_exe().map_err(|error| error.to_string())?;
            let own = shell_words::quote(&own.to_string_lossy()).into_owned();
            Ok(format!("{own} null --port {{port}} --value-bytes {value_bytes}"))
        }
        "redis-server" | "redis" | "valkey-server" | "valkey" => {
            let program = if name.starts_with("redis") { "redis-server" } else { "valkey-server" };
            // A folder of its own, so that BGSAVE and the like stay in it.
            Ok(format!("{program} --port {{port}} --save '' --appendonly no --dir {{dir}}"))
        }
        "memcached" => Ok("memcached -p {port} -U 0 -l 127.0.0.1 -t 1 -m 8192 -c 12000 -u nobody".into()),
        _ => Err(format!("{name}: NAME=COMMAND, or floor, redis-server, valkey-server, memcached")),
    }
}

pub fn installed(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|folder| folder.join(program).is_file())
}

/// A running server; it is ended when this goes.
pub struct Server {
    pub name: String,
    pub access: Access,
    child: Child,
    folder: PathBuf,
}

impl Server {
    /// Starts it on these CPUs, and waits until it answers.
    pub fn start(named: &Named, cpus: &[usize]) -> Result<Server, String> {
        let error = |what: &str, why: String| format!("{}: {what}: {why}", named.name);
        let port = free_port().map_err(|why| error("no free port", why.to_string()))?;
        let unique = format!("dolmen-bench-{}-{port}", std::process::id());
        let folder = std::env::temp_dir().join(unique);
        fs::create_dir_all(&folder).map_err(|why| error("no folder", why.to_string()))?;
        let line = named.command.replace("{port}", &port.to_string()).replace("{dir}", &folder.to_string_lossy());
        let words = shell_words::split(&line).map_err(|why| error(&line, why.to_string()))?;
        let (program, arguments) = words.split_first().ok_or_else(|| error("no command", line.clone()))?;
        let log = File::create(folder.join("output")).map_err(|why| error("no log", why.to_string()))?;
        let log_too = log.try_clone().map_err(|why| error("no log", why.to_string()))?;
        // It inherits the CPUs of the thread that starts it.
        let own = machine::allowed_cpus();
        if !machine::pin_to(cpus) {
            return Err(format!("{}: there are not the CPUs {cpus:?}", named.name));
        }
        let spawned = Command::new(program)
            .args(arguments)
            .current_dir(&folder)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(log_too)
            .process_group(0)
            .spawn();
        machine::pin_to(&own);
        let child = spawned.map_err(|why| error(program, why.to_string()))?;
        let access = Access {
            target: Target::Tcp("127.0.0.1".into(), port),
            protocol: named.protocol,
            user: None,
            password: None,
            database: 0,
            timeout: Duration::from_secs(60),
        };
        let mut server = Server { name: named.name.clone(), access, child, folder };
        server.wait_until_it_answers().map_err(|why| {
            let output = fs::read_to_string(server.folder.join("output")).unwrap_or_default();
            let last: Vec<&str> = output.lines().rev().take(5).collect();
            error("it did not start", format!("{why}\n{}", last.into_iter().rev().collect::<Vec<_>>().join("\n")))
        })?;
        Ok(server)
    }

    fn wait_until_it_answers(&mut self) -> Result<(), String> {
        let began = Instant::now();
        loop {
            let failure = match Client::open(&self.access) {
                Ok(_) => return Ok(()),
                Err(failure) => failure,
            };
            let loading = matches!(&failure, Failure::Refused { said, .. } if said.starts_with("LOADING"));
            let early = matches!(failure, Failure::NoServer { .. } | Failure::Closed(_));
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("it has ended ({status})"));
            }
            if !(early || loading) || began.elapsed() > Duration::from_secs(60) {
                return Err(failure.to_string());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn client(&self) -> Result<Client, String> {
        Client::open(&self.access).map_err(|failure| format!("{}: {failure}", self.name))
    }

    pub fn usage(&self) -> Result<Usage, String> {
        Usage::of(self.child.id()).ok_or_else(|| format!("{} has ended", self.name))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let group = Pid::from_raw(self.child.id() as i32);
        // It may be gone already; then there is nobody to signal.
        let _ = killpg(group, Signal::SIGTERM);
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(5) {
            if !matches!(self.child.try_wait(), Ok(None)) {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = killpg(group, Signal::SIGKILL);
            let _ = self.child.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A port that was free a moment ago.
fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// Ends with an error if servers and client would share a CPU.
pub fn check_cpus(servers: &[usize], client: &[usize]) -> Result<(), String> {
    let allowed = machine::allowed_cpus();
    if let Some(cpu) = servers.iter().chain(client).find(|cpu| !allowed.contains(cpu)) {
        return Err(format!("there is no CPU {cpu} here: --server-cpus, --client-cpus"));
    }
    if servers.iter().any(|cpu| client.contains(cpu)) {
        return Err("servers and client need CPUs of their own: --server-cpus, --client-cpus".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_by_name_and_command() {
        let named = Named::parse("a=b --port {port} x=y", 3).expect("a server");
        assert_eq!((named.name.as_str(), named.command.as_str()), ("a", "b --port {port} x=y"));
        assert_eq!(
            Named::parse("mc:m=x {port}", 3).map(|n| (n.name, n.protocol)),
            Ok(("m".into(), Protocol::Memcached))
        );
        assert!(
            Named::parse("floor", 8).is_ok_and(|floor| floor.command.ends_with("null --port {port} --value-bytes 8"))
        );
        assert!(Named::parse("a=b", 3).is_err());
        assert!(Named::parse("unheard-of", 3).is_err());
    }

    #[test]
    fn cpus_are_not_shared() {
        let cpu = machine::allowed_cpus()[0];
        assert!(check_cpus(&[cpu], &[cpu]).is_err());
        assert!(check_cpus(&[4095], &[cpu]).is_err());
    }
}
