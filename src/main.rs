//! The server's program: reads the configuration, opens the listeners, and runs the workers.

use dolmen::acl::Acl;
use dolmen::base::clock::Clock;
use dolmen::base::{cpu, heap, log as logging, oom, rng, user};
use dolmen::cmd::aof;
use dolmen::cmd::ctx::Facts;
use dolmen::cmd::persistence;
use dolmen::config::{BindAddr, Config, Net, Start, parse_command_line};
use dolmen::exec::commands_of;
use dolmen::net::{
    Backend, Balance, Doorbell, Driver, EpollDriver, Listen, LocalAddr, Service, SocketConfig, Sockets, StackDriver,
    Stacked, Tun, UringDriver, Xdp, block_signals, xdp,
};
use dolmen::store::{self, Store, remove_draft};
use dolmen::worker::{MEMCACHE_SERVICE, METRICS_SERVICE, Worker, crew};
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

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
    let system = config.syslog_enabled.then(|| logging::SystemLog::new(&config.syslog_ident, config.syslog_facility));
    logging::init(config.loglevel, config.logfile.as_deref(), system)
        .map_err(|e| format!("cannot open the log file: {e}"))?;
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
    if config.memcached_database >= config.databases {
        return Err(format!(
            "memcached-database is {}, and there are {} databases",
            config.memcached_database, config.databases
        ));
    }
    commands_of(&config).map_err(|why| format!("rename-command: {why}"))?;
    for note in config.notes() {
        log::warn!("{note}");
    }
    if let Err(error) = oom::adjust(config.oom_score_adj, config.oom_score_values[0]) {
        log::warn!("Unable to write oom_score_adj: {error}");
    }
    match config.net.clone() {
        Net::Epoll => serve_over::<EpollDriver>(config, |_, _| Ok(())),
        Net::Uring => serve_over::<UringDriver>(config, |_, _| Ok(())),
        Net::Tun { interface, addresses } => serve_over::<StackDriver<Tun>>(config, |worker, backend| {
            attach_tun(worker, backend, &interface, &addresses)
        }),
        Net::Xdp { interface, queue } => {
            let mut attached = None;
            serve_over::<StackDriver<Xdp>>(config, move |worker, backend| {
                attach_xdp(worker, backend, &interface, queue, &mut attached)
            })
        }
    }
}

/// Serves over backends of one kind.
/// `attach` is given each backend when it listens.
fn serve_over<D: Driver + Send>(
    config: Config,
    mut attach: impl FnMut(usize, &mut Sockets<D>) -> Result<(), String>,
) -> Result<(), String> {
    let acl = dolmen::cmd::acl::start(&config)?;
    heap::return_large_buffers();
    let workers = config.worker_count();
    let cpus = config.worker_cpus(workers)?;
    // Before the first thread starts, or the signals would end the process there.
    block_signals().map_err(|e| format!("cannot block signals: {e}"))?;
    let mut backends = Vec::new();
    for worker in 0..workers {
        let settings = SocketConfig { spin_us: config.spin_us, ..SocketConfig::default() };
        let mut backend = Sockets::<D>::new(settings).map_err(|e| format!("cannot set up {}: {e}", D::NAME))?;
        match backends.first() {
            None => backend.listen(&listen(&config)),
            Some(first) => backend.listen_beside(first, &listen(&config)),
        }
        .map_err(|e| e.to_string())?;
        if worker == 0 && (config.memcached_port > 0 || config.memcached_unixsocket.is_some()) {
            backend.listen(&listen_memcache(&config)).map_err(|e| e.to_string())?;
        }
        if worker == 0 && config.metrics_port > 0 {
            backend.listen(&listen_metrics(&config)).map_err(|e| e.to_string())?;
        }
        if worker == 0 {
            backend.enable_signals().map_err(|e| format!("cannot receive signals: {e}"))?;
        }
        attach(worker, &mut backend)?;
        backends.push(backend);
    }
    let addresses = backends[0].local_addrs();
    if addresses.is_empty() {
        return Err("configured to not listen anywhere (port 0 and no unixsocket)".into());
    }
    if let Some(user) = &config.user {
        user::become_user(user)?;
    }
    let pidfile = config.pidfile.clone().map(PidFile::write);
    let facts = facts(&config, D::NAME, workers, &addresses);
    let now_ms = Clock::system().unix_ms();
    let store = Arc::new(Store::new(workers, now_ms / 1000));
    log::info!(
        "Dolmen {} is starting, PID: {}, {workers} worker{}, {} databases",
        env!("CARGO_PKG_VERSION"),
        std::process::id(),
        if workers == 1 { "" } else { "s" },
        config.databases
    );
    for address in &addresses {
        log::info!("Listening on {address}");
    }
    let rdb_path = persistence::rdb_path(&config);
    let log_folder = config.dir.join(&config.log.folder);
    let bells: Vec<_> = backends.iter().map(Sockets::doorbell).collect();
    store.log.on_progress(move || bells.iter().for_each(Doorbell::ring));
    if workers == 1 {
        let backend = backends.remove(0);
        let mut worker = Worker::new(backend, config, Clock::system(), rng::entropy(), dolmen_slab::Config::default())
            .map_err(|e| no_address_space(&e))?;
        worker.engine().facts = facts;
        worker.engine().acl = acl;
        worker.engine().store = Arc::clone(&store);
        worker.engine().saves_by_itself = true;
        pin(&cpus, 0)?;
        load(&store, &worker.engine().config, now_ms)?;
        log::info!("Ready to accept connections");
        worker.run().map_err(|e| no_events(&e))?;
    } else {
        serve_by(backends, &cpus, &store, &config, &facts, &acl)?;
    }
    if store.is_saving() {
        remove_draft(&rdb_path);
        remove_draft(&log_folder.join("base"));
    }
    if let Some(why) = store.fatal() {
        return Err(why);
    }
    if !store.log.finish(LOG_FINISH_MAX) {
        return Err("the last changes could not be written to the append-only file".into());
    }
    drop(pidfile);
    log::info!("Dolmen is now ready to exit, bye bye...");
    Ok(())
}

