//! What a process that we start finds around it: its folder and its variables.

use std::ffi::OsString;
use std::path::PathBuf;

use gladhand_core::Pattern;
use gladhand_core::Secret;
use tokio::process::Command;

/// Variables that every program gets, also one of a project file, and that a project file may refer to without a grant: who
/// and where the user is, how to find programs and folders, the language. They hold no secrets.
pub const PLAIN: &[&str] = &[
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

/// What a process finds around it. By default: what is around us.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// The folder that it starts in; none: ours.
    pub folder: Option<PathBuf>,
    /// Which of our variables it gets; none: all.
    pub inherits: Option<Vec<Pattern>>,
    /// Variables of its own.
    pub variables: Vec<(String, Secret)>,
}

impl Surroundings {
    /// Puts a command into them, without the variables of ours that are named.
    pub(crate) fn surround(&self, command: &mut Command, hidden: &[&str]) {
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        if let Some(patterns) = &self.inherits {
            command.env_clear().envs(kept(std::env::vars_os(), patterns));
        }
        for name in hidden {
            command.env_remove(name);
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value.expose())));
    }
}

/// The variables whose names fit one of the patterns.
fn kept(
    variables: impl Iterator<Item = (OsString, OsString)>,
    patterns: &[Pattern],
) -> impl Iterator<Item = (OsString, OsString)> {
    variables.filter(|(name, _)| name.to_str().is_some_and(|name| patterns.iter().any(|pattern| pattern.fits(name))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_fits_is_inherited() {
        let usual: Vec<_> = usual().map(|name| Pattern(name.to_owned())).collect();
        let all = ["PATH", "LC_TIME", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "PATH_TO_KEY", "XDG_DATA_HOME"];
        let variables = all.map(|name| (OsString::from(name), OsString::from("x")));
        let kept: Vec<_> = kept(variables.into_iter(), &usual).map(|(name, _)| name).collect();
        assert_eq!(kept, ["PATH", "LC_TIME", "XDG_DATA_HOME"]);
    }
}
