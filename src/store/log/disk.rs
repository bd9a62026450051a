//! What the log asks of a file system: a seam, so that tests can put one in its place that forgets what was not made to last.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

/// A file that is appended to.
pub trait Appended: Send {
    /// Writes some of the bytes, at the end.
    ///
    /// # Errors
    /// As of the file system.
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// What was written lasts when this has returned.
    ///
    /// # Errors
    /// As of the file system; what was written may not last then.
    fn sync(&mut self) -> io::Result<()>;
}

/// See the module.
pub trait Disk: Send + Sync {
    /// Opens a file, which is made if it is not there, to append to it; and its length.
    ///
    /// # Errors
    /// As of the file system.
    fn open(&self, path: &Path) -> io::Result<(Box<dyn Appended>, u64)>;
    /// # Errors
    /// As of the file system.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// # Errors
    /// As of the file system.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// # Errors
    /// As of the file system.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// The names in a folder last when this has returned.
    ///
    /// # Errors
    /// As of the file system.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
}

/// The file system of this machine.
pub struct Machine;

impl Appended for File {
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

impl Disk for Machine {
    fn open(&self, path: &Path) -> io::Result<(Box<dyn Appended>, u64)> {
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        let len = file.metadata()?.len();
        Ok((Box::new(file), len))
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        fs::read(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}
