//! Where recorded hosts are stood in for: a folder with their skill, their scripts and their configurations.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::replay::{Run, here, text_of};
use crate::support;

/// The token that the recorded hosts were configured with.
pub(super) const TOKEN: &str = "dev-secret";

/// The folder that the recordings call `<CWD>`.
pub(super) struct Stage {
    _folder: TempDir,
    root: PathBuf,
}

impl Stage {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder for a test");
        let root = folder.path().canonicalize().expect("it is there");
        for name in ["ws", "data", "skills/summarise"] {
            std::fs::create_dir_all(root.join(name)).expect("the folder is new");
        }
        for (file, to) in
            [("skill.md", "skills/summarise/skill.md"), ("mcp_srv.py", "mcp_srv.py"), ("push_env.py", "push_env.py")]
        {
            std::fs::copy(here("hosts").join(file), root.join(to)).expect("the folder is there");
        }
        Self { _folder: folder, root }
    }

    /// A recording, played to `gladhand serve` as a host of `hosts/` is configured, with data of its own.
    pub(super) fn host(&self, host: &str, file: &'static str) -> Run {
        let fixture = support::example("fixture").get_program().to_string_lossy().into_owned();
        let text = text_of(&here(&format!("hosts/{host}.toml")));
        let text = text.replace("<CWD>", &shown(&self.root)).replace("<FIXTURE>", &fixture);
        let config = self.root.join(format!("{host}.toml"));
        std::fs::write(&config, text.replace("<TOOLBOXES>", &shown(&here("toolboxes")))).expect("there is room");
        let mut command = self.with_data(crate::serve(), file);
        command.arg("--config").arg(config).env("GLADHAND_A2E_TOKEN", TOKEN);
        // No model, unless a test has one.
        command.env("GLADHAND_OLLAMA_BASE", "").env("GLADHAND_LLAMACPP_BASE", "");
        let names = [
            ("<CWD>", shown(&self.root)),
            ("<PYTHON>", "python3".to_owned()),
            ("file:///workspace", format!("file://{}", shown(&self.root.join("ws")))),
        ];
        let names: BTreeMap<_, _> = names.map(|(recorded, ours)| (recorded.to_owned(), ours)).into();
        Run { names, ..Run::new(file, command) }
    }

    /// A recording, played to `gladhand serve` as it is without a configuration and a token.
    pub(super) fn bare(&self, file: &'static str) -> Run {
        Run::new(file, self.with_data(crate::serve(), file))
    }

    fn with_data(&self, mut command: Command, file: &str) -> Command {
        command.env("GLADHAND_DATA_DIR", self.root.join("data").join(file)).current_dir(&self.root);
        command
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
