//! A file that takes the place of another in one step: it is never seen half written, and what was there stays if anything fails.
//!
//! ```text
//!  create   a file beside it, under another name
//!  commit   fsync of the file ─▶ rename ─▶ fsync of the folder, so that the name lasts as well
//!  drop     without a commit: the file beside it goes
//! ```

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// See the module.
pub struct Draft {
    file: File,
    path: PathBuf,
    target: PathBuf,
    committed: bool,
}

impl Draft {
    /// Begins a file named `name` in the folder of `target`, whose place it will take.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create(target: &Path, name: &str) -> io::Result<Draft> {
        let path = target.with_file_name(name);
        Ok(Draft { file: File::create(&path)?, path, target: target.to_owned(), committed: false })
    }

    /// Where it is until it is committed.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// All is written: it becomes the target, and lasts.
    ///
    /// # Errors
    /// If it cannot; the target is as it was then, unless only its new name may not last.
    pub fn commit(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.path, &self.target)?;
        self.committed = true;
        let folder = self.target.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}

impl Write for Draft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.committed {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_or_nothing() {
        let folder = std::env::temp_dir().join(format!("dolmen-draft-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let target = folder.join("it");
        fs::write(&target, "old").unwrap();
        let mut draft = Draft::create(&target, "it.tmp").unwrap();
        draft.write_all(b"new").unwrap();
        let path = draft.path().to_owned();
        assert!(path.exists());
        drop(draft);
        assert!(!path.exists());
        assert_eq!(fs::read(&target).unwrap(), b"old");
        let mut draft = Draft::create(&target, "it.tmp").unwrap();
        draft.write_all(b"new").unwrap();
        draft.commit().unwrap();
        assert!(!path.exists());
        assert_eq!(fs::read(&target).unwrap(), b"new");
        fs::remove_dir_all(&folder).unwrap();
        assert!(Draft::create(&target, "it.tmp").is_err());
    }
}
