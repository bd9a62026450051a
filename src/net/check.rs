//! The contract of the seam as middleware: it stands between a backend and its handler, watches both, and panics when one breaks the
//! order of events that the documentation of [`super`] promises. The simulation always has it on; tests put it around other backends.
use super::{Answers, Backend, ConnId, Flow, Handler, Input, Peer, Seat, Why};
use crate::base::out::Out;
use std::collections::{HashMap, HashSet};
use std::io;
use std::time::Duration;

/// A backend whose events and calls are checked.
pub struct Checked<B> {
    inner: B,
    contract: Contract,
}
impl<B> Checked<B> {
    /// `out_high_bytes` as configured for `inner`.
    pub fn new(inner: B, out_high_bytes: usize) -> Checked<B> {
        Checked { inner, contract: Contract::new(out_high_bytes) }
    }
    pub fn inner(&mut self) -> &mut B {
        &mut self.inner
    }
}
impl<B: Backend> Backend for Checked<B> {
    fn poll<H: Handler>(&mut self, handler: &mut H, timeout: Option<Duration>) -> io::Result<()> {
        self.inner.poll(&mut Guard { handler, contract: &mut self.contract }, timeout)
    }
    fn flush<H: Handler>(&mut self, handler: &mut H) {
        self.inner.flush(&mut Guard { handler, contract: &mut self.contract });
    }
    fn hold(&mut self, number: u64) {
        self.inner.hold(number);
    }
    fn release(&mut self, number: u64) {
        self.inner.release(number);
    }
    fn out(&mut self, conn: ConnId) -> Option<&mut Out> {
        let out = self.inner.out(conn);
        self.contract.out(conn, out.is_some());
        out
    }
    fn queued(&self, conn: ConnId) -> usize {
        self.inner.queued(conn)
    }
    fn resume(&mut self, conn: ConnId) {
        self.contract.resume(conn);
        self.inner.resume(conn);
    }
    fn close(&mut self, conn: ConnId, flow: Flow) {
        self.contract.close(conn, flow);
        self.inner.close(conn, flow);
    }
    fn join(&mut self, seat: Seat) {
        self.inner.join(seat);
    }
    fn stop_listening(&mut self) {
        self.inner.stop_listening();
    }
    fn sent_bytes(&self) -> u64 {
        self.inner.sent_bytes()
    }
    fn connections(&self) -> usize {
        self.inner.connections()
    }
    fn memory_bytes(&self) -> usize {
        self.inner.memory_bytes()
    }
}

/// What is known of a connection.
#[derive(Default)]
struct State {
    paused: bool,
    /// `Flow::Sink` was the last answer.
    sink: bool,
    /// Length of the sink that was asked for and not yet filled.
    sink_bytes: Option<usize>,
    finishing: bool,
    aborted: bool,
    hung_up: bool,
}

/// The state of all connections, and the highest generation seen of each index.
pub(super) struct Contract {
    high: usize,
    open: HashMap<ConnId, State>,
    generations: HashMap<u32, u32>,
}

impl Contract {
    pub(super) fn new(out_high_bytes: usize) -> Contract {
        Contract { high: out_high_bytes, open: HashMap::new(), generations: HashMap::new() }
    }

    fn state(&mut self, conn: ConnId, event: &str) -> &mut State {
        self.open.get_mut(&conn).unwrap_or_else(|| panic!("{event} of {conn:?}, which is not open"))
    }

    fn obey(&mut self, conn: ConnId, flow: Flow) {
        let state = self.state(conn, "flow");
        state.sink = flow == Flow::Sink;
        match flow {
            Flow::Read | Flow::Sink => {}
            Flow::Pause => state.paused = true,
            Flow::Finish => state.finishing = true,
            Flow::Abort => state.aborted = true,
        }
    }

    fn opened(&mut self, conn: ConnId) {
        if let Some(last) = self.generations.insert(conn.index, conn.generation) {
            assert!(conn.generation > last, "{conn:?} was used before");
        }
        assert!(self.open.insert(conn, State::default()).is_none(), "{conn:?} was opened twice");
    }

    /// Input may come now.
    fn input(&mut self, conn: ConnId, event: &str) -> &mut State {
        let state = self.state(conn, event);
        assert!(!state.paused, "{event} of {conn:?}, which is paused");
        assert!(!state.finishing && !state.aborted, "{event} of {conn:?}, which is given up");
        state
    }

    fn data(&mut self, conn: ConnId, bytes: usize, queued: usize) {
        let high = self.high;
        let state = self.input(conn, "data");
        assert!(bytes > 0, "data of {conn:?} without bytes");
        assert!(!state.sink, "data of {conn:?} beside its sink");
        assert!(queued <= high, "{conn:?} is read with {queued} bytes queued");
    }

