//! Several workers over one keyspace: what each is given before it starts on its thread.

use super::Worker;
use super::state::State;
use crate::acl::Acl;
use crate::base::clock::Clock;
use crate::base::rng::Rng;
use crate::base::sync::mailbox::Receiver;
use crate::cmd::client::Clients;
use crate::cmd::fleet::{Errand, Fleet};
use crate::config::Config;
use crate::db::{Keyspace, Shared};
use crate::exec::Engine;
use crate::net::{Backend, Balance, Doorbell};
use crate::pubsub::caching::Prefixes;
use crate::pubsub::{Exchange, Registry};
use crate::store::Store;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// The place of one worker among several; goes to the thread that it is to run on.
pub struct Place {
    keyspace: Arc<Keyspace<crate::base::sync::lock::SpinLock>>,
    fleet: Fleet,
    mail: Receiver<Errand>,
    balance: Arc<Balance>,
    last_client_id: Arc<AtomicU64>,
    registry: Arc<Registry>,
    prefixes: Arc<Prefixes>,
    acl: Acl,
    store: Arc<Store>,
    seed: u64,
}

/// Places over a new keyspace, one for each of `bells`, which wake the workers.
///
/// # Errors
/// If the address space for the data cannot be reserved.
pub fn places(
    bells: &[Doorbell],
    balance: &Arc<Balance>,
    store: &Arc<Store>,
    config: &Config,
    seed: u64,
    memory: &dolmen_slab::Config,
) -> io::Result<Vec<Place>> {
    let mut rng = Rng::seeded(seed);
    let keyspace = Arc::new(Keyspace::shared(bells.len(), config.databases as usize, rng.next_u64(), memory)?);
    let all = bells.to_vec();
    // Clients may wait on any worker for names that have become free.
    keyspace.on_release(move || all.iter().for_each(Doorbell::ring));
    let last_client_id = Arc::<AtomicU64>::default();
    let (registry, prefixes) = (Arc::<Registry>::default(), Arc::<Prefixes>::default());
    let acl = crate::cmd::acl::with_password(&config.requirepass);
    let rings = bells.iter().cloned().map(|bell| move || bell.ring()).collect();
    let place = |(fleet, mail)| Place {
        keyspace: Arc::clone(&keyspace),
        fleet,
        mail,
        balance: Arc::clone(balance),
        last_client_id: Arc::clone(&last_client_id),
        registry: Arc::clone(&registry),
        prefixes: Arc::clone(&prefixes),
        acl: acl.clone(),
        store: Arc::clone(store),
        seed: rng.next_u64(),
    };
    Ok(Fleet::crew(rings).into_iter().map(place).collect())
}

impl<B: Backend> Worker<B, Shared> {
    /// The worker of a place, on the thread that calls this. The backend listens already, and has its seat.
    ///
    /// # Errors
    /// If address space cannot be reserved.
    pub fn at(place: Place, backend: B, config: Config, clock: Clock) -> io::Result<Worker<B, Shared>> {
        let Place { keyspace, fleet, mail, balance, last_client_id, registry, prefixes, acl, store, seed } = place;
        let way = Shared::new(keyspace, fleet.me(), fleet.workers())?;
        let mut engine = Engine::over(way, config, clock, Rng::seeded(seed));
        engine.pubsub = Exchange::new(registry, prefixes, fleet.me(), fleet.workers());
        engine.acl = acl;
        engine.fleet = fleet;
        engine.store = store;
        engine.clients = Clients::counted_by(last_client_id);
        let mut state = State::new(engine);
        state.join(mail, balance);
        Ok(Worker { backend, state })
    }
}
