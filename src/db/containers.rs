//! The big containers of a shard (`types::Container`), each under a number that stands in the item of its key, as a blob's does. Owns when one is
//! freed (never under an open view, and in slices), whose turn of background work it is, and what all of them hold on the heap.
//!
//! ```text
//!  item of a key ── number ─▶ slot ─▶ Live: the container, in its key or (dead) only in views of it
//!  item that only a snapshot sees ─▶ slot ─▶ Pin: a view of a live one
//!                                    doomed: containers without a slot, emptied in slices
//! ```
//! A container is taken out of its slot while it is changed (`take`, `put_back`), so that its shard's slab can be borrowed beside it.

use crate::types::{Container, Form, Look, Span, ViewLost};
use dolmen_slab::Slab;
use std::any::Any;
use std::collections::VecDeque;

/// What the registry asks of a container, whatever its type.
trait AnyContainer: Any + Send {
    fn any(&self) -> &dyn Any;
    fn any_mut(&mut self) -> &mut dyn Any;
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
    fn box_bytes(&self) -> usize;
    fn bytes(&self) -> u64;
    fn heap_bytes(&self) -> usize;
    fn kept_bytes(&self) -> u64;
    fn len(&self) -> usize;
    fn is_timed(&self, slab: &Slab) -> bool;
    fn is_viewed(&self) -> bool;
    fn has_work(&self) -> bool;
    fn maintain(&mut self, slab: &mut Slab, budget: usize) -> bool;
    fn drain(&mut self, slab: &mut Slab, budget: usize) -> bool;
    fn open_any_view(&mut self, slab: &Slab) -> Box<dyn Any + Send>;
    fn any_view_next(
        &mut self,
        slab: &Slab,
        view: &mut (dyn Any + Send),
        run: &mut Vec<u8>,
        budget_bytes: usize,
    ) -> Result<bool, ViewLost>;
    fn close_any_view(&mut self, view: Box<dyn Any + Send>);
}

/// A container that can be stored under a key.
pub trait Stored: Container<View: Send + 'static> + Send + 'static {}
impl<B: Container<View: Send + 'static> + Send + 'static> Stored for B {}

impl<B: Stored> AnyContainer for B {
    fn any(&self) -> &dyn Any {
        self
    }
    fn any_mut(&mut self) -> &mut dyn Any {
        self
    }
    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
    fn box_bytes(&self) -> usize {
        size_of::<B>()
    }
    fn bytes(&self) -> u64 {
        Container::bytes(self)
    }
    fn heap_bytes(&self) -> usize {
        Container::heap_bytes(self)
    }
    fn kept_bytes(&self) -> u64 {
        Container::kept_bytes(self)
    }
    fn len(&self) -> usize {
        Container::len(self)
    }
    fn is_timed(&self, slab: &Slab) -> bool {
        B::earliest_ms(Look { form: Form::Big(self), slab }) != u64::MAX
    }
    fn is_viewed(&self) -> bool {
        Container::is_viewed(self)
    }
    fn has_work(&self) -> bool {
        Container::has_work(self)
    }
    fn maintain(&mut self, slab: &mut Slab, budget: usize) -> bool {
        Container::maintain(self, slab, budget)
    }
    fn drain(&mut self, slab: &mut Slab, budget: usize) -> bool {
        Container::drain(self, slab, budget)
    }
    fn open_any_view(&mut self, slab: &Slab) -> Box<dyn Any + Send> {
        Box::new(self.open_view(slab, Span::default()))
    }
    fn any_view_next(
        &mut self,
        slab: &Slab,
        view: &mut (dyn Any + Send),
        run: &mut Vec<u8>,
        budget_bytes: usize,
    ) -> Result<bool, ViewLost> {
        let view = view.downcast_mut::<B::View>().expect("a view of this container");
        self.view_next(slab, view, run, budget_bytes)
    }
    fn close_any_view(&mut self, view: Box<dyn Any + Send>) {
        self.close_view(*view.downcast::<B::View>().expect("a view of this container"));
    }
}

const TYPE_KNOWN: &str = "the type in the item's header is that of its container";

/// The number of a container in its shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ContainerId(u32);

impl ContainerId {
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    #[must_use]
    pub const fn from_bits(bits: u32) -> ContainerId {
        ContainerId(bits)
    }
}

