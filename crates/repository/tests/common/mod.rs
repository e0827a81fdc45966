//! Trees that tests look at, and the setting that they do it in.
#![allow(dead_code, reason = "not every test uses everything")]

use std::path::{Path, PathBuf};

use gladhand_repository::{Limits, Places, Recipes, Setting};

/// A folder of the crate.
pub(crate) fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Writes the files of a tree, each behind a line `-- PATH --`, into a folder.
pub(crate) fn write_tree(text: &str, into: &Path) {
    let mut file: Option<(PathBuf, String)> = None;
    let write = |(path, text): (PathBuf, String)| {
        let text = text.as_str();
        let name = path.file_name().expect("files have names").to_string_lossy().into_owned();
        std::fs::create_dir_all(path.parent().expect("files are in folders"))
            .expect("a temporary folder can be written");
        if let Some(name) = name.strip_suffix(".crlf") {
            std::fs::write(path.with_file_name(name), text.replace('\n', "\r\n"))
                .expect("a temporary folder can be written");
        } else if let Some(name) = name.strip_suffix(".utf16") {
            let bytes: Vec<u8> =
                [0xFF, 0xFE].into_iter().chain(text.encode_utf16().flat_map(u16::to_le_bytes)).collect();
            std::fs::write(path.with_file_name(name), bytes).expect("a temporary folder can be written");
        } else {
            std::fs::write(path, text).expect("a temporary folder can be written");
        }
    };
    for line in text.lines() {
        if let Some(path) = line.strip_prefix("-- ").and_then(|rest| rest.strip_suffix(" --")) {
            if let Some(done) = file.replace((into.join(path), String::new())) {
                write(done);
            }
        } else if let Some((_, text)) = &mut file {
            text.push_str(line);
            text.push('\n');
        }
    }
    if let Some(done) = file {
        write(done);
    }
}

/// A tree of the accuracy set or of the samples, in a folder of its own.
pub(crate) fn tree(text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    write_tree(text, folder.path());
    folder
}

/// Runs something with a setting whose working folder is the given one.
pub(crate) fn within<T>(folder: &Path, run: impl FnOnce(&Setting<'_>) -> T) -> T {
    let places = Places { working_folder: folder.canonicalize().expect("the folder is there"), ..Places::default() };
    run(&Setting {
        limits: Limits::default(),
        progress: &(),
        places: &places,
        recipes: &Recipes::shipped(),
        documents: &(),
        now: "2026-01-31T09:15:02.123456+00:00",
    })
}
