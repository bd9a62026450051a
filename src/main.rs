//! The server's program: reads the configuration, opens the listeners, and runs the worker.

use dolmen::base::clock::Clock;
use dolmen::base::{cpu, heap, log as logging, rng};
use dolmen::config::{Config, Start, parse_command_line};
use dolmen::net::{Epoll, EpollConfig, Listen, LocalAddr};
use dolmen::worker::Worker;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    match parse_command_line(std::env::args_os()) {
        Ok(Start::Print(text)) => {
            // Whoever closes the pipe has read enough.
            let _ = write!(std::io::stdout(), "{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
        Ok(Start::Serve(config)) => {
            let log_is_shown = config.logfile.is_none();
            match serve(*config) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    log::error!("{error}");
                    if !log_is_shown || !log::log_enabled!(log::Level::Error) {
                        eprintln!("dolmen: {error}");
                    }
                    ExitCode::FAILURE
                }
            }
        }
    }
}

fn serve(mut config: Config) -> Result<(), String> {
    std::env::set_current_dir(&config.dir).map_err(|e| format!("cannot change to {}: {e}", config.dir.display()))?;
    logging::init(config.loglevel, config.logfile.as_deref()).map_err(|e| format!("cannot open the log file: {e}"))?;
    let room = cpu::ClientRoom::make(config.maxclients);
    if room.maxclients < config.maxclients {
        log::warn!(
            "The limit of open files is {} and {} would be needed: maxclients has been reduced from {} to {}",
            room.nofile,
            room.nofile_wanted,
            config.maxclients,
            room.maxclients
        );
        config.maxclients = room.maxclients;
    }
    if config.maxclients == 0 {
        return Err(format!("the limit of open files is {}, which leaves none for clients", room.nofile));
    }
    for note in config.notes() {
        log::warn!("{note}");
    }
    heap::return_large_buffers();
    let mut backend = Epoll::new(EpollConfig { spin_us: config.spin_us, ..EpollConfig::default() })
        .map_err(|e| format!("cannot set up epoll: {e}"))?;
    backend.enable_signals().map_err(|e| format!("cannot receive signals: {e}"))?;
    backend.listen(&listen(&config)).map_err(|e| e.to_string())?;
    let addresses = backend.local_addrs();
    if addresses.is_empty() {
        return Err("configured to not listen anywhere (port 0 and no unixsocket)".into());
    }

    let workers = config.worker_count();
    let cpus = config.worker_cpus(workers)?;
    let (config_file, databases) = (config.config_file.clone(), config.databases);
    let mut worker = Worker::new(backend, config, Clock::system(), rng::entropy(), dolmen_slab::Config::default())
        .map_err(|e| format!("cannot reserve address space: {e}"))?;
    let facts = &mut worker.engine().facts;
    facts.run_id = (0..5).map(|_| format!("{:08x}", rng::entropy() >> 32)).collect();
    facts.workers = workers;
    facts.backend = "epoll";
    facts.executable = std::env::current_exe().map(|p| p.display().to_string()).unwrap_or_default();
    facts.config_file = config_file.map(|p| p.display().to_string()).unwrap_or_default();
    facts.tcp_port =
        addresses.iter().find_map(|a| if let LocalAddr::Tcp(a) = a { Some(a.port()) } else { None }).unwrap_or(0);

    log::info!(
        "Dolmen {} is starting: pid {}, {workers} worker{}, {databases} databases",
        env!("CARGO_PKG_VERSION"),
        std::process::id(),
        if workers == 1 { "" } else { "s" }
    );
    for address in &addresses {
        log::info!("Listening on {address}");
    }
    if let Some(&cpu) = cpus.first() {
        cpu::pin(cpu).map_err(|e| format!("cpu-list: cannot run on CPU {cpu}: {e}"))?;
    }
    log::info!("Ready to accept connections");
    worker.run().map_err(|e| format!("cannot wait for events: {e}"))
}

fn listen(config: &Config) -> Listen {
    Listen {
        bind: config.bind.iter().map(|b| format!("{}{}", if b.optional { "-" } else { "" }, b.host)).collect(),
        port: (config.port > 0).then_some(config.port),
        backlog: config.tcp_backlog,
        tcp_keepalive_s: config.tcp_keepalive_s,
        unix_path: config.unixsocket.clone(),
        unix_perm: (config.unixsocketperm > 0).then_some(config.unixsocketperm),
    }
}
