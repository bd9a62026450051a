//! IP packets that carry TCP: who speaks to whom, whether the lengths and sums are right, and the sums of what is sent. State it has none.
//!
//! Sums are made here rather than by the stack, as these add four bytes at a time. A sum in one's complement is the same in any order of
//! bytes, so everything is added as it lies and the result stored as it is.
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const TCP: u8 = 6;
const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
const TCP_HEADER: usize = 20;
/// Where the sum stands in a TCP header.
const TCP_SUM: usize = 16;
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// Both ends of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Key {
    pub(super) remote: SocketAddr,
    pub(super) local: SocketAddr,
}

/// What a packet says, as far as it decides where it belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Segment {
    pub(super) key: Key,
    /// Asks for a connection: SYN, and none of ACK, RST, FIN.
    pub(super) opens: bool,
}

/// Reads a packet. `None`: it is no whole packet of TCP over IPv4 or IPv6 without extension headers or fragments, or a sum is wrong. `partial`: the
/// sender may have left the sum of TCP to a network card that is not there (a veth), so that only the part of the addresses is in it.
pub(super) fn read(packet: &[u8], partial: bool) -> Option<Segment> {
    let (source, destination, start, end) = match packet.first()? >> 4 {
        4 => {
            let header = usize::from(packet[0] & 15) * 4;
            let total = usize::from(u16::from_be_bytes(packet.get(2..4)?.try_into().ok()?));
            let fragment = u16::from_be_bytes(packet.get(6..8)?.try_into().ok()?) & 0x3fff;
            if header < IPV4_HEADER || total < header || total > packet.len() || fragment != 0 || packet[9] != TCP {
                return None;
            }
            if fold(sum(&packet[..header])) != u16::MAX {
                return None;
            }
            let address = |at: usize| Some(Ipv4Addr::from(<[u8; 4]>::try_from(packet.get(at..at + 4)?).ok()?));
            (IpAddr::from(address(12)?), IpAddr::from(address(16)?), header, total)
        }
        6 => {
            let length = usize::from(u16::from_be_bytes(packet.get(4..6)?.try_into().ok()?));
            if packet.len() < IPV6_HEADER + length || packet[6] != TCP {
                return None;
            }
            let address = |at: usize| Some(Ipv6Addr::from(<[u8; 16]>::try_from(packet.get(at..at + 16)?).ok()?));
            (IpAddr::from(address(8)?), IpAddr::from(address(24)?), IPV6_HEADER, IPV6_HEADER + length)
        }
        _ => return None,
    };
    let segment = packet.get(start..end).filter(|segment| segment.len() >= TCP_HEADER)?;
    let pseudo = pseudo(packet, segment.len());
    let whole = fold(pseudo + sum(segment)) == u16::MAX;
    let right = whole || partial && segment[TCP_SUM..TCP_SUM + 2] == fold(pseudo).to_le_bytes();
    if !right {
        return None;
    }
    let port = |at: usize| u16::from_be_bytes([segment[at], segment[at + 1]]);
    Some(Segment {
        key: Key { remote: SocketAddr::new(source, port(0)), local: SocketAddr::new(destination, port(2)) },
        opens: segment[13] & (FIN | SYN | RST | ACK) == SYN,
    })
}

/// Writes the sums into a packet of TCP that lacks them.
pub(super) fn fill_sums(packet: &mut [u8]) {
    let start = match packet.first().map(|byte| byte >> 4) {
        Some(4) if packet.len() >= IPV4_HEADER => {
            packet[10..12].fill(0);
            let header_sum = !fold(sum(&packet[..IPV4_HEADER]));
            packet[10..12].copy_from_slice(&header_sum.to_le_bytes());
            IPV4_HEADER
        }
        Some(6) => IPV6_HEADER,
        _ => return,
    };
    if packet.len() < start + TCP_HEADER {
        return;
    }
    let at = start + TCP_SUM;
    packet[at..at + 2].fill(0);
    let tcp_sum = !fold(pseudo(packet, packet.len() - start) + sum(&packet[start..]));
    packet[at..at + 2].copy_from_slice(&tcp_sum.to_le_bytes());
}

