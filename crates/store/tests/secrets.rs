//! Tests of secrets in a real folder: stored, found, deleted, and never lost through an error.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gladhand_core::Secret;
use gladhand_store::{KeyLocation, SecretError, SecretLocations, Secrets};
use tempfile::TempDir;

/// A data folder and a config folder.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder can be created"))
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("data/secrets.sealed")
    }

    fn key(&self) -> PathBuf {
        self.0.path().join("config/secrets.key")
    }

    fn open(&self) -> Result<Secrets, SecretError> {
        self.open_with(None)
    }

    fn open_with(&self, passphrase: Option<&str>) -> Result<Secrets, SecretError> {
        Secrets::open(SecretLocations {
            data: self.0.path().join("data"),
            config: self.0.path().join("config"),
            passphrase: passphrase.map(Secret::new),
        })
    }

    /// A home with one secret.
    fn furnished(passphrase: Option<&str>) -> Self {
        let home = Self::new();
        home.open_with(passphrase).expect("the secrets can be opened").set("one", Secret::new("hush")).expect("room");
        home
    }
}

fn value(secrets: &Secrets, name: &str) -> Option<String> {
    secrets.get(name).expect("the secret can be read").map(|secret| secret.expose().to_owned())
}

#[test]
fn secrets_are_kept_between_runs_and_listed_without_their_values() {
    let home = Home::new();
    let secrets = home.open().unwrap();
    assert!(secrets.names().unwrap().is_empty() && !home.file().exists(), "listing creates no file");
    secrets.set("two", Secret::new("second")).unwrap();
    secrets.set("one", Secret::new("first")).unwrap();
    secrets.set("two", Secret::new("2 ☃\n")).unwrap();

    let secrets = home.open().unwrap();
    assert_eq!(secrets.names().unwrap(), ["one", "two"]);
    assert_eq!((value(&secrets, "two").as_deref(), value(&secrets, "three")), (Some("2 ☃\n"), None));
    assert!(secrets.remove("one").unwrap() && !secrets.remove("one").unwrap());
    assert_eq!(secrets.names().unwrap(), ["two"]);
    assert_eq!(secrets.key_location().unwrap(), KeyLocation::File);
}

#[test]
fn neither_folder_alone_reveals_anything() {
    let home = Home::furnished(None);
    for file in [home.file(), home.key()] {
        let bytes = fs_err::read(&file).unwrap();
        for word in [&b"hush"[..], b"one"] {
            assert!(!bytes.windows(word.len()).any(|part| part == word), "{}", file.display());
        }
    }
    // Without its key, the file is never changed.
    let before = fs_err::read(home.file()).unwrap();
    let secrets = home.open().unwrap();
    fs_err::remove_file(home.key()).unwrap();
    let error = secrets.set("two", Secret::new("x")).unwrap_err();
    assert!(matches!(error, SecretError::KeyLost { .. }), "{error}");
    assert!(matches!(home.open().unwrap_err(), SecretError::KeyLost { .. }));
    assert_eq!(fs_err::read(home.file()).unwrap(), before);
    assert!(!home.key().exists(), "no new key is created, because it could not decrypt the file");
}

