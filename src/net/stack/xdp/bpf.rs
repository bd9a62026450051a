//! The bpf(2) calls: a map from queues to sockets, the program, the link by which it hangs on an interface. Descriptors own all three, so they go with the
//! process, however it ends.
#![allow(unsafe_code)]
use nix::errno::Errno;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

const MAP_CREATE: libc::c_long = 0;
const MAP_UPDATE: libc::c_long = 2;
const PROGRAM_LOAD: libc::c_long = 5;
const LINK_CREATE: libc::c_long = 28;
const MAP_XSK: u32 = 17;
const PROGRAM_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;

/// How the interface runs the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    /// In the driver.
    Native,
    /// Behind it, for every interface.
    Generic,
}

#[repr(C)]
struct MapCreate {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
    rest: [u32; 12],
}

#[repr(C)]
struct MapUpdate {
    map: RawFd,
    pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct ProgramLoad {
    kind: u32,
    instructions: u32,
    code: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach: u32,
}

#[repr(C)]
struct LinkCreate {
    program: RawFd,
    interface: u32,
    attach: u32,
    flags: u32,
}

/// # Safety
/// `attributes` is what the command `command` takes, and its pointers are valid for the call.
unsafe fn bpf<T>(command: libc::c_long, attributes: &T) -> Result<libc::c_long, Errno> {
    // SAFETY: the caller's; the kernel only reads the attributes, as many bytes as are told.
    Errno::result(unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<T>()) })
}

fn descriptor(number: libc::c_long) -> Result<OwnedFd, Errno> {
    let number = RawFd::try_from(number).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel has just made it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

fn address<T>(value: *const T) -> u64 {
    value.addr() as u64
}

/// A map from queues to AF_XDP sockets.
pub(super) fn make_map(queues: u32) -> Result<OwnedFd, Errno> {
    let attributes = MapCreate { kind: MAP_XSK, key_bytes: 4, value_bytes: 4, entries: queues, rest: [0; 12] };
    // SAFETY: no pointers.
    descriptor(unsafe { bpf(MAP_CREATE, &attributes) }?)
}

/// Has frames of `queue` go to `socket`.
pub(super) fn set(map: BorrowedFd<'_>, queue: u32, socket: BorrowedFd<'_>) -> Result<(), Errno> {
    let socket = socket.as_raw_fd();
    let (key, value) = (address(&raw const queue), address(&raw const socket));
    let attributes = MapUpdate { map: map.as_raw_fd(), pad: 0, key, value, flags: 0 };
    // SAFETY: both are 4 bytes, as the map has them, and outlive the call.
    unsafe { bpf(MAP_UPDATE, &attributes) }.map(drop)
}

/// Loads a program.
pub(super) fn load(code: &[u64]) -> Result<OwnedFd, Errno> {
    let license = c"Dual MIT/GPL";
    let mut name = [0; 16];
    name[..6].copy_from_slice(b"dolmen");
    let attributes = ProgramLoad {
        kind: PROGRAM_XDP,
        instructions: u32::try_from(code.len()).map_err(|_| Errno::E2BIG)?,
        code: address(code.as_ptr()),
        license: address(license.as_ptr()),
        log_level: 0,
        log_bytes: 0,
        log: 0,
        kernel: 0,
        flags: 0,
        name,
        interface: 0,
        attach: ATTACH_XDP,
    };
    // SAFETY: code and licence are borrowed for the call; an instruction is 8 bytes; there is no log.
    descriptor(unsafe { bpf(PROGRAM_LOAD, &attributes) }?)
}

/// Hangs a program on an interface, until the link is dropped.
pub(super) fn link(program: BorrowedFd<'_>, interface: u32, mode: Mode) -> Result<OwnedFd, Errno> {
    let flags = match mode {
        Mode::Native => 1 << 2,
        Mode::Generic => 1 << 1,
    };
    let attributes = LinkCreate { program: program.as_raw_fd(), interface, attach: ATTACH_XDP, flags };
    // SAFETY: no pointers.
    descriptor(unsafe { bpf(LINK_CREATE, &attributes) }?)
}
