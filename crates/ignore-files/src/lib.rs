//! Walks folders with their ignore files (`.ignore`, `.gitignore`), but reads only plain ones.
//!
//! An untrusted folder may contain an ignore file that is a link to a device, which a walk would read without end. This
//! crate decides which ignore files a walk reads. It does not walk, and the caller sets all other options of the walk.
//! [`Secrets`] is the rule of a caller for files that are not read at all. [`glob`] limits the globs of callers.

mod globs;
mod secrets;

use std::io::Read as _;
use std::path::Path;

use gladhand_store::open_regular;
use ignore::{DirEntry, WalkBuilder};

pub use globs::{GlobError, glob, glob_set, override_glob};
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

/// Whether all ignore files of a folder are regular files within the size limit, without a line that is too complex to be
/// parsed. The walk reads the file again, so only a change between the two reads escapes the check.
fn has_plain(folder: &Path) -> bool {
    NAMES.iter().all(|name| {
        let file = folder.join(name);
        let Ok(about) = file.symlink_metadata() else { return true };
        about.is_file() && about.len() <= MAX_BYTES && has_plain_lines(&file)
    })
}

/// A file that cannot be opened has no lines, because the walk cannot open it either.
fn has_plain_lines(file: &Path) -> bool {
    let Ok(file) = open_regular(file) else { return true };
    let mut text = Vec::new();
    let is_read = file.take(MAX_BYTES + 1).read_to_end(&mut text).is_ok() && text.len() as u64 <= MAX_BYTES;
    let is_plain = |line: &[u8]| line.starts_with(b"#") || globs::limit(line).is_ok();
    is_read && text.split(|byte| *byte == b'\n').all(is_plain)
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

    /// Without the check, the parser of globs overflows the stack, which ends the process.
    #[test]
    fn a_walk_reads_no_ignore_file_with_a_line_that_is_too_complex() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for inner in ["a", "b"] {
            std::fs::create_dir(root.join(inner)).unwrap();
            std::fs::write(root.join(inner).join("file"), "").unwrap();
        }
        let nested = format!("{}a{}\n", "{".repeat(100_000), "}".repeat(100_000));
        std::fs::write(root.join(".gitignore"), format!("#{nested}b\n")).unwrap();
        assert_eq!(walked(&root), ["a", "a/file"], "a long comment is plain");
        std::fs::write(root.join(".gitignore"), "").unwrap();
        std::fs::write(root.join("a/.gitignore"), format!("x\n{nested}")).unwrap();
        assert_eq!(walked(&root), ["b", "b/file"]);
        std::fs::write(root.join(".ignore"), &nested).unwrap();
        assert_eq!(walked(&root), ["a", "a/file", "b", "b/file"]);
        assert_eq!(walked(&root.join("a")), ["file"], "the folder above counts too");
    }
}
