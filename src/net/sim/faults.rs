//! What goes wrong in a simulation, and the generator that decides when.

/// Faults of the simulated network. `Default` is a perfect network.
#[derive(Clone, Debug)]
pub struct Faults {
    /// Input comes in parts of any size, over several turns.
    pub short_reads: bool,
    /// The send queue takes less than it has room for, and the client drains it in parts.
    pub short_writes: bool,
    /// Size of the receive ring: what crosses its end comes as two calls. 0: no ring.
    pub ring_bytes: usize,
    /// Everything that travels does so for up to this many virtual milliseconds.
    pub delay_ms_max: u32,
    /// Of a thousand sends of a client, so many find the connection reset.
    pub reset_permille: u32,
    /// Capacity of the send queue towards a client.
    pub queue_bytes: usize,
    /// Ready connections are served in any order.
    pub reorder: bool,
    /// Inputs are often handed over by themselves, or with few others.
    pub small_batches: bool,
}
impl Default for Faults {
    fn default() -> Faults {
        Faults {
            short_reads: false,
            short_writes: false,
            ring_bytes: 0,
            delay_ms_max: 0,
            reset_permille: 0,
            queue_bytes: 256 << 10,
            reorder: false,
            small_batches: false,
        }
    }
}
impl Faults {
    /// A mixture by seed, without resets (which a test must expect: it sets `reset_permille` itself).
    pub fn from_seed(seed: u64) -> Faults {
        let mut rng = Rng::new(seed ^ 0x5EED_F0F0);
        let mut coin = || rng.permille(500);
        let (short_reads, short_writes, ring, delays, small_queue, reorder, small_batches) =
            (coin(), coin(), coin(), coin(), coin(), coin(), coin());
        let mut pick = |least: u64, most: u64| least + rng.below(most - least + 1);
        Faults {
            short_reads,
            short_writes,
            ring_bytes: if ring { usize::try_from(pick(16, 5000)).unwrap_or(16) } else { 0 },
            delay_ms_max: if delays { u32::try_from(pick(1, 20)).unwrap_or(1) } else { 0 },
            reset_permille: 0,
            queue_bytes: if small_queue { usize::try_from(pick(1, 4096)).unwrap_or(1) } else { 256 << 10 },
            reorder,
            small_batches,
        }
    }
}

/// A generator of pseudo-random numbers (SplitMix64, Steele et al. 2014): the same sequence for the same seed, on every machine.
#[derive(Clone, Debug)]
pub struct Rng(u64);
impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }
    /// Below `bound`, which is not 0. (The bias of the remainder is of no interest to tests.)
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next_u64() % bound
    }
    /// True `n` times of a thousand.
    pub fn permille(&mut self, n: u32) -> bool {
        n > 0 && self.below(1000) < u64::from(n)
    }
    /// All of `whole`, or with `faulty` often a part of at least one (if there is one): small parts as often as large ones.
    pub fn part(&mut self, whole: usize, faulty: bool) -> usize {
        if !faulty || whole <= 1 {
            return whole;
        }
        let most = if self.permille(500) { whole.min(16) } else { whole };
        usize::try_from(1 + self.below(most as u64)).unwrap_or(whole)
    }
}