/// Has the first worker serve TCP over a TUN interface. It has one queue, so the others have the kernel's connections.
fn attach_tun(worker: usize, backend: &mut Stacked<Tun>, interface: &str, addresses: &[IpAddr]) -> Result<(), String> {
    if worker > 0 {
        return Ok(());
    }
    let addresses = match addresses {
        [] => Tun::peers(interface).map_err(|e| e.to_string())?,
        given => given.to_vec(),
    };
    let device = Tun::open(interface).map_err(|e| e.to_string())?;
    let mut services = Vec::new();
    for (listener, number) in backend.tcp_services() {
        // What is bound to other addresses only is not meant for this one; but the interface is there for the first service.
        if listener.ip().is_unspecified() || number == 0 {
            services
                .extend(addresses.iter().map(|ip| Service { address: SocketAddr::new(*ip, listener.port()), number }));
        }
    }
    if services.is_empty() {
        return Err(format!(
            "nothing to serve over {interface}: say our address, 'net tun:{interface}:10.7.0.2', and a port"
        ));
    }
    tell_services(&services, interface, "TUN");
    backend.attach(device, services, rng::entropy()).map_err(|e| e.to_string())
}

/// Has a worker serve a queue of an interface.
fn attach_xdp(
    worker: usize,
    backend: &mut Stacked<Xdp>,
    interface: &str,
    first_queue: u32,
    attached: &mut Option<Arc<xdp::Attached>>,
) -> Result<(), String> {
    let services = xdp::services(interface, &backend.tcp_services()).map_err(|e| e.to_string())?;
    let queue = first_queue + u32::try_from(worker).unwrap_or(0);
    if worker > 0 && queue >= xdp::queues(interface) {
        log::warn!("{interface} has no queue {queue}: worker {worker} serves only connections of the kernel");
        return Ok(());
    }
    if services.is_empty() {
        return Err(format!(
            "nothing to serve on {interface}: it must have an address that 'bind' names (or 'bind *'), and be there"
        ));
    }
    let attached = match attached {
        Some(attached) => attached,
        none => none.insert(Arc::new(xdp::Attached::new(interface, &services).map_err(|e| e.to_string())?)),
    };
    let device = Xdp::open(attached, queue).map_err(|e| e.to_string())?;
    tell_services(&services, interface, &format!("AF_XDP, {} mode, queue {queue}", device.mode()));
    backend.attach(device, services, rng::entropy()).map_err(|e| e.to_string())
}

fn tell_services(services: &[Service], interface: &str, how: &str) {
    for service in services {
        log::info!("Serving {} on {interface} ({how})", service.address);
    }
}