enum Slot {
    Free,
    /// Taken out to be changed, or gone.
    Out,
    Live {
        container: Box<dyn AnyContainer>,
        /// It is no key's any more, views keep it.
        dead: bool,
        /// It waits in `busy`.
        queued: bool,
    },
    Pin {
        of: ContainerId,
        view: Box<dyn Any + Send>,
        /// Of the container as the view shows it.
        size: Size,
    },
}

/// What is told of a container before its elements are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size {
    pub elements: usize,
    /// Some of them have deadlines.
    pub timed: bool,
}

/// A container that is shown in slices as it is now, or, if its number is that of a pin, as it was. To be ended.
#[must_use]
pub(super) struct Show {
    source: Source,
    pub(super) size: Size,
}

enum Source {
    /// A view of its own.
    Own(ContainerId, Box<dyn Any + Send>),
    /// That of the pin, which nobody else reads.
    Pin(ContainerId),
}

/// The containers of a shard.
#[derive(Default)]
pub struct Containers {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// With work for `maintain`. Numbers of containers that are gone stay in here: whoever has one then is not `queued`, or has an extra turn.
    busy: VecDeque<ContainerId>,
    doomed: VecDeque<Box<dyn AnyContainer>>,
    /// Of all of them, doomed ones included.
    heap_bytes: u64,
    /// What only views of them keep.
    kept_bytes: u64,
}

/// Elements that are freed at once with their container; more are freed in slices.
const AT_ONCE: usize = 64;

impl Containers {
    fn slot(&mut self, id: ContainerId) -> &mut Slot {
        &mut self.slots[id.0 as usize]
    }

    fn add_slot(&mut self, slot: Slot) -> ContainerId {
        if let Some(number) = self.free.pop() {
            self.slots[number as usize] = slot;
            return ContainerId(number);
        }
        self.slots.push(slot);
        ContainerId(u32::try_from(self.slots.len() - 1).expect("each has an item, of which there are fewer than 2^32"))
    }

    fn free_slot(&mut self, id: ContainerId) {
        *self.slot(id) = Slot::Free;
        self.free.push(id.0);
    }

    /// Takes a container in.
    pub fn add<B: Stored>(&mut self, container: Box<B>) -> ContainerId {
        self.heap_bytes += (container.box_bytes() + AnyContainer::heap_bytes(&*container)) as u64;
        let id = self.add_slot(Slot::Live { container, dead: false, queued: false });
        self.look_for_work(id);
        id
    }

    /// # Panics
    /// If there is no container of this type under the number.
    #[must_use]
    pub fn get<B: Stored>(&self, id: ContainerId) -> &B {
        match &self.slots[id.0 as usize] {
            Slot::Live { container, .. } => (**container).any().downcast_ref().expect(TYPE_KNOWN),
            _ => unreachable!("a container that is not there"),
        }
    }

    /// # Panics
    /// If there is no container of this type under the number.
    pub fn get_mut<B: Stored>(&mut self, id: ContainerId) -> &mut B {
        match self.slot(id) {
            Slot::Live { container, .. } => (**container).any_mut().downcast_mut().expect(TYPE_KNOWN),
            _ => unreachable!("a container that is not there"),
        }
    }

    /// Takes a container out, to be changed and put back.
    pub fn take<B: Stored>(&mut self, id: ContainerId) -> (Box<B>, Taken) {
        let Slot::Live { container, queued, .. } = std::mem::replace(self.slot(id), Slot::Out) else {
            unreachable!("a container that is not there")
        };
        let (heap_bytes, kept_bytes) = (AnyContainer::heap_bytes(&*container), AnyContainer::kept_bytes(&*container));
        (container.into_any().downcast().expect(TYPE_KNOWN), Taken { id, queued, heap_bytes, kept_bytes })
    }

    /// Puts a container back where it was taken from.
    pub fn put_back<B: Stored>(&mut self, taken: Taken, container: Box<B>) {
        let heap_bytes = AnyContainer::heap_bytes(&*container);
        self.heap_bytes = (self.heap_bytes + heap_bytes as u64).saturating_sub(taken.heap_bytes as u64);
        self.kept_bytes = (self.kept_bytes + AnyContainer::kept_bytes(&*container)).saturating_sub(taken.kept_bytes);
        let queued = taken.queued;
        *self.slot(taken.id) = Slot::Live { container, dead: false, queued };
        if !queued {
            self.look_for_work(taken.id);
        }
    }

