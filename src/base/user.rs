//! The user that the process runs as.

use nix::unistd::{Uid, User, initgroups, setgid, setuid};
use std::ffi::CString;

/// Gives up the rights of root for those of a user; nothing if they are not there to be given up.
///
/// # Errors
/// If there is no such user, or the system refuses.
pub fn become_user(name: &str) -> Result<(), String> {
    if !Uid::effective().is_root() {
        return Ok(());
    }
    let user =
        User::from_name(name).ok().flatten().ok_or_else(|| format!("can't find the user '{name}' to switch to"))?;
    let group_name = CString::new(name).map_err(|_| "a user's name has no NUL byte".to_string())?;
    let refused = |error: nix::errno::Errno| format!("cannot become the user '{name}': {error}");
    initgroups(&group_name, user.gid).map_err(refused)?;
    setgid(user.gid).map_err(refused)?;
    setuid(user.uid).map_err(refused)
}
