//! The stack as the fuzz target and a test drive it: any packets, some with right sums.
use super::device::{Device, Hop, Transmit};
use super::{HALF_OPEN_MAX, Service, Stack, packet};
use smoltcp::time::{Duration, Instant};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

/// What comes is given, what goes is looked at and dropped.
struct Given(VecDeque<Vec<u8>>, Sent);
struct Sent;

impl Transmit for Sent {
    fn room(&self) -> usize {
        1
    }
    fn send<R>(&mut self, _hop: Hop, len: usize, fill: impl FnOnce(&mut [u8]) -> R) -> R {
        let mut packet = vec![0; len];
        let result = fill(&mut packet);
        assert!(packet::read(&packet, false).is_some(), "what is sent is a whole packet with right sums");
        result
    }
    fn flush(&mut self) {}
}

impl Device for Given {
    type Tx = Sent;
    const NAME: &'static str = "given";
    fn receive(&mut self, max: usize, mut each: impl FnMut(&mut Sent, &[u8], Hop)) -> usize {
        let number = self.0.len().min(max);
        self.0.drain(..number).for_each(|packet| each(&mut self.1, &packet, Hop::default()));
        number
    }
    fn tx(&mut self) -> &mut Sent {
        &mut self.1
    }
    fn mtu(&self) -> usize {
        1500
    }
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    fn partial_sums(&self) -> bool {
        false
    }
}

/// Packets, each with its length in front, of which the upper bit asks for right sums; what was received is sent back.
pub fn packets(mut input: &[u8]) {
    let address = SocketAddr::from(([10, 0, 0, 2], 6379));
    let mut stack = Stack::new(Given(VecDeque::new(), Sent), vec![Service { address, number: 0 }], 1);
    let mut now = Instant::from_millis(1);
    while let Some((&head, rest)) = input.split_first() {
        let (bytes, rest) = rest.split_at(rest.len().min(usize::from(head & 127)));
        input = rest;
        let mut bytes = bytes.to_vec();
        if head & 128 != 0 {
            packet::fill_sums(&mut bytes);
        }
        stack.device.0.push_back(bytes);
        stack.input(now, 10);
        stack.run_timers(now);
        let mut changed = Vec::new();
        stack.take_changed(&mut changed);
        for index in changed {
            if stack.waiting(index).is_some() {
                stack.attach(index, crate::net::ConnId { index, generation: 0 });
            }
            let mut window = [0; 64];
            match stack.recv(index, &mut window) {
                Ok(0) => stack.leave(index),
                Ok(n) => drop(stack.send(index, &window[..n])),
                Err(nix::errno::Errno::EAGAIN) => {}
                Err(_) => stack.leave(index),
            }
        }
        stack.flush(now);
        assert!(stack.core.half_open <= HALF_OPEN_MAX);
        now += Duration::from_millis(u64::from(head) * 10);
    }
}

#[cfg(test)]
mod tests {
    use super::packets;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_packets_are_taken(
            segments in prop::collection::vec((any::<u16>(), 0u16..3, any::<[u8; 8]>(), any::<u8>(), 0usize..40), 0..40),
        ) {
            let mut input = Vec::new();
            for (window, port, numbers, flags, payload) in segments {
                input.push(128 | u8::try_from(40 + payload).unwrap());
                input.extend([0x45, 0, 0, u8::try_from(40 + payload).unwrap(), 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
                input.extend((port + 1).to_be_bytes());
                input.extend(6379u16.to_be_bytes());
                // Few sequence numbers, so that some fit.
                input.extend([0, 0, 0, numbers[0] & 3, 0, 0, 0, numbers[4] & 3, 0x50, flags & 31]);
                input.extend(window.to_be_bytes());
                input.extend([0; 4]);
                input.extend(vec![b'x'; payload]);
            }
            packets(&input);
        }
    }
}
