//! Who may do what: users, their passwords, and the commands, keys and channels that each may use. State only: connections, rows of commands and
//! files are unknown here. A command is a number of the [`Catalogue`], made by whoever knows the commands.
//!
//! ```text
//!  user ─┬─ on or off, passwords (SHA-256 of each), or none needed
//!        ├─ root: what its rules outside of parentheses allow       ┐ Permissions: commands (a bit each, first arguments),
//!        └─ selectors: what those in a pair of parentheses allow    ┘ patterns of keys to read and to write, of channels
//! ```
//! A command is allowed if one of these permissions allows all of it.
//!
//! **Several workers.** The users are one immutable tree that all share. A change makes the next one, under a lock; each worker then adopts it and
//! looks at its clients. So checking takes no lock, and a command is checked against one state of its user.

mod catalogue;
mod list;
mod log;
mod permissions;
mod user;

pub use catalogue::{Catalogue, Entry};
pub use list::{LoadError, Users};
pub use log::{Context, Denial, Log};
pub use permissions::{Channels, Denied, KeyUse, Permissions, Reason, Request};
pub use user::{RuleError, User, digest, hex};

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The name of the user that a connection is until it says otherwise.
pub const DEFAULT: &[u8] = b"default";

/// The users, as one worker sees them.
#[derive(Clone)]
pub struct Acl {
    pub catalogue: Arc<Catalogue>,
    users: Arc<Users>,
    shared: Arc<Shared>,
}

struct Shared {
    latest: Mutex<Arc<Users>>,
    log: Mutex<Log>,
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Acl {
    #[must_use]
    pub fn new(catalogue: Arc<Catalogue>, users: Users) -> Acl {
        let users = Arc::new(users);
        let shared = Shared { latest: Mutex::new(Arc::clone(&users)), log: Mutex::new(Log::default()) };
        Acl { catalogue, users, shared: Arc::new(shared) }
    }

    /// The users as this worker has adopted them last.
    #[must_use]
    pub fn users(&self) -> &Arc<Users> {
        &self.users
    }

    /// The users as whoever has changed them last has left them.
    #[must_use]
    pub fn latest(&self) -> Arc<Users> {
        Arc::clone(&locked(&self.shared.latest))
    }

    /// Changes the users, or not, if `change` fails. Each worker is to adopt them.
    ///
    /// # Errors
    /// That of `change`.
    pub fn change<T, E>(&self, change: impl FnOnce(&mut Users) -> Result<T, E>) -> Result<T, E> {
        let mut latest = locked(&self.shared.latest);
        let mut next = Users::clone(&latest);
        let done = change(&mut next)?;
        *latest = Arc::new(next);
        Ok(done)
    }

    /// Makes the latest users this worker's.
    pub fn adopt(&mut self) {
        self.users = self.latest();
    }

    /// What was denied, to clients of any worker.
    pub fn log(&self) -> MutexGuard<'_, Log> {
        locked(&self.shared.log)
    }
}