    fn batch(&self, inputs: &[Input], bytes: usize) {
        assert!(inputs.len() > 1, "a batch of {} inputs", inputs.len());
        let mut seen = HashSet::new();
        let mut at = 0;
        let mut places = inputs.to_vec();
        places.sort_by_key(|input| input.start);
        for input in places {
            assert!(seen.insert(input.conn), "{:?} stands twice in a batch", input.conn);
            assert!(at <= input.start && input.start < input.end, "the inputs of a batch overlap, or one is empty");
            at = input.end;
        }
        assert!(at as usize <= bytes, "a batch has less bytes than it says");
    }

    fn sink(&mut self, conn: ConnId, bytes: usize) {
        let state = self.input(conn, "sink");
        assert!(state.sink, "a sink is asked of {conn:?} unwanted");
        assert!(bytes > 0, "{conn:?} has an empty sink");
        state.sink_bytes = Some(bytes);
    }

    fn sunk(&mut self, conn: ConnId, bytes: usize, queued: usize) {
        let high = self.high;
        let state = self.input(conn, "sunk");
        let room = state.sink_bytes.take().unwrap_or_else(|| panic!("{conn:?} has sunk bytes without a sink"));
        assert!((1..=room).contains(&bytes), "{bytes} bytes in a sink of {room}");
        assert!(queued <= high, "{conn:?} is read with {queued} bytes queued");
    }

    fn sent(&mut self, conn: ConnId, queued: usize, in_out: usize) {
        let state = self.state(conn, "sent");
        assert!(!state.aborted, "sent of {conn:?}, which is aborted");
        assert_eq!(queued, in_out, "sent tells another number than the output of {conn:?}");
    }

    fn hung_up(&mut self, conn: ConnId) {
        let state = self.state(conn, "hung_up");
        assert!(state.paused && !state.finishing && !state.aborted, "hung_up of {conn:?}, which does not wait");
        assert!(!state.hung_up, "hung_up of {conn:?} is asked twice");
        state.hung_up = true;
    }

    fn closed(&mut self, conn: ConnId, why: Why) {
        let state = self.open.remove(&conn).unwrap_or_else(|| panic!("closed of {conn:?}, which is not open"));
        if why == Why::Handler {
            assert!(state.finishing || state.aborted, "{conn:?} is closed, but nobody asked for it");
        }
    }

    pub(super) fn out(&mut self, conn: ConnId, some: bool) {
        match self.open.get(&conn) {
            Some(state) if state.finishing || state.aborted => assert!(!some, "output for {conn:?}, which is given up"),
            Some(_) => {} // `None` once its input has ended
            None => assert!(!some, "output for {conn:?}, which is not open"),
        }
    }

    pub(super) fn resume(&mut self, conn: ConnId) {
        if let Some(state) = self.open.get_mut(&conn) {
            state.paused = false;
        }
    }

    pub(super) fn close(&mut self, conn: ConnId, flow: Flow) {
        assert!(matches!(flow, Flow::Finish | Flow::Abort), "close with {flow:?}");
        if self.open.contains_key(&conn) {
            self.obey(conn, flow);
        }
    }

    /// Connections between `opened` and `closed`.
    pub(super) fn open_connections(&self) -> usize {
        self.open.len()
    }
}

