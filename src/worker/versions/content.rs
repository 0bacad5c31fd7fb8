//! The hash of all that goes into a program.

use std::collections::BTreeMap;
use std::hash::Hasher;
use std::path::Path;
use std::{fs, io};

use super::{Refused, unreadable};

/// Folders that are not part of a source tree.
const LEFT_OUT: [&str; 2] = ["target", ".git"];

/// Fowler–Noll–Vo (FNV-1a) of 64 bits: the same in every release of Rust, and no secret is in it. Names a folder; two contents that
/// meet in it would also have to be of the same version.
#[derive(Clone, Debug)]
struct Fnv(u64);

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// The content so far.
#[derive(Clone, Debug)]
pub struct Content(Fnv);

impl Content {
    /// Nothing.
    pub fn new() -> Self {
        Self(Fnv(0xcbf2_9ce4_8422_2325))
    }

    /// Our own sources: what a program is compiled from, and the versions of what it is linked with.
    pub fn of_sources(folder: &Path) -> Result<Self, Refused> {
        let mut content = Self::new();
        let source = folder.join("src");
        content.add_folder(&source).map_err(|error| unreadable(&source, &error))?;
        for file in ["build.rs", "Cargo.toml", "Cargo.lock"] {
            let path = folder.join(file);
            match fs::read(&path) {
                Ok(bytes) => content.add(&bytes),
                Err(error) if error.kind() == io::ErrorKind::NotFound => content.add(b""),
                Err(error) => return Err(unreadable(&path, &error)),
            }
        }
        Ok(content)
    }

    /// Adds `bytes`, told apart from what stands before and after.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.write(&(bytes.len() as u64).to_le_bytes());
        self.0.write(bytes);
    }

    /// Adds names and bytes of all files under `folder`.
    pub fn add_folder(&mut self, folder: &Path) -> io::Result<()> {
        // Sorted, since a folder lists its entries in any order.
        let mut entries = BTreeMap::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            entries.insert(entry.file_name(), entry.path());
        }
        for (name, path) in entries {
            if LEFT_OUT.iter().any(|left_out| name == *left_out) {
                continue;
            }
            // Follows links; one that leads nowhere is no source.
            let Ok(facts) = fs::metadata(&path) else { continue };
            self.add(name.as_encoded_bytes());
            if facts.is_dir() {
                // A link to a folder may lead in a circle.
                if !path.is_symlink() {
                    self.add(b"/");
                    self.add_folder(&path)?;
                    self.add(b"..");
                }
            } else if facts.is_file() {
                self.add(&fs::read(&path)?);
            }
        }
        Ok(())
    }

    /// 16 hexadecimal digits.
    pub fn hash(&self) -> String {
        format!("{:016x}", self.0.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(folder: &Path) -> String {
        let mut content = Content::new();
        content.add_folder(folder).unwrap();
        content.hash()
    }

    #[test]
    fn the_hash_is_that_of_names_and_bytes_and_of_nothing_else() {
        assert_eq!(
            {
                let mut fnv = Fnv(0xcbf2_9ce4_8422_2325);
                fnv.write(b"foobar");
                fnv.finish()
            },
            0x8594_4171_f739_67e8,
            "as published"
        );
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for folder in [one.path(), two.path()] {
            fs::create_dir_all(folder.join("src/deep")).unwrap();
            fs::write(folder.join("src/deep/a.rs"), "a").unwrap();
            fs::write(folder.join("Cargo.toml"), "b").unwrap();
        }
        assert_eq!(hash(one.path()), hash(two.path()));
        let before = hash(one.path());
        for left_out in LEFT_OUT {
            fs::create_dir(one.path().join(left_out)).unwrap();
            fs::write(one.path().join(left_out).join("x"), "x").unwrap();
        }
        assert_eq!(hash(one.path()), before);
        fs::write(one.path().join("src/deep/a.rs"), "A").unwrap();
        let changed = hash(one.path());
        assert_ne!(changed, before);
        fs::rename(one.path().join("src/deep/a.rs"), one.path().join("src/a.rs")).unwrap();
        assert_ne!(hash(one.path()), changed);
    }
}