    /// A container that was taken out has become a packed one, and is gone. Its number is given back by `release`, like any other.
    pub fn gone<B: Stored>(&mut self, taken: &Taken) {
        self.heap_bytes = self.heap_bytes.saturating_sub((taken.heap_bytes + size_of::<B>()) as u64);
        self.kept_bytes = self.kept_bytes.saturating_sub(taken.kept_bytes);
    }

    /// Has the container's work done in the background, if it has some.
    pub fn look_for_work(&mut self, id: ContainerId) {
        if let Slot::Live { container, queued, .. } = self.slot(id)
            && !*queued
            && container.has_work()
        {
            *queued = true;
            self.busy.push_back(id);
        }
    }

    /// The container is no key's any more: it is freed, at once if it is small and not seen, else later.
    pub fn release(&mut self, slab: &mut Slab, id: ContainerId) {
        match self.slot(id) {
            Slot::Live { container, dead, .. } => {
                if container.is_viewed() {
                    *dead = true;
                    return;
                }
                self.bury(slab, id);
            }
            Slot::Pin { .. } => {
                let Slot::Pin { of, view, .. } = std::mem::replace(self.slot(id), Slot::Free) else { return };
                self.free.push(id.0);
                self.close_view_of(slab, of, view);
            }
            Slot::Out => self.free_slot(id),
            Slot::Free => unreachable!("a container that is not there"),
        }
    }

    fn close_view_of(&mut self, slab: &mut Slab, id: ContainerId, view: Box<dyn Any + Send>) {
        if let Slot::Live { container, .. } = self.slot(id) {
            container.close_any_view(view);
        }
        self.after_close(slab, id);
    }

    /// A view of the container was closed.
    pub fn after_close(&mut self, slab: &mut Slab, id: ContainerId) {
        match self.slot(id) {
            Slot::Live { container, dead: true, .. } if !container.is_viewed() => self.bury(slab, id),
            _ => self.look_for_work(id),
        }
    }

    fn bury(&mut self, slab: &mut Slab, id: ContainerId) {
        let Slot::Live { container, .. } = std::mem::replace(self.slot(id), Slot::Free) else { return };
        self.free.push(id.0);
        self.doom(slab, container);
    }

    fn doom(&mut self, slab: &mut Slab, mut container: Box<dyn AnyContainer>) {
        // What is left of closed views goes with it.
        self.kept_bytes = self.kept_bytes.saturating_sub(container.kept_bytes());
        let before = AnyContainer::heap_bytes(&*container) + container.box_bytes();
        if container.drain(slab, AT_ONCE) {
            let after = AnyContainer::heap_bytes(&*container) + container.box_bytes();
            self.heap_bytes = (self.heap_bytes + after as u64).saturating_sub(before as u64);
            self.doomed.push_back(container);
        } else {
            self.heap_bytes = self.heap_bytes.saturating_sub(before as u64);
        }
    }

    /// Frees a container that never got a number.
    pub fn drop_new<B: Stored>(&mut self, slab: &mut Slab, container: Box<B>) {
        self.heap_bytes += (container.box_bytes() + AnyContainer::heap_bytes(&*container)) as u64;
        self.doom(slab, container);
    }

    /// Another number for the container as it is now: a view of it, for an item that only snapshots see.
    pub fn pin(&mut self, slab: &Slab, id: ContainerId) -> ContainerId {
        let Slot::Live { container, .. } = self.slot(id) else { unreachable!("a key's container is live") };
        let size = Size { elements: container.len(), timed: container.is_timed(slab) };
        let view = container.open_any_view(slab);
        self.add_slot(Slot::Pin { of: id, view, size })
    }

    /// Begins to show a container. A pin must not be released before the end.
    pub(super) fn show(&mut self, slab: &Slab, id: ContainerId) -> Show {
        match self.slot(id) {
            Slot::Live { container, .. } => {
                let size = Size { elements: container.len(), timed: container.is_timed(slab) };
                let view = container.open_any_view(slab);
                Show { source: Source::Own(id, view), size }
            }
            Slot::Pin { size, .. } => Show { size: *size, source: Source::Pin(id) },
            Slot::Free | Slot::Out => unreachable!("a container that is not there"),
        }
    }

