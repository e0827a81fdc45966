//! Walks folders with their ignore files (`.ignore`, `.gitignore`), but reads only plain ones.
//!
//! An untrusted folder may contain an ignore file that is a link to a device, which a walk would read without end. This
//! crate decides which ignore files a walk reads. It does not walk, and the caller sets all other options of the walk.
//! [`Secrets`] is the rule of a caller for files that are not read at all.

mod secrets;

use std::fs::Metadata;
use std::path::Path;

use ignore::{DirEntry, WalkBuilder};

pub use secrets::Secrets;

/// The names of ignore files.
const NAMES: [&str; 2] = [".ignore", ".gitignore"];

/// Maximum size of a plain ignore file, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Configures a walk that begins at the real path `root`: it reads only plain ignore files, and returns only entries
/// that `keeps` accepts.
///
/// A folder below `root` with an ignore file that is not plain is left out. If `root` or a folder above it has one, the
/// walk reads no ignore files at all.
pub fn use_plain(builder: &mut WalkBuilder, root: &Path, keeps: impl Fn(&DirEntry) -> bool + Send + Sync + 'static) {
    let are_plain = root.ancestors().all(has_plain);
    builder.git_exclude(false).git_ignore(are_plain).ignore(are_plain);
    builder.filter_entry(move |entry| {
        let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
        entry.depth() == 0 || keeps(entry) && (!is_folder || !are_plain || has_plain(entry.path()))
    });
}

/// Whether all ignore files of a folder are regular files within the size limit.
fn has_plain(folder: &Path) -> bool {
    let is_plain = |about: Metadata| about.is_file() && about.len() <= MAX_BYTES;
    NAMES.iter().all(|name| folder.join(name).symlink_metadata().map_or(true, is_plain))
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn walked(root: &Path) -> Vec<String> {
        let mut builder = WalkBuilder::new(root);
        builder.require_git(false).sort_by_file_name(std::ffi::OsStr::cmp);
        use_plain(&mut builder, root, |entry| entry.file_name() != "left");
        let below = |entry: DirEntry| entry.path().strip_prefix(root).ok().map(|path| path.display().to_string());
        builder.build().flatten().filter_map(below).filter(|path| !path.is_empty()).collect()
    }

    #[test]
    fn a_walk_reads_only_plain_ignore_files() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for inner in ["a", "b", "left"] {
            std::fs::create_dir(root.join(inner)).unwrap();
            std::fs::write(root.join(inner).join("file"), "").unwrap();
        }
        std::fs::write(root.join("ignored"), "").unwrap();
        std::fs::write(root.join(".gitignore"), "ignored\n").unwrap();
        assert_eq!(walked(&root), ["a", "a/file", "b", "b/file"]);
        symlink("/dev/zero", root.join("b/.ignore")).unwrap();
        assert_eq!(walked(&root), ["a", "a/file"], "a folder with an endless ignore file is left out");
        symlink("/dev/zero", root.join(".ignore")).unwrap();
        assert_eq!(walked(&root), ["a", "a/file", "b", "b/file", "ignored"], "no ignore file is read");
        assert_eq!(walked(&root.join("b")), ["file"]);
    }
}