/// Serves by a worker for each backend, the first one on this thread.
fn serve_by<D: Driver + Send>(
    mut backends: Vec<Sockets<D>>,
    cpus: &[usize],
    store: &Arc<Store>,
    config: &Config,
    facts: &Facts,
    acl: &Acl,
) -> Result<(), String> {
    let balance = Balance::new(backends.len());
    for (worker, backend) in backends.iter_mut().enumerate() {
        backend.join(balance.seat(worker));
    }
    let bells: Vec<_> = backends.iter().map(Sockets::doorbell).collect();
    let memory = dolmen_slab::Config::default();
    let places =
        crew::places(&bells, &balance, store, config, rng::entropy(), &memory).map_err(|e| no_address_space(&e))?;
    load(store, config, facts.start_unix_ms)?;
    let run = |worker: usize, place, backend| {
        pin(cpus, worker)?;
        let mut worker =
            Worker::at(place, backend, config.clone(), Clock::system()).map_err(|e| no_address_space(&e))?;
        worker.engine().facts = facts.clone();
        worker.engine().acl = acl.clone();
        worker.engine().saves_by_itself = true;
        worker.run().map_err(|e| no_events(&e))
    };
    std::thread::scope(|scope| {
        let mut crew = backends.into_iter().zip(places).enumerate();
        let first = crew.next();
        let others: Vec<_> = crew
            .map(|(worker, (backend, place))| {
                let thread = std::thread::Builder::new().name(format!("worker {worker}"));
                thread.spawn_scoped(scope, move || run(worker, place, backend))
            })
            .collect::<Result<_, _>>()
            .map_err(|e| format!("cannot start a thread: {e}"))?;
        log::info!("Ready to accept connections");
        let mut result = first.map_or(Ok(()), |(worker, (backend, place))| run(worker, place, backend));
        for other in others {
            result = result.and(other.join().unwrap_or_else(|_| Err("a worker has panicked".into())));
        }
        result
    })
}

/// The file with the process id; it goes with the server.
struct PidFile(std::path::PathBuf);

impl PidFile {
    /// As in Redis, a server without its file is better than none.
    fn write(path: std::path::PathBuf) -> PidFile {
        if let Err(error) = std::fs::write(&path, format!("{}\n", std::process::id())) {
            log::warn!("cannot write the process id to {}: {error}", path.display());
        }
        PidFile(path)
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// How long the end of the server waits for the disk.
const LOG_FINISH_MAX: Duration = Duration::from_secs(60);

/// Begins to load the log of the last run, or its snapshot.
fn load(store: &Arc<Store>, config: &Config, now_ms: u64) -> Result<(), String> {
    if config.log.on {
        let files = aof::find_files(config)?;
        let plan = persistence::log_plan(config, now_ms, &files);
        store.log.set_files(files);
        store.set_flag(store::flag::LOGGED, true);
        return store::load::at_start(store, plan);
    }
    store::load::at_start(store, persistence::load_plan(config, now_ms, true))
}

fn pin(cpus: &[usize], worker: usize) -> Result<(), String> {
    match cpus.get(worker) {
        Some(cpu) => cpu::pin(*cpu).map_err(|e| format!("cannot pin worker {worker} to CPU {cpu}: {e}")),
        None => Ok(()),
    }
}

fn no_address_space(e: &std::io::Error) -> String {
    format!("cannot reserve address space: {e}")
}

fn no_events(e: &std::io::Error) -> String {
    format!("cannot wait for events: {e}")
}

fn facts(config: &Config, backend: &'static str, workers: usize, addresses: &[LocalAddr]) -> Facts {
    Facts {
        replication_id: (0..5).map(|_| format!("{:08x}", rng::entropy() >> 32)).collect(),
        run_id: (0..5).map(|_| format!("{:08x}", rng::entropy() >> 32)).collect(),
        start_unix_ms: Clock::system().unix_ms(),
        workers,
        backend,
        executable: std::env::current_exe().map(|p| p.display().to_string()).unwrap_or_default(),
        config_file: config.config_file.as_ref().map(|p| p.display().to_string()).unwrap_or_default(),
        tcp_port: addresses
            .iter()
            .find_map(|a| if let LocalAddr::Tcp(a) = a { Some(a.port()) } else { None })
            .unwrap_or(0),
        ..Facts::default()
    }
}

fn bind(addresses: &[BindAddr]) -> Vec<String> {
    addresses.iter().map(|b| format!("{}{}", if b.optional { "-" } else { "" }, b.host)).collect()
}

fn listen(config: &Config) -> Listen {
    Listen {
        bind: bind(&config.bind),
        port: (config.port > 0).then_some(config.port),
        backlog: config.tcp_backlog,
        tcp_keepalive_s: config.tcp_keepalive_s,
        unix_path: config.unixsocket.clone(),
        unix_perm: (config.unixsocketperm > 0).then_some(config.unixsocketperm),
        service: 0,
    }
}

/// Where figures are told by HTTP.
fn listen_metrics(config: &Config) -> Listen {
    Listen {
        bind: bind(&config.metrics_bind),
        port: Some(config.metrics_port),
        unix_path: None,
        unix_perm: None,
        service: METRICS_SERVICE,
        ..listen(config)
    }
}

/// Where memcached's protocol is spoken.
fn listen_memcache(config: &Config) -> Listen {
    Listen {
        port: (config.memcached_port > 0).then_some(config.memcached_port),
        unix_path: config.memcached_unixsocket.clone(),
        unix_perm: (config.memcached_unixsocketperm > 0).then_some(config.memcached_unixsocketperm),
        service: MEMCACHE_SERVICE,
        ..listen(config)
    }
}
