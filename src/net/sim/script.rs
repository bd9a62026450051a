//! What a script can do: with clients, with the world around the server, and with time.
use super::wire::{Client, Event};
use super::{ClientId, ClientState, Sim, SimClock};
use crate::net::Doorbell;
use std::time::Duration;

impl Sim {
    /// A new client; the server sees it in a later turn.
    pub fn connect(&mut self) -> ClientId {
        let id = self.clients.len();
        let mut client = Client::new();
        if self.listening {
            let at = self.clock.now_ns() + self.delay();
            client.last_arrival_ns = at;
            self.schedule.push(at, Event::Syn(id));
        } else {
            client.state = ClientState::Reset;
        }
        self.clients.push(client);
        ClientId(id)
    }

    /// The client sends `bytes`; they arrive later, in one piece or several.
    pub fn send(&mut self, client: ClientId, bytes: &[u8]) {
        if bytes.is_empty() || !self.clients[client.0].can_write() {
            return;
        }
        if self.rng.permille(self.faults.reset_permille) {
            return self.break_up(client.0);
        }
        let at = self.arrival(client.0);
        self.clients[client.0].sent_bytes += bytes.len() as u64;
        self.schedule.push(at, Event::Segment(client.0, bytes.into()));
    }

    /// What the client has received since the last call. Bytes arrive in `poll` and `flush`.
    pub fn received(&mut self, client: ClientId) -> Vec<u8> {
        std::mem::take(&mut self.clients[client.0].received)
    }

    pub fn state(&self, client: ClientId) -> ClientState {
        self.clients[client.0].state
    }

    /// The client sends no more, but reads on.
    pub fn close_write(&mut self, client: ClientId) {
        if self.clients[client.0].can_write() {
            self.clients[client.0].write_closed = true;
            let at = self.arrival(client.0);
            self.schedule.push(at, Event::Fin(client.0));
        }
    }

    /// The client closes: what it sent arrives, what comes back is answered with a reset.
    pub fn disconnect(&mut self, client: ClientId) {
        self.close_write(client);
        let c = &mut self.clients[client.0];
        if matches!(c.state, ClientState::Connecting | ClientState::Open | ClientState::Eof) {
            c.state = ClientState::Closed;
            let unread = !c.wire.is_empty();
            c.wire.clear();
            if unread {
                let at = self.arrival(client.0);
                self.schedule.push(at, Event::Rst(client.0));
            }
        }
    }

    /// The client resets the connection.
    pub fn reset(&mut self, client: ClientId) {
        if matches!(self.clients[client.0].state, ClientState::Connecting | ClientState::Open) {
            self.break_up(client.0);
            self.clients[client.0].state = ClientState::Closed;
        }
    }

    /// The client takes nothing more from its wire, which fills.
    pub fn stop_reading(&mut self, client: ClientId) {
        self.clients[client.0].reading = false;
    }

    pub fn start_reading(&mut self, client: ClientId) {
        self.clients[client.0].reading = true;
        self.schedule_drain(client.0);
    }

    /// The next `times` accepts fail as if there were no descriptors.
    pub fn fail_accepts(&mut self, times: usize) {
        self.accept_failures = times;
    }

    /// A signal arrives.
    pub fn raise(&mut self, signo: i32) {
        self.signals.push_back(signo);
    }

    pub fn doorbell(&self) -> Doorbell {
        self.doorbell.clone()
    }

    pub fn clock(&self) -> SimClock {
        self.clock.clone()
    }

    /// Lets time pass without a turn of the server.
    pub fn advance(&mut self, by: Duration) {
        let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        self.clock.set(self.clock.now_ns().saturating_add(by));
    }

    /// Nothing is ready and nothing is on its way: nothing will happen until the server (a suspended command, a timer) or the script does
    /// something by itself.
    pub fn is_idle(&self) -> bool {
        self.schedule.is_empty()
            && !self.has_work()
            && self.dirty.is_empty()
            && (self.backlog.is_empty() || !self.listening)
    }

    /// Connections between `opened` and `closed`.
    pub fn open_connections(&self) -> usize {
        self.contract.open_connections()
    }
}
