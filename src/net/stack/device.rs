//! What the stack needs of an interface: IP packets in, IP packets out. It knows nothing of connections; [`Port`] is a device as smoltcp sees it,
//! of one packet at most.
use super::packet;
use smoltcp::phy::{self, ChecksumCapabilities, DeviceCapabilities, Medium};
use smoltcp::time::Instant;
use std::os::fd::BorrowedFd;

/// The next hop of a connection, learned from what came from it; of no interest to a device without link addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Hop {
    pub peer: [u8; 6],
    pub own: [u8; 6],
}

/// The sending half.
pub trait Transmit {
    /// Packets that can be sent before the next [`Transmit::flush`].
    fn room(&self) -> usize;
    /// Has `fill` write a packet of `len` bytes, and queues it. With no room it is dropped, as networks do.
    fn send<R>(&mut self, hop: Hop, len: usize, fill: impl FnOnce(&mut [u8]) -> R) -> R;
    /// Sends what is queued.
    fn flush(&mut self);
}

/// An interface.
pub trait Device: Send {
    type Tx: Transmit;
    const NAME: &'static str;
    /// Hands over at most `max` packets that have come, with where they are from; returns how many it were.
    fn receive(&mut self, max: usize, each: impl FnMut(&mut Self::Tx, &[u8], Hop)) -> usize;
    fn tx(&mut self) -> &mut Self::Tx;
    /// The longest packet, in bytes.
    fn mtu(&self) -> usize;
    /// Becomes readable when packets come. `None`: it does not.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;
    /// Whether senders may have left the sums of TCP to a card.
    fn partial_sums(&self) -> bool;
}

/// A device that has received `packet`, if there is one, and sends to `hop`.
pub(super) struct Port<'p, T> {
    pub(super) packet: Option<&'p [u8]>,
    pub(super) tx: &'p mut T,
    pub(super) hop: Hop,
    pub(super) mtu: usize,
}

pub(super) struct Received<'t>(&'t [u8]);
impl phy::RxToken for Received<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(self.0)
    }
}

pub(super) struct Sending<'t, T>(&'t mut T, Hop);
impl<T: Transmit> phy::TxToken for Sending<'_, T> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        self.0.send(self.1, len, |bytes| {
            let result = f(bytes);
            packet::fill_sums(bytes);
            result
        })
    }
}

impl<T: Transmit> phy::Device for Port<'_, T> {
    type RxToken<'t>
        = Received<'t>
    where
        Self: 't;
    type TxToken<'t>
        = Sending<'t, T>
    where
        Self: 't;

    fn receive(&mut self, _now: Instant) -> Option<(Received<'_>, Sending<'_, T>)> {
        Some((Received(self.packet.take()?), Sending(self.tx, self.hop)))
    }

    fn transmit(&mut self, _now: Instant) -> Option<Sending<'_, T>> {
        (self.tx.room() > 0).then_some(Sending(self.tx, self.hop))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        // Sums are made and looked at by `packet`.
        capabilities.checksum = ChecksumCapabilities::ignored();
        capabilities
    }
}
