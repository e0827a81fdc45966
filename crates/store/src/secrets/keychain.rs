//! The keychain of the desktop as the keeper of the key.
//!
//! It has the key and not the secrets: some keychains hold no more than a few kilobytes in an entry, and none of them lists
//! what it has in the same way. It may be missing, locked or stuck, and each question is given up after a while.

use std::io;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use super::sealed::{Key, random};

const SERVICE: &str = "gladhand";

/// A keychain that takes longer to be there is not.
const PATIENCE: Duration = Duration::from_secs(5);
/// Somebody may have to unlock it.
const UNLOCKING: Duration = Duration::from_secs(60);

/// Whether there is one.
pub(super) fn is_there() -> bool {
    has_bus() && ask(PATIENCE, || keyring::Entry::store_status().as_ref().is_ok().then_some(())).is_some()
}

/// The key of a sealed file.
pub(super) fn find(sealed: &Path) -> Option<Key> {
    let name = sealed.display().to_string();
    if !has_bus() {
        return None;
    }
    ask(UNLOCKING, move || look(&name))
}

/// A new key for a sealed file, or the one that it had before; none if there is no keychain that would have it.
pub(super) fn make(sealed: &Path) -> io::Result<Option<Key>> {
    if !is_there() {
        return Ok(None);
    }
    let (name, key) = (sealed.display().to_string(), Key::new(random()?));
    Ok(ask(UNLOCKING, move || {
        look(&name).or_else(|| {
            let entry = keyring::Entry::new(SERVICE, &name).ok()?;
            entry.set_secret(&*key).ok()?;
            // Some say that they have kept it, and have not.
            look(&name).filter(|kept| *kept == key)
        })
    }))
}

fn look(name: &str) -> Option<Key> {
    let secret = zeroize::Zeroizing::new(keyring::Entry::new(SERVICE, name).ok()?.get_secret().ok()?);
    let mut key = Key::default();
    (secret.len() == key.len()).then(|| key.copy_from_slice(&secret))?;
    Some(key)
}

/// Whether there can be one at all. Without a session bus nobody need be asked.
fn has_bus() -> bool {
    let is_here = || std::env::var_os("XDG_RUNTIME_DIR").is_some_and(|folder| Path::new(&folder).join("bus").exists());
    cfg!(any(windows, target_os = "macos")) || std::env::var_os("DBUS_SESSION_BUS_ADDRESS").is_some() || is_here()
}

/// Asks on a thread of its own, which is left behind if it does not come back.
fn ask<T: Send + 'static>(patience: Duration, question: impl FnOnce() -> Option<T> + Send + 'static) -> Option<T> {
    let (answer, answered) = mpsc::channel();
    std::thread::spawn(move || answer.send(question()));
    answered.recv_timeout(patience).ok().flatten()
}
