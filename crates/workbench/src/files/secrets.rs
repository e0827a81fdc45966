//! Which files may hold secrets, by where they are and what they are called.
//!
//! The lists name places that common programs use. Callers pass real paths; `bounds` resolves links and finds second names of
//! files.

use std::path::{Component, Path};

/// Places of the system: its state, its devices and its protected files.
const SYSTEM: [&str; 12] = [
    "/proc",
    "/sys",
    "/dev",
    "/etc/shadow",
    "/etc/gshadow",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssl/private",
    "/etc/ssh",
    "/run/secrets",
    "/run/user",
    "/var/run/secrets",
];

/// Folders that hold keys, logins or cookies, wherever they are. Each is one or more components.
pub(super) const FOLDERS: [&str; 23] = [
    ".ssh",
    ".aws",
    ".azure",
    ".gnupg",
    ".kube",
    ".password-store",
    ".mozilla",
    ".thunderbird",
    ".oci",
    ".config/gladhand",
    ".config/gcloud",
    ".config/gh",
    ".config/op",
    ".config/sops",
    ".config/rclone",
    ".config/google-chrome",
    ".config/chromium",
    ".config/BraveSoftware",
    ".local/share/keyrings",
    "Library/Keychains",
    "Library/Application Support/Google/Chrome",
    "Library/Application Support/Firefox",
    "Library/Application Support/gladhand",
];

/// Files that hold keys or logins, wherever they are. Each is one or more components.
pub(super) const FILES: [&str; 22] = [
    ".netrc",
    "_netrc",
    ".npmrc",
    ".yarnrc.yml",
    ".pypirc",
    ".git-credentials",
    ".config/git/credentials",
    ".pgpass",
    ".my.cnf",
    ".dockercfg",
    ".docker/config.json",
    ".boto",
    ".s3cfg",
    ".vault-token",
    ".htpasswd",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".terraform.d/credentials.tfrc.json",
    ".terraformrc",
    "kubeconfig",
    "secrets.sealed",
];

/// Endings of files that hold keys.
const ENDINGS: [&str; 9] = [".pem", ".key", ".p12", ".pfx", ".pkcs12", ".jks", ".keystore", ".kdbx", ".ppk"];

/// How SSH names its keys.
const SSH_KEYS: [&str; 4] = ["id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"];

/// Endings of files of variables that are made to be shown.
const SHOWN: [&str; 5] = [".example", ".sample", ".template", ".dist", ".defaults"];

/// Whether a file or folder at a real path may hold secrets, by its place or its name.
pub fn may_hold_secrets(real: &Path) -> bool {
    let is_of_system = SYSTEM.iter().any(|place| real.starts_with(place));
    is_of_system || is_below_any(real) || is_named(real)
}

/// Folders and files of a workspace that say which programs run: hooks, settings of editors, servers of agents.
const STEERING: [&str; 12] = [
    ".git",
    ".gitmodules",
    ".husky",
    ".vscode",
    ".idea",
    ".cursor",
    ".agents",
    ".claude",
    ".mcp.json",
    ".envrc",
    ".npmrc",
    "gladhand.toml",
];

/// Whether a path below a workspace says which programs run.
pub(crate) fn steers_programs(below: &Path) -> bool {
    below.iter().any(|part| STEERING.iter().any(|name| part.eq_ignore_ascii_case(name)))
}

/// Whether a real path shows the memory or the environment of a process, this one among them.
pub(crate) fn shows_process(real: &Path) -> bool {
    real.starts_with("/proc")
        && real.file_name().is_some_and(|name| ["environ", "mem", "auxv"].iter().any(|it| name == *it))
}

fn is_below_any(real: &Path) -> bool {
    let components: Vec<Component<'_>> = real.components().collect();
    // The components of a folder follow each other somewhere in the path.
    let contains = |folder: &&str| {
        let wanted = || Path::new(folder).components();
        components.windows(wanted().count()).any(|part| wanted().eq(part.iter().copied()))
    };
    FOLDERS.iter().any(contains) || FILES.iter().any(|file| real.ends_with(file))
}

fn is_named(real: &Path) -> bool {
    let Some(name) = real.file_name() else { return false };
    let name = name.to_string_lossy().to_ascii_lowercase();
    let is_environment = name == ".env" || name == ".envrc" || name.starts_with(".env.");
    let is_ssh_key = SSH_KEYS.iter().any(|key| name.starts_with(key)) && !name.ends_with(".pub");
    is_environment && !SHOWN.iter().any(|end| name.ends_with(end))
        || is_ssh_key
        || ENDINGS.iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_known_by_place_and_by_name() {
        for secret in [
            "/proc/1/environ",
            "/sys/kernel",
            "/dev/mem",
            "/etc/shadow",
            "/home/u/.ssh",
            "/home/u/.ssh/config",
            "/home/u/.config/gladhand/gladhand.toml",
            "/home/u/.docker/config.json",
            "/srv/app/.env",
            "/srv/app/.env.production",
            "/srv/app/tls/server.PEM",
            "/srv/app/id_ed25519",
            "/home/u/.cargo/credentials.toml",
        ] {
            assert!(may_hold_secrets(Path::new(secret)), "{secret}");
        }
        for plain in [
            "/srv/app/src/main.rs",
            "/srv/app/.env.example",
            "/srv/app/id_ed25519.pub",
            "/srv/app/id_map.rs",
            "/srv/process/environ",
            "/srv/app/.docker/Dockerfile",
            "/srv/app/keys.rs",
        ] {
            assert!(!may_hold_secrets(Path::new(plain)), "{plain}");
        }
        assert!(shows_process(Path::new("/proc/12/task/13/environ")) && !shows_process(Path::new("/srv/environ")));
    }
}
