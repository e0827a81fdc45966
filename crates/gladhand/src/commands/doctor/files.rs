//! Our files: whether they can be written, and who else can read or change them.

use std::error::Error as _;
use std::ops::Range;
use std::path::Path;

use gladhand_redaction::{places_in_header, places_in_variable, redact_settings};
use gladhand_store::Database;

use super::Finding;
use crate::config::{self, MASK, Reading};

/// Whether a file contains secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// Nothing that others may not see.
    Open,
    /// Secrets.
    Secret,
}

impl Content {
    /// Secrets are in a configuration if some of it is masked when it is shown. A variable or header of an upstream is one only
    /// if its name or its value looks like one.
    pub(super) fn of_configuration(text: &str) -> Self {
        let Ok(mut config) = config::parse(text, Reading::AsWritten) else { return Self::Open };
        for (_, upstream) in &mut config.upstreams.0 {
            let is_secret = |places: fn(&str, &str) -> Vec<Range<usize>>| {
                move |name: &String, value: &mut config::Hidden| !places(name, value.0.expose()).is_empty()
            };
            upstream.env.retain(is_secret(places_in_variable));
            upstream.headers.retain(is_secret(places_in_header));
        }
        let shown = serde_json::to_value(&config).map(|mut shown| {
            redact_settings(&mut shown);
            shown.to_string()
        });
        if shown.is_ok_and(|shown| shown.contains(MASK)) { Self::Secret } else { Self::Open }
    }
}

/// Reports a file that other users can read or change and should not.
pub(super) fn permissions(about: &str, path: &Path, content: Content) -> Option<Finding> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(path).ok()?.permissions().mode();
        let advice = |change: &str| format!("chmod {change} {}", path.display());
        if mode & 0o022 != 0 {
            let message = format!("others can change {}, and so what is started", path.display());
            return Some(Finding::broken(about, message, advice("go-w")));
        }
        if mode & 0o044 != 0 && content == Content::Secret {
            let message = format!("others can read {}, and it holds secrets", path.display());
            return Some(Finding::doubtful(about, message, advice("go=")));
        }
    }
    #[cfg(not(unix))]
    let _ = (about, path, content);
    None
}

/// The data folder and what is in it.
pub(super) fn data_folder(folder: Option<&Path>) -> Vec<Finding> {
    let about = "data folder";
    let Some(folder) = folder else {
        return vec![Finding::broken(about, "there is no home folder", "set GLADHAND_DATA_DIR")];
    };
    let trial = folder.join(format!(".doctor-{}", std::process::id()));
    // It is made when it is needed, and that it can be made is what matters.
    let existed = folder.exists();
    let written = gladhand_store::make_folder(folder).and_then(|()| fs_err::write(&trial, b""));
    let _ = std::fs::remove_file(&trial);
    if !existed {
        let _ = std::fs::remove_dir(folder);
    }
    if let Err(error) = written {
        return vec![Finding::broken(about, error.to_string(), "make it writable, or name another with --data-dir")];
    }
    let mut findings = vec![Finding::fine(about, folder.display().to_string())];
    findings.extend(permissions(about, folder, Content::Open));
    for file in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = file.file_name();
        let name = name.to_string_lossy();
        if ["token", "secret", "key"].iter().any(|word| name.contains(word)) {
            findings.extend(permissions(about, &file.path(), Content::Secret));
        }
    }
    findings
}

/// The database of memory, learning and planning, if there is one yet.
pub(super) fn database(folder: &Path) -> Option<Finding> {
    let about = "database";
    match Database::examine(folder) {
        Ok(false) => None,
        Ok(true) => Some(Finding::fine(about, Database::file(folder).display().to_string())),
        Err(error) => {
            let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
            Some(Finding::broken(about, format!("{error}{cause}"), error.hint()))
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::super::State;
    use super::*;

    #[test]
    fn files_with_permissions_for_other_users_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tokens.json");
        std::fs::write(&file, "").unwrap();
        let states = |mode: u32| {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            data_folder(Some(folder.path())).iter().map(|finding| finding.state).collect::<Vec<_>>()
        };
        assert_eq!(states(0o600), [State::Fine]);
        assert_eq!(states(0o644), [State::Fine, State::Doubtful]);
        assert_eq!(states(0o666), [State::Fine, State::Broken]);
    }

    #[test]
    fn an_unwritable_data_folder_is_broken_and_a_missing_one_is_not_created() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert_eq!(data_folder(Some(&file.join("data")))[0].state, State::Broken);
        let new = folder.path().join("new");
        assert_eq!(data_folder(Some(&new))[0].state, State::Fine);
        assert!(!new.exists());
    }

    #[test]
    fn a_database_is_whole_or_damaged_and_is_not_made() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(database(folder.path()), None);
        drop(Database::open(folder.path()).unwrap());
        assert_eq!(database(folder.path()).unwrap().state, State::Fine);
        std::fs::write(Database::file(folder.path()), "dear diary, ".repeat(500)).unwrap();
        let finding = database(folder.path()).unwrap();
        assert_eq!(finding.state, State::Broken);
        assert!(finding.message.ends_with("gladhand.db is damaged or not a database"), "{finding:?}");
        assert!(finding.advice.unwrap().contains("start with an empty database"));
    }

    #[test]
    fn only_secrets_in_clear_are_secrets() {
        let open = "[upstreams.a]\ncommand = 'a'\nenv = { T = '${secret:t}' }\n";
        assert_eq!(Content::of_configuration(open), Content::Open);
        let variable = |line: &str| Content::of_configuration(&format!("[upstreams.a]\ncommand = 'a'\n{line}\n"));
        assert_eq!(variable("env = { REGION = 'eu-west-1', LEVEL = 'debug' }"), Content::Open);
        assert_eq!(variable("env = { API_KEY = 'x' }"), Content::Secret);
        assert_eq!(variable("env = { DB = 'postgres://ann:hush@db/x' }"), Content::Secret);
        let header = |line: &str| Content::of_configuration(&format!("[upstreams.a]\nurl = 'https://a/'\n{line}\n"));
        assert_eq!(header("headers = { X-Region = 'eu-west-1' }"), Content::Open);
        assert_eq!(header("headers = { Authorization = 'Bearer hush' }"), Content::Secret);
        assert_eq!(Content::of_configuration("[a2e]\ntokens = ['x']\n"), Content::Secret);
        let argument = "[upstreams.a]\ncommand = ['a', '--token', 'x']\n";
        assert_eq!(Content::of_configuration(argument), Content::Secret);
    }
}
