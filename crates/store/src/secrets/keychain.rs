//! Stores the key in the keychain of the desktop.
//!
//! The keychain holds the key, not the secrets: some keychains limit an entry to a few kilobytes, and each lists
//! its entries in a different way. A keychain can be missing, locked or stuck, so each request has a timeout.

use std::io;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use super::sealed::{Key, random};

const SERVICE: &str = "gladhand";

/// A keychain that does not respond within this time counts as absent.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The user may have to unlock the keychain.
const UNLOCK_TIMEOUT: Duration = Duration::from_secs(60);

/// Whether a keychain is available.
pub(super) fn is_there() -> bool {
    has_bus() && run_with_timeout(TIMEOUT, || keyring::Entry::store_status().as_ref().is_ok().then_some(())).is_some()
}

/// The key of a sealed file.
pub(super) fn find(sealed: &Path) -> Option<Key> {
    let name = sealed.display().to_string();
    if !has_bus() {
        return None;
    }
    run_with_timeout(UNLOCK_TIMEOUT, move || look(&name))
}

/// Creates a key for a sealed file, or returns its existing one. `None` if no keychain can store it.
pub(super) fn make(sealed: &Path) -> io::Result<Option<Key>> {
    if !is_there() {
        return Ok(None);
    }
    let (name, key) = (sealed.display().to_string(), Key::new(random()?));
    Ok(run_with_timeout(UNLOCK_TIMEOUT, move || {
        look(&name).or_else(|| {
            let entry = keyring::Entry::new(SERVICE, &name).ok()?;
            entry.set_secret(&*key).ok()?;
            // Some keychains report success without storing the key.
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

/// Whether a keychain can exist at all. Without a session bus, asking is pointless.
fn has_bus() -> bool {
    let is_here = || std::env::var_os("XDG_RUNTIME_DIR").is_some_and(|folder| Path::new(&folder).join("bus").exists());
    cfg!(any(windows, target_os = "macos")) || std::env::var_os("DBUS_SESSION_BUS_ADDRESS").is_some() || is_here()
}

/// Runs a request on a thread of its own. If it does not end within the timeout, the thread is abandoned.
fn run_with_timeout<T: Send + 'static>(
    timeout: Duration,
    request: impl FnOnce() -> Option<T> + Send + 'static,
) -> Option<T> {
    let (answer, answered) = mpsc::channel();
    std::thread::spawn(move || answer.send(request()));
    answered.recv_timeout(timeout).ok().flatten()
}