    /// Appends the next elements to `run`, as `Container::view_next` does.
    ///
    /// # Errors
    /// [`ViewLost`]: there was no memory to keep the rest as it was.
    pub(super) fn show_next(
        &mut self,
        slab: &Slab,
        show: &mut Show,
        run: &mut Vec<u8>,
        budget_bytes: usize,
    ) -> Result<bool, ViewLost> {
        let (id, view) = match &mut show.source {
            Source::Own(id, view) => (*id, &mut **view),
            Source::Pin(pin) => {
                // Out of its slot meanwhile, as it lies beside its container.
                let pin = *pin;
                let Slot::Pin { of, mut view, size } = std::mem::replace(self.slot(pin), Slot::Out) else {
                    unreachable!("a pin stays while it is shown")
                };
                let more = self.view_next_of(slab, of, &mut *view, run, budget_bytes);
                *self.slot(pin) = Slot::Pin { of, view, size };
                return more;
            }
        };
        self.view_next_of(slab, id, view, run, budget_bytes)
    }

    fn view_next_of(
        &mut self,
        slab: &Slab,
        id: ContainerId,
        view: &mut (dyn Any + Send),
        run: &mut Vec<u8>,
        budget_bytes: usize,
    ) -> Result<bool, ViewLost> {
        let Slot::Live { container, .. } = self.slot(id) else { unreachable!("a container lives while it is viewed") };
        // Reading may give back what no other view needs.
        let kept = container.kept_bytes();
        let more = container.any_view_next(slab, view, run, budget_bytes);
        let now = container.kept_bytes();
        self.kept_bytes = (self.kept_bytes + now).saturating_sub(kept);
        more
    }

    pub(super) fn end_show(&mut self, slab: &mut Slab, show: Show) {
        if let Source::Own(id, view) = show.source {
            self.close_view_of(slab, id, view);
        }
    }

    /// Bytes that only views of containers keep, and what closed ones have left.
    #[must_use]
    pub fn kept_bytes(&self) -> u64 {
        self.kept_bytes
    }

    /// Memory of a container in bytes. What a pin keeps counts to the container.
    #[must_use]
    pub fn bytes(&self, id: ContainerId) -> u64 {
        match &self.slots[id.0 as usize] {
            Slot::Live { container, .. } => container.box_bytes() as u64 + AnyContainer::bytes(&**container),
            _ => 0,
        }
    }

    /// What all of them hold on the heap, in bytes.
    #[must_use]
    pub fn heap_bytes(&self) -> u64 {
        self.heap_bytes + (self.slots.capacity() * size_of::<Slot>() + self.free.capacity() * 4) as u64
    }

    #[inline]
    pub(super) fn has_work(&self) -> bool {
        !self.busy.is_empty() || !self.doomed.is_empty()
    }

    /// Containers without a key that are not emptied yet.
    #[must_use]
    pub(super) fn doomed_len(&self) -> usize {
        self.doomed.len()
    }

    /// A unit of work for one container with some, and one of the doomed. True: there is more.
    pub(super) fn work(&mut self, slab: &mut Slab, budget: usize) -> bool {
        if let Some(id) = self.busy.pop_front()
            && let Slot::Live { container, queued, .. } = &mut self.slots[id.0 as usize]
            && *queued
        {
            let (before, kept) = (AnyContainer::heap_bytes(&**container) as u64, container.kept_bytes());
            let more = container.maintain(slab, budget);
            self.heap_bytes = (self.heap_bytes + AnyContainer::heap_bytes(&**container) as u64).saturating_sub(before);
            self.kept_bytes = (self.kept_bytes + container.kept_bytes()).saturating_sub(kept);
            *queued = more;
            if more {
                self.busy.push_back(id);
            }
        }
        if let Some(container) = self.doomed.front_mut() {
            let before = (AnyContainer::heap_bytes(&**container) + container.box_bytes()) as u64;
            if container.drain(slab, budget) {
                let after = (AnyContainer::heap_bytes(&**container) + container.box_bytes()) as u64;
                self.heap_bytes = (self.heap_bytes + after).saturating_sub(before);
            } else {
                self.heap_bytes = self.heap_bytes.saturating_sub(before);
                self.doomed.pop_front();
            }
        }
        self.has_work()
    }
}

/// What is known of a container that was taken out.
pub struct Taken {
    id: ContainerId,
    queued: bool,
    heap_bytes: usize,
    kept_bytes: u64,
}