/// A handler whose events are checked.
pub(super) struct Guard<'a, H> {
    pub(super) handler: &'a mut H,
    pub(super) contract: &'a mut Contract,
}
impl<H: Handler> Handler for Guard<'_, H> {
    fn opened(&mut self, conn: ConnId, peer: Peer, out: &mut Out) -> Flow {
        self.contract.opened(conn);
        let flow = self.handler.opened(conn, peer, out);
        self.contract.obey(conn, flow);
        flow
    }
    fn data(&mut self, conn: ConnId, bytes: &[u8], out: &mut Out) -> Flow {
        let queued = out.queued();
        self.contract.data(conn, bytes.len(), queued);
        let flow = self.handler.data(conn, bytes, out);
        assert!(out.queued() >= queued, "the handler took output of {conn:?} back");
        self.contract.obey(conn, flow);
        flow
    }
    fn batch(&mut self, inputs: &[Input], bytes: &[u8], answers: &mut impl Answers) {
        self.contract.batch(inputs, bytes.len());
        let mut answers = GuardedAnswers { answers, contract: self.contract, inputs: inputs.iter() };
        self.handler.batch(inputs, bytes, &mut answers);
        assert_eq!(answers.inputs.len(), 0, "the handler left inputs of a batch without an answer");
    }
    fn sink(&mut self, conn: ConnId) -> &mut [u8] {
        let sink = self.handler.sink(conn);
        self.contract.sink(conn, sink.len());
        sink
    }
    fn sunk(&mut self, conn: ConnId, bytes: usize, out: &mut Out) -> Flow {
        let queued = out.queued();
        self.contract.sunk(conn, bytes, queued);
        let flow = self.handler.sunk(conn, bytes, out);
        assert!(out.queued() >= queued, "the handler took output of {conn:?} back");
        self.contract.obey(conn, flow);
        flow
    }
    fn sent(&mut self, conn: ConnId, queued: usize, out: &mut Out) {
        self.contract.sent(conn, queued, out.queued());
        self.handler.sent(conn, queued, out);
    }
    fn hung_up(&mut self, conn: ConnId) -> bool {
        self.contract.hung_up(conn);
        self.handler.hung_up(conn)
    }
    fn closed(&mut self, conn: ConnId, why: Why) {
        self.contract.closed(conn, why);
        self.handler.closed(conn, why);
    }
    fn signal(&mut self, signo: i32) {
        self.handler.signal(signo);
    }
    fn mail(&mut self) {
        self.handler.mail();
    }
    fn turn_over(&mut self) -> bool {
        self.handler.turn_over()
    }
}

