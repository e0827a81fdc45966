//! The environment of an upstream's program: its working directory and its variables.

use std::path::PathBuf;

use gladhand_core::Pattern;
use gladhand_core::Secret;

/// The environment of an upstream's program.
#[derive(Debug, Clone)]
pub struct ProgramEnvironment {
    /// The folder that it starts in; none: ours.
    pub folder: Option<PathBuf>,
    /// Which of our variables it gets; none: all.
    pub inherits: Option<Vec<Pattern>>,
    /// Variables of its own.
    pub variables: Vec<(String, Secret)>,
}

/// Variables that every program gets, also one of a project file, and that a project file may refer to without a grant: who
/// and where the user is, how to find programs and folders, the language. They hold no secrets.
pub(super) const PLAIN: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "TMPDIR",
    "XDG_*",
    // Windows.
    "Path",
    "PATHEXT",
    "SYSTEMROOT",
    "SystemRoot",
    "SYSTEMDRIVE",
    "SystemDrive",
    "COMSPEC",
    "ComSpec",
    "WINDIR",
    "windir",
    "TEMP",
    "TMP",
    "APPDATA",
    "LOCALAPPDATA",
    "PROGRAMDATA",
    "ProgramData",
    "PROGRAMFILES*",
    "ProgramFiles*",
    "USERNAME",
    "USERPROFILE",
    "HOMEDRIVE",
    "HOMEPATH",
];

/// Variables that programs of the user get beside the plain ones: the terminal, the way to the network and to other programs
/// of the user. Some of them open a door (an SSH agent) or may hold a password (a proxy).
const CONNECTING: &[&str] = &[
    "TERM",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "DBUS_SESSION_BUS_ADDRESS",
    "SSH_AUTH_SOCK",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "DOCKER_HOST",
    "NVM_*",
    "VOLTA_HOME",
    "PYENV_ROOT",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "JAVA_HOME",
    "GOPATH",
];

/// The variables that programs of the user get.
pub fn usual() -> impl Iterator<Item = &'static str> {
    PLAIN.iter().chain(CONNECTING).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_variable_with_a_secret_is_usual() {
        let is_usual = |name: &str| usual().any(|usual| Pattern(usual.to_owned()).fits(name));
        assert!(["PATH", "LC_TIME", "XDG_DATA_HOME"].into_iter().all(is_usual));
        assert!(!["GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "PATH_TO_KEY"].into_iter().any(is_usual));
    }
}
