//! `[record]`: one recording for each process, in a folder that keeps the newest.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use gladhand_core::Order as _;
use gladhand_session::tap::Tap;

use super::files::{OLDER_PARTS, is_being_written, numbered};
use super::tapped::TapRecording;
use super::{Existing, FileRecorder, Masks, NotRecorded};
use crate::config::RecordConfig;
use crate::utc;

/// Number of recordings that the folder keeps.
const KEPT: usize = 20;

/// The names of recordings in the folder.
const PREFIX: &str = "gladhand-";
const SUFFIX: &str = ".jsonl";

/// Starts to record everything that passes a tap. `None` if the configuration does not ask for it.
pub(crate) fn start(config: &RecordConfig, tap: &Arc<Tap>) -> Result<Option<TapRecording>, NotRecorded> {
    let Some(folder) = &config.folder else { return Ok(None) };
    let masks = Masks::of(&config.mask)?;
    let path = folder.join(format!("{PREFIX}{}-{}{SUFFIX}", utc::now().replace(':', "-"), std::process::id()));
    if let Err(error) = delete_old(folder) {
        tracing::warn!(folder = %folder.display(), %error, "old recordings could not be deleted");
    }
    let recorder = FileRecorder::begin(&path, Existing::Refuse, &[], config.max_mib, masks)?;
    tracing::info!(file = %path.display(), "recording all sessions");
    TapRecording::start(tap, recorder).map(Some).map_err(|error| NotRecorded::File { path, error })
}

/// Deletes recordings until there is a place for one more. Those that were written last stay, and those that a process
/// still writes.
fn delete_old(folder: &Path) -> io::Result<()> {
    let mut recordings: Vec<(SystemTime, PathBuf)> = Vec::new();
    for entry in fs_err::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_ours = name.to_str().is_some_and(|name| name.starts_with(PREFIX) && name.ends_with(SUFFIX));
        let metadata = entry.metadata()?;
        if is_ours && metadata.is_file() {
            recordings.push((metadata.modified()?, entry.path()));
        }
    }
    recordings.order();
    let excess = (recordings.len() + 1).saturating_sub(KEPT);
    let ended = recordings.into_iter().take(excess).filter(|(_, path)| !is_being_written(path));
    for (_, path) in ended {
        for part in (1..=OLDER_PARTS).map(|number| numbered(&path, number)).filter(|part| part.exists()) {
            fs_err::remove_file(part)?;
        }
        fs_err::remove_file(path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_recording_that_is_still_written_is_not_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let live = super::super::files::begin_part(&at("gladhand-0.jsonl"), 1).unwrap();
        fs_err::write(at("gladhand-1.jsonl"), "").unwrap();
        for number in 2..=KEPT {
            fs_err::write(at(&format!("gladhand-{number}.jsonl")), "").unwrap();
        }
        let old = SystemTime::UNIX_EPOCH;
        live.file().set_modified(old).unwrap();
        let ended = fs_err::OpenOptions::new().write(true).open(at("gladhand-1.jsonl")).unwrap();
        ended.file().set_modified(old).unwrap();
        delete_old(folder.path()).unwrap();
        assert!(at("gladhand-0.jsonl").exists() && !at("gladhand-1.jsonl").exists());
        drop(live);
        fs_err::write(at("gladhand-1.jsonl"), "").unwrap();
        delete_old(folder.path()).unwrap();
        assert!(!at("gladhand-0.jsonl").exists(), "its process has ended");
    }

    #[test]
    fn the_folder_keeps_the_newest_recordings_and_other_files() {
        let folder = tempfile::tempdir().unwrap();
        let count = || fs_err::read_dir(folder.path()).unwrap().count();
        fs_err::write(folder.path().join("notes.jsonl"), "").unwrap();
        let config = RecordConfig { folder: Some(folder.path().to_owned()), ..RecordConfig::default() };
        for number in 0..KEPT + 3 {
            let old = folder.path().join(format!("gladhand-{number}.jsonl"));
            fs_err::write(&old, "").unwrap();
            fs_err::write(numbered(&old, 1), "").unwrap();
        }
        let tap = Arc::default();
        let recording = start(&config, &tap).unwrap().unwrap();
        assert_eq!(count(), 2 * (KEPT - 1) + 2);
        drop(recording);
        assert!(!tap.is_on());
        assert!(start(&RecordConfig::default(), &tap).unwrap().is_none());
        let missing = RecordConfig { folder: Some(folder.path().join("missing")), ..RecordConfig::default() };
        assert!(start(&missing, &tap).is_err());
    }
}
