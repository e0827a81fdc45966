//! Where a recording is played: folders of its own, and the environment of the server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine;
use tempfile::TempDir;

use gladhand::config::{Grants, TrustStore};

use crate::support;

/// The picture that the recordings call `(70 bytes)`.
const PICTURE: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// The day of the recordings, as the folders of chats are named.
const DAY: &str = "2026/11/15";

/// As whom we are known where people sign in.
const CLIENT: &str = "client-of-the-replay";

/// The folders of one play.
pub(super) struct Stage {
    folder: TempDir,
    root: PathBuf,
}

impl Stage {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder for a test");
        let root = folder.path().canonicalize().expect("it is there");
        for name in ["home", "work", "data"] {
            std::fs::create_dir(root.join(name)).expect("the folder is new");
        }
        let stage = Self { folder, root };
        // The reference keeps everything in one folder of the home directory.
        let config = format!("[agent]\nfolder = \"{}\"\n", stage.root.join("home/.loaf").display());
        std::fs::write(stage.folder.path().join("gladhand.toml"), config).expect("the folder is there");
        stage
    }

    /// Where the server works.
    pub(super) fn work(&self) -> PathBuf {
        self.root.join("work")
    }

    /// A recorded text with our folders in it. Chats are kept by the day, and the recordings are all of one day.
    pub(super) fn ours(&self, text: &str) -> String {
        let node = node();
        let text = text.replace(&format!("/sessions/{DAY}/"), &format!("/sessions/{}/", self.day()));
        text.replace("<CWD>", &self.path("work")).replace("<HOME>", &self.path("home")).replace("<NODE>", &node)
    }

    /// A text of ours as it would have been recorded.
    pub(super) fn recorded(&self, text: &str, provider: &str) -> String {
        let text = text.replace(&format!("/sessions/{}/", self.day()), &format!("/sessions/{DAY}/"));
        let text = text.replace(&self.path("work"), "<CWD>").replace(&self.path("home"), "<HOME>");
        let text = text.replace(provider, "<PROVIDER>").replace(CLIENT, "<CLIENT_ID>");
        text.replace(&node(), "<NODE>")
    }

    /// The folder of chats that there is.
    fn day(&self) -> String {
        let first = |folder: &Path| Some(std::fs::read_dir(folder).ok()?.next()?.ok()?.path());
        let chats = self.root.join("home/.loaf/sessions");
        let day = first(&chats).and_then(|year| first(&year)).and_then(|month| first(&month));
        day.and_then(|day| Some(day.strip_prefix(&chats).ok()?.display().to_string())).unwrap_or_else(|| DAY.to_owned())
    }

    /// Lays files out, and returns the command that starts the server there.
    pub(super) fn set(&self, files: &BTreeMap<String, String>, provider: &str) -> Command {
        for (path, content) in files {
            self.lay_out(&self.ours(path), content);
        }
        let mut command = support::gladhand();
        command.args(["serve", "--dialect", "loaf", "--approve", "all"]);
        command.current_dir(self.root.join("work"));
        let home = self.path("home");
        for name in ["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"] {
            command.env(name, &home);
        }
        command.env("GLADHAND_CONFIG", self.root.join("gladhand.toml"));
        command.env("GLADHAND_DATA_DIR", self.root.join("data"));
        for (name, path) in [
            ("GLADHAND_OPENROUTER_BASE", "/or"),
            ("GLADHAND_OPENAI_BASE", "/codex"),
            ("GLADHAND_OPENAI_BACKEND_BASE", "/backend"),
            ("GLADHAND_OPENAI_ISSUER", "/issuer"),
            ("GLADHAND_ANTIGRAVITY_BASE", "/cc"),
            ("GLADHAND_GOOGLE_PROFILE_URL", "/profile"),
            ("GLADHAND_GOOGLE_TOKEN_URL", "/gtoken"),
            ("GLADHAND_EXA_BASE", "/exa"),
        ] {
            command.env(name, format!("{provider}{path}"));
        }
        command.env("GLADHAND_OPENAI_CLIENT_ID", CLIENT);
        command.env("GLADHAND_GOOGLE_CLIENT_ID", CLIENT).env("GLADHAND_GOOGLE_CLIENT_SECRET", "hidden");
        command.env("GLADHAND_OLLAMA_BASE", "").env("GLADHAND_LLAMACPP_BASE", "");
        for name in ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENROUTER_API_KEY", "EXA_API_KEY", "DISPLAY", "BROWSER"] {
            command.env_remove(name);
        }
        command
    }

    fn lay_out(&self, path: &str, content: &str) {
        if path.ends_with('/') {
            return std::fs::create_dir_all(path).expect("a folder can be made");
        }
        let path = Path::new(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder can be made");
        let picture = || base64::engine::general_purpose::STANDARD.decode(PICTURE).expect("a picture");
        let bytes = match content {
            "(70 bytes)" => picture(),
            "(8 bytes)" => b"jpegdata".to_vec(),
            "(8388612 bytes)" => vec![0; 8_388_612],
            text => self.ours(text).into_bytes(),
        };
        std::fs::write(path, &bytes).expect("a file can be written");
        // The reference uses every skill; ours must be trusted if it is one of the project.
        if let (true, Ok(text)) = (path.ends_with("SKILL.md"), String::from_utf8(bytes)) {
            let store = TrustStore::in_folder(Some(&self.root.join("data")));
            store.trust(path, &text, Grants::default()).expect("a record can be written");
        }
    }

    fn path(&self, name: &str) -> String {
        self.root.join(name).display().to_string()
    }
}

/// Where Node.js is, which some recordings need.
fn node() -> String {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join("node")).find(|path| path.exists());
    found.expect("Node.js is not installed: `cargo xtask test` brings it").display().to_string()
}