#[test]
fn a_wrong_key_differs_from_damage_and_neither_is_overwritten() {
    let home = Home::furnished(None);
    let (key, sealed) = (fs_err::read(home.key()).unwrap(), fs_err::read(home.file()).unwrap());
    let secrets = home.open().unwrap();
    let complaint = |file: &Path, bytes: &[u8]| {
        fs_err::write(file, bytes).unwrap();
        let before = fs_err::read(home.file()).unwrap();
        let error = secrets.set("two", Secret::new("x")).unwrap_err();
        assert_eq!(error.to_string(), home.open().unwrap_err().to_string());
        assert_eq!(fs_err::read(home.file()).unwrap(), before, "{error}");
        assert!(error.hint("VARIABLE").is_some(), "{error}");
        error
    };
    let error = complaint(&home.key(), &[7; 32]);
    assert!(matches!(error, SecretError::WrongKey { key_location: KeyLocation::File, .. }), "{error}");
    let error = complaint(&home.key(), b"short");
    assert!(matches!(&error, SecretError::Damaged { file, .. } if *file == home.key()), "{error}");
    fs_err::write(home.key(), &key).unwrap();

    let changed = |at: usize, byte: u8| {
        let mut changed = sealed.clone();
        changed[at] = byte;
        changed
    };
    let last = sealed.len() - 1;
    for damaged in [changed(last, !sealed[last]), sealed[..last].to_vec(), sealed[..20].to_vec(), Vec::new()] {
        let error = complaint(&home.file(), &damaged);
        assert!(matches!(error, SecretError::Damaged { .. }), "{error}");
    }
    let error = complaint(&home.file(), &changed(16, 9));
    assert!(matches!(error, SecretError::Newer { version: 9, .. }), "{error}");
    fs_err::write(home.file(), &sealed).unwrap();
    assert_eq!(value(&secrets, "one").as_deref(), Some("hush"));
}

#[test]
fn a_passphrase_needs_no_key_file_and_must_be_the_same_one() {
    let home = Home::furnished(Some("open sesame"));
    assert!(!home.key().exists());
    let secrets = home.open_with(Some("open sesame")).unwrap();
    assert_eq!(
        (value(&secrets, "one").as_deref(), secrets.key_location().unwrap()),
        (Some("hush"), KeyLocation::Passphrase)
    );
    let error = home.open_with(Some("open barley")).unwrap_err();
    assert!(matches!(error, SecretError::WrongKey { key_location: KeyLocation::Passphrase, .. }), "{error}");
    assert!(matches!(home.open().unwrap_err(), SecretError::PassphraseNeeded { .. }));
    let error = Home::furnished(None).open_with(Some("open sesame")).unwrap_err();
    assert!(matches!(error, SecretError::PassphraseUnwanted { .. }), "{error}");
}

#[cfg(unix)]
#[test]
fn files_are_private_and_readable_ones_are_refused() {
    use std::os::unix::fs::PermissionsExt;

    let home = Home::furnished(None);
    for file in [home.file(), home.key()] {
        let mode = |mode| fs_err::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
        assert_eq!(fs_err::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        mode(0o640);
        let error = home.open().unwrap_err();
        assert!(matches!(&error, SecretError::TooOpen { file: open, mode: 0o640 } if *open == file), "{error}");
        mode(0o600);
    }
    assert!(home.open().is_ok());
}

#[test]
fn concurrent_writers_lose_nothing() {
    let home = Arc::new(Home::new());
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let home = Arc::clone(&home);
            std::thread::spawn(move || {
                // Each thread has its own handle, as separate processes have.
                let secrets = home.open().expect("the secrets can be opened");
                for number in 0..8 {
                    secrets.set(&format!("{writer}-{number}"), Secret::new("x")).expect("the lock becomes free");
                }
            })
        })
        .collect();
    for writer in writers {
        writer.join().unwrap();
    }
    assert_eq!(home.open().unwrap().names().unwrap().len(), 32);
}

#[test]
fn names_and_values_have_limits() {
    let home = Home::new();
    let secrets = home.open().unwrap();
    for name in ["", "a\nb", &"n".repeat(3000)] {
        assert!(matches!(secrets.set(name, Secret::new("x")).unwrap_err(), SecretError::BadName));
    }
    let huge = Secret::new("x".repeat(2 * 1024 * 1024));
    assert!(matches!(secrets.set("huge", huge).unwrap_err(), SecretError::TooLong));
    assert!(!home.file().exists());
}

#[test]
fn secrets_do_not_print() {
    let home = Home::furnished(Some("sesame"));
    let secrets = home.open_with(Some("sesame")).unwrap();
    let printed = format!("{secrets:?} {:?}", secrets.get("one").unwrap());
    assert!(printed.contains("[redacted]") && !printed.contains("hush") && !printed.contains("sesame"), "{printed}");
}
