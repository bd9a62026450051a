//! The files of the log: the manifest on the disk, and what becomes of the files that it names.
//!
//! Invariant: what the manifest on the disk names is there as a whole, and lasts: files are made, and made to last with their names, before the
//! manifest names them, and deleted when it names them no more.

use super::disk::{Appended, Disk};
use crate::persist::aof::manifest::{Entry, Kind, Manifest};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// See the module.
pub struct Files {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    stem: String,
    pub manifest: Manifest,
}

impl Files {
    /// The files in `folder` whose names begin with `stem`; none, if there is no manifest.
    ///
    /// # Errors
    /// If the manifest cannot be read; says so.
    pub fn find(disk: Arc<dyn Disk>, folder: PathBuf, stem: &str) -> Result<Files, String> {
        let mut files = Files { disk, folder, stem: stem.to_owned(), manifest: Manifest::default() };
        let path = files.manifest_path();
        match files.disk.read(&path) {
            Ok(text) => {
                files.manifest = Manifest::parse(&text).map_err(|why| format!("{}: {why}", path.display()))?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(format!("{}: {error}", path.display())),
        }
        Ok(files)
    }

    fn manifest_path(&self) -> PathBuf {
        self.folder.join(format!("{}.manifest", self.stem))
    }

    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    #[must_use]
    pub fn path(&self, entry: &Entry) -> PathBuf {
        self.folder.join(OsStr::from_bytes(&entry.name))
    }

    /// Is there nothing of it yet?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.manifest.base.is_none() && self.manifest.increments.is_empty()
    }

    /// What is to be read, in order.
    #[must_use]
    pub fn paths(&self) -> Vec<PathBuf> {
        self.manifest.base.iter().chain(&self.manifest.increments).map(|entry| self.path(entry)).collect()
    }

    /// A name for a base file that has not been written.
    pub fn next_base(&mut self, packed: bool) -> Entry {
        let stem = self.stem.clone();
        self.manifest.next_base(&stem, packed)
    }

    /// The first base file, with these bytes; `packed`: they are a snapshot.
    ///
    /// # Errors
    /// As of the file system.
    pub fn begin_base(&mut self, bytes: &[u8], packed: bool) -> io::Result<()> {
        let entry = self.next_base(packed);
        let path = self.path(&entry);
        match self.disk.remove(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        self.write(&path, bytes)?;
        self.manifest.base = Some(entry);
        self.save().inspect_err(|_| self.manifest.base = None)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let (mut file, _) = self.disk.open(path)?;
        let mut rest = bytes;
        while !rest.is_empty() {
            let written = file.append(rest)?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            rest = &rest[written..];
        }
        file.sync()
    }

    /// A file that will follow the increments that there are. `named`: the manifest names it from now on.
    ///
    /// # Errors
    /// As of the file system; the manifest on the disk may name it or not then.
    pub fn begin_increment(&mut self, named: bool) -> io::Result<(Box<dyn Appended>, Entry)> {
        let stem = self.stem.clone();
        let entry = self.manifest.next_increment(&stem);
        let path = self.path(&entry);
        // What a run before has left under a name that was not used.
        match self.disk.remove(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let (file, _) = self.disk.open(&path)?;
        if named {
            self.manifest.increments.push(entry.clone());
            self.save().inspect_err(|_| _ = self.manifest.increments.pop())?;
        }
        Ok((file, entry))
    }

    /// The last increment, to go on with it.
    ///
    /// # Errors
    /// As of the file system.
    pub fn reopen(&mut self) -> io::Result<(Box<dyn Appended>, Entry)> {
        match self.manifest.increments.last().cloned() {
            Some(entry) => Ok((self.disk.open(&self.path(&entry))?.0, entry)),
            None => self.begin_increment(true),
        }
    }

    /// A base file is there that has all that came before the increment `first`, which the manifest may not name yet.
    ///
    /// # Errors
    /// As of the file system; what the manifest names is as it was then.
    pub fn rebase(&mut self, base: Entry, first: Entry) -> io::Result<()> {
        let before = self.manifest.clone();
        if !self.manifest.increments.iter().any(|entry| entry.number == first.number) {
            self.manifest.increments.retain(|entry| entry.number < first.number);
            self.manifest.increments.push(first.clone());
        }
        self.manifest.rebase(base, first.number);
        self.save().inspect_err(|_| self.manifest = before)
    }

    /// Deletes what was replaced.
    ///
    /// # Errors
    /// As of the file system.
    pub fn delete_history(&mut self) -> io::Result<()> {
        if self.manifest.history.is_empty() {
            return Ok(());
        }
        for entry in std::mem::take(&mut self.manifest.history) {
            match self.disk.remove(&self.path(&entry)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    log::warn!("Cannot delete {}: {error}", self.path(&entry).display());
                }
                _ => {}
            }
        }
        self.save()
    }

    /// The manifest becomes what it is here, in one step.
    ///
    /// # Errors
    /// As of the file system.
    pub fn save(&self) -> io::Result<()> {
        // Names of files that were made are to last before they are named.
        self.disk.sync_folder(&self.folder)?;
        let draft = self.folder.join(format!("temp-{}.manifest", self.stem));
        match self.disk.remove(&draft) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        self.write(&draft, &self.manifest.text())?;
        self.disk.rename(&draft, &self.manifest_path())?;
        self.disk.sync_folder(&self.folder)
    }

    /// A file of a version before 7, which is all there is, becomes the base file.
    ///
    /// # Errors
    /// As of the file system.
    pub fn adopt(&mut self, old: &Path) -> io::Result<()> {
        let entry = Entry { name: self.stem.clone().into_bytes(), number: 1, kind: Kind::Base };
        self.manifest.base_number = 1;
        // Should the machine stop in between, the manifest names what is not there yet, and it is moved at the next start.
        self.manifest.base = Some(entry.clone());
        self.save()?;
        self.disk.rename(old, &self.path(&entry))?;
        self.disk.sync_folder(&self.folder)?;
        match old.parent() {
            Some(folder) => self.disk.sync_folder(folder),
            None => Ok(()),
        }
    }
}
