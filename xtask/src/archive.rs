//! Files in memory, and reproducible archives of them: without owners, in sorted order, and with
//! only the given time.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Cursor, Write};
use std::path::Path;

use anyhow::{Context, Result};
use flate2::{Compression, GzBuilder};
use sha2::{Digest, Sha256};
use tar::{EntryType, Header};
use zip::write::SimpleFileOptions;

/// A file or a folder of an archive.
pub enum Entry {
    File { bytes: Vec<u8>, mode: u32 },
    Folder { mode: u32, owner: u64 },
}

/// Entries by their paths, which have no leading slash.
#[derive(Default)]
pub struct Tree(BTreeMap<String, Entry>);

impl Tree {
    pub fn file(&mut self, path: impl Into<String>, bytes: impl Into<Vec<u8>>) {
        self.0.insert(path.into(), Entry::File { bytes: bytes.into(), mode: 0o644 });
    }

    pub fn program(&mut self, path: impl Into<String>, bytes: impl Into<Vec<u8>>) {
        self.0.insert(path.into(), Entry::File { bytes: bytes.into(), mode: 0o755 });
    }

    pub fn folder(&mut self, path: impl Into<String>, mode: u32, owner: u64) {
        self.0.insert(path.into(), Entry::Folder { mode, owner });
    }

    /// Adds the parent folders of entries. dpkg does not create a folder that the package lacks.
    pub fn folders(&mut self) {
        let missing: BTreeSet<String> = self
            .0
            .keys()
            .flat_map(|path| path.match_indices('/').map(|(end, _)| path[..end].to_owned()))
            .filter(|path| !self.0.contains_key(path))
            .collect();
        missing.into_iter().for_each(|path| self.folder(path, 0o755, 0));
    }

    /// Adds all files below a folder of this machine.
    pub fn read(&mut self, folder: &Path, prefix: &str) -> Result<()> {
        let entries = fs::read_dir(folder).with_context(|| format!("failed to read {}", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
            if entry.file_type()?.is_dir() {
                self.read(&entry.path(), &format!("{path}/"))?;
            } else {
                self.file(path, fs::read(entry.path())?);
            }
        }
        Ok(())
    }

    /// Returns the bytes of the files, by path.
    pub fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().filter_map(|(path, entry)| match entry {
            Entry::File { bytes, .. } => Some((path.as_str(), bytes.as_slice())),
            Entry::Folder { .. } => None,
        })
    }

    /// Returns a tar file. Times are `epoch`, in seconds since 1970.
    pub fn tar(&self, epoch: u64) -> Result<Vec<u8>> {
        let mut tar = tar::Builder::new(Vec::new());
        for (path, entry) in &self.0 {
            let mut header = Header::new_gnu();
            header.set_mtime(epoch);
            header.set_uid(0);
            header.set_gid(0);
            header.set_size(0);
            match entry {
                Entry::File { bytes, mode } => {
                    header.set_mode(*mode);
                    header.set_size(bytes.len() as u64);
                    tar.append_data(&mut header, path, bytes.as_slice())?;
                }
                Entry::Folder { mode, owner } => {
                    header.set_entry_type(EntryType::Directory);
                    header.set_mode(*mode);
                    header.set_uid(*owner);
                    header.set_gid(*owner);
                    tar.append_data(&mut header, format!("{path}/"), std::io::empty())?;
                }
            }
        }
        Ok(tar.into_inner()?)
    }

    pub fn tar_gz(&self, epoch: u64) -> Result<Vec<u8>> {
        gzip(&self.tar(epoch)?)
    }

    /// Returns a zip file. Zip has no times before 1980, so all have that year.
    pub fn zip(&self) -> Result<Vec<u8>> {
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (path, entry) in &self.0 {
            let Entry::File { bytes, mode } = entry else { continue };
            let options = SimpleFileOptions::default()
                .unix_permissions(*mode)
                .last_modified_time(zip::DateTime::default())
                .compression_method(zip::CompressionMethod::Deflated);
            zip.start_file(path.as_str(), options)?;
            zip.write_all(bytes)?;
        }
        Ok(zip.finish()?.into_inner())
    }
}

/// Compresses with gzip, without a name and a time in the header.
pub fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut gzip = GzBuilder::new().mtime(0).write(Vec::new(), Compression::default());
    gzip.write_all(bytes)?;
    Ok(gzip.finish()?)
}

/// Returns the SHA-256 hash in hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(paths: &[&str]) -> Tree {
        let mut tree = Tree::default();
        for path in paths {
            tree.program(*path, *path);
        }
        tree.folder("var", 0o700, 65532);
        tree
    }

    #[test]
    fn archives_depend_on_their_contents_alone() {
        let (one, other) = (tree(&["a", "b"]), tree(&["b", "a"]));
        assert_eq!(one.tar_gz(1).unwrap(), other.tar_gz(1).unwrap());
        assert_eq!(one.zip().unwrap(), other.zip().unwrap());
        assert_ne!(one.tar_gz(1).unwrap(), other.tar_gz(2).unwrap());
    }

    #[test]
    fn a_tar_file_has_owners_and_modes() {
        let bytes = tree(&["a"]).tar(5).unwrap();
        let mut tar = tar::Archive::new(bytes.as_slice());
        let seen: Vec<(String, u32, u64)> = tar
            .entries()
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let header = entry.header();
                assert_eq!(header.mtime().unwrap(), 5);
                let path = entry.path().unwrap().display().to_string();
                (path, header.mode().unwrap(), header.uid().unwrap())
            })
            .collect();
        let expected = [("a", 0o755, 0), ("var/", 0o700, 65532)];
        assert_eq!(seen, expected.map(|(path, mode, owner)| (path.to_owned(), mode, owner)));
    }

    #[test]
    fn a_hash_is_that_of_the_standard() {
        assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