/// The answers to a batch, checked like those to `data`, and that each is given once and in its turn.
struct GuardedAnswers<'a, A> {
    answers: &'a mut A,
    contract: &'a mut Contract,
    inputs: std::slice::Iter<'a, Input>,
}
impl<A: Answers> Answers for GuardedAnswers<'_, A> {
    fn answer(&mut self, conn: ConnId, answer: impl FnOnce(&mut Out) -> Flow) {
        let input = self.inputs.next().unwrap_or_else(|| panic!("an answer for {conn:?} beyond the batch"));
        assert_eq!(input.conn, conn, "the answers to a batch are out of order");
        let mut asked = false;
        self.answers.answer(conn, |out| {
            asked = true;
            let queued = out.queued();
            self.contract.data(conn, input.len(), queued);
            let flow = answer(out);
            assert!(out.queued() >= queued, "the handler took output of {conn:?} back");
            self.contract.obey(conn, flow);
            flow
        });
        assert!(asked, "the backend did not take the answer for {conn:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    const A: ConnId = ConnId { index: 3, generation: 7 };

    fn opened() -> Contract {
        let mut contract = Contract::new(100);
        contract.opened(A);
        contract
    }

    /// The steps before the last are allowed, the last is not.
    fn breaks(what: &str, steps: &[&dyn Fn(&mut Contract)]) {
        let mut contract = opened();
        let (last, before) = steps.split_last().unwrap();
        before.iter().for_each(|step| step(&mut contract));
        assert!(catch_unwind(AssertUnwindSafe(|| last(&mut contract))).is_err(), "allowed: {what}");
    }

    #[test]
    fn every_breach_is_seen() {
        let unknown = ConnId { index: 4, generation: 0 };
        breaks("data of an unknown connection", &[&|c| c.data(unknown, 1, 0)]);
        breaks("opened twice", &[&|c| c.opened(A)]);
        breaks("a used id", &[&|c| c.closed(A, Why::Peer), &|c| c.opened(A)]);
        breaks("closed twice", &[&|c| c.closed(A, Why::Peer), &|c| c.closed(A, Why::Peer)]);
        breaks("data after closed", &[&|c| c.closed(A, Why::Error), &|c| c.data(A, 1, 0)]);
        breaks("sent after closed", &[&|c| c.closed(A, Why::Error), &|c| c.sent(A, 0, 0)]);
        breaks("output after closed", &[&|c| c.closed(A, Why::Error), &|c| c.out(A, true)]);
        breaks("closed by nobody", &[&|c| c.closed(A, Why::Handler)]);
        breaks("no bytes", &[&|c| c.data(A, 0, 0)]);
        breaks("read above the high mark", &[&|c| c.data(A, 1, 100), &|c| c.data(A, 1, 101)]);
        breaks("read while paused", &[&|c| c.obey(A, Flow::Pause), &|c| c.data(A, 1, 0)]);
        breaks("read when finishing", &[&|c| c.obey(A, Flow::Finish), &|c| c.data(A, 1, 0)]);
        breaks("read when aborted", &[&|c| c.close(A, Flow::Abort), &|c| c.data(A, 1, 0)]);
        breaks("sent when aborted", &[&|c| c.close(A, Flow::Abort), &|c| c.sent(A, 0, 0)]);
        breaks("output when finishing", &[&|c| c.close(A, Flow::Finish), &|c| c.out(A, true)]);
        breaks("close to read", &[&|c| c.close(A, Flow::Read)]);
        breaks("a wrong number", &[&|c| c.sent(A, 1, 2)]);
        breaks("a sink unasked", &[&|c| c.sink(A, 10)]);
        breaks("data beside the sink", &[&|c| c.obey(A, Flow::Sink), &|c| c.data(A, 1, 0)]);
        breaks("an empty sink", &[&|c| c.obey(A, Flow::Sink), &|c| c.sink(A, 0)]);
        breaks("sunk without a sink", &[&|c| c.obey(A, Flow::Sink), &|c| c.sunk(A, 1, 0)]);
        breaks("too much sunk", &[&|c| c.obey(A, Flow::Sink), &|c| c.sink(A, 5), &|c| c.sunk(A, 6, 0)]);
        let input = |conn, start, end| Input::new(conn, start, end).unwrap();
        breaks("a batch of one", &[&|c| c.batch(&[input(A, 0, 5)], 5)]);
        breaks("a batch with one connection twice", &[&|c| c.batch(&[input(A, 0, 5), input(A, 5, 9)], 9)]);
        breaks("inputs that overlap", &[&|c| c.batch(&[input(A, 0, 5), input(unknown, 4, 9)], 9)]);
        breaks("an empty input", &[&|c| c.batch(&[input(A, 0, 5), input(unknown, 5, 5)], 9)]);
        breaks("inputs beyond the bytes", &[&|c| c.batch(&[input(A, 0, 5), input(unknown, 5, 9)], 8)]);
        breaks("hung_up when not paused", &[&|c| c.hung_up(A)]);
        breaks("hung_up twice", &[&|c| c.obey(A, Flow::Pause), &|c| c.hung_up(A), &|c| c.hung_up(A)]);
    }

    /// Answers nothing, or the wrong connection, or all as it should be, by the number.
    struct Careless(u32);
    impl Handler for Careless {
        fn opened(&mut self, _: ConnId, _: Peer, _: &mut Out) -> Flow {
            Flow::Read
        }
        fn data(&mut self, _: ConnId, _: &[u8], _: &mut Out) -> Flow {
            Flow::Read
        }
        fn batch(&mut self, inputs: &[Input], _: &[u8], answers: &mut impl Answers) {
            let order = [inputs.len() - 1, 0];
            for i in order.into_iter().skip(self.0 as usize) {
                answers.answer(inputs[i].conn, |_| Flow::Read);
            }
        }
        fn sink(&mut self, _: ConnId) -> &mut [u8] {
            &mut []
        }
        fn sunk(&mut self, _: ConnId, _: usize, _: &mut Out) -> Flow {
            Flow::Read
        }
        fn sent(&mut self, _: ConnId, _: usize, _: &mut Out) {}
        fn closed(&mut self, _: ConnId, _: Why) {}
        fn signal(&mut self, _: i32) {}
    }

    struct Taken(Out);
    impl Answers for Taken {
        fn answer(&mut self, _: ConnId, answer: impl FnOnce(&mut Out) -> Flow) {
            answer(&mut self.0);
        }
    }

    #[test]
    fn a_batch_is_answered_in_order_and_wholly() {
        let other = ConnId { index: 4, generation: 0 };
        let inputs = [Input::new(A, 0, 2).unwrap(), Input::new(other, 2, 4).unwrap()];
        for careless in 0..3 {
            let mut contract = opened();
            contract.opened(other);
            let mut guard = Guard { handler: &mut Careless(careless), contract: &mut contract };
            let result = catch_unwind(AssertUnwindSafe(|| guard.batch(&inputs, b"abcd", &mut Taken(Out::new()))));
            assert!(result.is_err(), "allowed: {careless}");
        }
    }

    #[test]
    fn the_usual_life_is_allowed() {
        let mut c = opened();
        c.data(A, 10, 0);
        c.obey(A, Flow::Sink);
        c.sink(A, 10);
        c.sunk(A, 10, 100);
        c.obey(A, Flow::Pause);
        c.hung_up(A);
        c.sent(A, 5, 5);
        c.out(A, true);
        c.resume(A);
        c.data(A, 1, 0);
        c.close(A, Flow::Finish);
        c.sent(A, 0, 0);
        c.closed(A, Why::Handler);
        c.opened(ConnId { index: A.index, generation: A.generation + 1 });
        assert_eq!(c.open_connections(), 1);
    }
}