/// The sum over the header that TCP imagines: addresses, protocol, length of its segment. The packet's header was looked at.
fn pseudo(packet: &[u8], length: usize) -> u64 {
    let addresses = if packet[0] >> 4 == 4 { &packet[12..20] } else { &packet[8..40] };
    let length = u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
    sum(addresses) + sum(&length) + sum(&[0, TCP])
}

/// Adds the bytes up, two and two, in any order of bytes.
fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    words.iter().map(|word| u64::from(u32::from_le_bytes(*word))).sum::<u64>() + u64::from(u32::from_le_bytes(last))
}

#[expect(clippy::cast_possible_truncation, reason = "what is above was added to it")]
fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As RFC 1071 tells it, with 16 bits at a time.
    fn naive(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        u16::try_from(sum).unwrap()
    }

    fn packet(v6: bool, flags: u8, payload: &[u8]) -> Vec<u8> {
        let length = TCP_HEADER + payload.len();
        let mut packet = if v6 {
            let mut head = vec![0x60, 0, 0, 0];
            head.extend(u16::try_from(length).unwrap().to_be_bytes());
            head.extend([TCP, 64]);
            head.extend([0xfd; 16]);
            head.extend([0xfe; 16]);
            head
        } else {
            let mut head = vec![0x45, 0];
            head.extend(u16::try_from(length + IPV4_HEADER).unwrap().to_be_bytes());
            head.extend([0, 0, 0x40, 0, 64, TCP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
            head
        };
        packet.extend([0x12, 0x34, 0x18, 0xeb, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, flags, 1, 0, 0, 0, 0, 0]);
        packet.extend_from_slice(payload);
        fill_sums(&mut packet);
        packet
    }

    proptest! {
        #[test]
        fn sums_are_those_of_the_standard(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(fold(sum(&bytes)).swap_bytes(), naive(&bytes));
        }

        #[test]
        fn what_was_filled_is_read_and_damage_is_seen(
            v6: bool, flags: u8, payload in prop::collection::vec(any::<u8>(), 0..100), at: prop::sample::Index, bit in 0u8..8,
        ) {
            let mut packet = packet(v6, flags, &payload);
            let segment = read(&packet, false).unwrap();
            prop_assert_eq!(segment.key.remote.port(), 0x1234);
            prop_assert_eq!(segment.key.local.port(), 6379);
            prop_assert_eq!(segment.key.local.is_ipv6(), v6);
            prop_assert_eq!(segment.opens, flags & 23 == SYN);
            // Behind the IP header every bit is in the sum; of IPv6's own header only some are.
            let start = if v6 { IPV6_HEADER } else { 0 };
            let at = start + at.index(packet.len() - start);
            packet[at] ^= 1 << bit;
            prop_assert_eq!(read(&packet, false), None);
        }

        #[test]
        fn any_bytes_are_looked_at(bytes in prop::collection::vec(any::<u8>(), 0..120), version in 0u8..8) {
            let mut bytes = bytes;
            if let Some(first) = bytes.first_mut() {
                *first = *first & 15 | version << 4;
            }
            let _ = read(&bytes, true);
            fill_sums(&mut bytes);
        }
    }

    #[test]
    fn a_sum_that_was_left_to_a_card_is_taken_where_that_may_be() {
        let mut packet = packet(false, ACK, b"payload");
        let partial = fold(pseudo(&packet, packet.len() - IPV4_HEADER));
        packet[IPV4_HEADER + TCP_SUM..][..2].copy_from_slice(&partial.to_le_bytes());
        assert!(read(&packet, false).is_none());
        assert!(read(&packet, true).is_some());
    }

    #[test]
    fn fragments_and_cut_packets_are_refused() {
        let mut fragment = packet(false, ACK, b"payload");
        fragment[6] = 0x20;
        fill_sums(&mut fragment);
        assert!(read(&fragment, true).is_none());
        let whole = packet(false, ACK, b"payload");
        (0..whole.len()).for_each(|length| assert!(read(&whole[..length], true).is_none()));
    }
}
